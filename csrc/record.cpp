// Recording: the bones of compile(). Under G_RECORD a plan is noted instead of run; its results have pending storages, which get their memory when
// the recording is flushed: at the end of the recorded function, or when somebody needs a value.
//
// An entry holds its plan, the places its operands lie in (storage, layout, offset: values, not tensor objects, so that nothing is kept alive that could
// be freed), its scalars and its buffers. At a flush `hooks.flush(entries)` may run them (fused) and return True; otherwise they run here, one by one,
// in order: the same bits as without recording.
//
// `entries` is a list of dicts:
//   recipe    the Recipe           op, form          who was called
//   args      [(storage id, layout description, byte offset) or None]      dests   the same for written tensors
//   scalars   [number]             ints, outputs     the plan's resolved integers per step, and which results exist
//   buffers   [(storage id, layout description, live)]      live: somebody outside the recording still holds it
// A fused recipe is run with `_C.run_recorded(recipe, inputs, outputs, scalars)`: inputs are (storage id, layout description, offset) triples as above,
// outputs the storage ids that its buffers become; then `_C.recorded_done(n)` drops the first n entries.
#include "op.h"
#include <cstddef>
#include <iterator>
#include <unordered_map>

namespace rl {

// ------------------------------------------------------------------------------------------------------------------- entries
struct Place { Storage* storage; Layout* layout; int64_t offset; };       // both owned; storage null: an absent argument
struct Entry { Plan* plan; std::vector<Place> args, dests; std::vector<Scalar> scalars; std::vector<Storage*> buffers; uint8_t form; };
static std::vector<Entry> g_recording;
static bool g_flushing;

static Place place_of(const Tensor* t) {
  if (!t) return {nullptr, nullptr, 0};
  incref(t->storage);
  incref(t->layout);
  return {t->storage, t->layout, t->offset};
}
static void drop(Place& p) { if (p.storage) { decref(p.storage); decref(p.layout); } }
static void drop(Entry& e) {
  for (Place& p : e.args) drop(p);
  for (Place& p : e.dests) drop(p);
  for (Storage* s : e.buffers) decref(s);
  decref(e.plan);
}

// A storage that promises its bytes: it has none until the flush. (A written tensor of the recording is pending too, but has its memory.)
static Storage* pending_storage(int64_t bytes) {
  Storage* s = storage_external(nullptr, bytes, nullptr, nullptr);
  if (s) s->flags = ST_PENDING;
  return s;
}
static bool give_memory(Storage* s) {
  if (s->data || !(s->flags & ST_PENDING)) return true;
  Storage* memory = storage_new(s->nbytes);
  if (!memory) return false;
  s->data = memory->data;
  s->owner = memory;
  s->release = [](Storage* self) { decref((Storage*)self->owner); };
  return true;
}

int record_plan(Plan* p, Call& c, PyObject** outs, int max) {
  Entry e{p, {}, {}, {}, {}, c.form};
  for (int i = 0; i < p->nbuffers; i++) {
    Storage* s = pending_storage(p->buffers[i].bytes);
    if (!s) { for (Storage* b : e.buffers) decref(b); return -1; }
    e.buffers.push_back(s);
  }
  incref(p);
  for (int i = 0; i < c.nt; i++) e.args.push_back(place_of(c.t[i]));
  for (int i = 0; i < c.ndest; i++) e.dests.push_back(place_of(c.dests[i]));
  e.scalars.assign(c.scalars, c.scalars + c.nscalar);
  std::vector<Storage*> buffers = e.buffers;
  g_recording.push_back(std::move(e));
  // A written tensor's value is promised too: whoever reads it must flush first.
  for (int i = 0; i < c.ndest; i++) c.dests[i]->storage->flags |= ST_PENDING;
  ++g_stats.recorded;
  int n = plan_outputs(p, c, buffers.data(), outs, max);
  return n;
}

// ------------------------------------------------------------------------------------------------------------------ flushing
// A tensor over a place, for the length of a call: the replayer takes tensors.
static Tensor* tensor_at(const Place& p) {
  if (!p.storage) return nullptr;
  incref(p.storage);
  incref(p.layout);
  return tensor_wrap(p.layout, p.storage, p.offset);
}

struct Operands {                            // owned tensors
  std::vector<Tensor*> list;
  bool add(const Place& p) { Tensor* t = tensor_at(p); list.push_back(t); return t || !p.storage; }
  ~Operands() { for (Tensor* t : list) Py_XDECREF((PyObject*)t); }
};

static bool run_entry(Entry& e) {
  Operands args, dests;
  Call c;
  c.op = e.plan->op;
  c.form = e.form;
  if (!call_reserve(c, (int)e.args.size(), 0, 0, (int)e.scalars.size())) return false;
  for (Place& p : e.args) if ((p.storage && !give_memory(p.storage)) || !args.add(p)) return false;
  for (Place& p : e.dests) if (!dests.add(p)) return false;
  for (Tensor* t : args.list) c.t[c.nt++] = t;
  for (Tensor* t : dests.list) c.dests[c.ndest++] = t;
  for (Scalar& s : e.scalars) c.scalars[c.nscalar++] = s;
  for (Storage* s : e.buffers) if (!give_memory(s)) return false;
  return plan_launch(e.plan, c, e.buffers.data());
}

static std::unordered_map<uint64_t, Storage*> known_storages() {
  std::unordered_map<uint64_t, Storage*> m;
  auto add = [&](Storage* s) { if (s) m[(uint64_t)(uintptr_t)s] = s; };
  for (Entry& e : g_recording) {
    for (Place& p : e.args) add(p.storage);
    for (Place& p : e.dests) add(p.storage);
    for (Storage* s : e.buffers) add(s);
  }
  return m;
}

static void clear_pending(Entry& e) {        // its results exist now
  for (Place& p : e.dests) p.storage->flags &= (uint8_t)~ST_PENDING;
  for (Storage* s : e.buffers) s->flags &= (uint8_t)~ST_PENDING;
}

static PyObject* scalar_number(uint8_t kind, const Scalar& s) {
  switch ((ScalarKind)kind) {
    case ScalarKind::Bool: return PyBool_FromLong(s.i != 0);
    case ScalarKind::Int: return PyLong_FromLongLong(s.i);
    case ScalarKind::Complex: return PyComplex_FromDoubles(s.re, s.im);
    default: return PyFloat_FromDouble(s.re);
  }
}
static PyObject* place_object(const Place& p) {
  if (!p.storage) return Py_NewRef(Py_None);
  PyObject* d = layout_description(p.layout);
  return d ? Py_BuildValue("(KNL)", (unsigned long long)(uintptr_t)p.storage, d, (long long)p.offset) : nullptr;
}
template <class T, class F> static PyObject* list_of(const std::vector<T>& items, F&& make) {
  PyObject* list = PyList_New(0);
  for (auto& item : items) {
    PyObject* o = list ? make(item) : nullptr;
    if (!o || PyList_Append(list, o) < 0) Py_CLEAR(list);
    Py_XDECREF(o);
    if (!list) break;
  }
  return list;
}

static PyObject* entry_object(const Entry& e, const std::unordered_map<Storage*, int64_t>& held) {
  std::vector<std::pair<int, Scalar>> numbers;
  for (size_t i = 0; i < e.scalars.size(); i++) numbers.push_back({i < (size_t)e.plan->nscalars ? e.plan->scalar_kinds[i] : (int)ScalarKind::Float, e.scalars[i]});
  std::vector<int> indices, steps;
  for (int i = 0; i < e.plan->nbuffers; i++) indices.push_back(i);
  for (int i = 0; i < e.plan->nsteps; i++) steps.push_back(i);
  PyObject* args = list_of(e.args, place_object);
  PyObject* dests = list_of(e.dests, place_object);
  PyObject* scalars = list_of(numbers, [](auto& n) { return scalar_number((uint8_t)n.first, n.second); });
  PyObject* buffers = list_of(indices, [&](int i) -> PyObject* {
    Storage* s = e.buffers[(size_t)i];
    auto it = held.find(s);
    bool live = s->rc > (it == held.end() ? 0 : it->second);
    PyObject* d = layout_description(e.plan->buffers[i].layout);
    return d ? Py_BuildValue("(KNO)", (unsigned long long)(uintptr_t)s, d, live ? Py_True : Py_False) : nullptr;
  });
  PyObject* ints = list_of(steps, [&](int i) { return int_tuple(e.plan->steps[i].ints, (int)e.plan->recipe->parsed->steps[(size_t)i].ints.size()); });
  if (args && dests && scalars && buffers && ints)
    return Py_BuildValue("{s:O,s:O,s:i,s:N,s:N,s:N,s:N,s:N}", "recipe", (PyObject*)e.plan->recipe, "op", (PyObject*)e.plan->op, "form", (int)e.form, "args", args, "dests", dests,
                         "scalars", scalars, "buffers", buffers, "ints", ints);
  Py_XDECREF(args); Py_XDECREF(dests); Py_XDECREF(scalars); Py_XDECREF(buffers); Py_XDECREF(ints);
  return nullptr;
}

static PyObject* recording(PyObject*, PyObject*) {
  std::unordered_map<Storage*, int64_t> held;             // references that the recording itself holds
  for (Entry& e : g_recording) {
    for (Place& p : e.args) if (p.storage) ++held[p.storage];
    for (Place& p : e.dests) if (p.storage) ++held[p.storage];
    for (Storage* s : e.buffers) ++held[s];
  }
  return list_of(g_recording, [&](const Entry& e) { return entry_object(e, held); });
}

static bool run_all() {
  bool good = true;
  size_t done = 0;
  for (; good && done < g_recording.size(); done++) {
    good = run_entry(g_recording[done]);
    if (good) clear_pending(g_recording[done]);
  }
  // After an error the rest cannot be computed: its storages keep their promise only as memory of undefined content, so they must not be read.
  std::vector<Entry> finished;
  finished.swap(g_recording);
  if (!good) for (Entry& e : finished) clear_pending(e);
  for (Entry& e : finished) drop(e);
  return good;
}

bool pending_flush() {
  if (g_recording.empty()) return true;
  if (g_flushing) return run_all();                       // the flush hook itself needs a value: no fusing of what is left
  g_flushing = true;
  ++g_stats.flushes;
  uint32_t recording_bit = tls.guard & G_RECORD;
  tls.guard &= ~(uint32_t)G_RECORD;                       // what the hook runs is not recorded
  bool good = true;
  if (g_hooks.flush) {
    PyObject* entries = recording(nullptr, nullptr);
    PyObject* r = entries ? PyObject_CallFunctionObjArgs(g_hooks.flush, entries, nullptr) : nullptr;
    good = r != nullptr;
    Py_XDECREF(entries);
    Py_XDECREF(r);
  }
  if (good) good = run_all();                             // what the hook left
  else {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    run_all();
    PyErr_Restore(type, value, trace);
  }
  tls.guard |= recording_bit;
  g_flushing = false;
  return good;
}

// ------------------------------------------------------------------------------------------------------------ from Python
static PyObject* flush(PyObject*, PyObject*) {
  if (!pending_flush()) return nullptr;
  Py_RETURN_NONE;
}
static PyObject* recorded_done(PyObject*, PyObject* o) {
  int64_t n = PyLong_AsLongLong(o);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 0 || n > (int64_t)g_recording.size()) return raise(PyExc_ValueError, "recorded_done(): %lld of %zd entries", (long long)n, (Py_ssize_t)g_recording.size());
  std::vector<Entry> finished(std::make_move_iterator(g_recording.begin()), std::make_move_iterator(g_recording.begin() + (std::ptrdiff_t)n));
  g_recording.erase(g_recording.begin(), g_recording.begin() + (std::ptrdiff_t)n);
  for (Entry& e : finished) { clear_pending(e); drop(e); }
  Py_RETURN_NONE;
}

