// Views: a new layout over the same storage. Each function checks its arguments with torch's words, computes shape, strides and offset, and hands over to
// make_view, the one place where a view is born. Operators (argument parsing, Python names) are in view_ops.cpp.
#include "tensor.h"
#include <algorithm>

namespace rl {

// `out` is fresh, over base's storage.
static inline Tensor* record(Tensor* base, Tensor* out, ViewSpec&& spec) {
  if (RL_UNLIKELY(!out)) return nullptr;
  version_share(base, out);
  if (RL_UNLIKELY(!tape_record_view(base, out, std::move(spec)))) { Py_DECREF(out); return nullptr; }
  return out;
}
// make_view without moving the spec about: what the functions below call.
static inline Tensor* born(Tensor* base, ViewSpec&& spec, Layout* layout, int64_t offset) {
  if (RL_UNLIKELY(!layout)) return nullptr;
  incref(base->storage);
  return record(base, tensor_wrap(layout, base->storage, offset), std::move(spec));
}
Tensor* make_view(Tensor* base, ViewSpec spec, Layout* layout, int64_t offset) { return born(base, std::move(spec), layout, offset); }
Tensor* make_view_in(PyTypeObject* type, Tensor* base, ViewSpec spec, Layout* layout, int64_t offset) {
  if (!layout) return nullptr;
  incref(base->storage);
  return record(base, tensor_wrap_in(type, layout, base->storage, offset), std::move(spec));
}

// ------------------------------------------------------------------------------------------------------------- helpers
static Layout* same_kind(const Tensor* t, int n, const int64_t* shape, const int64_t* strides) {
  return layout_intern(t->layout->dtype, t->layout->device, n, shape, strides, t->layout->flags & (L_CONJ | L_NEG));
}
static int64_t bytes_of(const Tensor* t, int64_t elements) { return elements * itemsize(t->layout->dtype); }

bool wrap_dim(int64_t dim, int ndim, int* out) {
  int n = ndim ? ndim : 1;
  if (RL_LIKELY(dim >= -n && dim < n)) { *out = (int)(dim < 0 ? dim + n : dim); return true; }
  raise(PyExc_IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n, n - 1, (long long)dim);
  return false;
}

// A shape with two dimensions more than a tensor may have: views grow by at most one before layout_intern refuses them.
struct Shape {
  int n = 0;
  int64_t size[MAX_DIMS + 2], stride[MAX_DIMS + 2];
  explicit Shape(const Layout* l) : n(l->ndim) {
    for (int i = 0; i < n; i++) { size[i] = l->shape()[i]; stride[i] = l->strides()[i]; }
  }
  Shape() {}
  void push(int64_t s, int64_t d) { size[n] = s; stride[n] = d; ++n; }
  void drop(int at) {
    for (int i = at; i + 1 < n; i++) { size[i] = size[i + 1]; stride[i] = stride[i + 1]; }
    --n;
  }
  void insert(int at, int64_t s, int64_t d) {
    for (int i = n; i > at; i--) { size[i] = size[i - 1]; stride[i] = stride[i - 1]; }
    size[at] = s; stride[at] = d;
    ++n;
  }
};
static Layout* same_kind(const Tensor* t, const Shape& s) { return same_kind(t, s.n, s.size, s.stride); }

// ------------------------------------------------------------------------------------------------------------- reshape
// Fills in a -1 and checks the number of elements.
static bool infer_sizes(int64_t numel, int n, const int64_t* given, int64_t* sizes) {
  int64_t product = 1;
  int unknown = -1;
  bool overflow = false;
  for (int i = 0; i < n; i++) {
    sizes[i] = given[i];
    if (given[i] == -1) {
      if (unknown >= 0) { raise(PyExc_RuntimeError, "only one dimension can be inferred, but the shape %s has several -1", ints_text(given, n).c_str()); return false; }
      unknown = i;
    } else if (given[i] < 0) {
      raise(PyExc_RuntimeError, "invalid shape dimension %lld at index %d of shape %s", (long long)given[i], i, ints_text(given, n).c_str());
      return false;
    } else {
      overflow |= __builtin_mul_overflow(product, given[i], &product);
    }
  }
  if (!overflow && (numel == product || (unknown >= 0 && product > 0 && numel % product == 0))) {
    if (unknown >= 0) {
      if (product == 0) {
        raise(PyExc_RuntimeError, "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any value and is ambiguous", ints_text(given, n).c_str());
        return false;
      }
      sizes[unknown] = numel / product;
    }
    return true;
  }
  raise(PyExc_RuntimeError, "shape '%s' is invalid for input of size %lld", ints_text(given, n).c_str(), (long long)numel);
  return false;
}

// Strides of the same elements under new sizes. The old dimensions fall into runs that are contiguous in themselves; every run must be covered by whole new dimensions.
static bool reshaped_strides(const Layout* l, int n, const int64_t* sizes, int64_t* strides) {
  const int64_t *old_size = l->shape(), *old_stride = l->strides();
  if (l->numel == 0) {
    if (n == l->ndim && !memcmp(old_size, sizes, sizeof(int64_t) * (size_t)n)) { memcpy(strides, old_stride, sizeof(int64_t) * (size_t)n); return true; }
    memory_format_strides(MemoryFormat::Contiguous, n, sizes, strides);
    return true;
  }
  if (l->ndim == 0) { for (int i = 0; i < n; i++) strides[i] = 1; return true; }
  int at = n - 1;
  int64_t run_stride = old_stride[l->ndim - 1], run = 1, covered = 1;
  for (int d = l->ndim - 1; d >= 0; d--) {
    run *= old_size[d];
    bool ends = d == 0 || (old_size[d - 1] != 1 && old_stride[d - 1] != run * run_stride);
    if (!ends) continue;
    while (at >= 0 && (covered < run || sizes[at] == 1)) {
      strides[at] = covered * run_stride;
      covered *= sizes[at];
      --at;
    }
    if (covered != run) return false;
    if (d > 0) { run_stride = old_stride[d - 1]; run = covered = 1; }
  }
  return at == -1;
}

// The last reshapes: which layout became which. Ids are never used twice, so an entry can be stale but not wrong.
struct Reshaped { uint64_t from; int n; int64_t given[4]; Layout* to; };       // to: owned
static Reshaped g_reshaped[16];
static Reshaped* reshaped_slot(const Tensor* t, int n, const int64_t* given) {
  if (n < 1 || n > 4) return nullptr;
  return &g_reshaped[(t->layout->id * 7 + (uint64_t)given[0] + 3 * (uint64_t)given[n - 1]) & 15];
}

Tensor* view_reshape(Tensor* t, int n, const int64_t* given, bool copy_allowed) {
  Reshaped* known = reshaped_slot(t, n, given);
  if (known && known->from == t->layout->id && known->n == n && !memcmp(known->given, given, (size_t)n * sizeof(int64_t))) {
    Layout* l = known->to;
    incref(l);
    return born(t, {ViewKind::Reshape, {l->shape(), l->shape() + n}, nullptr}, l, t->offset);
  }
  int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
  if (n > MAX_DIMS) { raise(PyExc_RuntimeError, "tensor has too many (>%d) dims", MAX_DIMS); return nullptr; }
  if (!infer_sizes(t->layout->numel, n, given, sizes)) return nullptr;
  if (RL_LIKELY(reshaped_strides(t->layout, n, sizes, strides))) {
    Layout* l = same_kind(t, n, sizes, strides);
    if (l && known) {
      Layout* before = known->to;
      incref(l);
      known->from = t->layout->id; known->n = n; known->to = l;
      memcpy(known->given, given, (size_t)n * sizeof(int64_t));
      if (before) decref(before);
    }
    return born(t, {ViewKind::Reshape, {sizes, sizes + n}, nullptr}, l, t->offset);
  }
  if (!copy_allowed) {
    raise(PyExc_RuntimeError, "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.\n"
      "  the tensor has shape %s and strides %s, the view was to have shape %s", shape_text(t->layout).c_str(), ints_text(t->layout->strides(), t->layout->ndim).c_str(), ints_text(sizes, n).c_str());
    return nullptr;
  }
  Op* clone = op_find("clone");
  Tensor* copy = clone ? call_op(clone, {t}, {}, {(uint64_t)MemoryFormat::Contiguous}) : nullptr;
  if (!copy) return nullptr;
  Layout* l = same_kind(copy, n, sizes, nullptr);
  if (!l) { Py_DECREF(copy); return nullptr; }
  if (!copy->requires_grad && !copy->view) {          // nobody else has the copy: it simply becomes what was asked for
    set_layout(copy, l, copy->offset);
    return copy;
  }
  Tensor* out = born(copy, {ViewKind::Reshape, {sizes, sizes + n}, "UnsafeViewBackward0"}, l, copy->offset);
  Py_DECREF(copy);
  return out;
}

// ------------------------------------------------------------------------------------------------- order of dimensions
static Tensor* permuted(Tensor* t, const int* dims, const char* name) {
  Shape s;
  ViewSpec spec{ViewKind::Permute, {}, name};
  spec.ints.resize((size_t)t->layout->ndim);
  for (int i = 0; i < t->layout->ndim; i++) {
    s.push(t->layout->shape()[dims[i]], t->layout->strides()[dims[i]]);
    spec.ints[(size_t)i] = dims[i];
  }
  return born(t, std::move(spec), same_kind(t, s), t->offset);
}
static Tensor* permute_named(Tensor* t, int n, const int64_t* dims, const char* name) {
  int ndim = t->layout->ndim, order[MAX_DIMS];
  if (n != ndim) {
    raise(PyExc_RuntimeError, "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d", ndim, n);
    return nullptr;
  }
  uint64_t seen = 0;
  for (int i = 0; i < n; i++) {
    if (!wrap_dim(dims[i], ndim, &order[i])) return nullptr;
    if (seen >> order[i] & 1) { raise(PyExc_RuntimeError, "permute(): duplicate dims are not allowed. Got %s", ints_text(dims, n).c_str()); return nullptr; }
    seen |= (uint64_t)1 << order[i];
  }
  return permuted(t, order, name);
}
Tensor* view_permute(Tensor* t, int n, const int64_t* dims, const char* name) { return permute_named(t, n, dims, name); }

Tensor* view_transpose(Tensor* t, int64_t a, int64_t b, const char* name) {
  int ndim = t->layout->ndim, i, j, order[MAX_DIMS];
  if (!wrap_dim(a, ndim, &i) || !wrap_dim(b, ndim, &j)) return nullptr;
  for (int k = 0; k < ndim; k++) order[k] = k;
  if (ndim) std::swap(order[i], order[j]);
  return permuted(t, order, name);
}
Tensor* view_reversed(Tensor* t) {
  int order[MAX_DIMS];
  for (int k = 0; k < t->layout->ndim; k++) order[k] = t->layout->ndim - 1 - k;
  return permuted(t, order, "PermuteBackward0");
}

// -------------------------------------------------------------------------------------------------------------- expand
Tensor* view_expand(Tensor* t, int n, const int64_t* given) {
  const Layout* l = t->layout;
  if (n < l->ndim) {
    raise(PyExc_RuntimeError, "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
      dtype_scalar_name(l->dtype), shape_text(l).c_str(), ints_text(given, n).c_str(), n, l->ndim);
    return nullptr;
  }
  if (n > MAX_DIMS) { raise(PyExc_RuntimeError, "tensor has too many (>%d) dims", MAX_DIMS); return nullptr; }
  int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
  for (int i = n - 1; i >= 0; i--) {
    int from = i - (n - l->ndim);
    int64_t size = from >= 0 ? l->shape()[from] : 1, want = given[i];
    int64_t stride = from >= 0 ? l->strides()[from] : i + 1 < n ? sizes[i + 1] * strides[i + 1] : 1;
    if (want == -1) {
      if (from < 0) { raise(PyExc_RuntimeError, "The expanded size of the tensor (%lld) isn't allowed in a leading, non-existing dimension %d", (long long)want, i); return nullptr; }
      want = size;
    }
    if (l->ndim == 0) stride = 0;                    // torch's strides for an expanded scalar
    if (size != want) {
      if (size != 1 || want < 0) {
        raise(PyExc_RuntimeError, "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
          (long long)want, (long long)size, i, ints_text(given, n).c_str(), shape_text(l).c_str());
        return nullptr;
      }
      size = want;
      stride = 0;
    }
    sizes[i] = size;
    strides[i] = stride;
  }
  return born(t, {ViewKind::Expand, {sizes, sizes + n}, nullptr}, same_kind(t, n, sizes, strides), t->offset);
}

// ----------------------------------------------------------------------------------------------- slices and selections
static Tensor* slice_named(Tensor* t, int d, int64_t start, int64_t stop, int64_t step, const char* name) {
  int64_t size = t->layout->shape()[d];
  if (start < 0) start += size;
  if (stop < 0) stop += size;
  start = std::clamp<int64_t>(start, 0, size);
  stop = std::clamp<int64_t>(stop, start, size);
  Shape s(t->layout);
  int64_t offset = t->offset + bytes_of(t, start * s.stride[d]);
  s.size[d] = (stop - start + step - 1) / step;
  if (__builtin_mul_overflow(s.stride[d], step, &s.stride[d])) s.stride[d] = t->layout->strides()[d];      // one element at most: its distance to the next is never used
  return born(t, {ViewKind::Slice, {d, start, stop, step}, name}, same_kind(t, s), offset);
}
Tensor* view_slice(Tensor* t, int dim, int64_t start, int64_t stop, int64_t step) {
  int d;
  if (t->layout->ndim == 0) { raise(PyExc_RuntimeError, "slice() cannot be applied to a 0-dim tensor."); return nullptr; }
  if (!wrap_dim(dim, t->layout->ndim, &d)) return nullptr;
  if (step <= 0) { raise(PyExc_RuntimeError, "slice step must be positive, got %lld", (long long)step); return nullptr; }
  if (step > ((int64_t)1 << 62)) step = (int64_t)1 << 62;       // the first element only; and stop - start + step stays in range
  return slice_named(t, d, start, stop, step, nullptr);
}
Tensor* view_piece(Tensor* t, int d, int64_t start, int64_t stop, const char* name) { return slice_named(t, d, start, stop, 1, name); }

static Tensor* select_named(Tensor* t, int d, int64_t index, const char* name) {
  Shape s(t->layout);
  int64_t offset = t->offset + bytes_of(t, index * s.stride[d]);
  s.drop(d);
  return born(t, {ViewKind::Select, {d, index}, name}, same_kind(t, s), offset);
}
Tensor* view_select(Tensor* t, int dim, int64_t index) {
  int d;
  if (t->layout->ndim == 0) { raise(PyExc_IndexError, "select() cannot be applied to a 0-dim tensor."); return nullptr; }
  if (!wrap_dim(dim, t->layout->ndim, &d)) return nullptr;
  int64_t size = t->layout->shape()[d];
  if (index < -size || index >= size) {
    raise(PyExc_IndexError, "select(): index %lld out of range for tensor of size %s at dimension %d", (long long)index, shape_text(t->layout).c_str(), dim);
    return nullptr;
  }
  return select_named(t, d, index < 0 ? index + size : index, nullptr);
}
Tensor* view_element(Tensor* t, int d, int64_t index, const char* name) { return select_named(t, d, index, name); }

Tensor* view_narrow(Tensor* t, int64_t dim, int64_t start, int64_t length) {
  int d;
  if (t->layout->ndim == 0) { raise(PyExc_RuntimeError, "narrow() cannot be applied to a 0-dim tensor."); return nullptr; }
  if (length < 0) { raise(PyExc_RuntimeError, "narrow(): length must be non-negative. Got %lld", (long long)length); return nullptr; }
  if (!wrap_dim(dim, t->layout->ndim, &d)) return nullptr;
  int64_t size = t->layout->shape()[d];
  if (start < -size || start > size) {
    raise(PyExc_IndexError, "start out of range (expected to be in range of [%lld, %lld], but got %lld)", (long long)-size, (long long)size, (long long)start);
    return nullptr;
  }
  if (start < 0) start += size;
  if (length > size - start) {
    raise(PyExc_RuntimeError, "start (%lld) + length (%lld) exceeds dimension size (%lld).\n  at dimension %d of a tensor of shape %s", (long long)start, (long long)length, (long long)size, d, shape_text(t->layout).c_str());
    return nullptr;
  }
  return slice_named(t, d, start, start + length, 1, nullptr);
}

// ------------------------------------------------------------------------------------------------ dimensions of size one
Tensor* view_squeeze(Tensor* t, uint64_t dims, const char* name) {       // a bit per dimension; those of another size stay
  Shape s;
  ViewSpec spec{ViewKind::Squeeze, {}, name};
  for (int i = 0; i < t->layout->ndim; i++) {
    if ((dims >> i & 1) && t->layout->shape()[i] == 1) spec.ints.push_back(i);
    else s.push(t->layout->shape()[i], t->layout->strides()[i]);
  }
  return born(t, std::move(spec), same_kind(t, s), t->offset);
}
Tensor* view_unsqueeze(Tensor* t, int dim) {
  int d;
  if (!wrap_dim(dim, t->layout->ndim + 1, &d)) return nullptr;
  Shape s(t->layout);
  s.insert(d, 1, d < s.n ? s.size[d] * s.stride[d] : 1);
  return born(t, {ViewKind::Unsqueeze, {d}, nullptr}, same_kind(t, s), t->offset);
}

// ------------------------------------------------------------------------------------------- diagonals, windows, strides
Tensor* view_diagonal(Tensor* t, int64_t offset, int64_t dim1, int64_t dim2) {
  int a, b;
  if (!wrap_dim(dim1, t->layout->ndim, &a) || !wrap_dim(dim2, t->layout->ndim, &b)) return nullptr;
  if (a == b) { raise(PyExc_RuntimeError, "diagonal dimensions cannot be identical %lld, %lld", (long long)dim1, (long long)dim2); return nullptr; }
  Shape s(t->layout);
  int64_t rows = s.size[a], columns = s.size[b], step = s.stride[a] + s.stride[b];
  int64_t length = std::max<int64_t>(offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns), 0);
  int64_t start = length == 0 ? 0 : offset >= 0 ? offset * s.stride[b] : -offset * s.stride[a];
  s.drop(std::max(a, b));
  s.drop(std::min(a, b));
  s.push(length, step);
  return born(t, {ViewKind::Diagonal, {offset, a, b}, nullptr}, same_kind(t, s), t->offset + bytes_of(t, start));
}

