// Draws whose parameters are tensors: torch's streams, bit for bit where its arithmetic is in double (ops/random.py states the operators).
//
// Routines for trace.native; as their names begin with draw_ they run serially, with the call's generator. Inputs and outputs are dense, in logical order.
//   draw_poisson      p: out, rate              n: dtype, elements                          error 1: a negative rate
//   draw_binomial     p: out, count, chance     n: dtype (float32, float64), elements
//   draw_gamma        p: out, alpha             n: dtype (float32, float64), elements
//   draw_dirichlet    p: out, alpha             n: dtype (float32, float64), rows, row length
//   draw_multinomial  p: out, weights           n: dtype, rows, categories, samples         errors 1, 2, 3: see below
//   draw_rrelu        p: slopes, x, lower, upper (float64)     n: dtype, elements
#include "element.h"
#include "rng.h"
#include <limits>

namespace rl {

static Generator* drawing() { return g_current_generator ? g_current_generator : g_default_generator; }
static double unit(Generator* g) { return g->engine.unit64(); }

// -------------------------------------------------------------------------------------------------------------- poisson
// Small rates: multiply uniforms until the product falls to exp(-rate). Others: Hoermann's transformed rejection (PTRS).
static double poisson_one(Generator* g, double rate) {
  if (rate == 0) return 0;
  if (rate < 10) {
    double floor = std::exp(-rate), product = unit(g);
    int64_t k = 0;
    while (product > floor) { ++k; product *= unit(g); }
    return double(k);
  }
  double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b, log_rate = std::log(rate);
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = unit(g) - 0.5, v = unit(g), us = 0.5 - std::fabs(u);
    double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
  }
}

static int64_t draw_poisson(char** p, const int64_t* n, const Scalar*, char*, int64_t, int64_t) {
  DType d = (DType)n[0];
  int size = itemsize(d);
  for (int64_t i = 0; i < n[1]; i++) if (!(load_real(d, p[1] + i * size) >= 0)) return 1;
  for (int64_t i = 0; i < n[1]; i++) store_float(d, p[0] + i * size, poisson_one(drawing(), load_real(d, p[1] + i * size)));
  return 0;
}

// ------------------------------------------------------------------------------------------------------------- binomial
static double stirling_tail(double k) {
  static const double TABLE[] = {0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
                                 0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return TABLE[int(k)];
  double q = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / q) / q) / (k + 1);
}

// T: the dtype's own precision, in which torch computes.
template <class T> static T binomial_small(Generator* g, T count, T chance) {      // add up geometric gaps
  T gaps = 0, log_q = std::log1p(-chance);
  int64_t k = 0;
  for (;;) {
    gaps += std::ceil(T(std::log(T(unit(g)))) / log_q);
    if (gaps > count) return T(k);
    ++k;
  }
}
template <class T> static T binomial_large(Generator* g, T count, T chance) {      // Hoermann's BTRS
  T sd = std::sqrt(count * chance * (1 - chance));
  T b = T(1.15 + 2.53 * sd), a = T(-0.0873 + 0.0248 * b + 0.01 * chance), c = T(count * chance + 0.5), vr = T(0.92 - 4.2 / b), r = chance / (1 - chance);
  T alpha = T((2.83 + 5.1 / b) * sd), m = std::floor((count + 1) * chance);
  for (;;) {
    T u = T(unit(g) - 0.5), v = T(unit(g)), us = T(0.5 - std::fabs(u)), k = std::floor((2 * a / us + b) * u + c);
    if (k < 0 || k > count) continue;
    if (us >= 0.07 && v <= vr) return k;
    v = std::log(v * alpha / (a / (us * us) + b));
    T bound = T((m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) + (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) + stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k));
    if (v <= bound) return k;
  }
}
template <class T> static T binomial_one(Generator* g, T count, T chance) {
  if (count <= 0 || chance <= 0) return 0;
  if (chance >= 1) return count;
  if (chance <= T(0.5)) return count * chance >= 10 ? binomial_large(g, count, chance) : binomial_small(g, count, chance);
  if (std::isnan(chance)) return chance;
  T other = T(1) - chance;
  return count - (count * other >= 10 ? binomial_large(g, count, other) : binomial_small(g, count, other));
}
static int64_t draw_binomial(char** p, const int64_t* n, const Scalar*, char*, int64_t, int64_t) {
  if ((DType)n[0] == DType::Float64) for (int64_t i = 0; i < n[1]; i++) ((double*)p[0])[i] = binomial_one(drawing(), ((double*)p[1])[i], ((double*)p[2])[i]);
  else for (int64_t i = 0; i < n[1]; i++) ((float*)p[0])[i] = binomial_one(drawing(), ((float*)p[1])[i], ((float*)p[2])[i]);
  return 0;
}