// The layout of a description (dtype, device, shape, strides, bits); new.
static Layout* described_layout(PyObject* o) {
  int dtype, device, bits;
  PyObject *shape, *strides;
  if (!PyTuple_Check(o) || !PyArg_ParseTuple(o, "iiOOi", &dtype, &device, &shape, &strides, &bits)) { if (!PyErr_Occurred()) raise(PyExc_TypeError, "a layout description is needed"); return nullptr; }
  std::vector<int64_t> s, t;
  if (!int_list(shape, &s) || !int_list(strides, &t)) return nullptr;
  if (dtype < 0 || dtype >= (int)DType::Count || device < 0 || device > 1 || s.size() != t.size() || s.size() > (size_t)MAX_DIMS) { raise(PyExc_ValueError, "bad layout description"); return nullptr; }
  return layout_intern((DType)dtype, (Device)device, (int)s.size(), s.data(), t.data(), bits & (L_CONJ | L_NEG));
}

// run_recorded(recipe, inputs, outputs, scalars=()): run one recipe over storages of the recording. The first buffers of the recipe become the storages
// named in `outputs` (0: a temporary).
static PyObject* run_recorded(PyObject*, PyObject* args) {
  PyObject *recipe, *inputs, *outputs, *scalars = nullptr;
  if (!PyArg_ParseTuple(args, "O!OO|O:run_recorded", RecipeType, &recipe, &inputs, &outputs, &scalars)) return nullptr;
  auto known = known_storages();
  Operands operands;
  Call c;
  static Op* fused = nullptr;                             // the op such a call pretends to be
  if (!fused) {
    PyObject* made = PyObject_CallFunction((PyObject*)OpType, "s[([(ssOO)(ssOO)]s)]", "fused", "inputs", "Tensor?[]", g_required, Py_False, "scalars", "Scalar[]", g_required, Py_False, "Tensor[]");
    if (!made) return nullptr;
    fused = (Op*)made;
  }
  c.op = fused;
  PyObject* in = PySequence_Fast(inputs, "inputs: a list is needed");
  PyObject* out = in ? PySequence_Fast(outputs, "outputs: a list is needed") : nullptr;
  PyObject* numbers = out ? (scalars ? PySequence_Tuple(scalars) : PyTuple_New(0)) : nullptr;
  bool good = numbers && call_reserve(c, (int)PySequence_Fast_GET_SIZE(in), 8 + (int)PyTuple_GET_SIZE(numbers), 0, (int)PyTuple_GET_SIZE(numbers));
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(in); i++) {
    unsigned long long id;
    PyObject* description;
    long long offset;
    PyObject* item = PySequence_Fast_GET_ITEM(in, i);
    if (item == Py_None) { operands.list.push_back(nullptr); continue; }
    good = PyTuple_Check(item) && PyArg_ParseTuple(item, "KOL", &id, &description, &offset);
    if (!good) { if (!PyErr_Occurred()) raise(PyExc_TypeError, "an input is (storage id, layout description, offset)"); break; }
    auto it = known.find(id);
    if (it == known.end()) { raise(PyExc_ValueError, "run_recorded(): no storage %llu in the recording", id); good = false; break; }
    Layout* l = described_layout(description);
    good = l && give_memory(it->second) && operands.add({it->second, l, offset});
    if (l) decref(l);
  }
  if (good) {
    for (Tensor* t : operands.list) c.t[c.nt++] = t;
    c.static_words[c.nstatic++] = (uint64_t)c.nt;
    c.static_words[c.nstatic++] = (uint64_t)PyTuple_GET_SIZE(numbers);
    for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(numbers); i++) {
      ScalarKind kind;
      good = scalar_from(PyTuple_GET_ITEM(numbers, i), &c.scalars[i], &kind);
      if (!good && !PyErr_Occurred()) raise(PyExc_TypeError, "run_recorded(): a scalar is needed");
      c.static_words[c.nstatic++] = (uint64_t)kind;
      c.nscalar++;
    }
  }
  bool applies = true;
  Plan* p = good ? plan_evaluate((Recipe*)recipe, c, 0, &applies) : nullptr;
  if (good && !p && applies) good = false;
  std::vector<Storage*> buffers;
  if (p) {
    for (int i = 0; good && i < p->nbuffers; i++) {
      uint64_t id = i < PySequence_Fast_GET_SIZE(out) ? PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(out, i)) : 0;
      if (PyErr_Occurred()) { good = false; break; }
      Storage* s;
      if (id) {
        auto it = known.find(id);
        if (it == known.end()) { raise(PyExc_ValueError, "run_recorded(): no storage %llu in the recording", (unsigned long long)id); good = false; break; }
        s = it->second;
        incref(s);
        buffers.push_back(s);
        good = give_memory(s);
        if (good && s->nbytes < p->buffers[i].bytes) { raise(PyExc_ValueError, "run_recorded(): storage %d is too small", i); good = false; }
      } else {
        s = storage_new(p->buffers[i].bytes);
        if (!s) { good = false; break; }
        buffers.push_back(s);
      }
    }
    good = good && plan_launch(p, c, buffers.data());
    for (Storage* s : buffers) decref(s);
    decref(p);
  }
  Py_XDECREF(in); Py_XDECREF(out); Py_XDECREF(numbers);
  if (!good) return nullptr;
  return PyBool_FromLong(applies);                        // False: a guard of the recipe fails for these layouts
}

static PyMethodDef record_methods[] = {
    {"recording", recording, METH_NOARGS, "recording() -> list of dicts\n\nThe calls recorded and not yet run."},
    {"flush", flush, METH_NOARGS, "flush()\n\nRun what was recorded."},
    {"run_recorded", run_recorded, METH_VARARGS, "run_recorded(recipe, inputs, outputs, scalars=()) -> bool\n\nRun a recipe over storages of the recording; False when its guards fail."},
    {"recorded_done", recorded_done, METH_O, "recorded_done(n)\n\nThe first n recorded calls have been run by other means."}, {}};
bool init_record(PyObject* m) { return PyModule_AddFunctions(m, record_methods) == 0; }

}  // namespace rl