Tensor* view_as_strided(Tensor* t, int n, const int64_t* size, const int64_t* stride, int64_t offset) {
  for (int i = 0; i < n; i++)
    if (stride[i] < 0) {
      raise(PyExc_RuntimeError, "as_strided: Negative strides are not supported at the moment, got strides: %s", ints_text(stride, n).c_str());
      return nullptr;
    }
  if (offset < 0) { raise(PyExc_RuntimeError, "Tensor: invalid storage offset %lld", (long long)offset); return nullptr; }
  for (int i = 0; i < n; i++)
    if (size[i] < 0) { raise(PyExc_RuntimeError, "Storage size calculation overflowed with sizes=%s and strides=%s", ints_text(size, n).c_str(), ints_text(stride, n).c_str()); return nullptr; }
  Layout* l = same_kind(t, n, size, stride);
  if (!l) return nullptr;
  int64_t end;
  bool overflow = __builtin_add_overflow(offset, layout_extent(l), &end) || __builtin_mul_overflow(end, (int64_t)itemsize(l->dtype), &end);
  if (l->numel && (overflow || end > t->storage->nbytes)) {
    raise(PyExc_RuntimeError, "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %d requiring a storage size of %lld are out of bounds for storage of size %lld",
      ints_text(size, n).c_str(), ints_text(stride, n).c_str(), (long long)offset, itemsize(l->dtype), (long long)(overflow ? INT64_MAX : end), (long long)t->storage->nbytes);
    decref(l);
    return nullptr;
  }
  ViewSpec spec{ViewKind::AsStrided, {n}, nullptr};
  spec.ints.insert(spec.ints.end(), size, size + n);
  spec.ints.insert(spec.ints.end(), stride, stride + n);
  spec.ints.push_back(offset);
  return born(t, std::move(spec), l, bytes_of(t, offset));
}

