// The small descriptive objects: dtype, device, Size, layout (the name `strided`), memory_format.
// Their texts are torch's ("torch.float32"), because programs print and compare them; their types live in the module `rushlight`.
#include "runtime.h"
#include "compat.h"

namespace rl {

const DTypeInfo DTYPES[] = {
  {"bool", "", 1, 'b'}, {"uint8", "", 1, 'u'}, {"int8", "", 1, 'i'}, {"int16", "short", 2, 'i'}, {"int32", "int", 4, 'i'}, {"int64", "long", 8, 'i'},
  {"float16", "half", 2, 'f'}, {"bfloat16", "", 2, 'f'}, {"float32", "float", 4, 'f'}, {"float64", "double", 8, 'f'},
  {"complex64", "cfloat", 8, 'c'}, {"complex128", "cdouble", 16, 'c'}, {"uint16", "", 2, 'u'}, {"uint32", "", 4, 'u'}, {"uint64", "", 8, 'u'},
  {"float8_e4m3fn", "", 1, 'f'}, {"float8_e5m2", "", 1, 'f'}, {"complex32", "chalf", 4, 'c'},
};
static_assert(sizeof DTYPES / sizeof *DTYPES == (int)DType::Count);

// What torch's messages call each dtype: "Float", "Long" …
static const char* const SCALAR_NAMES[] = {"Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble",
  "UInt16", "UInt32", "UInt64", "Float8_e4m3fn", "Float8_e5m2", "ComplexHalf"};
static_assert(sizeof SCALAR_NAMES / sizeof *SCALAR_NAMES == (int)DType::Count);
const char* dtype_scalar_name(DType d) { return SCALAR_NAMES[(int)d]; }

// And the C++ type that some of them name instead.
static const char* const CPP_NAMES[] = {"bool", "unsigned char", "signed char", "short int", "int", "long int", "c10::Half", "c10::BFloat16", "float", "double",
  "c10::complex<float>", "c10::complex<double>", "short unsigned int", "unsigned int", "long unsigned int", "c10::Float8_e4m3fn", "c10::Float8_e5m2", "c10::complex<c10::Half>"};
const char* dtype_cpp_name(DType d) { return CPP_NAMES[(int)d]; }

DType to_real(DType d) {
  return d == DType::Complex64 ? DType::Float32 : d == DType::Complex128 ? DType::Float64 : d == DType::Complex32 ? DType::Float16 : d;
}
bool to_complex(DType d, DType* out) {
  switch (d) {
    case DType::Float16: *out = DType::Complex32; return true;
    case DType::BFloat16: case DType::Float32: *out = DType::Complex64; return true;
    case DType::Float64: *out = DType::Complex128; return true;
    default: *out = d; return DTYPES[(int)d].kind == 'c';
  }
}

PyTypeObject *DTypeType, *DeviceType, *SizeType, *LayoutNameType, *MemoryFormatType;
DType g_default_dtype = DType::Float32;
uint64_t g_config_epoch = 1;

// One shape for the three kinds of named constant: a code and its text.
struct Named { PyObject_HEAD int code; };
static PyObject* g_dtypes[(int)DType::Count];
static PyObject* g_memory_formats[4];
static PyObject* g_strided;
static const char* const MEMORY_FORMATS[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};

static PyObject* named_new(PyTypeObject* type, int code) {
  Named* o = PyObject_New(Named, type);
  if (o) o->code = code;
  return (PyObject*)o;
}
static void named_free(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  PyObject_Free(o);
  Py_DECREF(type);
}

// ------------------------------------------------------------------------------------------------------------- dtype
static DType code_of(PyObject* o) { return (DType)((Named*)o)->code; }
static PyObject* dtype_repr(PyObject* o) { return PyUnicode_FromFormat("torch.%s", DTYPES[(int)code_of(o)].name); }
static PyObject* dtype_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(DTYPES[(int)code_of(o)].name); }
static PyObject* dtype_same(PyObject* o, PyObject*) { return Py_NewRef(o); }   // copy, deepcopy: there is one of each
static PyObject* dtype_is_floating(PyObject* o, void*) { return PyBool_FromLong(DTYPES[(int)code_of(o)].kind == 'f'); }
static PyObject* dtype_is_complex(PyObject* o, void*) { return PyBool_FromLong(DTYPES[(int)code_of(o)].kind == 'c'); }
static PyObject* dtype_is_signed(PyObject* o, void*) { char k = DTYPES[(int)code_of(o)].kind; return PyBool_FromLong(k != 'u' && k != 'b'); }
static PyObject* dtype_itemsize(PyObject* o, void*) { return PyLong_FromLong(itemsize(code_of(o))); }
static PyObject* dtype_code(PyObject* o, void*) { return PyLong_FromLong((int)code_of(o)); }
static PyObject* dtype_to_real(PyObject* o, PyObject*) { return Py_NewRef(dtype_object(to_real(code_of(o)))); }
static PyObject* dtype_to_complex(PyObject* o, PyObject*) {
  DType d;
  if (!to_complex(code_of(o), &d)) return raise(PyExc_RuntimeError, "Unknown Complex ScalarType for %s", dtype_scalar_name(code_of(o)));
  return Py_NewRef(dtype_object(d));
}
static PyGetSetDef dtype_getset[] = {
  {"is_floating_point", dtype_is_floating, nullptr, "True for float16, bfloat16, float32, float64 and the float8 types", nullptr},
  {"is_complex", dtype_is_complex, nullptr, "True for complex32, complex64 and complex128", nullptr},
  {"is_signed", dtype_is_signed, nullptr, "True when values may be negative", nullptr},
  {"itemsize", dtype_itemsize, nullptr, "bytes of one element", nullptr},
  {"_code", dtype_code, nullptr, "the runtime's number for this dtype", nullptr},
  {nullptr}};
