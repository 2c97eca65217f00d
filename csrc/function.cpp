// autograd.Function: nodes whose backward is Python.
//
// The ctx that forward and backward see is the grad_fn of the outputs. The node owns the ctx; the ctx points back without owning, and says so
// when the graph has gone. Inputs and intermediates given to save_for_backward are kept as the objects they are; an output is kept
// as storage and layout in the node, so that it makes no cycle. Version counters guard both.
#include "tape.h"
#include "compat.h"
#include <memory>

namespace rl {

PyTypeObject* FunctionBaseType = nullptr;

struct FunctionCtx {
  PyObject_HEAD
  Node* node;                       // borrowed; null before forward returned and after the graph died
  PyObject *dict, *weakrefs;
  PyObject *to_save, *dirty, *non_differentiable, *needs_input_grad;
  PyObject* saved_objects;          // tuple: the original, or None for an output (the node has it) and for None
  PyObject* materialize;            // True or False
  std::vector<uint8_t>* is_tensor;  // per forward argument
  std::vector<Layout*>* inputs;     // of the tensor arguments; owned
  std::vector<Layout*>* outputs;    // null: not a tensor; owned
};

static void drop_layouts(std::vector<Layout*>** v) {
  if (!*v) return;
  for (Layout* l : **v) if (l) decref(l);
  delete *v;
  *v = nullptr;
}

static int ctx_traverse(PyObject* o, visitproc visit, void* arg) {
  FunctionCtx* c = (FunctionCtx*)o;
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(c->dict); Py_VISIT(c->to_save); Py_VISIT(c->dirty); Py_VISIT(c->non_differentiable); Py_VISIT(c->needs_input_grad);
  Py_VISIT(c->saved_objects);
  return 0;
}
static int ctx_clear(PyObject* o) {
  FunctionCtx* c = (FunctionCtx*)o;
  Py_CLEAR(c->dict); Py_CLEAR(c->to_save); Py_CLEAR(c->dirty); Py_CLEAR(c->non_differentiable); Py_CLEAR(c->saved_objects);
  return 0;
}
static void ctx_dealloc(PyObject* o) {
  FunctionCtx* c = (FunctionCtx*)o;
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  if (c->weakrefs) PyObject_ClearWeakRefs(o);
  ctx_clear(o);
  Py_CLEAR(c->needs_input_grad); Py_CLEAR(c->materialize);
  delete c->is_tensor;
  drop_layouts(&c->inputs);
  drop_layouts(&c->outputs);
  type->tp_free(o);
  Py_DECREF((PyObject*)type);
}

void function_node_dies(PyObject* ctx) { ((FunctionCtx*)ctx)->node = nullptr; }
void function_release_saved(PyObject* ctx) { Py_CLEAR(((FunctionCtx*)ctx)->saved_objects); }
const Layout* function_output_layout(PyObject* ctx, uint32_t slot) {
  auto* outputs = ((FunctionCtx*)ctx)->outputs;
  return outputs && slot < outputs->size() ? (*outputs)[slot] : nullptr;
}
bool function_forget_saved(PyObject* ctx, int index) {
  PyObject* old = ((FunctionCtx*)ctx)->saved_objects;
  if (!old) return true;
  PyObject* kept = PyTuple_New(PyTuple_GET_SIZE(old));
  if (!kept) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(old); i++) {
    PyObject* o = i == index ? Py_None : PyTuple_GET_ITEM(old, i);
    Py_INCREF(o);
    PyTuple_SET_ITEM(kept, i, o);
  }
  ((FunctionCtx*)ctx)->saved_objects = kept;
  Py_DECREF(old);
  return true;
}
Node* function_node(PyObject* o) { return PyObject_TypeCheck(o, FunctionBaseType) ? ((FunctionCtx*)o)->node : nullptr; }

