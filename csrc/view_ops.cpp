// The public view operators, as native ops: each reads its arguments in schema order and calls a function of views.cpp. The schemas are in
// src/rushlight/ops/views.py, under the same names:
//
//   view(Tensor self, SymInt[] size) | (Tensor self, ScalarType dtype)        reshape(Tensor self, SymInt[] shape)
//   view_as reshape_as expand_as(Tensor self, Tensor other)                   expand(Tensor self, SymInt[] size, *, bool implicit=False)
//   broadcast_to(Tensor self, SymInt[] size)                                  flatten(Tensor self, int start_dim=0, int end_dim=-1)
//   unflatten(Tensor self, int dim, SymInt[] sizes)                           ravel t adjoint conj _conj _neg_view resolve_conj resolve_neg(Tensor self)
//   permute(Tensor self, int[] dims)                                          transpose(Tensor self, int dim0, int dim1), swapaxes, swapdims
//   movedim moveaxis(Tensor self, int[1] source, int[1] destination)          squeeze(Tensor self) | (.., int dim) | (.., int[] dim)
//   unsqueeze(Tensor self, int dim)                                           slice(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)
//   narrow(Tensor self, int dim, SymInt|Tensor start, SymInt length)                 select(Tensor self, int dim, SymInt index)
//   diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1)               unfold(Tensor self, int dimension, SymInt size, SymInt step)
//   as_strided(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)
//   split(Tensor self, SymInt split_size, int dim=0) | (.., SymInt[] split_size, int dim=0); split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0)
//   chunk(Tensor self, int chunks, int dim=0)                                 unbind(Tensor self, int dim=0)
//   tensor_split(Tensor self, SymInt sections, int dim=0) | (.., SymInt[] indices, int dim=0) | (.., Tensor tensor_indices_or_sections, int dim=0)
//   hsplit vsplit dsplit(Tensor self, SymInt sections) | (.., SymInt[] indices)
//   view_as_real view_as_complex real imag detach alias(Tensor self)          contiguous(Tensor self, *, MemoryFormat memory_format=contiguous_format)
//   in place: squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_ t_ as_strided_
//
// Overloads are told apart by Call::overload, the index of the signature.
#include "tensor.h"
#include <algorithm>