static PyMethodDef dtype_methods[] = {
  {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
  {"__copy__", dtype_same, METH_NOARGS, nullptr},
  {"__deepcopy__", dtype_same, METH_O, nullptr},
  {"to_real", dtype_to_real, METH_NOARGS, "the dtype of the real part"},
  {"to_complex", dtype_to_complex, METH_NOARGS, "the complex dtype whose parts are of this dtype"},
  {nullptr}};

PyObject* dtype_object(DType d) { return g_dtypes[(int)d]; }

bool dtype_from(PyObject* o, DType* out) {
  if (RL_LIKELY(Py_TYPE(o) == DTypeType)) { *out = code_of(o); return true; }
  if (o == (PyObject*)&PyFloat_Type) { *out = DType::Float64; return true; }
  if (o == (PyObject*)&PyBool_Type) { *out = DType::Bool; return true; }
  if (o == (PyObject*)&PyLong_Type) { *out = DType::Int64; return true; }
  if (o == (PyObject*)&PyComplex_Type) { *out = DType::Complex128; return true; }
  raise(PyExc_TypeError, "dtype must be a torch.dtype (or one of bool, int, float, complex), not %s", Py_TYPE(o)->tp_name);
  return false;
}

// ----------------------------------------------------------------------------------------- layout and memory format names
// Only strided tensors are made in C++; the others are Python's (rushlight/sparse), and here just names.
static const char* const LAYOUTS[] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged"};
static PyObject* layout_name_repr(PyObject* o) { return PyUnicode_FromFormat("torch.%s", LAYOUTS[((Named*)o)->code]); }
static PyObject* layout_name_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(LAYOUTS[((Named*)o)->code]); }
static PyObject* memory_format_repr(PyObject* o) { return PyUnicode_FromFormat("torch.%s", MEMORY_FORMATS[((Named*)o)->code]); }
static PyObject* memory_format_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(MEMORY_FORMATS[((Named*)o)->code]); }
static PyMethodDef layout_name_methods[] = {{"__reduce__", layout_name_reduce, METH_NOARGS, nullptr}, {"__copy__", dtype_same, METH_NOARGS, nullptr}, {"__deepcopy__", dtype_same, METH_O, nullptr}, {nullptr}};
static PyMethodDef memory_format_methods[] = {{"__reduce__", memory_format_reduce, METH_NOARGS, nullptr}, {"__copy__", dtype_same, METH_NOARGS, nullptr}, {"__deepcopy__", dtype_same, METH_O, nullptr}, {nullptr}};