// --------------------------------------------------------------------------------------------------------------- attributes
static PyObject* get_saved_tensors(PyObject* o, void*) {
  FunctionCtx* c = (FunctionCtx*)o;
  Node* n = c->node;
  if (!n) {
    if (c->to_save && PyTuple_Check(c->to_save)) { Py_INCREF(c->to_save); return c->to_save; }
    return PyTuple_New(0);
  }
  PyObject* result = PyTuple_New(n->nsaved);
  for (int i = 0; result && i < n->nsaved; i++) {
    PyObject* item = (PyObject*)saved_unpack(n, i, true);      // a saved output comes back with its history, whatever the mode
    if (!item && PyErr_Occurred()) { Py_CLEAR(result); break; }
    PyObject* original = c->saved_objects ? PyTuple_GET_ITEM(c->saved_objects, i) : Py_None;
    if (!item || original != Py_None) { Py_XDECREF(item); item = original; Py_INCREF(item); }
    PyTuple_SET_ITEM(result, i, item);
  }
  return result;
}
static PyObject* get_next_functions(PyObject* o, void*) {
  Node* n = ((FunctionCtx*)o)->node;
  if (!n) return raise(PyExc_RuntimeError, "Attribute 'next_functions' is invalid for this instance: its graph is gone, or forward has not returned yet");
  return node_next_functions(n);
}
static PyObject* get_metadata(PyObject* o, void*) {
  Node* n = ((FunctionCtx*)o)->node;
  if (!n) return raise(PyExc_RuntimeError, "Attribute 'metadata' is invalid for this instance: its graph is gone, or forward has not returned yet");
  NodeExtra* e = node_extra(n);
  if (!e->metadata) e->metadata = PyDict_New();
  Py_XINCREF(e->metadata);
  return e->metadata;
}
static PyObject* py_name(PyObject* o, PyObject*) {
  PyObject* name = PyObject_GetAttrString((PyObject*)Py_TYPE(o), "__name__");
  return name;
}
static PyObject* py_sequence_nr(PyObject* o, PyObject*) {
  Node* n = ((FunctionCtx*)o)->node;
  return PyLong_FromUnsignedLongLong(n ? n->sequence : 0);
}
static PyObject* get_requires_grad(PyObject*, void*) { Py_RETURN_TRUE; }

static PyObject* get_object(PyObject* o, void* where) {
  PyObject* v = *(PyObject**)((char*)o + (size_t)where);
  if (!v) v = Py_None;
  Py_INCREF(v);
  return v;
}
static int set_object(PyObject* o, PyObject* v, void* where) {
  PyObject** place = (PyObject**)((char*)o + (size_t)where);
  PyObject* old = *place;
  Py_XINCREF(v);
  *place = v;
  Py_XDECREF(old);
  return 0;
}

// ------------------------------------------------------------------------------------------------------------------- forward
struct Reference {             // an owned reference
  PyObject* p;
  explicit Reference(PyObject* o = nullptr) : p(o) {}
  ~Reference() { Py_XDECREF(p); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  PyObject* give() { PyObject* o = p; p = nullptr; return o; }
  explicit operator bool() const { return p != nullptr; }
};

static int find_tensor(PyObject* tuple, PyObject* o) {       // by identity; -1: not there
  for (Py_ssize_t i = 0; tuple && PyTuple_Check(tuple) && i < PyTuple_GET_SIZE(tuple); i++) if (PyTuple_GET_ITEM(tuple, i) == o) return (int)i;
  return -1;
}

static bool check_tuple(PyObject* tuple, const char* format) {
  if (!tuple || tuple == Py_None) return true;
  if (!PyTuple_Check(tuple)) { raise(PyExc_TypeError, format, (Py_ssize_t)0, Py_TYPE(tuple)->tp_name); return false; }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject* o = PyTuple_GET_ITEM(tuple, i);
    if (o != Py_None && !is_tensor(o)) { raise(PyExc_TypeError, format, i, Py_TYPE(o)->tp_name); return false; }
  }
  return true;
}

static PyObject* call_forward(PyObject* cls, PyObject* ctx, PyObject* inputs) {
  Reference forward(PyObject_GetAttrString(cls, "forward"));
  Reference split(PyObject_GetAttrString(cls, "_uses_setup_context"));
  if (!forward || !split) return nullptr;
  const bool grad_mode = tls.grad_mode;
  tls.grad_mode = false;
  PyObject* output;
  if (split.p == Py_True) {
    output = PyObject_Call(forward.p, inputs, nullptr);
    Reference setup(output ? PyObject_GetAttrString(cls, "setup_context") : nullptr);
    Reference done(setup ? PyObject_CallFunctionObjArgs(setup.p, ctx, inputs, output, nullptr) : nullptr);
    if (!done) Py_CLEAR(output);
  } else {
    const Py_ssize_t n = PyTuple_GET_SIZE(inputs);
    Reference args(PyTuple_New(n + 1));
    if (!args) { tls.grad_mode = grad_mode; return nullptr; }
    Py_INCREF(ctx);
    PyTuple_SET_ITEM(args.p, 0, ctx);
    for (Py_ssize_t i = 0; i < n; i++) { PyObject* o = PyTuple_GET_ITEM(inputs, i); Py_INCREF(o); PyTuple_SET_ITEM(args.p, i + 1, o); }
    output = PyObject_Call(forward.p, args.p, nullptr);
  }
  tls.grad_mode = grad_mode;
  return output;
}

