// Counting values: unique, unique_consecutive and bincount, whose results are as long as the values say; and looking values up in sorted rows.
//
// Native ops registered here (ops/count.py has their definitions):
//   _unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)
//   unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)
//   _unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)
//   bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor
// Routine for trace.native: search_rows, see below. NaN equals nothing, so each one is a value of its own.
#include "sort_keys.h"
#include "tape.h"
#include <limits>
#include <numeric>

namespace rl {

static Tensor* dense(Tensor* t) {      // new: contiguous, in memory
  Tensor* out = (Tensor*)call_method((PyObject*)t, "contiguous");
  if (out && !materialize(out->storage)) { Py_DECREF((PyObject*)out); return nullptr; }
  return out;
}

static bool has_order(const Tensor* t, const char* kernel) {
  const Layout* l = t->layout;
  if (l->device == Device::Meta) { raise(PyExc_NotImplementedError, "%s() of a meta tensor: how many values there are depends on data that it does not have", kernel); return false; }
  if (is_complex_kind(l->dtype) || itemsize(l->dtype) > 8 || l->dtype == DType::Float8E4M3 || l->dtype == DType::Float8E5M2) {
    raise(PyExc_NotImplementedError, "\"%s\" not implemented for '%s'", kernel, scalar_type_name(l->dtype));
    return false;
  }
  if (l->numel >= INDEX_LIMIT) { raise(PyExc_NotImplementedError, "%s(): 2^32 elements or more are not supported", kernel); return false; }
  return true;
}

// --------------------------------------------------------------------------------------------------------------- unique
// What all of them find: which items, in the order they are given, begin a new group. `order` null: the order of their places.
struct Groups {
  std::vector<int64_t> first;        // place of each group's first item
  std::vector<int64_t> counts;
  Tensor* inverse = nullptr;         // the group of each place; owned, null if not wanted
  ~Groups() { Py_XDECREF((PyObject*)inverse); }
};
// begins(i): the i-th item differs from the one before it; at(i): its place.
template <class At, class Begins> static void find_groups(Groups* g, int64_t n, At at, Begins begins) {
  int64_t count = n > 0;
  for (int64_t i = 1; i < n; i++) count += begins(i);
  g->first.resize((size_t)count);
  g->counts.resize((size_t)count);
  int64_t* inverse = g->inverse ? (int64_t*)data_ptr(g->inverse) : nullptr;
  int64_t start = 0, k = -1;
  for (int64_t i = 0; i < n; i++) {
    if (i == 0 || begins(i)) {
      if (k >= 0) g->counts[size_t(k)] = i - start;
      g->first[size_t(++k)] = at(i);
      start = i;
    }
    if (inverse) inverse[at(i)] = k;
  }
  if (k >= 0) g->counts[size_t(k)] = n - start;
}

static Tensor* empty_integers(int64_t n) { return tensor_empty(DType::Int64, Device::CPU, 1, &n); }
static Tensor* counts_tensor(const Groups& g, bool wanted) {
  Tensor* t = empty_integers(wanted ? (int64_t)g.counts.size() : 0);
  if (t && wanted && !g.counts.empty()) std::memcpy(data_ptr(t), g.counts.data(), g.counts.size() * 8);
  return t;
}

// Values, inverse and counts as the three results; takes `values` over.
static int give_groups(Tensor* values, Groups* g, bool want_counts, PyObject** outs) {
  Tensor* counts = values ? counts_tensor(*g, want_counts) : nullptr;
  Tensor* inverse = counts ? (g->inverse ? (Tensor*)Py_NewRef((PyObject*)g->inverse) : empty_integers(0)) : nullptr;
  if (!inverse) { Py_XDECREF((PyObject*)values); Py_XDECREF((PyObject*)counts); return -1; }
  outs[0] = (PyObject*)values; outs[1] = (PyObject*)inverse; outs[2] = (PyObject*)counts;
  return 3;
}

// Of all elements, in order of value or of place.
static int unique_elements(Tensor* self, bool consecutive, bool want_inverse, bool want_counts, PyObject** outs) {
  if (!has_order(self, "unique")) return -1;
  Tensor* x = dense(self);
  if (!x) return -1;
  Groups g;
  const Layout* l = x->layout;
  int64_t n = l->numel;
  if (want_inverse && !(g.inverse = tensor_empty(DType::Int64, Device::CPU, l->ndim, l->shape()))) { Py_DECREF((PyObject*)x); return -1; }
  Tensor* values = nullptr;
  with_element(l->dtype, [&](auto element) {
    using E = decltype(element);
    using U = typename E::Bits;
    const U* row = (const U*)data_ptr(x);
    auto differs = [](const U* x, int64_t i) { return E::key(x[i]) != E::key(x[i - 1]) || E::is_nan(x[i]); };
    if (consecutive && !want_inverse && !want_counts) {      // one pass to count, one to copy
      int64_t count = n > 0, k = 0;
      for (int64_t i = 1; i < n; i++) count += differs(row, i);
      values = tensor_empty(l->dtype, Device::CPU, 1, &count);
      U* to = values ? (U*)data_ptr(values) : nullptr;
      for (int64_t i = 0; to && i < n; i++) if (i == 0 || differs(row, i)) to[k++] = row[i];
      return;
    }
    if (consecutive) find_groups(&g, n, [](int64_t i) { return i; }, [&](int64_t i) { return differs(row, i); });
    else {
      std::vector<uint64_t> words(size_t(n) * (sizeof(U) == 8 ? 3 : 2));
      order_row<E>(row, n, false, words.data(), words.data() + n);
      auto place = [&](int64_t i) { return index_of(words[size_t(i)]); };
      if constexpr (sizeof(U) < 8)      // the keys are in order beside the places; all NaNs have the last one
        find_groups(&g, n, place, [&](int64_t i) { uint64_t key = key_of(words[size_t(i)]); return key != key_of(words[size_t(i - 1)]) || (E::is_float && key == uint64_t(U(~U(0)))); });
      else {
        U* ordered = (U*)(words.data() + n);
        for (int64_t i = 0; i < n; i++) ordered[i] = row[place(i)];
        find_groups(&g, n, place, [&](int64_t i) { return differs(ordered, i); });
      }
    }
    int64_t count = (int64_t)g.first.size();
    values = tensor_empty(l->dtype, Device::CPU, 1, &count);
    if (values) for (int64_t i = 0; i < count; i++) ((U*)data_ptr(values))[i] = row[g.first[size_t(i)]];
  });
  Py_DECREF((PyObject*)x);
  return give_groups(values, &g, want_counts, outs);
}

// Of the entries along a dimension, compared element by element.
static int unique_entries(Tensor* self, int64_t dim, bool consecutive, bool want_inverse, bool want_counts, PyObject** outs) {
  if (!has_order(self, "unique_dim")) return -1;
  const Layout* l = self->layout;
  int rank = l->ndim;
  if (rank == 0) { raise(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions", (long long)dim); return -1; }
  if (dim < -rank || dim >= rank) { raise(PyExc_IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -rank, rank - 1, (long long)dim); return -1; }
  int d = int(dim < 0 ? dim + rank : dim);
  int64_t dims[MAX_DIMS], sizes[MAX_DIMS], back[MAX_DIMS];
  dims[0] = d;
  for (int i = 0, k = 1; i < rank; i++) if (i != d) dims[k++] = i;
  for (int i = 0; i < rank; i++) { sizes[i] = l->shape()[dims[i]]; back[dims[i]] = i; }
  int64_t n = sizes[0], inner = n ? l->numel / n : 0;
  if (l->numel == 0) {
    int zeros = 0;
    for (int i = 0; i < rank; i++) zeros += l->shape()[i] == 0;
    if (n != 0 || zeros != 1) { raise(PyExc_RuntimeError, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"); return -1; }
  }
  bool mode = tls.grad_mode;
  tls.grad_mode = false;
  Tensor* turned = view_permute(self, rank, dims);
  Tensor* x = turned ? dense(turned) : nullptr;
  Py_XDECREF((PyObject*)turned);
  Tensor* result = nullptr;
  Groups g;
  if (x && (!want_inverse || (g.inverse = empty_integers(n)))) {
    Tensor* values = nullptr;
    with_element(l->dtype, [&](auto element) {
      using E = decltype(element);
      using U = typename E::Bits;
      const U* rows = (const U*)data_ptr(x);
      auto compare = [&](int64_t a, int64_t b) {
        for (int64_t i = 0; i < inner; i++) {
          U p = E::key(rows[a * inner + i]), q = E::key(rows[b * inner + i]);
          if (p != q) return p < q ? -1 : 1;
        }
        return 0;
      };
      auto same = [&](int64_t a, int64_t b) {
        for (int64_t i = 0; i < inner; i++) if (E::key(rows[a * inner + i]) != E::key(rows[b * inner + i]) || E::is_nan(rows[b * inner + i])) return false;
        return true;
      };
      std::vector<int64_t> order((size_t)n);
      std::iota(order.begin(), order.end(), int64_t(0));
      if (!consecutive) std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
      find_groups(&g, n, [&](int64_t i) { return order[size_t(i)]; }, [&](int64_t i) { return !same(order[size_t(i - 1)], order[size_t(i)]); });
      sizes[0] = (int64_t)g.first.size();
      values = tensor_empty(l->dtype, Device::CPU, rank, sizes);
      if (values) for (size_t i = 0; i < g.first.size(); i++) std::memcpy(data_ptr(values) + i * size_t(inner) * sizeof(U), rows + g.first[i] * inner, size_t(inner) * sizeof(U));
    });
    result = values ? view_permute(values, rank, back) : nullptr;
    Py_XDECREF((PyObject*)values);
  }
  Py_XDECREF((PyObject*)x);
  tls.grad_mode = mode;
  return give_groups(result, &g, want_counts, outs);
}

// The values stay in the graph of what they are the values of: torch has no derivative, and says so in the backward.
static int graphed(const char* by, Tensor* self, int found, PyObject** outs) {
  if (found < 0) return found;
  outs[0] = (PyObject*)connected(by, (Tensor*)outs[0], self);
  if (outs[0]) return found;
  for (int i = 1; i < found; i++) Py_DECREF(outs[i]);
  return -1;
}

static int native_unique2(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  a.boolean();      // sorted: always
  bool inverse = a.boolean(), counts = a.boolean();
  return graphed("_unique2_of", self, unique_elements(self, false, inverse, counts, outs), outs);
}
static int native_unique_dim(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  int64_t dim = a.integer();
  a.boolean();
  bool inverse = a.boolean(), counts = a.boolean();
  return graphed("_unique_dim_of", self, unique_entries(self, dim, false, inverse, counts, outs), outs);
}
static int native_unique_consecutive(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  bool inverse = a.boolean(), counts = a.boolean();
  int64_t dim;
  int found = a.maybe_integer(&dim) ? unique_entries(self, dim, true, inverse, counts, outs) : unique_elements(self, true, inverse, counts, outs);
  return graphed("_unique_consecutive_of", self, found, outs);
}

// -------------------------------------------------------------------------------------------------------------- bincount
// Four at a time: a single running maximum waits for itself.
template <class U> static U greatest(const U* p, int64_t n) {
  U top[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) for (int j = 0; j < 4; j++) top[j] = std::max(top[j], p[i + j]);
  for (; i < n; i++) top[0] = std::max(top[0], p[i]);
  return std::max(std::max(top[0], top[1]), std::max(top[2], top[3]));
}

static int native_bincount(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor *self = a.tensor(), *weights = a.tensor();
  int64_t least = a.sym();
  const Layout* l = self->layout;
  char kind = DTYPES[(int)l->dtype].kind;
  if (kind != 'i' && kind != 'u') { raise(PyExc_NotImplementedError, "\"bincount_cpu\" not implemented for '%s'", scalar_type_name(l->dtype)); return -1; }
  if (least < 0) { raise(PyExc_RuntimeError, "minlength should be >= 0"); return -1; }
  if (l->device == Device::Meta) { raise(PyExc_NotImplementedError, "bincount() of a meta tensor: its length depends on data that it does not have"); return -1; }
  const char* refusal = "bincount only supports 1-d non-negative integral inputs.";
  if (l->ndim != 1) { raise(PyExc_RuntimeError, "%s", refusal); return -1; }
  if (weights && (weights->layout->ndim != 1 || weights->layout->numel != l->numel)) { raise(PyExc_RuntimeError, "weights should be 1-d and have the same length as input"); return -1; }
  if (weights && is_complex_kind(weights->layout->dtype)) { raise(PyExc_RuntimeError, "bincount: weights must be real numbers, not %s", scalar_type_name(weights->layout->dtype)); return -1; }
  Tensor* x = dense(self);
  Tensor* w = x && weights && l->numel ? dense(weights) : nullptr;
  Tensor* out = nullptr;
  if (x && (w || !weights || !l->numel)) {
    int64_t n = l->numel;
    auto values = [&](auto* p) {
      using T = std::remove_cv_t<std::remove_reference_t<decltype(*p)>>;
      using U = std::make_unsigned_t<T>;
      U top = greatest((const U*)p, n);      // a negative number is greater than all others
      if (top > U(std::numeric_limits<T>::max()) || uint64_t(top) >= uint64_t(INT64_MAX)) { raise(PyExc_RuntimeError, "%s", refusal); return; }
      int64_t high = n ? (int64_t)top : -1;
      int64_t size = high + 1 > least ? high + 1 : least;
      bool single = w && w->layout->dtype == DType::Float32;
      out = tensor_empty(!w ? DType::Int64 : single ? DType::Float32 : DType::Float64, Device::CPU, 1, &size);
      if (!out) return;
      std::memset(data_ptr(out), 0, size_t(out->layout->nbytes));
      if (!w) { int64_t* to = (int64_t*)data_ptr(out); for (int64_t i = 0; i < n; i++) ++to[p[i]]; }
      else if (single) { float* to = (float*)data_ptr(out); const float* from = (const float*)data_ptr(w); for (int64_t i = 0; i < n; i++) to[p[i]] += from[i]; }
      else {
        double* to = (double*)data_ptr(out);
        int step = itemsize(w->layout->dtype);
        for (int64_t i = 0; i < n; i++) to[p[i]] += load_real(w->layout->dtype, data_ptr(w) + i * step);
      }
    };
    char* p = data_ptr(x);
    switch (l->dtype) {
      case DType::UInt8: values((const uint8_t*)p); break;
      case DType::Int8: values((const int8_t*)p); break;
      case DType::Int16: values((const int16_t*)p); break;
      case DType::Int32: values((const int32_t*)p); break;
      case DType::UInt16: values((const uint16_t*)p); break;
      case DType::UInt32: values((const uint32_t*)p); break;
      default: values((const int64_t*)p);
    }
  }
  Py_XDECREF((PyObject*)x);
  Py_XDECREF((PyObject*)w);
  if (weights) out = connected("_bincount_of", out, weights);
  if (!out) return -1;
  outs[0] = (PyObject*)out;
  return 1;
}

// ------------------------------------------------------------------------------------------------------------- searching
// search_rows: for each value the place in a sorted row before which (right: behind which) it would be put.
//   p: places (int32 or int64), rows, values [, the order that sorts the rows]     n: dtype, row length, values per row (0: one row for all), right, places are int32
// One unit is one value. A NaN value goes to the end, and NaNs of a row are stepped over.
template <class Less, class Place> static void search(const int64_t* n, Place* places, int64_t lo, int64_t hi, const int64_t* order, Less stays_behind) {
  const int LANES = 8;      // values searched for at once: each step waits for memory, and the steps of different values do not wait for each other
  for (int64_t first = lo; first < hi; first += LANES) {
    int count = int(hi - first < LANES ? hi - first : LANES);
    int64_t row[LANES], start[LANES] = {0};
    for (int j = 0; j < LANES; j++) row[j] = n[2] ? (first + (j < count ? j : 0)) / n[2] * n[1] : 0;
    auto on = [&](int j, int64_t at) { return stays_behind(row[j] + (order ? order[row[j] + at] : at), first + (j < count ? j : 0)); };
    for (int64_t length = n[1]; length > 1;) {      // as many steps for every value: nothing to guess wrong
      int64_t half = length >> 1;
      for (int j = 0; j < LANES; j++) start[j] += on(j, start[j] + half - 1) ? half : 0;
      length -= half;
    }
    for (int j = 0; j < count; j++) places[first + j] = Place(start[j] + (n[1] > 0 && on(j, start[j])));
  }
}

template <class Number, class Read> static void search_typed(char** p, const int64_t* n, int64_t lo, int64_t hi, const int64_t* order, Read read) {
  const Number *rows = (const Number*)p[1], *values = (const Number*)p[2];
  auto left = [&](int64_t at, int64_t v) { return !(read(rows[at]) >= read(values[v])); };
  auto right = [&](int64_t at, int64_t v) { return !(read(rows[at]) > read(values[v])); };
  if (n[4]) { if (n[3]) search(n, (int32_t*)p[0], lo, hi, order, right); else search(n, (int32_t*)p[0], lo, hi, order, left); }
  else { if (n[3]) search(n, (int64_t*)p[0], lo, hi, order, right); else search(n, (int64_t*)p[0], lo, hi, order, left); }
}

static void search_any(char** p, const int64_t* n, int64_t lo, int64_t hi, const int64_t* order) {
  auto plain = [](auto v) { return v; };
  switch ((DType)n[0]) {
    case DType::Bool: case DType::UInt8: search_typed<uint8_t>(p, n, lo, hi, order, plain); break;
    case DType::Int8: search_typed<int8_t>(p, n, lo, hi, order, plain); break;
    case DType::Int16: search_typed<int16_t>(p, n, lo, hi, order, plain); break;
    case DType::Int32: search_typed<int32_t>(p, n, lo, hi, order, plain); break;
    case DType::Int64: search_typed<int64_t>(p, n, lo, hi, order, plain); break;
    case DType::UInt16: search_typed<uint16_t>(p, n, lo, hi, order, plain); break;
    case DType::UInt32: search_typed<uint32_t>(p, n, lo, hi, order, plain); break;
    case DType::UInt64: search_typed<uint64_t>(p, n, lo, hi, order, plain); break;
    case DType::Float16: search_typed<uint16_t>(p, n, lo, hi, order, half_to_float); break;
    case DType::BFloat16: search_typed<uint16_t>(p, n, lo, hi, order, bfloat_to_float); break;
    case DType::Float32: search_typed<float>(p, n, lo, hi, order, plain); break;
    default: search_typed<double>(p, n, lo, hi, order, plain);
  }
}

static int64_t search_rows(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) { search_any(p, n, lo, hi, nullptr); return 0; }
static int64_t search_ordered_rows(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) { search_any(p, n, lo, hi, (const int64_t*)p[3]); return 0; }

bool init_unique(PyObject*) {
  native_register("_unique2", native_unique2);
  native_register("unique_dim", native_unique_dim);
  native_register("_unique_consecutive", native_unique_consecutive);
  native_register("bincount", native_bincount);
  native_kernel_register("search_rows", search_rows);
  native_kernel_register("search_ordered_rows", search_ordered_rows);
  return true;
}

}  // namespace rl