PyObject* memory_format_object(MemoryFormat f) { return g_memory_formats[(int)f]; }
bool memory_format_from(PyObject* o, MemoryFormat* out) {
  if (Py_TYPE(o) == MemoryFormatType) { *out = (MemoryFormat)((Named*)o)->code; return true; }
  raise(PyExc_TypeError, "memory_format must be torch.memory_format, not %s", Py_TYPE(o)->tp_name);
  return false;
}
bool layout_name_from(PyObject* o, int* out) {
  if (Py_TYPE(o) == LayoutNameType) { *out = ((Named*)o)->code; return true; }
  raise(PyExc_TypeError, "layout must be torch.layout, not %s", Py_TYPE(o)->tp_name);
  return false;
}
PyObject* strided_object() { return g_strided; }

// ------------------------------------------------------------------------------------------------------------ device
static const char* const DEVICE_TYPES[] = {"cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
  "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"};
const int DEVICE_CPU = 0, DEVICE_CUDA = 1, DEVICE_META = 16, DEVICE_COUNT = sizeof DEVICE_TYPES / sizeof *DEVICE_TYPES;
struct DeviceObject { PyObject_HEAD int type; int index; };     // index -1: none
static PyObject *g_cpu, *g_meta;

static PyObject* device_new(PyTypeObject* type, int kind, int index) {
  DeviceObject* d = (DeviceObject*)type->tp_alloc(type, 0);
  if (!d) return nullptr;
  d->type = kind; d->index = index;
  return (PyObject*)d;
}
static bool device_parse(const char* text, int* kind, int* index) {
  if (!*text) { raise(PyExc_RuntimeError, "Device string must not be empty"); return false; }
  const char* colon = strchr(text, ':');
  size_t length = colon ? (size_t)(colon - text) : strlen(text);
  *index = -1;
  *kind = -1;
  for (int i = 0; i < DEVICE_COUNT; i++)
    if (strlen(DEVICE_TYPES[i]) == length && !strncmp(DEVICE_TYPES[i], text, length)) *kind = i;
  if (colon) {
    const char* p = colon + 1;
    int value = 0;
    bool good = *p && !(p[0] == '0' && p[1]);
    for (; *p && good; p++) { good = *p >= '0' && *p <= '9' && value < 1000; value = value * 10 + (*p - '0'); }
    if (!good) { raise(PyExc_RuntimeError, "Invalid device string: '%s'", text); return false; }
    *index = value;
  }
  if (*kind < 0) {
    std::string names;
    for (int i = 0; i < DEVICE_COUNT; i++) names += std::string(i ? ", " : "") + DEVICE_TYPES[i];
    raise(PyExc_RuntimeError, "Expected one of %s device type at start of device string: %s", names.c_str(), std::string(text, length).c_str());
    return false;
  }
  return true;
}
static PyObject* device_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"type", "index", nullptr};
  PyObject *kind = nullptr, *index = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", (char**)names, &kind, &index)) {
    // torch also names the first parameter `device`
    PyObject* d = kwargs && PyTuple_GET_SIZE(args) == 0 && PyDict_GET_SIZE(kwargs) == 1 ? PyDict_GetItemString(kwargs, "device") : nullptr;
    if (!d) return nullptr;
    PyErr_Clear();
    kind = d;
  }
  if (PyObject_TypeCheck(kind, DeviceType) && index == Py_None) return Py_NewRef(kind);
  if (PyLong_Check(kind)) return raise(PyExc_RuntimeError, "Cannot access accelerator device when none is available.");
  if (!PyUnicode_Check(kind)) return raise(PyExc_TypeError, "device(): argument 'type' must be str, not %s", Py_TYPE(kind)->tp_name);
  const char* text = PyUnicode_AsUTF8(kind);
  if (!text) return nullptr;
  int code, number;
  if (!device_parse(text, &code, &number)) return nullptr;
  if (index != Py_None) {
    if (number >= 0) return raise(PyExc_RuntimeError, "type (string) must not include an index because index was passed explicitly: %s", text);
    long long value = PyLong_AsLongLong(index);
    if (value == -1 && PyErr_Occurred()) return nullptr;
    if (value < 0) return raise(PyExc_RuntimeError, "Device index must not be negative");
    if (value > 127) return raise(PyExc_RuntimeError, "Device index must be at most 127, got %lld", value);
    number = (int)value;
  }
  return device_new(type, code, number);
}
static PyObject* device_str(PyObject* o) {
  DeviceObject* d = (DeviceObject*)o;
  return d->index < 0 ? PyUnicode_FromString(DEVICE_TYPES[d->type]) : PyUnicode_FromFormat("%s:%d", DEVICE_TYPES[d->type], d->index);
}
static PyObject* device_repr(PyObject* o) {
  DeviceObject* d = (DeviceObject*)o;
  return d->index < 0 ? PyUnicode_FromFormat("device(type='%s')", DEVICE_TYPES[d->type]) : PyUnicode_FromFormat("device(type='%s', index=%d)", DEVICE_TYPES[d->type], d->index);
}
static Py_hash_t device_hash(PyObject* o) { return (Py_hash_t)((DeviceObject*)o)->type * 1024 + ((DeviceObject*)o)->index + 1; }
static PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(b, DeviceType)) Py_RETURN_NOTIMPLEMENTED;
  bool same = ((DeviceObject*)a)->type == ((DeviceObject*)b)->type && ((DeviceObject*)a)->index == ((DeviceObject*)b)->index;
  return PyBool_FromLong(same == (op == Py_EQ));
}
static PyObject* device_type_name(PyObject* o, void*) { return PyUnicode_FromString(DEVICE_TYPES[((DeviceObject*)o)->type]); }
static PyObject* device_index(PyObject* o, void*) { int i = ((DeviceObject*)o)->index; return i < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(i); }
static PyObject* device_reduce(PyObject* o, PyObject*) {
  DeviceObject* d = (DeviceObject*)o;
  return d->index < 0 ? Py_BuildValue("O(s)", Py_TYPE(o), DEVICE_TYPES[d->type]) : Py_BuildValue("O(si)", Py_TYPE(o), DEVICE_TYPES[d->type], d->index);
}
static PyGetSetDef device_getset[] = {{"type", device_type_name, nullptr, "'cpu', 'meta' …", nullptr}, {"index", device_index, nullptr, "its number, or None", nullptr}, {nullptr}};
// with torch.device("meta"): factories make their tensors there. The mode that does it is Python's.
static PyObject* device_mode(const char* name, PyObject* device) {
  PyObject* module = PyImport_ImportModule("rushlight.default_device");
  PyObject* out = module ? (device ? PyObject_CallMethod(module, name, "O", device) : PyObject_CallMethod(module, name, nullptr)) : nullptr;
  Py_XDECREF(module);
  return out;
}
static PyObject* device_enter(PyObject* self, PyObject*) { return device_mode("enter", self); }
static PyObject* device_exit(PyObject*, PyObject*) { return device_mode("leave", nullptr); }
static PyMethodDef device_methods[] = {{"__enter__", device_enter, METH_NOARGS, nullptr}, {"__exit__", device_exit, METH_VARARGS, nullptr},
    {"__reduce__", device_reduce, METH_NOARGS, nullptr}, {"__copy__", dtype_same, METH_NOARGS, nullptr}, {"__deepcopy__", dtype_same, METH_O, nullptr}, {nullptr}};