// The node, connected to the tensor arguments as they are before anything dirty is rebased.
static Node* make_node(FunctionCtx* ctx, PyObject* inputs, int nout, int nsaved) {
  int edges = 0;
  for (uint8_t t : *ctx->is_tensor) edges += t;
  Node* n = node_new(NodeKind::Function, edges, nout, 0, nsaved);
  if (!n) return nullptr;
  n->python = 1;
  n->ctx = (PyObject*)ctx;
  Py_INCREF((PyObject*)ctx);
  ctx->node = n;
  int k = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
    if (!(*ctx->is_tensor)[i]) continue;
    Edge e;
    if (!gradient_edge((Tensor*)PyTuple_GET_ITEM(inputs, i), &e)) { node_drop(n); return nullptr; }
    if (e.node) node_hold(e.node);
    n->edges()[k++] = e;
  }
  node_connected(n);
  return n;
}

static int edge_index(FunctionCtx* ctx, PyObject* inputs, PyObject* tensor) {
  int k = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
    if (!(*ctx->is_tensor)[i]) continue;
    if (PyTuple_GET_ITEM(inputs, i) == tensor) return k;
    k++;
  }
  return -1;
}

// One tensor that forward returned, given its place in the graph. Takes `out` over; returns what the user gets.
static PyObject* wrap_output(FunctionCtx* ctx, Node* n, PyObject* inputs, PyObject* out, int index) {
  Tensor* t = (Tensor*)out;
  const int from = edge_index(ctx, inputs, out);
  const bool dirty = find_tensor(ctx->dirty, out) >= 0;
  const bool differentiable = n && dtype_differentiable(t->layout->dtype) && find_tensor(ctx->non_differentiable, out) < 0;
  if (from >= 0 && !dirty) {                 // an input returned as it is: a new tensor over the same memory
    Tensor* alias = tensor_alias(t);
    Py_DECREF(out);
    if (!alias) return nullptr;
    if (differentiable) tape_set_history(alias, n, index);
    return (PyObject*)alias;
  }
  if (!differentiable) {
    if (t->requires_grad && !dirty && n && !view_base(t)) tape_detach_(t);
    return out;
  }
  if (dirty) {
    bump_version(t);
    if (t->requires_grad && is_leaf(t)) {
      raise(PyExc_RuntimeError, "a leaf Variable that requires grad has been used in an in-place operation. It has shape %s; call apply on a copy (clone()).", shape_text(t->layout).c_str());
      Py_DECREF(out);
      return nullptr;
    }
    if (!tape_check_written(t) || !rebase_history(t, n, index, from)) { Py_DECREF(out); return nullptr; }
    return out;
  }
  tape_set_history(t, n, index);
  if (view_base(t)) { t->view->creation = Creation::CustomFunction; t->view->output = (uint16_t)index; t->view->function = nullptr; }
  return out;
}

static bool save_for_backward(FunctionCtx* ctx, Node* n, PyObject* inputs, PyObject* outputs) {
  const int count = n->nsaved;
  ctx->saved_objects = PyTuple_New(count);
  if (!ctx->saved_objects) return false;
  for (int i = 0; i < count; i++) {
    PyObject* o = PyTuple_GET_ITEM(ctx->to_save, i);
    PyObject* original = Py_None;
    if (o != Py_None) {
      Tensor* t = (Tensor*)o;
      if (t->bits & T_INFERENCE) {
        raise(PyExc_RuntimeError, "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor and use it in autograd.");
        return false;
      }
      const int output = find_tensor(outputs, o);
      const int edge = edge_index(ctx, inputs, o);
      if (output < 0) original = o;
      saved_fill(&n->saved()[i], t, version_of(t), output >= 0 ? (uint16_t)output : edge >= 0 ? (uint16_t)edge : NO_HISTORY, output >= 0);
      if (tls.saved_hooks) {
        original = Py_None;
        if (!saved_pack_default(n, &n->saved()[i], t)) return false;
      }
    }
    Py_INCREF(original);
    PyTuple_SET_ITEM(ctx->saved_objects, i, original);
  }
  Py_CLEAR(ctx->to_save);
  return true;
}

