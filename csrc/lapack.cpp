// Linear algebra: LAPACK's routines as kernels of the runtime (trace.native calls them), over batches of matrices.
//
// The library is the `scipy-openblas32` package's, opened when the first recipe that needs it is read (lapack_open, under the GIL), never on import,
// and told to use one thread: the batch is what is cut over threads. Everything goes through LAPACKE's `_work` functions, which exist under one
// scheme of names for the four element types and hide how Fortran passes strings; the two BLAS routines used have no strings that matter.
//
// Conventions
//  - matrices are column-major here: the definitions hand over the transpose of what they call the matrix;
//  - a unit of work is one matrix of the batch;
//  - n[0] is always the element type (Element), then the sizes and options as each kernel lists them;
//  - a status is an error's place in the definition's list, and as value the batch element << 24 | LAPACK's info (`{element}`, `{order}` in messages).
#include "runtime.h"
#include "platform.h"
#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <type_traits>

namespace rl {

enum Element { F32, F64, C64, C128 };
static const int BYTES[] = {4, 8, 8, 16}, REAL_BYTES[] = {4, 8, 4, 8};
static inline bool is_complex(int e) { return e >= C64; }
static const int COLUMN_MAJOR = 102;

// ---------------------------------------------------------------------------------------------------------------- the library
struct Routine { const char *real, *complex; void* of[4]; };      // the routine's name for real and for complex matrices, without the type's letter
static Routine potrf{"potrf", "potrf"}, getrf{"getrf", "getrf"}, getrs{"getrs", "getrs"}, geqrf{"geqrf", "geqrf"},
    syevd{"syevd", "heevd"}, geev{"geev", "geev"}, gesdd{"gesdd", "gesdd"}, sytrf{"sytrf", "sytrf"}, hetrf{"sytrf", "hetrf"}, sytrs{"sytrs", "sytrs"},
    hetrs{"sytrs", "hetrs"}, gels{"gels", "gels"}, gelsy{"gelsy", "gelsy"}, gelsd{"gelsd", "gelsd"};
static Routine trsm{"trsm", "trsm"}, gemm{"gemm", "gemm"};                        // BLAS
static Routine* const LAPACK[] = {&potrf, &getrf, &getrs, &geqrf, &syevd, &geev, &gesdd, &sytrf, &hetrf, &sytrs, &hetrs, &gels, &gelsy, &gelsd};
static Routine* const BLAS[] = {&trsm, &gemm};
static bool g_opened = false;

static bool resolve(void* library, Routine* r, const char* prefix, const char* suffix) {
  for (int e = 0; e < 4; e++) {
    std::string name = std::string(prefix) + "sdcz"[e] + (is_complex(e) ? r->complex : r->real) + suffix;
    r->of[e] = platform::library_symbol(library, name.c_str());
    if (!r->of[e]) { raise(PyExc_ImportError, "the linear algebra library has no %s", name.c_str()); return false; }
  }
  return true;
}

bool lapack_open() {                     // false: with an exception. Python knows where packages are; see ops/lapack.py
  if (g_opened) return true;
  PyObject* module = PyImport_ImportModule("rushlight.ops.lapack");
  PyObject* path = module ? PyObject_CallMethod(module, "library_path", nullptr) : nullptr;
  Py_XDECREF(module);
  if (!path) return false;
  const char* file = PyUnicode_AsUTF8(path);
  void* library = file ? platform::library_open(file) : nullptr;
  if (file && !library) raise(PyExc_ImportError, "the linear algebra library cannot be opened: %s", platform::library_error());
  Py_DECREF(path);
  if (!library) return false;
  for (Routine* r : LAPACK) if (!resolve(library, r, "scipy_LAPACKE_", "_work")) return false;
  for (Routine* r : BLAS) if (!resolve(library, r, "scipy_", "_")) return false;
  auto threads = (void (*)(int))platform::library_symbol(library, "scipy_openblas_set_num_threads");
  if (!threads) { raise(PyExc_ImportError, "the linear algebra library has no scipy_openblas_set_num_threads"); return false; }
  threads(1);
  return g_opened = true;
}

// Call a routine for one element type. Data go as void*, whatever their type; sizes must be int, options char: the C prototypes' own.
template <class... A> static int call(const Routine& r, int element, A... arguments) { return ((int (*)(A...))r.of[element])(arguments...); }
template <class... A> static void call_blas(const Routine& r, int element, A... arguments) { ((void (*)(A...))r.of[element])(arguments...); }

// --------------------------------------------------------------------------------------------------------------- small helpers
struct Room {                            // workspace of one kernel run
  std::unique_ptr<char[]> memory;
  void* of(int64_t bytes) { memory.reset(new char[std::max<int64_t>(bytes, 16)]); return memory.get(); }
};

static int optimum(const void* work, int e) {      // the workspace size that a query wrote, as a number of the element type
  double size = e == F32 || e == C64 ? *(const float*)work : *(const double*)work;
  return std::max(1, (int)std::ceil(size));
}

static inline int lead(int64_t rows) { return (int)std::max<int64_t>(rows, 1); }      // leading dimensions are at least 1
static inline int64_t failure(int code, int64_t element, int info) { return code | (element << 24 | (int64_t)info) << 8; }

static void clear_triangle(char* a, int64_t rows, int64_t columns, bool clear_upper, int bytes) {       // strictly above or below the diagonal
  for (int64_t j = 0; j < columns; j++) {
    int64_t from = clear_upper ? 0 : std::min(rows, j + 1), to = clear_upper ? std::min(rows, j) : rows;
    if (to > from) memset(a + (j * rows + from) * bytes, 0, (to - from) * bytes);
  }
}

static bool all_finite(const char* data, int64_t count, int e) {
  if (is_complex(e)) count *= 2;
  if (REAL_BYTES[e] == 4) { for (int64_t i = 0; i < count; i++) if (!std::isfinite(((const float*)data)[i])) return false; }
  else for (int64_t i = 0; i < count; i++) if (!std::isfinite(((const double*)data)[i])) return false;
  return true;
}

static bool any_nan(const char* data, int64_t count, int e) {
  if (is_complex(e)) count *= 2;
  for (int64_t i = 0; i < count; i++) if (REAL_BYTES[e] == 4 ? std::isnan(((const float*)data)[i]) : std::isnan(((const double*)data)[i])) return true;
  return false;
}

static void not_numbers(char* reals, int64_t count, int e) {
  for (int64_t i = 0; i < count; i++) { if (REAL_BYTES[e] == 4) ((float*)reals)[i] = NAN; else ((double*)reals)[i] = NAN; }
}

// -------------------------------------------------------------------------------------------------------------- factorisations
// The library's potrf lets NaNs and infinities through as if they were positive. Where one is on the diagonal of its factor, this plain algorithm says
// which leading minor is the first that is not positive definite (0: none). `a` is a copy of the matrix, column-major; only one triangle is read.
template <class Value> static int first_bad_minor(Value* a, int64_t order, bool lower) {
  auto at = [&](int64_t i, int64_t j) -> Value& { return lower ? a[j * order + i] : a[i * order + j]; };          // i >= j; for an upper triangle the transposed place
  for (int64_t j = 0; j < order; j++) {
    auto pivot = std::real(at(j, j));
    if (!(pivot > 0)) return (int)j + 1;
    auto root = std::sqrt(pivot);
    for (int64_t i = j + 1; i < order; i++) at(i, j) /= root;
    for (int64_t k = j + 1; k < order; k++) {
      Value factor = at(k, j);
      if constexpr (!std::is_floating_point_v<Value>) factor = std::conj(factor);
      for (int64_t i = k; i < order; i++) at(i, k) -= at(i, j) * factor;
    }
  }
  return 0;
}

static int minor_of_infinities(const char* factor, const char* matrix, int64_t order, bool lower, int e) {
  bool finite = true;
  for (int64_t j = 0; j < order && finite; j++) finite = all_finite(factor + j * (order + 1) * BYTES[e], 1, e);
  if (finite) return 0;
  Room room;
  void* a = room.of(order * order * BYTES[e]);
  memcpy(a, matrix, order * order * BYTES[e]);
  switch (e) {
    case F32: return first_bad_minor((float*)a, order, lower);
    case F64: return first_bad_minor((double*)a, order, lower);
    case C64: return first_bad_minor((std::complex<float>*)a, order, lower);
    default: return first_bad_minor((std::complex<double>*)a, order, lower);
  }
}

// factor, info <- matrix; n: element, order, lower, check
static int64_t cholesky(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], order = (int)n[1];
  int64_t bytes = n[1] * n[1] * BYTES[e];
  for (int64_t i = lo; i < hi; i++) {
    char* a = p[0] + i * bytes;
    memcpy(a, p[2] + i * bytes, bytes);
    int info = order ? call(potrf, e, COLUMN_MAJOR, n[2] ? 'L' : 'U', order, (void*)a, order) : 0;
    if (!info) info = minor_of_infinities(a, p[2] + i * bytes, order, n[2] != 0, e);
    clear_triangle(a, order, order, n[2] != 0, BYTES[e]);
    ((int32_t*)p[1])[i] = info;
    if (n[3] && info > 0) return failure(1, i, info);
  }
  return 0;
}

