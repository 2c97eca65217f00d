// Recording: the bones of compile(). Under G_RECORD a plan is noted instead of run; its results have pending storages, which get their memory when
// the recording is flushed: at the end of the recorded function, or when somebody needs a value.
//
// An entry holds its plan, the places its operands lie in (storage, layout, offset: values, not tensor objects, so that nothing is kept alive that could
// be freed), its scalars and its buffers. At a flush the entries are a *stream*. Its key says which plans, how their operands connect (storages numbered
// in order of appearance, offsets relative to the first sight of a storage) and which results somebody outside still holds. A known stream is replayed
// from its program without entering Python. For a new one `hooks.flush(entries)` is asked, which answers None (run the entries one by one, in order) or
// the program: a list of segments in order, each covering the entries up to `end`,
//   (end, entry)                                       that entry's own plan
//   (end, recipe, inputs, outputs, scalars, syms)      a fused recipe. inputs: [(entry, argument)]; outputs: [(entry, buffer)], what the recipe's first
//                                                      buffers become; scalars: [(entry, scalar)]; syms: [int]
// Entries that no segment runs are dead: nobody holds what they would have computed.
//
// `entries` is a list of dicts:
//   recipe    the Recipe           op, form          who was called            request    (op, form, grad mask, params, dests, signature)
//   args      [(storage number, layout description, byte offset) or None]      dests   the same for written tensors
//   scalars   [number]          
//   buffers   [(storage number, layout description, live)]      live: somebody outside the recording still holds it
// After an error at a flush the rest of the recording is dropped, as if the program had stopped at the failing call: written tensors keep what they had, and
// results that were never computed raise when they are read.
//
// Storages that a recorded call is going to read carry ST_READ: whoever writes them by other means than a recorded plan flushes first.
//
// The recording is one, for all threads: a flush by any of them runs it all, in order, without letting go of the GIL; the hook may let go of it, so
// another thread that needs a value meanwhile waits.
#include "compat.h"
#include "op.h"
#include <chrono>
#include <deque>
#include <thread>
#include <unordered_map>

