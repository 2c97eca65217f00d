// Running the tape backwards.
//
// A run first walks the graph once: it claims every node it can reach, counts the gradients each will receive, and (when only
// some inputs are asked for) marks the nodes that lead to them. Then it executes ready nodes, the newest first; leaves'
// nodes at once. The state of a run lies in the nodes it claimed. A node that a live run has claimed already (a hook that calls
// grad(), another thread, both while the GIL changes hands inside a kernel) is kept in a side table of the later run.
// Whatever ends a run, its claims are given back, so an exception half-way leaves a graph that can be run again.
#include "op.h"
#include "tape.h"
#include "compat.h"
#include <algorithm>
#include <memory>
#include <thread>
#include <unordered_map>

namespace rl {

bool g_anomaly = false, g_anomaly_nan = true;
static uint64_t g_runs = 0;

static PyObject* call_method(Tensor* t, const char* name, Tensor* argument = nullptr) {
  return argument ? PyObject_CallMethod((PyObject*)t, name, "O", argument) : PyObject_CallMethod((PyObject*)t, name, nullptr);
}

// -------------------------------------------------------------------------------------------------------- adding gradients
// Nobody else sees this gradient or its memory: it may be written.
static bool owned_alone(Tensor* t) {
  return sole_reference((PyObject*)t) && t->storage->rc == 1 && !t->requires_grad && !(t->storage->flags & (ST_EXTERNAL | ST_SHARED | ST_READONLY));
}

// The same while recording: those who are going to read it do so before anything recorded later writes it.
static bool recorded_alone(Tensor* t) {
  return (tls.guard & G_RECORD) && sole_reference((PyObject*)t) && !t->requires_grad && !(t->storage->flags & (ST_EXTERNAL | ST_SHARED | ST_READONLY)) &&
         t->storage->rc == 1 + recorded_references(t->storage);
}

// The sum of two gradients of which one is sparse: dense if the other is. Python has the rules (rushlight/sparse); torch's add wants the dense one first.
static PyObject* sparse_sum(PyObject* a, PyObject* b) { return is_sparse((Tensor*)a) ? op_binary(S_ADD, b, a) : op_binary(S_ADD, a, b); }

// A node that is a plan, or a view, knows dense gradients only.
static bool densify(Tensor** grads, int n) {
  for (int i = 0; i < n; i++) {
    if (!grads[i] || !is_sparse(grads[i])) continue;
    PyObject* dense = call_method(grads[i], "to_dense");
    if (!dense) return false;
    Py_DECREF((PyObject*)grads[i]);
    grads[i] = (Tensor*)dense;
  }
  return true;
}

// Puts `grad` (taken over) into a slot, on top of what is there.
static bool add_into(Tensor** slot, Tensor* grad) {
  Tensor* old = *slot;
  if (RL_LIKELY(!old)) { *slot = grad; return true; }
  PyObject* sum;
  bool same = old->layout->dtype == grad->layout->dtype && same_shape(old->layout, grad->layout);
  if (is_sparse(old) || is_sparse(grad)) sum = sparse_sum((PyObject*)old, (PyObject*)grad);
  else if (!tls.grad_mode && same && owned_alone(old) && (old->layout->flags & L_DENSE)) sum = op_inplace(S_ADD, (PyObject*)old, (PyObject*)grad);
  else if (!tls.grad_mode && same && owned_alone(grad) && (grad->layout->flags & L_DENSE) && old->layout == grad->layout) sum = op_inplace(S_ADD, (PyObject*)grad, (PyObject*)old);
  else sum = op_binary(S_ADD, (PyObject*)old, (PyObject*)grad);
  Py_DECREF((PyObject*)grad);
  if (!sum) return false;
  *slot = (Tensor*)sum;
  Py_DECREF((PyObject*)old);
  return true;
}

// A dense copy with the strides of `like` (contiguous if those overlap). Recorded when grad mode is on.
static Tensor* copy_like(Tensor* grad, const Layout* like) {
  const Layout* from = grad->layout;
  const int64_t* strides = (like->flags & L_DENSE) ? like->strides() : nullptr;
  static Op* const clone = op_find("clone");
  if (clone && ((tls.guard & G_RECORD) || !(tls.grad_mode || like == from))) {         // a new value is what compile() can fuse, an empty tensor that is written is not
    if (!strides || (like->flags & L_CONTIGUOUS)) return call_op(clone, {grad}, {}, {(uint64_t)MemoryFormat::Contiguous});
    if (like == from) return call_op(clone, {grad});
  }
  Tensor* out = tensor_empty(from->dtype, from->device, from->ndim, from->shape(), strides);
  if (!out) return nullptr;
  if (out->layout == from && !tls.grad_mode && from->device == Device::CPU && from->nbytes <= 65536) {
    if (!materialize(grad->storage)) { Py_DECREF((PyObject*)out); return nullptr; }
    memcpy(data_ptr(out), data_ptr(grad), (size_t)from->nbytes);
    return out;
  }
  PyObject* done = call_method(out, "copy_", grad);
  if (!done) { Py_DECREF((PyObject*)out); return nullptr; }
  Py_DECREF(done);
  return out;
}

Tensor* zeros_like_layout(const Layout* l) {
  Tensor* t = tensor_empty(l->dtype, l->device, l->ndim, l->shape());
  if (t && t->storage->data) memset(data_ptr(t), 0, (size_t)l->nbytes);
  return t;
}

// A gradient lies in memory as its parameter does, if that is dense, and otherwise contiguously.
static bool lies_like(const Layout* grad, const Layout* leaf) {
  if (!(leaf->flags & L_DENSE)) return grad->flags & L_CONTIGUOUS;
  for (int i = 0; i < leaf->ndim; i++)
    if (leaf->shape()[i] != 1 && grad->strides()[i] != leaf->strides()[i]) return false;
  return true;
}

static bool call_hook_list(PyObject* hooks, PyObject* argument) {
  PyObject* list = PyMapping_Values(hooks);       // a hook may remove itself
  if (!list) return false;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(list); i++) {
    PyObject* result = PyObject_CallOneArg(PyList_GET_ITEM(list, i), argument);
    good = result != nullptr;
    if (good && result != Py_None) { raise(PyExc_RuntimeError, "Tensor post accumulate grad hooks should return None."); good = false; }
    Py_XDECREF(result);
  }
  Py_DECREF(list);
  return good;
}