// factors, pivots, info <- matrix; n: element, rows, columns, check
static int64_t lu(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], rows = (int)n[1], columns = (int)n[2];
  int64_t bytes = n[1] * n[2] * BYTES[e], pivots = std::min(n[1], n[2]);
  for (int64_t i = lo; i < hi; i++) {
    char* a = p[0] + i * bytes;
    memcpy(a, p[3] + i * bytes, bytes);
    int info = pivots ? call(getrf, e, COLUMN_MAJOR, rows, columns, (void*)a, lead(rows), (int*)p[1] + i * pivots) : 0;
    ((int32_t*)p[2])[i] = info;
    if (n[3] && info > 0) return failure(1, i, info);
  }
  return 0;
}

// order of the rows after the exchanges (or where each went) <- pivots, counted from 1; n: rows, pivots, inverse
static int64_t row_order(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  std::vector<int64_t> order((size_t)n[0]);
  for (int64_t i = lo; i < hi; i++) {
    const int32_t* pivots = (const int32_t*)p[1] + i * n[1];
    int64_t* out = (int64_t*)p[0] + i * n[0];
    for (int64_t r = 0; r < n[0]; r++) order[(size_t)r] = r;
    for (int64_t r = 0; r < n[1]; r++) {
      if (pivots[r] < 1 || pivots[r] > n[0]) return failure(1, i, 0);
      std::swap(order[(size_t)r], order[(size_t)pivots[r] - 1]);
    }
    for (int64_t r = 0; r < n[0]; r++) { if (n[2]) out[order[(size_t)r]] = r; else out[r] = order[(size_t)r]; }
  }
  return 0;
}

