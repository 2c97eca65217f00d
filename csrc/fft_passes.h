// The passes of the Fourier transform, included once for each instruction set they are compiled for (fft.cpp, fft_wide.cpp): FFT_NAMESPACE names the copy.
// No intrinsics: GCC's and Clang's vector types, which any processor has in pieces if not whole. Contraction to fused multiply-adds is off
// (CMakeLists.txt), so every copy gives the same bits. Nothing here may call a template from elsewhere: the linker keeps one copy of those, of either kind.
#include "fft_plan.h"
#include <numbers>

namespace rl::FFT_NAMESPACE {

// ---------------------------------------------------------------------------------------------------------------- vectors
typedef float Float8 __attribute__((vector_size(32)));
typedef double Double4 __attribute__((vector_size(32)));
typedef float UnalignedFloat8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double UnalignedDouble4 __attribute__((vector_size(32), aligned(8), may_alias));
template <class E> struct VectorOf;
template <> struct VectorOf<float> { typedef Float8 type; typedef UnalignedFloat8 unaligned; };
template <> struct VectorOf<double> { typedef Double4 type; typedef UnalignedDouble4 unaligned; };
template <class E> using Vector = typename VectorOf<E>::type;
template <class E> constexpr int64_t LANES = 32 / sizeof(E);
template <class T> struct ElementOf { typedef T type; };
template <> struct ElementOf<Float8> { typedef float type; };
template <> struct ElementOf<Double4> { typedef double type; };
template <class T> using Element = typename ElementOf<T>::type;
#define FFT_INLINE static inline __attribute__((always_inline))

template <class E> FFT_INLINE Vector<E> vload(const E* x) { return (Vector<E>)*(const typename VectorOf<E>::unaligned*)x; }
template <class E> FFT_INLINE void vstore(E* x, Vector<E> v) { *(typename VectorOf<E>::unaligned*)x = (typename VectorOf<E>::unaligned)v; }

#if defined(__clang__) || __GNUC__ >= 12
#define FFT_SHUFFLE(index, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t Index8 __attribute__((vector_size(32)));
typedef int64_t Index4 __attribute__((vector_size(32)));
#define FFT_SHUFFLE(index, a, b, ...) __builtin_shuffle(a, b, (index){__VA_ARGS__})
#endif

// What everything below is made of: each is one instruction of AVX. Halves of two vectors side by side; the elements of each half in turn; every other element.
FFT_INLINE Float8 lows(Float8 a, Float8 b) { return FFT_SHUFFLE(Index8, a, b, 0, 1, 2, 3, 8, 9, 10, 11); }
FFT_INLINE Float8 highs(Float8 a, Float8 b) { return FFT_SHUFFLE(Index8, a, b, 4, 5, 6, 7, 12, 13, 14, 15); }
FFT_INLINE Float8 zip_first(Float8 a, Float8 b) { return FFT_SHUFFLE(Index8, a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
FFT_INLINE Float8 zip_second(Float8 a, Float8 b) { return FFT_SHUFFLE(Index8, a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
FFT_INLINE Float8 evens(Float8 a, Float8 b) { return FFT_SHUFFLE(Index8, a, b, 0, 2, 8, 10, 4, 6, 12, 14); }
FFT_INLINE Float8 odds(Float8 a, Float8 b) { return FFT_SHUFFLE(Index8, a, b, 1, 3, 9, 11, 5, 7, 13, 15); }
FFT_INLINE Float8 reversed(Float8 a) { return FFT_SHUFFLE(Index8, a, a, 7, 6, 5, 4, 3, 2, 1, 0); }
FFT_INLINE Double4 lows(Double4 a, Double4 b) { return FFT_SHUFFLE(Index4, a, b, 0, 1, 4, 5); }
FFT_INLINE Double4 highs(Double4 a, Double4 b) { return FFT_SHUFFLE(Index4, a, b, 2, 3, 6, 7); }
FFT_INLINE Double4 zip_first(Double4 a, Double4 b) { return FFT_SHUFFLE(Index4, a, b, 0, 4, 2, 6); }
FFT_INLINE Double4 zip_second(Double4 a, Double4 b) { return FFT_SHUFFLE(Index4, a, b, 1, 5, 3, 7); }
FFT_INLINE Double4 evens(Double4 a, Double4 b) { return zip_first(a, b); }              // halves of two elements: the first of each is the even one
FFT_INLINE Double4 odds(Double4 a, Double4 b) { return zip_second(a, b); }
FFT_INLINE Double4 reversed(Double4 a) { return FFT_SHUFFLE(Index4, a, a, 3, 2, 1, 0); }

// Pairs (re im re im ...) in two vectors to parts, and back.
template <class V> FFT_INLINE void split(V a, V b, V& re, V& im) {
  V c = lows(a, b), d = highs(a, b);
  re = evens(c, d); im = odds(c, d);
}
template <class V> FFT_INLINE void join(V re, V im, V& a, V& b) {
  V c = zip_first(re, im), d = zip_second(re, im);
  a = lows(c, d); b = highs(c, d);
}

FFT_INLINE void transpose(Float8* r) {                                 // of 8 x 8
  Float8 t[8], u[8];
  for (int i = 0; i < 8; i += 2) { t[i] = zip_first(r[i], r[i + 1]); t[i + 1] = zip_second(r[i], r[i + 1]); }
  for (int i = 0; i < 8; i += 4) for (int j = 0; j < 2; j++) {         // by pairs of elements now
    u[i + 2 * j] = FFT_SHUFFLE(Index8, t[i + j], t[i + 2 + j], 0, 1, 8, 9, 4, 5, 12, 13);
    u[i + 2 * j + 1] = FFT_SHUFFLE(Index8, t[i + j], t[i + 2 + j], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; i++) { r[i] = lows(u[i], u[i + 4]); r[i + 4] = highs(u[i], u[i + 4]); }
}
FFT_INLINE void transpose(Double4* r) {                                // of 4 x 4
  Double4 t[4];
  for (int i = 0; i < 4; i += 2) { t[i] = zip_first(r[i], r[i + 1]); t[i + 1] = zip_second(r[i], r[i + 1]); }
  for (int i = 0; i < 2; i++) { r[i] = lows(t[i], t[i + 2]); r[i + 2] = highs(t[i], t[i + 2]); }
}

// Where a pass reads and writes: element i of lane q. Parts: real and imaginary parts in arrays of their own; Pairs: side by side, as tensors hold them
// (`swap`: the parts for each other, as inverse transforms want them; a scale on the way out).
template <class E> struct Parts {
  E *re, *im;
  int64_t step;                                                        // numbers from one element to the next
  FFT_INLINE void load(const Parts& s, int64_t i, int64_t q, Vector<E>& a, Vector<E>& b) { a = vload(s.re + i * s.step + q); b = vload(s.im + i * s.step + q); }
  FFT_INLINE void store(const Parts& s, int64_t i, int64_t q, Vector<E> a, Vector<E> b) { vstore(s.re + i * s.step + q, a); vstore(s.im + i * s.step + q, b); }
};
template <class E> struct Pairs {
  E* x;
  int64_t step;
  bool swap;
  E scale;
  FFT_INLINE void load(const Pairs& s, int64_t i, int64_t q, Vector<E>& a, Vector<E>& b) {
    const E* x = s.x + i * s.step + 2 * q;
    if (s.swap) split(vload(x), vload(x + LANES<E>), b, a);
    else split(vload(x), vload(x + LANES<E>), a, b);
  }
  FFT_INLINE void store(const Pairs& s, int64_t i, int64_t q, Vector<E> a, Vector<E> b) {
    E* x = s.x + i * s.step + 2 * q;
    Vector<E> c, d;
    if (s.swap) join(b * s.scale, a * s.scale, c, d);
    else join(a * s.scale, b * s.scale, c, d);
    vstore(x, c); vstore(x + LANES<E>, d);
  }
};

// ----------------------------------------------------------------------------------------------------------------- passes
// One pass of Stockham's algorithm over data of n = R * m elements, each of them s numbers side by side (a multiple of a vector's):
//   y[R*p + k][q] = (DFT of x[p], x[p + m], ... x[p + (R-1)*m])[k][q] * w^(p*k),   w = exp(-2 pi i / n).
// Twiddles: for each k = 1 .. R-1 an array over p. The last pass has none: every element there is one of the first kind, so what is m * s numbers side by
// side may also be told as m elements of s, which then stay in their order (y[p + m*k]).
template <class T, int R> struct Butterfly;                            // the DFT of R numbers, in place; T: a vector, each lane for itself

template <class T> struct Butterfly<T, 2> {
  static inline void run(T* re, T* im) {
    T a = re[0], b = im[0];
    re[0] = a + re[1]; im[0] = b + im[1];
    re[1] = a - re[1]; im[1] = b - im[1];
  }
};

template <class T> struct Butterfly<T, 4> {
  static inline void run(T* re, T* im) {
    T ar = re[0] + re[2], ai = im[0] + im[2], br = re[0] - re[2], bi = im[0] - im[2];
    T cr = re[1] + re[3], ci = im[1] + im[3], dr = re[1] - re[3], di = im[1] - im[3];
    re[0] = ar + cr; im[0] = ai + ci;
    re[1] = br + di; im[1] = bi - dr;                                 // b - i d
    re[2] = ar - cr; im[2] = ai - ci;
    re[3] = br - di; im[3] = bi + dr;
  }
};

template <class T> struct Butterfly<T, 8> {                            // even and odd elements by 4, joined with the eighth roots of 1
  static inline void run(T* re, T* im) {
    T er[4] = {re[0], re[2], re[4], re[6]}, ei[4] = {im[0], im[2], im[4], im[6]}, odd_re[4] = {re[1], re[3], re[5], re[7]}, odd_im[4] = {im[1], im[3], im[5], im[7]};
    Butterfly<T, 4>::run(er, ei);
    Butterfly<T, 4>::run(odd_re, odd_im);
    const auto h = (Element<T>)0.70710678118654752440;
    T ar = (odd_re[1] + odd_im[1]) * h, ai = (odd_im[1] - odd_re[1]) * h, br = odd_im[2], bi = -odd_re[2], cr = (odd_im[3] - odd_re[3]) * h, ci = -(odd_re[3] + odd_im[3]) * h;
    re[0] = er[0] + odd_re[0]; im[0] = ei[0] + odd_im[0]; re[4] = er[0] - odd_re[0]; im[4] = ei[0] - odd_im[0];
    re[1] = er[1] + ar; im[1] = ei[1] + ai; re[5] = er[1] - ar; im[5] = ei[1] - ai;
    re[2] = er[2] + br; im[2] = ei[2] + bi; re[6] = er[2] - br; im[6] = ei[2] - bi;
    re[3] = er[3] + cr; im[3] = ei[3] + ci; re[7] = er[3] - cr; im[7] = ei[3] - ci;
  }
};

// cos and sin of 2 pi k / R at compile time, by their series: the arguments are small, long double carries more digits than are kept.
constexpr long double series(long double x, bool sine) {
  long double term = sine ? x : 1, sum = term;
  for (int k = sine ? 2 : 1; k < 60; k += 2) { term *= -x * x / ((long double)k * (k + 1)); sum += term; }
  return sum;
}
template <int R> struct Roots {
  double cosine[R], sine[R];
  constexpr Roots() : cosine(), sine() {
    for (int k = 0; k < R; k++) {
      long double angle = 2 * std::numbers::pi_v<long double> * k / R;
      cosine[k] = (double)series(angle, false); sine[k] = (double)series(angle, true);
    }
  }
};

template <class T, int R> struct Butterfly {                           // odd R: pairs k and R-k share their cosines and sines
  static inline void run(T* re, T* im) {
    constexpr Roots<R> roots;
    constexpr int H = R / 2;
    T tr[H], ti[H], ur[H], ui[H], ar = re[0], ai = im[0], sr = ar, si = ai;
    for (int k = 0; k < H; k++) {
      tr[k] = re[k + 1] + re[R - 1 - k]; ti[k] = im[k + 1] + im[R - 1 - k];
      ur[k] = re[k + 1] - re[R - 1 - k]; ui[k] = im[k + 1] - im[R - 1 - k];
      sr += tr[k]; si += ti[k];
    }
    re[0] = sr; im[0] = si;
    for (int j = 1; j <= H; j++) {
      T cr = ar, ci = ai, dr = {}, di = {};
      for (int k = 1; k <= H; k++) {
        auto c = (Element<T>)roots.cosine[j * k % R], s = (Element<T>)roots.sine[j * k % R];
        cr += c * tr[k - 1]; ci += c * ti[k - 1];
        dr += s * ur[k - 1]; di += s * ui[k - 1];
      }
      re[j] = cr + di; im[j] = ci - dr;
      re[R - j] = cr - di; im[R - j] = ci + dr;
    }
  }
};

template <class E, int R, bool LAST, class From, class To>
static void pass(int64_t m, int64_t s, const From& from, const To& to, const E* wr, const E* wi) {
  typedef Vector<E> V;
  for (int64_t p = 0; p < m; p++) {
    E cr[R], ci[R];
    if (!LAST) for (int k = 1; k < R; k++) { cr[k] = wr[(k - 1) * m + p]; ci[k] = wi[(k - 1) * m + p]; }
    for (int64_t q = 0; q < s; q += LANES<E>) {
      V re[R], im[R];
      for (int k = 0; k < R; k++) From::load(from, p + m * k, q, re[k], im[k]);
      Butterfly<V, R>::run(re, im);
      To::store(to, LAST ? p : R * p, q, re[0], im[0]);
      for (int k = 1; k < R; k++) {
        if (LAST) To::store(to, p + m * k, q, re[k], im[k]);
        else To::store(to, R * p + k, q, re[k] * cr[k] - im[k] * ci[k], re[k] * ci[k] + im[k] * cr[k]);
      }
    }
  }
}

template <class E, bool LAST, class From, class To>
static void run_pass(int radix, int64_t m, int64_t s, const From& from, const To& to, const E* wr, const E* wi) {
  switch (radix) {
    case 2: return pass<E, 2, LAST>(m, s, from, to, wr, wi);
    case 3: return pass<E, 3, LAST>(m, s, from, to, wr, wi);
    case 4: return pass<E, 4, LAST>(m, s, from, to, wr, wi);
    case 5: return pass<E, 5, LAST>(m, s, from, to, wr, wi);
    case 7: return pass<E, 7, LAST>(m, s, from, to, wr, wi);
    case 8: return pass<E, 8, LAST>(m, s, from, to, wr, wi);
    case 11: return pass<E, 11, LAST>(m, s, from, to, wr, wi);
    default: return pass<E, 13, LAST>(m, s, from, to, wr, wi);
  }
}

// The first pass of a single line (s = 1), by 8: lanes are neighbouring p, turned in registers so that later passes have s = 8.
// The last vector overlaps the one before where m is no multiple of the lanes: it writes the same numbers again.
template <class E, class From> static void first_pass_of_line(int64_t m, const From& from, E* yr, E* yi, const E* wr, const E* wi) {
  typedef Vector<E> V;
  for (int64_t p = 0;; p += LANES<E>) {
    if (p > m - LANES<E>) p = m - LANES<E>;
    V re[8], im[8];
    for (int k = 0; k < 8; k++) From::load(from, p + m * k, 0, re[k], im[k]);
    Butterfly<V, 8>::run(re, im);
    for (int k = 1; k < 8; k++) {
      V a = vload(wr + (k - 1) * m + p), b = vload(wi + (k - 1) * m + p), c = re[k];
      re[k] = c * a - im[k] * b;
      im[k] = c * b + im[k] * a;
    }
    for (int k = 0; k < 8; k += LANES<E>) {
      transpose(re + k); transpose(im + k);
      for (int j = 0; j < LANES<E>; j++) { vstore(yr + 8 * (p + j) + k, re[k + j]); vstore(yi + 8 * (p + j) + k, im[k + j]); }
    }
    if (p == m - LANES<E>) return;
  }
}

}  // namespace
