// The pattern of a product of two sparse matrices, whose size depends on the patterns of both.
//
// Native op registered here (ops/sparse.py has its definition):
//   _sparse_sparse_terms(Tensor outer, Tensor inner, Tensor other_outer, Tensor other_inner, SymInt columns) -> (Tensor left, Tensor right, Tensor places, Tensor outer, Tensor inner)
// Both matrices are given row by row (CSR, int64). Term t of the product multiplies value left[t] of the first with value right[t] of the second and is added to value places[t] of
// the result, whose rows and columns are the last two, columns in order. The values themselves are an operator's business, which differentiates them.
#include "tape.h"
#include <algorithm>

namespace rl {

// Integers in memory of the tensors' own allocator, which keeps what is given back: memory that is new each time costs more than what is done with it here.
struct Integers {
  Tensor* tensor = nullptr;
  int64_t* at = nullptr;
  bool make(int64_t n) {
    tensor = tensor_empty(DType::Int64, Device::CPU, 1, &n);
    at = tensor ? (int64_t*)data_ptr(tensor) : nullptr;
    return tensor != nullptr;
  }
  PyObject* give() { PyObject* t = (PyObject*)tensor; tensor = nullptr; return t; }
  ~Integers() { Py_XDECREF((PyObject*)tensor); }
};

// An operand as int64 in memory, one after the other; new.
static Tensor* indices_of(Tensor* t) {
  if (t->layout->dtype != DType::Int64 || t->layout->ndim != 1 || t->layout->device == Device::Meta) {
    raise(PyExc_RuntimeError, "_sparse_sparse_terms(): vectors of int64 are needed, not %s%s", DTYPES[(int)t->layout->dtype].name, shape_text(t->layout).c_str());
    return nullptr;
  }
  Tensor* out = (Tensor*)PyObject_CallMethod((PyObject*)t, "contiguous", nullptr);
  if (out && !materialize(out->storage)) { Py_DECREF((PyObject*)out); return nullptr; }
  return out;
}

struct Rows { const int64_t *outer, *inner; int64_t count, nnz; };

// Rows that begin and end inside the elements, and indices below `limit`: what follows trusts them.
static bool sound(const Rows& r, int64_t limit) {
  if (r.count < 0 || r.outer[0] != 0 || r.outer[r.count] != r.nnz) return false;
  for (int64_t i = 0; i < r.count; i++) if (r.outer[i + 1] < r.outer[i]) return false;
  for (int64_t i = 0; i < r.nnz; i++) if (r.inner[i] < 0 || r.inner[i] >= limit) return false;
  return true;
}

static int64_t count_terms(const Rows& a, const Rows& b) {
  int64_t total = 0;
  for (int64_t i = 0; i < a.nnz; i++) total += b.outer[a.inner[i] + 1] - b.outer[a.inner[i]];
  return total;
}

struct Terms { Integers left, right, places, outer, inner; };

// Row by row, a new column gets the next place; so the columns of a row come as they are met. Returns how many elements the result has.
static int64_t find_terms(const Rows& a, const Rows& b, int64_t columns, Terms* t, int64_t* met, int64_t* row_of, int64_t* place) {
  for (int64_t c = 0; c < columns; c++) place[c] = -1;      // of each column in the result; before this row's first: that of an earlier row
  int64_t term = 0, n = 0;
  t->outer.at[0] = 0;
  for (int64_t row = 0; row < a.count; row++) {
    const int64_t first = n;
    for (int64_t k = a.outer[row]; k < a.outer[row + 1]; k++) {
      for (int64_t m = b.outer[a.inner[k]]; m < b.outer[a.inner[k] + 1]; m++, term++) {
        int64_t& at = place[b.inner[m]];
        if (at < first) { at = n; met[n] = b.inner[m]; row_of[n++] = row; }
        t->left.at[term] = k;
        t->right.at[term] = m;
        t->places.at[term] = at;
      }
    }
    t->outer.at[row + 1] = n;
  }
  return n;
}

// The columns of each row in order: elements are counted into columns, and from there, column after column, back into their rows.
// `moved` and `by_column` have room for every element, `next` for a number per column and per row.
static void put_in_order(int64_t rows, int64_t columns, int64_t terms, int64_t n, const int64_t* met, const int64_t* row_of, int64_t* moved, int64_t* by_column, int64_t* next, Terms* t) {
  for (int64_t c = 0; c <= columns; c++) next[c] = 0;
  for (int64_t p = 0; p < n; p++) next[met[p] + 1]++;
  for (int64_t c = 1; c <= columns; c++) next[c] += next[c - 1];
  for (int64_t p = 0; p < n; p++) by_column[next[met[p]]++] = p;
  for (int64_t r = 0; r < rows; r++) next[r] = t->outer.at[r];
  for (int64_t q = 0; q < n; q++) {
    const int64_t p = by_column[q], to = next[row_of[p]]++;
    moved[p] = to;
    t->inner.at[to] = met[p];
  }
  for (int64_t k = 0; k < terms; k++) t->places.at[k] = moved[t->places.at[k]];
}

static bool find_product(const Rows& a, const Rows& b, int64_t columns, Terms* t) {
  const int64_t total = count_terms(a, b);
  Integers met, row_of, moved, by_column, next;
  if (!t->left.make(total) || !t->right.make(total) || !t->places.make(total) || !t->outer.make(a.count + 1) || !met.make(total) || !row_of.make(total) ||
      !next.make(std::max(columns, a.count) + 1)) return false;
  const int64_t n = find_terms(a, b, columns, t, met.at, row_of.at, next.at);
  if (!t->inner.make(n) || !moved.make(n) || !by_column.make(n)) return false;
  put_in_order(a.count, columns, total, n, met.at, row_of.at, moved.at, by_column.at, next.at, t);
  return true;
}

static int native_sparse_sparse_terms(Call& c, PyObject** outs, int) {
  Args args(c);
  Tensor* given[4];
  for (Tensor*& t : given) t = args.tensor();
  const int64_t columns = args.sym();
  Integers parts[4];
  for (int i = 0; i < 4; i++) {
    parts[i].tensor = indices_of(given[i]);
    if (!parts[i].tensor) return -1;
    parts[i].at = (int64_t*)data_ptr(parts[i].tensor);
  }
  auto length = [&](int i) { return parts[i].tensor->layout->numel; };
  const Rows a{parts[0].at, parts[1].at, length(0) - 1, length(1)}, b{parts[2].at, parts[3].at, length(2) - 1, length(3)};
  if (columns < 0 || !sound(a, b.count) || !sound(b, columns)) {
    raise(PyExc_RuntimeError, "_sparse_sparse_terms(): the rows or columns of a sparse matrix are not those of its size");
    return -1;
  }
  Terms terms;
  if (!find_product(a, b, columns, &terms)) return -1;
  Integers* results[] = {&terms.left, &terms.right, &terms.places, &terms.outer, &terms.inner};
  for (int i = 0; i < 5; i++) outs[i] = results[i]->give();
  return 5;
}

bool init_sparse(PyObject*) {
  native_register("_sparse_sparse_terms", native_sparse_sparse_terms);
  return true;
}

}  // namespace rl