// solution <- factors, pivots, right sides; n: element, order, right sides, transposition (0 none, 1 transpose, 2 conjugate transpose)
static int64_t lu_solve(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], order = (int)n[1], columns = (int)n[2];
  int64_t bytes = n[1] * n[2] * BYTES[e];
  for (int64_t i = lo; i < hi && bytes; i++) {
    char* x = p[0] + i * bytes;
    memcpy(x, p[3] + i * bytes, bytes);
    call(getrs, e, COLUMN_MAJOR, "NTC"[n[3]], order, columns, (void*)(p[1] + i * n[1] * n[1] * BYTES[e]), order, (int*)p[2] + i * n[1], (void*)x, order);
  }
  return 0;
}

// solution <- triangle, right sides; n: element, rows and columns of the right sides, left, upper, transposition, unit diagonal
static int64_t triangular(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], rows = (int)n[1], columns = (int)n[2], order = n[3] ? rows : columns;
  int64_t bytes = n[1] * n[2] * BYTES[e];
  char side = n[3] ? 'L' : 'R', part = n[4] ? 'U' : 'L', transposed = "NTC"[n[5]], diagonal = n[6] ? 'U' : 'N';
  double one[2] = {1, 0};
  float one_single[2] = {1, 0};
  void* alpha = REAL_BYTES[e] == 4 ? (void*)one_single : (void*)one;
  for (int64_t i = lo; i < hi && bytes; i++) {
    char* x = p[0] + i * bytes;
    memcpy(x, p[2] + i * bytes, bytes);
    // The four lengths are those that Fortran compilers append for strings.
    call_blas(trsm, e, &side, &part, &transposed, &diagonal, &rows, &columns, alpha, (void*)(p[1] + i * order * order * BYTES[e]), &order, (void*)x, &rows,
              (size_t)1, (size_t)1, (size_t)1, (size_t)1);
  }
  return 0;
}