namespace rl {

static int one(Tensor* t, PyObject** outs) { outs[0] = (PyObject*)t; return t ? 1 : -1; }
static int itself(Tensor* t, PyObject** outs) { outs[0] = Py_NewRef((PyObject*)t); return 1; }

// ------------------------------------------------------------------------------------------------------ one result
static int n_view(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  if (c.overload == 1) { DType d; return a.dtype(&d) ? one(view_dtype(t, d), outs) : itself(t, outs); }
  const int64_t* sizes;
  int n = a.sym_list(&sizes);
  return one(view_reshape(t, n, sizes, false), outs);
}
static int n_reshape(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  const int64_t* sizes;
  int n = a.sym_list(&sizes);
  return one(view_reshape(t, n, sizes, true), outs);
}
static int n_view_as(Call& c, PyObject** outs, int) { Layout* l = c.t[1]->layout; return one(view_reshape(c.t[0], l->ndim, l->shape(), false), outs); }
static int n_reshape_as(Call& c, PyObject** outs, int) { Layout* l = c.t[1]->layout; return one(view_reshape(c.t[0], l->ndim, l->shape(), true), outs); }
static int n_expand_as(Call& c, PyObject** outs, int) { Layout* l = c.t[1]->layout; return one(view_expand(c.t[0], l->ndim, l->shape()), outs); }
static int n_expand(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  const int64_t* sizes;
  int n = a.sym_list(&sizes);
  return one(view_expand(t, n, sizes), outs);
}
static int n_flatten(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  const Layout* l = t->layout;
  int first, last;
  if (!wrap_dim(a.integer(), l->ndim, &first) || !wrap_dim(a.integer(), l->ndim, &last)) return -1;
  if (first > last) { raise(PyExc_RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim. Got %d and %d for a tensor of shape %s", first, last, shape_text(l).c_str()); return -1; }
  if (l->ndim && first == last) return itself(t, outs);
  int64_t sizes[MAX_DIMS + 1], run = 1;
  int n = 0;
  for (int i = 0; i < first; i++) sizes[n++] = l->shape()[i];
  for (int i = first; i <= last && i < l->ndim; i++) run *= l->shape()[i];
  sizes[n++] = run;
  for (int i = last + 1; i < l->ndim; i++) sizes[n++] = l->shape()[i];
  return one(view_reshape(t, n, sizes, true), outs);
}
static int n_ravel(Call& c, PyObject** outs, int) {          // a view only of what is contiguous, even where another layout would do
  Tensor* t = c.t[0];
  Op* clone = t->layout->flags & L_CONTIGUOUS ? nullptr : op_find("clone");
  if (!clone && !(t->layout->flags & L_CONTIGUOUS)) return -1;
  Tensor* dense = clone ? call_op(clone, {t}, {}, {(uint64_t)MemoryFormat::Contiguous}) : (Tensor*)Py_NewRef((PyObject*)t);
  if (!dense) return -1;
  int64_t all = t->layout->numel;
  Tensor* out = view_reshape(dense, 1, &all, false);
  Py_DECREF(dense);
  return one(out, outs);
}
static int n_unflatten(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  const Layout* l = t->layout;
  int64_t dim = a.integer();
  const int64_t* given;
  int n = a.sym_list(&given), d;
  if (n == 0) { raise(PyExc_RuntimeError, "unflatten: sizes must be non-empty"); return -1; }
  if (l->ndim == 0) { raise(PyExc_RuntimeError, "unflatten got an unexpected error:\nDimension specified as %lld but tensor has no dimensions", (long long)dim); return -1; }
  if (!wrap_dim(dim, l->ndim, &d)) return -1;
  int64_t product = 1, sizes[MAX_DIMS * 2], size = l->shape()[d];
  int unknown = -1, unknowns = 0;
  bool negative = false;
  for (int i = 0; i < n && n <= MAX_DIMS; i++) {
    if (given[i] == -1) { unknown = i; ++unknowns; } else if (given[i] < 0) negative = true;
    else if (__builtin_mul_overflow(product, given[i], &product)) product = -1;
  }
  if (n > MAX_DIMS) { raise(PyExc_RuntimeError, "tensor has too many (>%d) dims", MAX_DIMS); return -1; }
  if (unknowns > 1) { raise(PyExc_RuntimeError, "unflatten got an unexpected error:\nonly one dimension can be inferred"); return -1; }
  if (negative) { raise(PyExc_RuntimeError, "unflatten got an unexpected error:\ninvalid shape dimension in %s", ints_text(given, n).c_str()); return -1; }
  if (unknowns && product == 0 && size == 0) {
    raise(PyExc_RuntimeError, "unflatten got an unexpected error:\ncannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be any value and is ambiguous", ints_text(given, n).c_str());
    return -1;
  }
  if (negative || product < 0 || (unknowns ? product <= 0 || size % product != 0 : product != size)) {
    raise(PyExc_RuntimeError, "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in the input tensor", ints_text(given, n).c_str(), d, (long long)size);
    return -1;
  }
  int m = 0;
  for (int i = 0; i < d; i++) sizes[m++] = l->shape()[i];
  for (int i = 0; i < n; i++) sizes[m++] = i == unknown ? size / product : given[i];
  for (int i = d + 1; i < l->ndim; i++) sizes[m++] = l->shape()[i];
  return one(view_reshape(t, m, sizes, false), outs);
}

static int n_permute(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  const int64_t* dims;
  int n = a.int_list(&dims);
  return one(view_permute(t, n, dims, "PermuteBackward0"), outs);
}
static int n_transpose(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t i = a.integer(), j = a.integer();
  return one(view_transpose(t, i, j, "TransposeBackward0"), outs);
}
static bool at_most_matrix(Tensor* t, const char* name) {
  if (t->layout->ndim <= 2) return true;
  raise(PyExc_RuntimeError, "%s() expects a tensor with <= 2 dimensions, but self is %dD", name, t->layout->ndim);
  return false;
}
static Tensor* view_t(Tensor* t, const char* name = "t") {
  if (!at_most_matrix(t, name)) return nullptr;
  return view_transpose(t, 0, t->layout->ndim < 2 ? 0 : 1, "TBackward0");
}
static int n_t(Call& c, PyObject** outs, int) { return one(view_t(c.t[0]), outs); }
static int n_adjoint(Call& c, PyObject** outs, int) {
  Tensor* t = c.t[0];
  if (t->layout->ndim == 1) { raise(PyExc_RuntimeError, "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."); return -1; }
  Tensor* turned = t->layout->ndim ? view_transpose(t, -2, -1, "TransposeBackward0") : (Tensor*)Py_NewRef((PyObject*)t);
  if (!turned) return -1;
  Tensor* out = view_conj(turned);
  Py_DECREF(turned);
  return one(out, outs);
}
static int n_movedim(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  const int64_t *source, *destination;
  int n = a.int_list(&source), m = a.int_list(&destination), ndim = t->layout->ndim;
  if (n != m) {
    raise(PyExc_RuntimeError, "movedim: Invalid source or destination dims: source (%s dims) should contain the same number of dims as destination (%s dims)", ints_text(source, n).c_str(), ints_text(destination, m).c_str());
    return -1;
  }
  int64_t order[MAX_DIMS];
  uint64_t from_seen = 0, to_seen = 0;
  for (int i = 0; i < n; i++) {
    int from, to;
    if (!wrap_dim(source[i], ndim, &from) || !wrap_dim(destination[i], ndim, &to)) return -1;
    if (from_seen >> from & 1) { raise(PyExc_RuntimeError, "movedim: repeated dim in `source` (%s)", ints_text(source, n).c_str()); return -1; }
    if (to_seen >> to & 1) { raise(PyExc_RuntimeError, "movedim: repeated dim in `destination` (%s)", ints_text(destination, m).c_str()); return -1; }
    from_seen |= (uint64_t)1 << from;
    to_seen |= (uint64_t)1 << to;
    order[to] = from;
  }
  if (ndim == 0) return one(view_alias(t), outs);
  for (int to = 0, from = 0; to < ndim; to++) {
    if (to_seen >> to & 1) continue;
    while (from_seen >> from & 1) ++from;
    order[to] = from++;
  }
  return one(view_permute(t, ndim, order, "PermuteBackward0"), outs);
}

static Tensor* squeezed(Call& c) {
  Args a(c);
  Tensor* t = a.tensor();
  int ndim = t->layout->ndim, d;
  if (c.overload == 0) return view_squeeze(t, ~(uint64_t)0, "SqueezeBackward0");
  if (c.overload == 1) return wrap_dim(a.integer(), ndim, &d) ? view_squeeze(t, (uint64_t)1 << d, "SqueezeBackward1") : nullptr;
  const int64_t* dims;
  int n = a.int_list(&dims);
  uint64_t mask = 0;
  for (int i = 0; i < n; i++) {
    if (!wrap_dim(dims[i], ndim, &d)) return nullptr;
    if (mask >> d & 1) { raise(PyExc_RuntimeError, "dim %d appears multiple times in the list of dims", d); return nullptr; }
    mask |= (uint64_t)1 << d;
  }
  return view_squeeze(t, mask, "SqueezeBackward2");
}
static int n_squeeze(Call& c, PyObject** outs, int) { return one(squeezed(c), outs); }
static int n_unsqueeze(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int d;
  return wrap_dim(a.integer(), t->layout->ndim + 1, &d) ? one(view_unsqueeze(t, d), outs) : -1;
}
static int n_slice(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t dim = a.integer(), start = 0, stop = INT64_MAX;
  a.maybe_sym(&start);
  a.maybe_sym(&stop);
  int64_t step = a.sym();
  int d;
  if (t->layout->ndim && !wrap_dim(dim, t->layout->ndim, &d)) return -1;
  return one(view_slice(t, t->layout->ndim ? d : 0, start, stop, step), outs);
}
static int n_narrow(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t dim = a.integer(), start = 0;
  if (c.overload == 0) {
    start = a.sym();
  } else {                                     // a tensor says where
    Tensor* place = a.tensor();
    char kind = DTYPES[(int)place->layout->dtype].kind;
    if (place->layout->ndim || (kind != 'i' && kind != 'u')) { raise(PyExc_RuntimeError, "start must be an 0-dim integral Tensor."); return -1; }
    PyObject* number = tensor_item(place);
    if (!number) return -1;
    start = PyLong_AsLongLong(number);
    Py_DECREF(number);
    if (start == -1 && PyErr_Occurred()) return -1;
  }
  return one(view_narrow(t, dim, start, a.sym()), outs);
}
static int n_select(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t dim = a.integer(), index = a.sym();
  if (dim < INT32_MIN || dim > INT32_MAX) { int d; wrap_dim(dim, t->layout->ndim, &d); return -1; }
  return one(view_select(t, (int)dim, index), outs);
}
static int n_diagonal(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t offset = a.integer(), dim1 = a.integer(), dim2 = a.integer();
  return one(view_diagonal(t, offset, dim1, dim2), outs);
}
static Tensor* strided(Call& c) {
  Args a(c);
  Tensor* t = a.tensor();
  const int64_t *size, *stride;
  int n = a.sym_list(&size), m = a.sym_list(&stride);
  int64_t offset = t->offset / itemsize(t->layout->dtype);
  a.maybe_sym(&offset);
  if (n != m) { raise(PyExc_RuntimeError, "mismatch in length of strides and shape\n  size is %s, stride is %s", ints_text(size, n).c_str(), ints_text(stride, m).c_str()); return nullptr; }
  return view_as_strided(t, n, size, stride, offset);
}
static int n_as_strided(Call& c, PyObject** outs, int) { return one(strided(c), outs); }
static int n_unfold(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t dim = a.integer(), window = a.sym(), step = a.sym();
  return one(view_unfold(t, dim, window, step), outs);
}

// ------------------------------------------------------------------------------------------ bits, parts, copies on need
static int n_conj(Call& c, PyObject** outs, int) { return one(view_conj(c.t[0]), outs); }
static int n_conj_view(Call& c, PyObject** outs, int) { return one(view_conj(c.t[0]), outs); }
static int n_neg_view(Call& c, PyObject** outs, int) { return one(view_neg(c.t[0]), outs); }
static int n_view_as_real(Call& c, PyObject** outs, int) { return one(view_as_real(c.t[0]), outs); }
static int n_view_as_complex(Call& c, PyObject** outs, int) { return one(view_as_complex(c.t[0]), outs); }
static int n_real(Call& c, PyObject** outs, int) { return one(view_real(c.t[0]), outs); }
static int n_imag(Call& c, PyObject** outs, int) { return one(view_imag(c.t[0]), outs); }
static int n_detach(Call& c, PyObject** outs, int) { return one(tensor_alias(c.t[0]), outs); }
static int n_positive(Call& c, PyObject** outs, int) {
  if (c.t[0]->layout->dtype == DType::Bool) { raise(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported."); return -1; }
  return itself(c.t[0], outs);
}
static int n_alias(Call& c, PyObject** outs, int) { return one(view_alias(c.t[0]), outs); }

static int copied(Tensor* t, uint64_t format, PyObject** outs) {
  Op* clone = op_find("clone");
  return clone ? one(call_op(clone, {t}, {}, {format}), outs) : -1;
}
static int n_resolve_conj(Call& c, PyObject** outs, int) { return c.t[0]->layout->flags & L_CONJ ? copied(c.t[0], ABSENT, outs) : itself(c.t[0], outs); }
static int n_resolve_neg(Call& c, PyObject** outs, int) { return c.t[0]->layout->flags & L_NEG ? copied(c.t[0], ABSENT, outs) : itself(c.t[0], outs); }
static int n_contiguous(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int code = a.code();
  MemoryFormat format = code < 0 ? MemoryFormat::Contiguous : (MemoryFormat)code;
  if (layout_contiguous(t->layout, format)) return itself(t, outs);
  int n = t->layout->ndim;
  if (format == MemoryFormat::Preserve) { raise(PyExc_RuntimeError, "preserve memory format is unsupported by the contiguous operator"); return -1; }
  if (format == MemoryFormat::ChannelsLast && n != 4) { raise(PyExc_RuntimeError, "required rank 4 tensor to use channels_last format, but got shape %s", shape_text(t->layout).c_str()); return -1; }
  if (format == MemoryFormat::ChannelsLast3d && n != 5) { raise(PyExc_RuntimeError, "required rank 5 tensor to use channels_last_3d format, but got shape %s", shape_text(t->layout).c_str()); return -1; }
  return copied(t, (uint64_t)format, outs);
}

// ----------------------------------------------------------------------------------------------------- several results
// Collects views into `outs`. `function` names a multi-output function: in-place on its outputs is refused.
struct Pieces {
  PyObject** outs;
  int count = 0;
  const char* function;
  bool fits;
  Pieces(PyObject** into, int max, int64_t n, const char* multi_output) : outs(into), function(multi_output), fits(n <= max) {
    if (!fits) raise(PyExc_RuntimeError, "too many pieces: %lld (at most %d can be returned here)", (long long)n, max);
  }
  bool add(Tensor* t) {
    if (!t) return false;
    if (function) view_mark_multi_output(t, count, function);
    outs[count++] = (PyObject*)t;
    return true;
  }
  int fail() { while (count) Py_DECREF(outs[--count]); return -1; }
};

static int split_evenly(Tensor* t, int64_t size, int64_t dim, PyObject** outs, int max) {
  int d;
  if (t->layout->ndim == 0) { raise(PyExc_RuntimeError, "split expects at least a 1-dimensional tensor"); return -1; }
  if (size < 0) { raise(PyExc_RuntimeError, "split expects split_size be non-negative, but got split_size=%lld", (long long)size); return -1; }
  if (!wrap_dim(dim, t->layout->ndim, &d)) return -1;
  int64_t total = t->layout->shape()[d];
  if (size == 0 && total != 0) { raise(PyExc_RuntimeError, "split_size can only be 0 if dimension size is 0, but got dimension size of %lld", (long long)total); return -1; }
  int64_t count = size ? std::max<int64_t>((total - 1) / size + 1, 1) : 1;
  if (total == 0) count = 1;
  Pieces pieces(outs, max, count, "Split");
  if (!pieces.fits) return -1;
  for (int64_t i = 0; i < count; i++)
    if (!pieces.add(view_piece(t, d, i * size, i + 1 == count ? total : (i + 1) * size, "SplitBackward0"))) return pieces.fail();
  return pieces.count;
}
static int split_by_sizes(Tensor* t, int n, const int64_t* sizes, int64_t dim, PyObject** outs, int max) {
  int d;
  if (t->layout->ndim == 0) { raise(PyExc_RuntimeError, "split expects at least a 1-dimensional tensor"); return -1; }
  if (!wrap_dim(dim, t->layout->ndim, &d)) return -1;
  int64_t total = t->layout->shape()[d], sum = 0;
  for (int i = 0; i < n; i++) {
    if (sizes[i] < 0) { raise(PyExc_RuntimeError, "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s", ints_text(sizes, n).c_str()); return -1; }
    if (__builtin_add_overflow(sum, sizes[i], &sum)) sum = INT64_MAX;
  }
  if (sum != total) {
    raise(PyExc_RuntimeError, "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at dimension %lld), but got split_sizes=%s", (long long)total, (long long)dim, ints_text(sizes, n).c_str());
    return -1;
  }
  Pieces pieces(outs, max, n, "SplitWithSizes");
  if (!pieces.fits) return -1;
  for (int64_t i = 0, at = 0; i < n; at += sizes[i++])
    if (!pieces.add(view_piece(t, d, at, at + sizes[i], "SplitWithSizesBackward0"))) return pieces.fail();
  return pieces.count;
}
static int n_split(Call& c, PyObject** outs, int max) {
  Args a(c);
  Tensor* t = a.tensor();
  if (c.overload % 2 == 0) {                     // even signatures take one size, odd ones a list
    int64_t size = a.sym(), dim = a.integer();
    return split_evenly(t, size, dim, outs, max);
  }
  const int64_t* sizes;
  int n = a.sym_list(&sizes);
  return split_by_sizes(t, n, sizes, a.integer(), outs, max);
}
static int n_split_with_sizes(Call& c, PyObject** outs, int max) {
  Args a(c);
  Tensor* t = a.tensor();
  const int64_t* sizes;
  int n = a.sym_list(&sizes);
  return split_by_sizes(t, n, sizes, a.integer(), outs, max);
}
static int n_chunk(Call& c, PyObject** outs, int max) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t chunks = a.integer(), dim = a.integer();
  int d;
  if (t->layout->ndim == 0) { raise(PyExc_RuntimeError, "chunk expects at least a 1-dimensional tensor"); return -1; }
  if (chunks <= 0) { raise(PyExc_RuntimeError, "chunk expects `chunks` to be greater than 0, got: %lld", (long long)chunks); return -1; }
  if (!wrap_dim(dim, t->layout->ndim, &d)) return -1;
  int64_t total = t->layout->shape()[d], size = total / chunks + (total % chunks != 0);
  if (size == 0) {                               // nothing to share out, but as many pieces as were asked for
    Pieces pieces(outs, max, chunks, "SplitWithSizes");
    if (!pieces.fits) return -1;
    for (int64_t i = 0; i < chunks; i++) if (!pieces.add(view_piece(t, d, 0, 0, "SplitWithSizesBackward0"))) return pieces.fail();
    return pieces.count;
  }
  return split_evenly(t, size, d, outs, max);
}
static int n_unbind(Call& c, PyObject** outs, int max) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t dim = a.integer();
  int d;
  if (!wrap_dim(dim, t->layout->ndim, &d)) return -1;
  if (t->layout->ndim == 0) { raise(PyExc_IndexError, "Dimension specified as %d but tensor has no dimensions", d); return -1; }
  int64_t n = t->layout->shape()[d];
  Pieces pieces(outs, max, n, "Unbind");
  if (!pieces.fits) return -1;
  for (int64_t i = 0; i < n; i++) if (!pieces.add(view_element(t, d, i, "UnbindBackward0"))) return pieces.fail();
  return pieces.count;
}

// tensor_split and its relatives are plain slices in torch: no multi-output marks.
static int sections_of(Tensor* t, int d, int64_t sections, PyObject** outs, int max) {
  if (sections <= 0) { raise(PyExc_RuntimeError, "number of sections must be larger than 0, got %lld", (long long)sections); return -1; }
  int64_t total = t->layout->shape()[d], least = total / sections, longer = total % sections, at = 0;
  Pieces pieces(outs, max, sections, nullptr);
  if (!pieces.fits) return -1;
  for (int64_t i = 0; i < sections; i++) {
    int64_t size = least + (i < longer);
    if (!pieces.add(view_piece(t, d, at, at + size, nullptr))) return pieces.fail();
    at += size;
  }
  return pieces.count;
}
static int cuts_of(Tensor* t, int d, int n, const int64_t* indices, PyObject** outs, int max) {
  Pieces pieces(outs, max, n + 1, nullptr);
  if (!pieces.fits) return -1;
  int64_t start = 0;
  for (int i = 0; i <= n; i++) {
    int64_t stop = i < n ? indices[i] : t->layout->shape()[d];
    if (!pieces.add(view_slice(t, d, start, stop, 1))) return pieces.fail();
    start = stop;
  }
  return pieces.count;
}
static int n_tensor_split(Call& c, PyObject** outs, int max) {
  Args a(c);
  Tensor* t = a.tensor();
  if (t->layout->ndim == 0) { raise(PyExc_RuntimeError, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"); return -1; }
  int d;
  if (c.overload == 0) {
    int64_t sections = a.sym();
    return wrap_dim(a.integer(), t->layout->ndim, &d) ? sections_of(t, d, sections, outs, max) : -1;
  }
  if (c.overload == 1) {
    const int64_t* indices;
    int n = a.sym_list(&indices);
    return wrap_dim(a.integer(), t->layout->ndim, &d) ? cuts_of(t, d, n, indices, outs, max) : -1;
  }
  Tensor* given = a.tensor();
  if (!wrap_dim(a.integer(), t->layout->ndim, &d)) return -1;
  if (given->layout->dtype != DType::Int64) {
    raise(PyExc_RuntimeError, "tensor_split expected tensor_indices_or_sections to have dtype of long, but got %s", dtype_scalar_name(given->layout->dtype));
    return -1;
  }
  if (given->layout->ndim > 1) {
    raise(PyExc_RuntimeError, "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a tensor with %d dims", given->layout->ndim);
    return -1;
  }
  if (given->layout->ndim == 0) {
    PyObject* number = PyNumber_Index((PyObject*)given);
    int64_t sections = number ? PyLong_AsLongLong(number) : -1;
    Py_XDECREF(number);
    return PyErr_Occurred() ? -1 : sections_of(t, d, sections, outs, max);
  }
  std::vector<int64_t> indices;
  if (!int_list((PyObject*)given, &indices)) return -1;
  return cuts_of(t, d, (int)indices.size(), indices.data(), outs, max);
}
static int split_along(Call& c, PyObject** outs, int max, const char* name, int least, int dim) {
  Args a(c);
  Tensor* t = a.tensor();
  int ndim = t->layout->ndim;
  if (ndim < least) { raise(PyExc_RuntimeError, "torch.%s requires a tensor with at least %d dimension, but got a tensor with %d dimensions!", name, least, ndim); return -1; }
  if (c.overload == 0) {
    int64_t sections = a.sym();
    if (sections == 0 || t->layout->shape()[dim] % sections) {
      raise(PyExc_RuntimeError, "torch.%s attempted to split along dimension %d, but the size of the dimension %lld is not divisible by the split_size %lld!", name, dim, (long long)t->layout->shape()[dim], (long long)sections);
      return -1;
    }
    return sections_of(t, dim, sections, outs, max);
  }
  const int64_t* indices;
  int n = a.sym_list(&indices);
  return cuts_of(t, dim, n, indices, outs, max);
}
static int n_hsplit(Call& c, PyObject** outs, int max) { return split_along(c, outs, max, "hsplit", 1, c.t[0]->layout->ndim == 1 ? 0 : 1); }
static int n_vsplit(Call& c, PyObject** outs, int max) { return split_along(c, outs, max, "vsplit", 2, 0); }
static int n_dsplit(Call& c, PyObject** outs, int max) { return split_along(c, outs, max, "dsplit", 3, 2); }

// -------------------------------------------------------------------------------------------------- in place: x.t_() …
// The tensor itself becomes the view that was made of it: shape, strides and, when it has one, the history.
static int become(Tensor* t, Tensor* view, PyObject** outs) {
  if (!view) return -1;
  incref(view->layout);
  set_layout(t, view->layout, view->offset);
  if (view->node) {                                       // recorded: t goes on from the view's node, whose edge leads to t's old one
    Node* old = t->node;
    node_incref(view->node);
    t->node = view->node;
    t->out_nr = view->out_nr;
    if (old) node_decref(old);
  }
  bump_version(t);
  if (view_base(t)) {                                     // t was a view itself: its record grows by this step
    std::swap(t->view, view->view);
    t->view->tensor = t;
    t->view->version = version_of(t);
    if (view->view) view->view->tensor = view;
  }
  Py_DECREF(view);
  return itself(t, outs);
}
static bool may_become(Tensor* t) {
  if (t->requires_grad && is_leaf(t) && tls.grad_mode) { raise(PyExc_RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation."); return false; }
  return true;
}
static int n_squeeze_(Call& c, PyObject** outs, int) { return may_become(c.t[0]) ? become(c.t[0], squeezed(c), outs) : -1; }
static int n_unsqueeze_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int d;
  return may_become(t) && wrap_dim(a.integer(), t->layout->ndim + 1, &d) ? become(t, view_unsqueeze(t, d), outs) : -1;
}
static int n_transpose_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = a.tensor();
  int64_t i = a.integer(), j = a.integer();
  return may_become(t) ? become(t, view_transpose(t, i, j, "TransposeBackward0"), outs) : -1;
}
static int n_t_(Call& c, PyObject** outs, int) { return may_become(c.t[0]) ? become(c.t[0], view_t(c.t[0], "t_"), outs) : -1; }
static int n_as_strided_(Call& c, PyObject** outs, int) { return may_become(c.t[0]) ? become(c.t[0], strided(c), outs) : -1; }

// --------------------------------------------------------------------------------------------------------------- table
bool init_views(PyObject*) {
  static const struct { const char* name; NativeOp op; } TABLE[] = {
    {"view", n_view}, {"reshape", n_reshape}, {"view_as", n_view_as}, {"reshape_as", n_reshape_as}, {"expand", n_expand}, {"expand_as", n_expand_as}, {"broadcast_to", n_expand},
    {"flatten", n_flatten}, {"ravel", n_ravel}, {"unflatten", n_unflatten}, {"permute", n_permute}, {"transpose", n_transpose}, {"t", n_t}, {"adjoint", n_adjoint},
    {"movedim", n_movedim}, {"squeeze", n_squeeze}, {"unsqueeze", n_unsqueeze}, {"slice", n_slice}, {"narrow", n_narrow}, {"select", n_select}, {"diagonal", n_diagonal},
    {"as_strided", n_as_strided}, {"unfold", n_unfold}, {"conj", n_conj}, {"_conj", n_conj_view}, {"_neg_view", n_neg_view}, {"resolve_conj", n_resolve_conj},
    {"resolve_neg", n_resolve_neg}, {"view_as_real", n_view_as_real}, {"view_as_complex", n_view_as_complex}, {"real", n_real}, {"imag", n_imag}, {"detach", n_detach},
    {"alias", n_alias}, {"positive", n_positive}, {"contiguous", n_contiguous}, {"split", n_split}, {"split_with_sizes", n_split_with_sizes}, {"chunk", n_chunk}, {"unbind", n_unbind},
    {"tensor_split", n_tensor_split}, {"hsplit", n_hsplit}, {"vsplit", n_vsplit}, {"dsplit", n_dsplit}, {"squeeze_", n_squeeze_}, {"unsqueeze_", n_unsqueeze_},
    {"transpose_", n_transpose_}, {"t_", n_t_}, {"as_strided_", n_as_strided_},
  };
  for (auto& entry : TABLE) native_register(entry.name, entry.op);
  return true;
}

}  // namespace rl