Tensor* view_unfold(Tensor* t, int64_t dim, int64_t window, int64_t step) {
  int d;
  if (!wrap_dim(dim, t->layout->ndim, &d)) return nullptr;
  Shape s(t->layout);
  int64_t size = s.n ? s.size[d] : 1, stride = s.n ? s.stride[d] : 1;
  if (window < 0) { raise(PyExc_RuntimeError, "size is %lld but must be >= 0", (long long)window); return nullptr; }
  if (window > size) { raise(PyExc_RuntimeError, "maximum size for tensor at dimension %d is %lld but size is %lld", d, (long long)size, (long long)window); return nullptr; }
  if (step <= 0) { raise(PyExc_RuntimeError, "step is %lld but must be > 0", (long long)step); return nullptr; }
  if (s.n) {
    s.size[d] = (size - window) / step + 1;
    if (__builtin_mul_overflow(stride, step, &s.stride[d])) s.stride[d] = stride;       // one window only: its distance to the next is never used
  }
  s.push(window, stride);
  return born(t, {ViewKind::Unfold, {d, window, step}, nullptr}, same_kind(t, s), t->offset);
}

// ------------------------------------------------------------------------------------------- complex numbers and dtypes
static Tensor* with_bits(Tensor* t, ViewKind kind, int flipped) {
  Layout* l = t->layout;
  int bits = (l->flags & (L_CONJ | L_NEG)) ^ flipped;
  return born(t, {kind, {}, nullptr}, layout_intern(l->dtype, l->device, l->ndim, l->shape(), l->strides(), bits), t->offset);
}
static bool is_complex(const Tensor* t) { return DTYPES[(int)t->layout->dtype].kind == 'c'; }
Tensor* view_conj(Tensor* t) { return is_complex(t) ? with_bits(t, ViewKind::Conj, L_CONJ) : (Tensor*)Py_NewRef((PyObject*)t); }
Tensor* view_neg(Tensor* t) { return with_bits(t, ViewKind::Neg, L_NEG); }

