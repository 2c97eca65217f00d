// Tensors from Python data and from nothing: tensor(), as_tensor(), asarray(), new_tensor(), and the empty family.
//
// Module functions made here: tensor, as_tensor, asarray, tensor_over; the method Tensor.new_tensor. Native ops registered here, with the schemas they read:
//   empty(SymInt[] size, *, ScalarType? dtype, Layout? layout, Device? device, MemoryFormat? memory_format) -> Tensor
//   empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype, Layout? layout, Device? device) -> Tensor
//   empty_like(Tensor self, *, ScalarType? dtype, Layout? layout, Device? device, MemoryFormat? memory_format) -> Tensor
//   new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype, Layout? layout, Device? device) -> Tensor
//   new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype, Layout? layout, Device? device) -> Tensor
//   (requires_grad and pin_memory may stand anywhere: the face takes them)
#include "element.h"

namespace rl {

bool add_tensor_methods(PyMethodDef* defs);     // interop.cpp

// ------------------------------------------------------------------------------------------------------- dtype of data
// The dtype that holds both; what a list of mixed numbers becomes.
static bool promote(DType a, DType b, DType* out) {
  if (a == b) { *out = a; return true; }
  char ka = DTYPES[(int)a].kind, kb = DTYPES[(int)b].kind;
  auto rank = [](char kind) { return kind == 'b' ? 0 : kind == 'u' || kind == 'i' ? 1 : kind == 'f' ? 2 : 3; };
  if (rank(ka) > rank(kb)) { std::swap(a, b); std::swap(ka, kb); }
  auto wide_unsigned = [](DType d) { return d == DType::UInt16 || d == DType::UInt32 || d == DType::UInt64; };
  if (rank(kb) == 3) {
    bool wide = a == DType::Float64 || a == DType::Complex128 || b == DType::Complex128;
    *out = wide ? DType::Complex128 : b == DType::Complex32 && (ka == 'b' || rank(ka) == 1 || a == DType::Float16) ? DType::Complex32 : DType::Complex64;
  } else if (rank(ka) < rank(kb)) {
    *out = b;
  } else if (rank(ka) == 2) {
    bool both_half = itemsize(a) <= 2 && itemsize(b) <= 2;
    *out = both_half ? DType::Float32 : itemsize(a) > itemsize(b) ? a : b;
  } else if (wide_unsigned(a) || wide_unsigned(b)) {
    bool unsigned_both = ka == 'u' && kb == 'u';
    if (!unsigned_both) { raise(PyExc_RuntimeError, "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote %s and %s", scalar_type_name(a), scalar_type_name(b)); return false; }
    *out = itemsize(a) > itemsize(b) ? a : b;
  } else if (ka != kb && itemsize(a) == 1 && itemsize(b) == 1) {
    *out = DType::Int16;                          // uint8 with int8
  } else {
    *out = itemsize(a) > itemsize(b) || (itemsize(a) == itemsize(b) && ka == 'i') ? a : b;
  }
  return true;
}

static DType complex_default() { return g_default_dtype == DType::Float64 ? DType::Complex128 : g_default_dtype == DType::Float16 ? DType::Complex32 : DType::Complex64; }

static bool numpy_dtype_of(PyObject* o, DType* out) {
  Tensor* t = tensor_from_numpy(o, false);      // shares memory: cheap, and the one place that knows numpy's types
  if (!t) return false;
  *out = t->layout->dtype;
  Py_DECREF(t);
  return true;
}

static bool is_scalar_array(PyObject* o) {      // a 0-dim ndarray claims to be a sequence
  if (!is_numpy_array(o)) return false;
  PyObject* ndim = PyObject_GetAttrString(o, "ndim");
  bool zero = ndim && PyLong_AsLongLong(ndim) == 0;
  Py_XDECREF(ndim);
  PyErr_Clear();
  return zero;
}

static bool infer_dtype(PyObject* o, DType* out, int depth = 0) {
  if (PyFloat_CheckExact(o)) { *out = g_default_dtype; return true; }
  if (PyBool_Check(o)) { *out = DType::Bool; return true; }
  if (PyLong_Check(o)) { *out = DType::Int64; return true; }
  if (is_tensor(o)) { *out = ((Tensor*)o)->layout->dtype; return true; }
  if (is_numpy_scalar(o) || is_numpy_array(o)) return numpy_dtype_of(o, out);      // before float: numpy.float64 is one
  if (PyFloat_Check(o)) { *out = g_default_dtype; return true; }
  if (PyComplex_Check(o)) { *out = complex_default(); return true; }
  if (PyUnicode_Check(o) || PyBytes_Check(o)) { raise(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name); return false; }
  if (depth > MAX_DIMS * 2) { raise(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(o)->tp_name); return false; }
  if (!PySequence_Check(o)) { raise(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(o)->tp_name); return false; }
  PyObject* items = PySequence_Fast(o, "not a sequence");
  if (!items) return false;
  bool first = true, ok = true;
  for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(items); i++) {
    PyObject* item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
    if (item == o) { raise(PyExc_TypeError, "new(): self-referential lists are incompatible"); ok = false; Py_DECREF(item); break; }
    DType d;
    ok = infer_dtype(item, &d, depth + 1) && (first ? (*out = d, true) : promote(*out, d, out));
    first = false;
    Py_DECREF(item);
    if (ok && *out == DType::Complex128) break;      // nothing is wider
  }
  Py_DECREF(items);
  if (ok && first) *out = g_default_dtype;
  return ok;
}

