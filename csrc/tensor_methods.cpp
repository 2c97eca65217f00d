// Methods of Tensor that are not operators: they look at a tensor or rearrange the object itself, so no plan and no schema stands behind them.
#include "tensor.h"
#include <algorithm>

namespace rl {

static Tensor* self_of(PyObject* o) { return (Tensor*)o; }

// Arguments of a METH_FASTCALL | METH_KEYWORDS method by name; absent ones stay null. The texts follow torch's parser.
static bool take(const char* method, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, std::initializer_list<const char*> names, PyObject** out) {
  Py_ssize_t count = (Py_ssize_t)names.size();
  for (Py_ssize_t i = 0; i < count; i++) out[i] = i < nargs ? args[i] : nullptr;
  if (nargs > count) { raise(PyExc_TypeError, "%s() takes at most %zd positional argument%s but %zd were given", method, count, count == 1 ? "" : "s", nargs); return false; }
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
    PyObject* key = PyTuple_GET_ITEM(kwnames, k);
    Py_ssize_t at = -1, i = 0;
    for (const char* name : names) { if (PyUnicode_CompareWithASCIIString(key, name) == 0) at = i; ++i; }
    if (at < 0) { raise(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method, key); return false; }
    if (out[at]) { raise(PyExc_TypeError, "%s() got multiple values for argument '%U'", method, key); return false; }
    out[at] = args[nargs + k];
  }
  return true;
}
static bool as_integer(const char* method, const char* name, PyObject* o, int64_t* out) {
  if (!PyLong_Check(o) && !PyIndex_Check(o)) { raise(PyExc_TypeError, "%s(): argument '%s' must be int, not %s", method, name, Py_TYPE(o)->tp_name); return false; }
  PyObject* n = PyNumber_Index(o);
  if (!n) return false;
  int overflow;
  *out = PyLong_AsLongLongAndOverflow(n, &overflow);
  Py_DECREF(n);
  if (overflow) raise(PyExc_ValueError, "Overflow when unpacking long long");
  return !overflow;
}
#define FAST PyObject *o, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames

