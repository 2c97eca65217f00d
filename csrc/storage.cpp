// Memory: the caching allocator, storages, and their Python face UntypedStorage.
//
// Three ranges. Up to 1 MB a storage's header and data are one 64-byte aligned block from a size-class freelist (eight classes of 64 bytes, then four
// per doubling). Above, the data are whole pages from a best-fit cache, bounded, so that the next tensor of that size takes no page faults.
// With RUSHLIGHT_GUARD_PAGES=1 every storage, and every kernel's scratch, has pages of its own and ends at a protected one.
#include "runtime.h"
#include "compat.h"
#include "platform.h"
#include <algorithm>
#include <map>

namespace rl {

static_assert(sizeof(Storage) <= 64, "a storage's data start 64 bytes after its header");
const int64_t HEADER = 64;
const int SMALL_CLASSES = 52;                    // the last one holds 1 MB
const int16_t CLASS_PLAIN = 52;                  // block_new beyond 1 MB: straight from the system
const int16_t CLASS_PAGES = 53;                  // header alone in a small block, data in cached pages (capacity in `owner`)
const int16_t CLASS_GUARDED = 54;                // header alone, data in guarded pages (mapping size in `owner`)
const int16_t CLASS_EXTERNAL = 55;               // header alone
const size_t SLAB = 65536, LARGEST_SMALL = (size_t)1 << 20;

struct FreeBlock { FreeBlock* next; };
static FreeBlock* g_free[SMALL_CLASSES];
static int64_t g_allocated, g_peak, g_small_cached, g_page_cached, g_storages, g_system_calls;
static const int64_t SMALL_CACHE_LIMIT = (int64_t)256 << 20;
static int64_t g_page_cache_limit;
bool g_guard_pages;

static inline int class_of(size_t bytes) {
  if (bytes <= 512) return bytes ? (int)((bytes - 1) >> 6) : 0;
  int log = 63 - __builtin_clzll((unsigned long long)(bytes - 1));
  return 8 + (log - 9) * 4 + (int)(((bytes - 1) >> (log - 2)) & 3);
}
static inline size_t class_bytes(int c) {
  if (c < 8) return (size_t)(c + 1) << 6;
  int log = 9 + (c - 8) / 4;
  return (size_t)(5 + (c - 8) % 4) << (log - 2);
}

// ------------------------------------------------------------------------------------------------------ small blocks
static void release_small_blocks() {             // blocks above a slab's reach were allocated one by one and can go back
  for (int c = 0; c < SMALL_CLASSES; c++) {
    size_t size = class_bytes(c);
    if (size <= 4096) continue;
    while (FreeBlock* b = g_free[c]) { g_free[c] = b->next; platform::aligned_free(b); g_small_cached -= (int64_t)size; }
  }
}

static void* small_block_slow(int c) {
  size_t size = class_bytes(c);
  ++g_system_calls;
  if (size > 4096) return platform::aligned_new(64, size);
  char* slab = (char*)platform::aligned_new(64, SLAB);
  if (!slab) return nullptr;
  for (size_t at = size; at + size <= SLAB; at += size) {
    FreeBlock* b = (FreeBlock*)(slab + at);
    b->next = g_free[c];
    g_free[c] = b;
  }
  return slab;
}
static inline void* small_block(int c) {
  FreeBlock* b = g_free[c];
  if (RL_UNLIKELY(!b)) return small_block_slow(c);
  g_free[c] = b->next;
  if (c >= 20) g_small_cached -= (int64_t)class_bytes(c);      // class 20 is the first above 4096 bytes
  return b;
}
static inline void small_block_free(void* p, int c) {
  if (RL_UNLIKELY(c >= 20)) {
    int64_t size = (int64_t)class_bytes(c);
    if (g_small_cached + size > SMALL_CACHE_LIMIT) { platform::aligned_free(p); return; }
    g_small_cached += size;
  }
  FreeBlock* b = (FreeBlock*)p;
  b->next = g_free[c];
  g_free[c] = b;
}

// ------------------------------------------------------------------------------------------------------------- pages
struct CachedPages { char* data; uint64_t stamp; };
static std::multimap<size_t, CachedPages> g_pages;
static uint64_t g_stamp;

static void release_pages(std::multimap<size_t, CachedPages>::iterator it) {
  platform::unmap_pages(it->second.data, it->first);
  g_page_cached -= (int64_t)it->first;
  g_pages.erase(it);
}
static void empty_page_cache() { while (!g_pages.empty()) release_pages(g_pages.begin()); }

static size_t round_to_pages(size_t bytes) { size_t page = platform::page_size(); return (bytes + page - 1) / page * page; }

static char* pages_new(size_t bytes, size_t* capacity) {
  size_t need = round_to_pages(bytes);
  auto it = g_pages.lower_bound(need);
  if (it != g_pages.end() && it->first <= need + need / 4) {      // a block much too big would be wasted on this storage
    char* data = it->second.data;
    *capacity = it->first;
    g_page_cached -= (int64_t)it->first;
    g_pages.erase(it);
    return data;
  }
  *capacity = need;
  ++g_system_calls;
  bool huge = need >= (size_t)4 << 20;
  void* p = platform::map_pages(need, huge);
  if (!p) {                                                       // give back everything that is only kept, and try once more
    empty_page_cache();
    release_small_blocks();
    p = platform::map_pages(need, huge);
  }
  return (char*)p;
}
static void pages_free(char* data, size_t capacity) {
  if ((int64_t)capacity > g_page_cache_limit) { platform::unmap_pages(data, capacity); return; }
  g_pages.emplace_hint(g_pages.lower_bound(capacity), capacity, CachedPages{data, ++g_stamp});    // before its equals: the warmest goes out first
  g_page_cached += (int64_t)capacity;
  while (g_page_cached > g_page_cache_limit) {                    // drop what was not wanted for longest
    auto oldest = std::min_element(g_pages.begin(), g_pages.end(), [](auto& a, auto& b) { return a.second.stamp < b.second.stamp; });
    release_pages(oldest);
  }
}

// ------------------------------------------------------------------------------------------------------ guarded pages
// Data must stay 64-byte aligned, so up to 63 bytes lie between their end and the protected page: those hold a pattern that is checked at the end.
// Fresh memory is all ones (NaN, -1) and not the system's zeros, so that what is read before it is written shows.
const unsigned char CANARY = 0xA5;
char* guarded_new(size_t bytes, size_t* mapping) {
  size_t page = platform::page_size(), room = round_to_pages(std::max<size_t>(bytes, 1)), padded = (bytes + 63) & ~(size_t)63;
  *mapping = room + 2 * page;
  char* base = (char*)platform::map_pages(*mapping);
  if (!base) return nullptr;
  platform::protect_pages(base, page);
  platform::protect_pages(base + page + room, page);
  char* data = base + page + room - padded;
  memset(data, 0xFF, bytes);
  memset(data + bytes, CANARY, padded - bytes);
  return data;
}
void guarded_free(char* data, size_t bytes, size_t mapping) {
  size_t page = platform::page_size(), padded = (bytes + 63) & ~(size_t)63;
  for (size_t i = bytes; i < padded; i++)
    if ((unsigned char)data[i] != CANARY) Py_FatalError("a kernel wrote past the end of its memory (found by RUSHLIGHT_GUARD_PAGES)");
  platform::unmap_pages(data + padded + page - mapping, mapping);
}

// --------------------------------------------------------------------------------------------------- blocks for others
void* block_new(size_t bytes, int* size_class) {
  void* p;
  if (RL_LIKELY(bytes <= LARGEST_SMALL)) { *size_class = class_of(bytes); p = small_block(*size_class); }
  else { *size_class = CLASS_PLAIN; p = platform::aligned_new(64, bytes); }
  if (RL_UNLIKELY(!p)) PyErr_NoMemory();
  return p;
}
void block_free(void* p, int size_class) {
  if (RL_LIKELY(size_class < SMALL_CLASSES)) small_block_free(p, size_class);
  else platform::aligned_free(p);
}

// ----------------------------------------------------------------------------------------------------------- storages
static Storage* out_of_memory(int64_t nbytes) {
  raise(PyExc_RuntimeError, "DefaultCPUAllocator: can't allocate memory: you tried to allocate %lld bytes.\n"
    "  %lld bytes are in use by tensors, %lld are kept for reuse (empty_cache() gives those back)",
    (long long)nbytes, (long long)g_allocated, (long long)(g_small_cached + g_page_cached));
  return nullptr;
}
static inline void count_new(int64_t nbytes) {
  ++g_storages;
  g_allocated += nbytes;
  if (g_allocated > g_peak) g_peak = g_allocated;
}
static inline Storage* fill_header(void* block, int64_t nbytes, Device device, int16_t size_class) {
  Storage* s = (Storage*)block;
  s->rc = 1; s->data = (char*)block + HEADER; s->nbytes = nbytes; s->version = 0; s->device = (uint8_t)device; s->flags = 0;
  s->size_class = size_class; s->release = nullptr; s->owner = nullptr; s->object = nullptr;
  return s;
}
static Storage* header_alone(int64_t nbytes, Device device, int16_t size_class) {
  void* block = small_block(0);
  if (!block) return out_of_memory(HEADER);
  Storage* s = fill_header(block, nbytes, device, size_class);
  s->data = nullptr;
  return s;
}

static Storage* storage_new_slow(int64_t nbytes, Device device) {
  if (nbytes < 0) { raise(PyExc_RuntimeError, "Storage size must not be negative, got %lld bytes", (long long)nbytes); return nullptr; }
  if (device == Device::Meta) {                    // sizes without memory
    Storage* s = header_alone(nbytes, device, CLASS_EXTERNAL);
    if (s) ++g_storages;
    return s;
  }
  Storage* s = header_alone(nbytes, device, g_guard_pages ? CLASS_GUARDED : CLASS_PAGES);
  if (!s) return nullptr;
  size_t capacity = 0;
  s->data = g_guard_pages ? guarded_new((size_t)nbytes, &capacity) : pages_new((size_t)nbytes, &capacity);
  if (!s->data) { small_block_free(s, 0); return out_of_memory(nbytes); }
  s->owner = (void*)(uintptr_t)capacity;
  count_new(nbytes);
  return s;
}

Storage* storage_new(int64_t nbytes, Device device) {
  if (RL_UNLIKELY((uint64_t)nbytes > LARGEST_SMALL - HEADER || device != Device::CPU || g_guard_pages)) return storage_new_slow(nbytes, device);
  int c = class_of((size_t)(nbytes + HEADER));
  void* block = small_block(c);
  if (RL_UNLIKELY(!block)) {
    empty_page_cache();
    release_small_blocks();
    if (!(block = small_block_slow(c))) return out_of_memory(nbytes);
  }
  count_new(nbytes);
  return fill_header(block, nbytes, device, (int16_t)c);
}

Storage* storage_external(void* data, int64_t nbytes, void (*release)(Storage*), void* owner) {
  Storage* s = header_alone(nbytes, Device::CPU, CLASS_EXTERNAL);
  if (!s) return nullptr;
  s->data = (char*)data; s->release = release; s->owner = owner;
  s->flags = ST_EXTERNAL | ST_NORESIZE;
  ++g_storages;
  return s;
}

// Gives the data back; the header stays.
static void free_data(Storage* s) {
  if (s->release) { s->release(s); s->release = nullptr; }
  else if (s->size_class == CLASS_PAGES) { pages_free(s->data, (size_t)(uintptr_t)s->owner); g_allocated -= s->nbytes; }
  else if (s->size_class == CLASS_GUARDED) { guarded_free(s->data, (size_t)s->nbytes, (size_t)(uintptr_t)s->owner); g_allocated -= s->nbytes; }
  else if (s->size_class < SMALL_CLASSES) g_allocated -= s->nbytes;
}

void storage_free(Storage* s) {
  --g_storages;
  int16_t c = s->size_class;
  if (RL_LIKELY(c < SMALL_CLASSES && !s->release)) { g_allocated -= s->nbytes; small_block_free(s, c); return; }
  free_data(s);
  small_block_free(s, c < SMALL_CLASSES ? c : 0);
}

// Other tensors keep their pointer to this header, so the new data always live outside it (a storage that was one block keeps the block for its header).
bool storage_resize(Storage* s, int64_t nbytes) {
  if (nbytes < 0) { raise(PyExc_RuntimeError, "Storage size must not be negative, got %lld bytes", (long long)nbytes); return false; }
  if (s->flags & (ST_NORESIZE | ST_SHARED)) { raise(PyExc_RuntimeError, "Trying to resize storage that is not resizable"); return false; }
  if (!materialize(s)) return false;
  if ((Device)s->device == Device::Meta) { s->nbytes = nbytes; return true; }
  if (nbytes == s->nbytes) return true;
  // Inside its own block there may be room already.
  if (s->size_class < SMALL_CLASSES && !s->release && (size_t)(nbytes + HEADER) <= class_bytes(s->size_class) && s->data == (char*)s + HEADER) {
    count_new(nbytes - s->nbytes);
    --g_storages;
    s->nbytes = nbytes;
    return true;
  }
  Storage* fresh = storage_new(nbytes);
  if (!fresh) return false;
  if (s->data && fresh->data) memcpy(fresh->data, s->data, (size_t)std::min(nbytes, s->nbytes));
  if (fresh->size_class < SMALL_CLASSES || s->size_class < SMALL_CLASSES) {
    // One of the two is a block with its header inside: `s` takes the other storage whole, as its owner.
    free_data(s);
    s->data = fresh->data;
    s->nbytes = nbytes;
    s->owner = fresh;
    s->release = [](Storage* self) { decref((Storage*)self->owner); };
    if (s->size_class >= SMALL_CLASSES) s->size_class = CLASS_EXTERNAL;
  } else {
    free_data(s);
    s->data = fresh->data; s->owner = fresh->owner; s->size_class = fresh->size_class; s->nbytes = nbytes;
    --g_storages;
    small_block_free(fresh, 0);
  }
  return true;
}

// The storage now stands for other memory (shared memory): its header stays, so all tensors over it see the change. The old memory is freed; if somebody
// outside may look at it (ST_NORESIZE), it is kept until the storage dies.
bool storage_move(Storage* s, void* data, int64_t nbytes, void (*release)(Storage*), void* owner) {
  bool in_block = s->size_class < SMALL_CLASSES && !s->release;      // its memory is its own header's block, which stays anyway
  if (in_block || !(s->flags & ST_NORESIZE)) {
    free_data(s);
    s->release = release;
    s->owner = owner;
  } else {
    struct Moved { Storage* kept; void (*release)(Storage*); void* owner; };
    Storage* kept = header_alone(s->nbytes, Device::CPU, s->size_class);
    if (!kept) return false;
    kept->data = s->data; kept->release = s->release; kept->owner = s->owner;
    ++g_storages;
    s->owner = new Moved{kept, release, owner};
    s->release = [](Storage* self) {
      Moved* moved = (Moved*)self->owner;
      self->owner = moved->owner;
      moved->release(self);
      decref(moved->kept);
      delete moved;
    };
  }
  s->data = (char*)data;
  s->nbytes = nbytes;
  if (s->size_class >= SMALL_CLASSES) s->size_class = CLASS_EXTERNAL;
  s->flags |= ST_EXTERNAL;
  return true;
}

// ----------------------------------------------------------------------------------------------------- UntypedStorage
struct StorageObject { PyObject_HEAD Storage* storage; PyObject* dict; PyObject* weakrefs; };
PyTypeObject* UntypedStorageType;

static PyObject* storage_object_in(PyTypeObject* type, Storage* s) {       // takes over the reference
  StorageObject* o = (StorageObject*)type->tp_alloc(type, 0);
  if (!o) { decref(s); return nullptr; }
  o->storage = s;
  s->object = (PyObject*)o;
  return (PyObject*)o;
}
PyObject* storage_object(Storage* s) {
  if (s->object) return Py_NewRef(s->object);
  incref(s);
  return storage_object_in(UntypedStorageType, s);
}
Storage* storage_of(PyObject* o) {
  if (PyObject_TypeCheck(o, UntypedStorageType)) return ((StorageObject*)o)->storage;
  PyObject* inner;
  int found = optional_attribute(o, "_untyped_storage", &inner);          // TypedStorage: a Python object around an untyped one
  if (found < 0) return nullptr;
  if (found && PyObject_TypeCheck(inner, UntypedStorageType)) {
    Storage* s = ((StorageObject*)inner)->storage;
    Py_DECREF(inner);                                                     // `o` keeps it alive
    return s;
  }
  if (found) Py_DECREF(inner);
  raise(PyExc_TypeError, "expected a torch.UntypedStorage, not %s", Py_TYPE(o)->tp_name);
  return nullptr;
}

static Storage* storage_in(PyObject* o) { return ((StorageObject*)o)->storage; }
static int untyped_traverse(PyObject* o, visitproc visit, void* arg) { Py_VISIT(Py_TYPE(o)); Py_VISIT(((StorageObject*)o)->dict); return 0; }
static int untyped_clear(PyObject* o) { Py_CLEAR(((StorageObject*)o)->dict); return 0; }
static void untyped_dealloc(PyObject* o) {
  StorageObject* s = (StorageObject*)o;
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  if (s->weakrefs) PyObject_ClearWeakRefs(o);
  Py_CLEAR(s->dict);
  if (s->storage) { s->storage->object = nullptr; decref(s->storage); }
  type->tp_free(o);
  Py_DECREF(type);
}
static PyObject* untyped_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *first = nullptr, *device = Py_None;
  static const char* names[] = {"", "device", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O:UntypedStorage", (char**)names, &first, &device)) return nullptr;
  Device d = Device::CPU;
  if (device != Py_None && !device_from(device, &d)) return nullptr;
  int64_t nbytes = 0;
  std::vector<int64_t> bytes;
  if (first && PyIndex_Check(first)) {
    nbytes = PyNumber_AsSsize_t(first, PyExc_OverflowError);
    if (nbytes == -1 && PyErr_Occurred()) return nullptr;
  } else if (first) {
    if (!int_list(first, &bytes)) return nullptr;
    nbytes = (int64_t)bytes.size();
  }
  Storage* s = storage_new(nbytes, d);
  if (!s) return nullptr;
  for (size_t i = 0; s->data && i < bytes.size(); i++) s->data[i] = (char)bytes[i];
  return storage_object_in(type, s);
}
static Py_ssize_t untyped_length(PyObject* o) { return (Py_ssize_t)storage_in(o)->nbytes; }
static PyObject* untyped_nbytes(PyObject* o, PyObject*) { return PyLong_FromLongLong(storage_in(o)->nbytes); }
static PyObject* untyped_element_size(PyObject*, PyObject*) { return PyLong_FromLong(1); }
static PyObject* untyped_data_ptr(PyObject* o, PyObject*) { return materialize(storage_in(o)) ? PyLong_FromVoidPtr(storage_in(o)->data) : nullptr; }
static PyObject* untyped_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(storage_in(o)); }
static PyObject* untyped_device(PyObject* o, void*) { return device_object((Device)storage_in(o)->device); }
static PyObject* untyped_false(PyObject*, void*) { Py_RETURN_FALSE; }
static PyObject* untyped_is_shared(PyObject* o, PyObject*) { return PyBool_FromLong(storage_in(o)->flags & ST_SHARED); }
static PyObject* untyped_resizable(PyObject* o, PyObject*) { return PyBool_FromLong(!(storage_in(o)->flags & (ST_NORESIZE | ST_SHARED))); }
static PyObject* untyped_resize(PyObject* o, PyObject* n) {
  int64_t nbytes = PyNumber_AsSsize_t(n, PyExc_OverflowError);
  if (nbytes == -1 && PyErr_Occurred()) return nullptr;
  return storage_resize(storage_in(o), nbytes) ? Py_NewRef(o) : nullptr;
}
static PyObject* untyped_fill(PyObject* o, PyObject* value) {
  int64_t v = PyLong_AsLongLong(value);
  if (v == -1 && PyErr_Occurred()) return nullptr;
  Storage* s = storage_in(o);
  if (!materialize(s)) return nullptr;
  if (s->data) memset(s->data, (int)(v & 255), (size_t)s->nbytes);
  return Py_NewRef(o);
}
static PyObject* untyped_copy(PyObject* o, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs < 1 || nargs > 2) return raise(PyExc_TypeError, "copy_() takes a storage and non_blocking, got %zd arguments", nargs);
  Storage *s = storage_in(o), *from = storage_of(args[0]);
  if (!from || !materialize(s) || !materialize(from)) return nullptr;
  if (s->nbytes != from->nbytes) return raise(PyExc_RuntimeError, "size does not match, self was %lld bytes but src was %lld bytes", (long long)s->nbytes, (long long)from->nbytes);
  if (s->data && from->data) memmove(s->data, from->data, (size_t)s->nbytes);
  return Py_NewRef(o);
}
static PyObject* untyped_clone(PyObject* o, PyObject*) {
  Storage* s = storage_in(o);
  if (!materialize(s)) return nullptr;
  Storage* copy = storage_new(s->nbytes, (Device)s->device);
  if (!copy) return nullptr;
  if (s->data && copy->data) memcpy(copy->data, s->data, (size_t)s->nbytes);
  return storage_object_in(UntypedStorageType, copy);
}
static bool byte_index(Storage* s, Py_ssize_t i) {
  if (i >= 0 && i < s->nbytes && s->data && materialize(s)) return true;
  if (!PyErr_Occurred()) raise(PyExc_IndexError, "index %zd out of range for storage of size %lld", i, (long long)s->nbytes);
  return false;
}
static PyObject* untyped_item(PyObject* o, Py_ssize_t i) {
  Storage* s = storage_in(o);
  return byte_index(s, i) ? PyLong_FromLong((unsigned char)s->data[i]) : nullptr;
}
static int untyped_set_item(PyObject* o, Py_ssize_t i, PyObject* value) {
  Storage* s = storage_in(o);
  if (!value) { raise(PyExc_TypeError, "a storage's bytes cannot be deleted"); return -1; }
  int64_t v = PyLong_AsLongLong(value);
  if ((v == -1 && PyErr_Occurred()) || !byte_index(s, i)) return -1;
  s->data[i] = (char)v;
  return 0;
}
static PyObject* untyped_tolist(PyObject* o, PyObject*) {
  Storage* s = storage_in(o);
  if (!materialize(s)) return nullptr;
  if (!s->data && s->nbytes) return raise(PyExc_NotImplementedError, "Not available for 'meta' device storage: it has no data");
  PyObject* list = PyList_New((Py_ssize_t)s->nbytes);
  for (int64_t i = 0; list && i < s->nbytes; i++) PyList_SET_ITEM(list, (Py_ssize_t)i, PyLong_FromLong((unsigned char)s->data[i]));
  return list;
}
static int untyped_buffer(PyObject* o, Py_buffer* view, int flags) {
  Storage* s = storage_in(o);
  if (!materialize(s)) return -1;
  if (!s->data && s->nbytes) { raise(PyExc_BufferError, "this storage has no data (device '%s')", (Device)s->device == Device::Meta ? "meta" : "cpu"); return -1; }
  static char nothing;
  return PyBuffer_FillInfo(view, o, s->data ? s->data : &nothing, (Py_ssize_t)s->nbytes, (s->flags & ST_READONLY) != 0, flags);
}
static PyObject* untyped_repr(PyObject* o) {
  Storage* s = storage_in(o);
  if (!materialize(s)) return nullptr;
  std::string text;
  for (int64_t i = 0; s->data && i < s->nbytes; i++) {
    if (s->nbytes > 1000 && i == 500) { text += " ...\n"; i = s->nbytes - 500; }
    text += " " + std::to_string((unsigned char)s->data[i]) + "\n";
  }
  return PyUnicode_FromFormat("%s[torch.storage.UntypedStorage(device=%s) of size %lld]", text.c_str(), (Device)s->device == Device::Meta ? "meta" : "cpu", (long long)s->nbytes);
}
static PyMethodDef untyped_methods[] = {
  {"nbytes", untyped_nbytes, METH_NOARGS, "the number of bytes"},
  {"size", untyped_nbytes, METH_NOARGS, "the number of bytes"},
  {"element_size", untyped_element_size, METH_NOARGS, "1: a storage is bytes"},
  {"data_ptr", untyped_data_ptr, METH_NOARGS, "the address of the first byte"},
  {"resize_", untyped_resize, METH_O, "resize_(nbytes): change the size, keeping the content; tensors over the storage see the new one"},
  {"resizable", untyped_resizable, METH_NOARGS, "False for memory that belongs to someone else"},
  {"fill_", untyped_fill, METH_O, "set every byte"},
  {"copy_", (PyCFunction)(void*)untyped_copy, METH_FASTCALL, "copy_(source, non_blocking=None): copy a storage of the same size into this one"},
  {"clone", untyped_clone, METH_NOARGS, "a storage with a copy of the bytes"},
  {"tolist", untyped_tolist, METH_NOARGS, "the bytes as a list of int"},
  {"is_shared", untyped_is_shared, METH_NOARGS, "True when other processes can see the memory"},
  {nullptr}};
