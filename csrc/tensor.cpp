// The Tensor type: its life (freelist, garbage collection, subclasses), its attributes, and the slots of Python's operators.
// Methods are in tensor_methods.cpp, views in views.cpp; everything else on a Tensor is put there from Python, by the operators' definitions.
//
// Plain tensors are invisible to the cyclic garbage collector: with many of them alive its passes would dominate. A tensor enters it (tensor_track)
// when it first can be part of a cycle: it gets a __dict__, a hook, a Python node, or is made as a subclass.
#include "op.h"
#include "tensor.h"

namespace rl {

PyTypeObject *TensorType, *ParameterType;

// ------------------------------------------------------------------------------------------------------- life and death
static Tensor* g_spare;            // dead exact Tensors, linked through `weakrefs`
static int g_spares;
const int MAX_SPARES = 4096;
static int64_t g_live;

Tensor* tensor_wrap(Layout* layout, Storage* storage, int64_t offset) {
  Tensor* t = g_spare;
  if (RL_LIKELY(t != nullptr)) {
    g_spare = (Tensor*)t->weakrefs;
    --g_spares;
    revive((PyObject*)t, TensorType);
  } else {
    t = PyObject_GC_New(Tensor, TensorType);
    if (!t) { decref(layout); decref(storage); return nullptr; }
    t->version = nullptr; t->node = nullptr; t->view = nullptr; t->grad = nullptr; t->dict = nullptr;
  }
  t->layout = layout; t->storage = storage; t->offset = offset;
  t->weakrefs = nullptr;
  t->out_nr = 0; t->requires_grad = 0; t->bits = 0;
  ++g_live;
  return t;
}

Tensor* tensor_wrap_in(PyTypeObject* type, Layout* layout, Storage* storage, int64_t offset) {
  if (type == TensorType) return tensor_wrap(layout, storage, offset);
  Tensor* t = (Tensor*)type->tp_alloc(type, 0);       // zeroed, and tracked: a subclass may have anything in its slots
  if (!t) { decref(layout); decref(storage); return nullptr; }
  t->layout = layout; t->storage = storage; t->offset = offset;
  t->bits = T_TRACKED;
  ++g_live;
  return t;
}

static void tensor_dealloc(PyObject* o) {
  Tensor* t = (Tensor*)o;
  PyTypeObject* type = Py_TYPE(o);
  if (RL_UNLIKELY(type != TensorType || (t->bits & T_TRACKED))) PyObject_GC_UnTrack(o);
  if (RL_UNLIKELY(t->weakrefs != nullptr)) PyObject_ClearWeakRefs(o);
  if (RL_UNLIKELY(t->dict != nullptr)) Py_CLEAR(t->dict);
  if (t->view) view_release(t);
  if (t->node) { Node* n = t->node; t->node = nullptr; node_decref(n); }
  if (t->grad) Py_CLEAR(t->grad);
  if (RL_UNLIKELY(t->version != nullptr)) { if (--t->version->rc == 0) PyMem_Free(t->version); t->version = nullptr; }
  if (RL_LIKELY(t->storage != nullptr)) decref(t->storage);      // null only when creation failed half-way
  if (RL_LIKELY(t->layout != nullptr)) decref(t->layout);
  --g_live;
  if (RL_LIKELY(type == TensorType && g_spares < MAX_SPARES)) {
    t->weakrefs = (PyObject*)g_spare;
    g_spare = t;
    ++g_spares;
  } else {
    type->tp_free(o);
  }
  Py_DECREF(type);
}

static int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
  Tensor* t = (Tensor*)o;
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(t->dict);
  Py_VISIT(t->grad);
  return tape_traverse(t, visit, arg);
}
static int tensor_clear(PyObject* o) {
  Tensor* t = (Tensor*)o;
  Py_CLEAR(t->dict);
  Py_CLEAR(t->grad);
  tape_clear(t);
  return 0;
}

void tensor_track(Tensor* t) {
  if (t->bits & T_TRACKED) return;
  t->bits |= T_TRACKED;
  PyObject_GC_Track((PyObject*)t);
}