static PyObject* function_apply(PyObject* cls, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (kwnames && PyTuple_GET_SIZE(kwnames)) {       // gradients go by position: keywords get theirs from forward's signature
    Reference place(PyObject_GetAttrString(cls, "_positional"));
    Reference all(place ? PyObject_Vectorcall(place.p, args, (size_t)nargs, kwnames) : nullptr);
    return all ? function_apply(cls, &PyTuple_GET_ITEM(all.p, 0), PyTuple_GET_SIZE(all.p), nullptr) : nullptr;
  }
  if (RL_UNLIKELY(tls.guard & G_MODE)) {            // a level of vmap or of forward mode takes the Function as a whole
    Reference ask(PyObject_GetAttrString(cls, "_at_level"));
    Reference answer(ask ? PyObject_Vectorcall(ask.p, args, (size_t)nargs, nullptr) : nullptr);
    if (!answer) return nullptr;
    if (answer.p != Py_NotImplemented) return answer.give();
  }
  Reference backward_cls(PyObject_GetAttrString(cls, "_backward_cls"));
  if (!backward_cls) return nullptr;
  Reference holder(PyObject_CallNoArgs(backward_cls.p));
  if (!holder) return nullptr;
  if (!PyObject_TypeCheck(holder.p, FunctionBaseType)) return raise(PyExc_TypeError, "_backward_cls must derive from _FunctionBase");
  FunctionCtx* ctx = (FunctionCtx*)holder.p;
  Reference inputs(PyTuple_New(nargs));
  ctx->needs_input_grad = PyTuple_New(nargs);
  if (!inputs || !ctx->needs_input_grad) return nullptr;
  ctx->is_tensor = new std::vector<uint8_t>(nargs);
  ctx->inputs = new std::vector<Layout*>;
  ctx->outputs = new std::vector<Layout*>;
  bool any = false;
  for (Py_ssize_t i = 0; i < nargs; i++) {
    PyObject* o = args[i];
    Py_INCREF(o);
    PyTuple_SET_ITEM(inputs.p, i, o);
    bool needs = false;
    if (is_tensor(o)) {
      Tensor* t = (Tensor*)o;
      (*ctx->is_tensor)[i] = 1;
      incref(t->layout);
      ctx->inputs->push_back(t->layout);
      needs = t->requires_grad;
    }
    any |= needs;
    PyTuple_SET_ITEM(ctx->needs_input_grad, i, PyBool_FromLong(needs));
  }
  const bool executable = any && tls.grad_mode;

  Reference output(call_forward(cls, holder.p, inputs.p));
  if (!output) return nullptr;
  const bool single = !PyTuple_Check(output.p);
  Reference outputs(single ? PyTuple_Pack(1, output.p) : PySequence_Tuple(output.p));
  if (!outputs) return nullptr;
  const Py_ssize_t nout = PyTuple_GET_SIZE(outputs.p);
  if (!check_tuple(ctx->to_save, "save_for_backward can only save variables, but argument %zd is of type %s") ||
      !check_tuple(ctx->dirty, "mark_dirty can only accept variables, but argument %zd is of type %s") ||
      !check_tuple(ctx->non_differentiable, "mark_non_differentiable can only accept variables, but argument %zd is of type %s")) return nullptr;
  for (Py_ssize_t i = 0; ctx->dirty && PyTuple_Check(ctx->dirty) && i < PyTuple_GET_SIZE(ctx->dirty); i++)
    if (find_tensor(outputs.p, PyTuple_GET_ITEM(ctx->dirty, i)) < 0)
      return raise(PyExc_RuntimeError, "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace "
                   "must all be outputs of the Function.");

  Node* n = nullptr;
  if (executable) {
    const int nsaved = ctx->to_save && PyTuple_Check(ctx->to_save) ? (int)PyTuple_GET_SIZE(ctx->to_save) : 0;
    n = make_node(ctx, inputs.p, (int)nout, nsaved);
    if (!n) return nullptr;
  }
  Reference results(PyTuple_New(nout));
  bool good = (bool)results;
  for (Py_ssize_t i = 0; good && i < nout; i++) {
    PyObject* o = PyTuple_GET_ITEM(outputs.p, i);
    Py_INCREF(o);
    Layout* layout = nullptr;
    if (is_tensor(o)) {
      layout = ((Tensor*)o)->layout;
      incref(layout);
      o = wrap_output(ctx, n, inputs.p, o, (int)i);
    }
    ctx->outputs->push_back(layout);
    good = o != nullptr;
    if (good) PyTuple_SET_ITEM(results.p, i, o);
  }
  if (n) {
    if (good) good = save_for_backward(ctx, n, inputs.p, outputs.p);
    node_drop(n);
  }
  if (!good) return nullptr;
  if (!single) return results.give();
  PyObject* only = PyTuple_GET_ITEM(results.p, 0);
  Py_INCREF(only);
  return only;
}