static bool accumulate_leaf(Node* n, Tensor** slot) {
  Tensor* leaf = n->leaf;
  if (!leaf || !leaf->requires_grad) return true;
  // Adding may release the GIL: two runs must not add into one gradient at the same time.
  while (n->busy) { Py_BEGIN_ALLOW_THREADS std::this_thread::yield(); Py_END_ALLOW_THREADS }
  n->busy = 1;
  Tensor* grad = *slot;
  bool good = true;
  if (!leaf->grad) {
    Tensor* kept;
    if (is_sparse(grad)) {                                // its memory is Python's; another object, since what the leaf keeps is added to in place
      if (sole_reference((PyObject*)grad) && !grad->requires_grad) { kept = grad; *slot = nullptr; } else kept = (Tensor*)call_method(grad, "clone");
    }
    else if (!tls.grad_mode && (owned_alone(grad) || recorded_alone(grad)) && lies_like(grad->layout, leaf->layout)) { kept = grad; *slot = nullptr; }
    else kept = copy_like(grad, leaf->layout);
    good = kept != nullptr;
    if (good) { PyObject* old = leaf->grad; leaf->grad = (PyObject*)kept; Py_XDECREF(old); }
  } else {
    PyObject* held = leaf->grad;
    Py_INCREF(held);
    PyObject* sum = is_sparse((Tensor*)held) && !is_sparse(grad) ? sparse_sum(held, (PyObject*)grad) : tls.grad_mode ? op_binary(S_ADD, held, (PyObject*)grad) : op_inplace(S_ADD, held, (PyObject*)grad);
    good = sum != nullptr;
    if (good) { PyObject* old = leaf->grad; leaf->grad = sum; Py_XDECREF(old); }
    Py_DECREF(held);
  }
  n->busy = 0;
  if (good && n->extra && n->extra->accumulated_hooks) good = call_hook_list(n->extra->accumulated_hooks, (PyObject*)leaf);
  return good;
}

// ------------------------------------------------------------------------------------------------------- executing a node
static void drop_all(Tensor** v, int n) { for (int i = 0; i < n; i++) { Py_XDECREF((PyObject*)v[i]); v[i] = nullptr; } }