namespace rl {

// ------------------------------------------------------------------------------------------------------------------- entries
struct Place { Storage* storage; Layout* layout; int64_t offset; };       // both owned; storage null: an absent argument
struct Entry {
  Plan* plan; std::vector<Place> args, dests; std::vector<Scalar> scalars; std::vector<Storage*> buffers; uint8_t form;
  PyObject* code; int line;                // of a call that may fail on its values: where the user wrote it (code owned), else null
};
static std::deque<Entry> g_recording;
static bool g_flushing;
static std::thread::id g_flusher;

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
  Py_XDECREF(e.code);
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
  if (!p->request && !(p->request = call_request(c, p->mask))) return -1;
  Entry e{p, {}, {}, {}, {}, c.form, nullptr, 0};
  for (int i = 0; i < p->nbuffers; i++) {
    Storage* s = pending_storage(p->buffers[i].bytes);
    if (!s) { for (Storage* b : e.buffers) decref(b); return -1; }
    e.buffers.push_back(s);
  }
  incref(p);
  for (int i = 0; i < c.nt; i++) e.args.push_back(place_of(c.t[i]));
  for (int i = 0; i < c.ndest; i++) e.dests.push_back(place_of(c.dests[i]));
  for (Place& a : e.args) if (a.storage) a.storage->flags |= ST_READ;
  e.scalars.assign(c.scalars, c.scalars + c.nscalar);
  if (!p->recipe->parsed->errors.empty())
    if (PyFrameObject* frame = PyEval_GetFrame()) { e.code = (PyObject*)PyFrame_GetCode(frame); e.line = PyFrame_GetLineNumber(frame); }
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
  for (Place& p : e.args) {
    if (p.storage && (p.storage->flags & ST_PENDING) && !p.storage->data) return pending_lost();
    if (!args.add(p)) return false;
  }
  for (Place& p : e.dests) if (!dests.add(p)) return false;
  for (Tensor* t : args.list) c.t[c.nt++] = t;
  for (Tensor* t : dests.list) c.dests[c.ndest++] = t;
  for (Scalar& s : e.scalars) c.scalars[c.nscalar++] = s;
  for (Storage* s : e.buffers) if (!give_memory(s)) return false;
  return plan_launch(e.plan, c, e.buffers.data(), false);
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
// The storages of a recording: a number in order of appearance, the offset it was first met at, and the references that the recording itself holds.
struct Known { int64_t number, base, held; };
typedef std::unordered_map<Storage*, Known> Storages;
static Storages known_storages(size_t n) {
  Storages known;
  auto meet = [&](Storage* s, int64_t offset) { if (s) ++known.try_emplace(s, Known{(int64_t)known.size() + 1, offset, 0}).first->second.held; };
  for (size_t i = 0; i < n; i++) {
    const Entry& e = g_recording[i];
    for (const Place& p : e.args) meet(p.storage, p.offset);
    for (const Place& p : e.dests) meet(p.storage, p.offset);
    for (Storage* s : e.buffers) meet(s, 0);
  }
  return known;
}
int64_t recorded_references(const Storage* s) {
  int64_t n = 0;
  for (const Entry& e : g_recording) {
    for (const Place& p : e.args) n += p.storage == s;
    for (const Place& p : e.dests) n += p.storage == s;
    for (const Storage* b : e.buffers) n += b == s;
  }
  return n;
}
static bool is_live(Storage* s, const Storages& known) { return s->rc > known.at(s).held; }

static PyObject* place_object(const Place& p, const Storages& known) {
  if (!p.storage) return Py_NewRef(Py_None);
  PyObject* d = layout_description(p.layout);
  return d ? Py_BuildValue("(LNL)", (long long)known.at(p.storage).number, d, (long long)p.offset) : nullptr;
}
template <class List, class F> static PyObject* list_of(const List& items, F&& make) {
  PyObject* list = PyList_New(0);
  for (auto& item : items) {
    PyObject* o = list ? make(item) : nullptr;
    if (!o || PyList_Append(list, o) < 0) Py_CLEAR(list);
    Py_XDECREF(o);
    if (!list) break;
  }
  return list;
}

static PyObject* entry_object(const Entry& e, const Storages& known) {
  std::vector<std::pair<int, Scalar>> numbers;
  for (size_t i = 0; i < e.scalars.size(); i++) numbers.push_back({i < (size_t)e.plan->nscalars ? e.plan->scalar_kinds[i] : (int)ScalarKind::Float, e.scalars[i]});
  std::vector<int> indices;
  for (int i = 0; i < e.plan->nbuffers; i++) indices.push_back(i);
  auto place = [&](const Place& p) { return place_object(p, known); };
  PyObject* args = list_of(e.args, place);
  PyObject* dests = list_of(e.dests, place);
  PyObject* scalars = list_of(numbers, [](auto& n) { return scalar_number((uint8_t)n.first, n.second); });
  PyObject* buffers = list_of(indices, [&](int i) -> PyObject* {
    Storage* s = e.buffers[(size_t)i];
    PyObject* d = layout_description(e.plan->buffers[i].layout);
    return d ? Py_BuildValue("(LNO)", (long long)known.at(s).number, d, is_live(s, known) ? Py_True : Py_False) : nullptr;
  });
  if (args && dests && scalars && buffers)
    return Py_BuildValue("{s:O,s:O,s:i,s:O,s:N,s:N,s:N,s:N}", "recipe", (PyObject*)e.plan->recipe, "op", (PyObject*)e.plan->op, "form", (int)e.form, "request", e.plan->request,
                         "args", args, "dests", dests, "scalars", scalars, "buffers", buffers);
  Py_XDECREF(args); Py_XDECREF(dests); Py_XDECREF(scalars); Py_XDECREF(buffers);
  return nullptr;
}

static PyObject* recording(PyObject*, PyObject*) {
  Storages known = known_storages(g_recording.size());
  return list_of(g_recording, [&](const Entry& e) { return entry_object(e, known); });
}

// An error that surfaces at a flush says where the user wrote the call.
static void note_places(size_t first, size_t end) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  for (size_t i = first; i < end && value; i++) {
    const Entry& e = g_recording[i];
    if (!e.code) continue;
    PyCodeObject* code = (PyCodeObject*)e.code;
    PyObject* r = PyObject_CallMethod(value, "add_note", "N", PyUnicode_FromFormat("recorded by compile(): %s, called in %U at %U:%d", e.plan->op->text, code->co_name, code->co_filename, e.line));
    if (!r) PyErr_Clear();
    Py_XDECREF(r);
  }
  PyErr_Restore(type, value, trace);
}

// ------------------------------------------------------------------------------------------------------------------- streams
struct Ref { int32_t entry, index; };                     // an argument, a buffer or a scalar of an entry
struct Segment { size_t end; int64_t entry; Plan* plan; std::vector<Ref> inputs, outputs, scalars; };      // entry < 0: the fused plan (owned)
struct Stream { std::vector<Plan*> plans; std::vector<Segment> segments; int64_t used; };                  // plans: held, so that their addresses stay theirs
static std::unordered_map<std::vector<uint64_t>, Stream*, KeyHash> g_streams;
static const size_t MAX_STREAMS = 256;
static int64_t g_stream_count, g_stream_hits, g_stream_clock, g_fused_runs;