// The sizes of nested sequences, by their first elements.
static bool infer_sizes(PyObject* data, std::vector<int64_t>* sizes) {
  PyObject* o = Py_NewRef(data);
  while (PySequence_Check(o) && !is_tensor(o) && !is_numpy_scalar(o) && !is_scalar_array(o)) {
    Py_ssize_t n = PySequence_Length(o);
    if (n < 0) {
      if (PyErr_ExceptionMatches(PyExc_TypeError)) { PyErr_Clear(); raise(PyExc_ValueError, "could not determine the shape of object type '%s'", Py_TYPE(o)->tp_name); }
      Py_DECREF(o);
      return false;
    }
    sizes->push_back(n);
    if (sizes->size() > (size_t)MAX_DIMS) {
      raise(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(o)->tp_name);
      Py_DECREF(o);
      return false;
    }
    if (n == 0) break;
    PyObject* item = PySequence_GetItem(o, 0);
    Py_DECREF(o);
    if (!item) {
      if (PyErr_ExceptionMatches(PyExc_KeyError) || PyErr_ExceptionMatches(PyExc_TypeError)) { PyErr_Clear(); raise(PyExc_ValueError, "could not determine the shape of object type '%s'", Py_TYPE(data)->tp_name); }
      return false;
    }
    o = item;
  }
  Py_DECREF(o);
  return true;
}

