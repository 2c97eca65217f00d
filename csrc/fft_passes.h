// The inner loops of the Fourier transform, included once for each instruction set they are compiled for (fft.cpp, fft_wide.cpp): FFT_NAMESPACE names the copy.
// No intrinsics: loops over separate arrays of real and imaginary parts, which compilers turn into vectors of whatever width they may use. Contraction to
// fused multiply-adds is off (CMakeLists.txt), so every copy gives the same bits.
#include <cstdint>
#include <numbers>

namespace rl::FFT_NAMESPACE {

// One pass of Stockham's algorithm over data of n = R * m elements, each of them s numbers side by side:
//   y[R*p + k][q] = (DFT of x[p], x[p + m], ... x[p + (R-1)*m])[k][q] * w^(p*k),   w = exp(-2 pi i / n).
// Twiddles: for each k = 1 .. R-1 an array over p. With s = 1 the loop over p is the vector, else the one over q.
template <class T, int R> struct Butterfly;                            // the DFT of R numbers, in place

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
    const T h = (T)0.70710678118654752440;
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
      T cr = ar, ci = ai, dr = 0, di = 0;
      for (int k = 1; k <= H; k++) {
        T c = (T)roots.cosine[j * k % R], s = (T)roots.sine[j * k % R];
        cr += c * tr[k - 1]; ci += c * ti[k - 1];
        dr += s * ur[k - 1]; di += s * ui[k - 1];
      }
      re[j] = cr + di; im[j] = ci - dr;
      re[R - j] = cr - di; im[R - j] = ci + dr;
    }
  }
};

template <class T, int R> static void pass(int64_t m, int64_t s, const T* __restrict xr, const T* __restrict xi, T* __restrict yr, T* __restrict yi,
                                           const T* __restrict wr, const T* __restrict wi) {
  if (s == 1) {
    for (int64_t p = 0; p < m; p++) {
      T re[R], im[R];
      for (int k = 0; k < R; k++) { re[k] = xr[p + m * k]; im[k] = xi[p + m * k]; }
      Butterfly<T, R>::run(re, im);
      yr[R * p] = re[0]; yi[R * p] = im[0];
      for (int k = 1; k < R; k++) {
        T a = wr[(k - 1) * m + p], b = wi[(k - 1) * m + p];
        yr[R * p + k] = re[k] * a - im[k] * b;
        yi[R * p + k] = re[k] * b + im[k] * a;
      }
    }
    return;
  }
  for (int64_t p = 0; p < m; p++) {
    T cr[R], ci[R];
    for (int k = 1; k < R; k++) { cr[k] = wr[(k - 1) * m + p]; ci[k] = wi[(k - 1) * m + p]; }
    const T *ar = xr + s * p, *ai = xi + s * p;
    T *br = yr + s * R * p, *bi = yi + s * R * p;
    for (int64_t q = 0; q < s; q++) {
      T re[R], im[R];
      for (int k = 0; k < R; k++) { re[k] = ar[q + s * m * k]; im[k] = ai[q + s * m * k]; }
      Butterfly<T, R>::run(re, im);
      br[q] = re[0]; bi[q] = im[0];
      for (int k = 1; k < R; k++) {
        br[q + s * k] = re[k] * cr[k] - im[k] * ci[k];
        bi[q + s * k] = re[k] * ci[k] + im[k] * cr[k];
      }
    }
  }
}

template <class T> static void run_pass(int radix, int64_t m, int64_t s, const T* xr, const T* xi, T* yr, T* yi, const T* wr, const T* wi) {
  switch (radix) {
    case 2: return pass<T, 2>(m, s, xr, xi, yr, yi, wr, wi);
    case 3: return pass<T, 3>(m, s, xr, xi, yr, yi, wr, wi);
    case 4: return pass<T, 4>(m, s, xr, xi, yr, yi, wr, wi);
    case 5: return pass<T, 5>(m, s, xr, xi, yr, yi, wr, wi);
    case 8: return pass<T, 8>(m, s, xr, xi, yr, yi, wr, wi);
    case 7: return pass<T, 7>(m, s, xr, xi, yr, yi, wr, wi);
    case 11: return pass<T, 11>(m, s, xr, xi, yr, yi, wr, wi);
    default: return pass<T, 13>(m, s, xr, xi, yr, yi, wr, wi);
  }
}

}  // namespace