static std::vector<uint64_t> stream_key(size_t n, const Storages& known) {
  std::vector<uint64_t> key;
  auto place = [&](const Place& p) {
    if (!p.storage) { key.push_back(0); return; }
    const Known& k = known.at(p.storage);
    key.push_back((uint64_t)k.number);
    key.push_back((uint64_t)(p.offset - k.base));
  };
  for (size_t i = 0; i < n; i++) {
    const Entry& e = g_recording[i];
    key.push_back((uint64_t)(uintptr_t)e.plan);           // says op, layouts, by-value arguments and run-time integers
    for (const Place& p : e.args) place(p);
    for (const Place& p : e.dests) place(p);
    for (Storage* s : e.buffers) { key.push_back((uint64_t)known.at(s).number); key.push_back(is_live(s, known)); }
  }
  return key;
}

static void stream_free(Stream* s) {
  for (Plan* p : s->plans) decref(p);
  for (Segment& g : s->segments) if (g.plan) decref(g.plan);
  delete s;
}
static void streams_evict() {
  while (g_streams.size() >= MAX_STREAMS) {
    auto oldest = g_streams.begin();
    for (auto it = g_streams.begin(); it != g_streams.end(); ++it) if (it->second->used < oldest->second->used) oldest = it;
    stream_free(oldest->second);
    g_streams.erase(oldest);
  }
}

static Op* fused_op() {                                   // the op that a fused plan pretends to be
  static Op* fused = nullptr;
  if (!fused) fused = (Op*)PyObject_CallFunction((PyObject*)OpType, "s[([(ssOO)(ssOO)(ssOO)]s)]", "fused", "inputs", "Tensor?[]", g_required, Py_False, "syms", "SymInt[]", g_required, Py_False,
                                                 "scalars", "Scalar[]", g_required, Py_False, "Tensor[]");
  return fused;
}

// The call of a fused segment: `first` is the entry that number 0 now stands at.
static bool segment_call(Call& c, Operands& operands, const Segment& g, size_t first, const std::vector<int64_t>& syms) {
  c.op = fused_op();
  if (!c.op || !call_reserve(c, (int)g.inputs.size(), 8 + (int)g.scalars.size(), (int)syms.size(), (int)g.scalars.size())) return false;
  for (const Ref& r : g.inputs) if (!operands.add(g_recording[(size_t)r.entry - first].args[(size_t)r.index])) return false;
  for (Tensor* t : operands.list) c.t[c.nt++] = t;
  c.static_words[c.nstatic++] = (uint64_t)c.nt;
  c.static_words[c.nstatic++] = (uint64_t)syms.size();
  c.static_words[c.nstatic++] = (uint64_t)g.scalars.size();
  for (int64_t v : syms) c.syms[c.nsym++] = v;
  for (const Ref& r : g.scalars) {
    const Entry& e = g_recording[(size_t)r.entry - first];
    c.static_words[c.nstatic++] = r.index < e.plan->nscalars ? e.plan->scalar_kinds[r.index] : (uint64_t)ScalarKind::Float;
    c.scalars[c.nscalar++] = e.scalars[(size_t)r.index];
  }
  return true;
}

static bool run_segment(const Segment& g, size_t first) {
  Operands operands;
  Call c;
  for (const Ref& r : g.inputs) {
    const Place& p = g_recording[(size_t)r.entry - first].args[(size_t)r.index];
    if ((p.storage->flags & ST_PENDING) && !p.storage->data) return pending_lost();
  }
  if (!segment_call(c, operands, g, first, {})) return false;
  std::vector<Storage*> buffers;
  bool good = true;
  for (int i = 0; good && i < g.plan->nbuffers; i++) {
    Storage* s;
    if ((size_t)i < g.outputs.size()) {
      s = g_recording[(size_t)g.outputs[(size_t)i].entry - first].buffers[(size_t)g.outputs[(size_t)i].index];
      incref(s);
      good = give_memory(s);
      if (good && s->nbytes < g.plan->buffers[i].bytes) { raise(PyExc_RuntimeError, "compile(): a fused result does not fit its storage"); good = false; }
    } else if (!(s = storage_new(g.plan->buffers[i].bytes))) { good = false; break; }
    buffers.push_back(s);
  }
  good = good && plan_launch(g.plan, c, buffers.data(), false);
  for (size_t i = 0; i < buffers.size(); i++) {
    if (good && i < g.outputs.size()) buffers[i]->flags &= (uint8_t)~ST_PENDING;
    decref(buffers[i]);
  }
  ++g_fused_runs;
  return good;
}