// reflectors and R, tau <- matrix; n: element, rows, columns
static int64_t qr_factor(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], rows = (int)n[1], columns = (int)n[2];
  int64_t bytes = n[1] * n[2] * BYTES[e], small = std::min(n[1], n[2]);
  if (!small) return 0;
  double asked[2];
  Room room;
  call(geqrf, e, COLUMN_MAJOR, rows, columns, (void*)p[0], rows, (void*)p[1], (void*)asked, -1);
  int size = optimum(asked, e);
  void* work = room.of((int64_t)size * BYTES[e]);
  for (int64_t i = lo; i < hi; i++) {
    memcpy(p[0] + i * bytes, p[2] + i * bytes, bytes);
    call(geqrf, e, COLUMN_MAJOR, rows, columns, (void*)(p[0] + i * bytes), rows, (void*)(p[1] + i * small * BYTES[e]), work, size);
  }
  return 0;
}

// factors, pivots, info <- matrix; n: element, order, hermitian, check
static int64_t ldl(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], order = (int)n[1];
  int64_t bytes = n[1] * n[1] * BYTES[e];
  const Routine& routine = n[2] ? hetrf : sytrf;
  double asked[2];
  Room room;
  if (order) call(routine, e, COLUMN_MAJOR, 'L', order, (void*)p[0], order, (int*)p[1], (void*)asked, -1);
  int size = order ? optimum(asked, e) : 1;
  void* work = room.of((int64_t)size * BYTES[e]);
  for (int64_t i = lo; i < hi; i++) {
    char* a = p[0] + i * bytes;
    memcpy(a, p[3] + i * bytes, bytes);
    int info = order ? call(routine, e, COLUMN_MAJOR, 'L', order, (void*)a, order, (int*)p[1] + i * n[1], work, size) : 0;
    clear_triangle(a, order, order, true, BYTES[e]);
    ((int32_t*)p[2])[i] = info;
    if (n[3] && info > 0) return failure(1, i, info);
  }
  return 0;
}

// solution <- factors, pivots, right sides; n: element, order, right sides, hermitian
static int64_t ldl_solve(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], order = (int)n[1], columns = (int)n[2];
  int64_t bytes = n[1] * n[2] * BYTES[e];
  for (int64_t i = lo; i < hi && bytes; i++) {
    char* x = p[0] + i * bytes;
    memcpy(x, p[3] + i * bytes, bytes);
    call(n[3] ? hetrs : sytrs, e, COLUMN_MAJOR, 'L', order, columns, (void*)(p[1] + i * n[1] * n[1] * BYTES[e]), order, (int*)p[2] + i * n[1], (void*)x, order);
  }
  return 0;
}

// ----------------------------------------------------------------------------------------------------- eigenvalues, singular values
// values, vectors, info <- matrix; n: element, order, lower, with vectors, check
static int64_t eigh(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], order = (int)n[1];
  int64_t bytes = n[1] * n[1] * BYTES[e];
  char job = n[3] ? 'V' : 'N', part = n[2] ? 'L' : 'U';
  Room work_room, real_room, integer_room;
  int sizes[3] = {1, 1, 1};
  void *work = nullptr, *real_work = nullptr;
  int* integers = nullptr;
  auto run = [&](char* a, char* w, int size, int real_size, int integer_size) {
    return is_complex(e) ? call(syevd, e, COLUMN_MAJOR, job, part, order, (void*)a, order, (void*)w, work, size, real_work, real_size, integers, integer_size)
                         : call(syevd, e, COLUMN_MAJOR, job, part, order, (void*)a, order, (void*)w, work, size, integers, integer_size);
  };
  if (order) {
    double asked[2], asked_real;
    int asked_integer;
    work = asked; real_work = &asked_real; integers = &asked_integer;
    run(p[1], p[0], -1, -1, -1);
    sizes[0] = optimum(asked, e); sizes[2] = std::max(1, asked_integer);
    if (is_complex(e)) sizes[1] = optimum(&asked_real, e);
    work = work_room.of((int64_t)sizes[0] * BYTES[e]); real_work = real_room.of((int64_t)sizes[1] * REAL_BYTES[e]);
    integers = (int*)integer_room.of((int64_t)sizes[2] * 4);
  }
  for (int64_t i = lo; i < hi; i++) {
    char *a = p[1] + i * bytes, *w = p[0] + i * order * REAL_BYTES[e];
    memcpy(a, p[3] + i * bytes, bytes);
    int info = order ? run(a, w, sizes[0], sizes[1], sizes[2]) : 0;
    ((int32_t*)p[2])[i] = info;
    if (n[4] && info > 0) return failure(1, i, info);
  }
  return 0;
}