// --------------------------------------------------------------------------------------------------- shapes and facts
static PyObject* dim_or_all(const char* method, FAST, PyObject* (*all)(Layout*), bool sizes) {
  PyObject* dim;
  if (!take(method, args, nargs, kwnames, {"dim"}, &dim)) return nullptr;
  Layout* l = self_of(o)->layout;
  if (!dim || dim == Py_None) return Py_XNewRef(all(l));
  int64_t d;
  if (!as_integer(method, "dim", dim, &d)) return nullptr;
  int at;
  if (l->ndim == 0) return raise(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions", (long long)d);
  if (!wrap_dim(d, l->ndim, &at)) return nullptr;
  return PyLong_FromLongLong(sizes ? l->shape()[at] : l->strides()[at]);
}
static PyObject* m_size(FAST) { return dim_or_all("size", o, args, nargs, kwnames, layout_size, true); }
static PyObject* m_stride(FAST) { return dim_or_all("stride", o, args, nargs, kwnames, layout_stride, false); }
static PyObject* m_dim(PyObject* o, PyObject*) { return PyLong_FromLong(self_of(o)->layout->ndim); }
static PyObject* m_numel(PyObject* o, PyObject*) { return PyLong_FromLongLong(self_of(o)->layout->numel); }
static PyObject* m_element_size(PyObject* o, PyObject*) { return PyLong_FromLong(itemsize(self_of(o)->layout->dtype)); }
static PyObject* m_storage_offset(PyObject* o, PyObject*) { return PyLong_FromLongLong(self_of(o)->offset / itemsize(self_of(o)->layout->dtype)); }
static PyObject* m_data_ptr(PyObject* o, PyObject*) {
  Tensor* t = self_of(o);
  if (!materialize(t->storage)) return nullptr;
  return PyLong_FromVoidPtr(t->storage->nbytes ? data_ptr(t) : nullptr);
}
static char kind_of(PyObject* o) { return DTYPES[(int)self_of(o)->layout->dtype].kind; }
static PyObject* m_is_floating_point(PyObject* o, PyObject*) { return PyBool_FromLong(kind_of(o) == 'f'); }
static PyObject* m_is_complex(PyObject* o, PyObject*) { return PyBool_FromLong(kind_of(o) == 'c'); }
static PyObject* m_is_signed(PyObject* o, PyObject*) { return PyBool_FromLong(kind_of(o) != 'u' && kind_of(o) != 'b'); }
static PyObject* m_is_conj(PyObject* o, PyObject*) { return PyBool_FromLong(self_of(o)->layout->flags & L_CONJ); }
static PyObject* m_is_neg(PyObject* o, PyObject*) { return PyBool_FromLong(self_of(o)->layout->flags & L_NEG); }
static PyObject* m_is_inference(PyObject* o, PyObject*) { return PyBool_FromLong(self_of(o)->bits & T_INFERENCE); }
static PyObject* m_get_device(PyObject*, PyObject*) { return PyLong_FromLong(-1); }        // torch's answer for cpu and meta
static PyObject* m_is_view(PyObject* o, PyObject*) { return PyBool_FromLong(view_base(self_of(o)) != nullptr); }
static PyObject* m_untyped_storage(PyObject* o, PyObject*) { return storage_object(self_of(o)->storage); }
static PyObject* m_is_contiguous(FAST) {
  PyObject* format;
  if (!take("is_contiguous", args, nargs, kwnames, {"memory_format"}, &format)) return nullptr;
  MemoryFormat f = MemoryFormat::Contiguous;
  if (format && !memory_format_from(format, &f)) return nullptr;
  return PyBool_FromLong(layout_contiguous(self_of(o)->layout, f));
}
static PyObject* m_is_dense(PyObject* o, PyObject*) { return PyBool_FromLong(self_of(o)->layout->flags & L_DENSE); }
static PyObject* m_self_overlaps(PyObject* o, PyObject*) { return PyBool_FromLong(layout_self_overlaps(self_of(o)->layout)); }
static PyObject* m_is_same_size(PyObject* o, PyObject* other) {
  if (!is_tensor(other)) return raise(PyExc_TypeError, "is_same_size(): argument 'other' (position 1) must be Tensor, not %s", Py_TYPE(other)->tp_name);
  return PyBool_FromLong(same_shape(self_of(o)->layout, self_of(other)->layout));
}
static PyObject* m_is_set_to(PyObject* o, PyObject* other) {
  if (!is_tensor(other)) return raise(PyExc_TypeError, "is_set_to(): argument 'tensor' (position 1) must be Tensor, not %s", Py_TYPE(other)->tp_name);
  Tensor *a = self_of(o), *b = self_of(other);
  return PyBool_FromLong(a->storage == b->storage && a->offset == b->offset && a->layout == b->layout);
}
static PyObject* m_is_pinned(PyObject*, PyObject* const*, Py_ssize_t, PyObject*) { Py_RETURN_FALSE; }
static PyObject* m_complex(PyObject* o, PyObject*) {
  if (!warn_of_lost_gradient(self_of(o))) return nullptr;
  Tensor* t = self_of(o);
  if (t->layout->numel != 1) return raise(PyExc_ValueError, "only one element tensors can be converted to Python scalars\n  this one has shape %s", shape_text(t->layout).c_str());
  PyObject* v = tensor_item(t);
  if (!v) return nullptr;
  Py_complex c = PyComplex_AsCComplex(v);
  Py_DECREF(v);
  return c.real == -1.0 && PyErr_Occurred() ? nullptr : PyComplex_FromCComplex(c);
}

// ------------------------------------------------------------------------------------------------------------ autograd
static PyObject* m_requires_grad_(FAST) {
  PyObject* value;
  if (!take("requires_grad_", args, nargs, kwnames, {"requires_grad"}, &value)) return nullptr;
  if (value && !PyBool_Check(value)) return raise(PyExc_TypeError, "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not %s", Py_TYPE(value)->tp_name);
  return set_requires_grad(self_of(o), value != Py_False) ? Py_NewRef(o) : nullptr;
}
static PyObject* m_detach_(PyObject* o, PyObject*) {
  Tensor* t = self_of(o);
  if (view_base(t))
    return raise(PyExc_RuntimeError, "Can't detach views in-place. Use detach() instead. This tensor of shape %s is a view of one of shape %s", shape_text(t->layout).c_str(), shape_text(view_base(t)->layout).c_str());
  tape_detach_(t);
  return PyErr_Occurred() ? nullptr : Py_NewRef(o);
}

// ---------------------------------------------------------------------------------------------------------- subclasses
static PyObject* m_make_subclass(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* given[3];
  if (!take("_make_subclass", args, nargs, kwnames, {"cls", "data", "require_grad"}, given)) return nullptr;
  if (!given[0] || !given[1]) return raise(PyExc_TypeError, "_make_subclass() missing required arguments: cls, data");
  if (!check_subclass(given[0])) return nullptr;
  if (!is_tensor(given[1])) return raise(PyExc_TypeError, "_make_subclass(): argument 'data' (position 2) must be Tensor, not %s", Py_TYPE(given[1])->tp_name);
  int wants_grad = given[2] ? PyObject_IsTrue(given[2]) : 0;
  if (wants_grad < 0) return nullptr;
  Tensor* data = self_of(given[1]);
  incref(data->layout); incref(data->storage);
  Tensor* out = tensor_wrap_in((PyTypeObject*)given[0], data->layout, data->storage, data->offset);
  if (!out) return nullptr;
  version_share(data, out);
  if (wants_grad && !set_requires_grad(out, true)) { Py_DECREF(out); return nullptr; }
  return (PyObject*)out;
}
// The object of a sparse tensor: shape and dtype of `like`, a meta tensor, so that nothing which looks for data here finds any.
static PyObject* m_make_sparse(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs != 2 || !check_subclass(args[0]) || !is_tensor(args[1])) return PyErr_Occurred() ? nullptr : raise(PyExc_TypeError, "_make_sparse(cls, like)");
  Tensor* like = self_of(args[1]);
  if (like->layout->device != Device::Meta) return raise(PyExc_ValueError, "_make_sparse(): `like` must be a meta tensor");
  incref(like->layout); incref(like->storage);
  Tensor* out = tensor_wrap_in((PyTypeObject*)args[0], like->layout, like->storage, 0);
  if (out) out->bits |= T_SPARSE | ((tls.guard & G_INFERENCE) ? T_INFERENCE : 0);
  return (PyObject*)out;
}
static PyObject* m_as_subclass(PyObject* o, PyObject* cls) {
  if (!check_subclass(cls)) return nullptr;
  Tensor* t = self_of(o);
  incref(t->layout);
  return (PyObject*)make_view_in((PyTypeObject*)cls, t, {ViewKind::Alias, {}, nullptr}, t->layout, t->offset);
}