// ------------------------------------------------------------------------------------------------- a program from the hook
static bool read_refs(PyObject* o, std::vector<Ref>* out, size_t first, size_t end, const char* what) {
  PyObject* items = PySequence_Fast(o, "compile(): a list of (entry, index) is needed");
  if (!items) return false;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(items); i++) {
    Ref r;
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    good = PyTuple_Check(item) && PyArg_ParseTuple(item, "ii", &r.entry, &r.index);
    if (good && !(r.entry >= (int64_t)first && r.entry < (int64_t)end && r.index >= 0)) good = false;
    if (good) {
      const Entry& e = g_recording[(size_t)r.entry];
      size_t limit = what[0] == 'i' ? e.args.size() : what[0] == 'o' ? e.buffers.size() : e.scalars.size();
      good = (size_t)r.index < limit && (what[0] != 'i' || e.args[(size_t)r.index].storage);
    }
    if (good) out->push_back(r);
    else if (!PyErr_Occurred()) raise(PyExc_ValueError, "compile(): bad %s of a segment", what);
  }
  Py_DECREF(items);
  return good;
}

static bool read_segment(PyObject* o, size_t first, size_t n, Stream* stream) {
  Segment g{0, -1, nullptr, {}, {}, {}};
  if (!PyTuple_Check(o)) { raise(PyExc_TypeError, "compile(): a segment is a tuple"); return false; }
  long long end, entry;
  if (PyTuple_GET_SIZE(o) == 2) {
    if (!PyArg_ParseTuple(o, "LL", &end, &entry)) return false;
    g.end = (size_t)end; g.entry = entry;
    if (entry < (long long)first || end <= entry || end > (long long)n) { raise(PyExc_ValueError, "compile(): a segment out of order"); return false; }
    stream->segments.push_back(std::move(g));
    return true;
  }
  PyObject *recipe, *inputs, *outputs, *scalars, *integers;
  std::vector<int64_t> syms;
  if (!PyArg_ParseTuple(o, "LO!OOOO", &end, RecipeType, &recipe, &inputs, &outputs, &scalars, &integers)) return false;
  if (end <= (long long)first || end > (long long)n) { raise(PyExc_ValueError, "compile(): a segment out of order"); return false; }
  g.end = (size_t)end;
  if (!read_refs(inputs, &g.inputs, first, g.end, "input") || !read_refs(outputs, &g.outputs, first, g.end, "output") || !read_refs(scalars, &g.scalars, first, g.end, "scalar") ||
      !int_list(integers, &syms)) return false;
  Operands operands;
  Call c;
  bool applies;
  if (!segment_call(c, operands, g, 0, syms)) return false;
  g.plan = plan_evaluate((Recipe*)recipe, c, 0, &applies);
  if (!g.plan) { if (applies) return false; raise(PyExc_RuntimeError, "compile(): the fused recipe does not hold for the stream that it was made for"); return false; }
  stream->segments.push_back(std::move(g));
  return true;
}

static Stream* read_program(PyObject* program, size_t n) {
  PyObject* items = PySequence_Fast(program, "compile(): the flush hook answers None or a list of segments");
  if (!items) return nullptr;
  Stream* s = new Stream{{}, {}, 0};
  for (size_t i = 0; i < n; i++) { s->plans.push_back(g_recording[i].plan); incref(g_recording[i].plan); }
  size_t first = 0;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(items); i++) {
    good = read_segment(PySequence_Fast_GET_ITEM(items, i), first, n, s);
    if (good) first = s->segments.back().end;
  }
  Py_DECREF(items);
  if (!good) { stream_free(s); return nullptr; }
  return s;
}

static void finish_front(bool ran) {                      // the first entry leaves; `ran`: all its buffers exist
  Entry e = std::move(g_recording.front());
  g_recording.pop_front();
  if (ran) clear_pending(e);
  for (Storage* s : e.buffers)                            // never computed: without memory it cannot be mistaken for a value
    if ((s->flags & ST_PENDING) && s->data) { s->release(s); s->data = nullptr; s->release = nullptr; s->owner = nullptr; }
  for (Place& p : e.dests) if (p.storage->data || !p.storage->nbytes) p.storage->flags &= (uint8_t)~ST_PENDING;
  for (Place& p : e.args) if (p.storage) p.storage->flags &= (uint8_t)~ST_READ;
  drop(e);                                                // memory of values that nobody needs any more is free for the next entry
}

