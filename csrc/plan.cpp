// Finding and replaying plans.
//
// Two tables. Exact: op, form, overload, config epoch, gradient mask, statics, layout ids, syms -> Plan, open addressing, with the last plan of each op
// tried first. Generic, on an exact miss: the same with layout classes and sym classes -> recipes, the first whose guards hold is evaluated into a
// plan. On a generic miss Python compiles; it may run anything, so look-up starts again after it and nothing was promised before.
// Both tables are bounded (`_C.set_plan_cap`) and evict by a clock; plans in use survive eviction by their reference count.
#include "op.h"
#include <cstddef>
#include <unordered_map>

namespace rl {

// ------------------------------------------------------------------------------------------------------------------ keys
// Of an in-place call the destinations are among the tensors already.
static inline int key_size(const Call& c) { return 2 + c.nstatic + c.nt + (RL_UNLIKELY(c.form == 2) ? c.ndest : 0) + c.nsym; }
static inline uint64_t key_head(const Call& c) { return (uint64_t)c.op->id | (uint64_t)c.form << 24 | (uint64_t)c.overload << 26 | g_config_epoch << 34; }

// Statics come first: they hold the lengths of lists, so that the rest of the key can be read in one way only.
static inline int exact_key(const Call& c, uint64_t mask, uint64_t* k) {
  uint64_t* p = k;
  *p++ = key_head(c);
  *p++ = mask;
  for (int i = 0; i < c.nstatic; i++) *p++ = c.static_words[i];
  for (int i = 0; i < c.nt; i++) *p++ = c.t[i] ? c.t[i]->layout->id : 0;
  if (RL_UNLIKELY(c.form == 2)) for (int i = 0; i < c.ndest; i++) *p++ = c.dests[i]->layout->id;
  for (int i = 0; i < c.nsym; i++) *p++ = (uint64_t)c.syms[i];
  return (int)(p - k);
}
static inline uint64_t sym_class(int64_t v) { return v == -1 ? 1 : v < 0 ? 2 : v == 0 ? 3 : v == 1 ? 4 : 5; }
static std::vector<uint64_t> generic_key(const Call& c, uint64_t mask) {
  std::vector<uint64_t> k;
  k.reserve((size_t)key_size(c));
  k.push_back(key_head(c));
  k.push_back(mask);
  k.insert(k.end(), c.static_words, c.static_words + c.nstatic);
  for (int i = 0; i < c.nt; i++) k.push_back(c.t[i] ? (uint64_t)c.t[i]->layout->cls + 1 : 0);
  if (c.form == 2) for (int i = 0; i < c.ndest; i++) k.push_back((uint64_t)c.dests[i]->layout->cls + 1);
  for (int i = 0; i < c.nsym; i++) k.push_back(sym_class(c.syms[i]));
  return k;
}

// ---------------------------------------------------------------------------------------------------------- exact table
struct Slot { uint64_t hash; Plan* plan; };
static std::vector<Slot> g_table(1024, Slot{0, nullptr});
static int64_t g_plans, g_plan_cap = 1 << 16, g_recipes;
static size_t g_hand;

static inline bool same_key(const uint64_t* a, const uint64_t* b, int n) {
  for (int i = 0; i < n; i++) if (a[i] != b[i]) return false;
  return true;
}
static Plan* table_find(const uint64_t* key, int n, uint64_t hash) {
  size_t m = g_table.size() - 1;
  for (size_t i = hash & m; g_table[i].plan; i = (i + 1) & m)
    if (g_table[i].hash == hash && (int)g_table[i].plan->nkey == n && same_key(g_table[i].plan->key, key, n)) return g_table[i].plan;
  return nullptr;
}
static void table_remove(size_t i) {           // closes the gap, so that no tombstones are needed
  Plan* dead = g_table[i].plan;
  size_t m = g_table.size() - 1, hole = i;
  for (size_t j = (i + 1) & m; g_table[j].plan; j = (j + 1) & m) {
    size_t home = g_table[j].hash & m;
    if (((j - home) & m) >= ((j - hole) & m)) { g_table[hole] = g_table[j]; hole = j; }
  }
  g_table[hole] = Slot{0, nullptr};
  --g_plans;
  if (dead->op->last == dead) dead->op->last = nullptr;
  decref(dead);
}
static void table_evict() {
  while (g_plans >= g_plan_cap && g_plans > 0) {
    g_hand &= g_table.size() - 1;
    Plan* p = g_table[g_hand].plan;
    if (p && p->clock) p->clock = 0;
    else if (p) { ++g_stats.evictions; table_remove(g_hand); continue; }        // another plan may have moved here
    ++g_hand;
  }
}
static void table_grow() {
  std::vector<Slot> old(g_table.size() * 2, Slot{0, nullptr});
  old.swap(g_table);
  size_t m = g_table.size() - 1;
  for (Slot& s : old) {
    if (!s.plan) continue;
    size_t i = s.hash & m;
    while (g_table[i].plan) i = (i + 1) & m;
    g_table[i] = s;
  }
}
static bool table_insert(Plan* p, const uint64_t* key, int n, uint64_t hash) {      // takes the reference over
  uint64_t* copy = (uint64_t*)malloc(sizeof(uint64_t) * (size_t)n);
  if (!copy) { decref(p); PyErr_NoMemory(); return false; }
  memcpy(copy, key, sizeof(uint64_t) * (size_t)n);
  p->key = copy;
  p->nkey = (uint32_t)n;
  p->hash = hash;
  p->clock = 1;
  table_evict();
  if ((size_t)(g_plans + 1) * 2 > g_table.size()) table_grow();
  size_t m = g_table.size() - 1, i = hash & m;
  while (g_table[i].plan) i = (i + 1) & m;
  g_table[i] = Slot{hash, p};
  ++g_plans;
  return true;
}

// -------------------------------------------------------------------------------------------------------- generic table
struct Family { std::vector<Recipe*> recipes; bool used = true; };        // recipes: owned, most recently useful first
typedef std::unordered_map<std::vector<uint64_t>, Family, KeyHash> Families;
static Families g_families;
static std::vector<const std::vector<uint64_t>*> g_family_ring;           // the clock's dial: keys stay where they are while their node lives
static size_t g_family_hand;
const size_t MAX_VARIANTS = 64;                                           // recipes of one generic key

static void family_drop(Families::iterator it) {
  std::vector<Recipe*> dead;
  dead.swap(it->second.recipes);
  g_families.erase(it);
  g_recipes -= (int64_t)dead.size();
  for (Recipe* r : dead) Py_DECREF(r);
}
static void families_evict() {
  while ((int64_t)g_families.size() >= g_plan_cap && !g_family_ring.empty()) {
    if (g_family_hand >= g_family_ring.size()) g_family_hand = 0;
    auto it = g_families.find(*g_family_ring[g_family_hand]);
    if (it->second.used) { it->second.used = false; ++g_family_hand; continue; }
    g_family_ring[g_family_hand] = g_family_ring.back();
    g_family_ring.pop_back();
    ++g_stats.recipe_evictions;
    family_drop(it);
  }
}
static void family_add(const std::vector<uint64_t>& key, Recipe* recipe) {    // takes a reference
  auto it = g_families.find(key);
  if (it == g_families.end()) {
    families_evict();
    it = g_families.emplace(key, Family{}).first;
    g_family_ring.push_back(&it->first);
  }
  Family& f = it->second;
  Py_INCREF(recipe);
  f.recipes.insert(f.recipes.begin(), recipe);
  ++g_recipes;
  if (f.recipes.size() <= MAX_VARIANTS) return;
  Recipe* oldest = f.recipes.back();
  f.recipes.pop_back();
  --g_recipes;
  ++g_stats.recipe_evictions;
  Py_DECREF(oldest);
}

// A plan from the recipes of this key. Null: none applies (*failed false) or an error. Interning layouts frees layouts but runs no Python.
static Plan* family_evaluate(const std::vector<uint64_t>& key, const Call& c, uint64_t mask, bool* failed) {
  *failed = false;
  auto it = g_families.find(key);
  if (it == g_families.end()) return nullptr;
  it->second.used = true;
  std::vector<Recipe*>& list = it->second.recipes;
  for (size_t i = 0; i < list.size(); i++) {
    bool applies;
    Recipe* r = list[i];
    Plan* p = plan_evaluate(r, c, mask, &applies);
    if (p) {
      if (i) { list.erase(list.begin() + (std::ptrdiff_t)i); list.insert(list.begin(), r); }
      return p;
    }
    if (applies) { *failed = true; return nullptr; }
  }
  return nullptr;
}

void plans_forget(Op* op) {
  for (size_t i = 0; i < g_table.size();) if (g_table[i].plan && g_table[i].plan->op == op) table_remove(i); else ++i;
  op->last = nullptr;
}

// ------------------------------------------------------------------------------------------------------------- compiling
// The contract's request, and which of the op's signatures the arguments fit: (op, form, grad_mask, params, dests, signature), new.
PyObject* call_request(const Call& c, uint64_t mask) {
  PyObject* params = call_params(c);
  PyObject* dests = nullptr;
  bool good = params != nullptr;
  if (good && c.form) {
    dests = PyList_New(0);
    for (int i = 0; dests && i < c.ndest; i++) {
      PyObject* d = layout_description(c.dests[i]->layout);
      if (!d || PyList_Append(dests, d) < 0) Py_CLEAR(dests);
      Py_XDECREF(d);
    }
    good = dests != nullptr;
  }
  // More than 64 tensor arguments: the mask is all ones (tape.h), which Python sees with as many bits as there are arguments.
  PyObject* bits = nullptr;
  if (good && c.nt > 64 && mask) {
    PyObject *one = PyLong_FromLong(1), *n = PyLong_FromLong(c.nt), *power = one && n ? PyNumber_Lshift(one, n) : nullptr;
    bits = power ? PyNumber_Subtract(power, one) : nullptr;
    Py_XDECREF(one); Py_XDECREF(n); Py_XDECREF(power);
  } else if (good) bits = PyLong_FromUnsignedLongLong(mask);
  PyObject* request = bits ? Py_BuildValue("(OiOOOi)", (PyObject*)c.op, (int)c.form, bits, params, dests ? dests : Py_None, (int)c.overload) : nullptr;
  Py_XDECREF(params); Py_XDECREF(dests); Py_XDECREF(bits);
  return request;
}

static PyObject* compile(const Call& c, uint64_t mask) {       // hooks.compile(*request)
  if (!g_hooks.compile) return raise(PyExc_RuntimeError, "%s: no compiler is installed", c.op->text);
  ++g_stats.compiles;
  PyObject* request = call_request(c, mask);
  PyObject* r = request ? PyObject_CallObject(g_hooks.compile, request) : nullptr;
  Py_XDECREF(request);
  if (r && Py_TYPE(r) != RecipeType) { raise(PyExc_TypeError, "%s: the compiler gave a %s instead of a Recipe", c.op->text, Py_TYPE(r)->tp_name); Py_CLEAR(r); }
  return r;
}

static RL_APART Plan* lookup_slow(Call& c, uint64_t mask) {
  std::vector<uint64_t> key((size_t)key_size(c));
  bool compiled = false;
  for (int attempt = 0; attempt < 8; attempt++) {
    key.resize((size_t)key_size(c));
    int n = exact_key(c, mask, key.data());
    uint64_t hash = hash_key(key.data(), n);
    Plan* p = table_find(key.data(), n, hash);
    if (!p) {
      std::vector<uint64_t> generic = generic_key(c, mask);
      bool failed;
      p = family_evaluate(generic, c, mask, &failed);
      if (failed) return nullptr;
      if (p && !table_insert(p, key.data(), n, hash)) return nullptr;
      if (!p) {
        if (compiled) { raise(PyExc_RuntimeError, "%s: the compiled recipe does not hold for the call that it was made for", c.op->text); return nullptr; }
        PyObject* recipe = compile(c, mask);
        if (!recipe) return nullptr;
        // Python ran: only if the question is still the same is this its answer.
        compiled = generic == generic_key(c, mask);
        if (compiled) family_add(generic, (Recipe*)recipe);
        Py_DECREF(recipe);
        continue;
      }
    } else ++g_stats.table_hits;
    p->clock = 1;
    c.op->last = p;
    return p;
  }
  raise(PyExc_RuntimeError, "%s: the configuration changes while it is being compiled", c.op->text);
  return nullptr;
}

static RL_APART Plan* lookup_in_table(Call& c, uint64_t mask) {
  const int INLINE_KEY = 96;
  uint64_t key[INLINE_KEY];
  if (RL_LIKELY(key_size(c) <= INLINE_KEY)) {
    int n = exact_key(c, mask, key);
    Plan* p = table_find(key, n, hash_key(key, n));
    if (RL_LIKELY(p != nullptr)) { ++g_stats.hits; ++g_stats.table_hits; p->clock = 1; return c.op->last = p; }
  }
  ++g_stats.misses;
  return lookup_slow(c, mask);
}

// Does exact_key of this call give the plan's key? Compared as it would be written.
static inline bool has_key(const Plan* p, const Call& c, uint64_t mask) {
  const uint64_t* k = p->key;
  if ((int)p->nkey != key_size(c) || k[0] != key_head(c) || k[1] != mask) return false;
  k += 2;
  for (const uint64_t *w = c.static_words, *end = w + c.nstatic; w != end; w++) if (*k++ != *w) return false;
  for (Tensor *const *t = c.t, *const *end = t + c.nt; t != end; t++) if (*k++ != (*t ? (*t)->layout->id : 0)) return false;
  if (RL_UNLIKELY(c.form == 2)) for (int i = 0; i < c.ndest; i++) if (*k++ != c.dests[i]->layout->id) return false;
  for (const int64_t *y = c.syms, *end = y + c.nsym; y != end; y++) if (*k++ != (uint64_t)*y) return false;
  return true;
}

Plan* plan_lookup(Call& c, uint64_t mask) {
  Plan* p = c.op->last;
  if (RL_UNLIKELY(!p || !has_key(p, c, mask))) return lookup_in_table(c, mask);
  ++g_stats.hits;
  p->clock = 1;
  return p;
}

// -------------------------------------------------------------------------------------------------------------- replaying
bool raise_status(const Plan* p, int64_t status) {
  int code = (int)(status & 0xff);
  int64_t value = status >> 8;
  const std::vector<ErrorSpec>& errors = p->recipe->parsed->errors;
  if (code < 1 || code > (int)errors.size()) { raise(PyExc_RuntimeError, "%s: a kernel failed with status %lld", p->op->text, (long long)status); return false; }
  std::string text = errors[code - 1].message;
  for (size_t at; (at = text.find("{value}")) != std::string::npos;) text.replace(at, 7, std::to_string(value));
  for (size_t at; (at = text.find("{element}")) != std::string::npos;) text.replace(at, 9, std::to_string(value >> 24));       // of a batch of matrices
  for (size_t at; (at = text.find("{order}")) != std::string::npos;) text.replace(at, 7, std::to_string(value & 0xffffff));
  for (size_t at; (at = text.find("{size}")) != std::string::npos;) text.replace(at, 6, std::to_string(p->error_sizes[code - 1]));
  raise(errors[code - 1].type, "%s", text.c_str());
  return false;
}

static inline char* resolve(const Pointer& p, const Call& c, Storage* const* buffers) {
  switch (p.kind) {
    case RefKind::Arg: return data_ptr(c.t[p.index]) + p.offset;
    case RefKind::Buffer: return buffers[p.index]->data + p.offset;
    default: return data_ptr(c.dests[p.index]) + p.offset;
  }
}

// All steps, in order. No Python state is touched: the GIL may be released. Returns the first non-zero status.
static int64_t run_steps(const Plan* p, char** pointers, const Scalar* scalars, Scalar* room) {
  for (int i = 0; i < p->nsteps; i++) {
    const Step& s = p->steps[i];
    const Scalar* values = scalars;
    if (RL_UNLIKELY(s.scalars != nullptr)) {
      for (int k = 0; k < s.nscalars; k++) room[k] = scalars[s.scalars[k]];
      values = room;
    }
    int64_t status = 0;
    if (s.units > 0) {
      if (!s.parallel && !s.scratch) status = s.kernel(pointers, s.ints, values, nullptr, 0, s.units);
      else status = pool_run(s.kernel, pointers, s.ints, values, s.scratch, s.units, s.grain, s.parallel);
    }
    if (RL_UNLIKELY(status)) return status + s.first_error;
    pointers += s.npointers;
  }
  return 0;
}

// Arrays that are usually short.
template <class T, int N> struct Small {
  T inline_items[N]; T* items = inline_items;
  bool reserve(size_t n) { if (n > (size_t)N) { items = (T*)malloc(n * sizeof(T)); if (!items) { items = inline_items; PyErr_NoMemory(); return false; } } return true; }
  ~Small() { if (items != inline_items) free(items); }
};

bool plan_launch(Plan* p, Call& c, Storage** buffers, bool may_release) {
  g_stats.launches += p->nsteps;
  Small<char*, 48> pointers; Small<Scalar, 16> room;
  if (!pointers.reserve((size_t)p->npointers) || !room.reserve((size_t)p->max_scalars)) return false;
  char** at = pointers.items;
  for (int i = 0; i < p->nsteps; i++) for (int k = 0; k < p->steps[i].npointers; k++) *at++ = resolve(p->steps[i].pointers[k], c, buffers);
  int64_t status;
  if (RL_UNLIKELY(p->draws)) {
    Generator *g = generator_of(c.generator), *before = g_current_generator;
    if (!g) return false;
    g_current_generator = g;
    status = run_steps(p, pointers.items, c.scalars, room.items);
    g_current_generator = before;
    if (PyErr_Occurred()) return false;
  } else if (RL_UNLIKELY(p->big) && may_release) {
    // Other threads may drop tensors meanwhile: the storages themselves are held.
    Small<Storage*, 32> held;
    int n = 0;
    if (!held.reserve((size_t)(c.nt + c.ndest))) return false;
    for (int i = 0; i < c.nt; i++) if (c.t[i]) { held.items[n++] = c.t[i]->storage; incref(c.t[i]->storage); }
    for (int i = 0; i < c.ndest; i++) { held.items[n++] = c.dests[i]->storage; incref(c.dests[i]->storage); }
    Py_BEGIN_ALLOW_THREADS
    status = run_steps(p, pointers.items, c.scalars, room.items);
    Py_END_ALLOW_THREADS
    for (int i = 0; i < n; i++) decref(held.items[i]);
  } else status = run_steps(p, pointers.items, c.scalars, room.items);
  return status == 0 || raise_status(p, status);
}

static RL_APART PyObject* view_output(const Output& o, Tensor* base) {
  incref(o.layout);
  // Nothing is recorded of it: no more than the memory and its version are shared.
  if (o.layout->dtype != base->layout->dtype || (!(tls.grad_mode && base->requires_grad) && !base->version)) {
    incref(base->storage);
    Tensor* out = tensor_wrap(o.layout, base->storage, base->offset + o.offset);
    if (out) out->bits |= base->bits & T_INFERENCE;
    return (PyObject*)out;
  }
  ViewSpec spec{ViewKind::AsStrided, {}};
  int n = o.layout->ndim;
  spec.ints.push_back(n);
  spec.ints.insert(spec.ints.end(), o.layout->d, o.layout->d + 2 * n);
  int64_t offset = base->offset + o.offset;
  spec.ints.push_back(offset / itemsize(o.layout->dtype));
  return (PyObject*)make_view(base, std::move(spec), o.layout, offset);
}

static PyObject* make_output(Plan* p, const Output& o, Call& c, Storage** buffers) {
  switch (o.kind) {
    case RefKind::Buffer: {
      Layout* l = p->buffers[o.index].layout;
      incref(l);
      incref(buffers[o.index]);
      return (PyObject*)tensor_wrap(l, buffers[o.index], 0);
    }
    case RefKind::Arg: return Py_NewRef((PyObject*)c.t[o.index]);
    case RefKind::Dest: return Py_NewRef((PyObject*)c.dests[o.index]);
    case RefKind::View: return view_output(o, c.t[o.index]);
    case RefKind::None: return nullptr;
  }
  return nullptr;
}

// Wrap what ran (or was recorded), bump what was written, record on the tape. `buffers` stay the caller's.
int plan_outputs(Plan* p, Call& c, Storage** buffers, PyObject** outs, int max) {
  if (p->nouts > max) { raise(PyExc_RuntimeError, "%s: %d results, room for %d", c.op->text, p->nouts, max); return -1; }
  if (c.form) for (int i = 0; i < c.ndest; i++) bump_version(c.dests[i]);
  int n = 0;
  bool good = true;
  for (; n < p->nouts; n++) {
    outs[n] = make_output(p, p->outs[n], c, buffers);
    if (!outs[n] && p->outs[n].kind != RefKind::None) { good = false; break; }
    if (RL_UNLIKELY(tls.guard & G_INFERENCE) && outs[n] && p->outs[n].kind == RefKind::Buffer) ((Tensor*)outs[n])->bits |= T_INFERENCE;
  }
  if (good && p->backward_op) {
    Small<Storage*, 8> hidden;
    good = hidden.reserve((size_t)p->nhidden);
    if (good) {
      for (int h = 0; h < p->nhidden; h++) { hidden.items[h] = buffers[p->hidden[h]]; incref(hidden.items[h]); }
      good = tape_record(p, c, outs, n, hidden.items);
    }
  }
  if (good) return n;
  for (int i = 0; i < n; i++) Py_XDECREF(outs[i]);
  return -1;
}

// Is one of the tensors' storages still to be computed, or read by what is?
static inline uint8_t flags_of(Tensor* const* t, int n) {
  uint8_t flags = 0;
  for (Tensor* const* end = t + n; t != end; t++) if (*t) flags |= (*t)->storage->flags;
  return flags;
}
static inline bool any_pending(const Call& c) {
  return (flags_of(c.t, c.nt) | flags_of(c.dests, c.ndest)) & (ST_PENDING | ST_READ);
}

static int run_general(Plan* p, Call& c, PyObject** outs, int max) {
  Small<Storage*, 16> buffers;
  if (!buffers.reserve((size_t)p->nbuffers)) return -1;
  int made = 0, n = -1;
  for (; made < p->nbuffers; made++) {
    Storage* s = storage_new(p->buffers[made].bytes, p->meta ? Device::Meta : Device::CPU);
    if (!s) break;
    buffers.items[made] = s;
  }
  if (made == p->nbuffers && (p->meta || plan_launch(p, c, buffers.items, true))) n = plan_outputs(p, c, buffers.items, outs, max);
  while (made) decref(buffers.items[--made]);
  return n;
}

// Memory that numpy, another library or another process looks at: what is written to it is seen at once, also under compile().
static bool writes_for_others(const Call& c) {
  for (int i = 0; i < c.ndest; i++) if (c.dests[i]->storage->flags & (ST_EXTERNAL | ST_NORESIZE | ST_SHARED)) return true;
  return false;
}

static RL_APART bool give_warnings(const Plan* p) {
  for (const auto& w : p->recipe->parsed->warnings) if (!warn(w.said, "%s", w.text.c_str())) return false;
  return true;
}

static RL_APART int run_otherwise(Plan* p, Call& c, PyObject** outs, int max) {
  if (RL_UNLIKELY(p->only_view)) return (outs[0] = view_output(p->outs[0], c.t[p->outs[0].index])) ? 1 : -1;      // nothing to compute, and nothing to record
  incref(p);                                   // Python may run from here on (a flush, another thread), and evict it
  int n = -1;
  if (RL_UNLIKELY(p->warns) && !give_warnings(p)) {}
  else if (RL_UNLIKELY(tls.guard & G_RECORD) && !p->meta && !p->draws && !writes_for_others(c)) n = record_plan(p, c, outs, max);
  else if (!any_pending(c) || (pending_flush() && (!any_pending(c) || pending_lost()))) n = run_general(p, c, outs, max);
  decref(p);
  return n;
}
static RL_APART int raise_from(const Plan* p, Storage* s, int64_t status) {
  decref(s);
  raise_status(p, status + p->steps[0].first_error);
  return -1;
}

static inline int wrap_and_record(Plan* p, Call& c, Storage* s, PyObject** outs) {      // takes s and a reference to the layout over
  incref(p);
  outs[0] = (PyObject*)tensor_wrap(p->buffers[0].layout, s, 0);
  bool good = outs[0] && tape_record(p, c, outs, 1, nullptr);
  decref(p);
  if (RL_LIKELY(good)) return 1;
  Py_XDECREF(outs[0]);
  return -1;
}

// A simple plan has one step and one result, which is its one buffer, writes no argument and warns of nothing: it runs here, without a general case's loops.
int plan_run(Plan* p, Call& c, PyObject** outs, int max) {
  if (RL_UNLIKELY(!p->simple || (tls.guard & (G_RECORD | G_INFERENCE)) || (flags_of(c.t, c.nt) & (ST_PENDING | ST_READ)))) return run_otherwise(p, c, outs, max);
  const Buffer& buffer = p->buffers[0];
  Storage* s = storage_new(buffer.bytes);
  if (RL_UNLIKELY(!s)) return -1;
  const Step& step = p->steps[0];
  char* pointers[8];
  const Pointer* from = step.pointers;
  for (char **to = pointers, **end = to + step.npointers; to != end; to++, from++)
    *to = (from->kind == RefKind::Arg ? data_ptr(c.t[from->index]) : s->data) + from->offset;
  ++g_stats.launches;
  int64_t status = 0;
  if (RL_UNLIKELY(step.units <= 0)) {}
  else if (RL_LIKELY(!step.scratch)) status = step.kernel(pointers, step.ints, c.scalars, nullptr, 0, step.units);
  else status = pool_run(step.kernel, pointers, step.ints, c.scalars, step.scratch, step.units, step.grain, false);
  if (RL_UNLIKELY(status)) return raise_from(p, s, status);
  incref(buffer.layout);
  // A new tensor may start a collection of garbage, and so Python: the plan is not touched after it unless it is held.
  if (p->backward_op) return wrap_and_record(p, c, s, outs);
  outs[0] = (PyObject*)tensor_wrap(buffer.layout, s, 0);
  return RL_LIKELY(outs[0] != nullptr) ? 1 : -1;
}

// -------------------------------------------------------------------------------------------------------------- the module
static PyObject* set_plan_cap(PyObject*, PyObject* o) {
  int64_t n = PyLong_AsLongLong(o);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 1) return raise(PyExc_ValueError, "the cap must be at least 1");
  int64_t before = g_plan_cap;
  g_plan_cap = n + 1;                          // the evictors make room for one more
  table_evict();
  families_evict();
  g_plan_cap = n;
  return PyLong_FromLongLong(before);
}
static PyObject* clear_plans(PyObject*, PyObject*) {
  for (size_t i = 0; i < g_table.size();) if (g_table[i].plan) table_remove(i); else ++i;
  g_family_ring.clear();
  while (!g_families.empty()) family_drop(g_families.begin());
  Py_RETURN_NONE;
}
static PyMethodDef plan_methods[] = {
    {"set_plan_cap", set_plan_cap, METH_O, "set_plan_cap(n) -> int\n\nHow many plans, and families of recipes, are kept; returns the cap before."},
    {"clear_plans", clear_plans, METH_NOARGS, "clear_plans()\n\nForget every plan and recipe."}, {}};

bool init_plan(PyObject* m) {
  const struct { const char* name; const int64_t* value; } COUNTERS[] = {{"plans", &g_plans}, {"recipes", &g_recipes}, {"plan_hits", &g_stats.hits}, {"plan_table_hits", &g_stats.table_hits},
      {"plan_misses", &g_stats.misses}, {"recipe_evaluations", &g_stats.recipe_evaluations}, {"guard_failures", &g_stats.guard_failures}, {"compiles", &g_stats.compiles},
      {"plan_evictions", &g_stats.evictions}, {"recipe_evictions", &g_stats.recipe_evictions}, {"launches", &g_stats.launches}, {"native_calls", &g_stats.native_calls},
      {"overlap_copies", &g_stats.overlaps}, {"recorded", &g_stats.recorded}, {"flushes", &g_stats.flushes}};
  for (auto& s : COUNTERS) stat_register(s.name, s.value);
  return PyModule_AddFunctions(m, plan_methods) == 0;
}

}  // namespace rl