Tensor* view_as_real(Tensor* t) {
  if (!is_complex(t)) { raise(PyExc_RuntimeError, "view_as_real is only supported for complex tensors, but got %s%s", DTYPES[(int)t->layout->dtype].name, shape_text(t->layout).c_str()); return nullptr; }
  if (t->layout->flags & L_CONJ) {
    raise(PyExc_RuntimeError, "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can view it as real, use self.resolve_conj(); "
      "however, be warned that the resulting tensor will NOT alias the original.");
    return nullptr;
  }
  Shape s(t->layout);
  for (int i = 0; i < s.n; i++) s.stride[i] *= 2;
  s.push(2, 1);
  Layout* l = layout_intern(to_real(t->layout->dtype), t->layout->device, s.n, s.size, s.stride, t->layout->flags & L_NEG);
  return born(t, {ViewKind::ViewAsReal, {}, nullptr}, l, t->offset);
}

Tensor* view_as_complex(Tensor* t) {
  const Layout* l = t->layout;
  DType complex;
  if (DTYPES[(int)l->dtype].kind != 'f' || l->dtype == DType::BFloat16 || !to_complex(l->dtype, &complex)) {
    raise(PyExc_RuntimeError, "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: %s", dtype_scalar_name(l->dtype));
    return nullptr;
  }
  const char* wrong = nullptr;
  Shape s(l);
  if (s.n == 0) wrong = "Input tensor must have one or more dimensions";
  else if (s.size[s.n - 1] != 2) wrong = "Tensor must have a last dimension of size 2";
  else if (s.stride[s.n - 1] != 1) wrong = "Tensor must have a last dimension with stride 1";
  else if (t->offset % (2 * itemsize(l->dtype))) wrong = "Tensor must have a storage_offset divisible by 2";
  for (int i = 0; !wrong && i + 1 < s.n; i++) if (s.stride[i] % 2) wrong = "Tensor must have a stride divisible by 2 for all but last dimension";
  if (wrong) { raise(PyExc_RuntimeError, "%s\n  it has shape %s, strides %s", wrong, shape_text(l).c_str(), ints_text(l->strides(), l->ndim).c_str()); return nullptr; }
  --s.n;
  for (int i = 0; i < s.n; i++) s.stride[i] /= 2;
  return born(t, {ViewKind::ViewAsComplex, {}, nullptr}, layout_intern(complex, l->device, s.n, s.size, s.stride, l->flags & L_NEG), t->offset);
}