static int64_t g_drained;                                 // how often the recording was emptied: a hook sees whether that happened behind its back

static bool run_all() {
  bool good = true;
  ++g_drained;
  while (!g_recording.empty()) {
    if (good && !run_entry(g_recording.front())) { good = false; note_places(0, 1); }
    finish_front(good);
  }
  return good;
}

// One by one, up to `end`; at a failure the failing entry is left in front.
static bool run_singly(size_t* at, size_t end) {
  for (; *at < end; ++*at) {
    if (!run_entry(g_recording.front())) { note_places(0, 1); return false; }
    finish_front(true);
  }
  return true;
}

// The first n entries by their program. Values that a segment made lose their promise there; what is dead keeps it, unseen.
static bool run_stream(const Stream* s, size_t n) {
  bool good = true;
  size_t at = 0;
  ++g_drained;
  for (const Segment& g : s->segments) {
    if (g.entry >= 0) {
      Entry& e = g_recording[(size_t)g.entry - at];
      good = run_entry(e);
      if (good) clear_pending(e);
      else note_places((size_t)g.entry - at, (size_t)g.entry - at + 1);
    } else if (!run_segment(g, at)) {
      // A segment writes nothing but its own results: run singly its calls give what came before the one that fails, and that call's own error.
      PyErr_Clear();
      good = run_singly(&at, g.end);
    }
    if (!good) break;
    for (; at < g.end; at++) finish_front(false);
  }
  for (; at < n; at++) finish_front(false);
  return good;
}

bool pending_lost() {
  raise(PyExc_RuntimeError, "the value of this tensor was never computed: an operation recorded before it failed");
  return false;
}

bool pending_flush() {
  while (g_flushing && g_flusher != std::this_thread::get_id()) {
    Py_BEGIN_ALLOW_THREADS
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    Py_END_ALLOW_THREADS
  }
  if (g_recording.empty()) return true;
  if (g_flushing) return run_all();                       // the flush hook itself needs a value: no fusing of what is left
  g_flushing = true;
  g_flusher = std::this_thread::get_id();
  ++g_stats.flushes;
  uint32_t recording_bit = tls.guard & G_RECORD;
  tls.guard &= ~(uint32_t)G_RECORD;                       // what the hook runs is not recorded
  bool good = true;
  size_t n = g_recording.size();
  Stream* stream = nullptr;
  if (g_hooks.flush) {
    Storages known = known_storages(n);
    std::vector<uint64_t> key = stream_key(n, known);
    auto found = g_streams.find(key);
    if (found != g_streams.end()) { stream = found->second; ++g_stream_hits; }
    else {
      int64_t drained = g_drained;
      PyObject* entries = list_of(g_recording, [&](const Entry& e) { return entry_object(e, known); });
      PyObject* program = entries ? PyObject_CallFunctionObjArgs(g_hooks.flush, entries, nullptr) : nullptr;
      Py_XDECREF(entries);
      good = program != nullptr;
      if (good && program != Py_None && drained == g_drained) {
        stream = read_program(program, n);
        good = stream != nullptr;
        if (good) { streams_evict(); g_streams.emplace(std::move(key), stream); g_stream_count = (int64_t)g_streams.size(); }
      }
      Py_XDECREF(program);
    }
  }
  if (stream) { stream->used = ++g_stream_clock; good = run_stream(stream, n); }
  if (good) good = run_all();                             // what no program covers
  else {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    ++g_drained;
    while (!g_recording.empty()) finish_front(false);
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
static PyObject* clear_streams(PyObject*, PyObject*) {
  for (auto& item : g_streams) stream_free(item.second);
  g_streams.clear();
  g_stream_count = 0;
  Py_RETURN_NONE;
}

static PyMethodDef record_methods[] = {
    {"recording", recording, METH_NOARGS, "recording() -> list of dicts\n\nThe calls recorded and not yet run."},
    {"flush", flush, METH_NOARGS, "flush()\n\nRun what was recorded."},
    {"clear_streams", clear_streams, METH_NOARGS, "clear_streams()\n\nForget the programs of recorded streams."}, {}};
bool init_record(PyObject* m) {
  stat_register("streams", &g_stream_count);
  stat_register("stream_hits", &g_stream_hits);
  stat_register("fused_runs", &g_fused_runs);
  return PyModule_AddFunctions(m, record_methods) == 0;
}

}  // namespace rl
