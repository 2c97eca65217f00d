// Fourier transforms of any length, as kernels of the runtime (trace.native calls them).
//
// A line of n numbers goes through Stockham's algorithm: one pass for each factor of n (8 4 2 3 5 7 11 13), between two pairs of arrays that keep real and
// imaginary parts apart. Lines that lie side by side in memory (a transform of an outer dimension), and short ones, go through together, a few at a time:
// they are then what the passes' innermost loops run over. A length with a larger prime factor is a convolution (Bluestein) of a length without.
// Real transforms of even length are complex ones of half the length, and a fold.
//
// Each line's arithmetic is the same whatever lines it travels with: results do not depend on how the work is cut.
// n of every kernel: element (0 float, 1 double), outer count, length, inner count, then as listed there. A scale is a code (0: none, 1: 1/sqrt(size),
// 2: 1/size) and a size.
#include "runtime.h"
#include <cmath>
#include <memory>
#include <mutex>
#include <unordered_map>
#define FFT_NAMESPACE fft_plain
#include "fft_passes.h"

namespace rl {

#if defined(__x86_64__) && defined(RUSHLIGHT_FFT_WIDE)
void fft_pass_wide(int radix, int64_t m, int64_t s, const float* xr, const float* xi, float* yr, float* yi, const float* wr, const float* wi);
void fft_pass_wide(int radix, int64_t m, int64_t s, const double* xr, const double* xi, double* yr, double* yi, const double* wr, const double* wi);
static bool has_wide() { static const bool yes = __builtin_cpu_supports("avx2"); return yes; }
template <class T> static inline void one_pass(int radix, int64_t m, int64_t s, const T* xr, const T* xi, T* yr, T* yi, const T* wr, const T* wi) {
  if (has_wide()) fft_pass_wide(radix, m, s, xr, xi, yr, yi, wr, wi);
  else fft_plain::run_pass(radix, m, s, xr, xi, yr, yi, wr, wi);
}
#else
template <class T> static inline void one_pass(int radix, int64_t m, int64_t s, const T* xr, const T* xi, T* yr, T* yi, const T* wr, const T* wi) {
  fft_plain::run_pass(radix, m, s, xr, xi, yr, yi, wr, wi);
}
#endif

// exp(-2 pi i k / n), with the angle brought to the first octant: the error is the rounding of the result.
static void root(int64_t k, int64_t n, double* re, double* im) {
  k %= n;
  int64_t eighths = 8 * k;
  int octant = (int)(eighths / n);
  int64_t rest = eighths - octant * n;                        // the angle is (octant + rest/n) * 45 degrees
  bool mirror = octant & 1;
  double angle = (mirror ? (double)(n - rest) : (double)rest) / (double)n * 0.78539816339744830962;
  double c = std::cos(angle), s = std::sin(angle);
  if (mirror) std::swap(c, s);
  switch (octant >> 1) {                                       // quarter turns
    case 0: *re = c; *im = -s; return;
    case 1: *re = -s; *im = -c; return;
    case 2: *re = -c; *im = s; return;
    default: *re = s; *im = c; return;
  }
}

template <class T> struct Transform {                          // what a length needs: made once, then shared
  int64_t n;
  std::vector<int> radices;
  std::vector<std::vector<T>> wr, wi;                          // twiddles of each pass
  std::vector<T> fold_re, fold_im;                             // exp(-2 pi i k / 2n): of a real transform of twice the length
  std::shared_ptr<Transform> longer;                           // Bluestein: the convolution's
  std::vector<T> chirp_re, chirp_im, kernel_re, kernel_im;     // exp(-pi i k^2 / n), and the transform of its conjugate

  explicit Transform(int64_t length);
  int64_t room() const { return longer ? longer->n : n; }      // numbers in each of the four arrays, for one line
  void run(T*& xr, T*& xi, T*& yr, T*& yi, int64_t lines) const;      // the result is in x, which may be the other pair of arrays now
};

template <class T> static std::shared_ptr<Transform<T>> transform_of(int64_t n) {
  static std::mutex lock;
  static std::unordered_map<int64_t, std::shared_ptr<Transform<T>>> known;
  {
    std::lock_guard<std::mutex> hold(lock);
    auto it = known.find(n);
    if (it != known.end()) return it->second;
  }
  auto made = std::make_shared<Transform<T>>(n);               // outside the lock: it may need another length itself
  std::lock_guard<std::mutex> hold(lock);
  if (known.size() >= 64) known.clear();
  return known.emplace(n, made).first->second;
}

template <class T> Transform<T>::Transform(int64_t length) : n(length) {
  fold_re.resize(n + 1); fold_im.resize(n + 1);
  for (int64_t k = 0; k <= n; k++) {
    double a, b;
    root(k, 2 * n, &a, &b);
    fold_re[k] = (T)a; fold_im[k] = (T)b;
  }
  int64_t rest = n;
  int twos = 0;
  for (; rest % 2 == 0 && rest > 1; rest /= 2) twos++;
  // Powers of 2 first, in passes of 8 (few trips through memory, and the next pass's innermost loop has a vector's length), what is left over in 4s.
  int eights = twos % 3 == 1 && twos > 3 ? twos / 3 - 1 : twos / 3;
  for (int i = 0; i < eights; i++) radices.push_back(8);
  for (twos -= 3 * eights; twos >= 2; twos -= 2) radices.push_back(4);
  if (twos) radices.push_back(2);
  for (int f : {3, 5, 7, 11, 13}) while (rest % f == 0 && rest > 1) { radices.push_back(f); rest /= f; }
  if (rest > 1) {
    radices.clear();
    int64_t size = 1;
    while (size < 2 * n - 1) size *= 2;
    longer = transform_of<T>(size);
    chirp_re.resize(n); chirp_im.resize(n); kernel_re.assign(size, 0); kernel_im.assign(size, 0);
    std::vector<double> kr(size, 0), ki(size, 0);
    for (int64_t k = 0; k < n; k++) {
      double re, im;
      root((int64_t)((unsigned __int128)k * k % (2 * n)), 2 * n, &re, &im);
      chirp_re[k] = (T)re; chirp_im[k] = (T)im;
      kr[k] = re / size; ki[k] = -im / size;
      if (k) { kr[size - k] = kr[k]; ki[size - k] = ki[k]; }
    }
    auto wide = transform_of<double>(size);                    // in double: these factors meet every input
    std::vector<double> yr(size), yi(size);
    double *ar = kr.data(), *ai = ki.data(), *br = yr.data(), *bi = yi.data();
    wide->run(ar, ai, br, bi, 1);
    for (int64_t k = 0; k < size; k++) { kernel_re[k] = (T)ar[k]; kernel_im[k] = (T)ai[k]; }
    return;
  }
  int64_t left = n;
  for (int f : radices) {
    int64_t m = left / f;
    std::vector<T> re((f - 1) * m), im((f - 1) * m);
    for (int k = 1; k < f; k++)
      for (int64_t p = 0; p < m; p++) {
        double a, b;
        root(p * k, left, &a, &b);
        re[(k - 1) * m + p] = (T)a; im[(k - 1) * m + p] = (T)b;
      }
    wr.push_back(std::move(re)); wi.push_back(std::move(im));
    left = m;
  }
}

template <class T> void Transform<T>::run(T*& xr, T*& xi, T*& yr, T*& yi, int64_t lines) const {
  if (!longer) {
    int64_t left = n, s = lines;
    for (size_t i = 0; i < radices.size(); i++) {
      int64_t m = left / radices[i];
      one_pass<T>(radices[i], m, s, xr, xi, yr, yi, wr[i].data(), wi[i].data());
      std::swap(xr, yr); std::swap(xi, yi);
      left = m; s *= radices[i];
    }
    return;
  }
  // x * chirp, convolved with the chirp's conjugate (a transform, a product, a transform back: swapped parts), * chirp.
  int64_t size = longer->n;
  for (int64_t k = 0; k < n; k++)
    for (int64_t q = 0; q < lines; q++) {
      T a = xr[k * lines + q], b = xi[k * lines + q];
      xr[k * lines + q] = a * chirp_re[k] - b * chirp_im[k];
      xi[k * lines + q] = a * chirp_im[k] + b * chirp_re[k];
    }
  for (int64_t i = n * lines; i < size * lines; i++) xr[i] = xi[i] = 0;
  longer->run(xr, xi, yr, yi, lines);
  for (int64_t k = 0; k < size; k++)
    for (int64_t q = 0; q < lines; q++) {
      T a = xr[k * lines + q], b = xi[k * lines + q];
      xr[k * lines + q] = a * kernel_re[k] - b * kernel_im[k];
      xi[k * lines + q] = a * kernel_im[k] + b * kernel_re[k];
    }
  std::swap(xr, xi); std::swap(yr, yi);
  longer->run(xr, xi, yr, yi, lines);
  std::swap(xr, xi); std::swap(yr, yi);
  for (int64_t k = 0; k < n; k++)
    for (int64_t q = 0; q < lines; q++) {
      T a = xr[k * lines + q], b = xi[k * lines + q];
      xr[k * lines + q] = a * chirp_re[k] - b * chirp_im[k];
      xi[k * lines + q] = a * chirp_im[k] + b * chirp_re[k];
    }
}

// ------------------------------------------------------------------------------------------------------------------ lines
// A unit of work is a block of up to BLOCK lines that lie side by side (inner > 1), else one line. Within the units of one run lines go through
// together, as many as fit the cache: side by side, or short ones.
static const int64_t BLOCK = 16;

template <class T> struct Lines {                              // the four arrays of a few lines, not initialised
  std::unique_ptr<T[]> memory;
  T *xr, *xi, *yr, *yi;
  explicit Lines(int64_t count) : memory(new T[(size_t)(4 * (count + 16))]) {       // apart by more than a power of 2, which would share cache lines
    xr = memory.get(); xi = xr + count + 16; yr = xi + count + 16; yi = yr + count + 16;
  }
};

template <class T> static int64_t lines_together(int64_t room, int64_t inner) {
  const int64_t CACHE = 256 << 10;
  if (inner == 1 && room > 64) return 1;
  return std::max<int64_t>(4, std::min(BLOCK, CACHE / (4 * (int64_t)sizeof(T) * room)));
}

static double scale_of(int64_t code, int64_t size) { return code == 0 ? 1.0 : code == 1 ? 1.0 / std::sqrt((double)size) : 1.0 / (double)size; }

// body(outer index, first inner index, lines) or, of lines one after another, body(first line, 0, lines) for all of the units [lo, hi).
template <class Body> static void each_group(int64_t inner, int64_t together, int64_t lo, int64_t hi, Body body) {
  if (inner == 1) {
    for (int64_t line = lo; line < hi; line += together) body(line, 0, std::min(together, hi - line));
    return;
  }
  int64_t blocks = (inner + BLOCK - 1) / BLOCK;
  for (int64_t u = lo; u < hi; u++) {
    int64_t from = u % blocks * BLOCK, to = std::min(inner, from + BLOCK);
    for (int64_t at = from; at < to; at += together) body(u / blocks, at, std::min(together, to - at));
  }
}

// Where line q of a group begins in an array of `length` elements a line.
static inline int64_t start(int64_t outer, int64_t at, int64_t q, int64_t length, int64_t inner) { return inner == 1 ? (outer + q) * length : outer * length * inner + at + q; }

// Elements of lines to separate parts, element-major. `step`: numbers from one element to the next, `gap`: from one line to the next.
template <class T> static void gather(const T* x, int64_t length, int64_t step, int64_t gap, int64_t lines, T* re, T* im) {
  if (lines == 1) { for (int64_t k = 0; k < length; k++) { re[k] = x[k * step]; im[k] = x[k * step + 1]; } return; }
  for (int64_t k = 0; k < length; k++)
    for (int64_t q = 0; q < lines; q++) { re[k * lines + q] = x[k * step + q * gap]; im[k * lines + q] = x[k * step + q * gap + 1]; }
}

template <class T> static void spread(T* y, int64_t length, int64_t step, int64_t gap, int64_t lines, const T* re, const T* im, T scale) {
  if (lines == 1) { for (int64_t k = 0; k < length; k++) { y[k * step] = re[k] * scale; y[k * step + 1] = im[k] * scale; } return; }
  for (int64_t k = 0; k < length; k++)
    for (int64_t q = 0; q < lines; q++) { y[k * step + q * gap] = re[k * lines + q] * scale; y[k * step + q * gap + 1] = im[k * lines + q] * scale; }
}

// out <- in, complex; n[4]: forward, n[5], n[6]: scale
template <class T> static void complex_lines(char** p, const int64_t* n, int64_t lo, int64_t hi) {
  int64_t length = n[2], inner = n[3], step = 2 * inner, gap = inner == 1 ? 2 * length : 2;
  auto transform = transform_of<T>(length);
  int64_t together = lines_together<T>(transform->room(), inner);
  Lines<T> a(transform->room() * together);
  T scale = (T)scale_of(n[5], n[6]);
  each_group(inner, together, lo, hi, [&](int64_t outer, int64_t at, int64_t lines) {
    T *xr = a.xr, *xi = a.xi, *yr = a.yr, *yi = a.yi;
    int64_t from = 2 * start(outer, at, 0, length, inner);
    // The inverse transform is that of the swapped parts, swapped.
    gather((const T*)p[1] + from, length, step, gap, lines, n[4] ? xr : xi, n[4] ? xi : xr);
    transform->run(xr, xi, yr, yi, lines);
    spread((T*)p[0] + from, length, step, gap, lines, n[4] ? xr : xi, n[4] ? xi : xr, scale);
  });
}

// out (complex: length / 2 + 1 a line, or with n[4] all of them) <- in (real); n[5], n[6]: scale
template <class T> static void real_to_complex(char** p, const int64_t* n, int64_t lo, int64_t hi) {
  int64_t length = n[2], inner = n[3], half = length / 2, wanted = n[4] ? length : half + 1;
  bool even = length % 2 == 0;
  auto transform = transform_of<T>(even ? half : length);
  int64_t together = lines_together<T>(transform->room(), inner);
  Lines<T> a(transform->room() * together);
  T scale = (T)scale_of(n[5], n[6]);
  each_group(inner, together, lo, hi, [&](int64_t outer, int64_t at, int64_t lines) {
    T *xr = a.xr, *xi = a.xi, *yr = a.yr, *yi = a.yi;
    for (int64_t q = 0; q < lines; q++) {
      const T* x = (const T*)p[1] + start(outer, at, q, length, inner);
      if (even) for (int64_t k = 0; k < half; k++) { xr[k * lines + q] = x[2 * k * inner]; xi[k * lines + q] = x[(2 * k + 1) * inner]; }
      else for (int64_t k = 0; k < length; k++) { xr[k * lines + q] = x[k * inner]; xi[k * lines + q] = 0; }
    }
    transform->run(xr, xi, yr, yi, lines);
    const T *wr = transform->fold_re.data(), *wi = transform->fold_im.data();
    for (int64_t q = 0; q < lines; q++) {
      T* y = (T*)p[0] + 2 * start(outer, at, q, wanted, inner);
      if (!even) for (int64_t k = 0; k <= half; k++) { y[2 * k * inner] = xr[k * lines + q] * scale; y[2 * k * inner + 1] = xi[k * lines + q] * scale; }
      else for (int64_t k = 0; k <= half; k++) {               // of z = even + i odd elements: E + w O, from z's value here and at the mirrored place
        int64_t i = (k == half ? 0 : k) * lines + q, j = (k == 0 ? 0 : half - k) * lines + q;
        T er = (xr[i] + xr[j]) * T(0.5), ei = (xi[i] - xi[j]) * T(0.5), dr = (xi[i] + xi[j]) * T(0.5), di = (xr[j] - xr[i]) * T(0.5);
        y[2 * k * inner] = (er + (dr * wr[k] - di * wi[k])) * scale;
        y[2 * k * inner + 1] = (ei + (dr * wi[k] + di * wr[k])) * scale;
      }
      for (int64_t k = half + 1; k < wanted; k++) { y[2 * k * inner] = y[2 * (length - k) * inner]; y[2 * k * inner + 1] = -y[2 * (length - k) * inner + 1]; }
    }
  });
}

// out (real, length a line) <- in (complex, length / 2 + 1 a line); n[5], n[6]: scale.
// The imaginary parts of the first element and, for even lengths, of the last are not looked at.
template <class T> static void complex_to_real(char** p, const int64_t* n, int64_t lo, int64_t hi) {
  int64_t length = n[2], inner = n[3], half = length / 2, given = half + 1;
  bool even = length % 2 == 0;
  auto transform = transform_of<T>(even ? half : length);
  int64_t together = lines_together<T>(transform->room(), inner);
  Lines<T> a(transform->room() * together);
  T scale = (T)scale_of(n[5], n[6]);
  each_group(inner, together, lo, hi, [&](int64_t outer, int64_t at, int64_t lines) {
    T *xr = a.xr, *xi = a.xi, *yr = a.yr, *yi = a.yi;           // the parts are swapped for an inverse transform
    const T *wr = transform->fold_re.data(), *wi = transform->fold_im.data();
    for (int64_t q = 0; q < lines; q++) {
      const T* x = (const T*)p[1] + 2 * start(outer, at, q, given, inner);
      auto re = [&](int64_t k) { return x[2 * k * inner]; };
      auto im = [&](int64_t k) { return k == 0 || (even && k == half) ? T(0) : x[2 * k * inner + 1]; };
      if (even) for (int64_t k = 0; k < half; k++) {            // (X[k] + X*[h-k]) + i conj(w) (X[k] - X*[h-k])
        T ar = re(k), ai = im(k), br = re(half - k), bi = -im(half - k);
        T dr = ar - br, di = ai - bi, cr = dr * wr[k] + di * wi[k], ci = di * wr[k] - dr * wi[k];
        xi[k * lines + q] = ar + br - ci;
        xr[k * lines + q] = ai + bi + cr;
      }
      else for (int64_t k = 0; k < length; k++) {
        int64_t m = k <= half ? k : length - k;
        xi[k * lines + q] = re(m);
        xr[k * lines + q] = k <= half ? im(m) : -im(m);
      }
    }
    transform->run(xr, xi, yr, yi, lines);
    for (int64_t q = 0; q < lines; q++) {
      T* y = (T*)p[0] + start(outer, at, q, length, inner);
      if (even) for (int64_t k = 0; k < half; k++) { y[2 * k * inner] = xi[k * lines + q] * scale; y[(2 * k + 1) * inner] = xr[k * lines + q] * scale; }
      else for (int64_t k = 0; k < length; k++) y[k * inner] = xi[k * lines + q] * scale;
    }
  });
}

#define KERNEL(name, body) \
  static int64_t name(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) { if (n[0]) body<double>(p, n, lo, hi); else body<float>(p, n, lo, hi); return 0; }
KERNEL(fft_c2c, complex_lines)
KERNEL(fft_r2c, real_to_complex)
KERNEL(fft_c2r, complex_to_real)
#undef KERNEL

bool init_fft(PyObject*) {
  native_kernel_register("fft_c2c", fft_c2c);
  native_kernel_register("fft_r2c", fft_r2c);
  native_kernel_register("fft_c2r", fft_c2r);
  return true;
}

}  // namespace rl
