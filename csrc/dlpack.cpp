// DLPack: memory exchanged with other array libraries, without copies. Both capsule forms: the old "dltensor" and, for a consumer or producer that
// speaks version 1, "dltensor_versioned". The structures below are DLPack's published ABI.
#include "element.h"

namespace rl {

bool add_tensor_methods(PyMethodDef* defs);     // interop.cpp

struct DLDevice { int32_t device_type, device_id; };
struct DLDataType { uint8_t code, bits; uint16_t lanes; };
struct DLTensor { void* data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t* shape; int64_t* strides; uint64_t byte_offset; };
struct DLManagedTensor { DLTensor dl_tensor; void* manager_ctx; void (*deleter)(DLManagedTensor*); };
struct DLPackVersion { uint32_t major, minor; };
struct DLManagedTensorVersioned { DLPackVersion version; void* manager_ctx; void (*deleter)(DLManagedTensorVersioned*); uint64_t flags; DLTensor dl_tensor; };
enum : uint64_t { DL_READ_ONLY = 1, DL_IS_COPIED = 2 };
enum : int32_t { DL_CPU = 1, DL_CUDA_HOST = 3, DL_ROCM_HOST = 11, DL_CUDA_MANAGED = 13 };
enum : uint8_t { DL_INT, DL_UINT, DL_FLOAT, DL_HANDLE, DL_BFLOAT, DL_COMPLEX, DL_BOOL, DL_FLOAT8_E4M3FN = 10, DL_FLOAT8_E5M2 = 12 };

static DLDataType dl_dtype(DType d) {
  uint8_t bits = uint8_t(itemsize(d) * 8);
  switch (DTYPES[(int)d].kind) {
    case 'b': return {DL_BOOL, 8, 1};
    case 'u': return {DL_UINT, bits, 1};
    case 'i': return {DL_INT, bits, 1};
    case 'c': return {DL_COMPLEX, bits, 1};
    default: return {uint8_t(d == DType::BFloat16 ? DL_BFLOAT : d == DType::Float8E4M3 ? DL_FLOAT8_E4M3FN : d == DType::Float8E5M2 ? DL_FLOAT8_E5M2 : DL_FLOAT), bits, 1};
  }
}

static bool dtype_from_dl(DLDataType t, DType* out) {
  if (t.lanes != 1) { raise(PyExc_RuntimeError, "ATen does not support lanes != 1"); return false; }
  for (int i = 0; i < (int)DType::Count; i++) {
    DLDataType ours = dl_dtype((DType)i);
    if (ours.code == t.code && ours.bits == t.bits) { *out = (DType)i; return true; }
  }
  raise(PyExc_RuntimeError, "Unsupported DLPack type: code %d, %d bits", int(t.code), int(t.bits));
  return false;
}

// ------------------------------------------------------------------------------------------------------------ exporting
// One allocation for both forms: the managed tensor, then shape and strides. The storage is what is kept alive.
template <class Managed> static void delete_managed(Managed* m) {
  PyGILState_STATE gil = PyGILState_Ensure();      // consumers may call this from any thread
  decref((Storage*)m->manager_ctx);
  PyGILState_Release(gil);
  PyMem_RawFree(m);
}

template <class Managed> static void free_unused_capsule(PyObject* capsule) {
  const char* name = PyCapsule_GetName(capsule);
  if (!name || std::strncmp(name, "used_", 5) == 0) return;      // consumed: the consumer calls the deleter
  Managed* m = (Managed*)PyCapsule_GetPointer(capsule, name);
  if (m && m->deleter) m->deleter(m);
}

template <class Managed> static Managed* make_managed(Tensor* t) {
  const Layout* l = t->layout;
  Managed* m = (Managed*)PyMem_RawCalloc(1, sizeof(Managed) + sizeof(int64_t) * size_t(2 * l->ndim));
  if (!m) { PyErr_NoMemory(); return nullptr; }
  int64_t* numbers = (int64_t*)(m + 1);
  for (int i = 0; i < l->ndim; i++) {
    numbers[i] = l->shape()[i];
    numbers[l->ndim + i] = l->shape()[i] < 2 ? 1 : l->strides()[i];      // strides that no index uses are made the plainest
  }
  m->dl_tensor = {data_ptr(t), {DL_CPU, 0}, l->ndim, dl_dtype(l->dtype), numbers, numbers + l->ndim, 0};
  if (!l->numel) m->dl_tensor.data = nullptr;
  m->manager_ctx = t->storage;
  m->deleter = delete_managed<Managed>;
  incref(t->storage);
  t->storage->flags |= ST_NORESIZE;
  return m;
}

static PyObject* export_capsule(Tensor* t, bool versioned, bool copied) {
  const Layout* l = t->layout;
  if (l->device != Device::CPU) return raise(PyExc_BufferError, "Can't export a meta tensor: it has no data");
  if (t->requires_grad) return raise(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
  if (l->flags & L_CONJ) return raise(PyExc_BufferError, "Can't export tensors with the conjugate bit set");
  if (l->flags & L_NEG) return raise(PyExc_BufferError, "Can't export tensors with the negative bit set; use resolve_neg()");
  if (!materialize(t->storage)) return nullptr;
  PyObject* capsule;
  if (versioned) {
    auto* m = make_managed<DLManagedTensorVersioned>(t);
    if (!m) return nullptr;
    m->version = {1, 0};
    m->flags = copied ? DL_IS_COPIED : 0;
    capsule = PyCapsule_New(m, "dltensor_versioned", free_unused_capsule<DLManagedTensorVersioned>);
    if (!capsule) m->deleter(m);
  } else {
    auto* m = make_managed<DLManagedTensor>(t);
    if (!m) return nullptr;
    capsule = PyCapsule_New(m, "dltensor", free_unused_capsule<DLManagedTensor>);
    if (!capsule) m->deleter(m);
  }
  return capsule;
}

static PyObject* method_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *max_version = Py_None, *dl_device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", (char**)names, &stream, &max_version, &dl_device, &copy)) return nullptr;
  if (stream != Py_None) {
    bool none_needed = PyLong_Check(stream) && PyLong_AsLongLong(stream) == -1;      // -1 asks for no synchronisation: fine anywhere
    if (PyErr_Occurred()) return nullptr;
    if (!none_needed) return raise(PyExc_AssertionError, "stream should be None on cpu.");
  }
  bool versioned = false;
  if (max_version != Py_None) {
    PyObject* major = PySequence_GetItem(max_version, 0);
    if (!major) return nullptr;
    int64_t number = PyLong_AsLongLong(major);
    Py_DECREF(major);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    versioned = number >= 1;
  }
  if (dl_device != Py_None) {
    int type, id;
    if (!PyArg_ParseTuple(dl_device, "ii", &type, &id)) return nullptr;
    if (type != DL_CPU) return raise(PyExc_BufferError, "cannot move a CPU tensor to DLPack device type %d", type);
  }
  if (copy != Py_True) return export_capsule((Tensor*)self, versioned, false);
  if (((Tensor*)self)->requires_grad) return raise(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
  Tensor* copied = tensor_copy_to((Tensor*)self, ((Tensor*)self)->layout->dtype, Device::CPU);
  if (!copied) return nullptr;
  PyObject* capsule = export_capsule(copied, versioned, true);
  Py_DECREF(copied);
  return capsule;
}

static PyObject* method_dlpack_device(PyObject* self, PyObject*) {
  if (((Tensor*)self)->layout->device != Device::CPU) return raise(PyExc_ValueError, "Unknown device type meta for Dlpack");
  return Py_BuildValue("(ii)", int(DL_CPU), 0);
}

static PyObject* to_dlpack(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return raise(PyExc_TypeError, "to_dlpack(): argument must be Tensor, not %s", Py_TYPE(tensor)->tp_name);
  return export_capsule((Tensor*)tensor, false, false);
}

// ------------------------------------------------------------------------------------------------------------ importing
template <class Managed> static void release_managed(Storage* s) {
  Managed* m = (Managed*)s->owner;
  if (m->deleter) m->deleter(m);
}

template <class Managed> static Tensor* import_managed(Managed* m) {       // takes the managed tensor over only on success
  const DLTensor& dl = m->dl_tensor;
  if (dl.device.device_type != DL_CPU && dl.device.device_type != DL_CUDA_HOST && dl.device.device_type != DL_ROCM_HOST && dl.device.device_type != DL_CUDA_MANAGED) {
    raise(PyExc_RuntimeError, "Unsupported device_type: %d", int(dl.device.device_type));
    return nullptr;
  }
  DType d;
  if (!dtype_from_dl(dl.dtype, &d)) return nullptr;
  if (dl.ndim < 0 || dl.ndim > MAX_DIMS) { raise(PyExc_RuntimeError, "a DLPack tensor of %d dimensions: at most 64 are supported", int(dl.ndim)); return nullptr; }
  for (int i = 0; dl.strides && i < dl.ndim; i++)
    if (dl.strides[i] < 0 && dl.shape[i] > 1) { raise(PyExc_ValueError, "a DLPack tensor with negative strides (dimension %d: %lld); tensors with negative strides are not supported, copy it first", i, (long long)dl.strides[i]); return nullptr; }
  int64_t strides[MAX_DIMS];
  for (int i = 0; dl.strides && i < dl.ndim; i++) strides[i] = dl.strides[i] < 0 ? 1 : dl.strides[i];
  Layout* layout = layout_intern(d, Device::CPU, dl.ndim, dl.shape, dl.strides ? strides : nullptr);
  if (!layout) return nullptr;
  int64_t nbytes = layout_extent(layout) * itemsize(d);
  Storage* storage = storage_external((char*)dl.data + (dl.data ? dl.byte_offset : 0), nbytes, release_managed<Managed>, m);
  if (!storage) { decref(layout); return nullptr; }
  storage->flags |= ST_EXTERNAL | ST_NORESIZE;
  return tensor_wrap(layout, storage, 0);
}

static Tensor* import_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* m = (DLManagedTensorVersioned*)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (m->version.major > 1) { raise(PyExc_BufferError, "DLPack version %u.%u is not supported: at most version 1", m->version.major, m->version.minor); return nullptr; }
    Tensor* t = import_managed(m);
    if (t && PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0) Py_CLEAR(t);
    return t;
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    Tensor* t = import_managed((DLManagedTensor*)PyCapsule_GetPointer(capsule, "dltensor"));
    if (t && PyCapsule_SetName(capsule, "used_dltensor") < 0) Py_CLEAR(t);
    return t;
  }
  raise(PyExc_RuntimeError, "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have already constructed a tensor from it once.");
  return nullptr;
}