// With more than 64 arguments the mask is all ones: every one is needed.
static bool is_needed(uint64_t needed, int i) { return i > 63 || (needed >> i & 1); }

static bool apply_plan(Node* n, Tensor** grads, uint64_t needed, Tensor** results) {
  const Plan* plan = n->plan;
  if (RL_UNLIKELY(n->released) && plan->recipe->parsed->once) return raise_second_time();
  Tensor* few[16];
  std::unique_ptr<Tensor*[]> many;
  Tensor** saved = few;
  if (RL_UNLIKELY(n->nsaved > 16)) { many.reset(new Tensor*[n->nsaved]); saved = many.get(); }
  int unpacked = 0;
  bool good = true;
  for (; unpacked < n->nsaved; unpacked++) {
    saved[unpacked] = saved_unpack(n, unpacked, tls.grad_mode);
    if (RL_UNLIKELY(!saved[unpacked]) && PyErr_Occurred()) { good = false; break; }
  }
  PyObject* outs_few[24];
  std::unique_ptr<PyObject*[]> outs_many;
  PyObject** outs = outs_few;
  if (RL_UNLIKELY(n->nedges > 24)) { outs_many.reset(new PyObject*[n->nedges]); outs = outs_many.get(); }
  if (RL_LIKELY(good)) {
    Call call;
    good = backward_call(call, plan, grads, n->nslots, saved, n->nsaved, needed, n->scalars());
    int count = good ? run_call(call, outs, n->nedges) : -1;
    good = count >= 0;
    int k = 0;
    for (int i = 0; good && i < n->nedges && k < count; i++) {
      if (!is_needed(needed, i)) continue;
      PyObject* out = outs[k++];
      if (out == Py_None) Py_DECREF(out); else results[i] = (Tensor*)out;
    }
  }
  for (int i = 0; i < unpacked; i++) Py_XDECREF((PyObject*)saved[i]);
  return good;
}

static Tensor* replay_chain(Tensor* base, const ViewStep& step) {
  Tensor* t = base;
  Py_INCREF((PyObject*)t);
  for (const ViewSpec& spec : step.chain) {
    Tensor* next;
    if (spec.kind == ViewKind::AsStrided) {        // its offset counts from the start of the storage, where the copy begins at once
      ViewSpec moved = spec;
      moved.ints.back() -= step.source_offset / itemsize(step.source->dtype);
      next = view_apply(t, moved);
    } else {
      next = view_apply(t, spec);
    }
    Py_DECREF((PyObject*)t);
    if (!next) return nullptr;
    t = next;
  }
  return t;
}

// The base's gradient goes on unchanged outside the written region; inside, the writer says what it becomes.
static bool apply_copy_slices(Node* n, Tensor** grads, uint64_t needed, Tensor** results) {
  if (RL_UNLIKELY(n->released)) return raise_second_time();          // torch's node gives up its writer
  const ViewStep& step = *n->step;
  Node* writer = step.writer;
  Tensor* whole = copy_like(grads[0], step.source);
  if (!whole) return false;
  std::vector<Tensor*> inner(writer->nedges, nullptr), incoming(writer->nslots, nullptr);
  Tensor* region = replay_chain(whole, step);
  bool good = region != nullptr;
  if (good) {
    incoming[0] = (Tensor*)call_method(region, "clone");
    good = incoming[0] != nullptr;
  }
  if (good) {
    uint64_t wanted = needed >> 1;
    const bool own = (needed & 1) && step.written >= 0 && writer->edges()[step.written].node;
    if (step.written >= 0) wanted = own ? wanted | uint64_t(1) << step.written : wanted & ~(uint64_t(1) << step.written);
    good = !wanted || node_apply(writer, incoming.data(), wanted, inner.data());
  }
  if (good && (needed & 1)) {
    Tensor* inside = step.written >= 0 ? inner[step.written] : nullptr;
    PyObject* done = inside ? call_method(region, "copy_", inside) : call_method(region, "zero_");
    good = done != nullptr;
    Py_XDECREF(done);
    if (good) { results[0] = whole; Py_INCREF((PyObject*)whole); }
  }
  if (good)
    for (int i = 0; i < writer->nedges; i++) if (i != step.written && (needed >> (1 + i) & 1)) { results[1 + i] = inner[i]; inner[i] = nullptr; }
  for (Tensor* t : inner) Py_XDECREF((PyObject*)t);
  for (Tensor* t : incoming) Py_XDECREF((PyObject*)t);
  Py_XDECREF((PyObject*)region);
  Py_DECREF((PyObject*)whole);
  return good;
}