// One part of each number; of a conjugated tensor the imaginary parts are negated, which is a bit as well.
static Tensor* part(Tensor* t, int which) {
  bool conjugated = t->layout->flags & L_CONJ;
  Tensor* plain = conjugated ? view_conj(t) : (Tensor*)Py_NewRef((PyObject*)t);
  Tensor* pairs = plain ? view_as_real(plain) : nullptr;
  Py_XDECREF(plain);
  Tensor* out = pairs ? view_select(pairs, -1, which) : nullptr;
  Py_XDECREF(pairs);
  if (out && conjugated && which) {
    Tensor* negated = view_neg(out);
    Py_DECREF(out);
    return negated;
  }
  return out;
}
Tensor* view_real(Tensor* t) { return is_complex(t) ? part(t, 0) : (Tensor*)Py_NewRef((PyObject*)t); }
Tensor* view_imag(Tensor* t) {
  if (!is_complex(t)) { raise(PyExc_RuntimeError, "imag is not implemented for tensors with non-complex dtypes. This one is %s%s", DTYPES[(int)t->layout->dtype].name, shape_text(t->layout).c_str()); return nullptr; }
  return part(t, 1);
}

Tensor* view_dtype(Tensor* t, DType dtype) {
  const Layout* l = t->layout;
  int from = itemsize(l->dtype), to = itemsize(dtype);
  const char *a = dtype_scalar_name(l->dtype), *b = dtype_scalar_name(dtype);
  if (l->flags & L_CONJ) { raise(PyExc_RuntimeError, "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype."); return nullptr; }
  if (l->flags & L_NEG) { raise(PyExc_RuntimeError, "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different dtype."); return nullptr; }
  Shape s(l);
  if (from != to) {
    const char* tail = "(different element sizes)";
    if (s.n == 0) { raise(PyExc_RuntimeError, "self.dim() cannot be 0 to view %s as %s %s", a, b, tail); return nullptr; }
    int64_t& last = s.size[s.n - 1];
    int ratio = to > from ? to / from : from / to;
    if (to > from && last % ratio) { raise(PyExc_RuntimeError, "self.size(-1) must be divisible by %d to view %s as %s %s, but got %lld", ratio, a, b, tail, (long long)last); return nullptr; }
    if (to > from && t->offset % to) { raise(PyExc_RuntimeError, "self.storage_offset() must be divisible by %d to view %s as %s %s, but got %lld", ratio, a, b, tail, (long long)(t->offset / from)); return nullptr; }
    if (s.stride[s.n - 1] != 1) { raise(PyExc_RuntimeError, "self.stride(-1) must be 1 to view %s as %s %s, but got %lld", a, b, tail, (long long)s.stride[s.n - 1]); return nullptr; }
    if (to < from) {
      last *= ratio;
      for (int i = 0; i + 1 < s.n; i++) s.stride[i] *= ratio;
    } else {
      for (int i = 0; i + 1 < s.n; i++) {
        if (s.stride[i] % ratio) { raise(PyExc_RuntimeError, "self.stride(%d) must be divisible by %d to view %s as %s %s, but got %lld", i, ratio, a, b, tail, (long long)s.stride[i]); return nullptr; }
        s.stride[i] /= ratio;
      }
      last /= ratio;
    }
  }
  // As in torch no differentiable view: the tape does not know of it, only the version counter is shared.
  Layout* seen = layout_intern(dtype, l->device, s.n, s.size, s.stride);
  if (!seen) return nullptr;
  incref(t->storage);
  Tensor* out = tensor_wrap(seen, t->storage, t->offset);
  if (out) { version_share(t, out); out->bits |= t->bits & T_INFERENCE; }
  return out;
}

