// Numbers and memory out of tensors and into them: item, tolist, numpy, the buffer protocol, frombuffer. DLPack is in dlpack.cpp, shared
// memory in shared.cpp, building tensors from Python data in construct.cpp.
//
// Decisions
//  - numpy is reached through its Python API only, so the build needs no numpy and `import rushlight` does not import it. An array is read through
//    the buffer protocol; one is made as ndarray(shape, dtype, buffer, offset, strides) over an object that holds the storage.
//  - Tensor exports the buffer protocol (torch's does not): memoryview(t) is zero-copy.
//  - memory that somebody else looks at must not move: exporting marks the storage ST_NORESIZE, and resize_ then refuses, as torch's does.
#include "element.h"

namespace rl {

bool init_dlpack(PyObject* m);      // dlpack.cpp
bool init_shared(PyObject* m);      // shared.cpp

// ------------------------------------------------------------------------------------------------------------ elements
PyObject* element_object(DType d, const char* p, bool conj, bool neg) {
  switch (DTYPES[(int)d].kind) {
    case 'b': return PyBool_FromLong(*(const uint8_t*)p != 0);
    case 'u':
      if (d == DType::UInt64) { uint64_t v; std::memcpy(&v, p, 8); return PyLong_FromUnsignedLongLong(v); }
      return PyLong_FromLongLong(load_integer(d, p));
    case 'i': { int64_t v = load_integer(d, p); return PyLong_FromLongLong(neg ? -v : v); }
    case 'f': { double v = load_real(d, p); return PyFloat_FromDouble(neg ? -v : v); }
    default: {
      DType part = real_of(d);
      double re = load_real(part, p), im = load_real(part, p + itemsize(part));
      if (neg) { re = -re; im = -im; }
      return PyComplex_FromDoubles(re, conj ? -im : im);
    }
  }
}

static bool conj_of(const Tensor* t) { return t->layout->flags & L_CONJ; }
static bool neg_of(const Tensor* t) { return t->layout->flags & L_NEG; }

// Inside vmap a tensor stands for a batch: it has a shape, but no one value.
static bool has_values(const Tensor* t) {
  if (RL_LIKELY(!(tls.guard & G_MODE)) || !t->dict || !PyDict_GetItemString(t->dict, "_batches")) return true;
  raise(PyExc_RuntimeError, "vmap: It looks like you're either (1) calling .item() on a Tensor or (2) attempting to use a Tensor in some data-dependent control flow or "
        "(3) encountering this error in PyTorch internals. Inside vmap a tensor stands for many examples; use torch.where in place of if");
  return false;
}

PyObject* tensor_item(Tensor* t) {
  if (!has_values(t)) return nullptr;
  if (RL_UNLIKELY(t->layout->numel != 1))
    return raise(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->layout->numel);
  if (RL_UNLIKELY(t->layout->device == Device::Meta)) return raise(PyExc_RuntimeError, "Tensor.item() cannot be called on meta tensors");
  if (!materialize(t->storage)) return nullptr;
  return element_object(t->layout->dtype, data_ptr(t), conj_of(t), neg_of(t));
}

// In bytes. The stride of a dimension of one element is never used and may be anything (as_strided, a huge slice step): it may wrap.
static int64_t byte_stride(const Layout* l, int dim) { return (int64_t)((uint64_t)l->strides()[dim] * (uint64_t)itemsize(l->dtype)); }

static PyObject* list_of(const Tensor* t, int dim, const char* p) {
  const Layout* l = t->layout;
  if (dim == l->ndim) return element_object(l->dtype, p, conj_of(t), neg_of(t));
  int64_t size = l->shape()[dim], step = byte_stride(l, dim);
  PyObject* list = PyList_New(size);
  if (!list) return nullptr;
  for (int64_t i = 0; i < size; i++) {
    PyObject* item = list_of(t, dim + 1, i ? p + i * step : p);
    if (!item) { Py_DECREF(list); return nullptr; }
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

static PyObject* method_item(PyObject* self, PyObject*) { return tensor_item((Tensor*)self); }

static PyObject* method_tolist(PyObject* self, PyObject*) {
  if (!has_values((Tensor*)self)) return nullptr;
  Tensor* t = (Tensor*)self;
  if (t->layout->device == Device::Meta) return raise(PyExc_NotImplementedError, "Cannot copy out of meta tensor; no data!");
  if (!materialize(t->storage)) return nullptr;
  return list_of(t, 0, data_ptr(t));
}

PyObject* call_method(PyObject* self, const char* name, PyObject* a, PyObject* b) {
  PyObject* text = PyUnicode_InternFromString(name);
  if (!text) return nullptr;
  PyObject* args[3] = {self, a, b};
  PyObject* result = PyObject_VectorcallMethod(text, args, size_t(1 + (a != nullptr) + (b != nullptr)) | PY_VECTORCALL_ARGUMENTS_OFFSET * 0, nullptr);
  Py_DECREF(text);
  return result;
}

// --------------------------------------------------------------------------------------------------------------- numpy
static PyObject* numpy_attribute(const char* name) {      // new; imports numpy
  PyObject* np = PyImport_ImportModule("numpy");
  if (!np) {
    if (PyErr_ExceptionMatches(PyExc_ImportError)) { PyErr_Clear(); raise(PyExc_RuntimeError, "Numpy is not available"); }
    return nullptr;
  }
  PyObject* value = PyObject_GetAttrString(np, name);
  Py_DECREF(np);
  return value;
}

// The class `name` of numpy if numpy is imported; without an error when it is not: nothing can then be an instance of it. Borrowed.
static PyObject* numpy_class(const char* name, PyObject** cache) {
  if (*cache) return *cache;
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* np = modules ? PyDict_GetItemString(modules, "numpy") : nullptr;
  if (!np) return nullptr;
  *cache = PyObject_GetAttrString(np, name);      // null while numpy itself is half imported
  if (!*cache) PyErr_Clear();
  return *cache;
}

static PyObject *ndarray_class, *generic_class;

bool is_numpy_array(PyObject* o) {
  PyObject* cls = numpy_class("ndarray", &ndarray_class);
  return cls && PyObject_TypeCheck(o, (PyTypeObject*)cls);
}

bool is_numpy_scalar(PyObject* o) {
  PyObject* cls = numpy_class("generic", &generic_class);
  return cls && PyObject_TypeCheck(o, (PyTypeObject*)cls);
}

// The struct-module letters of a dtype, and back. Null: the buffer protocol has no such type.
static const char* format_of(DType d) {
  switch (d) {
    case DType::Bool: return "?";
    case DType::UInt8: return "B";
    case DType::Int8: return "b";
    case DType::Int16: return "h";
    case DType::UInt16: return "H";
    case DType::Int32: return "i";
    case DType::UInt32: return "I";
    case DType::Int64: return "q";
    case DType::UInt64: return "Q";
    case DType::Float16: return "e";
    case DType::Float32: return "f";
    case DType::Float64: return "d";
    case DType::Complex64: return "Zf";
    case DType::Complex128: return "Zd";
    default: return nullptr;
  }
}

enum class Format { Ok, Swapped, Unknown };
static Format dtype_of_format(const char* format, int64_t size, DType* out) {
  static const uint16_t one = 1;
  const bool little = *(const uint8_t*)&one == 1;
  if (!format) format = "B";
  bool swapped = false;
  if (*format == '<' || *format == '>' || *format == '!') swapped = (*format == '<') != little;
  if (*format == '<' || *format == '>' || *format == '!' || *format == '=' || *format == '@') ++format;
  bool complex = *format == 'Z';
  if (complex) ++format;
  char c = *format;
  if (!c || format[1]) return Format::Unknown;
  if (complex) {
    if (c != 'f' && c != 'd') return Format::Unknown;
    *out = c == 'f' ? DType::Complex64 : DType::Complex128;
  } else if (c == '?') *out = DType::Bool;
  else if (c == 'e') *out = DType::Float16;
  else if (c == 'f') *out = DType::Float32;
  else if (c == 'd') *out = DType::Float64;
  else if (std::strchr("bhilqn", c)) *out = size == 1 ? DType::Int8 : size == 2 ? DType::Int16 : size == 4 ? DType::Int32 : DType::Int64;
  else if (std::strchr("BHILQN", c)) *out = size == 1 ? DType::UInt8 : size == 2 ? DType::UInt16 : size == 4 ? DType::UInt32 : DType::UInt64;
  else return Format::Unknown;
  return swapped && size > 1 ? Format::Swapped : Format::Ok;
}

// A storage over memory that a Py_buffer keeps alive.
static void release_buffer(Storage* s) {
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_buffer* view = (Py_buffer*)s->owner;
  PyBuffer_Release(view);
  delete view;
  PyGILState_Release(gil);
}

// A tensor over a filled-in buffer; takes the view over, also on failure.
static Tensor* tensor_over_buffer(Py_buffer* view, DType d, int ndim, const int64_t* shape, const int64_t* strides, int64_t byte_offset) {
  Layout* layout = layout_intern(d, Device::CPU, ndim, shape, strides);
  if (!layout) { PyBuffer_Release(view); delete view; return nullptr; }
  int64_t nbytes = byte_offset + layout_extent(layout) * itemsize(d);
  Storage* storage = storage_external(view->buf, nbytes, release_buffer, view);
  if (!storage) { decref(layout); PyBuffer_Release(view); delete view; return nullptr; }
  storage->flags |= ST_EXTERNAL | ST_NORESIZE;
  return tensor_wrap(layout, storage, byte_offset);
}

static Tensor* unsupported_array(PyObject* array) {
  PyObject* dtype = PyObject_GetAttrString(array, "dtype");
  PyObject* type = dtype ? PyObject_GetAttrString(dtype, "type") : nullptr;
  PyObject* name = type ? PyObject_GetAttrString(type, "__name__") : nullptr;
  if (name)
    PyErr_Format(PyExc_TypeError, "can't convert np.ndarray of type numpy.%U. The only supported types are: float64, float32, float16, complex64, complex128, "
                 "int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.", name);
  Py_XDECREF(name); Py_XDECREF(type); Py_XDECREF(dtype);
  return nullptr;
}

Tensor* tensor_from_numpy(PyObject* array, bool warn_readonly) {
  Py_buffer* view = new Py_buffer;
  if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {       // dates and the like: numpy itself refuses
    delete view;
    PyErr_Clear();
    return unsupported_array(array);
  }
  DType d = DType::Float32;
  Format format = dtype_of_format(view->format, view->itemsize, &d);
  int64_t shape[MAX_DIMS], strides[MAX_DIMS];
  const char* problem = nullptr;
  if (format == Format::Swapped)
    problem = "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.";
  if (view->ndim > MAX_DIMS) problem = "given numpy array has more than 64 dimensions";
  for (int i = 0; !problem && format == Format::Ok && i < view->ndim; i++) {
    if (view->strides[i] < 0)
      problem = "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
                "(You can probably work around this by making a copy of your array  with array.copy().) ";
    else if (view->strides[i] % view->itemsize)
      problem = "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.";
    shape[i] = view->shape[i];
    strides[i] = view->strides[i] / view->itemsize;
  }
  if (problem || format == Format::Unknown) {
    PyBuffer_Release(view);
    delete view;
    if (!problem) return unsupported_array(array);
    PyErr_SetString(PyExc_ValueError, problem);
    return nullptr;
  }
  if (view->readonly && warn_readonly) {
    static bool said = false;
    if (!warn(&said, "The array is not writable, and a tensor always is: writing to this one writes to memory that is meant to stay as it is. A copy (array.copy()) can be written. Said once.")) {
      PyBuffer_Release(view);
      delete view;
      return nullptr;
    }
  }
  int ndim = view->ndim;
  return tensor_over_buffer(view, d, ndim, shape, strides, 0);
}

static PyObject* from_numpy(PyObject*, PyObject* array) {
  if (!is_numpy_array(array)) return raise(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(array)->tp_name);
  return (PyObject*)tensor_from_numpy(array, true);
}

// What an array made by .numpy() holds on to: one storage, seen as bytes.
struct StorageBytes { PyObject_HEAD Storage* storage; };
static char nothing[8];       // the address of memory that has no bytes
static void storage_bytes_free(PyObject* self) {
  decref(((StorageBytes*)self)->storage);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}
static int storage_bytes_buffer(PyObject* self, Py_buffer* view, int flags) {
  Storage* s = ((StorageBytes*)self)->storage;
  return PyBuffer_FillInfo(view, self, s->data ? s->data : nothing, s->data ? (Py_ssize_t)s->nbytes : 0, 0, flags);
}
static PyTypeObject* storage_bytes_type;

static PyObject* numpy_dtype(DType d) {      // borrowed
  static PyObject* cache[(int)DType::Count];
  PyObject*& slot = cache[(int)d];
  if (slot) return slot;
  if (!format_of(d)) return raise(PyExc_TypeError, "Got unsupported ScalarType %s", scalar_type_name(d));
  PyObject* make = numpy_attribute("dtype");
  if (!make) return nullptr;
  slot = PyObject_CallFunction(make, "s", DTYPES[(int)d].name);
  Py_DECREF(make);
  return slot;
}

static PyObject* array_over(Tensor* t) {
  const Layout* l = t->layout;
  if (l->device == Device::Meta)
    return raise(PyExc_TypeError, "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
  if (t->requires_grad && tls.grad_mode)
    return raise(PyExc_RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
  if (conj_of(t)) return raise(PyExc_RuntimeError, "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead.");
  if (neg_of(t)) return raise(PyExc_RuntimeError, "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead.");
  PyObject* dtype = numpy_dtype(l->dtype);
  if (!dtype || !materialize(t->storage)) return nullptr;
  PyObject* ndarray = numpy_class("ndarray", &ndarray_class);
  if (!ndarray) return raise(PyExc_RuntimeError, "Numpy is not available");
  int64_t bytes[MAX_DIMS];
  for (int i = 0; i < l->ndim; i++) bytes[i] = byte_stride(l, i);
  StorageBytes* holder = (StorageBytes*)storage_bytes_type->tp_alloc(storage_bytes_type, 0);
  if (!holder) return nullptr;
  holder->storage = t->storage;
  incref(t->storage);
  t->storage->flags |= ST_NORESIZE;
  PyObject* args[5] = {int_tuple(l->shape(), l->ndim), dtype, (PyObject*)holder, PyLong_FromLongLong(l->numel ? t->offset : 0), int_tuple(bytes, l->ndim)};
  PyObject* result = args[0] && args[3] && args[4] ? PyObject_Vectorcall(ndarray, args, 5, nullptr) : nullptr;
  Py_XDECREF(args[0]); Py_XDECREF(args[3]); Py_XDECREF(args[4]); Py_DECREF(holder);
  return result;
}

static PyObject* method_numpy(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"force", nullptr};
  int force = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$p:numpy", (char**)names, &force)) return nullptr;
  if (!has_values((Tensor*)self)) return nullptr;
  if (!force) return array_over((Tensor*)self);
  PyObject* plain = (PyObject*)tensor_alias((Tensor*)self);
  for (const char* step : {"cpu", "resolve_conj", "resolve_neg"}) {
    if (!plain) return nullptr;
    bool needed = step[0] == 'c' ? ((Tensor*)plain)->layout->device != Device::CPU : (conj_of((Tensor*)plain) || neg_of((Tensor*)plain));
    if (!needed) continue;
    PyObject* next = call_method(plain, step);
    Py_DECREF(plain);
    plain = next;
  }
  if (!plain) return nullptr;
  PyObject* result = array_over((Tensor*)plain);
  Py_DECREF(plain);
  return result;
}

// __array__(dtype=None, copy=None): numpy's protocol. A requested copy is made by numpy.
static PyObject* method_array(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"dtype", "copy", nullptr};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", (char**)names, &dtype, &copy)) return nullptr;
  if (!has_values((Tensor*)self)) return nullptr;
  PyObject* array = array_over((Tensor*)self);
  if (!array) return nullptr;
  if (dtype != Py_None) {
    PyObject* astype = PyObject_GetAttrString(array, "astype");
    PyObject* call_args = astype ? PyTuple_Pack(1, dtype) : nullptr;
    PyObject* options = call_args ? Py_BuildValue("{s:O}", "copy", copy == Py_True ? Py_True : Py_False) : nullptr;
    PyObject* converted = options ? PyObject_Call(astype, call_args, options) : nullptr;
    Py_XDECREF(astype); Py_XDECREF(call_args); Py_XDECREF(options);
    bool copied = converted && converted != array;
    Py_DECREF(array);
    if (copied && copy == Py_False) { Py_DECREF(converted); return raise(PyExc_ValueError, "Unable to avoid copy while converting the tensor to the requested dtype"); }
    return converted;
  }
  if (copy != Py_True) return array;
  PyObject* copied = call_method(array, "copy");
  Py_DECREF(array);
  return copied;
}

// ----------------------------------------------------------------------------------------------------- buffer protocol
static int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  Tensor* t = (Tensor*)self;
  const Layout* l = t->layout;
  view->obj = nullptr;
  const char* format = format_of(l->dtype);
  const char* problem = l->device == Device::Meta ? "a meta tensor has no memory to export"
      : t->requires_grad && tls.grad_mode ? "Can't export the buffer of a Tensor that requires grad. Use tensor.detach() instead."
      : l->flags & (L_CONJ | L_NEG) ? "Can't export the buffer of a Tensor that has its conjugate or negative bit set. Use resolve_conj() or resolve_neg()."
      : !format ? "this dtype has no buffer format: view it as an integer type first"
      : !(flags & PyBUF_STRIDES) && !(l->flags & L_CONTIGUOUS) ? "the tensor is not contiguous and the consumer asks for contiguous memory" : nullptr;
  if (problem) { PyErr_SetString(PyExc_BufferError, problem); return -1; }
  if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !(l->flags & L_CONTIGUOUS)) { PyErr_SetString(PyExc_BufferError, "the tensor is not C-contiguous"); return -1; }
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && l->ndim > 1) { PyErr_SetString(PyExc_BufferError, "the tensor is not Fortran-contiguous"); return -1; }
  if (!materialize(t->storage)) return -1;
  Py_ssize_t* numbers = (Py_ssize_t*)PyMem_Malloc(sizeof(Py_ssize_t) * size_t(2 * l->ndim + 1));
  if (!numbers) { PyErr_NoMemory(); return -1; }
  for (int i = 0; i < l->ndim; i++) { numbers[i] = l->shape()[i]; numbers[l->ndim + i] = byte_stride(l, i); }
  t->storage->flags |= ST_NORESIZE;
  view->buf = l->numel ? data_ptr(t) : nothing;
  view->len = l->nbytes;
  view->itemsize = itemsize(l->dtype);
  view->readonly = 0;
  view->ndim = l->ndim;
  view->format = flags & PyBUF_FORMAT ? (char*)format : nullptr;
  view->shape = flags & PyBUF_ND ? numbers : nullptr;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? numbers + l->ndim : nullptr;
  view->suboffsets = nullptr;
  view->internal = numbers;
  view->obj = Py_NewRef(self);
  return 0;
}
static void tensor_releasebuffer(PyObject*, Py_buffer* view) { PyMem_Free(view->internal); }

// frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)
static PyObject* frombuffer(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"buffer", "dtype", "count", "offset", "requires_grad", nullptr};
  PyObject *source, *dtype = nullptr;
  long long count = -1, offset = 0;
  int requires_grad = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OLLp:frombuffer", (char**)names, &source, &dtype, &count, &offset, &requires_grad)) return nullptr;
  if (!dtype) return raise(PyExc_TypeError, "frombuffer() missing 1 required positional arguments: \"dtype\"");
  DType d;
  if (!dtype_from(dtype, &d)) return nullptr;
  if (!PyObject_CheckBuffer(source)) return raise(PyExc_ValueError, "object does not implement Python buffer protocol.");
  Py_buffer* view = new Py_buffer;
  if (PyObject_GetBuffer(source, view, PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    if (PyObject_GetBuffer(source, view, PyBUF_SIMPLE) < 0) { delete view; return nullptr; }
    static bool said = false;
    if (!warn(&said, "The buffer is not writable, and a tensor always is: writing to this one writes to memory that is meant to stay as it is. bytearray(buffer) can be written. Said once.")) {
      PyBuffer_Release(view);
      delete view;
      return nullptr;
    }
  }
  long long length = view->len, size = itemsize(d);
  PyObject* problem = nullptr;
  if (length == 0 || count == 0)
    problem = PyUnicode_FromFormat("both buffer length (%lld) and count (%lld) must not be 0", length, count);
  else if (offset < 0 || offset >= length)
    problem = PyUnicode_FromFormat("offset (%lld bytes) must be non-negative and no greater than buffer length (%lld bytes) minus 1", offset, length);
  else if (count > 0 && (count > (length - offset) / size))
    problem = PyUnicode_FromFormat("requested buffer length (%lld * %lld bytes) after offset (%lld bytes) must not be greater than actual buffer length (%lld bytes)", count, size, offset, length);
  else if (count < 0 && (length - offset) % size)
    problem = PyUnicode_FromFormat("buffer length (%lld bytes) after offset (%lld bytes) must be a multiple of element size (%lld)", length - offset, offset, size);
  if (problem) {
    PyErr_SetObject(PyExc_ValueError, problem);
    Py_DECREF(problem);
    PyBuffer_Release(view);
    delete view;
    return nullptr;
  }
  int64_t elements = count > 0 ? count : (length - offset) / size;
  Tensor* t = tensor_over_buffer(view, d, 1, &elements, nullptr, offset);
  if (t && requires_grad) {
    if (PyObject_SetAttrString((PyObject*)t, "requires_grad", Py_True) < 0) Py_CLEAR(t);
  }
  return (PyObject*)t;
}

