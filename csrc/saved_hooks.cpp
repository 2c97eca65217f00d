// Saved values that the user packs: autograd.graph.saved_tensors_hooks and SavedTensor.register_hooks.
//
// The hooks of a thread are a chain of tuples (pack, unpack, outer), the innermost in tls.saved_hooks: one word that recording looks at. A value is packed
// when its node is complete, so a pack hook sees tensors with their histories; it is unpacked when backward (or `_saved_*`) wants it. A packed slot keeps
// the layout of what was saved and no version: what the hooks do with memory is theirs to keep right. Hooks are Python objects, so the node's tensors enter
// the cyclic GC: a pack hook that keeps its own argument makes a cycle that is collected.
#include "tape.h"

namespace rl {

static thread_local PyObject* t_disabled = nullptr;      // the words of disable_saved_tensors_hooks; owned

void packed_free(Packed* p) {
  Py_XDECREF(p->value); Py_XDECREF(p->unpack);
  PyMem_Free(p);
}


bool saved_pack(Node* n, Saved* s, Tensor* given, PyObject* pack, PyObject* unpack) {
  Tensor* t = given;
  if (t) Py_INCREF((PyObject*)t);
  else {
    incref(s->layout); incref(s->storage);
    t = tensor_wrap(s->layout, s->storage, s->offset);
    if (!t) return false;
    if (s->version) { t->version = s->version; ++s->version->rc; }
  }
  const uint32_t before = version_of(t);
  const bool grad_mode = tls.grad_mode;
  tls.grad_mode = false;
  PyObject* value = PyObject_CallOneArg(pack, (PyObject*)t);
  tls.grad_mode = grad_mode;
  const bool written = version_of(t) != before;
  Py_DECREF((PyObject*)t);
  if (!value) return false;
  Packed* p = written ? nullptr : (Packed*)PyMem_Malloc(sizeof(Packed));
  if (!p) {
    Py_DECREF(value);
    if (written)
      raise(PyExc_RuntimeError, "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be modified by in-place "
            "operations as this can lead to unexpected side-effects. Return a changed copy instead (clone()).");
    else PyErr_NoMemory();
    return false;
  }
  Py_INCREF(unpack);
  *p = Packed{value, unpack};
  if (n->released) { packed_free(p); return true; }        // the hook itself ran backward
  Storage* storage = s->storage;
  Version* version = s->version;
  s->packed = p;
  s->is_packed = true;
  s->version = nullptr;
  n->python = 1;
  decref(storage);
  if (version && --version->rc == 0) PyMem_Free(version);
  return true;
}

bool saved_pack_default(Node* n, Saved* s, Tensor* t) {
  PyObject* hooks = tls.saved_hooks;
  Py_INCREF(hooks);
  bool good = saved_pack(n, s, t, PyTuple_GET_ITEM(hooks, 0), PyTuple_GET_ITEM(hooks, 1));
  Py_DECREF(hooks);
  return good;
}

// An argument that this very call wrote is older than what its memory holds now: it stays as it is, and backward refuses it.
bool saved_pack_all(Node* n, const Plan* plan, const Call& call, PyObject** outs) {
  for (int i = 0; i < n->nsaved; i++) {
    Saved* s = &n->saved()[i];
    if (!s->storage || s->is_packed) continue;
    const uint32_t now = s->version ? s->version->value : s->storage->version;
    if (now != s->expected) continue;
    const SaveSpec& ref = plan->saves[i];
    Tensor* t = ref.kind == SaveKind::Arg ? call.t[ref.index] : ref.kind == SaveKind::Output ? (Tensor*)outs[ref.index] : nullptr;
    if (!saved_pack_default(n, s, t)) return false;
  }
  if (n->python)
    for (int i = 0; i < n->nout; i++)
      if (outs[i] && is_tensor(outs[i]) && ((Tensor*)outs[i])->node) tensor_track((Tensor*)outs[i]);
  return true;
}

Tensor* packed_value(const Saved& s) {
  PyObject *value = s.packed->value, *unpack = s.packed->unpack;
  Py_INCREF(value); Py_INCREF(unpack);
  PyObject* given = PyObject_CallOneArg(unpack, value);
  Py_DECREF(value); Py_DECREF(unpack);
  if (!given) return nullptr;
  if (!is_tensor(given)) {
    raise(PyExc_TypeError, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s", Py_TYPE(given)->tp_name);
    Py_DECREF(given);
    return nullptr;
  }
  if (!s.is_packed) { Py_DECREF(given); raise_second_time(); return nullptr; }     // the hook itself ran backward
  Tensor* t = (Tensor*)given;
  if (!same_shape(t->layout, s.layout)) {
    raise(PyExc_RuntimeError, "The size of the tensor that a saved tensor unpack_hook returned, %s, must match the size of what was saved, %s", shape_text(t->layout).c_str(),
          shape_text(s.layout).c_str());
    Py_DECREF(given);
    return nullptr;
  }
  const bool grad_mode = tls.grad_mode;
  tls.grad_mode = false;
  PyObject* fitted = t->layout->dtype == s.layout->dtype ? (PyObject*)tensor_alias(t) : PyObject_CallMethod(given, "to", "O", dtype_object(s.layout->dtype));
  tls.grad_mode = grad_mode;
  Py_DECREF(given);
  return (Tensor*)fitted;       // an object of its own: it may be given the history of what was saved
}

// ------------------------------------------------------------------------------------------------------------- from Python
static PyObject* push_hooks(PyObject*, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  if (!PyCallable_Check(pack) || !PyCallable_Check(unpack))
    return raise(PyExc_TypeError, "_push_saved_tensors_default_hooks(): incompatible function arguments: two functions are needed, not %s and %s", Py_TYPE(pack)->tp_name,
                 Py_TYPE(unpack)->tp_name);
  if (t_disabled) return raise(PyExc_RuntimeError, "%U", t_disabled);
  PyObject* outer = tls.saved_hooks ? tls.saved_hooks : Py_None;
  PyObject* hooks = PyTuple_Pack(3, pack, unpack, outer);
  if (!hooks) return nullptr;
  Py_XDECREF(tls.saved_hooks);
  tls.saved_hooks = hooks;
  Py_RETURN_NONE;
}
static PyObject* pop_hooks(PyObject*, PyObject*) {
  PyObject* hooks = tls.saved_hooks;
  if (!hooks) return raise(PyExc_RuntimeError, "there are no saved tensor hooks to leave");
  PyObject* outer = PyTuple_GET_ITEM(hooks, 2);
  if (outer == Py_None) outer = nullptr;
  Py_XINCREF(outer);
  tls.saved_hooks = outer;
  Py_DECREF(hooks);
  Py_RETURN_NONE;
}
static PyObject* disable_hooks(PyObject*, PyObject* words) {
  if (words != Py_None && !PyUnicode_Check(words)) return raise(PyExc_TypeError, "the message must be a str, not %s", Py_TYPE(words)->tp_name);
  if (words != Py_None && tls.saved_hooks) return raise(PyExc_RuntimeError, "%U", words);
  PyObject* old = t_disabled ? t_disabled : Py_None;
  if (!t_disabled) Py_INCREF(old);
  t_disabled = words == Py_None ? nullptr : words;
  Py_XINCREF(t_disabled);
  return old;
}
static PyObject* hooks_enabled(PyObject*, PyObject*) { return PyBool_FromLong(!t_disabled); }

static PyObject* set_before_write(PyObject*, PyObject* function) {
  PyObject* old = tls.before_write ? tls.before_write : Py_None;
  if (!tls.before_write) Py_INCREF(old);
  tls.before_write = function == Py_None ? nullptr : function;
  Py_XINCREF(tls.before_write);
  return old;
}

static bool saved_slot(PyObject* args, Node** n, int* index, PyObject** pack = nullptr, PyObject** unpack = nullptr) {
  PyObject* o;
  if (!(pack ? PyArg_ParseTuple(args, "OiOO", &o, index, pack, unpack) : PyArg_ParseTuple(args, "Oi", &o, index))) return false;
  *n = node_of(o);
  if (*n && (*index < 0 || *index >= (*n)->nsaved)) { raise(PyExc_IndexError, "the node keeps %d values", (int)(*n)->nsaved); return false; }
  return *n != nullptr;
}

static PyObject* node_saved(PyObject*, PyObject* args) {
  Node* n; int index;
  if (!saved_slot(args, &n, &index)) return nullptr;
  Tensor* t = saved_unpack(n, index, true);
  if (!t && !PyErr_Occurred()) Py_RETURN_NONE;
  return (PyObject*)t;
}

static PyObject* pack_saved(PyObject*, PyObject* args) {
  Node* n; int index; PyObject *pack, *unpack;
  if (!saved_slot(args, &n, &index, &pack, &unpack)) return nullptr;
  Saved* s = &n->saved()[index];
  if (n->released)
    return raise(PyExc_RuntimeError, "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are freed when you call .backward() or "
                 "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved variables after calling backward.");
  if (!s->storage) return raise(PyExc_RuntimeError, "Calling register_hooks on a saved tensor with value None is forbidden");
  if (s->is_packed) return raise(PyExc_RuntimeError, "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is allowed at a time.");
  Tensor* t = saved_unpack(n, index, false);       // the check that it still is what was saved
  if (!t) return nullptr;
  node_hold(n);
  bool good = saved_pack(n, s, t, pack, unpack);
  Py_DECREF((PyObject*)t);
  if (good && n->kind == NodeKind::Function && n->ctx) good = function_forget_saved(n->ctx, index);
  node_drop(n);
  if (!good) return nullptr;
  Py_RETURN_NONE;
}

// What a node of a plan keeps, and under which names Python finds it: (name of the op, key of its request, ((kind, index), …)); None for other nodes.
static PyObject* node_saves(PyObject*, PyObject* o) {
  Node* n = node_of(o);
  if (!n) return nullptr;
  if (n->kind != NodeKind::Plan) Py_RETURN_NONE;
  PyObject* list = PyTuple_New(n->plan->nsaves);
  for (int i = 0; list && i < n->plan->nsaves; i++) {
    const SaveSpec& ref = n->plan->saves[i];
    const char* kind = ref.kind == SaveKind::Arg ? "arg" : ref.kind == SaveKind::Output ? "output" : "hidden";
    PyObject* pair = Py_BuildValue("(si)", kind, (int)ref.index);
    if (!pair) { Py_CLEAR(list); break; }
    PyTuple_SET_ITEM(list, i, pair);
  }
  if (!list) return nullptr;
  PyObject* key = n->plan->recipe->parsed->backward;
  return Py_BuildValue("(ON)", key ? key : Py_None, list);
}

static PyMethodDef methods[] = {
  {"push_saved_hooks", push_hooks, METH_VARARGS, "push_saved_hooks(pack, unpack)\n\nFor this thread, until pop_saved_hooks()."},
  {"pop_saved_hooks", pop_hooks, METH_NOARGS, "pop_saved_hooks()"},
  {"disable_saved_hooks", disable_hooks, METH_O, "disable_saved_hooks(words) -> the old words\n\nHooks are refused with these words; None: allowed."},
  {"saved_hooks_enabled", hooks_enabled, METH_NOARGS, "saved_hooks_enabled() -> bool"},
  {"set_before_write", set_before_write, METH_O, "set_before_write(function) -> the old one\n\nCalled with each tensor that an operation of this thread is about to write in place."},
  {"node_saved", node_saved, METH_VARARGS, "node_saved(node, index) -> Tensor or None"},
  {"node_saves", node_saves, METH_O, "node_saves(node) -> (key, ((kind, index), ...)) or None"},
  {"pack_saved", pack_saved, METH_VARARGS, "pack_saved(node, index, pack, unpack)"},
  {nullptr}};

bool init_saved_hooks(PyObject* m) { return PyModule_AddFunctions(m, methods) == 0; }

}  // namespace rl
