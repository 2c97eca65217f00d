// Tensors in shared memory: share_memory_(), and what another process needs to see the same bytes.
//
// A shared storage is a mapping of an unnamed memory object; processes exchange its file descriptor (multiprocessing/reductions.py), so nothing is left
// behind when they die, however they die. A forked child sees the mapping without any of this.
#include "element.h"
#include "platform.h"
#include <unordered_map>

namespace rl {

bool add_tensor_methods(PyMethodDef* defs);     // interop.cpp

struct Mapping { int fd; void* data; int64_t bytes; };
static std::unordered_map<Storage*, Mapping*>& mappings() { static std::unordered_map<Storage*, Mapping*> m; return m; }

static void mapping_drop(Mapping* m) {
  platform::shared_unmap(m->data, (size_t)m->bytes);
  platform::handle_close(m->fd);
  delete m;
}

static void release_mapping(Storage* s) {
  Mapping* m = (Mapping*)s->owner;
  mappings().erase(s);
  mapping_drop(m);
}

static Mapping* failed(const char* what, int64_t bytes) {
  raise(PyExc_RuntimeError, "unable to %s shared memory of %lld bytes: %s", what, (long long)bytes, std::strerror(errno));
  return nullptr;
}

// Takes the descriptor over, also on failure.
static Mapping* mapping_new(int fd, int64_t bytes) {
  void* data = platform::shared_map(fd, (size_t)bytes);
  if (!data) {
    failed("map", bytes);
    platform::handle_close(fd);
    return nullptr;
  }
  return new Mapping{fd, data, bytes};
}

static Mapping* mapping_fresh(int64_t bytes) {
  long long room;
  int fd = platform::shared_new((size_t)bytes, &room);
  if (fd >= 0) return mapping_new(fd, bytes);
  if (room < 0) return failed("make", bytes);
  bool of_files = errno == ENOSPC;
  raise(PyExc_RuntimeError, "unable to make shared memory of %lld bytes: %s has %lld bytes left; smaller batches, fewer workers or a smaller prefetch_factor need less%s",
        (long long)bytes, of_files ? "/dev/shm" : "this machine", room, of_files ? ", and a container's /dev/shm can be made larger (docker run --shm-size)" : "");
  return nullptr;
}

static bool share_storage(Storage* s) {
  if (s->flags & ST_SHARED) return true;
  if ((Device)s->device == Device::Meta) { raise(PyExc_RuntimeError, "share_memory_: a meta tensor has no memory to share"); return false; }
  if (!materialize(s)) return false;
  int64_t bytes = s->nbytes > 0 ? s->nbytes : 1;      // a mapping cannot be empty
  Mapping* m = mapping_fresh(bytes);
  if (!m) return false;
  if (s->data && s->nbytes) std::memcpy(m->data, s->data, (size_t)s->nbytes);
  if (!storage_move(s, m->data, s->nbytes, release_mapping, m)) {
    mapping_drop(m);
    return false;
  }
  s->flags |= ST_SHARED;
  mappings()[s] = m;
  return true;
}

static PyObject* tensor_share_memory(PyObject* self, PyObject*) { return share_storage(((Tensor*)self)->storage) ? Py_NewRef(self) : nullptr; }
static PyObject* tensor_is_shared(PyObject* self, PyObject*) { return PyBool_FromLong(((Tensor*)self)->storage->flags & ST_SHARED); }

static PyObject* storage_share_memory(PyObject* self, PyObject*) {
  Storage* s = storage_of(self);
  return s && share_storage(s) ? Py_NewRef(self) : nullptr;
}

// _share_fd_cpu_() -> (file descriptor, bytes): what is sent to another process. The descriptor stays the storage's: who keeps it duplicates it.
static PyObject* storage_share_fd(PyObject* self, PyObject*) {
  Storage* s = storage_of(self);
  if (!s || !share_storage(s)) return nullptr;
  auto found = mappings().find(s);
  if (found == mappings().end()) return raise(PyExc_RuntimeError, "this storage is shared, but not by a file descriptor");
  return Py_BuildValue("(iL)", found->second->fd, (long long)s->nbytes);
}

// A storage object over a mapping, which it takes over; null passes through.
static PyObject* storage_over(Mapping* m, int64_t nbytes) {
  if (!m) return nullptr;
  Storage* s = storage_external(m->data, nbytes, release_mapping, m);
  if (!s) { mapping_drop(m); return nullptr; }
  s->flags |= ST_SHARED | ST_EXTERNAL;
  mappings()[s] = m;
  PyObject* object = storage_object(s);
  decref(s);
  return object;
}

// _storage_from_fd(fd, nbytes) -> UntypedStorage over the memory behind a received descriptor, which is taken over.
static PyObject* storage_from_fd(PyObject*, PyObject* args) {
  int fd;
  long long nbytes;
  if (!PyArg_ParseTuple(args, "iL:_storage_from_fd", &fd, &nbytes)) return nullptr;
  long long there = platform::shared_size(fd);
  if (nbytes < 0 || there < nbytes || there < 1) {
    platform::handle_close(fd);
    return raise(PyExc_RuntimeError, "the shared memory holds %lld bytes, %lld were announced", there, nbytes);
  }
  return storage_over(mapping_new(fd, nbytes > 0 ? nbytes : 1), nbytes);
}

// _new_shared_storage(nbytes) -> UntypedStorage of fresh shared memory, all zero.
static PyObject* new_shared_storage(PyObject*, PyObject* args) {
  long long nbytes;
  if (!PyArg_ParseTuple(args, "L:_new_shared_storage", &nbytes)) return nullptr;
  if (nbytes < 0) return raise(PyExc_RuntimeError, "shared memory of %lld bytes", nbytes);
  return storage_over(mapping_fresh(nbytes > 0 ? nbytes : 1), nbytes);
}

static PyMethodDef tensor_methods[] = {
    {"share_memory_", tensor_share_memory, METH_NOARGS, "share_memory_()\n--\n\nMove the storage to shared memory, where other processes see it. Returns the tensor."},
    {"is_shared", tensor_is_shared, METH_NOARGS, "is_shared()\n--\n\nTrue when the storage is in shared memory."},
    {nullptr, nullptr, 0, nullptr}};
static PyMethodDef storage_methods[] = {
    {"share_memory_", storage_share_memory, METH_NOARGS, "share_memory_()\n--\n\nMove the bytes to shared memory. Returns the storage."},
    {"_share_fd_cpu_", storage_share_fd, METH_NOARGS, "_share_fd_cpu_()\n--\n\n(file descriptor, bytes) of the shared memory."},
    {nullptr, nullptr, 0, nullptr}};
static PyMethodDef functions[] = {{"_storage_from_fd", storage_from_fd, METH_VARARGS, "_storage_from_fd(fd, nbytes)\n--\n\nThe storage behind a file descriptor."},
    {"_new_shared_storage", new_shared_storage, METH_VARARGS, "_new_shared_storage(nbytes)\n--\n\nA storage of fresh shared memory."}, {nullptr, nullptr, 0, nullptr}};

bool init_shared(PyObject* m) {
  for (PyMethodDef* def = storage_methods; def->ml_name; def++) {
    PyObject* descriptor = PyDescr_NewMethod(UntypedStorageType, def);
    if (!descriptor || PyObject_SetAttrString((PyObject*)UntypedStorageType, def->ml_name, descriptor) < 0) { Py_XDECREF(descriptor); return false; }
    Py_DECREF(descriptor);
  }
  return add_tensor_methods(tensor_methods) && PyModule_AddFunctions(m, functions) == 0;
}

}  // namespace rl