// A real matrix's eigenvalues and eigenvectors as LAPACK packs them (conjugate pairs in two columns) to complex numbers.
template <class R> static void unpack_pairs(int64_t order, const R* re, const R* im, const R* packed, std::complex<R>* values, std::complex<R>* vectors) {
  for (int64_t j = 0; j < order; j++) values[j] = {re[j], im[j]};
  if (!packed) return;
  for (int64_t j = 0; j < order; j++) {
    const R *a = packed + j * order, *b = a + order;
    if (im[j] == 0) { for (int64_t r = 0; r < order; r++) vectors[j * order + r] = a[r]; continue; }
    for (int64_t r = 0; r < order; r++) {
      vectors[j * order + r] = {a[r], b[r]};
      vectors[(j + 1) * order + r] = {a[r], -b[r]};
    }
    j++;
  }
}

// values, vectors, info <- matrix; n: element, order, with vectors, check. Errors: 1 not converged, 2 not finite
static int64_t eig(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], order = (int)n[1];
  int64_t bytes = n[1] * n[1] * BYTES[e];
  bool vectors = n[2] != 0, wide = is_complex(e);
  if (!order) { for (int64_t i = lo; i < hi; i++) ((int32_t*)p[2])[i] = 0; return 0; }
  char job = vectors ? 'V' : 'N';
  int ldv = vectors ? order : 1;
  Room matrix_room, work_room, packed_room, re_room, im_room, real_room;
  char* a = (char*)matrix_room.of(bytes);
  void *packed = packed_room.of(vectors ? bytes : 16), *re = re_room.of(order * 8), *im = im_room.of(order * 8), *real_work = real_room.of(2 * order * 8);
  double asked[2];
  int size = -1;
  void* work = asked;
  auto run = [&](void* w, void* v) {
    return wide ? call(geev, e, COLUMN_MAJOR, 'N', job, order, (void*)a, order, w, (void*)nullptr, 1, v, ldv, work, size, real_work)
                : call(geev, e, COLUMN_MAJOR, 'N', job, order, (void*)a, order, re, im, (void*)nullptr, 1, packed, ldv, work, size);
  };
  run(p[0], p[1]);
  size = optimum(asked, e);
  work = work_room.of((int64_t)size * BYTES[e]);
  int64_t vector_bytes = n[1] * n[1] * 2 * REAL_BYTES[e];
  for (int64_t i = lo; i < hi; i++) {
    if (!all_finite(p[3] + i * bytes, n[1] * n[1], e)) return failure(2, i, 0);
    memcpy(a, p[3] + i * bytes, bytes);
    char *w = p[0] + i * order * 2 * REAL_BYTES[e], *v = vectors ? p[1] + i * vector_bytes : nullptr;
    int info = run(w, vectors ? (void*)v : packed);
    if (!wide && e == F32) unpack_pairs(order, (float*)re, (float*)im, vectors ? (float*)packed : nullptr, (std::complex<float>*)w, (std::complex<float>*)v);
    if (!wide && e == F64) unpack_pairs(order, (double*)re, (double*)im, vectors ? (double*)packed : nullptr, (std::complex<double>*)w, (std::complex<double>*)v);
    ((int32_t*)p[2])[i] = info;
    if (n[3] && info > 0) return failure(1, i, info);
  }
  return 0;
}

static int64_t divide_and_conquer_reals(int64_t m, int64_t n, char job) {          // the real workspace that gesdd asks for, by its description
  int64_t small = std::min(m, n), large = std::max(m, n);
  if (job == 'N') return 7 * small;
  return small * std::max(5 * small + 7, 2 * large + 2 * small + 1);
}