// ------------------------------------------------------------------------------------------------------------------ backward
// `to` can be spread to `from`: summing `from` gives a gradient of shape `to`.
static bool spreads_to(const Layout* to, const Layout* from) {
  if (to->ndim > from->ndim) return false;
  for (int i = 1; i <= to->ndim; i++) {
    int64_t a = to->shape()[to->ndim - i], b = from->shape()[from->ndim - i];
    if (a != b && a != 1) return false;
  }
  return true;
}


// The gradient that backward returned for one input, in that input's shape and dtype. Takes `o` over.
static Tensor* fitted(PyObject* o, const Layout* want, const char* name, int index) {
  Tensor* t = (Tensor*)o;
  if (!same_shape(t->layout, want)) {
    if (!spreads_to(want, t->layout)) {
      raise(PyExc_RuntimeError, "Function %s returned an invalid gradient at index %d - got %s but expected shape compatible with %s", name, index,
            shape_text(t->layout).c_str(), shape_text(want).c_str());
      Py_DECREF(o);
      return nullptr;
    }
    ViewStep step{ViewSpec{ViewKind::Expand, {}}, const_cast<Layout*>(want), 0, t->layout, 0, {}, nullptr, 0};
    Tensor* summed = view_step_backward(step, t);
    Py_DECREF(o);
    if (!summed) return nullptr;
    t = summed;
  }
  if (t->layout->dtype != want->dtype) {
    if (DTYPES[(int)t->layout->dtype].kind == 'c' && DTYPES[(int)want->dtype].kind != 'c') {
      PyObject* real = PyObject_GetAttrString((PyObject*)t, "real");
      Py_DECREF((PyObject*)t);
      if (!real) return nullptr;
      t = (Tensor*)real;
      if (t->layout->dtype == want->dtype) return t;
    }
    PyObject* cast = PyObject_CallMethod((PyObject*)t, "to", "O", dtype_object(want->dtype));
    Py_DECREF((PyObject*)t);
    t = (Tensor*)cast;
  }
  return t;
}

bool function_apply_backward(Node* n, Tensor** grads, uint64_t needed, Tensor** results) {
  FunctionCtx* ctx = (FunctionCtx*)n->ctx;
  Reference keep((PyObject*)ctx);
  Py_INCREF((PyObject*)ctx);
  const char* name = function_short_name((PyObject*)ctx);
  Reference args(PyTuple_New(n->nout));
  if (!args) return false;
  for (int i = 0; i < n->nout; i++) {
    PyObject* g = (PyObject*)grads[i];
    if (g) Py_INCREF(g);
    else if (ctx->materialize != Py_False && (*ctx->outputs)[i]) { g = (PyObject*)zeros_like_layout((*ctx->outputs)[i]); if (!g) return false; }
    else { g = Py_None; Py_INCREF(g); }
    PyTuple_SET_ITEM(args.p, i, g);
  }
  Reference method(PyObject_GetAttrString((PyObject*)ctx, "_run_backward"));
  if (!method) return false;
  Reference answer(PyObject_Call(method.p, args.p, nullptr));
  if (!answer) return false;
  Reference list(PyTuple_Check(answer.p) ? (Py_INCREF(answer.p), answer.p) : PyTuple_Pack(1, answer.p));
  if (!list) return false;
  const Py_ssize_t got = PyTuple_GET_SIZE(list.p), expected = (Py_ssize_t)ctx->is_tensor->size();
  bool enough = got >= expected;
  for (Py_ssize_t i = expected; i < got; i++) enough &= PyTuple_GET_ITEM(list.p, i) == Py_None;
  if (!enough) {
    raise(PyExc_RuntimeError, "function %s returned an incorrect number of gradients (expected %zd, got %zd)", name, expected, got);
    return false;
  }
  int k = 0;
  for (Py_ssize_t i = 0; i < expected; i++) {
    PyObject* o = PyTuple_GET_ITEM(list.p, i);
    const bool tensor_argument = (*ctx->is_tensor)[i];
    if (!tensor_argument) {
      if (o == Py_None) continue;
      raise(PyExc_RuntimeError, "function %s returned a gradient different than None at position %zd, but the corresponding forward input was not a Variable", name, i + 1);
      return false;
    }
    const int edge = k++;
    if (o == Py_None) continue;
    if (!is_tensor(o)) { raise(PyExc_RuntimeError, "expected Variable or None (got %s)", Py_TYPE(o)->tp_name); return false; }
    if (!n->edges()[edge].node || !(needed >> (edge & 63) & 1)) continue;
    Py_INCREF(o);
    results[edge] = fitted(o, (*ctx->inputs)[edge], name, edge);
    if (!results[edge]) return false;
  }
  return true;
}