// ------------------------------------------------------------------------------------------------------------- storing
static bool overflow(DType d) {
  raise(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", DTYPES[(int)d].name);
  return false;
}

// The range an integer dtype takes. Unsigned types take negative numbers down to -max, which wrap, as torch's do.
static bool integer_fits(DType d, int64_t v) {
  int bits = itemsize(d) * 8;
  if (bits == 64) return true;
  int64_t top = DTYPES[(int)d].kind == 'u' ? (int64_t(1) << bits) - 1 : (int64_t(1) << (bits - 1)) - 1;
  int64_t bottom = DTYPES[(int)d].kind == 'u' ? -top : -top - 1;
  return v >= bottom && v <= top;
}

static bool store_integer_object(DType d, char* p, PyObject* o) {
  if (PyFloat_Check(o)) {
    double v = PyFloat_AS_DOUBLE(o);
    const double limit = 9223372036854775808.0;
    if (d == DType::UInt64) {
      if (!(v > -1.0 && v < 2 * limit)) return overflow(d);
      uint64_t u = uint64_t(v < 0 ? 0 : v);
      std::memcpy(p, &u, 8);
      return true;
    }
    if (!(v >= -limit && v < limit) || !integer_fits(d, int64_t(v))) return overflow(d);
    store_integer(d, p, int64_t(v));
    return true;
  }
  PyObject* index = PyLong_Check(o) ? Py_NewRef(o) : PyNumber_Index(o);
  if (!index) return false;
  bool ok = true;
  if (d == DType::UInt64) {
    uint64_t v = PyLong_AsUnsignedLongLong(index);
    if (v == ~uint64_t(0) && PyErr_Occurred()) ok = false;
    else std::memcpy(p, &v, 8);
  } else {
    int over = 0;
    int64_t v = PyLong_AsLongLongAndOverflow(index, &over);
    if (over) { raise(PyExc_ValueError, "Overflow when unpacking long long"); ok = false; }
    else if (!integer_fits(d, v)) ok = overflow(d);
    else store_integer(d, p, v);
  }
  Py_DECREF(index);
  return ok;
}

bool element_store(DType d, char* p, PyObject* o) {
  switch (DTYPES[(int)d].kind) {
    case 'b': {
      int truth = PyObject_IsTrue(o);
      if (truth < 0) return false;
      *(uint8_t*)p = uint8_t(truth);
      return true;
    }
    case 'u': case 'i': return store_integer_object(d, p, o);
    case 'f': {
      double v = PyFloat_AsDouble(o);
      if (v == -1.0 && PyErr_Occurred()) return false;
      store_float(d, p, v);
      return true;
    }
    default: {
      PyObject* number = is_tensor(o) ? tensor_item((Tensor*)o) : Py_NewRef(o);
      if (!number) return false;
      Py_complex v = PyComplex_AsCComplex(number);
      Py_DECREF(number);
      if (v.real == -1.0 && PyErr_Occurred()) return false;
      DType part = real_of(d);
      store_float(part, p, v.real);
      store_float(part, p + itemsize(part), v.imag);
      return true;
    }
  }
}

static char* store_nested(DType d, char* p, PyObject* o, int dim, const std::vector<int64_t>& sizes) {     // returns the next place, or null
  if (dim == (int)sizes.size()) return element_store(d, p, o) ? p + itemsize(d) : nullptr;
  PyObject* items = PySequence_Fast(o, "not a sequence");
  if (!items) return nullptr;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
  if (n != sizes[dim]) {
    raise(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %lld)", (long long)sizes[dim], dim, (long long)n);
    Py_DECREF(items);
    return nullptr;
  }
  bool last = dim + 1 == (int)sizes.size();
  for (Py_ssize_t i = 0; p && i < n; i++) {
    if (PySequence_Fast_GET_SIZE(items) != n) { raise(PyExc_RuntimeError, "a list changed its length while a tensor was made of it"); p = nullptr; break; }
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    if (last && PyFloat_CheckExact(item) && d == DType::Float32) {
      float v = float(PyFloat_AS_DOUBLE(item));
      std::memcpy(p, &v, 4);
      p += 4;
      continue;
    }
    Py_INCREF(item);      // storing may run Python code that drops it from the list
    p = store_nested(d, p, item, dim + 1, sizes);
    Py_DECREF(item);
  }
  Py_DECREF(items);
  return p;
}

// -------------------------------------------------------------------------------------------------------------- copies
static bool copy_values(Tensor* target, Tensor* source) {     // detached: nothing is recorded
  const Layout *a = target->layout, *b = source->layout;
  if (a->device == Device::Meta || a->numel == 0) return true;
  if (b->device == Device::Meta) { raise(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!"); return false; }
  bool plain = a->dtype == b->dtype && !((a->flags | b->flags) & (L_CONJ | L_NEG)) && (b->flags & L_DENSE);
  if (plain && std::memcmp(a->d, b->d, sizeof(int64_t) * size_t(2 * a->ndim)) == 0) {
    if (!materialize(source->storage) || !materialize(target->storage)) return false;
    std::memcpy(data_ptr(target), data_ptr(source), size_t(b->nbytes));
    return true;
  }
  bool mode = tls.grad_mode;
  tls.grad_mode = false;
  PyObject* result = call_method((PyObject*)target, "copy_", (PyObject*)source);
  tls.grad_mode = mode;
  Py_XDECREF(result);
  return result != nullptr;
}

Tensor* tensor_copy_to(Tensor* source, DType d, Device device) {
  Tensor* plain = tensor_alias(source);
  Tensor* target = plain ? empty_like_tensor(plain, d, device, -1) : nullptr;
  if (target && !copy_values(target, plain)) Py_CLEAR(target);
  Py_XDECREF(plain);
  return target;
}

bool require_grad(Tensor* t) {
  if (!is_float_kind(t->layout->dtype) && !is_complex_kind(t->layout->dtype)) {
    raise(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients");
    return false;
  }
  t->requires_grad = 1;
  return true;
}

static bool warn_array_list(PyObject* data) {
  static bool said = false;
  if (!(PyList_Check(data) || PyTuple_Check(data)) || PySequence_Fast_GET_SIZE(data) == 0 || !is_numpy_array(PySequence_Fast_GET_ITEM(data, 0))) return true;
  return warn(&said, "A tensor from a list of numpy arrays is read number by number, which is slow: numpy.array(list) first makes one array of it.");
}

Tensor* tensor_from_data(PyObject* data, bool has_dtype, DType dtype, Device device) {
  if (is_tensor(data) && is_sparse((Tensor*)data)) {      // its parts are Python's
    PyObject* plain = PyObject_CallMethod(data, "detach", nullptr);
    PyObject* copy = plain ? PyObject_CallMethod(plain, "to", "OOOO", dtype_object(has_dtype ? dtype : ((Tensor*)data)->layout->dtype), Py_False, Py_True, Py_None) : nullptr;
    Py_XDECREF(plain);
    return (Tensor*)copy;
  }
  if (is_tensor(data)) return tensor_copy_to((Tensor*)data, has_dtype ? dtype : ((Tensor*)data)->layout->dtype, device);
  if (is_numpy_array(data) || is_numpy_scalar(data)) {
    Tensor* shared = tensor_from_numpy(data, false);
    Tensor* t = shared ? tensor_copy_to(shared, has_dtype ? dtype : shared->layout->dtype, device) : nullptr;
    Py_XDECREF(shared);
    return t;
  }
  if (PyUnicode_Check(data) || PyBytes_Check(data)) { raise(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(data)->tp_name); return nullptr; }
  std::vector<int64_t> sizes;
  if (!infer_sizes(data, &sizes)) return nullptr;
  if (!has_dtype && !infer_dtype(data, &dtype)) return nullptr;
  if (!sizes.empty() && !warn_array_list(data)) return nullptr;
  Tensor* t = tensor_empty(dtype, Device::CPU, (int)sizes.size(), sizes.data());
  if (!t) return nullptr;
  if (!store_nested(dtype, t->layout->numel ? data_ptr(t) : (char*)"", data, 0, sizes) && PyErr_Occurred()) { Py_DECREF(t); return nullptr; }
  if (device == Device::Meta) {
    Py_DECREF(t);
    t = tensor_empty(dtype, device, (int)sizes.size(), sizes.data());
  }
  return t;
}

// --------------------------------------------------------------------------------------------- tensor(), as_tensor() …
struct Options {
  bool has_dtype = false, has_device = false; DType dtype = DType::Float32; Device device = Device::CPU;
  int requires_grad = -1;          // -1: not said
  PyObject *copy = nullptr;        // asarray
};

static bool truth(PyObject* o, const char* function, const char* name, int* out) {
  if (o == Py_None) return true;
  if (!PyBool_Check(o)) { raise(PyExc_TypeError, "%s(): argument '%s' must be bool, not %s", function, name, Py_TYPE(o)->tp_name); return false; }
  *out = o == Py_True;
  return true;
}

// `with torch.device("meta"):` is a mode, so this is asked only while one is active.
static bool ask_default_device(Options* o) {
  PyObject* module = PyImport_ImportModule("rushlight.default_device");
  PyObject* device = module ? PyObject_CallMethod(module, "current", nullptr) : nullptr;
  Py_XDECREF(module);
  bool known = device && device_from(device, &o->device);
  Py_XDECREF(device);
  o->has_device = known && o->device != Device::CPU;
  return known;
}

// `data` by position or name, then keywords from `allowed` ("dtype device requires_grad pin_memory copy").
static bool parse_options(const char* function, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, const char* data_name, const char* allowed, PyObject** data, Options* o) {
  *data = nargs > 0 ? args[0] : nullptr;
  if (nargs > 1) { raise(PyExc_TypeError, "%s() takes 1 positional argument but %lld were given", function, (long long)nargs); return false; }
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i));
    PyObject* value = args[nargs + i];
    if (!name) return false;
    int pinned = 0;
    if (!*data && std::strcmp(name, data_name) == 0) { *data = value; continue; }
    if (!std::strstr(allowed, name)) { raise(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", function, name); return false; }
    if (std::strcmp(name, "dtype") == 0) {
      if (value == Py_None) continue;
      if (!PyObject_TypeCheck(value, DTypeType) && !PyType_Check(value)) { raise(PyExc_TypeError, "%s(): argument 'dtype' must be torch.dtype, not %s", function, Py_TYPE(value)->tp_name); return false; }
      if (!dtype_from(value, &o->dtype)) return false;
      o->has_dtype = true;
    } else if (std::strcmp(name, "device") == 0) {
      if (value == Py_None) continue;
      if (!device_from(value, &o->device)) return false;
      o->has_device = true;
    } else if (std::strcmp(name, "requires_grad") == 0) {
      if (!truth(value, function, name, &o->requires_grad)) return false;
    } else if (std::strcmp(name, "pin_memory") == 0) {
      if (!truth(value, function, name, &pinned)) return false;
      if (pinned) { raise(PyExc_RuntimeError, "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this system."); return false; }
    } else if (std::strcmp(name, "copy") == 0) {
      o->copy = value == Py_None ? nullptr : value;
    } else { raise(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", function, name); return false; }
  }
  if (!*data) { raise(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%s\"", function, data_name); return false; }
  return o->has_device || RL_LIKELY(!(tls.guard & G_MODE)) || is_tensor(*data) || std::strcmp(function, "new_tensor") == 0 || ask_default_device(o);
}

static PyObject* finish(Tensor* t, const Options& o) {
  if (t && o.requires_grad == 1 && !require_grad(t)) Py_CLEAR(t);
  return (PyObject*)t;
}

static bool warn_copy_construct(PyObject* data, const char* call) {
  if (!is_tensor(data)) return true;
  return warn(nullptr, "%s() of a tensor copies it: x.detach().clone() says so, and .requires_grad_(True) after it makes a leaf of the copy.", call);
}

static PyObject* make_tensor(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* data;
  Options o;
  if (!parse_options("tensor", args, nargs, kwnames, "data", "dtype device requires_grad pin_memory", &data, &o) || !warn_copy_construct(data, "torch.tensor")) return nullptr;
  Device device = o.has_device || !is_tensor(data) ? o.device : ((Tensor*)data)->layout->device;
  return finish(tensor_from_data(data, o.has_dtype, o.dtype, device), o);
}

static PyObject* new_tensor(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* data;
  Options o;
  if (!parse_options("new_tensor", args, nargs, kwnames, "data", "dtype device requires_grad pin_memory", &data, &o) || !warn_copy_construct(data, "tensor.new_tensor")) return nullptr;
  const Layout* l = ((Tensor*)self)->layout;
  return finish(tensor_from_data(data, true, o.has_dtype ? o.dtype : l->dtype, o.has_device ? o.device : l->device), o);
}

// t itself when it already is what is asked for, else t.to(…), which the tape sees.
static PyObject* convert(Tensor* t, const Options& o) {      // takes t over
  const Layout* l = t->layout;
  DType d = o.has_dtype ? o.dtype : l->dtype;
  Device device = o.has_device ? o.device : l->device;
  if (d == l->dtype && device == l->device) return (PyObject*)t;
  if (is_sparse(t) && !o.has_device) device = Device::CPU;      // where its parts are
  PyObject* where = device_object(device);
  PyObject* result = where ? call_method((PyObject*)t, "to", where, dtype_object(d)) : nullptr;
  Py_XDECREF(where);
  Py_DECREF(t);
  return result;
}

static PyObject* as_tensor(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* data;
  Options o;
  if (!parse_options("as_tensor", args, nargs, kwnames, "data", "dtype device", &data, &o)) return nullptr;
  if (is_tensor(data)) return convert((Tensor*)Py_NewRef(data), o);
  if (is_numpy_array(data)) {
    Tensor* t = tensor_from_numpy(data, true);
    return t ? convert(t, o) : nullptr;
  }
  return (PyObject*)tensor_from_data(data, o.has_dtype, o.dtype, o.device);
}

static PyObject* alias_refused(DType from, DType to) {
  return raise(PyExc_ValueError, "can't alias tensor with dtype '%s' into dtype '%s'.", scalar_type_name(from), scalar_type_name(to));
}

// asarray(obj, *, dtype, device, copy, requires_grad): shares memory whenever it can, unless copy=True; copy=False refuses instead of copying.
static PyObject* asarray(PyObject* module, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* data;
  Options o;
  if (!parse_options("asarray", args, nargs, kwnames, "obj", "dtype device copy requires_grad", &data, &o)) return nullptr;
  bool must_copy = o.copy == Py_True, must_share = o.copy == Py_False;
  Tensor* shared = nullptr;
  if (is_tensor(data)) shared = (Tensor*)Py_NewRef(data);
  else if (is_numpy_array(data) || (is_numpy_scalar(data) && !must_share)) {
    shared = tensor_from_numpy(data, !must_copy && is_numpy_array(data));
    if (shared && !is_numpy_array(data)) must_copy = true;
  } else if (PyCapsule_CheckExact(data) || (PyObject_HasAttrString(data, "__dlpack__") && !PyUnicode_Check(data))) {
    PyObject* from = PyObject_GetAttrString(module, "from_dlpack");
    shared = from ? (Tensor*)PyObject_CallOneArg(from, data) : nullptr;
    Py_XDECREF(from);
  } else if (PyObject_CheckBuffer(data) && !is_numpy_scalar(data)) {
    PyObject* from = PyObject_GetAttrString(module, "frombuffer");
    PyObject* call_args = from ? PyTuple_Pack(1, data) : nullptr;
    PyObject* options = call_args ? Py_BuildValue("{s:O}", "dtype", dtype_object(o.has_dtype ? o.dtype : g_default_dtype)) : nullptr;
    shared = options ? (Tensor*)PyObject_Call(from, call_args, options) : nullptr;
    Py_XDECREF(from); Py_XDECREF(call_args); Py_XDECREF(options);
  } else {
    if (must_share) return raise(PyExc_ValueError, "can't alias arbitrary sequence into a tensor.");
    return finish(tensor_from_data(data, o.has_dtype, o.dtype, o.device), o);
  }
  if (!shared) return nullptr;
  const Layout* l = shared->layout;
  DType d = o.has_dtype ? o.dtype : l->dtype;
  Device device = o.has_device ? o.device : l->device;
  bool same = d == l->dtype && device == l->device;
  if (must_share && !same) {
    PyObject* problem = d != l->dtype ? alias_refused(l->dtype, d) : raise(PyExc_ValueError, "can't alias tensor from device 'cpu' to 'meta'.");
    Py_DECREF(shared);
    return problem;
  }
  PyObject* result;
  if (must_copy) {
    result = same ? call_method((PyObject*)shared, "clone") : convert((Tensor*)Py_NewRef(shared), o);
    Py_DECREF(shared);
  } else result = convert(shared, o);
  if (!result) return nullptr;
  Tensor* t = (Tensor*)result;
  if (o.requires_grad < 0) {
    static bool said = false;
    if (t->requires_grad && !warn(&said, "asarray() of a tensor that requires grad gives one that does too; requires_grad=False asks for one that does not.")) { Py_DECREF(t); return nullptr; }
    return result;
  }
  if (o.requires_grad == 0 && t->requires_grad) {
    Tensor* plain = tensor_alias(t);
    Py_DECREF(t);
    return (PyObject*)plain;
  }
  if (o.requires_grad == 1 && !t->requires_grad && !require_grad(t)) { Py_DECREF(t); return nullptr; }
  return result;
}

// ------------------------------------------------------------------------------------------------------ the empty family
bool check_sizes(int n, const int64_t* sizes) {
  if (n > MAX_DIMS) { raise(PyExc_RuntimeError, "a tensor of %d dimensions: at most %d are supported", n, MAX_DIMS); return false; }
  for (int i = 0; i < n; i++)
    if (sizes[i] < 0) {
      std::string text = "[";
      for (int k = 0; k < n; k++) text += (k ? ", " : "") + std::to_string(sizes[k]);
      raise(PyExc_RuntimeError, "Trying to create tensor with negative dimension %lld: %s]", (long long)sizes[i], text.c_str());
      return false;
    }
  return true;
}

void memory_order(int ndim, const int64_t* shape, const int64_t* strides, int* perm) {
  for (int i = 0; i < ndim; i++) perm[i] = ndim - 1 - i;
  auto goes_after = [&](int a, int b) {      // 1: a lies outside b, -1: inside, 0: cannot be told
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return shape[a] > shape[b] ? 1 : 0;
  };
  for (int i = 1; i < ndim; i++) {           // insertion sort that steps over what it cannot order
    int moving = i;
    for (int j = i - 1; j >= 0; j--) {
      int order = goes_after(perm[j], perm[moving]);
      if (order > 0) { std::swap(perm[j], perm[moving]); moving = j; }
      else if (order < 0) break;
    }
  }
}

// Strides of a memory format; false with torch's error when the rank does not fit.
static bool format_strides(int format, int n, const int64_t* size, int64_t* strides) {
  if (format == 1) { raise(PyExc_RuntimeError, "unsupported memory format Preserve"); return false; }
  if (format == 2 && n != 4) { raise(PyExc_RuntimeError, "required rank 4 tensor to use channels_last format"); return false; }
  if (format == 3 && n != 5) { raise(PyExc_RuntimeError, "required rank 5 tensor to use channels_last_3d format"); return false; }
  int order[MAX_DIMS], k = 0;
  if (format >= 2) {
    order[k++] = 1;
    for (int i = n - 1; i >= 2; i--) order[k++] = i;
    order[k++] = 0;
  } else for (int i = n - 1; i >= 0; i--) order[k++] = i;
  int64_t step = 1;
  for (int i = 0; i < n; i++) {
    strides[order[i]] = step;
    if (__builtin_mul_overflow(step, size[order[i]] > 1 ? size[order[i]] : 1, &step)) { raise(PyExc_RuntimeError, "Storage size calculation overflowed with the sizes given"); return false; }
  }
  return true;
}

static Tensor* empty_formatted(DType d, Device device, int n, const int64_t* size, int format) {
  if (!check_sizes(n, size)) return nullptr;
  if (format <= 0) return tensor_empty(d, device, n, size);
  int64_t strides[MAX_DIMS];
  return format_strides(format, n, size, strides) ? tensor_empty(d, device, n, size, strides) : nullptr;
}

Tensor* empty_like_tensor(const Tensor* self, DType d, Device device, int format) {
  const Layout* l = self->layout;
  if (format != -1 && format != 1) return empty_formatted(d, device, l->ndim, l->shape(), format);
  if (l->flags & L_DENSE) return tensor_empty(d, device, l->ndim, l->shape(), l->strides());
  int perm[MAX_DIMS];
  int64_t strides[MAX_DIMS], step = 1;
  memory_order(l->ndim, l->shape(), l->strides(), perm);
  for (int i = 0; i < l->ndim; i++) {
    strides[perm[i]] = step;
    step *= l->shape()[perm[i]] > 1 ? l->shape()[perm[i]] : 1;
  }
  return tensor_empty(d, device, l->ndim, l->shape(), strides);
}

struct FactoryOptions { DType dtype; Device device; };
static FactoryOptions read_options(Args& a, DType dtype, Device device) {
  FactoryOptions o{dtype, device};
  a.dtype(&o.dtype);
  a.code();               // layout: strided is the only one
  a.device(&o.device);
  return o;
}

static int give(Tensor* t, PyObject** outs) {
  if (!t) return -1;
  outs[0] = (PyObject*)t;
  return 1;
}

static int native_empty(Call& c, PyObject** outs, int) {
  Args a(c);
  const int64_t* size;
  int n = a.sym_list(&size);
  FactoryOptions o = read_options(a, g_default_dtype, Device::CPU);
  int format = a.code();
  return give(empty_formatted(o.dtype, o.device, n, size, format), outs);
}

static Tensor* empty_with_strides(DType d, Device device, int n, const int64_t* size, int m, const int64_t* stride) {
  if (n != m) { raise(PyExc_RuntimeError, "dimensionality of sizes (%d) must match dimensionality of strides (%d)", n, m); return nullptr; }
  if (!check_sizes(n, size)) return nullptr;
  for (int i = 0; i < n; i++)
    if (stride[i] < 0) { raise(PyExc_RuntimeError, "Storage size calculation overflowed with a negative stride: stride[%d] is %lld", i, (long long)stride[i]); return nullptr; }
  return tensor_empty(d, device, n, size, stride);
}

static int native_empty_strided(Call& c, PyObject** outs, int) {
  Args a(c);
  const int64_t *size, *stride;
  int n = a.sym_list(&size), m = a.sym_list(&stride);
  FactoryOptions o = read_options(a, g_default_dtype, Device::CPU);
  return give(empty_with_strides(o.dtype, o.device, n, size, m, stride), outs);
}

static int native_new_empty_strided(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  const int64_t *size, *stride;
  int n = a.sym_list(&size), m = a.sym_list(&stride);
  FactoryOptions o = read_options(a, self->layout->dtype, self->layout->device);
  return give(empty_with_strides(o.dtype, o.device, n, size, m, stride), outs);
}

static int native_empty_like(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  FactoryOptions o = read_options(a, self->layout->dtype, self->layout->device);
  return give(empty_like_tensor(self, o.dtype, o.device, a.code()), outs);
}

static int native_new_empty(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  const int64_t* size;
  int n = a.sym_list(&size);
  FactoryOptions o = read_options(a, self->layout->dtype, self->layout->device);
  return give(empty_formatted(o.dtype, o.device, n, size, 0), outs);
}

// ---------------------------------------------------------------------------------------------------------------- init
// tensor_over(storage, dtype, storage_offset, size, stride): a tensor over given memory, which must be large enough.
static PyObject* tensor_over(PyObject*, PyObject* args) {
  PyObject *storage_arg, *dtype_arg, *size_arg, *stride_arg;
  long long offset;
  if (!PyArg_ParseTuple(args, "OOLOO:tensor_over", &storage_arg, &dtype_arg, &offset, &size_arg, &stride_arg)) return nullptr;
  Storage* storage = storage_of(storage_arg);
  DType d;
  std::vector<int64_t> size, stride;
  if (!storage || !dtype_from(dtype_arg, &d) || !int_list(size_arg, &size) || !int_list(stride_arg, &stride)) return nullptr;
  if (size.size() != stride.size()) return raise(PyExc_RuntimeError, "dimensionality of sizes (%d) must match dimensionality of strides (%d)", int(size.size()), int(stride.size()));
  if (!check_sizes((int)size.size(), size.data())) return nullptr;
  for (int64_t s : stride) if (s < 0) return raise(PyExc_RuntimeError, "negative strides are not supported, got %lld", (long long)s);
  if (offset < 0) return raise(PyExc_RuntimeError, "Tensor: invalid storage offset %lld", offset);
  Layout* layout = layout_intern(d, (Device)storage->device, (int)size.size(), size.data(), stride.data());
  if (!layout) return nullptr;
  int64_t needed;
  bool over = __builtin_add_overflow(layout_extent(layout), (int64_t)offset, &needed) || __builtin_mul_overflow(needed, (int64_t)itemsize(d), &needed);
  if (layout->numel && (over || needed > storage->nbytes)) {
    std::string text = shape_text(layout);
    decref(layout);
    return raise(PyExc_RuntimeError, "setStorage: sizes %s, storage offset %lld, and itemsize %d requiring a storage size of %lld are out of bounds for storage of size %lld",
                 text.c_str(), offset, itemsize(d), over ? -1LL : (long long)needed, (long long)storage->nbytes);
  }
  incref(storage);
  return (PyObject*)tensor_wrap(layout, storage, offset * itemsize(d));
}

static PyMethodDef functions[] = {
    {"tensor_over", tensor_over, METH_VARARGS, "tensor_over(storage, dtype, storage_offset, size, stride)\n--\n\nA tensor over given memory."},
    {"tensor", (PyCFunction)(void*)make_tensor, METH_FASTCALL | METH_KEYWORDS, "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\nA new tensor holding a copy of `data`."},
    {"as_tensor", (PyCFunction)(void*)as_tensor, METH_FASTCALL | METH_KEYWORDS, "as_tensor(data, *, dtype=None, device=None)\n--\n\n`data` as a tensor, sharing memory and history when it can."},
    {"asarray", (PyCFunction)(void*)asarray, METH_FASTCALL | METH_KEYWORDS, "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)\n--\n\n`obj` as a tensor, sharing memory when it can."},
    {nullptr, nullptr, 0, nullptr}};
static PyMethodDef methods[] = {
    {"new_tensor", (PyCFunction)(void*)new_tensor, METH_FASTCALL | METH_KEYWORDS, "new_tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\nA new tensor of `data`, by default with this tensor's dtype and device."},
    {nullptr, nullptr, 0, nullptr}};

bool init_construct(PyObject* m) {
  native_register("empty", native_empty);
  native_register("empty_strided", native_empty_strided);
  native_register("empty_like", native_empty_like);
  native_register("new_empty", native_new_empty);
  native_register("new_empty_strided", native_new_empty_strided);
  return add_tensor_methods(methods) && PyModule_AddFunctions(m, functions) == 0;
}

}  // namespace rl