// With vectors: U, S, Vh, info <- matrix; without: S, info <- matrix. n: element, rows, columns, full, check. Errors: 1 not converged, 2 not finite
template <bool VECTORS> static int64_t svd(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], rows = (int)n[1], columns = (int)n[2];
  int64_t small = std::min(n[1], n[2]), bytes = n[1] * n[2] * BYTES[e];
  char job = !VECTORS ? 'N' : n[3] ? 'A' : 'S';
  int64_t u_columns = n[3] ? rows : small, v_rows = n[3] ? columns : small;
  int64_t u_bytes = rows * u_columns * BYTES[e], v_bytes = v_rows * columns * BYTES[e];
  char *us = VECTORS ? p[0] : nullptr, *ss = VECTORS ? p[1] : p[0], *vs = VECTORS ? p[2] : nullptr, *infos = VECTORS ? p[3] : p[1], *given = VECTORS ? p[4] : p[2];
  if (!small) {                            // a full factor of a matrix without elements is a unit matrix
    double one[2] = {1, 0};
    float one_single[2] = {1, 0};
    const void* unit = REAL_BYTES[e] == 4 ? (const void*)one_single : (const void*)one;
    for (int64_t i = lo; i < hi; i++) {
      ((int32_t*)infos)[i] = 0;
      if (!VECTORS) continue;
      memset(us + i * u_bytes, 0, u_bytes);
      memset(vs + i * v_bytes, 0, v_bytes);
      for (int64_t k = 0; k < std::min<int64_t>(rows, u_columns); k++) memcpy(us + i * u_bytes + k * (rows + 1) * BYTES[e], unit, BYTES[e]);
      for (int64_t k = 0; k < std::min<int64_t>(v_rows, columns); k++) memcpy(vs + i * v_bytes + k * (v_rows + 1) * BYTES[e], unit, BYTES[e]);
    }
    return 0;
  }
  Room matrix_room, work_room, real_room, integer_room;
  char* a = (char*)matrix_room.of(bytes);
  int* integers = (int*)integer_room.of(8 * small * 4);
  void* real_work = is_complex(e) ? real_room.of(divide_and_conquer_reals(rows, columns, job) * REAL_BYTES[e]) : nullptr;
  double asked[2], none[2];
  void* work = asked;
  int size = -1, ldu = VECTORS ? rows : 1, ldv = VECTORS ? (int)v_rows : 1;
  auto run = [&](void* s, void* u, void* v) {
    return is_complex(e) ? call(gesdd, e, COLUMN_MAJOR, job, rows, columns, (void*)a, rows, s, u, ldu, v, ldv, work, size, real_work, integers)
                         : call(gesdd, e, COLUMN_MAJOR, job, rows, columns, (void*)a, rows, s, u, ldu, v, ldv, work, size, integers);
  };
  run(ss, none, none);
  size = optimum(asked, e);
  work = work_room.of((int64_t)size * BYTES[e]);
  for (int64_t i = lo; i < hi; i++) {
    if (!all_finite(given + i * bytes, n[1] * n[2], e)) {
      if (VECTORS || any_nan(given + i * bytes, n[1] * n[2], e)) return failure(2, i, 0);
      not_numbers(ss + i * small * REAL_BYTES[e], small, e);        // the singular values alone of a matrix with infinities are no numbers
      ((int32_t*)infos)[i] = 0;
      continue;
    }
    memcpy(a, given + i * bytes, bytes);
    int info = run(ss + i * small * REAL_BYTES[e], VECTORS ? (void*)(us + i * u_bytes) : none, VECTORS ? (void*)(vs + i * v_bytes) : none);
    ((int32_t*)infos)[i] = info;
    if (n[4] && info > 0) return failure(1, i, info);
  }
  return 0;
}