static int tensor_setattro(PyObject* o, PyObject* name, PyObject* value) {
  int result = PyObject_GenericSetAttr(o, name, value);
  if (((Tensor*)o)->dict) tensor_track((Tensor*)o);
  return result;
}
static PyObject* get_dict(PyObject* o, void*) {
  tensor_track((Tensor*)o);          // whoever has the dict may put anything in it
  return PyObject_GenericGetDict(o, nullptr);
}
static int set_dict(PyObject* o, PyObject* value, void*) {
  tensor_track((Tensor*)o);
  return PyObject_GenericSetDict(o, value, nullptr);
}

Tensor* tensor_empty(DType dtype, Device device, int ndim, const int64_t* shape, const int64_t* strides) {
  Layout* l = layout_intern(dtype, device, ndim, shape, strides);
  if (!l) return nullptr;
  int64_t nbytes = strides ? layout_extent(l) * itemsize(dtype) : l->nbytes;
  Storage* s = storage_new(nbytes, device);
  if (!s) { decref(l); return nullptr; }
  return tensor_wrap(l, s, 0);
}

bool version_own(Tensor* t, uint32_t value) {
  Version* v = (Version*)PyMem_Malloc(sizeof(Version));
  if (!v) { PyErr_NoMemory(); return false; }
  v->rc = 1; v->value = value;
  if (t->version && --t->version->rc == 0) PyMem_Free(t->version);
  t->version = v;
  return true;
}

Tensor* tensor_alias(Tensor* t) {
  incref(t->layout);
  incref(t->storage);
  Tensor* out = tensor_wrap(t->layout, t->storage, t->offset);
  if (out) { version_share(t, out); out->bits |= t->bits & T_INFERENCE; }
  return out;
}

bool set_layout(Tensor* t, Layout* layout, int64_t offset) {
  if (!layout) return false;
  decref(t->layout);
  t->layout = layout;
  t->offset = offset;
  return true;
}

// ----------------------------------------------------------------------------------------------------------- subclasses
PyObject* check_subclass(PyObject* cls) {
  if (!PyType_Check(cls)) return raise(PyExc_TypeError, "cls must be a type (got %s)", Py_TYPE(cls)->tp_name);
  if (!PyType_IsSubtype((PyTypeObject*)cls, TensorType))
    return raise(PyExc_TypeError, "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class inherits from Tensor.");
  return cls;
}

// Tensor(), Tensor(2, 3), Tensor([1., 2.]), Tensor(other): the old constructor, always of the default dtype.
static PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  Device device = Device::CPU;
  if (type == TensorType || !kwargs) {
    PyObject* d = kwargs ? PyDict_GetItemString(kwargs, "device") : nullptr;
    if (kwargs && PyDict_GET_SIZE(kwargs) != (d ? 1 : 0)) return raise(PyExc_TypeError, "new() got an unexpected keyword argument (only device is known)");
    if (d && d != Py_None && !device_from(d, &device)) return nullptr;
  }
  PyObject* first = n == 1 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  Tensor* made = nullptr;
  if (first && is_tensor(first)) {
    Tensor* source = (Tensor*)first;
    if (source->layout->dtype != g_default_dtype)
      return raise(PyExc_TypeError, "expected %s (got %s)", dtype_scalar_name(g_default_dtype), dtype_scalar_name(source->layout->dtype));
    made = tensor_alias(source);
  } else if (first && PyObject_TypeCheck(first, UntypedStorageType)) {
    Storage* s = storage_of(first);
    int64_t count = s->nbytes / itemsize(g_default_dtype);
    Layout* l = layout_intern(g_default_dtype, (Device)s->device, 1, &count, nullptr);
    if (!l) return nullptr;
    incref(s);
    made = tensor_wrap(l, s, 0);
  } else if (first && !PyIndex_Check(first) && Py_TYPE(first) != SizeType) {
    if (!PySequence_Check(first)) return raise(PyExc_TypeError, "new(): data must be a sequence (got %s)", Py_TYPE(first)->tp_name);
    if (PyUnicode_Check(first)) return raise(PyExc_TypeError, "new(): invalid data type 'str'");
    PyObject* module = PyImport_ImportModule("rushlight._C");
    PyObject* maker = module ? PyObject_GetAttrString(module, "tensor") : nullptr;
    Py_XDECREF(module);
    PyObject* options = maker ? Py_BuildValue("{sO}", "dtype", dtype_object(g_default_dtype)) : nullptr;
    made = options ? (Tensor*)PyObject_Call(maker, args, options) : nullptr;
    Py_XDECREF(maker); Py_XDECREF(options);
  } else {
    std::vector<int64_t> sizes;
    if (!int_list(first && Py_TYPE(first) == SizeType ? first : args, &sizes)) return nullptr;
    if (n == 0) sizes.push_back(0);
    made = tensor_empty(g_default_dtype, device, (int)sizes.size(), sizes.data());
  }
  if (!made || type == TensorType) return (PyObject*)made;
  incref(made->layout); incref(made->storage);
  Tensor* out = tensor_wrap_in(type, made->layout, made->storage, made->offset);
  if (out) version_share(made, out);
  Py_DECREF(made);
  return (PyObject*)out;
}

