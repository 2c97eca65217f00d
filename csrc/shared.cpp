// Tensors in shared memory: share_memory_(), and what another process needs to see the same bytes.
//
// A shared storage is a mapping of an unnamed memory object; processes exchange its file descriptor (multiprocessing/reductions.py), so nothing is left
// behind when they die, however they die. A forked child sees the mapping without any of this.
#include "compat.h"
#include "element.h"
#include "platform.h"
#include <atomic>
#include <unordered_map>

namespace rl {

bool add_tensor_methods(PyMethodDef* defs);     // interop.cpp

// Fresh shared memory is dear: the system clears every page and enters it in a table when it is first touched, which for a batch of images costs more than
// sending it. So memory can be lent: who made it keeps it, a word behind the data says where it is, and the receiver, when its storage dies, gives it
// back by that word, for the next batch. The receiver must be the only other one who sees it: memory whose descriptor was handed on, or that a fork has seen, is
// not given back; nor is memory that was sent twice. Then the maker simply never gets it again, and lets go of it.
enum Lent : int64_t { HOME = 0, AWAY = 1, BACK = 2 };

struct Mapping {
  int fd;
  void* data;
  int64_t bytes;
  std::atomic<int64_t>* word = nullptr;      // in the shared memory itself; null: not lent
  bool borrowed = false, seen_by_others = false;
  int64_t forks = 0;                         // how often this process had forked when it was made
};
static int64_t forks = 0;
static int64_t word_place(int64_t nbytes) { return (nbytes + 63) / 64 * 64; }
static int64_t bytes_with_word(int64_t nbytes) { return word_place(nbytes) + 64; }
static void attach_word(Mapping* m, int64_t nbytes, bool borrowed) {
  static_assert(std::atomic<int64_t>::is_always_lock_free, "the word is shared between processes");
  static bool counted = false;
  if (!counted) { counted = true; platform::before_fork([] { forks++; }); }
  m->word = reinterpret_cast<std::atomic<int64_t>*>((char*)m->data + word_place(nbytes));
  m->borrowed = borrowed;
  m->forks = forks;
}

static std::unordered_map<Storage*, Mapping*>& mappings() { static std::unordered_map<Storage*, Mapping*> m; return m; }

static void mapping_drop(Mapping* m) {
  if (m->borrowed && !m->seen_by_others && m->forks == forks) m->word->store(BACK, std::memory_order_release);
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
  Mapping* m = new Mapping;
  m->fd = fd, m->data = data, m->bytes = bytes;
  return m;
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

// The mapping of a storage, which is shared by this if it was not. Null: an error.
static Mapping* shared_mapping(Storage* s) {
  if (!s || !share_storage(s)) return nullptr;
  auto found = mappings().find(s);
  if (found != mappings().end()) return found->second;
  raise(PyExc_RuntimeError, "this storage is shared, but not by a file descriptor");
  return nullptr;
}

// _share_fd_cpu_() -> (file descriptor, bytes): what is sent to another process. The descriptor stays the storage's: who keeps it duplicates it.
static PyObject* storage_share_fd(PyObject* self, PyObject*) {
  Storage* s = storage_of(self);
  Mapping* m = shared_mapping(s);
  if (!m) return nullptr;
  m->seen_by_others = true;
  return Py_BuildValue("(iL)", m->fd, (long long)s->nbytes);
}

// _lend(storage) -> (file descriptor, bytes, whether the receiver gives it back): as _share_fd_cpu_, for a receiver that takes it with _storage_from_fd.
static PyObject* lend(PyObject*, PyObject* object) {
  if (!PyObject_TypeCheck(object, UntypedStorageType)) return raise(PyExc_TypeError, "_lend takes a storage");
  Storage* s = storage_of(object);
  Mapping* m = shared_mapping(s);
  if (!m) return nullptr;
  bool lent = m->word && !m->borrowed && !m->seen_by_others && m->forks == forks && m->word->load(std::memory_order_acquire) == HOME;
  if (lent) m->word->store(AWAY, std::memory_order_release);
  else m->seen_by_others = true;
  return Py_BuildValue("(iLO)", m->fd, (long long)s->nbytes, lent ? Py_True : Py_False);
}

// _take_back(list of storages) -> the first that came back and that nobody here holds except the list, or None. It stays in the list.
static PyObject* take_back(PyObject*, PyObject* list) {
  if (!PyList_Check(list)) return raise(PyExc_TypeError, "_take_back takes a list");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    PyObject* object = PyList_GET_ITEM(list, i);
    if (!PyObject_TypeCheck(object, UntypedStorageType) || !sole_reference(object)) continue;
    Storage* s = storage_of(object);
    if (!s) return nullptr;
    auto found = mappings().find(s);
    if (s->rc != 1 || found == mappings().end()) continue;
    Mapping* m = found->second;
    if (!m->word || m->borrowed || m->seen_by_others || m->forks != forks || m->word->load(std::memory_order_acquire) == AWAY) continue;      // at home: an error kept it from being sent
    m->word->store(HOME, std::memory_order_release);
    return Py_NewRef(object);
  }
  Py_RETURN_NONE;
}

// A storage object over a mapping, which it takes over; null passes through.
static PyObject* storage_over(Mapping* m, int64_t nbytes, bool with_word = false, bool borrowed = false) {
  if (!m) return nullptr;
  if (with_word) attach_word(m, nbytes, borrowed);
  Storage* s = storage_external(m->data, nbytes, release_mapping, m);
  if (!s) { mapping_drop(m); return nullptr; }
  s->flags |= ST_SHARED | ST_EXTERNAL;
  mappings()[s] = m;
  PyObject* object = storage_object(s);
  decref(s);
  return object;
}

// _storage_from_fd(fd, nbytes, lent=False) -> UntypedStorage over the memory behind a received descriptor, which is taken over. lent: to be given back.
static PyObject* storage_from_fd(PyObject*, PyObject* args) {
  int fd;
  long long nbytes;
  int lent = 0;
  if (!PyArg_ParseTuple(args, "iL|p:_storage_from_fd", &fd, &nbytes, &lent)) return nullptr;
  long long there = platform::shared_size(fd);
  if (nbytes < 0 || there < (lent ? bytes_with_word(nbytes) : nbytes) || there < 1) {
    platform::handle_close(fd);
    return raise(PyExc_RuntimeError, "the shared memory holds %lld bytes, %lld were announced", there, nbytes);
  }
  return storage_over(mapping_new(fd, lent ? bytes_with_word(nbytes) : nbytes > 0 ? nbytes : 1), nbytes, lent, lent);
}

// _new_shared_storage(nbytes, lendable=False) -> UntypedStorage of fresh shared memory, all zero.
static PyObject* new_shared_storage(PyObject*, PyObject* args) {
  long long nbytes;
  int lendable = 0;
  if (!PyArg_ParseTuple(args, "L|p:_new_shared_storage", &nbytes, &lendable)) return nullptr;
  if (nbytes < 0) return raise(PyExc_RuntimeError, "shared memory of %lld bytes", nbytes);
  return storage_over(mapping_fresh(lendable ? bytes_with_word(nbytes) : nbytes > 0 ? nbytes : 1), nbytes, lendable);
}

static PyMethodDef tensor_methods[] = {
    {"share_memory_", tensor_share_memory, METH_NOARGS, "share_memory_()\n--\n\nMove the storage to shared memory, where other processes see it. Returns the tensor."},
    {"is_shared", tensor_is_shared, METH_NOARGS, "is_shared()\n--\n\nTrue when the storage is in shared memory."},
    {nullptr, nullptr, 0, nullptr}};
static PyMethodDef storage_methods[] = {
    {"share_memory_", storage_share_memory, METH_NOARGS, "share_memory_()\n--\n\nMove the bytes to shared memory. Returns the storage."},
    {"_share_fd_cpu_", storage_share_fd, METH_NOARGS, "_share_fd_cpu_()\n--\n\n(file descriptor, bytes) of the shared memory."},
    {nullptr, nullptr, 0, nullptr}};
static PyMethodDef functions[] = {{"_storage_from_fd", storage_from_fd, METH_VARARGS, "_storage_from_fd(fd, nbytes, lent=False)\n--\n\nThe storage behind a file descriptor."},
    {"_lend", lend, METH_O, "_lend(storage)\n--\n\n(file descriptor, bytes, whether the receiver gives the memory back)."},
    {"_take_back", take_back, METH_O, "_take_back(list)\n--\n\nA storage of the list that was lent, came back, and is held by nobody else; or None."},
    {"_new_shared_storage", new_shared_storage, METH_VARARGS, "_new_shared_storage(nbytes, lendable=False)\n--\n\nA storage of fresh shared memory."}, {nullptr, nullptr, 0, nullptr}};

bool init_shared(PyObject* m) {
  for (PyMethodDef* def = storage_methods; def->ml_name; def++) {
    PyObject* descriptor = PyDescr_NewMethod(UntypedStorageType, def);
    if (!descriptor || PyObject_SetAttrString((PyObject*)UntypedStorageType, def->ml_name, descriptor) < 0) { Py_XDECREF(descriptor); return false; }
    Py_DECREF(descriptor);
  }
  return add_tensor_methods(tensor_methods) && PyModule_AddFunctions(m, functions) == 0;
}

}  // namespace rl