// ---------------------------------------------------------------------------------------------------------------- init
static PyMethodDef methods[] = {
    {"item", method_item, METH_NOARGS, "item()\n--\n\nThe value of a tensor of one element, as a Python number."},
    {"tolist", method_tolist, METH_NOARGS, "tolist()\n--\n\nThe values as a nested list of Python numbers; a number for a 0-dim tensor."},
    {"numpy", (PyCFunction)(void*)method_numpy, METH_VARARGS | METH_KEYWORDS, "numpy(*, force=False)\n--\n\nA numpy array over the same memory."},
    {"__array__", (PyCFunction)(void*)method_array, METH_VARARGS | METH_KEYWORDS, "__array__(dtype=None, copy=None)\n--\n\nnumpy's array protocol."},
    {nullptr, nullptr, 0, nullptr}};

static PyMethodDef functions[] = {
    {"from_numpy", from_numpy, METH_O, "from_numpy(ndarray)\n--\n\nA tensor over the memory of a numpy array."},
    {"frombuffer", (PyCFunction)(void*)frombuffer, METH_VARARGS | METH_KEYWORDS,
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\nA 1-D tensor over the memory of an object with the buffer protocol."},
    {nullptr, nullptr, 0, nullptr}};

// Methods of Tensor that live outside tensor.cpp are added to the type after it is made.
bool add_tensor_methods(PyMethodDef* defs) {
  for (PyMethodDef* def = defs; def->ml_name; def++) {
    PyObject* descriptor = PyDescr_NewMethod(TensorType, def);
    if (!descriptor) return false;
    int status = PyObject_SetAttrString((PyObject*)TensorType, def->ml_name, descriptor);
    Py_DECREF(descriptor);
    if (status < 0) return false;
  }
  return true;
}

bool init_interop(PyObject* m) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, (void*)storage_bytes_free}, {Py_bf_getbuffer, (void*)storage_bytes_buffer}, {0, nullptr}};
  static PyType_Spec spec = {"rushlight._C._StorageBytes", sizeof(StorageBytes), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  storage_bytes_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (!storage_bytes_type) return false;
  if (TensorType->tp_as_buffer) {
    TensorType->tp_as_buffer->bf_getbuffer = tensor_getbuffer;
    TensorType->tp_as_buffer->bf_releasebuffer = tensor_releasebuffer;
  } else {
    static PyBufferProcs procs = {tensor_getbuffer, tensor_releasebuffer};
    TensorType->tp_as_buffer = &procs;
  }
  return add_tensor_methods(methods) && PyModule_AddFunctions(m, functions) == 0 && init_dlpack(m) && init_shared(m);
}

}  // namespace rl