// from_dlpack(ext_tensor, *, device=None, copy=None): an object with __dlpack__, or a capsule.
static PyObject* from_dlpack(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"ext_tensor", "device", "copy", nullptr};
  PyObject *source, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:from_dlpack", (char**)names, &source, &device, &copy)) return nullptr;
  Device target = Device::CPU;
  if (device != Py_None && !device_from(device, &target)) return nullptr;
  if (target != Device::CPU) return raise(PyExc_RuntimeError, "from_dlpack: only the cpu device can be a target");
  PyObject* protocol = PyObject_GetAttrString(source, "__dlpack__");
  if (!protocol) {
    PyErr_Clear();
    return (PyObject*)import_capsule(source);
  }
  PyObject* options = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
  PyObject* empty = PyTuple_New(0);
  if (options && copy != Py_None && PyDict_SetItemString(options, "copy", copy) < 0) Py_CLEAR(options);
  PyObject* capsule = options && empty ? PyObject_Call(protocol, empty, options) : nullptr;
  if (!capsule && empty && PyErr_ExceptionMatches(PyExc_TypeError)) {      // a producer from before version 1
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(protocol);
  }
  Py_XDECREF(options); Py_XDECREF(empty); Py_DECREF(protocol);
  if (!capsule) return nullptr;
  Tensor* t = import_capsule(capsule);
  Py_DECREF(capsule);
  return (PyObject*)t;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void*)method_dlpack, METH_VARARGS | METH_KEYWORDS, "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule over this tensor's memory."},
    {"__dlpack_device__", method_dlpack_device, METH_NOARGS, "__dlpack_device__()\n--\n\nThe DLPack (device type, device id)."},
    {nullptr, nullptr, 0, nullptr}};
static PyMethodDef functions[] = {
    {"from_dlpack", (PyCFunction)(void*)from_dlpack, METH_VARARGS | METH_KEYWORDS, "from_dlpack(ext_tensor, *, device=None, copy=None)\n--\n\nA tensor over the memory of another library's array."},
    {"to_dlpack", to_dlpack, METH_O, "to_dlpack(tensor)\n--\n\nA DLPack capsule over a tensor's memory."},
    {nullptr, nullptr, 0, nullptr}};

bool init_dlpack(PyObject* m) { return add_tensor_methods(methods) && PyModule_AddFunctions(m, functions) == 0; }

}  // namespace rl