// ---------------------------------------------------------------------------------------------------------------- gamma
// Marsaglia and Tsang. T: the precision of alpha's own arithmetic; everything else is double, with two constants that are float32 numbers.
template <class T> static double gamma_one(Generator* g, T alpha) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    scale *= std::pow(1 - unit(g), double(T(1) / alpha));
    alpha += T(1);
  }
  double d = double(alpha - T(1.0f / 3.0f)), c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    double x, y;
    do { x = g->normal(); y = 1.0 + c * x; } while (y <= 0);
    double v = y * y * y, u = 1 - unit(g), xx = x * x;
    if (u < 1.0 - double(0.0331f) * xx * xx || std::log(u) < 0.5 * xx + d * (1.0 - v + std::log(v))) return scale * d * v;
  }
}
static int64_t draw_gamma(char** p, const int64_t* n, const Scalar*, char*, int64_t, int64_t) {
  if ((DType)n[0] == DType::Float64)
    for (int64_t i = 0; i < n[1]; i++) { double v = gamma_one<double>(drawing(), ((double*)p[1])[i]); ((double*)p[0])[i] = v > 2.2250738585072014e-308 ? v : 2.2250738585072014e-308; }
  else
    for (int64_t i = 0; i < n[1]; i++) { float v = float(gamma_one<float>(drawing(), ((float*)p[1])[i])); ((float*)p[0])[i] = v > 1.17549435e-38f ? v : 1.17549435e-38f; }
  return 0;
}
// How a gamma draw moves with its shape parameter when the random numbers behind it stay the same: dx/da = -(dP/da) / (dP/dx) for the distribution function
// P(a, x) = sum over n of x^(a+n) exp(-x) / gamma(a+n+1). Divided by the density, the terms are ratios that need no gamma function; the sum of their
// derivatives needs digamma, which steps by 1/(a+n) from term to term. Shapes above 4000: the cube-root law, within 2e-7 of it.
static double digamma(double x) {
  double value = 0;
  for (; x < 10; x += 1) value -= 1 / x;
  double r = 1 / (x * x);
  return value + std::log(x) - 0.5 / x - r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132)))));
}
static double gamma_slope(double a, double x) {
  if (!(a > 0) || !(x > 0)) return 0;
  if (a > 4000) {
    double c = std::cbrt(x / a), z = (c - 1 + 1 / (9 * a)) * 3 * std::sqrt(a);
    return c * c * c + 3 * a * c * c * (1 / (9 * a * a) - z / (6 * a * std::sqrt(a)));
  }
  double ratio = 1, psi = digamma(a + 1), log_x = std::log(x), sum = 0;
  for (int n = 0; n < 20000; n++) {
    double term = ratio * (log_x - psi);
    sum += term;
    if (n > x && std::fabs(term) < 1e-17 * std::fabs(sum)) break;
    psi += 1 / (a + n + 1);
    ratio *= x / (a + n + 1);
  }
  return -(x / a) * sum;
}
// gamma_slopes: p: out, alpha, x     n: dtype (float32, float64). One unit is one element.
static int64_t gamma_slopes(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  if ((DType)n[0] == DType::Float64) for (int64_t i = lo; i < hi; i++) ((double*)p[0])[i] = gamma_slope(((double*)p[1])[i], ((double*)p[2])[i]);
  else for (int64_t i = lo; i < hi; i++) ((float*)p[0])[i] = float(gamma_slope(((float*)p[1])[i], ((float*)p[2])[i]));
  return 0;
}

