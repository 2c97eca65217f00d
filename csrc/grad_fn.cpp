// What Python sees of the tape: grad_fn objects, hooks, backward() and grad().
//
// A grad_fn object holds its node; the node knows the object while one is alive, so `y.grad_fn is y.grad_fn`. Each node name has a type of
// its own ("MulBackward0"), made when first seen. An autograd.Function's node shows its ctx instead (function.cpp).
#include "tape.h"
#include "compat.h"
#include <memory>
#include <unordered_map>

namespace rl {

struct NodeObject {
  PyObject_HEAD
  Node* node;
};
static PyTypeObject* NodeType = nullptr;
static std::unordered_map<std::string, PyTypeObject*>* g_types = nullptr;      // by name; live for ever
static PyObject* OrderedDictType = nullptr;

static void node_object_dealloc(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  Node* n = ((NodeObject*)o)->node;
  if (n->extra && n->extra->face == o) n->extra->face = nullptr;
  node_drop(n);
  type->tp_free(o);
  Py_DECREF((PyObject*)type);
}

static PyObject* node_object_repr(PyObject* o) { return PyUnicode_FromFormat("<%s object at %p>", node_name(((NodeObject*)o)->node), o); }

static PyTypeObject* type_for(const char* name) {
  auto found = g_types->find(name);
  if (found != g_types->end()) return found->second;
  std::string* kept = new std::string(std::string("builtins.") + name);       // a type keeps a pointer to its name
  PyType_Slot slots[] = {{0, nullptr}};
  PyType_Spec spec = {kept->c_str(), sizeof(NodeObject), 0, Py_TPFLAGS_DEFAULT, slots};
  PyTypeObject* type = (PyTypeObject*)PyType_FromSpecWithBases(&spec, (PyObject*)NodeType);
  if (type) (*g_types)[name] = type;
  return type;
}

PyObject* node_object(Node* n) {
  if (n->kind == NodeKind::Function && n->ctx) { Py_INCREF(n->ctx); return n->ctx; }
  NodeExtra* e = node_extra(n);
  if (e->face) { Py_INCREF(e->face); return e->face; }
  PyTypeObject* type = type_for(node_name(n));
  if (!type) return nullptr;
  NodeObject* o = (NodeObject*)type->tp_alloc(type, 0);
  if (!o) return nullptr;
  o->node = n;
  node_hold(n);
  e->face = (PyObject*)o;
  return (PyObject*)o;
}

PyObject* tensor_grad_fn(Tensor* t) {
  if (view_base(t) && t->requires_grad && !refresh_view(t)) return nullptr;
  if (!t->node || t->node->kind == NodeKind::Accumulate) Py_RETURN_NONE;
  tensor_track(t);                     // whoever has the node may hang hooks and metadata on it that refer to the tensor
  return node_object(t->node);
}

// ------------------------------------------------------------------------------------------------------ attributes of a node
// The node behind a grad_fn object or behind the ctx of a Function; null with an error.
Node* node_of(PyObject* o) {
  if (PyObject_TypeCheck(o, NodeType)) return ((NodeObject*)o)->node;
  if (Node* n = function_node(o)) return n;
  raise(PyExc_RuntimeError, "this ctx has no node: its graph is gone, or forward has not returned yet");
  return nullptr;
}

static PyObject* hooks_in(PyObject** place) {
  if (!*place) *place = PyObject_CallNoArgs(OrderedDictType);
  Py_XINCREF(*place);
  return *place;
}

PyObject* node_next_functions(Node* n) {
  PyObject* result = PyTuple_New(n->nedges);
  n->python = 1;                       // the nodes below are handed out: they may come to hold Python objects
  for (int i = 0; result && i < n->nedges; i++) {
    Edge e = n->edges()[i];
    PyObject* pair = e.node ? Py_BuildValue("(Ni)", node_object(e.node), (int)e.slot) : Py_BuildValue("(Oi)", Py_None, 0);
    if (!pair) { Py_DECREF(result); return nullptr; }
    PyTuple_SET_ITEM(result, i, pair);
  }
  return result;
}

static PyObject* get_next_functions(PyObject* o, void*) { Node* n = node_of(o); return n ? node_next_functions(n) : nullptr; }
static PyObject* get_metadata(PyObject* o, void*) {
  Node* n = node_of(o);
  if (!n) return nullptr;
  NodeExtra* e = node_extra(n);
  if (!e->metadata) e->metadata = PyDict_New();
  n->python = 1;
  Py_XINCREF(e->metadata);
  return e->metadata;
}
static PyObject* get_requires_grad(PyObject*, void*) { Py_RETURN_TRUE; }
static PyObject* get_variable(PyObject* o, void*) {
  Node* n = node_of(o);
  if (!n) return nullptr;
  if (n->kind != NodeKind::Accumulate) return raise(PyExc_AttributeError, "'%s' object has no attribute 'variable'", Py_TYPE(o)->tp_name);
  PyObject* leaf = n->leaf ? (PyObject*)n->leaf : Py_None;
  Py_INCREF(leaf);
  return leaf;
}
static PyObject* get_saved_tensors(PyObject* o, void*) {
  Node* n = node_of(o);
  if (!n) return nullptr;
  PyObject* result = PyTuple_New(n->nsaved);
  for (int i = 0; result && i < n->nsaved; i++) {
    PyObject* t = (PyObject*)saved_unpack(n, i, true);
    if (!t && PyErr_Occurred()) { Py_CLEAR(result); break; }
    if (!t) { t = Py_None; Py_INCREF(t); }
    PyTuple_SET_ITEM(result, i, t);
  }
  return result;
}
static PyObject* py_name(PyObject* o, PyObject*) {
  Node* n = node_of(o);
  if (!n) return nullptr;
  const bool engine_own = n->kind == NodeKind::Accumulate || n->kind == NodeKind::CopySlices;      // torch prefixes these with their namespace
  return PyUnicode_FromFormat("%s%s", engine_own ? "torch::autograd::" : "", node_name(n));
}
static PyObject* py_sequence_nr(PyObject* o, PyObject*) { Node* n = node_of(o); return n ? PyLong_FromUnsignedLongLong(n->sequence) : nullptr; }

// The dictionaries hooks live in; Python makes the handles (autograd/graph.py, Tensor.register_hook …).
static PyObject* py_node_hooks(PyObject*, PyObject* args) {
  PyObject* o; int before;
  if (!PyArg_ParseTuple(args, "Op", &o, &before)) return nullptr;
  Node* n = node_of(o);
  if (!n) return nullptr;
  n->python = 1;
  NodeExtra* e = node_extra(n);
  return hooks_in(before ? &e->pre_hooks : &e->post_hooks);
}

static bool need_tensor(PyObject* o) {
  if (is_tensor(o)) return true;
  raise(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(o)->tp_name);
  return false;
}

static PyObject* py_tensor_hooks(PyObject*, PyObject* o) {
  if (!need_tensor(o)) return nullptr;
  Tensor* t = (Tensor*)o;
  if (!t->requires_grad) return raise(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
  Edge e;
  if (!gradient_edge(t, &e)) return nullptr;
  NodeExtra* x = node_extra(e.node);
  e.node->python = 1;
  tensor_track(t);
  for (auto& h : x->tensor_hooks) if (h.slot == e.slot) { Py_INCREF(h.hooks); return h.hooks; }
  PyObject* hooks = PyObject_CallNoArgs(OrderedDictType);
  if (!hooks) return nullptr;
  x->tensor_hooks.push_back({e.slot, hooks});
  Py_INCREF(hooks);
  return hooks;
}

static PyObject* py_accumulated_hooks(PyObject*, PyObject* o) {
  if (!need_tensor(o)) return nullptr;
  Tensor* t = (Tensor*)o;
  if (!t->requires_grad) return raise(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
  if (!is_leaf(t)) return raise(PyExc_RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors");
  Node* n = leaf_node(t);
  if (!n) return nullptr;
  n->python = 1;
  tensor_track(t);
  return hooks_in(&node_extra(n)->accumulated_hooks);
}

bool retain_grad(Tensor* t) {
  if (!t->requires_grad) { raise(PyExc_RuntimeError, "can't retain_grad on Tensor that has requires_grad=False"); return false; }
  if (is_leaf(t) || (t->bits & T_RETAINS_GRAD)) return true;
  Edge e;
  if (!gradient_edge(t, &e)) return false;
  PyObject* weak = PyWeakref_NewRef((PyObject*)t, nullptr);
  if (!weak) return false;
  node_extra(e.node)->retained.push_back({e.slot, weak});
  e.node->python = 1;
  t->bits |= T_RETAINS_GRAD;
  return true;
}

static PyObject* py_retain_grad(PyObject*, PyObject* o) {
  if (!need_tensor(o) || !retain_grad((Tensor*)o)) return nullptr;
  Py_RETURN_NONE;
}

// (node, slot) of a tensor: what autograd.graph.get_gradient_edge shows, leaves included.
static PyObject* py_gradient_edge(PyObject*, PyObject* o) {
  if (!need_tensor(o)) return nullptr;
  Tensor* t = (Tensor*)o;
  if (!t->requires_grad) return raise(PyExc_RuntimeError, "It is not possible to get the gradient edge for a Tensor that does not require gradients");
  Edge e;
  if (!gradient_edge(t, &e)) return nullptr;
  PyObject* owner = Py_None;           // a ctx does not own its node, so something else must
  if (e.node->kind == NodeKind::Function) {
    owner = PyCapsule_New(e.node, "rushlight.node", [](PyObject* o) { node_drop((Node*)PyCapsule_GetPointer(o, "rushlight.node")); });
    if (!owner) return nullptr;
    node_hold(e.node);
  } else Py_INCREF(owner);
  return Py_BuildValue("(NiN)", node_object(e.node), (int)e.slot, owner);
}

static PyObject* py_grad_fn(PyObject*, PyObject* o) { return need_tensor(o) ? tensor_grad_fn((Tensor*)o) : nullptr; }

// ------------------------------------------------------------------------------------------------------ backward() and grad()
static void write_one(Tensor* t) {
  char* p = data_ptr(t);
  switch (t->layout->dtype) {
    case DType::Float32: case DType::Complex64: { float v = 1; memcpy(p, &v, 4); break; }
    case DType::Float64: case DType::Complex128: { double v = 1; memcpy(p, &v, 8); break; }
    case DType::Float16: { uint16_t v = 0x3C00; memcpy(p, &v, 2); break; }
    case DType::BFloat16: { uint16_t v = 0x3F80; memcpy(p, &v, 2); break; }
    default: break;
  }
}

// What is known of the value that a slot's gradient belongs to; null: nothing (a tensor that was written in place).
static const Layout* slot_layout(const Edge& e) {
  Node* n = e.node;
  switch (n->kind) {
    case NodeKind::Plan: {
      if ((int)e.slot >= n->plan->nouts) return nullptr;
      const Output& o = n->plan->outs[e.slot];
      return o.kind == RefKind::Buffer ? n->plan->buffers[o.index].layout : o.kind == RefKind::View ? o.layout : nullptr;
    }
    case NodeKind::View: return n->step->out;
    case NodeKind::CopySlices: return n->step->source;
    case NodeKind::Accumulate: return n->leaf ? n->leaf->layout : nullptr;
    case NodeKind::Function: return n->ctx ? function_output_layout(n->ctx, e.slot) : nullptr;
  }
  return nullptr;
}

static Tensor* implicit_gradient(const Layout* l, const Tensor* root) {      // root: null for a gradient edge
  if (!l) { raise(PyExc_RuntimeError, "grad can be implicitly created only for scalar outputs: the shape of this gradient edge is not known, pass its gradient"); return nullptr; }
  if (l->numel != 1) {
    raise(PyExc_RuntimeError, "grad can be implicitly created only for scalar outputs; this output has shape %s: reduce it first (sum(), mean()), or pass gradient=",
          shape_text(l).c_str());
    return nullptr;
  }
  if (DTYPES[(int)l->dtype].kind != 'f') {
    raise(PyExc_RuntimeError, "grad can be implicitly created only for real scalar outputs but got torch.%s", DTYPES[(int)l->dtype].name);
    return nullptr;
  }
  Tensor* one = tensor_empty(l->dtype, root && is_sparse(root) ? Device::CPU : l->device, l->ndim, l->shape());
  if (one && one->storage->data) write_one(one);
  return one;
}

static bool check_gradient(const Layout* r, Tensor* gradient, Py_ssize_t index) {
  const Layout* g = gradient->layout;
  if (!same_shape(r, g)) {
    raise(PyExc_RuntimeError, "Mismatch in shape: grad_output[%zd] has a shape of torch.Size(%s) and output[%zd] has a shape of torch.Size(%s).",
          index, shape_text(g).c_str(), index, shape_text(r).c_str());
    return false;
  }
  if ((DTYPES[(int)r->dtype].kind == 'c') != (DTYPES[(int)g->dtype].kind == 'c')) {
    raise(PyExc_RuntimeError, "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: grad_output[%zd] has a "
          "dtype of torch.%s and output[%zd] has a dtype of torch.%s.", index, DTYPES[(int)g->dtype].name, index, DTYPES[(int)r->dtype].name);
    return false;
  }
  return true;
}

struct Gradients {             // owned references to the roots' gradients
  std::vector<Tensor*> v;
  ~Gradients() { for (Tensor* t : v) Py_XDECREF((PyObject*)t); }
};

// Where the gradient of a tensor goes, or the GradientEdge (node, output, …) itself.
struct GradPlace { Edge edge; const Layout* layout; Tensor* tensor; };

static bool is_node(PyObject* o) { return PyObject_TypeCheck(o, NodeType) || PyObject_TypeCheck(o, FunctionBaseType); }
static bool is_edge(PyObject* o) { return PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 && is_node(PyTuple_GET_ITEM(o, 0)); }      // autograd.graph.GradientEdge

static bool place_of(PyObject* o, const char* what, Py_ssize_t index, GradPlace* p) {
  if (is_tensor(o)) {
    Tensor* t = (Tensor*)o;
    *p = GradPlace{{nullptr, 0}, t->layout, t};
    return gradient_edge(t, &p->edge);
  }
  if (is_edge(o)) {
    Node* n = node_of(PyTuple_GET_ITEM(o, 0));
    const long long slot = PyLong_AsLongLong(PyTuple_GET_ITEM(o, 1));
    if (!n || (slot == -1 && PyErr_Occurred())) return false;
    if (slot < 0 || slot >= n->nout) { raise(PyExc_RuntimeError, "%s has %d outputs: there is no output %lld", node_name(n), (int)n->nout, slot); return false; }
    Edge e{n, (uint32_t)slot};
    *p = GradPlace{e, slot_layout(e), nullptr};
    return true;
  }
  raise(PyExc_TypeError, "element %zd of %s tuple is neither a Tensor nor a GradientEdge (it is %s)", index, what, Py_TYPE(o)->tp_name);
  return false;
}

static bool add_root(const GradPlace& root, PyObject* given, Py_ssize_t index, Gradients* gradients) {
  if (!root.edge.node) {
    raise(PyExc_RuntimeError, "element %zd of tensors does not require grad and does not have a grad_fn; it has shape %s: none of what it was computed from requires "
          "grad, or it was made under no_grad() or detached", index, shape_text(root.layout).c_str());
    return false;
  }
  Tensor* g;
  if (!given || given == Py_None) {
    g = implicit_gradient(root.layout, root.tensor);
    if (!g) return false;
  } else if (is_tensor(given)) {
    g = (Tensor*)given;
    if (RL_UNLIKELY(tls.guard & G_MODE) && g->dict && PyDict_GetItemString(g->dict, "_batches")) {
      raise(PyExc_RuntimeError, "backward() called inside a functorch transform: the gradient stands for the many examples of vmap, and a leaf has one .grad. func.grad, func.vjp and autograd.grad give gradients there");
      return false;
    }
    if (root.layout && !check_gradient(root.layout, g, index)) return false;
    if (root.layout && g->layout->dtype != root.layout->dtype) {
      g = (Tensor*)PyObject_CallMethod(given, "to", "O", dtype_object(root.layout->dtype));
      if (!g) return false;
    } else {
      Py_INCREF(given);
    }
  } else {
    raise(PyExc_TypeError, "gradients can be either Tensors or None, but got %s", Py_TYPE(given)->tp_name);
    return false;
  }
  gradients->v.push_back(g);
  return true;
}

// A Tensor, a GradientEdge or a sequence of them -> tuple (new).
static PyObject* tensor_tuple(PyObject* o) {
  if (is_tensor(o) || is_edge(o)) return PyTuple_Pack(1, o);
  return PySequence_Tuple(o);
}

static bool places_of(PyObject* tuple, const char* what, std::vector<GradPlace>* out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    GradPlace p;
    if (!place_of(PyTuple_GET_ITEM(tuple, i), what, i, &p)) return false;
    out->push_back(p);
  }
  return true;
}

// The inputs that gradients are wanted for; with `accumulate` those that are no leaves retain theirs.
static bool check_targets(const std::vector<GradPlace>& targets, bool accumulate) {
  for (const GradPlace& p : targets) {
    if (!p.edge.node) { raise(PyExc_RuntimeError, "One of the differentiated Tensors does not require grad; it has shape %s", shape_text(p.layout).c_str()); return false; }
    if (accumulate && p.tensor && !is_leaf(p.tensor) && !retain_grad(p.tensor)) return false;
  }
  return true;
}

static bool run_places(const std::vector<GradPlace>& roots, const Gradients& gradients, const std::vector<GradPlace>& targets, bool keep, bool create, bool accumulate, Tensor** captured) {
  std::vector<Edge> from, to;
  std::vector<const Layout*> layouts;
  for (const GradPlace& p : roots) from.push_back(p.edge);
  for (const GradPlace& p : targets) { to.push_back(p.edge); layouts.push_back(p.layout); }
  BackwardRequest request{from.data(), gradients.v.data(), (int)from.size(), to.data(), layouts.data(), (int)to.size(), keep, create, accumulate};
  return engine_run(request, captured);
}

static bool as_flag(PyObject* o, bool otherwise, bool* out) {
  if (!o || o == Py_None) { *out = otherwise; return true; }
  int v = PyObject_IsTrue(o);
  *out = v > 0;
  return v >= 0;
}

// backward(create_graph=True) leaves gradients that lead back to their leaves: said once, as torch does.
static bool warn_of_cycle() {
  static bool said = false;
  return warn(&said, "backward(create_graph=True) leaves each parameter with a gradient that refers back to it: a cycle, which is not freed while .grad is set. autograd.grad() makes none; otherwise set "
                     ".grad to None after use.");
}

// _C.run_graph(tensors, gradients, keep_graph, create_graph, inputs, allow_unused, accumulate): gradients None or a tuple; inputs a tuple, may be empty.
static PyObject* py_run_graph(PyObject*, PyObject* args) {
  PyObject *tensors, *given, *inputs;
  int keep, create, allow_unused, accumulate;
  if (!PyArg_ParseTuple(args, "O!OppO!pp", &PyTuple_Type, &tensors, &given, &keep, &create, &PyTuple_Type, &inputs, &allow_unused, &accumulate)) return nullptr;
  std::vector<GradPlace> roots, targets;
  if (!places_of(tensors, "tensors", &roots) || !places_of(inputs, "inputs", &targets)) return nullptr;
  const bool some = given != Py_None;
  if (some && (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != (Py_ssize_t)roots.size()))
    return raise(PyExc_RuntimeError, "got %zd tensors and %zd gradients", roots.size(), PyTuple_Check(given) ? PyTuple_GET_SIZE(given) : (Py_ssize_t)-1);
  Gradients gradients;
  for (size_t i = 0; i < roots.size(); i++)
    if (!add_root(roots[i], some ? PyTuple_GET_ITEM(given, i) : nullptr, i, &gradients)) return nullptr;
  if (!check_targets(targets, accumulate)) return nullptr;
  if (accumulate && create && !warn_of_cycle()) return nullptr;
  std::vector<Tensor*> captured(targets.size(), nullptr);
  if (!run_places(roots, gradients, targets, keep != 0, create != 0, accumulate != 0, accumulate ? nullptr : captured.data())) return nullptr;
  if (accumulate) Py_RETURN_NONE;
  PyObject* result = PyTuple_New(captured.size());
  for (size_t i = 0; i < captured.size(); i++) {
    PyObject* g = (PyObject*)captured[i];
    if (!g && !allow_unused && result) {
      raise(PyExc_RuntimeError, "The differentiated Tensor at index %zd appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.", i);
      Py_CLEAR(result);
    }
    if (!result) { Py_XDECREF(g); continue; }
    if (!g) { g = Py_None; Py_INCREF(g); }
    PyTuple_SET_ITEM(result, i, g);
  }
  return result;
}

// Tensor.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)
static PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const char* const NAMES[] = {"gradient", "retain_graph", "create_graph", "inputs"};
  PyObject* v[4] = {};
  if (nargs > 4) return raise(PyExc_TypeError, "backward() takes from 1 to 5 positional arguments but %zd were given", nargs + 1);
  for (Py_ssize_t i = 0; i < nargs; i++) v[i] = args[i];
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    int which = 0;
    while (which < 4 && PyUnicode_CompareWithASCIIString(name, NAMES[which])) which++;
    if (which == 4) return raise(PyExc_TypeError, "backward() got an unexpected keyword argument '%U'", name);
    if (v[which]) return raise(PyExc_TypeError, "backward() got multiple values for argument '%U'", name);
    v[which] = args[nargs + k];
  }
  bool create, keep;
  if (!as_flag(v[2], false, &create) || !as_flag(v[1], create, &keep)) return nullptr;
  GradPlace root;
  if (!place_of(self, "tensors", 0, &root)) return nullptr;
  std::vector<GradPlace> targets;
  PyObject* inputs = nullptr;
  if (v[3] && v[3] != Py_None) {
    inputs = tensor_tuple(v[3]);
    if (!inputs) return nullptr;
    bool good = places_of(inputs, "inputs", &targets);
    if (good && targets.empty()) { raise(PyExc_RuntimeError, "`inputs` argument to `backward()` cannot be empty."); good = false; }
    good = good && check_targets(targets, true);
    if (!good) { Py_DECREF(inputs); return nullptr; }
  }
  Gradients gradients;
  bool good = add_root(root, v[0], 0, &gradients) && (!create || warn_of_cycle());
  if (good && targets.empty()) {
    BackwardRequest request{&root.edge, gradients.v.data(), 1, nullptr, nullptr, 0, keep, create, true};
    good = engine_run(request, nullptr);
  } else if (good) {
    good = run_places({root}, gradients, targets, keep, create, true, nullptr);
  }
  Py_XDECREF(inputs);
  if (!good) return nullptr;
  Py_RETURN_NONE;
}

static PyObject* py_run_backward(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (nargs < 1 || !is_tensor(args[0])) return raise(PyExc_TypeError, "run_backward(): the first argument must be a Tensor");
  return tensor_backward(args[0], args + 1, nargs - 1, kwnames);
}

// ------------------------------------------------------------------------------------------------------------------- anomaly
static PyObject* py_set_anomaly(PyObject*, PyObject* args) {
  int on, check_nan = 1;
  if (!PyArg_ParseTuple(args, "p|p", &on, &check_nan)) return nullptr;
  g_anomaly = on;
  g_anomaly_nan = check_nan;
  Py_RETURN_NONE;
}
static PyObject* py_is_anomaly(PyObject*, PyObject*) { return PyBool_FromLong(g_anomaly); }
static PyObject* py_current_run(PyObject*, PyObject*) { return PyLong_FromLongLong(current_run()); }
static PyObject* py_run_executes(PyObject*, PyObject* o) {
  Node* n = node_of(o);
  if (!n) return nullptr;
  if (current_run() < 0) return raise(PyExc_RuntimeError, "_get_should_execute_nodes should only be called during the backward pass");
  return PyBool_FromLong(run_executes(n));
}
static PyObject* py_is_anomaly_nan(PyObject*, PyObject*) { return PyBool_FromLong(g_anomaly_nan); }

// ------------------------------------------------------------------------------------------------------------------- module
static PyGetSetDef node_getset[] = {
  {"next_functions", get_next_functions, nullptr, "((node, output), …): where the gradients of the inputs go", nullptr},
  {"metadata", get_metadata, nullptr, "a dictionary of the user's", nullptr},
  {"requires_grad", get_requires_grad, nullptr, nullptr, nullptr},
  {"variable", get_variable, nullptr, "AccumulateGrad: the leaf", nullptr},
  {"_saved_tensors", get_saved_tensors, nullptr, "what backward keeps, in the order of its rule", nullptr},
  {nullptr}};
static PyMethodDef node_methods[] = {
  {"name", py_name, METH_NOARGS, "name() -> str"},
  {"_sequence_nr", py_sequence_nr, METH_NOARGS, "_sequence_nr() -> int\n\nNodes are executed from the largest to the smallest."},
  {nullptr}};
static PyType_Slot node_slots[] = {{Py_tp_dealloc, (void*)node_object_dealloc}, {Py_tp_repr, (void*)node_object_repr}, {Py_tp_getset, node_getset}, {Py_tp_methods, node_methods}, {0, nullptr}};
static PyType_Spec node_spec = {"rushlight._C.Node", sizeof(NodeObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

static PyMethodDef tensor_methods[] = {
  {"backward", (PyCFunction)(void*)tensor_backward, METH_FASTCALL | METH_KEYWORDS,
   "backward($self, /, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\nAdds the gradient of this tensor to the `.grad` of every leaf it was computed from."},
  {nullptr}};

static PyMethodDef methods[] = {
  {"run_graph", py_run_graph, METH_VARARGS, "run_graph(tensors, gradients, keep_graph, create_graph, inputs, allow_unused, accumulate)"},
  {"run_backward", (PyCFunction)(void*)py_run_backward, METH_FASTCALL | METH_KEYWORDS, "run_backward(tensor, gradient=None, retain_graph=None, create_graph=False, inputs=None)"},
  {"node_hooks", py_node_hooks, METH_VARARGS, "node_hooks(node, before) -> OrderedDict"},
  {"tensor_hooks", py_tensor_hooks, METH_O, "tensor_hooks(tensor) -> OrderedDict"},
  {"accumulated_hooks", py_accumulated_hooks, METH_O, "accumulated_hooks(leaf) -> OrderedDict"},
  {"retain_grad", py_retain_grad, METH_O, "retain_grad(tensor)"},
  {"gradient_edge", py_gradient_edge, METH_O, "gradient_edge(tensor) -> (node, output, what keeps the node alive or None)"},
  {"current_run", py_current_run, METH_NOARGS, "current_run() -> int\n\nThe backward pass that this thread is in; -1: none."},
  {"run_executes", py_run_executes, METH_O, "run_executes(node) -> bool\n\nWhether the present backward pass gets to this node."},
  {"grad_fn", py_grad_fn, METH_O, "grad_fn(tensor) -> node or None"},
  {"set_anomaly_enabled", py_set_anomaly, METH_VARARGS, "set_anomaly_enabled(on, check_nan=True)"},
  {"is_anomaly_enabled", py_is_anomaly, METH_NOARGS, "is_anomaly_enabled() -> bool"},
  {"is_anomaly_check_nan_enabled", py_is_anomaly_nan, METH_NOARGS, "is_anomaly_check_nan_enabled() -> bool"},
  {nullptr}};

bool init_grad_fn(PyObject* m) {
  g_types = new std::unordered_map<std::string, PyTypeObject*>;
  NodeType = (PyTypeObject*)PyType_FromSpec(&node_spec);
  if (!NodeType || PyModule_AddObjectRef(m, "Node", (PyObject*)NodeType) < 0) return false;
  PyObject* collections = PyImport_ImportModule("collections");
  OrderedDictType = collections ? PyObject_GetAttrString(collections, "OrderedDict") : nullptr;
  Py_XDECREF(collections);
  if (!OrderedDictType) return false;
  for (PyMethodDef* d = tensor_methods; d->ml_name; d++) {
    PyObject* method = PyDescr_NewMethod(TensorType, d);
    if (!method || PyObject_SetAttrString((PyObject*)TensorType, d->ml_name, method) < 0) { Py_XDECREF(method); return false; }
    Py_DECREF(method);
  }
  return PyModule_AddFunctions(m, methods) == 0;
}

}  // namespace rl