// ------------------------------------------------------------------------- the object itself: set_, resize_
static bool may_replace(Tensor* t, const char* method) {
  if (t->requires_grad && is_leaf(t) && tls.grad_mode) {
    raise(PyExc_RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation.\n  in %s on a tensor of shape %s: do it under no_grad()", method, shape_text(t->layout).c_str());
    return false;
  }
  if ((t->bits & T_INFERENCE) && !(tls.guard & G_INFERENCE)) {
    raise(PyExc_RuntimeError, "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before doing inplace update.");
    return false;
  }
  return true;
}
// The tensor moves to another storage: its counter stays its own, one higher.
static bool move_storage(Tensor* t, Storage* s /*taken*/, Layout* l /*taken*/, int64_t offset) {
  if (!t->version && !version_own(t, t->storage->version)) { decref(s); decref(l); return false; }
  decref(t->storage);
  t->storage = s;
  set_layout(t, l, offset);
  bump_version(t);
  return true;
}

static PyObject* m_set_(FAST) {
  PyObject* g[4];
  if (!take("set_", args, nargs, kwnames, {"source", "storage_offset", "size", "stride"}, g)) return nullptr;
  Tensor* t = self_of(o);
  if (!may_replace(t, "set_")) return nullptr;
  DType dtype = t->layout->dtype;
  int item = itemsize(dtype);
  if (!g[0]) {                                     // set_(): an empty storage
    int64_t zero = 0;
    Storage* s = storage_new(0, t->layout->device);
    Layout* l = s ? layout_intern(dtype, t->layout->device, 1, &zero, nullptr) : nullptr;
    if (!l) { if (s) decref(s); return nullptr; }
    return move_storage(t, s, l, 0) ? Py_NewRef(o) : nullptr;
  }
  Storage* s;
  Layout* l;
  int64_t offset = 0;
  if (is_tensor(g[0])) {
    Tensor* source = self_of(g[0]);
    if (source->layout->dtype != dtype) return raise(PyExc_RuntimeError, "Could not set tensor of type %s to a tensor of type %s", dtype_cpp_name(source->layout->dtype), dtype_cpp_name(dtype));
    s = source->storage; l = source->layout; offset = source->offset;
  } else {
    if (!(s = storage_of(g[0]))) {
      if (PyErr_ExceptionMatches(PyExc_TypeError))
        raise(PyExc_TypeError, "set_() received an invalid combination of arguments - got (%s), but expected a Tensor or an UntypedStorage first", Py_TYPE(g[0])->tp_name);
      return nullptr;
    }
    l = nullptr;
  }
  if ((Device)s->device != t->layout->device)
    return raise(PyExc_RuntimeError, "Attempted to set the storage of a tensor on device \"%s\" to a storage on different device \"%s\".  This is no longer allowed; the devices must match.",
      t->layout->device == Device::Meta ? "meta" : "cpu", (Device)s->device == Device::Meta ? "meta" : "cpu");
  if (g[1]) {
    int64_t start;
    std::vector<int64_t> size, stride;
    if (!as_integer("set_", "storage_offset", g[1], &start)) return nullptr;
    if (!g[2]) return raise(PyExc_TypeError, "set_() missing 1 required positional argument: \"size\"");
    if (!int_list(g[2], &size) || (g[3] && !int_list(g[3], &stride))) return nullptr;
    bool strided = g[3] && !(stride.empty() && !size.empty());
    if (start < 0) return raise(PyExc_RuntimeError, "Tensor: invalid storage offset %lld", (long long)start);
    if (strided && size.size() != stride.size()) return raise(PyExc_RuntimeError, "unequal size length (%zd) and stride length (%zd)", (Py_ssize_t)size.size(), (Py_ssize_t)stride.size());
    for (int64_t v : stride) if (v < 0) return raise(PyExc_RuntimeError, "Tensor: strides must not be negative, got %s", ints_text(stride.data(), (int)stride.size()).c_str());
    l = layout_intern(dtype, t->layout->device, (int)size.size(), size.data(), strided ? stride.data() : nullptr);
    if (!l) return nullptr;
    int64_t end;
    if (__builtin_add_overflow(start, layout_extent(l), &end) || __builtin_mul_overflow(end, (int64_t)item, &end)) { decref(l); return raise(PyExc_RuntimeError, "Storage size calculation overflowed"); }
    if (l->numel && end > s->nbytes && !storage_resize(s, end)) { decref(l); return nullptr; }
    offset = start * item;
  } else if (l) {
    incref(l);
  } else {
    int64_t count = s->nbytes / item;
    if (!(l = layout_intern(dtype, t->layout->device, 1, &count, nullptr))) return nullptr;
  }
  incref(s);
  return move_storage(t, s, l, offset) ? Py_NewRef(o) : nullptr;
}

static PyObject* resize(Tensor* t, int n, const int64_t* sizes, MemoryFormat format) {
  if (t->requires_grad) return raise(PyExc_RuntimeError, "cannot resize variables that require grad");
  if (!may_replace(t, "resize_")) return nullptr;
  int64_t strides[MAX_DIMS];
  if (format == MemoryFormat::Preserve) return raise(PyExc_RuntimeError, "Unsupported memory format torch.preserve_format: use contiguous_format or channels_last");
  if (format == MemoryFormat::ChannelsLast && n != 4) return raise(PyExc_RuntimeError, "required rank 4 tensor to use channels_last format");
  if (format == MemoryFormat::ChannelsLast3d && n != 5) return raise(PyExc_RuntimeError, "required rank 5 tensor to use channels_last_3d format");
  if (n <= MAX_DIMS) memory_format_strides(format, n, sizes, strides);
  Layout* l = layout_intern(t->layout->dtype, t->layout->device, n, sizes, format == MemoryFormat::Contiguous ? nullptr : strides, t->layout->flags & (L_CONJ | L_NEG));
  if (!l) return nullptr;
  // The same shape keeps its strides, as torch does.
  if (format == MemoryFormat::Contiguous && same_shape(l, t->layout)) { decref(l); l = t->layout; incref(l); }
  int64_t end = t->offset + layout_extent(l) * itemsize(l->dtype);
  if (l->numel && end > t->storage->nbytes && !storage_resize(t->storage, end)) { decref(l); return nullptr; }
  set_layout(t, l, t->offset);
  bump_version(t);
  return Py_NewRef((PyObject*)t);
}
static PyObject* m_resize_(FAST) {
  MemoryFormat format = MemoryFormat::Contiguous;
  PyObject* size = nullptr;
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
    PyObject *key = PyTuple_GET_ITEM(kwnames, k), *value = args[nargs + k];
    if (PyUnicode_CompareWithASCIIString(key, "memory_format") == 0) { if (value != Py_None && !memory_format_from(value, &format)) return nullptr; }
    else if (PyUnicode_CompareWithASCIIString(key, "size") == 0 && nargs == 0) size = value;
    else return raise(PyExc_TypeError, "resize_() got an unexpected keyword argument '%U'", key);
  }
  std::vector<int64_t> sizes;
  if (!size && nargs == 0 && !kwnames) return raise(PyExc_TypeError, "resize_() missing 1 required positional arguments: \"size\"");
  if (!size && nargs == 1 && !PyIndex_Check(args[0])) size = args[0];
  if (size) { if (!int_list(size, &sizes)) return nullptr; }
  else for (Py_ssize_t i = 0; i < nargs; i++) { int64_t v; if (!as_integer("resize_", "size", args[i], &v)) return nullptr; sizes.push_back(v); }
  return resize(self_of(o), (int)sizes.size(), sizes.data(), format);
}
static PyObject* m_resize_as_(FAST) {
  PyObject* g[2];
  if (!take("resize_as_", args, nargs, kwnames, {"the_template", "memory_format"}, g)) return nullptr;
  if (!g[0] || !is_tensor(g[0])) return raise(PyExc_TypeError, "resize_as_(): argument 'the_template' (position 1) must be Tensor, not %s", g[0] ? Py_TYPE(g[0])->tp_name : "absent");
  MemoryFormat format = MemoryFormat::Contiguous;
  if (g[1] && g[1] != Py_None && !memory_format_from(g[1], &format)) return nullptr;
  Layout* l = self_of(g[0])->layout;
  return resize(self_of(o), l->ndim, l->shape(), format);
}