Tensor* view_alias(Tensor* t) {
  incref(t->layout);
  return born(t, {ViewKind::Alias, {}, nullptr}, t->layout, t->offset);
}

// ------------------------------------------------------------------------------------------------------------- replay
// The spec was made from valid arguments; on a base of another shape the checks above run again.
Tensor* view_apply(Tensor* t, const ViewSpec& spec) {
  const int64_t* v = spec.ints.data();
  int n = (int)spec.ints.size();
  switch (spec.kind) {
    case ViewKind::Alias: return view_alias(t);
    case ViewKind::Reshape: return view_reshape(t, n, v, false);
    case ViewKind::Permute: return permute_named(t, n, v, spec.name);
    case ViewKind::Expand: return view_expand(t, n, v);
    case ViewKind::Slice: return slice_named(t, (int)v[0], v[1], v[2], v[3], spec.name);
    case ViewKind::Select: return select_named(t, (int)v[0], v[1], spec.name);
    case ViewKind::Squeeze: {
      uint64_t dims = 0;
      for (int64_t d : spec.ints) dims |= (uint64_t)1 << d;
      return view_squeeze(t, dims, spec.name);
    }
    case ViewKind::Unsqueeze: return view_unsqueeze(t, (int)v[0]);
    case ViewKind::Diagonal: return view_diagonal(t, v[0], v[1], v[2]);
    case ViewKind::AsStrided: return view_as_strided(t, (int)v[0], v + 1, v + 1 + v[0], v[1 + 2 * v[0]]);
    case ViewKind::Unfold: return view_unfold(t, v[0], v[1], v[2]);
    case ViewKind::Conj: return view_conj(t);
    case ViewKind::Neg: return view_neg(t);
    case ViewKind::ViewAsReal: return view_as_real(t);
    case ViewKind::ViewAsComplex: return view_as_complex(t);
    case ViewKind::DType: return view_dtype(t, (DType)v[0]);
    case ViewKind::Detach: return tensor_alias(t);
  }
  raise(PyExc_SystemError, "an unknown kind of view");
  return nullptr;
}

}  // namespace rl