// -------------------------------------------------------------------------------------------------------------------- module
const char* function_short_name(PyObject* ctx) {
  const char* name = Py_TYPE(ctx)->tp_name;
  const char* dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

static PyObject* ctx_new(PyTypeObject* type, PyObject*, PyObject*) {
  FunctionCtx* c = (FunctionCtx*)type->tp_alloc(type, 0);
  if (c) { c->materialize = Py_True; Py_INCREF(Py_True); }
  return (PyObject*)c;
}

#define CTX_OBJECT(name, doc) {#name, get_object, set_object, doc, (void*)offsetof(FunctionCtx, name)}
static PyGetSetDef getset[] = {
  CTX_OBJECT(to_save, "what save_for_backward was given"),
  {"dirty_tensors", get_object, set_object, "what mark_dirty was given", (void*)offsetof(FunctionCtx, dirty)},
  CTX_OBJECT(non_differentiable, "what mark_non_differentiable was given"),
  CTX_OBJECT(needs_input_grad, "for each argument of forward: whether it requires a gradient"),
  {"materialize_grads", get_object, set_object, "whether absent gradients come as zeros", (void*)offsetof(FunctionCtx, materialize)},
  {"saved_tensors", get_saved_tensors, nullptr, "what save_for_backward kept, checked against in-place changes", nullptr},
  {"next_functions", get_next_functions, nullptr, nullptr, nullptr},
  {"metadata", get_metadata, nullptr, nullptr, nullptr},
  {"requires_grad", get_requires_grad, nullptr, nullptr, nullptr},
  {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
  {nullptr}};
static PyMethodDef methods[] = {
  {"apply", (PyCFunction)(void*)function_apply, METH_FASTCALL | METH_KEYWORDS | METH_CLASS, "apply(*args)\n\nRuns forward and records backward."},
  {"name", py_name, METH_NOARGS, "name() -> str"},
  {"_sequence_nr", py_sequence_nr, METH_NOARGS, "_sequence_nr() -> int"},
  {nullptr}};
static PyMemberDef members[] = {
  {"__dictoffset__", RL_T_PYSSIZET, offsetof(FunctionCtx, dict), RL_READONLY},
  {"__weaklistoffset__", RL_T_PYSSIZET, offsetof(FunctionCtx, weakrefs), RL_READONLY},
  {nullptr}};
static PyType_Slot slots[] = {
  {Py_tp_new, (void*)ctx_new}, {Py_tp_dealloc, (void*)ctx_dealloc}, {Py_tp_traverse, (void*)ctx_traverse}, {Py_tp_clear, (void*)ctx_clear},
  {Py_tp_getset, getset}, {Py_tp_methods, methods}, {Py_tp_members, members}, {0, nullptr}};
static PyType_Spec spec = {"rushlight._C._FunctionBase", sizeof(FunctionCtx), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

bool init_function(PyObject* m) {
  FunctionBaseType = (PyTypeObject*)PyType_FromSpec(&spec);
  return FunctionBaseType && PyModule_AddObjectRef(m, "_FunctionBase", (PyObject*)FunctionBaseType) == 0;
}

}  // namespace rl