template <class T> static void dirichlet_rows(T* out, const T* alpha, int64_t rows, int64_t length) {
  std::vector<double> gammas((size_t)length);
  const T top = std::nextafter(T(1), T(0)), bottom = std::numeric_limits<T>::min();
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t i = 0; i < length; i++) {      // a small concentration's draw underflows; a row of zeros would have no shares
      double v = gamma_one<double>(drawing(), double(alpha[r * length + i]));
      sum += gammas[size_t(i)] = v < std::numeric_limits<double>::min() ? std::numeric_limits<double>::min() : v;
    }
    for (int64_t i = 0; i < length; i++) { T v = T(gammas[size_t(i)] / sum); out[r * length + i] = v < bottom ? bottom : v > top ? top : v; }
  }
}
static int64_t draw_dirichlet(char** p, const int64_t* n, const Scalar*, char*, int64_t, int64_t) {
  if ((DType)n[0] == DType::Float64) dirichlet_rows((double*)p[0], (const double*)p[1], n[1], n[2]);
  else dirichlet_rows((float*)p[0], (const float*)p[1], n[1], n[2]);
  return 0;
}

// ---------------------------------------------------------------------------------------------------------- multinomial
// With replacement: each sample bisects the row's running sum, which is kept in float32, or float64 for such weights. Rows are checked before anything is drawn.
static int64_t draw_multinomial(char** p, const int64_t* n, const Scalar*, char*, int64_t, int64_t) {
  DType d = (DType)n[0];
  int64_t rows = n[1], length = n[2], samples = n[3], size = itemsize(d);
  std::vector<double> cdf((size_t)length);
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t r = 0; r < rows; r++) {
      double sum = 0;
      for (int64_t i = 0; i < length; i++) {
        double w = load_real(d, p[1] + (r * length + i) * size);
        if (!(w >= 0)) return 1;
        if (!std::isfinite(w)) return 2;
        sum = d == DType::Float64 ? sum + w : double(float(sum) + float(w));
        cdf[size_t(i)] = sum;
      }
      if (!(sum > 0)) return 3;
      if (pass == 0) continue;
      for (int64_t i = 0; i < length; i++) cdf[size_t(i)] = d == DType::Float64 ? cdf[size_t(i)] / sum : double(float(cdf[size_t(i)]) / float(sum));
      cdf[size_t(length - 1)] = 1;
      for (int64_t k = 0; k < samples; k++) {
        double u = unit(drawing());
        int64_t low = 0, high = length;
        while (high > low) {
          int64_t middle = low + (high - low) / 2;
          if (cdf[size_t(middle)] < u) low = middle + 1; else high = middle;
        }
        ((int64_t*)p[0])[r * samples + k] = low;
      }
    }
  }
  return 0;
}

// ---------------------------------------------------------------------------------------------------------------- rrelu
// Only elements that are not above zero draw a slope; the others' is 1. Slopes and their bounds are float32, or float64 for such elements.
static int64_t draw_rrelu(char** p, const int64_t* n, const Scalar*, char*, int64_t, int64_t) {
  DType d = (DType)n[0];
  int size = itemsize(d);
  double lower = *(const double*)p[2], upper = *(const double*)p[3];
  if (d != DType::Float64) { lower = float(lower); upper = float(upper); }
  for (int64_t i = 0; i < n[1]; i++) {
    double slope = load_real(d, p[1] + i * size) <= 0 ? unit(drawing()) * (upper - lower) + lower : 1.0;
    if (d == DType::Float64) ((double*)p[0])[i] = slope; else ((float*)p[0])[i] = float(slope);
  }
  return 0;
}

bool init_distributions(PyObject*) {
  native_kernel_register("draw_poisson", draw_poisson);
  native_kernel_register("draw_binomial", draw_binomial);
  native_kernel_register("draw_gamma", draw_gamma);
  native_kernel_register("gamma_slopes", gamma_slopes);
  native_kernel_register("draw_dirichlet", draw_dirichlet);
  native_kernel_register("draw_multinomial", draw_multinomial);
  native_kernel_register("draw_rrelu", draw_rrelu);
  return true;
}

}  // namespace rl