bool node_apply(Node* n, Tensor** grads, uint64_t needed, Tensor** results) {
  if (n->kind == NodeKind::Function) return function_apply_backward(n, grads, needed, results);
  bool any = false, sparse = false;
  for (int i = 0; i < n->nslots; i++) if (grads[i]) { any = true; sparse |= is_sparse(grads[i]); }
  if (!any || !needed) return true;          // an undefined gradient stays undefined
  if (RL_UNLIKELY(sparse) && !densify(grads, n->nslots)) return false;
  switch (n->kind) {
    case NodeKind::Plan: return apply_plan(n, grads, needed, results);
    case NodeKind::View: results[0] = view_step_backward(*n->step, grads[0]); return results[0] != nullptr;
    case NodeKind::CopySlices: return apply_copy_slices(n, grads, needed, results);
    default: return true;
  }
}

// -------------------------------------------------------------------------------------------------------------------- hooks
static std::string hook_name(PyObject* hook) {
  PyObject* name = nullptr;
  if (optional_attribute(hook, "__name__", &name) <= 0) { PyErr_Clear(); name = PyObject_Repr(hook); }
  const char* text = name ? PyUnicode_AsUTF8(name) : nullptr;
  std::string s = text ? text : "?";
  Py_XDECREF(name);
  PyErr_Clear();
  return s;
}

static bool acceptable(PyObject* hook, Tensor* before, PyObject* after) {
  if (!is_tensor(after)) {
    raise(PyExc_TypeError, "expected Variable, but hook returned '%s'", Py_TYPE(after)->tp_name);
    return false;
  }
  const Layout *was = before->layout, *is = ((Tensor*)after)->layout;
  if (was->dtype != is->dtype || was->device != is->device) {
    raise(PyExc_RuntimeError, "hook '%s' has changed the type of value (was %s got %s)", hook_name(hook).c_str(), DTYPES[(int)was->dtype].name, DTYPES[(int)is->dtype].name);
    return false;
  }
  if (!same_shape(was, is)) {
    raise(PyExc_RuntimeError, "hook '%s' has changed the size of value: the gradient was %s, the hook returned %s", hook_name(hook).c_str(),
          shape_text(was).c_str(), shape_text(is).c_str());
    return false;
  }
  return true;
}

static bool run_tensor_hooks(Node* n, Tensor** grads) {
  for (size_t h = 0; h < n->extra->tensor_hooks.size(); h++) {
    const uint32_t slot = n->extra->tensor_hooks[h].slot;
    if (!grads[slot]) continue;
    PyObject* list = PyMapping_Values(n->extra->tensor_hooks[h].hooks);
    if (!list) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
      PyObject* hook = PyList_GET_ITEM(list, i);
      PyObject* result = PyObject_CallOneArg(hook, (PyObject*)grads[slot]);
      if (!result || (result != Py_None && !acceptable(hook, grads[slot], result))) { Py_XDECREF(result); Py_DECREF(list); return false; }
      if (result == Py_None) { Py_DECREF(result); continue; }
      Tensor* old = grads[slot];
      grads[slot] = (Tensor*)result;
      Py_DECREF((PyObject*)old);
    }
    Py_DECREF(list);
  }
  for (size_t r = 0; r < n->extra->retained.size(); r++) {
    const uint32_t slot = n->extra->retained[r].slot;
    if (!grads[slot]) continue;
    Tensor* t = (Tensor*)weak_target(n->extra->retained[r].tensor);
    if (!t) continue;
    // A contiguous copy: its owner may write it, and others still read the gradient, which may be an expanded view besides.
    PyObject* kept = t->grad ? op_binary(S_ADD, t->grad, (PyObject*)grads[slot]) : is_sparse(grads[slot]) ? call_method(grads[slot], "clone") :
                     (PyObject*)call_op(op_find("clone"), {grads[slot]}, {}, {(uint64_t)MemoryFormat::Contiguous});
    if (kept) { PyObject* old = t->grad; t->grad = kept; Py_XDECREF(old); }
    Py_DECREF((PyObject*)t);
    if (!kept) return false;
  }
  return true;
}