// ----------------------------------------------------------------------------------------------------------- attributes
static Tensor* self_of(PyObject* o) { return (Tensor*)o; }
static PyObject* get_shape(PyObject* o, void*) { return Py_XNewRef(layout_size(self_of(o)->layout)); }
static PyObject* get_dtype(PyObject* o, void*) { return Py_NewRef(dtype_object(self_of(o)->layout->dtype)); }
static PyObject* get_device(PyObject* o, void*) { return device_object(self_of(o)->layout->device); }
static PyObject* get_layout(PyObject*, void*) { return Py_NewRef(strided_object()); }
static PyObject* get_ndim(PyObject* o, void*) { return PyLong_FromLong(self_of(o)->layout->ndim); }
static PyObject* get_itemsize(PyObject* o, void*) { return PyLong_FromLong(itemsize(self_of(o)->layout->dtype)); }
static PyObject* get_nbytes(PyObject* o, void*) { return PyLong_FromLongLong(self_of(o)->layout->nbytes); }
static PyObject* get_version(PyObject* o, void*) {
  if (self_of(o)->bits & T_INFERENCE) return raise(PyExc_RuntimeError, "Inference tensors do not track version counter.");
  return PyLong_FromUnsignedLong(version_of(self_of(o)));
}
static PyObject* get_requires_grad(PyObject* o, void*) { return PyBool_FromLong(self_of(o)->requires_grad); }
static PyObject* get_is_leaf(PyObject* o, void*) { return PyBool_FromLong(is_leaf(self_of(o))); }
static PyObject* get_grad_fn(PyObject* o, void*) { return tensor_grad_fn(self_of(o)); }
static PyObject* get_output_nr(PyObject* o, void*) { return PyLong_FromLong(self_of(o)->out_nr); }
static PyObject* get_retains_grad(PyObject* o, void*) { return PyBool_FromLong(self_of(o)->bits & T_RETAINS_GRAD); }
static PyObject* get_base(PyObject* o, void*) { Tensor* b = view_base(self_of(o)); return Py_NewRef(b ? (PyObject*)b : Py_None); }
static PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
static PyObject* get_none(PyObject*, void*) { Py_RETURN_NONE; }
static PyObject* get_is_cpu(PyObject* o, void*) { return PyBool_FromLong(self_of(o)->layout->device == Device::CPU); }
static PyObject* get_is_meta(PyObject* o, void*) { return PyBool_FromLong(self_of(o)->layout->device == Device::Meta); }
static PyObject* get_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(o); }
static PyObject* get_layout_id(PyObject* o, void*) { return PyLong_FromUnsignedLongLong(self_of(o)->layout->id); }
static PyObject* get_layout_class(PyObject* o, void*) { return PyLong_FromUnsignedLong(self_of(o)->layout->cls); }