PyObject* device_object(Device d) { return Py_NewRef(d == Device::CPU ? g_cpu : g_meta); }
bool device_from(PyObject* o, Device* out) {
  int kind, index;
  if (PyObject_TypeCheck(o, DeviceType)) { kind = ((DeviceObject*)o)->type; index = ((DeviceObject*)o)->index; }
  else if (PyUnicode_Check(o)) {
    const char* text = PyUnicode_AsUTF8(o);
    if (!text || !device_parse(text, &kind, &index)) return false;
  } else if (PyLong_Check(o) && !PyBool_Check(o)) { raise(PyExc_RuntimeError, "Cannot access accelerator device when none is available."); return false; }
  else { raise(PyExc_TypeError, "device must be a torch.device or str, not %s", Py_TYPE(o)->tp_name); return false; }
  if (kind == DEVICE_CPU) { *out = Device::CPU; return true; }
  if (kind == DEVICE_META) { *out = Device::Meta; return true; }
  if (kind == DEVICE_CUDA) raise(PyExc_AssertionError, "Torch not compiled with CUDA enabled\n  Rushlight has the devices 'cpu' and 'meta'");
  else raise(PyExc_RuntimeError, "PyTorch is not linked with support for %s devices\n  Rushlight has the devices 'cpu' and 'meta'", DEVICE_TYPES[kind]);
  return false;
}