static PyObject* gradient_tuple(Tensor** v, int n) {
  PyObject* t = PyTuple_New(n);
  for (int i = 0; t && i < n; i++) {
    PyObject* o = v[i] ? (PyObject*)v[i] : Py_None;
    Py_INCREF(o);
    PyTuple_SET_ITEM(t, i, o);
  }
  return t;
}

// What a node hook returned, in place of `v`: a tuple of the same length, or one gradient where there is only one.
static bool take_replacement(PyObject* result, Tensor** v, int n) {
  PyObject* one[1] = {result};
  PyObject** items = one;
  Py_ssize_t count = 1;
  if (PyTuple_Check(result)) { count = PyTuple_GET_SIZE(result); items = &PyTuple_GET_ITEM(result, 0); }
  if (count != n) {
    raise(PyExc_RuntimeError, "hook has returned an incorrect number of values (got %zd, but expected %d)", count, n);
    return false;
  }
  for (int i = 0; i < n; i++)
    if (items[i] != Py_None && !is_tensor(items[i])) { raise(PyExc_TypeError, "expected Variable, but hook returned '%s'", Py_TYPE(items[i])->tp_name); return false; }
  for (int i = 0; i < n; i++) {
    Tensor* old = v[i];
    v[i] = items[i] == Py_None ? nullptr : (Tensor*)items[i];
    if (v[i]) Py_INCREF((PyObject*)v[i]);
    Py_XDECREF((PyObject*)old);
  }
  return true;
}

static bool run_pre_hooks(Node* n, Tensor** grads) {
  PyObject* list = PyMapping_Values(n->extra->pre_hooks);
  bool good = list != nullptr;
  for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(list); i++) {
    PyObject* outputs = gradient_tuple(grads, n->nout);
    PyObject* result = outputs ? PyObject_CallOneArg(PyList_GET_ITEM(list, i), outputs) : nullptr;
    good = result && (result == Py_None || take_replacement(result, grads, n->nout));
    Py_XDECREF(result); Py_XDECREF(outputs);
  }
  Py_XDECREF(list);
  return good;
}

static bool run_post_hooks(Node* n, Tensor** results, PyObject* outputs) {
  PyObject* list = PyMapping_Values(n->extra->post_hooks);
  bool good = list != nullptr;
  for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(list); i++) {
    PyObject* inputs = gradient_tuple(results, n->nedges);
    PyObject* result = inputs ? PyObject_CallFunctionObjArgs(PyList_GET_ITEM(list, i), inputs, outputs, nullptr) : nullptr;
    good = result && (result == Py_None || take_replacement(result, results, n->nedges));
    Py_XDECREF(result); Py_XDECREF(inputs);
  }
  Py_XDECREF(list);
  return good;
}

// ------------------------------------------------------------------------------------------------------------- anomaly mode
static Node* g_executing = nullptr;      // whose backward makes new nodes (double backward): their parent

static PyObject* anomaly_module() { return PyImport_ImportModule("rushlight.autograd.anomaly_mode"); }

void anomaly_remember(Node* n) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* module = anomaly_module();
  PyObject* stack = module ? PyObject_CallMethod(module, "_forward_stack", nullptr) : nullptr;
  if (stack) {
    NodeExtra* e = node_extra(n);
    if (!e->metadata) e->metadata = PyDict_New();
    if (e->metadata) PyDict_SetItemString(e->metadata, "traceback_", stack);
    if (e->metadata && g_executing && g_executing->extra && g_executing->extra->metadata)
      PyDict_SetItemString(e->metadata, "parent_", g_executing->extra->metadata);
    n->python = 1;
  }
  Py_XDECREF(stack); Py_XDECREF(module);
  PyErr_Restore(type, value, traceback);
}

void anomaly_report(Node* n) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* module = anomaly_module();
  PyObject* metadata = n->extra && n->extra->metadata ? n->extra->metadata : Py_None;
  PyObject* done = module ? PyObject_CallMethod(module, "_report", "sO", node_name(n), metadata) : nullptr;
  Py_XDECREF(done); Py_XDECREF(module);
  if (!done && PyErr_Occurred()) { Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(traceback); return; }   // warnings as errors
  PyErr_Restore(type, value, traceback);
}