bool set_requires_grad(Tensor* t, bool value) {
  if (!is_leaf(t)) {
    if (value) return true;
    raise(PyExc_RuntimeError, "you can only change requires_grad flags of leaf variables.%s", t->requires_grad
      ? " If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()." : "");
    return false;
  }
  char kind = DTYPES[(int)t->layout->dtype].kind;
  if (value && kind != 'f' && kind != 'c') {
    raise(PyExc_RuntimeError, "only Tensors of floating point dtype can require gradients (or complex), this one is %s%s",
      DTYPES[(int)t->layout->dtype].name, shape_text(t->layout).c_str());
    return false;
  }
  if (value && (t->bits & T_INFERENCE) && !(tls.guard & G_INFERENCE)) {
    raise(PyExc_RuntimeError, "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    return false;
  }
  t->requires_grad = value;
  return true;
}
static int put_requires_grad(PyObject* o, PyObject* value, void*) {
  if (!value || !PyBool_Check(value)) { raise(PyExc_RuntimeError, "requires_grad must be a bool"); return -1; }
  return set_requires_grad(self_of(o), value == Py_True) ? 0 : -1;
}

static PyObject* get_grad(PyObject* o, void*) {
  Tensor* t = self_of(o);
  if (t->grad) { tensor_track(t); return Py_NewRef(t->grad); }      // whoever has the gradient may make it refer back here
  if (RL_UNLIKELY(t->requires_grad && !(t->bits & T_RETAINS_GRAD) && !is_leaf(t))) {
    if (!warn(nullptr, "This tensor is no leaf (an operator made it), so backward() keeps no gradient for it and .grad is None. retain_grad() before the backward asks for one; leaves have theirs."))
      return nullptr;
  }
  Py_RETURN_NONE;
}
static int put_grad(PyObject* o, PyObject* value, void*) {
  Tensor* t = self_of(o);
  if (!value || value == Py_None) { Py_CLEAR(t->grad); return 0; }
  if (!is_tensor(value)) { raise(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s", Py_TYPE(value)->tp_name); return -1; }
  if (value == o) { raise(PyExc_RuntimeError, "can't assign Variable as its own grad"); return -1; }
  const Layout *g = self_of(value)->layout, *l = t->layout;
  if (g->dtype != l->dtype) {
    raise(PyExc_RuntimeError, "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). "
      "Convert it first: grad.to(tensor.dtype)", dtype_cpp_name(g->dtype), dtype_scalar_name(l->dtype));
    return -1;
  }
  if (g->device != l->device && !is_sparse(self_of(value)) && !is_sparse(t)) {
    raise(PyExc_RuntimeError, "attempting to assign a gradient with device type '%s' to a tensor with device type '%s'. Please ensure that the gradient and the tensor are on the same device",
      g->device == Device::Meta ? "meta" : "cpu", l->device == Device::Meta ? "meta" : "cpu");
    return -1;
  }
  if (!same_shape(g, l)) {
    raise(PyExc_RuntimeError, "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please ensure that the gradient and the tensor are the same size",
      shape_text(g).c_str(), shape_text(l).c_str());
    return -1;
  }
  tensor_track(t);                   // the gradient's graph, or what is attached to it, may lead back here
  Py_XSETREF(t->grad, Py_NewRef(value));
  return 0;
}

static PyObject* get_data(PyObject* o, void*) {
  Tensor* t = self_of(o);
  incref(t->layout); incref(t->storage);
  Tensor* out = tensor_wrap(t->layout, t->storage, t->offset);
  if (!out) return nullptr;
  if (!version_own(out, 0)) { Py_DECREF(out); return nullptr; }
  return (PyObject*)out;
}
static int put_data(PyObject* o, PyObject* value, void*) {
  Tensor* t = self_of(o);
  if (!value) { raise(PyExc_RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!"); return -1; }
  if (!is_tensor(value)) { raise(PyExc_TypeError, "Variable data has to be a tensor, but got %s", Py_TYPE(value)->tp_name); return -1; }
  Tensor* source = self_of(value);
  if (is_sparse(source) != is_sparse(t)) { raise(PyExc_RuntimeError, "incompatible tensor type: the data of a dense tensor cannot be set to those of a sparse one"); return -1; }
  char kind = DTYPES[(int)source->layout->dtype].kind;
  if (t->requires_grad && kind != 'f' && kind != 'c') { raise(PyExc_RuntimeError, "data set to a tensor that requires gradients must be floating point or complex dtype"); return -1; }
  if (!t->version && t->storage != source->storage && !version_own(t, t->storage->version)) return -1;      // the counter stays with the tensor
  incref(source->storage); incref(source->layout);
  Storage* old = t->storage;
  t->storage = source->storage;
  decref(old);
  return set_layout(t, source->layout, source->offset) ? 0 : -1;
}

// Under a mode these views are calls of their operators, which the mode sees.
static bool mode_sees() { return RL_UNLIKELY(tls.guard & G_MODE); }
static PyObject* called(PyObject* o, const char* op) { return PyObject_CallOneArg((PyObject*)op_face(op_find(op), false, 0), o); }
static bool warn_no_dims(const Tensor* t, const char* name) {
  return t->layout->ndim || warn(said_before(name), "Tensor.%s of a tensor without dimensions is deprecated: there is nothing to transpose", name);
}
static PyObject* get_transposed(PyObject* o, void*) {
  static bool said = false;
  if (RL_UNLIKELY(self_of(o)->layout->ndim != 2) && (!warn_no_dims(self_of(o), "T") || (self_of(o)->layout->ndim && !warn(&said,
      "Tensor.T of a tensor of %d dimensions is deprecated, since it turns all of them around: x.permute(*range(x.ndim - 1, -1, -1)) does the same, x.mT turns the last two", self_of(o)->layout->ndim)))) return nullptr;
  if (!mode_sees()) return (PyObject*)view_reversed(self_of(o));
  int n = self_of(o)->layout->ndim;
  PyObject* dims = PyTuple_New(n);
  for (int i = 0; dims && i < n; i++) PyTuple_SET_ITEM(dims, i, PyLong_FromLong(n - 1 - i));
  PyObject* out = dims ? PyObject_CallMethod(o, "permute", "(O)", dims) : nullptr;
  Py_XDECREF(dims);
  return out;
}
static PyObject* get_matrix_transposed(PyObject* o, void* name) {
  Tensor* t = self_of(o);
  if (!t->layout->ndim) return warn_no_dims(t, "mT") ? Py_NewRef(o) : nullptr;
  if (t->layout->ndim < 2) return raise(PyExc_RuntimeError, "tensor.%s is only supported on matrices or batches of matrices. Got %d-D tensor.", (const char*)name, t->layout->ndim);
  if (mode_sees()) return PyObject_CallMethod(o, "transpose", "ii", -2, -1);
  return (PyObject*)view_transpose(t, -2, -1, "TransposeBackward0");
}
static PyObject* adjoint(Tensor* t) {
  if (mode_sees()) return called((PyObject*)t, "adjoint");
  Tensor* turned = view_transpose(t, -2, -1, "TransposeBackward0");
  if (!turned) return nullptr;
  Tensor* out = view_conj(turned);
  Py_DECREF(turned);
  return (PyObject*)out;
}
static PyObject* conjugate(PyObject* o) { return mode_sees() ? called(o, "conj") : (PyObject*)view_conj(self_of(o)); }
static PyObject* get_matrix_adjoint(PyObject* o, void*) {
  Tensor* t = self_of(o);
  if (!t->layout->ndim) return warn_no_dims(t, "mH") ? conjugate(o) : nullptr;
  if (t->layout->ndim < 2) return raise(PyExc_RuntimeError, "tensor.mH is only supported on matrices or batches of matrices. Got %d-D tensor.", t->layout->ndim);
  return adjoint(t);
}
static PyObject* get_hermitian(PyObject* o, void*) {
  Tensor* t = self_of(o);
  int n = t->layout->ndim;
  if (n == 0) return warn_no_dims(t, "H") ? conjugate(o) : nullptr;
  if (n != 2) return raise(PyExc_RuntimeError, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s", n, n > 2 ? " For batches of matrices, consider using tensor.mH" : "");
  return adjoint(t);
}
static PyObject* get_real(PyObject* o, void*) { return mode_sees() ? called(o, "real") : (PyObject*)view_real(self_of(o)); }
static PyObject* get_imag(PyObject* o, void*) { return mode_sees() ? called(o, "imag") : (PyObject*)view_imag(self_of(o)); }
static PyObject* part_of(Tensor* t, Tensor* (*part)(Tensor*)) { return (PyObject*)part(t); }
static int put_part(PyObject* o, PyObject* value, void* which) {
  if (!value) { raise(PyExc_AttributeError, "real and imag cannot be deleted"); return -1; }
  PyObject* part = part_of(self_of(o), which ? view_imag : view_real);
  if (!part) return -1;
  int status = index_set(part, Py_Ellipsis, value);
  Py_DECREF(part);
  return status;
}

static PyGetSetDef tensor_getset[] = {
  {"shape", get_shape, nullptr, "the size of each dimension, a torch.Size", nullptr},
  {"dtype", get_dtype, nullptr, "the type of the elements", nullptr},
  {"device", get_device, nullptr, "where the data are", nullptr},
  {"layout", get_layout, nullptr, "torch.strided", nullptr},
  {"ndim", get_ndim, nullptr, "the number of dimensions", nullptr},
  {"itemsize", get_itemsize, nullptr, "bytes of one element", nullptr},
  {"nbytes", get_nbytes, nullptr, "numel * itemsize", nullptr},
  {"requires_grad", get_requires_grad, put_requires_grad, "whether gradients are wanted", nullptr},
  {"grad", get_grad, put_grad, "the gradient accumulated by backward(), or None", nullptr},
  {"data", get_data, put_data, "the same data, outside autograd and with a version counter of its own", nullptr},
  {"grad_fn", get_grad_fn, nullptr, "the node that computed this tensor, None for a leaf", nullptr},
  {"is_leaf", get_is_leaf, nullptr, "True when no recorded operation made this tensor", nullptr},
  {"_version", get_version, nullptr, "how many times the data were changed in place", nullptr},
  {"output_nr", get_output_nr, nullptr, "which output of grad_fn this is", nullptr},
  {"retains_grad", get_retains_grad, nullptr, "True for a non-leaf after retain_grad()", nullptr},
  {"_base", get_base, nullptr, "the tensor that this one is a view of, or None", nullptr},
  {"T", get_transposed, nullptr, "the dimensions in reverse order", nullptr},
  {"mT", get_matrix_transposed, nullptr, "the last two dimensions swapped", (void*)"mT"},
  {"H", get_hermitian, nullptr, "a matrix, conjugated and transposed", nullptr},
  {"mH", get_matrix_adjoint, nullptr, "the last two dimensions swapped, conjugated", nullptr},
  {"real", get_real, put_part, "a view of the real parts; the tensor itself when it is real", nullptr},
  {"imag", get_imag, put_part, "a view of the imaginary parts", (void*)1},
  {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
  {"is_meta", get_is_meta, nullptr, nullptr, nullptr},
  {"is_cuda", get_false, nullptr, nullptr, nullptr}, {"is_mps", get_false, nullptr, nullptr, nullptr}, {"is_xpu", get_false, nullptr, nullptr, nullptr},
  {"is_xla", get_false, nullptr, nullptr, nullptr}, {"is_ipu", get_false, nullptr, nullptr, nullptr}, {"is_maia", get_false, nullptr, nullptr, nullptr},
  {"is_mtia", get_false, nullptr, nullptr, nullptr}, {"is_vulkan", get_false, nullptr, nullptr, nullptr}, {"is_mkldnn", get_false, nullptr, nullptr, nullptr},
  {"is_sparse", get_false, nullptr, nullptr, nullptr}, {"is_sparse_csr", get_false, nullptr, nullptr, nullptr}, {"is_quantized", get_false, nullptr, nullptr, nullptr},
  {"is_nested", get_false, nullptr, nullptr, nullptr},
  {"name", get_none, nullptr, nullptr, nullptr},
  {"_cdata", get_cdata, nullptr, "identifies the tensor", nullptr},
  {"_layout_id", get_layout_id, nullptr, "the id of the interned layout", nullptr},
  {"_layout_class", get_layout_class, nullptr, "the id of the layout's generic class", nullptr},
  {"__dict__", get_dict, set_dict, nullptr, nullptr},
  {nullptr}};

// ------------------------------------------------------------------------------------------------ Python's operators
template <int SLOT> static PyObject* binary(PyObject* a, PyObject* b) { return op_binary(SLOT, a, b); }
template <int SLOT> static PyObject* inplace(PyObject* a, PyObject* b) { return op_inplace(SLOT, a, b); }
template <int SLOT> static PyObject* unary(PyObject* a) { return op_unary(SLOT, a); }
static PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return op_binary(S_POW, a, b);
}
static PyObject* inplace_power(PyObject* a, PyObject* b, PyObject*) { return op_inplace(S_POW, a, b); }
static PyObject* compare(PyObject* a, PyObject* b, int op) { return op_compare(op, a, b); }

static Py_hash_t tensor_hash(PyObject* o) { return hash_pointer(o); }

static Py_ssize_t tensor_length(PyObject* o) {
  Layout* l = self_of(o)->layout;
  if (l->ndim == 0) { raise(PyExc_TypeError, "len() of a 0-d tensor"); return -1; }
  return (Py_ssize_t)l->shape()[0];
}

static PyObject* tensor_iter(PyObject* o) {
  Tensor* t = self_of(o);
  if (t->layout->ndim == 0) return raise(PyExc_TypeError, "iteration over a 0-d tensor");
  PyObject* unbind = PyObject_CallMethod(o, "unbind", "i", 0);      // one multi-output view, as torch records it; a subclass may have its own
  if (!unbind) return nullptr;
  PyObject* it = PyObject_GetIter(unbind);
  Py_DECREF(unbind);
  return it;
}

// ------------------------------------------------------------------------------------------------ to Python scalars
static int tensor_bool(PyObject* o) {
  Tensor* t = self_of(o);
  if (t->layout->numel != 1) {
    raise(PyExc_RuntimeError, t->layout->numel ? "Boolean value of Tensor with more than one value is ambiguous\n  its shape is %s: use .any() or .all()" : "Boolean value of Tensor with no values is ambiguous\n  its shape is %s",
      shape_text(t->layout).c_str());
    return -1;
  }
  PyObject* v = tensor_item(t);
  if (!v) return -1;
  int truth = PyObject_IsTrue(v);
  Py_DECREF(v);
  return truth;
}
static PyObject* one_value(PyObject* o) {
  Tensor* t = self_of(o);
  if (t->layout->numel != 1) return raise(PyExc_ValueError, "only one element tensors can be converted to Python scalars\n  this one has shape %s", shape_text(t->layout).c_str());
  return tensor_item(t);
}
static PyObject* real_value(PyObject* o, const char* type) {          // a complex number whose imaginary part is zero may pass for a real one
  PyObject* v = one_value(o);
  if (!v || !PyComplex_Check(v)) return v;
  Py_complex c = PyComplex_AsCComplex(v);
  Py_DECREF(v);
  if (c.imag != 0) return raise(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", type);
  return PyFloat_FromDouble(c.real);
}
static PyObject* tensor_int(PyObject* o) {
  PyObject* v = real_value(o, "int64_t");
  if (!v) return nullptr;
  PyObject* n = PyNumber_Long(v);
  Py_DECREF(v);
  return n;
}
bool warn_of_lost_gradient(const Tensor* t) {
  static bool said = false;
  return !t->requires_grad || warn(&said, "A number made of a tensor that requires grad has no gradient; x.detach() first says that it is not wanted.");
}
static PyObject* tensor_float(PyObject* o) {
  if (RL_UNLIKELY(!warn_of_lost_gradient(self_of(o)))) return nullptr;
  PyObject* v = real_value(o, "double");
  if (!v) return nullptr;
  PyObject* f = PyNumber_Float(v);
  Py_DECREF(v);
  return f;
}
static PyObject* tensor_index(PyObject* o) {
  Tensor* t = self_of(o);
  char kind = DTYPES[(int)t->layout->dtype].kind;
  if (t->layout->numel != 1 || kind == 'f' || kind == 'c') return raise(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
  PyObject* v = tensor_item(t);
  if (!v) return nullptr;
  PyObject* n = PyNumber_Long(v);       // True is 1
  Py_DECREF(v);
  return n;
}

// ------------------------------------------------------------------------------------------------------------- module
static PyMemberDef tensor_members[] = {
  {"__dictoffset__", RL_T_PYSSIZET, offsetof(Tensor, dict), RL_READONLY, nullptr},
  {"__weaklistoffset__", RL_T_PYSSIZET, offsetof(Tensor, weakrefs), RL_READONLY, nullptr},
  {nullptr}};

#define BINARY(slot, number) {Py_nb_##slot, (void*)binary<number>}, {Py_nb_inplace_##slot, (void*)inplace<number>}
static PyType_Slot tensor_slots[] = {
  {Py_tp_new, (void*)tensor_new}, {Py_tp_dealloc, (void*)tensor_dealloc}, {Py_tp_traverse, (void*)tensor_traverse}, {Py_tp_clear, (void*)tensor_clear},
  {Py_tp_setattro, (void*)tensor_setattro}, {Py_tp_getset, tensor_getset}, {Py_tp_members, tensor_members}, {Py_tp_methods, tensor_methods},
  {Py_tp_hash, (void*)tensor_hash}, {Py_tp_richcompare, (void*)compare}, {Py_tp_iter, (void*)tensor_iter},
  {Py_mp_length, (void*)tensor_length}, {Py_mp_subscript, (void*)index_get}, {Py_mp_ass_subscript, (void*)index_set},
  BINARY(add, S_ADD), BINARY(subtract, S_SUB), BINARY(multiply, S_MUL), BINARY(true_divide, S_TRUEDIV), BINARY(floor_divide, S_FLOORDIV), BINARY(remainder, S_MOD),
  BINARY(matrix_multiply, S_MATMUL), BINARY(lshift, S_LSHIFT), BINARY(rshift, S_RSHIFT), BINARY(and, S_AND), BINARY(or, S_OR), BINARY(xor, S_XOR),
  {Py_nb_power, (void*)power}, {Py_nb_inplace_power, (void*)inplace_power},
  {Py_nb_negative, (void*)unary<S_NEG>}, {Py_nb_positive, (void*)unary<S_POS>}, {Py_nb_absolute, (void*)unary<S_ABS>}, {Py_nb_invert, (void*)unary<S_INVERT>},
  {Py_nb_bool, (void*)tensor_bool}, {Py_nb_int, (void*)tensor_int}, {Py_nb_float, (void*)tensor_float}, {Py_nb_index, (void*)tensor_index},
  {0, nullptr}};
#undef BINARY
static PyType_Spec tensor_spec = {"rushlight.Tensor", sizeof(Tensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, tensor_slots};

static PyObject* register_parameter_type(PyObject*, PyObject* cls) {
  if (!check_subclass(cls)) return nullptr;
  ParameterType = (PyTypeObject*)Py_NewRef(cls);        // kept for ever
  Py_RETURN_NONE;
}
static PyMethodDef module_methods[] = {
  {"_register_parameter_type", register_parameter_type, METH_O, "the subclass of Tensor (nn.Parameter) that takes the fast path too"},
  {nullptr}};

bool init_tensor(PyObject* m) {
  stat_register("tensors", &g_live);
  TensorType = (PyTypeObject*)PyType_FromSpec(&tensor_spec);
  return TensorType && PyModule_AddFunctions(m, module_methods) == 0 && PyModule_AddType(m, TensorType) == 0;
}

}  // namespace rl