// -------------------------------------------------------------------------------------------------------------- Size
static PyObject* size_from_tuple(PyTypeObject* type, PyObject* t) {     // t is stolen
  if (!t) return nullptr;
  Py_ssize_t n = PyTuple_GET_SIZE(t);
  PyObject* r = tuple_alloc(type, n);
  for (Py_ssize_t i = 0; r && i < n; i++) PyTuple_SET_ITEM(r, i, Py_NewRef(PyTuple_GET_ITEM(t, i)));
  Py_DECREF(t);
  return r;
}
static PyObject* size_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  if (kwargs && PyDict_GET_SIZE(kwargs)) return raise(PyExc_TypeError, "torch.Size() takes no keyword arguments");
  PyObject* t = PyObject_CallObject((PyObject*)&PyTuple_Type, args);       // the caller's own if that is a tuple: only read
  PyObject* r = t ? tuple_alloc(type, PyTuple_GET_SIZE(t)) : nullptr;
  for (Py_ssize_t i = 0; r && i < PyTuple_GET_SIZE(t); i++) {
    PyObject* item = PyTuple_GET_ITEM(t, i);
    PyObject* number = PyLong_Check(item) ? Py_NewRef(item) : PyIndex_Check(item) ? PyNumber_Index(item) : nullptr;
    if (number) { PyTuple_SET_ITEM(r, i, number); continue; }
    PyErr_Clear();
    raise(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i, Py_TYPE(item)->tp_name);
    Py_CLEAR(r);
  }
  Py_XDECREF(t);
  return r;
}
static PyObject* size_repr(PyObject* o) {
  PyObject* list = PySequence_List(o);
  if (!list) return nullptr;
  PyObject* r = PyUnicode_FromFormat("torch.Size(%R)", list);
  Py_DECREF(list);
  return r;
}
static PyObject* size_numel(PyObject* o, PyObject*) {
  int64_t n = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++) {
    int64_t v = PyLong_AsLongLong(PyTuple_GET_ITEM(o, i));
    if (v == -1 && PyErr_Occurred()) return nullptr;
    n *= v;
  }
  return PyLong_FromLongLong(n);
}
static PyObject* size_reduce(PyObject* o, PyObject*) {
  PyObject* t = PyTuple_GetSlice(o, 0, PyTuple_GET_SIZE(o));     // an exact tuple: a full slice of a subclass instance is copied
  return t ? Py_BuildValue("O(N)", SizeType, t) : nullptr;
}
static PyObject* size_subscript(PyObject* o, PyObject* key) {
  PyObject* r = PyTuple_Type.tp_as_mapping->mp_subscript(o, key);
  if (r && PySlice_Check(key)) {
    PyObject* t = PyTuple_CheckExact(r) ? r : PySequence_Tuple(r);
    if (t != r) Py_DECREF(r);
    return size_from_tuple(SizeType, t);
  }
  return r;
}
static PyObject* size_add(PyObject* a, PyObject* b) {         // nb_add, so that tuple + Size is a Size too
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) {
    if (PyTuple_Check(a)) return raise(PyExc_TypeError, "can only concatenate tuple (not %s) to torch.Size", Py_TYPE(b)->tp_name);
    Py_RETURN_NOTIMPLEMENTED;
  }
  Py_ssize_t n = PyTuple_GET_SIZE(a), m = PyTuple_GET_SIZE(b);
  for (Py_ssize_t i = 0; i < n + m; i++) {
    PyObject* item = i < n ? PyTuple_GET_ITEM(a, i) : PyTuple_GET_ITEM(b, i - n);
    if (!PyLong_Check(item)) return raise(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i, Py_TYPE(item)->tp_name);
  }
  PyObject* r = tuple_alloc(SizeType, n + m);
  for (Py_ssize_t i = 0; r && i < n + m; i++) PyTuple_SET_ITEM(r, i, Py_NewRef(i < n ? PyTuple_GET_ITEM(a, i) : PyTuple_GET_ITEM(b, i - n)));
  return r;
}
static PyObject* size_repeat(PyObject* o, Py_ssize_t n) {
  PyObject* r = PyTuple_Type.tp_as_sequence->sq_repeat(o, n);
  if (!r) return nullptr;
  PyObject* t = PySequence_Tuple(r);
  Py_DECREF(r);
  return size_from_tuple(SizeType, t);
}
static PyMethodDef size_methods[] = {
  {"numel", size_numel, METH_NOARGS, "numel() -> int\n\nThe number of elements of a tensor of this size."},
  {"__reduce__", size_reduce, METH_NOARGS, nullptr},
  {nullptr}};