static PyGetSetDef untyped_getset[] = {
  {"device", untyped_device, nullptr, "where the memory is", nullptr},
  {"_cdata", untyped_cdata, nullptr, "identifies the storage", nullptr},
  {"is_cuda", untyped_false, nullptr, nullptr, nullptr}, {"is_hpu", untyped_false, nullptr, nullptr, nullptr}, {"is_sparse", untyped_false, nullptr, nullptr, nullptr},
  {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
  {nullptr}};
static PyMemberDef untyped_members[] = {
  {"__dictoffset__", RL_T_PYSSIZET, offsetof(StorageObject, dict), RL_READONLY, nullptr},
  {"__weaklistoffset__", RL_T_PYSSIZET, offsetof(StorageObject, weakrefs), RL_READONLY, nullptr},
  {nullptr}};
static PyType_Slot untyped_slots[] = {{Py_tp_new, (void*)untyped_new}, {Py_tp_dealloc, (void*)untyped_dealloc}, {Py_tp_traverse, (void*)untyped_traverse},
  {Py_tp_clear, (void*)untyped_clear}, {Py_tp_methods, untyped_methods}, {Py_tp_getset, untyped_getset}, {Py_tp_members, untyped_members}, {Py_tp_repr, (void*)untyped_repr},
  {Py_sq_length, (void*)untyped_length}, {Py_sq_item, (void*)untyped_item}, {Py_sq_ass_item, (void*)untyped_set_item}, {Py_bf_getbuffer, (void*)untyped_buffer}, {0, nullptr}};
static PyType_Spec untyped_spec = {"rushlight.UntypedStorage", sizeof(StorageObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, untyped_slots};

// ------------------------------------------------------------------------------------------------------------- module
static PyObject* empty_cache(PyObject*, PyObject*) {
  empty_page_cache();
  release_small_blocks();
  Py_RETURN_NONE;
}
static PyObject* memory_stats(PyObject*, PyObject*) {
  return Py_BuildValue("{sLsLsLsLsLsL}", "allocated_bytes", (long long)g_allocated, "peak_allocated_bytes", (long long)g_peak, "cached_bytes", (long long)(g_small_cached + g_page_cached),
    "cache_limit_bytes", (long long)(SMALL_CACHE_LIMIT + g_page_cache_limit), "storages", (long long)g_storages, "system_allocations", (long long)g_system_calls);
}
static PyObject* reset_peak(PyObject*, PyObject*) { g_peak = g_allocated; Py_RETURN_NONE; }
static PyMethodDef module_methods[] = {
  {"empty_cache", empty_cache, METH_NOARGS, "give the memory that is kept for reuse back to the system"},
  {"memory_stats", memory_stats, METH_NOARGS, "memory_stats() -> dict: bytes in use, at the peak, kept for reuse"},
  {"reset_peak_memory_stats", reset_peak, METH_NOARGS, "start measuring the peak anew"},
  {nullptr}};

bool init_storage(PyObject* m) {
  const char* guard = getenv("RUSHLIGHT_GUARD_PAGES");
  g_guard_pages = guard && *guard && strcmp(guard, "0") != 0;
  g_page_cache_limit = (int64_t)std::min<size_t>(platform::physical_memory() / 4, (size_t)4 << 30);
  stat_register("storages", &g_storages);
  UntypedStorageType = (PyTypeObject*)PyType_FromSpec(&untyped_spec);
  return UntypedStorageType && PyModule_AddFunctions(m, module_methods) == 0 && PyModule_AddType(m, UntypedStorageType) == 0;
}

}  // namespace rl
