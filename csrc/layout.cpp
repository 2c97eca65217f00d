// Interned layouts: one immutable object per (dtype, device, shape, strides, conj and neg bits).
// Keys of plans are made of layout ids, and an id is never used twice, so the table may forget layouts freely: it is bounded, and a clock hand
// removes layouts that nobody holds and nobody asked for since the hand last passed.
#include "runtime.h"
#include "compat.h"
#include <algorithm>
#include <unordered_map>

namespace rl {

const uint8_t L_USED = 64;          // the clock bit, private to this file

static std::vector<Layout*> g_table(1024, nullptr);
static size_t g_hand;               // the bucket the clock looks at next
static int64_t g_count, g_cap = 65536, g_evictions, g_misses, g_classes;
static uint64_t g_next_id = 1;
static std::unordered_map<std::string, uint32_t> g_class_ids;

// ------------------------------------------------------------------------------------------------ facts about strides
static bool is_contiguous_in(int n, const int64_t* shape, const int64_t* strides, const int* order) {   // order: outermost dimension first; null: as they come
  int64_t expected = 1;
  for (int k = n; k--;) {
    int i = order ? order[k] : k;
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}
static const int CHANNELS_LAST_ORDER[] = {0, 2, 3, 1}, CHANNELS_LAST_3D_ORDER[] = {0, 2, 3, 4, 1};

// Every element has its own place and there are no holes: sorted by stride, each dimension starts where the smaller ones end.
static bool is_dense(int n, const int64_t* shape, const int64_t* strides) {
  int order[MAX_DIMS], m = 0;
  for (int i = 0; i < n; i++) if (shape[i] != 1) order[m++] = i;
  std::sort(order, order + m, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (int k = 0; k < m; k++) {
    if (strides[order[k]] != expected) return false;
    expected *= shape[order[k]];
  }
  return true;
}

void memory_format_strides(MemoryFormat format, int n, const int64_t* shape, int64_t* strides) {
  const int* order = format == MemoryFormat::ChannelsLast ? CHANNELS_LAST_ORDER : format == MemoryFormat::ChannelsLast3d ? CHANNELS_LAST_3D_ORDER : nullptr;
  uint64_t step = 1;                // unsigned: sizes that overflow are refused when the layout is made
  for (int k = n; k--;) {
    int i = order ? order[k] : k;
    strides[i] = (int64_t)step;
    step *= (uint64_t)std::max<int64_t>(shape[i], 1);
  }
}

bool layout_contiguous(const Layout* l, MemoryFormat format) {
  switch (format) {
    case MemoryFormat::ChannelsLast: return l->flags & L_CHANNELS_LAST;
    case MemoryFormat::ChannelsLast3d: return l->flags & L_CHANNELS_LAST_3D;
    default: return l->flags & L_CONTIGUOUS;
  }
}

int64_t layout_extent(const Layout* l) {
  if (l->numel == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < l->ndim; i++) last += (l->shape()[i] - 1) * l->strides()[i];
  return last + 1;
}

bool layout_self_overlaps(const Layout* l) {
  if ((l->flags & (L_CONTIGUOUS | L_DENSE)) || l->numel <= 1) return false;
  int order[MAX_DIMS], m = 0;
  for (int i = 0; i < l->ndim; i++) {
    if (l->shape()[i] == 1) continue;
    if (l->strides()[i] == 0) return true;
    order[m++] = i;
  }
  const int64_t *shape = l->shape(), *strides = l->strides();
  std::sort(order, order + m, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t reach = 0;                // the largest offset of the dimensions seen so far
  bool nested = true;
  for (int k = 0; k < m && nested; k++) {
    nested = strides[order[k]] > reach;
    reach += (shape[order[k]] - 1) * strides[order[k]];
  }
  if (nested) return false;
  if (l->numel > layout_extent(l)) return true;      // more elements than places
  if (l->numel > (1 << 20)) return true;             // interleaved strides of this size come from as_strided windows: assume the worst
  std::vector<bool> seen((size_t)layout_extent(l), false);
  int64_t index[MAX_DIMS] = {0};
  for (int64_t place = 0;;) {
    if (seen[(size_t)place]) return true;
    seen[(size_t)place] = true;
    int k = 0;
    for (; k < m; k++) {
      int d = order[k];
      place += strides[d];
      if (++index[k] < shape[d]) break;
      place -= shape[d] * strides[d];
      index[k] = 0;
    }
    if (k == m) return false;
  }
}

// ------------------------------------------------------------------------------------------------ the generic class
// See runtime.h: what a recipe may rely on without a guard.
static uint32_t class_of(const Layout* l) {
  std::string key;
  key.reserve(4 + 3 * (size_t)l->ndim);
  key += (char)l->dtype; key += (char)l->device; key += (char)(l->flags & (L_CONJ | L_NEG)); key += (char)l->ndim;
  const int64_t *shape = l->shape(), *strides = l->strides();
  for (int i = 0; i < l->ndim; i++) {
    int size_class = shape[i] == 0 ? 0 : shape[i] == 1 ? 1 : 2, stride_class = 0, rank = 0, collapses = 0;
    if (size_class != 1) {
      stride_class = strides[i] == 0 ? 0 : strides[i] == 1 ? 1 : 2;
      for (int j = 0; j < l->ndim; j++) rank += shape[j] != 1 && strides[j] < strides[i];
      for (int j = i + 1; j < l->ndim; j++)
        if (shape[j] != 1) { collapses = strides[i] == shape[j] * strides[j]; break; }
    }
    key += (char)(size_class | stride_class << 2 | collapses << 4);
    key += (char)rank;
  }
  auto [it, fresh] = g_class_ids.emplace(std::move(key), (uint32_t)g_class_ids.size() + 1);
  if (fresh) g_classes = (int64_t)g_class_ids.size();
  return it->second;
}

// ------------------------------------------------------------------------------------------------------- the table
static void layout_destroy(Layout* l) {
  PyObject *size = l->size, *stride = l->stride;
  PyMem_Free(l);
  Py_XDECREF(size); Py_XDECREF(stride);      // tuples of ints: nothing of ours runs here
}

// The clock hand walks the buckets until the table fits; layouts in use are stepped over, so it may stay above the cap. The walk is
// bounded: with very many layouts in use a miss must not pay for a sweep of the whole table.
static void evict(size_t most = 4096) {
  size_t mask = g_table.size() - 1;
  for (size_t steps = 0; g_count > g_cap && steps < std::min(most, 2 * g_table.size()); steps++, g_hand = (g_hand + 1) & mask) {
    for (Layout** slot = &g_table[g_hand]; *slot;) {
      Layout* l = *slot;
      if (l->rc > 0) { slot = &l->next; continue; }
      if (l->flags & L_USED) { l->flags &= ~L_USED; slot = &l->next; continue; }
      *slot = l->next;
      --g_count; ++g_evictions;
      layout_destroy(l);
    }
  }
}

static void grow() {
  std::vector<Layout*> old(g_table.size() * 2, nullptr);
  old.swap(g_table);
  for (Layout* l : old)
    while (l) {
      Layout* next = l->next;
      Layout** slot = &g_table[l->hash & (g_table.size() - 1)];
      l->next = *slot; *slot = l;
      l = next;
    }
  g_hand = 0;
}

static Layout* layout_create(DType dtype, Device device, int ndim, const int64_t* shape, const int64_t* strides, int bits, uint64_t hash) {
  int64_t numel = 1;
  bool empty = false, overflow = false;
  for (int i = 0; i < ndim; i++) {
    if (shape[i] < 0) { raise(PyExc_RuntimeError, "Trying to create tensor with negative dimension %lld: %s", (long long)shape[i], ints_text(shape, ndim).c_str()); return nullptr; }
    empty |= shape[i] == 0;
  }
  for (int i = 0; i < ndim && !overflow; i++) overflow = __builtin_mul_overflow(numel, shape[i] ? shape[i] : 1, &numel);
  int64_t nbytes = 0, last = 0, last_byte = 0;
  overflow = overflow || __builtin_mul_overflow(numel, (int64_t)itemsize(dtype), &nbytes);
  for (int i = 0; i < ndim && !overflow && !empty; i++) {
    int64_t step;
    overflow = __builtin_mul_overflow(shape[i] - 1, strides[i], &step) || __builtin_add_overflow(last, step, &last);
  }
  overflow = overflow || __builtin_mul_overflow(last, (int64_t)itemsize(dtype), &last_byte);
  if (overflow) {
    raise(PyExc_RuntimeError, "Storage size calculation overflowed with sizes=%s and strides=%s", ints_text(shape, ndim).c_str(), ints_text(strides, ndim).c_str());
    return nullptr;
  }
  Layout* l = (Layout*)PyMem_Malloc(sizeof(Layout) + sizeof(int64_t) * 2 * (size_t)ndim);
  if (!l) { PyErr_NoMemory(); return nullptr; }
  l->rc = 1; l->id = g_next_id++; l->hash = hash;
  l->numel = empty ? 0 : numel;
  l->nbytes = empty ? 0 : nbytes;
  l->size = l->stride = nullptr;
  l->dtype = dtype; l->device = device; l->ndim = (uint8_t)ndim;
  for (int i = 0; i < ndim; i++) { l->d[i] = shape[i]; l->d[ndim + i] = strides[i]; }
  int flags = bits;
  if (empty || is_contiguous_in(ndim, shape, strides, nullptr)) flags |= L_CONTIGUOUS;
  if (ndim == 4 && is_contiguous_in(4, shape, strides, CHANNELS_LAST_ORDER)) flags |= L_CHANNELS_LAST;
  if (ndim == 5 && is_contiguous_in(5, shape, strides, CHANNELS_LAST_3D_ORDER)) flags |= L_CHANNELS_LAST_3D;
  if ((flags & (L_CONTIGUOUS | L_CHANNELS_LAST | L_CHANNELS_LAST_3D)) || is_dense(ndim, shape, strides)) flags |= L_DENSE;
  l->flags = (uint8_t)(flags | L_USED);
  l->cls = class_of(l);
  return l;
}

Layout* layout_intern(DType dtype, Device device, int ndim, const int64_t* shape, const int64_t* strides, int bits) {
  if (RL_UNLIKELY(ndim > MAX_DIMS)) { raise(PyExc_RuntimeError, "tensor has too many (>%d) dims", MAX_DIMS); return nullptr; }
  int64_t dense[MAX_DIMS];
  if (!strides) {
    // Unsigned: sizes that overflow are rejected when the layout is created, and none such is ever in the table.
    uint64_t step = 1;
    for (int i = ndim; i--;) { dense[i] = (int64_t)step; step *= shape[i] > 1 ? (uint64_t)shape[i] : 1; }
    strides = dense;
  }
  const uint32_t head = (uint32_t)dtype | (uint32_t)device << 8 | (uint32_t)ndim << 16 | (uint32_t)bits << 24;
  uint64_t h = head * 0x9E3779B97F4A7C15ull;
  for (int i = 0; i < ndim; i++) h = (((h << 23 | h >> 41) ^ (uint64_t)shape[i]) + ((uint64_t)strides[i] << 32 | (uint64_t)strides[i] >> 32)) * 0xD6E8FEB86659FD93ull;
  h ^= h >> 32;
  Layout** slot = &g_table[h & (g_table.size() - 1)];
  for (Layout* l = *slot; l; l = l->next) {
    if (l->hash != h || ((uint32_t)l->dtype | (uint32_t)l->device << 8 | (uint32_t)l->ndim << 16 | (uint32_t)(l->flags & (L_CONJ | L_NEG)) << 24) != head) continue;
    const int64_t *s = l->d, *d = l->d + ndim;
    int i = 0;
    while (i < ndim && s[i] == shape[i] && d[i] == strides[i]) ++i;
    if (RL_LIKELY(i == ndim)) { ++l->rc; l->flags |= L_USED; return l; }
  }
  ++g_misses;
  Layout* l = layout_create(dtype, device, ndim, shape, strides, bits, h);
  if (!l) return nullptr;
  if (++g_count > g_cap) evict();
  if ((size_t)g_count > g_table.size()) grow();
  slot = &g_table[h & (g_table.size() - 1)];
  l->next = *slot;
  *slot = l;
  return l;
}

void layout_release(Layout*) {}     // stays in the table: the clock hand decides

PyObject* layout_size(Layout* l) {
  if (RL_UNLIKELY(!l->size)) l->size = size_object(l->shape(), l->ndim);
  return l->size;
}
PyObject* layout_stride(Layout* l) {
  if (RL_UNLIKELY(!l->stride)) l->stride = int_tuple(l->strides(), l->ndim);
  return l->stride;
}

// ------------------------------------------------------------------------------------------------------------- module
static PyObject* set_layout_cap(PyObject*, PyObject* o) {
  int64_t cap = PyLong_AsLongLong(o);
  if (cap == -1 && PyErr_Occurred()) return nullptr;
  if (cap < 1) return raise(PyExc_ValueError, "the cap must be at least 1, got %lld", (long long)cap);
  int64_t old = g_cap;
  g_cap = cap;
  evict(2 * g_table.size());
  return PyLong_FromLongLong(old);
}
static PyMethodDef module_methods[] = {
  {"set_layout_cap", set_layout_cap, METH_O, "set_layout_cap(n) -> int\n\nKeep at most about n layouts; returns the previous cap."},
  {nullptr}};

bool init_layout(PyObject* m) {
  stat_register("layouts", &g_count);
  stat_register("layout_misses", &g_misses);
  stat_register("layout_evictions", &g_evictions);
  stat_register("layout_classes", &g_classes);
  return PyModule_AddFunctions(m, module_methods) == 0;
}

}  // namespace rl