PyObject* size_object(const int64_t* shape, int n) {
  PyObject* r = tuple_alloc(SizeType, n);
  for (int i = 0; r && i < n; i++) {
    PyObject* v = PyLong_FromLongLong(shape[i]);
    if (!v) { Py_DECREF(r); return nullptr; }
    PyTuple_SET_ITEM(r, i, v);
  }
  return r;
}

// ------------------------------------------------------------------------------------------------------------- module
static PyType_Slot dtype_slots[] = {{Py_tp_repr, (void*)dtype_repr}, {Py_tp_getset, dtype_getset}, {Py_tp_methods, dtype_methods}, {Py_tp_dealloc, (void*)named_free}, {0, nullptr}};
static PyType_Spec dtype_spec = {"rushlight.dtype", sizeof(Named), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};
static PyType_Slot layout_name_slots[] = {{Py_tp_repr, (void*)layout_name_repr}, {Py_tp_methods, layout_name_methods}, {Py_tp_dealloc, (void*)named_free}, {0, nullptr}};
static PyType_Spec layout_name_spec = {"rushlight.layout", sizeof(Named), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, layout_name_slots};
static PyType_Slot memory_format_slots[] = {{Py_tp_repr, (void*)memory_format_repr}, {Py_tp_methods, memory_format_methods}, {Py_tp_dealloc, (void*)named_free}, {0, nullptr}};
static PyType_Spec memory_format_spec = {"rushlight.memory_format", sizeof(Named), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_format_slots};
static PyType_Slot device_slots[] = {{Py_tp_new, (void*)device_tp_new}, {Py_tp_repr, (void*)device_repr}, {Py_tp_str, (void*)device_str}, {Py_tp_hash, (void*)device_hash},
  {Py_tp_richcompare, (void*)device_compare}, {Py_tp_getset, device_getset}, {Py_tp_methods, device_methods}, {0, nullptr}};