// -------------------------------------------------------------------------------------------------------------- least squares
// solution (max(rows, columns) rows), rank, singular values, info <- matrix, right sides, rcond (one double); n: element, rows, columns, right sides,
// driver (0 gels, 1 gelsy, 2 gelsd). Errors: 1 not of full rank or not converged
static int64_t least_squares(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0], rows = (int)n[1], columns = (int)n[2], sides = (int)n[3], driver = (int)n[4];
  int64_t small = std::min(n[1], n[2]), large = std::max(n[1], n[2]), a_bytes = n[1] * n[2] * BYTES[e], b_bytes = n[1] * n[3] * BYTES[e], x_bytes = large * n[3] * BYTES[e];
  double rcond = *(const double*)p[6];
  int lda = lead(rows), ldb = lead(large);
  if (!small || !sides) {
    if (x_bytes) memset(p[0] + lo * x_bytes, 0, (hi - lo) * x_bytes);
    for (int64_t i = lo; i < hi; i++) ((int64_t*)p[1])[i] = ((int32_t*)p[3])[i] = 0;
    if (small) memset(p[2] + lo * small * REAL_BYTES[e], 0, (hi - lo) * small * REAL_BYTES[e]);
    return 0;
  }
  Room matrix_room, work_room, real_room, integer_room, singular_room;
  char* a = (char*)matrix_room.of(a_bytes);
  double asked[2], asked_real = 1;
  int asked_integer = 1, size = -1, rank = 0;
  void *work = asked, *real_work = &asked_real, *s = singular_room.of(small * 8);
  int* integers = &asked_integer;
  auto ranked = [&](void* b, auto limit) {           // `limit`: float or double, as the routine takes it
    bool wide = is_complex(e);
    if (driver == 1) return wide ? call(gelsy, e, COLUMN_MAJOR, rows, columns, sides, (void*)a, lda, b, ldb, integers, limit, &rank, work, size, real_work)
                                 : call(gelsy, e, COLUMN_MAJOR, rows, columns, sides, (void*)a, lda, b, ldb, integers, limit, &rank, work, size);
    return wide ? call(gelsd, e, COLUMN_MAJOR, rows, columns, sides, (void*)a, lda, b, ldb, s, limit, &rank, work, size, real_work, integers)
                : call(gelsd, e, COLUMN_MAJOR, rows, columns, sides, (void*)a, lda, b, ldb, s, limit, &rank, work, size, integers);
  };
  auto run = [&](void* b) {
    if (driver == 0) return call(gels, e, COLUMN_MAJOR, 'N', rows, columns, sides, (void*)a, lda, b, ldb, work, size);
    return REAL_BYTES[e] == 4 ? ranked(b, (float)rcond) : ranked(b, rcond);
  };
  run(p[0]);
  size = optimum(asked, e);
  int64_t reals = driver == 1 ? 2 * columns : driver == 2 && is_complex(e) ? optimum(&asked_real, e) : 1;
  int64_t whole = driver == 1 ? columns : driver == 2 ? asked_integer : 1;
  work = work_room.of((int64_t)size * BYTES[e]);
  real_work = real_room.of(reals * REAL_BYTES[e]);
  integers = (int*)integer_room.of(std::max<int64_t>(whole, 1) * 4);
  for (int64_t i = lo; i < hi; i++) {
    char* x = p[0] + i * x_bytes;
    memcpy(a, p[4] + i * a_bytes, a_bytes);
    for (int64_t j = 0; j < sides; j++) {
      memcpy(x + j * large * BYTES[e], p[5] + i * b_bytes + j * n[1] * BYTES[e], n[1] * BYTES[e]);
      memset(x + (j * large + n[1]) * BYTES[e], 0, (large - n[1]) * BYTES[e]);
    }
    if (driver == 1) memset(integers, 0, columns * 4);          // gelsy: no column is bound to its place
    int info = run(x);
    ((int64_t*)p[1])[i] = rank;
    memcpy(p[2] + i * small * REAL_BYTES[e], s, small * REAL_BYTES[e]);
    ((int32_t*)p[3])[i] = info;
    if (info > 0) return failure(1, i, info);
  }
  return 0;
}

// ------------------------------------------------------------------------------------------------------------- matrix exponential
// exp(A) in double precision whatever the matrix's: scaled by a power of 2 to norm at most 1/2, a Taylor polynomial of degree 18 (its remainder is below
// 2^-18/19! there), squared back. `Value`: double or complex<double>.
template <class Value> static void multiply(int e, int order, const Value* a, const Value* b, Value* c) {
  char plain = 'N';
  Value one = 1, zero = 0;
  call_blas(gemm, e, &plain, &plain, &order, &order, &order, (void*)&one, (void*)a, &order, (void*)b, &order, (void*)&zero, (void*)c, &order, (size_t)1, (size_t)1);
}

