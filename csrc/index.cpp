// x[...] and x[...] = v: how Python's index expressions become views, `index` and `index_put_`.
//
// Integers, slices, None and Ellipsis are views (views.cpp). Tensors, lists and arrays are collected as indices of the dimensions they stand at, and
// one op does them all at once: index(Tensor self, Tensor?[] indices), or _index_put in place. Masks become the positions of their
// true elements first (native op `nonzero`), so those ops see integers only.
//
// Native ops registered here: nonzero(Tensor self) -> Tensor, masked_select(Tensor self, Tensor mask) -> Tensor, where_positions(Tensor condition) -> Tensor[].
#include "element.h"
#include "op.h"
#include "tape.h"

namespace rl {


// ------------------------------------------------------------------------------------------------------------- nonzero
// An element is zero when these bits are: all but the signs of floats. NaN counts as non-zero.
static uint64_t magnitude_mask(DType d) {
  switch (d) {
    case DType::Float16: case DType::BFloat16: return 0x7fff;
    case DType::Float32: return 0x7fffffff;
    case DType::Float64: case DType::Complex128: return 0x7fffffffffffffff;
    case DType::Complex64: return 0x7fffffff7fffffff;
    case DType::Complex32: return 0x7fff7fff;
    case DType::Float8E4M3: case DType::Float8E5M2: return 0x7f;
    default: return ~uint64_t(0);
  }
}

// Calls at(position along the innermost dimension) for each non-zero element of one row.
template <class Word, class At> static void scan_row(const char* p, int64_t n, int64_t step, uint64_t mask, At at) {
  for (int64_t i = 0; i < n; i++, p += step) {
    Word w;
    std::memcpy(&w, p, sizeof w);
    if (uint64_t(w) & mask) at(i);
  }
}
template <class At> static void scan_elements(DType d, const char* p, int64_t n, int64_t step, At at) {
  uint64_t mask = magnitude_mask(d);
  switch (itemsize(d)) {
    case 1: scan_row<uint8_t>(p, n, step, mask, at); break;
    case 2: scan_row<uint16_t>(p, n, step, mask, at); break;
    case 4: scan_row<uint32_t>(p, n, step, mask, at); break;
    case 8: scan_row<uint64_t>(p, n, step, mask, at); break;
    default:
      for (int64_t i = 0; i < n; i++, p += step) {
        uint64_t w[2];
        std::memcpy(w, p, 16);
        if ((w[0] | w[1]) & mask) at(i);
      }
  }
}

// Walks a tensor row by row in logical order: row(address, coordinates of the outer dimensions).
template <class Row> static void for_each_row(const Tensor* t, Row row) {
  const Layout* l = t->layout;
  if (l->numel == 0) return;
  int outer = l->ndim ? l->ndim - 1 : 0;
  int64_t at[MAX_DIMS] = {0};
  const char* p = data_ptr(t);
  int size = itemsize(l->dtype);
  for (;;) {
    row(p, at);
    int d = outer - 1;
    for (; d >= 0; d--) {
      p += l->strides()[d] * size;
      if (++at[d] < l->shape()[d]) break;
      p -= l->strides()[d] * size * l->shape()[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

// Positions of the non-zero elements, [count, ndim], each column contiguous. Two passes: count, allocate, fill.
static Tensor* nonzero_of(Tensor* t) {
  const Layout* l = t->layout;
  if (l->device == Device::Meta) { raise(PyExc_NotImplementedError, "nonzero() of a meta tensor: how many elements are non-zero depends on data that it does not have"); return nullptr; }
  if (!materialize(t->storage)) return nullptr;
  int64_t inner = l->ndim ? l->shape()[l->ndim - 1] : 1, step = l->ndim ? l->strides()[l->ndim - 1] * itemsize(l->dtype) : 0, count = 0;
  for_each_row(t, [&](const char* p, const int64_t*) { scan_elements(l->dtype, p, inner, step, [&](int64_t) { ++count; }); });
  int64_t shape[2] = {count, l->ndim}, strides[2] = {1, count > 0 ? count : 1};
  Tensor* out = tensor_empty(DType::Int64, Device::CPU, 2, shape, strides);
  if (!out || l->ndim == 0) return out;
  int64_t* column = (int64_t*)data_ptr(out);
  int64_t k = 0;
  for_each_row(t, [&](const char* p, const int64_t* at) {
    scan_elements(l->dtype, p, inner, step, [&](int64_t i) {
      for (int d = 0; d + 1 < l->ndim; d++) column[d * count + k] = at[d];
      column[(l->ndim - 1) * count + k] = i;
      ++k;
    });
  });
  return out;
}

static int native_nonzero(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* out = nonzero_of(a.tensor());
  if (!out) return -1;
  outs[0] = (PyObject*)out;
  return 1;
}

// ------------------------------------------------------------------------------------------------- indices of one call
// The tensors that index a tensor, by dimension (null: the whole dimension). Owns its references.
struct Indices {
  std::vector<Tensor*> at;
  ~Indices() { for (Tensor* t : at) Py_XDECREF((PyObject*)t); }
  void put(int dim, Tensor* t) {      // takes t over
    if ((int)at.size() <= dim) at.resize(size_t(dim) + 1, nullptr);
    at[dim] = t;
  }
};

static bool is_mask(const Tensor* t) { return t->layout->dtype == DType::Bool || t->layout->dtype == DType::UInt8; }

// Masks become one index tensor per dimension they cover; everything else must be integers.
static bool expand_masks(Tensor* self, const Indices& given, Indices* out) {
  const Layout* l = self->layout;
  int n = (int)given.at.size();
  for (int dim = 0; dim < n; dim++) {
    Tensor* t = given.at[dim];
    if (!t) continue;
    if (is_sparse(t)) { raise(PyExc_NotImplementedError, "a sparse tensor is no index: take its to_dense() or its indices()"); return false; }
    DType d = t->layout->dtype;
    if (!is_mask(t)) {
      if (d != DType::Int64 && d != DType::Int32) { raise(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors"); return false; }
      if (dim >= l->ndim) { raise(PyExc_IndexError, "too many indices for tensor of dimension %d", l->ndim); return false; }
      out->put(dim, (Tensor*)Py_NewRef((PyObject*)t));
      continue;
    }
    if (d == DType::UInt8 && !warn(nullptr, "An index of dtype uint8 is taken for a mask, which is deprecated: masks are of dtype bool")) return false;
    int rank = t->layout->ndim;
    for (int j = 0; j < rank && dim + j < l->ndim; j++)
      if (t->layout->shape()[j] != l->shape()[dim + j]) {
        raise(PyExc_IndexError, "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index %d", shape_text(t->layout).c_str(), j, shape_text(l).c_str(), dim + j);
        return false;
      }
    if (dim + rank > l->ndim) { raise(PyExc_IndexError, "too many indices for tensor of dimension %d", l->ndim); return false; }
    Tensor* positions = nonzero_of(t);
    if (!positions) return false;
    for (int j = 0; j < rank; j++) {
      Tensor* column = view_select(positions, 1, j);
      if (!column) { Py_DECREF(positions); return false; }
      out->put(dim + j, column);
    }
    Py_DECREF(positions);
  }
  return true;
}

static Tensor* run_index(Tensor* self, const Indices& indices) {
  Indices plain;
  if (!expand_masks(self, indices, &plain)) return nullptr;
  static Op* op = nullptr;
  if (!op && !(op = op_find("index"))) return nullptr;
  Call c;
  int n = (int)plain.at.size();
  if (!call_reserve(c, n + 1, 1)) return nullptr;
  c.op = op;
  c.t[c.nt++] = self;
  c.static_words[c.nstatic++] = uint64_t(n);
  for (Tensor* t : plain.at) c.t[c.nt++] = t;
  PyObject* out = nullptr;
  return run_call(c, &out, 1) == 1 ? (Tensor*)out : nullptr;
}

// _index_put in place, or masked_fill_ when one mask receives one number.
static bool run_index_put(Tensor* self, const Indices& indices, PyObject* value) {
  Tensor* mask = nullptr;
  int where = 0, given = 0;
  for (int i = 0; i < (int)indices.at.size(); i++)
    if (indices.at[i]) { ++given; mask = indices.at[i]; where = i; }
  bool one_value = is_tensor(value) && ((Tensor*)value)->layout->numel == 1;
  if (given == 1 && mask->layout->dtype == DType::Bool && one_value) {
    int rank = mask->layout->ndim, behind = self->layout->ndim - where - rank;
    bool fits = behind >= 0;
    for (int j = 0; fits && j < rank; j++) fits = mask->layout->shape()[j] == self->layout->shape()[where + j];
    if (fits) {
      std::vector<int64_t> sizes(mask->layout->shape(), mask->layout->shape() + rank);
      sizes.resize(size_t(rank + behind), 1);
      Tensor* wide = view_reshape(mask, (int)sizes.size(), sizes.data(), true);
      Tensor* number = ((Tensor*)value)->layout->ndim == 0 ? (Tensor*)Py_NewRef(value) : view_reshape((Tensor*)value, 0, nullptr, true);
      PyObject* done = wide && number ? call_method((PyObject*)self, "masked_fill_", (PyObject*)wide, (PyObject*)number) : nullptr;
      Py_XDECREF((PyObject*)wide); Py_XDECREF((PyObject*)number); Py_XDECREF(done);
      return done != nullptr;
    }
  }
  Indices plain;
  if (!expand_masks(self, indices, &plain)) return false;
  static Op* op = nullptr;
  if (!op && !(op = op_find("_index_put"))) return false;
  Call c;
  int n = (int)plain.at.size();
  if (!call_reserve(c, n + 2, 2)) return false;
  c.op = op;
  c.form = 1;
  c.dests[c.ndest++] = self;
  c.t[c.nt++] = self;
  c.static_words[c.nstatic++] = uint64_t(n);
  for (Tensor* t : plain.at) c.t[c.nt++] = t;
  c.t[c.nt++] = (Tensor*)value;
  c.static_words[c.nstatic++] = 0;           // accumulate
  PyObject* done = nullptr;
  if (run_call(c, &done, 1) != 1) return false;
  Py_DECREF(done);
  return true;
}

// where(condition): the positions of its non-zero elements, one tensor per dimension.
static int native_where_positions(Call& c, PyObject** outs, int max) {
  Args a(c);
  Tensor* condition = a.tensor();
  Tensor* vector = condition->layout->ndim ? nullptr : view_unsqueeze(condition, 0);      // a 0-dim tensor counts as a vector of one
  if (!condition->layout->ndim && !vector) return -1;
  Tensor* positions = nonzero_of(vector ? vector : condition);
  Py_XDECREF((PyObject*)vector);
  if (!positions) return -1;
  int n = (int)positions->layout->shape()[1];
  if (n > max) { Py_DECREF((PyObject*)positions); raise(PyExc_RuntimeError, "where(): %d dimensions are too many", n); return -1; }
  for (int j = 0; j < n; j++) {
    outs[j] = (PyObject*)view_select(positions, 1, j);
    if (!outs[j]) { while (j--) Py_DECREF(outs[j]); Py_DECREF((PyObject*)positions); return -1; }
  }
  Py_DECREF((PyObject*)positions);
  return n;
}

// masked_select(self, mask): both broadcast against each other, then the positions of the mask index self. The tape sees `index`.
static int native_masked_select(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor *self = a.tensor(), *mask = a.tensor();
  if (mask->layout->dtype != DType::Bool) { raise(PyExc_RuntimeError, "masked_select: expected BoolTensor for mask, but got %s", scalar_type_name(mask->layout->dtype)); return -1; }
  const Layout *s = self->layout, *m = mask->layout;
  int n = s->ndim > m->ndim ? s->ndim : m->ndim;
  int64_t sizes[MAX_DIMS] = {1};
  for (int i = 0; i < n; i++) {
    int64_t x = i < n - s->ndim ? 1 : s->shape()[i - (n - s->ndim)], y = i < n - m->ndim ? 1 : m->shape()[i - (n - m->ndim)];
    if (x != y && x != 1 && y != 1) {
      raise(PyExc_RuntimeError, "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d", (long long)x, (long long)y, i);
      return -1;
    }
    sizes[i] = x == 1 ? y : x;
  }
  if (n == 0) n = 1;
  Tensor* wide = view_expand(self, n, sizes);
  Tensor* wide_mask = wide ? view_expand(mask, n, sizes) : nullptr;
  Tensor* out = nullptr;
  if (wide_mask) {
    Indices indices;
    indices.put(0, (Tensor*)Py_NewRef((PyObject*)wide_mask));
    out = run_index(wide, indices);
  }
  Py_XDECREF((PyObject*)wide); Py_XDECREF((PyObject*)wide_mask);
  if (!out) return -1;
  outs[0] = (PyObject*)out;
  return 1;
}

// ------------------------------------------------------------------------------------------------------ parsing the key
static const char* ZERO_DIM = "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number";

static bool is_integer(PyObject* o) {      // Python and numpy integers, not bools; what passes for an integer by its __index__
  if (PyLong_Check(o)) return !PyBool_Check(o);
  return PyIndex_Check(o) && !is_tensor(o) && (is_numpy_scalar(o) || !PySequence_Check(o));
}

static bool integer_of(PyObject* o, int64_t* out) {
  PyObject* index = PyLong_Check(o) ? Py_NewRef(o) : PyNumber_Index(o);
  if (!index) return false;
  int over = 0;
  *out = PyLong_AsLongLongAndOverflow(index, &over);
  Py_DECREF(index);
  if (over) { raise(PyExc_ValueError, "Overflow when unpacking long long"); return false; }
  return *out != -1 || !PyErr_Occurred();
}

static Tensor* select_checked(Tensor* t, int dim, int64_t index, int real_dim) {
  int64_t size = t->layout->shape()[dim];
  if (RL_UNLIKELY(index < -size || index >= size)) {
    raise(PyExc_IndexError, "index %lld is out of bounds for dimension %d with size %lld", (long long)index, real_dim, (long long)size);
    return nullptr;
  }
  return view_select(t, dim, index < 0 ? index + size : index);
}

static bool slice_bounds(PyObject* slice, int64_t size, int64_t* start, int64_t* stop, int64_t* step) {
  Py_ssize_t a, b, c;
  if (PySlice_Unpack(slice, &a, &b, &c) < 0) return false;
  if (c <= 0) { raise(PyExc_ValueError, "step must be greater than zero"); return false; }
  PySlice_AdjustIndices(size, &a, &b, c);
  *start = a; *stop = b < a ? a : b; *step = c;
  return true;
}

static Tensor* slice_of(Tensor* t, int dim, PyObject* slice) {
  if (t->layout->ndim == 0) { raise(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor."); return nullptr; }
  int64_t start, stop, step;
  return slice_bounds(slice, t->layout->shape()[dim], &start, &stop, &step) ? view_slice(t, dim, start, stop, step) : nullptr;
}

static Tensor* alias_of(Tensor* t) {
  incref(t->layout);
  return make_view(t, ViewSpec{ViewKind::Alias, {}}, t->layout, t->offset);
}

// A list, tuple or array used as an index: integers, unless it holds bools (or bytes).
static Tensor* index_tensor(PyObject* sequence) {
  if (is_numpy_array(sequence)) {
    Tensor* shared = tensor_from_numpy(sequence, false);
    if (!shared) return nullptr;
    Tensor* t = tensor_copy_to(shared, is_mask(shared) ? shared->layout->dtype : DType::Int64, Device::CPU);
    Py_DECREF(shared);
    return t;
  }
  Tensor* t = tensor_from_data(sequence, false, DType::Int64, Device::CPU);
  if (!t || is_mask(t) || t->layout->dtype == DType::Int64) return t;
  if (t->layout->numel == 0) {            // an empty list has the default dtype; as an index it is integers
    Tensor* empty = tensor_empty(DType::Int64, Device::CPU, t->layout->ndim, t->layout->shape());
    Py_DECREF(t);
    return empty;
  }
  Py_DECREF(t);
  return tensor_from_data(sequence, true, DType::Int64, Device::CPU);
}

// True, False and 0-dim masks: a new dimension of size 1, of which all or nothing is taken.
static Tensor* all_or_nothing(bool all) {
  int64_t n = all;
  Tensor* t = tensor_empty(DType::Int64, Device::CPU, 1, &n);
  if (t && all) *(int64_t*)data_ptr(t) = 0;
  return t;
}

static PyObject* bad_index(PyObject* o) {
  return raise(PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)", Py_TYPE(o)->tp_name);
}

static bool is_index_sequence(PyObject* o) { return PySequence_Check(o) && !is_tensor(o) && !is_numpy_scalar(o); }

// torch's rule, which was numpy's: a list that holds a tensor, a sequence, a slice, None or Ellipsis stands for a tuple.
static bool stands_for_tuple(PyObject* key) {
  if (is_tensor(key) || is_numpy_array(key) || !PySequence_Check(key)) return false;
  Py_ssize_t n = PySequence_Size(key);
  if (n < 0) { PyErr_Clear(); return false; }
  if (n >= 32) return false;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PySequence_GetItem(key, i);
    if (!o) { PyErr_Clear(); return false; }
    bool yes = is_tensor(o) || PySequence_Check(o) || PySlice_Check(o) || o == Py_Ellipsis || o == Py_None;
    Py_DECREF(o);
    if (yes) return true;
  }
  return false;
}

// How many dimensions of the tensor the items speak of.
static int specified_dims(PyObject* tuple) {
  int n = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject* o = PyTuple_GET_ITEM(tuple, i);
    if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) continue;
    n += is_tensor(o) && is_mask((Tensor*)o) ? ((Tensor*)o)->layout->ndim : 1;
  }
  return n;
}

// The items with lists and arrays as tensors: how many dimensions one stands for depends on whether it is a mask. New reference.
static PyObject* sequences_as_tensors(PyObject* tuple) {
  Py_ssize_t n = PyTuple_GET_SIZE(tuple), first = 0;
  while (first < n && !is_index_sequence(PyTuple_GET_ITEM(tuple, first))) ++first;
  if (first == n) return Py_NewRef(tuple);
  PyObject* items = PyTuple_New(n);
  for (Py_ssize_t i = 0; items && i < n; i++) {
    PyObject* o = PyTuple_GET_ITEM(tuple, i);
    PyObject* item = is_index_sequence(o) ? (PyObject*)index_tensor(o) : Py_NewRef(o);
    if (!item) { Py_DECREF(items); return nullptr; }
    PyTuple_SET_ITEM(items, i, item);
  }
  return items;
}

static Tensor* apply_items(Tensor* self, PyObject* tuple, Indices* indices);
// Applies what is a view and collects the rest. New reference (possibly to `self` itself), or null.
static Tensor* apply_views(Tensor* self, PyObject* tuple, Indices* indices) {
  PyObject* items = sequences_as_tensors(tuple);
  if (!items) return nullptr;
  Tensor* result = apply_items(self, items, indices);
  Py_DECREF(items);
  return result;
}

static Tensor* apply_items(Tensor* self, PyObject* tuple, Indices* indices) {
  int ndim = self->layout->ndim, specified = specified_dims(tuple);
  if (specified > ndim) { raise(PyExc_IndexError, "too many indices for tensor of dimension %d", ndim); return nullptr; }
  Tensor* t = (Tensor*)Py_NewRef((PyObject*)self);
  int dim = 0, real_dim = 0;
  auto replace = [&](Tensor* next) { Py_DECREF(t); t = next; return t != nullptr; };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject* o = PyTuple_GET_ITEM(tuple, i);
    bool is_t = is_tensor(o);
    bool truth = o == Py_True;
    if (is_t && ((Tensor*)o)->layout->ndim == 0 && !is_float_kind(((Tensor*)o)->layout->dtype) && !is_complex_kind(((Tensor*)o)->layout->dtype)) {
      PyObject* item = tensor_item((Tensor*)o);
      int64_t value = 0;
      bool ok = item && (PyBool_Check(item) ? (value = item == Py_True, true) : integer_of(item, &value));
      Py_XDECREF(item);
      if (!ok) { Py_DECREF(t); return nullptr; }
      if (!is_mask((Tensor*)o)) {
        if (!replace(select_checked(t, dim, value, real_dim++))) return nullptr;
        continue;
      }
      truth = value != 0;
    } else if (is_integer(o)) {
      int64_t value;
      if (!integer_of(o, &value)) { Py_DECREF(t); return nullptr; }
      if (!replace(select_checked(t, dim, value, real_dim++))) return nullptr;
      continue;
    } else if (PySlice_Check(o)) {
      if (!replace(slice_of(t, dim, o))) return nullptr;
      ++dim, ++real_dim;
      continue;
    } else if (o == Py_Ellipsis) {
      dim += ndim - specified, real_dim += ndim - specified;
      continue;
    } else if (o == Py_None) {
      if (!replace(view_unsqueeze(t, dim))) return nullptr;
      ++dim;
      continue;
    } else if (!PyBool_Check(o)) {
      if (!is_t) { bad_index(o); Py_DECREF(t); return nullptr; }
      Tensor* index = (Tensor*)Py_NewRef(o);
      int covers = is_mask(index) ? index->layout->ndim : 1;
      indices->put(dim, index);
      dim += covers, real_dim += covers;
      continue;
    }
    // a bool, or a 0-dim mask
    Tensor* index = all_or_nothing(truth);
    if (!index) { Py_DECREF(t); return nullptr; }
    indices->put(dim, index);
    if (!replace(view_unsqueeze(t, dim))) return nullptr;
    ++dim;
  }
  return t;
}

static PyObject* key_tuple(PyObject* key) {      // new
  if (PyTuple_Check(key)) return Py_NewRef(key);
  if (!stands_for_tuple(key)) return PyTuple_Pack(1, key);
  if (!warn(nullptr, "A list of indices for several dimensions is deprecated: x[tuple(list)] says that each is for a dimension, x[tensor(list)] that together they are one index.")) return nullptr;
  return PySequence_Tuple(key);
}

// --------------------------------------------------------------------------------------------------------- overriding
// Subclasses and modes take part in indexing as in calls: __torch_function__(Tensor.__getitem__, types, (self, key), {}).
static bool is_overridden(PyObject* self) {
  if (RL_LIKELY(is_exact(self) && !(tls.guard & G_MODE)) || (tls.guard & G_NO_DISPATCH)) return false;
  return (tls.guard & G_MODE) || has_torch_function(self);
}

static PyObject* run_override(const char* method, PyObject* self, PyObject* key, PyObject* value) {
  PyObject* handler = override_handler();
  if (!handler) return nullptr;
  PyObject* function = PyObject_GetAttrString((PyObject*)TensorType, method);
  PyObject* types = function ? PyTuple_Pack(1, (PyObject*)Py_TYPE(self)) : nullptr;
  PyObject* args = types ? (value ? PyTuple_Pack(3, self, key, value) : PyTuple_Pack(2, self, key)) : nullptr;
  PyObject* kwargs = args ? PyDict_New() : nullptr;
  PyObject* result = kwargs ? PyObject_CallFunctionObjArgs(handler, function, types, args, kwargs, nullptr) : nullptr;
  Py_XDECREF(function); Py_XDECREF(types); Py_XDECREF(args); Py_XDECREF(kwargs);
  return result;
}

// ------------------------------------------------------------------------------------------------------------------ get
PyObject* index_get(PyObject* object, PyObject* key) {
  Tensor* self = (Tensor*)object;
  if (RL_UNLIKELY(is_overridden(object))) return run_override("__getitem__", object, key, nullptr);
  if (RL_LIKELY(PyLong_CheckExact(key))) {
    int64_t index;
    if (!integer_of(key, &index)) return nullptr;
    if (RL_UNLIKELY(self->layout->ndim == 0)) return raise(PyExc_IndexError, ZERO_DIM);
    return (PyObject*)select_checked(self, 0, index, 0);
  }
  if (PySlice_Check(key)) return (PyObject*)slice_of(self, 0, key);
  if (key == Py_None) return (PyObject*)view_unsqueeze(self, 0);
  if (key == Py_Ellipsis) return (PyObject*)alias_of(self);
  if (is_integer(key) && self->layout->ndim == 0) return raise(PyExc_IndexError, ZERO_DIM);
  PyObject* tuple = key_tuple(key);
  if (!tuple) return nullptr;
  Indices indices;
  Tensor* t = apply_views(self, tuple, &indices);
  Py_DECREF(tuple);
  if (!t) return nullptr;
  Tensor* result = !indices.at.empty() ? run_index(t, indices) : t == self ? alias_of(self) : (Tensor*)Py_NewRef((PyObject*)t);
  Py_DECREF(t);
  return (PyObject*)result;
}

// ------------------------------------------------------------------------------------------------------------------ set
static bool does_not_fit(const char* type) {
  raise(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", type);
  return false;
}

// What torch checks when a number is written into a tensor; the numbers themselves are converted by fill_.
static bool check_number(DType d, PyObject* value) {
  static const char* names[] = {"bool", "uint8_t", "int8_t", "int16_t", "int", "int64_t", "at::Half", "at::BFloat16", "float", "double"};
  const char* name = (int)d < 10 ? names[(int)d] : DTYPES[(int)d].name;
  char kind = DTYPES[(int)d].kind;
  if (PyComplex_Check(value)) {
    Py_complex c = PyComplex_AsCComplex(value);
    return kind == 'c' || c.imag == 0 ? true : does_not_fit(name);
  }
  if (PyFloat_Check(value)) {
    double v = PyFloat_AS_DOUBLE(value);
    if (kind == 'i' || kind == 'u') {
      int bits = itemsize(d) * 8 - (kind == 'i');
      double top = std::ldexp(1.0, bits);
      if (!(v < top && v >= (kind == 'i' ? -top : -top + 1))) return does_not_fit(name);
    }
    if (d == DType::Float32 && std::isfinite(v) && std::fabs(v) > 3.4028234663852886e38) return does_not_fit(name);
    return true;
  }
  int64_t v;
  if (PyBool_Check(value) || kind == 'b') return true;
  if (d == DType::UInt64) return true;
  if (!integer_of(value, &v)) return false;
  if ((kind == 'i' || kind == 'u') && itemsize(d) < 8) {
    int64_t top = int64_t(1) << (itemsize(d) * 8 - (kind == 'i'));
    if (v >= top || v < (kind == 'i' ? -top : -top + 1)) return does_not_fit(name);
  }
  return true;
}

// A number as a 0-dim tensor of the dtype it is written into, truncated and wrapped as fill_ would.
static Tensor* number_tensor(DType d, PyObject* value) {
  Tensor* t = tensor_empty(d, Device::CPU, 0, nullptr);
  if (t && !element_store(d, data_ptr(t), value)) Py_CLEAR(t);
  return t;
}

// Nothing on the tape or in a recording can see the write: store it here.
static bool may_store_directly(const Tensor* t) {
  if (tls.guard || t->requires_grad || t->layout->device != Device::CPU || (t->layout->flags & (L_CONJ | L_NEG)) || (t->bits & T_INFERENCE)) return false;
  if (!t->view) return true;
  Tensor* base = view_base(t);
  return !base || !base->requires_grad;
}

static bool write_number(Tensor* target, PyObject* value) {
  if (!check_number(target->layout->dtype, value)) return false;
  if (target->layout->numel == 1 && may_store_directly(target)) {
    if (!materialize(target->storage) || !element_store(target->layout->dtype, data_ptr(target), value)) return false;
    bump_version(target);
    return true;
  }
  if (!refuse_self_overlap(target)) return false;      // fill_ itself allows it, as torch's does
  PyObject* done = call_method((PyObject*)target, "fill_", value);
  Py_XDECREF(done);
  return done != nullptr;
}

// `value` without the leading dimensions of size 1 that `target` does not have. New reference.
static Tensor* drop_leading_ones(Tensor* value, int ndim) {
  const Layout* l = value->layout;
  int first = 0;
  while (l->ndim - first > ndim && l->shape()[first] == 1) ++first;
  return first ? view_reshape(value, l->ndim - first, l->shape() + first, true) : (Tensor*)Py_NewRef((PyObject*)value);
}

static bool write_tensor(Tensor* target, Tensor* given) {
  Tensor* value = drop_leading_ones(given, target->layout->ndim);
  if (!value) return false;
  const Layout *to = target->layout, *from = value->layout;
  bool ok = true;
  if (from->ndim > to->ndim) {
    raise(PyExc_RuntimeError, "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
          scalar_type_name(from->dtype), shape_text(from).c_str(), shape_text(to).c_str(), to->ndim, from->ndim);
    ok = false;
  }
  for (int i = from->ndim - 1; ok && i >= 0; i--) {
    int k = i + to->ndim - from->ndim;
    if (from->shape()[i] == 1 || from->shape()[i] == to->shape()[k]) continue;
    raise(PyExc_RuntimeError, "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
          (long long)to->shape()[k], (long long)from->shape()[i], k, shape_text(to).c_str(), shape_text(from).c_str());
    ok = false;
  }
  PyObject* done = ok ? call_method((PyObject*)target, "copy_", (PyObject*)value) : nullptr;
  Py_DECREF(value);
  Py_XDECREF(done);
  return done != nullptr;
}

static bool is_number(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) || is_integer(o); }

static bool write(Tensor* target, PyObject* value) { return is_tensor(value) ? write_tensor(target, (Tensor*)value) : write_number(target, value); }
static int write_and_drop(Tensor* target, PyObject* value) {      // takes target over
  if (!target) return -1;
  bool ok = write(target, value);
  Py_DECREF(target);
  return ok ? 0 : -1;
}

int index_set(PyObject* object, PyObject* key, PyObject* value) {
  Tensor* self = (Tensor*)object;
  if (!value) { raise(PyExc_TypeError, "Tensor does not support deleting items"); return -1; }
  if (RL_UNLIKELY(is_overridden(object))) {
    PyObject* done = run_override("__setitem__", object, key, value);
    Py_XDECREF(done);
    return done ? 0 : -1;
  }
  if (!is_tensor(value) && !is_number(value)) {
    raise(PyExc_TypeError, "can't assign a %s to a torch.%sTensor", Py_TYPE(value)->tp_name, scalar_type_name(self->layout->dtype));
    return -1;
  }
  if (is_tensor(value) && is_sparse((Tensor*)value)) {
    raise(PyExc_RuntimeError, "copy_() between dense and sparse Tensors is not implemented! Assign value.to_dense()");
    return -1;
  }
  if (key == Py_Ellipsis) return write(self, value) ? 0 : -1;
  if (key == Py_False) return 0;
  if (key == Py_True || key == Py_None) return write_and_drop(view_unsqueeze(self, 0), value);
  if (PySlice_Check(key)) return write_and_drop(slice_of(self, 0, key), value);
  if (is_integer(key)) {
    int64_t index;
    if (!integer_of(key, &index)) return -1;
    if (self->layout->ndim == 0) { raise(PyExc_IndexError, ZERO_DIM); return -1; }
    return write_and_drop(select_checked(self, 0, index, 0), value);
  }
  PyObject* tuple = key_tuple(key);
  if (!tuple) return -1;
  Indices indices;
  Tensor* t = apply_views(self, tuple, &indices);
  Py_DECREF(tuple);
  if (!t) return -1;
  if (indices.at.empty()) return write_and_drop(t, value);
  Tensor* values = nullptr;
  if (!is_tensor(value)) values = check_number(t->layout->dtype, value) ? number_tensor(t->layout->dtype, value) : nullptr;
  else values = drop_leading_ones((Tensor*)value, 0);
  bool ok = values && run_index_put(t, indices, (PyObject*)values);
  Py_XDECREF((PyObject*)values);
  Py_DECREF(t);
  return ok ? 0 : -1;
}

// -------------------------------------------------------------------------------------------------------------- module
static PyObject* module_nonzero(PyObject*, PyObject* tensor) {
  if (!is_tensor(tensor)) return raise(PyExc_TypeError, "nonzero(): argument 'input' (position 1) must be Tensor, not %s", Py_TYPE(tensor)->tp_name);
  return (PyObject*)nonzero_of((Tensor*)tensor);
}

// index_positions(tensor, indices) -> tuple: the same indices with masks replaced by the positions of their true elements, one tensor per dimension.
static PyObject* index_positions(PyObject*, PyObject* args) {
  PyObject *tensor, *sequence;
  if (!PyArg_ParseTuple(args, "OO:index_positions", &tensor, &sequence)) return nullptr;
  if (!is_tensor(tensor)) return raise(PyExc_TypeError, "index_positions(): argument 1 must be Tensor, not %s", Py_TYPE(tensor)->tp_name);
  PyObject* items = PySequence_Fast(sequence, "indices must be a tuple of tensors and None");
  if (!items) return nullptr;
  Indices given, plain;
  int dim = 0;
  bool ok = true;
  for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(items); i++) {
    PyObject* o = PySequence_Fast_GET_ITEM(items, i);
    if (o == Py_None) { ++dim; continue; }
    ok = is_tensor(o);
    if (!ok) { raise(PyExc_TypeError, "indices must be tensors or None, not %s", Py_TYPE(o)->tp_name); break; }
    given.put(dim, (Tensor*)Py_NewRef(o));
    dim += is_mask((Tensor*)o) ? ((Tensor*)o)->layout->ndim : 1;
  }
  Py_DECREF(items);
  if (!ok || !expand_masks((Tensor*)tensor, given, &plain)) return nullptr;
  PyObject* result = PyTuple_New((Py_ssize_t)plain.at.size());
  for (size_t i = 0; result && i < plain.at.size(); i++) PyTuple_SET_ITEM(result, (Py_ssize_t)i, Py_NewRef(plain.at[i] ? (PyObject*)plain.at[i] : Py_None));
  return result;
}

static PyMethodDef functions[] = {
    {"nonzero", module_nonzero, METH_O, "nonzero(input)\n--\n\nThe positions of the non-zero elements, one row each."},
    {"index_positions", index_positions, METH_VARARGS, "index_positions(tensor, indices)\n--\n\nIndices with masks replaced by positions."},
    {nullptr, nullptr, 0, nullptr}};

bool init_index(PyObject* m) {
  native_register("nonzero", native_nonzero);
  native_register("masked_select", native_masked_select);
  native_register("where_positions", native_where_positions);
  return PyModule_AddFunctions(m, functions) == 0;
}

}  // namespace rl