static bool check_nan(Node* n, Tensor** results) {
  for (int i = 0; i < n->nedges; i++) {
    if (!results[i] || !dtype_differentiable(results[i]->layout->dtype)) continue;
    bool grad_mode = tls.grad_mode;
    tls.grad_mode = false;
    PyObject* values = is_sparse(results[i]) ? call_method(results[i], "_values") : Py_NewRef((PyObject*)results[i]);
    PyObject* different = values ? PyObject_RichCompare(values, values, Py_NE) : nullptr;     // NaN alone differs from itself
    Py_XDECREF(values);
    PyObject* any = different ? PyObject_CallMethod(different, "any", nullptr) : nullptr;
    int found = any ? PyObject_IsTrue(any) : -1;
    tls.grad_mode = grad_mode;
    Py_XDECREF(different); Py_XDECREF(any);
    if (found < 0) return false;
    if (found) { raise(PyExc_RuntimeError, "Function '%s' returned nan values in its %dth output.", node_name(n), i); return false; }
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------- run
enum Wanted : uint8_t { W_TARGET = 1 /* an input that was asked for */, W_EXECUTE = 2 /* leads to one */, W_ZERO = 4 /* see below */ };
// A rule may say that a gradient is zero by structure (of what zero_() overwrote, say): no tensor travels then, but W_ZERO does, and a leaf
// or an asked-for input at the end gets its zeros, as with torch. Without it the gradient does not exist (None).

struct Side { int32_t pending = 0; uint8_t wanted = 0; std::vector<Tensor*> grads; };

class Run {
 public:
  Run(bool keep, bool create) : id(++g_runs), keep_graph(keep), create_graph(create) {}
  ~Run() { give_back(); }
  bool start(Node*, uint32_t slot, Tensor* gradient /*borrowed*/);
  void explore();
  void select(const std::vector<Edge>& inputs, bool accumulate);
  bool loop();
  bool executes(Node* n) {
    if (n->run != id && !(side && side->count(n))) return false;
    return !selective || wanted(n);
  }
  const uint64_t id;
  std::vector<Tensor*> captured;
  std::vector<int> zero_inputs;                 // asked-for inputs whose gradient is zero by structure

 private:
  const bool keep_graph, create_graph;
  bool selective = false;
  std::vector<Node*> nodes;                     // every claimed node, held
  std::vector<Node*> heap;
  std::vector<Node*> release_last;              // nodes whose saved values are freed when the run is over
  std::unique_ptr<std::unordered_map<Node*, Side>> side;
  std::unordered_map<Node*, std::vector<std::pair<uint32_t, int>>> captures;

  bool claim(Node*);
  Side& side_of(Node* n) { return (*side)[n]; }
  bool mine(Node* n) const { return RL_LIKELY(n->run == id); }
  int32_t& pending(Node* n) { return mine(n) ? n->pending : side_of(n).pending; }
  uint8_t& wanted(Node* n) { return mine(n) ? n->wanted : side_of(n).wanted; }
  Tensor** grads(Node* n) { return mine(n) ? n->grads() : side_of(n).grads.data(); }
  bool execute(Node*);
  void capture(Node*, Tensor**);
  void give_back();

  static uint64_t priority(const Node* n) { return n->kind == NodeKind::Accumulate ? ~uint64_t(0) : n->sequence; }
  static bool later(const Node* a, const Node* b) { return priority(a) < priority(b); }
  void push(Node* n) { heap.push_back(n); std::push_heap(heap.begin(), heap.end(), later); }
  Node* pop() { std::pop_heap(heap.begin(), heap.end(), later); Node* n = heap.back(); heap.pop_back(); return n; }
};

bool Run::claim(Node* n) {                      // true: seen for the first time
  if (RL_LIKELY(n->run == 0)) {
    n->run = id; n->pending = 0; n->wanted = 0;
  } else if (n->run == id) {
    return false;
  } else {
    if (!side) side.reset(new std::unordered_map<Node*, Side>);
    if (side->count(n)) return false;
    side_of(n).grads.resize(n->nslots, nullptr);
  }
  node_hold(n);
  nodes.push_back(n);
  return true;
}

bool Run::start(Node* n, uint32_t slot, Tensor* gradient) {
  claim(n);
  Py_INCREF((PyObject*)gradient);
  return add_into(&grads(n)[slot], gradient);
}

void Run::explore() {
  const size_t roots = nodes.size();
  for (size_t i = 0; i < nodes.size(); i++) {
    Node* n = nodes[i];
    Edge* e = n->edges();
    for (int k = 0; k < n->nedges; k++)
      if (Node* to = e[k].node) { claim(to); ++pending(to); }
  }
  for (size_t i = 0; i < roots; i++) if (!pending(nodes[i])) push(nodes[i]);
}

// Marks what leads to the inputs. Edges point to smaller sequence numbers, so ascending order sees every target first.
void Run::select(const std::vector<Edge>& inputs, bool accumulate) {
  selective = true;
  captured.assign(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); i++) {
    Node* n = inputs[i].node;
    if (!n || (n->run != id && !(side && side->count(n)))) continue;            // not part of this graph
    wanted(n) |= W_TARGET;
    if (!accumulate) captures[n].push_back({inputs[i].slot, (int)i});
    else if (n->kind == NodeKind::Accumulate) wanted(n) |= W_EXECUTE;
  }
  std::vector<Node*> order(nodes);
  std::sort(order.begin(), order.end(), [](Node* a, Node* b) { return a->sequence < b->sequence; });
  for (Node* n : order)
    if (n->kind == NodeKind::Accumulate) continue;
    else for (int k = 0; k < n->nedges; k++)
      if (Node* to = n->edges()[k].node) if (wanted(to)) { wanted(n) |= W_EXECUTE; break; }
}

void Run::capture(Node* n, Tensor** g) {
  auto found = captures.find(n);
  if (found == captures.end()) return;
  for (auto [slot, index] : found->second) {
    if (g[slot]) {
      Py_XDECREF((PyObject*)captured[index]);
      captured[index] = g[slot];
      Py_INCREF((PyObject*)g[slot]);
    } else if (wanted(n) & W_ZERO) {
      zero_inputs.push_back(index);
    }
  }
}

bool Run::execute(Node* n) {
  Tensor** g = grads(n);
  if (RL_UNLIKELY(n->extra != nullptr) && !run_tensor_hooks(n, g)) return false;
  const uint8_t marks = wanted(n);
  if (RL_UNLIKELY(selective)) {
    capture(n, g);
    if (!(marks & W_EXECUTE)) { drop_all(g, n->nslots); return true; }
  }
  if (RL_UNLIKELY(n->extra && n->extra->pre_hooks) && !run_pre_hooks(n, g)) return false;
  if (n->kind == NodeKind::Accumulate) {
    if (RL_UNLIKELY(!g[0]) && (marks & W_ZERO) && n->leaf && !(g[0] = zeros_like_layout(n->leaf->layout))) return false;
    bool good = !g[0] || accumulate_leaf(n, &g[0]);
    drop_all(g, 1);
    if (good && n->extra && n->extra->post_hooks) { PyObject* none = PyTuple_New(0); good = none && run_post_hooks(n, nullptr, none); Py_XDECREF(none); }
    return good;
  }

  uint64_t needed = 0;
  Edge* e = n->edges();
  for (int k = 0; k < n->nedges; k++)
    if (Node* to = e[k].node) { if (RL_LIKELY(!selective) || (wanted(to) & (W_TARGET | W_EXECUTE))) needed |= uint64_t(1) << (k & 63); }
  if (RL_UNLIKELY(n->nedges > 64)) needed = ~uint64_t(0);

  Tensor* few[16];
  std::unique_ptr<Tensor*[]> many;
  Tensor** results = few;
  if (RL_UNLIKELY(n->nedges > 16)) { many.reset(new Tensor*[n->nedges]); results = many.get(); }
  for (int k = 0; k < n->nedges; k++) results[k] = nullptr;

  // Whatever comes out as absent although something went in is zero by structure. (A Python backward that returns None means None, an operator may
  // say the same of itself; and the gradient of a gradient with respect to a value that only steered it, a mask say, does not exist in torch.)
  bool something = marks & W_ZERO;
  for (int i = 0; i < n->nslots; i++) something |= g[i] != nullptr;
  const bool zero = something && n->kind != NodeKind::Function && !(n->kind == NodeKind::Plan && (n->plan->op->is_backward || n->plan->recipe->parsed->unreached));

  PyObject* outputs = nullptr;                                    // for post hooks: the gradients as the node got them
  if (RL_UNLIKELY(n->extra && n->extra->post_hooks) && !(outputs = gradient_tuple(g, n->nout))) return false;
  Node* outer = g_executing;
  if (RL_UNLIKELY(g_anomaly)) g_executing = n;
  bool good = node_apply(n, g, needed, results);
  if (RL_UNLIKELY(g_anomaly)) {
    if (good && g_anomaly_nan) good = check_nan(n, results);
    g_executing = outer;
    if (!good) anomaly_report(n);
  }
  drop_all(grads(n), n->nslots);
  if (good && !keep_graph) {
    // The writer of a region may run twice: inside CopySlices, and by itself where its saved output was differentiated.
    if (RL_UNLIKELY(n->writer || n->kind == NodeKind::CopySlices)) release_last.push_back(n);
    else node_release_saved(n);
  }
  if (good && outputs) good = run_post_hooks(n, results, outputs);
  Py_XDECREF(outputs);
  if (RL_UNLIKELY(!good)) { drop_all(results, n->nedges); return false; }

  for (int k = 0; k < n->nedges; k++) {
    Node* to = e[k].node;
    if (!to) { Py_XDECREF((PyObject*)results[k]); continue; }
    if (results[k]) {
      Tensor* r = results[k];
      results[k] = nullptr;
      if (RL_UNLIKELY(selective) && !wanted(to)) Py_DECREF((PyObject*)r);
      else if (!add_into(&grads(to)[e[k].slot], r)) { drop_all(results, n->nedges); return false; }
    } else if (zero && (!selective || wanted(to))) {
      wanted(to) |= W_ZERO;
    }
    if (--pending(to) == 0 && (RL_LIKELY(!selective) || wanted(to))) push(to);
  }
  return true;
}

bool Run::loop() {
  while (!heap.empty()) {
    if (!execute(pop())) return false;
    if (RL_UNLIKELY(PyErr_CheckSignals() < 0)) return false;
  }
  for (Node* n : release_last) node_release_saved(n);
  return true;
}

void Run::give_back() {
  for (Node* n : nodes) {
    if (n->run != id) continue;
    drop_all(n->grads(), n->nslots);
    n->run = 0;
  }
  if (side) for (auto& [n, s] : *side) drop_all(s.grads.data(), (int)s.grads.size());
  side.reset();
  for (Tensor* t : captured) Py_XDECREF((PyObject*)t);
  captured.clear();
  std::vector<Node*> held;
  held.swap(nodes);
  for (Node* n : held) node_drop(n);
}

struct GradMode {
  bool before;
  explicit GradMode(bool on) : before(tls.grad_mode) { tls.grad_mode = on; }
  ~GradMode() { tls.grad_mode = before; }
};

static thread_local Run* t_run = nullptr;
struct Current {
  Run* outer;
  explicit Current(Run* r) : outer(t_run) { t_run = r; }
  ~Current() { t_run = outer; }
};
int64_t current_run() { return t_run ? (int64_t)t_run->id : -1; }
bool run_executes(Node* n) { return t_run && t_run->executes(n); }

bool engine_run(const BackwardRequest& request, Tensor** captured) {
  GradMode mode(request.create_graph);
  Run run(request.keep_graph, request.create_graph);
  Current current(&run);
  for (int i = 0; i < request.nroots; i++) {
    const Edge& e = request.roots[i];
    if (e.node && !run.start(e.node, e.slot, request.gradients[i])) return false;
  }
  run.explore();
  if (request.ninputs) run.select(std::vector<Edge>(request.inputs, request.inputs + request.ninputs), request.accumulate);
  if (!run.loop()) return false;
  for (int i : run.zero_inputs)
    if (!run.captured[i] && request.input_layouts[i]) {
      const Node* node = request.inputs[i].node;
      Tensor* leaf = node && node->kind == NodeKind::Accumulate ? node->leaf : nullptr;
      run.captured[i] = leaf && is_sparse(leaf) ? (Tensor*)PyObject_CallOneArg((PyObject*)op_face(op_find("zeros_like"), false, 0), (PyObject*)leaf)
                                                : zeros_like_layout(request.input_layouts[i]);
      if (!run.captured[i]) return false;
    }
  for (int i = 0; captured && i < request.ninputs; i++) { captured[i] = run.captured[i]; run.captured[i] = nullptr; }
  return true;
}

}  // namespace rl