template <class Value> static void exponential(int e, int64_t order, Value* a, Value* rooms) {         // in place; rooms: 6 matrices
  int64_t count = order * order;
  double norm = 0;
  for (int64_t j = 0; j < order; j++) {
    double sum = 0;
    for (int64_t i = 0; i < order; i++) sum += std::abs(a[j * order + i]);
    norm = norm > sum || std::isnan(norm) ? norm : sum;
  }
  if (!std::isfinite(norm)) { for (int64_t i = 0; i < count; i++) a[i] = NAN; return; }
  int halvings = norm > 0.5 ? (int)std::ceil(std::log2(norm * 2)) : 0;
  double scale = std::ldexp(1.0, -halvings);
  for (int64_t i = 0; i < count; i++) a[i] *= scale;
  Value *powers[4] = {a, rooms, rooms + count, rooms + 2 * count}, *sum = rooms + 3 * count, *next = rooms + 4 * count;
  for (int k = 1; k < 4; k++) multiply(e, (int)order, powers[k - 1], a, powers[k]);         // a, a^2, a^3, a^4
  double inverse_factorial[21];
  inverse_factorial[0] = 1;
  for (int k = 1; k <= 20; k++) inverse_factorial[k] = inverse_factorial[k - 1] / k;
  // Five groups of four terms, by powers of a^4: ((((g4) a^4 + g3) a^4 + g2) ...; the last group ends at degree 19.
  for (int64_t i = 0; i < count; i++) sum[i] = 0;
  for (int group = 4; group >= 0; group--) {
    if (group < 4) { multiply(e, (int)order, sum, powers[3], next); std::swap(sum, next); }
    for (int64_t i = 0; i < count; i++)
      sum[i] += inverse_factorial[4 * group + 1] * powers[0][i] + inverse_factorial[4 * group + 2] * powers[1][i] + inverse_factorial[4 * group + 3] * powers[2][i];
    for (int64_t i = 0; i < order; i++) sum[i * order + i] += inverse_factorial[4 * group];
  }
  for (int k = 0; k < halvings; k++) { multiply(e, (int)order, sum, sum, next); std::swap(sum, next); }
  memcpy((void*)a, (const void*)sum, count * sizeof(Value));
}

// exponential <- matrix; n: element, order
static int64_t matrix_exp(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  int e = (int)n[0];
  int64_t order = n[1], count = order * order, reals = count * (is_complex(e) ? 2 : 1);
  if (!count) return 0;
  Room room;
  double* wide = (double*)room.of(7 * reals * 8);
  for (int64_t i = lo; i < hi; i++) {
    char *from = p[1] + i * count * BYTES[e], *to = p[0] + i * count * BYTES[e];
    if (REAL_BYTES[e] == 4) for (int64_t k = 0; k < reals; k++) wide[k] = ((const float*)from)[k];
    else memcpy(wide, from, reals * 8);
    if (is_complex(e)) exponential(C128, order, (std::complex<double>*)wide, (std::complex<double>*)(wide + reals));
    else exponential(F64, order, wide, wide + reals);
    if (REAL_BYTES[e] == 4) for (int64_t k = 0; k < reals; k++) ((float*)to)[k] = (float)wide[k];
    else memcpy(to, wide, reals * 8);
  }
  return 0;
}

PyObject* LinAlgError = nullptr;

bool init_lapack(PyObject* m) {
  LinAlgError = PyErr_NewExceptionWithDoc("torch._C._LinAlgError", "Error raised by linear algebra operators when the cause is the values of a matrix.", PyExc_RuntimeError, nullptr);
  if (!LinAlgError || PyModule_AddObjectRef(m, "_LinAlgError", LinAlgError) < 0) return false;
  static const struct { const char* name; Kernel kernel; } KERNELS[] = {
      {"lapack_cholesky", cholesky}, {"lapack_lu", lu}, {"lapack_lu_solve", lu_solve}, {"lapack_triangular", triangular}, {"lapack_qr", qr_factor}, {"linalg_row_order", row_order},
      {"lapack_ldl", ldl}, {"lapack_ldl_solve", ldl_solve}, {"lapack_eigh", eigh},
      {"lapack_eig", eig}, {"lapack_svd", svd<true>}, {"lapack_svdvals", svd<false>}, {"lapack_lstsq", least_squares}, {"lapack_matrix_exp", matrix_exp}};
  for (auto& k : KERNELS) native_kernel_register(k.name, k.kernel);
  return true;
}

}  // namespace rl