// --------------------------------------------------------------------------------------------------------------- table
#define FASTCALL(name, function, doc) {name, (PyCFunction)(void*)function, METH_FASTCALL | METH_KEYWORDS, doc}
PyMethodDef tensor_methods[] = {
  FASTCALL("size", m_size, "size(dim=None) -> torch.Size or int\n\nThe shape, or the size of one dimension."),
  FASTCALL("stride", m_stride, "stride(dim=None) -> tuple or int\n\nHow many elements lie between neighbours along each dimension."),
  FASTCALL("is_contiguous", m_is_contiguous, "is_contiguous(memory_format=torch.contiguous_format) -> bool\n\nWhether the elements lie densely in the order of that format."),
  {"dim", m_dim, METH_NOARGS, "dim() -> int\n\nThe number of dimensions."},
  {"ndimension", m_dim, METH_NOARGS, "ndimension() -> int\n\nAlias of dim()."},
  {"numel", m_numel, METH_NOARGS, "numel() -> int\n\nThe number of elements."},
  {"nelement", m_numel, METH_NOARGS, "nelement() -> int\n\nAlias of numel()."},
  {"element_size", m_element_size, METH_NOARGS, "element_size() -> int\n\nBytes of one element."},
  {"storage_offset", m_storage_offset, METH_NOARGS, "storage_offset() -> int\n\nWhere the first element lies in the storage, in elements."},
  {"data_ptr", m_data_ptr, METH_NOARGS, "data_ptr() -> int\n\nThe address of the first element."},
  {"is_floating_point", m_is_floating_point, METH_NOARGS, "is_floating_point() -> bool"},
  {"is_complex", m_is_complex, METH_NOARGS, "is_complex() -> bool"},
  {"is_signed", m_is_signed, METH_NOARGS, "is_signed() -> bool"},
  {"is_conj", m_is_conj, METH_NOARGS, "is_conj() -> bool\n\nTrue when the conjugate is still to be taken of the stored values."},
  {"is_neg", m_is_neg, METH_NOARGS, "is_neg() -> bool\n\nTrue when the stored values are still to be negated."},
  {"is_inference", m_is_inference, METH_NOARGS, "is_inference() -> bool\n\nTrue for tensors made under inference_mode."},
  {"is_same_size", m_is_same_size, METH_O, "is_same_size(other) -> bool"},
  {"is_set_to", m_is_set_to, METH_O, "is_set_to(tensor) -> bool\n\nTrue when both are the same view of one storage."},
  FASTCALL("is_pinned", m_is_pinned, "is_pinned() -> bool\n\nFalse: there is no pinned memory."),
  {"get_device", m_get_device, METH_NOARGS, "get_device() -> int\n\n-1: the tensor is not on an indexed device."},
  {"untyped_storage", m_untyped_storage, METH_NOARGS, "untyped_storage() -> torch.UntypedStorage\n\nThe bytes under the tensor."},
  {"_is_view", m_is_view, METH_NOARGS, "_is_view() -> bool"},
  {"_is_dense", m_is_dense, METH_NOARGS, "every element has its own place and there are no holes"},
  {"_self_overlaps", m_self_overlaps, METH_NOARGS, "two indices reach one element"},
  {"__complex__", m_complex, METH_NOARGS, nullptr},
  FASTCALL("requires_grad_", m_requires_grad_, "requires_grad_(requires_grad=True) -> Tensor\n\nSay whether gradients are wanted; returns the tensor."),
  {"detach_", m_detach_, METH_NOARGS, "detach_() -> Tensor\n\nMake the tensor a leaf without history."},
  FASTCALL("set_", m_set_, "set_(source=None, storage_offset=0, size=None, stride=None) -> Tensor\n\nMake the tensor look at another storage."),
  FASTCALL("resize_", m_resize_, "resize_(*sizes, memory_format=torch.contiguous_format) -> Tensor\n\nChange the shape, growing the storage when it must; new elements are uninitialised."),
  FASTCALL("resize_as_", m_resize_as_, "resize_as_(the_template, memory_format=torch.contiguous_format) -> Tensor\n\nresize_ to the shape of another tensor."),
  {"_make_subclass", (PyCFunction)(void*)m_make_subclass, METH_FASTCALL | METH_KEYWORDS | METH_STATIC, "_make_subclass(cls, data, require_grad=False)\n\nA tensor of type cls over the data of another, outside its graph."},
  {"_make_sparse", (PyCFunction)(void*)m_make_sparse, METH_FASTCALL | METH_STATIC, "_make_sparse(cls, like)\n\nThe object of a sparse tensor, of type cls."},
  {"as_subclass", m_as_subclass, METH_O, "as_subclass(cls) -> Tensor\n\nAn alias of type cls, inside the graph."},
  {nullptr}};

}  // namespace rl