// Not BASETYPE, as torch's; instances are shared and immutable. Python may attach __enter__ and __exit__ to the type.
static PyType_Spec device_spec = {"rushlight.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT, device_slots};
static PyType_Slot size_slots[] = {{Py_tp_new, (void*)size_tp_new}, {Py_tp_repr, (void*)size_repr}, {Py_mp_subscript, (void*)size_subscript}, {Py_nb_add, (void*)size_add},
  {Py_sq_repeat, (void*)size_repeat}, {Py_tp_methods, size_methods}, {0, nullptr}};
static PyType_Spec size_spec = {"rushlight.Size", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_TUPLE_SUBCLASS, size_slots};

static PyObject* get_default_dtype(PyObject*, PyObject*) { return Py_NewRef(dtype_object(g_default_dtype)); }
static PyObject* set_default_dtype(PyObject*, PyObject* o) {
  DType d;
  if (Py_TYPE(o) != DTypeType) return raise(PyExc_TypeError, "invalid dtype object: only floating-point types are supported as the default type");
  if (!dtype_from(o, &d)) return nullptr;
  if (DTYPES[(int)d].kind != 'f' || itemsize(d) < 2) return raise(PyExc_TypeError, "only floating-point types are supported as the default type");
  if (d != g_default_dtype) { g_default_dtype = d; ++g_config_epoch; }
  Py_RETURN_NONE;
}
static PyObject* dtype_from_code(PyObject*, PyObject* o) {
  auto code = PyLong_AsLongLong(o);
  if (code == -1 && PyErr_Occurred()) return nullptr;
  if (code < 0 || code >= (int)DType::Count) return raise(PyExc_ValueError, "no dtype has the code %lld", code);
  return Py_NewRef(dtype_object((DType)code));
}
static PyObject* bump_config_epoch(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(++g_config_epoch); }
static PyMethodDef module_methods[] = {
  {"get_default_dtype", get_default_dtype, METH_NOARGS, "get_default_dtype() -> dtype\n\nThe dtype that float literals and factories give."},
  {"set_default_dtype", set_default_dtype, METH_O, "set_default_dtype(d)\n\nMake a floating-point dtype the default one."},
  {"dtype_from_code", dtype_from_code, METH_O, "the dtype object of a runtime code"},
  {"bump_config_epoch", bump_config_epoch, METH_NOARGS, "forget nothing, but stop finding plans made under the old configuration"},
  {nullptr}};

bool init_dtype(PyObject* m) {
  PyObject* tuple_base = PyTuple_Pack(1, &PyTuple_Type);
  DTypeType = (PyTypeObject*)PyType_FromSpec(&dtype_spec);
  LayoutNameType = (PyTypeObject*)PyType_FromSpec(&layout_name_spec);
  MemoryFormatType = (PyTypeObject*)PyType_FromSpec(&memory_format_spec);
  DeviceType = (PyTypeObject*)PyType_FromSpec(&device_spec);
  SizeType = tuple_base ? (PyTypeObject*)PyType_FromSpecWithBases(&size_spec, tuple_base) : nullptr;
  Py_XDECREF(tuple_base);
  if (!DTypeType || !LayoutNameType || !MemoryFormatType || !DeviceType || !SizeType) return false;
  for (int i = 0; i < (int)DType::Count; i++) {
    if (!(g_dtypes[i] = named_new(DTypeType, i)) || PyModule_AddObjectRef(m, DTYPES[i].name, g_dtypes[i]) < 0) return false;
    if (*DTYPES[i].alias && PyModule_AddObjectRef(m, DTYPES[i].alias, g_dtypes[i]) < 0) return false;
  }
  for (int i = 0; i < 4; i++)
    if (!(g_memory_formats[i] = named_new(MemoryFormatType, i)) || PyModule_AddObjectRef(m, MEMORY_FORMATS[i], g_memory_formats[i]) < 0) return false;
  for (int i = 0; i < (int)(sizeof LAYOUTS / sizeof *LAYOUTS); i++) {
    PyObject* layout = named_new(LayoutNameType, i);
    if (!layout || PyModule_AddObjectRef(m, LAYOUTS[i], layout) < 0) return false;
    if (i == 0) g_strided = layout; else Py_DECREF(layout);
  }
  if (!(g_cpu = device_new(DeviceType, DEVICE_CPU, -1)) || !(g_meta = device_new(DeviceType, DEVICE_META, -1))) return false;
  return PyModule_AddFunctions(m, module_methods) == 0 && PyModule_AddType(m, DTypeType) == 0 && PyModule_AddType(m, LayoutNameType) == 0 &&
         PyModule_AddType(m, MemoryFormatType) == 0 && PyModule_AddType(m, DeviceType) == 0 && PyModule_AddType(m, SizeType) == 0;
}

}  // namespace rl
