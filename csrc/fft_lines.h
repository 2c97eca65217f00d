// The kernels of the Fourier transform: lines of tensors through the passes. Included, like the passes, once for each instruction set.
#include "fft_passes.h"

namespace rl::FFT_NAMESPACE {

// --------------------------------------------------------------------------------------------------------- one transform
template <class E> struct Buffers {                                    // the data are in x; y is as large
  E *xr, *xi, *yr, *yi;
  void turn() { E* t = xr; xr = yr; yr = t; t = xi; xi = yi; yi = t; }
  void swap_parts() { E* t = xr; xr = xi; xi = t; t = yr; yr = yi; yi = t; }
  Parts<E> x(int64_t step) const { return {xr, xi, step}; }
  Parts<E> y(int64_t step) const { return {yr, yi, step}; }
};

template <class E> static void times(E* re, E* im, const E* wr, const E* wi, int64_t count, int64_t s) {
  typedef Vector<E> V;
  if (s == 1) {
    int64_t k = 0;
    for (; k + LANES<E> <= count; k += LANES<E>) {
      V a = vload(re + k), b = vload(im + k), c = vload(wr + k), d = vload(wi + k);
      vstore<E>(re + k, a * c - b * d); vstore<E>(im + k, a * d + b * c);
    }
    for (; k < count; k++) { E a = re[k], b = im[k]; re[k] = a * wr[k] - b * wi[k]; im[k] = a * wi[k] + b * wr[k]; }
    return;
  }
  for (int64_t k = 0; k < count; k++)
    for (int64_t q = k * s; q < (k + 1) * s; q += LANES<E>) {
      V a = vload(re + q), b = vload(im + q);
      vstore<E>(re + q, a * wr[k] - b * wi[k]); vstore<E>(im + q, a * wi[k] + b * wr[k]);
    }
}

// Pairs to parts and back, of `elements` elements of `lanes` numbers.
template <class E> static void unpack(const Pairs<E>& from, const Parts<E>& to, int64_t elements, int64_t lanes) {
  for (int64_t i = 0; i < elements; i++) {
    int64_t q = 0;
    for (; q + LANES<E> <= lanes; q += LANES<E>) { Vector<E> a, b; Pairs<E>::load(from, i, q, a, b); Parts<E>::store(to, i, q, a, b); }
    for (; q < lanes; q++) { const E* x = from.x + i * from.step + 2 * q; to.re[i * to.step + q] = x[from.swap]; to.im[i * to.step + q] = x[!from.swap]; }
  }
}
template <class E> static void pack(const Parts<E>& from, const Pairs<E>& to, int64_t elements, int64_t lanes) {
  for (int64_t i = 0; i < elements; i++) {
    int64_t q = 0;
    for (; q + LANES<E> <= lanes; q += LANES<E>) { Vector<E> a, b; Parts<E>::load(from, i, q, a, b); Pairs<E>::store(to, i, q, a, b); }
    for (; q < lanes; q++) { E* y = to.x + i * to.step + 2 * q; y[to.swap] = from.re[i * from.step + q] * to.scale; y[!to.swap] = from.im[i * from.step + q] * to.scale; }
  }
}

// Of s lines side by side, s a multiple of the lanes, or of one line (s = 1) if the plan can (`alone`). From `source` or, without, from x; to `sink` or,
// without, to x.
template <class E> static void transform(const FftPlan<E>& plan, Buffers<E>& b, int64_t s, const Pairs<E>* source, const Pairs<E>* sink) {
  int64_t n = plan.n, lanes = s == 1 ? n : s, elements = s == 1 ? 1 : n;     // copies: a single line is one element with all its numbers as lanes
  if (plan.longer) {
    // x * chirp, convolved with the chirp's conjugate (a transform, a product, a transform back: swapped parts), * chirp.
    if (source) unpack(*source, b.x(lanes), elements, lanes);
    times<E>(b.xr, b.xi, plan.chirp_re, plan.chirp_im, n, s);
    for (int64_t i = n * s; i < plan.longer->n * s; i++) b.xr[i] = b.xi[i] = 0;
    transform<E>(*plan.longer, b, s, nullptr, nullptr);
    times<E>(b.xr, b.xi, plan.kernel_re, plan.kernel_im, plan.longer->n, s);
    b.swap_parts();
    transform<E>(*plan.longer, b, s, nullptr, nullptr);
    b.swap_parts();
    times<E>(b.xr, b.xi, plan.chirp_re, plan.chirp_im, n, s);
  } else {
    int i = 0;
    int64_t left = n;
    if (s == 1) {
      left /= 8;
      if (source) first_pass_of_line<E>(left, *source, b.yr, b.yi, plan.wr[0], plan.wi[0]);
      else first_pass_of_line<E>(left, b.x(1), b.yr, b.yi, plan.wr[0], plan.wi[0]);
      b.turn(); s = 8; i = 1;
    } else if (source && plan.count > 1) {
      left /= plan.radices[0];
      run_pass<E, false>(plan.radices[0], left, s, *source, b.x(s), plan.wr[0], plan.wi[0]);
      s *= plan.radices[0]; i = 1;
    } else if (source) unpack(*source, b.x(s), n, s);
    for (; i + 1 < plan.count; i++) {
      left /= plan.radices[i];
      run_pass<E, false>(plan.radices[i], left, s, b.x(s), b.y(s), plan.wr[i], plan.wi[i]);
      b.turn();
      s *= plan.radices[i];
    }
    if (plan.count) {
      if (sink && elements > 1) return run_pass<E, true>(plan.radices[i], s / lanes, lanes, b.x(lanes), *sink, plan.wr[i], plan.wi[i]);
      if (sink) {                                                      // a single line: the last pass's elements are runs of s
        Pairs<E> to = {sink->x, 2 * s, sink->swap, sink->scale};
        return run_pass<E, true>(plan.radices[i], 1, s, b.x(s), to, plan.wr[i], plan.wi[i]);
      }
      run_pass<E, true>(plan.radices[i], 1, s, b.x(s), b.y(s), plan.wr[i], plan.wi[i]);
      b.turn();
    }
  }
  if (sink) pack(b.x(lanes), *sink, elements, lanes);
}

// ------------------------------------------------------------------------------------------------------- lines to lanes
// `lines` lines to s >= lines lanes, element by element, the others 0, and back. `step`: numbers from an element to the next, `gap`: from a line to the next.
template <class E> static void gather(const E* x, int64_t length, int64_t step, int64_t gap, int64_t lines, int64_t s, E* to) {
  for (int64_t k = 0; k < length; k++) {
    if (gap == 1) for (int64_t q = 0; q < lines; q++) to[k * s + q] = x[k * step + q];
    else for (int64_t q = 0; q < lines; q++) to[k * s + q] = x[k * step + q * gap];
    for (int64_t q = lines; q < s; q++) to[k * s + q] = 0;
  }
}
template <class E> static void spread(E* y, int64_t length, int64_t step, int64_t gap, int64_t lines, int64_t s, const E* from, E scale) {
  for (int64_t k = 0; k < length; k++) {
    if (gap == 1) for (int64_t q = 0; q < lines; q++) y[k * step + q] = from[k * s + q] * scale;
    else for (int64_t q = 0; q < lines; q++) y[k * step + q * gap] = from[k * s + q] * scale;
  }
}

// The same of pairs: a full vector of lines side by side as it is, lines of their own (step 2) through registers, a square at a time.
template <class E> static void gather_pairs(const E* x, int64_t length, int64_t step, int64_t gap, int64_t lines, int64_t s, E* re, E* im) {
  constexpr int64_t L = LANES<E>;
  if (gap == 2 && lines == s && s >= L) return unpack<E>({(E*)x, step, false, 1}, {re, im, s}, length, s);
  if (step != 2 || length < L || s < L) { gather(x, length, step, gap, lines, s, re); gather(x + 1, length, step, gap, lines, s, im); return; }
  for (int64_t group = 0; group < s; group += L)
    for (int64_t k = 0;; k += L) {
      if (k > length - L) k = length - L;
      Vector<E> a[L], b[L];
      auto line = [&](int64_t q) { const E* from = x + (group + q) * gap + 2 * k; split(vload(from), vload(from + L), a[q], b[q]); };
      if (group + L <= lines) for (int64_t q = 0; q < L; q++) line(q);           // (no test inside: it stays in registers)
      else for (int64_t q = 0; q < L; q++) { if (group + q < lines) line(q); else a[q] = b[q] = Vector<E>{}; }
      transpose(a); transpose(b);
      for (int64_t j = 0; j < L; j++) { vstore(re + (k + j) * s + group, a[j]); vstore(im + (k + j) * s + group, b[j]); }
      if (k == length - L) break;
    }
}
template <class E> static void spread_pairs(E* y, int64_t length, int64_t step, int64_t gap, int64_t lines, int64_t s, const E* re, const E* im, E scale) {
  constexpr int64_t L = LANES<E>;
  if (gap == 2 && lines == s && s >= L) return pack<E>({(E*)re, (E*)im, s}, {y, step, false, scale}, length, s);
  if (step != 2 || length < L || s < L) { spread(y, length, step, gap, lines, s, re, scale); spread(y + 1, length, step, gap, lines, s, im, scale); return; }
  for (int64_t group = 0; group < s; group += L)
    for (int64_t k = 0;; k += L) {
      if (k > length - L) k = length - L;
      Vector<E> a[L], b[L];
      for (int64_t j = 0; j < L; j++) { a[j] = vload(re + (k + j) * s + group); b[j] = vload(im + (k + j) * s + group); }
      transpose(a); transpose(b);
      auto line = [&](int64_t q) {
        Vector<E> c, d;
        join(a[q] * scale, b[q] * scale, c, d);
        vstore(y + (group + q) * gap + 2 * k, c); vstore(y + (group + q) * gap + 2 * k + L, d);
      };
      if (group + L <= lines) for (int64_t q = 0; q < L; q++) line(q);
      else for (int64_t q = 0; group + q < lines; q++) line(q);
      if (k == length - L) break;
    }
}

// ------------------------------------------------------------------------------------------------------ real transforms
// Of z = even + i odd elements' transform: E + w O, from z's value here (i) and at the mirrored place (j). T: a number or a vector.
template <class T, class W> FFT_INLINE void unfold(T ir, T ii, T jr, T ji, W wr, W wi, T& yr, T& yi) {
  const auto half = (Element<T>)0.5;
  T er = (ir + jr) * half, ei = (ii - ji) * half, dr = (ii + ji) * half, di = (jr - ir) * half;
  yr = er + (dr * wr - di * wi);
  yi = ei + (dr * wi + di * wr);
}
// The other way: (X[k] + X*[h-k]) + i conj(w) (X[k] - X*[h-k]), its parts.
template <class T, class W> FFT_INLINE void refold(T ar, T ai, T br, T bi, W wr, W wi, T& re, T& im) {
  T dr = ar - br, di = ai + bi, cr = dr * wr + di * wi, ci = di * wr - dr * wi;
  re = ar + br - ci;
  im = ai - bi + cr;
}

template <class E> static void unfold_line(const FftPlan<E>& plan, const E* xr, const E* xi, E* y, bool all, E scale) {
  constexpr int64_t L = LANES<E>;
  int64_t h = plan.n;
  const E *wr = plan.fold_re, *wi = plan.fold_im;
  auto one = [&](int64_t k) {
    int64_t i = k == h ? 0 : k, j = k == 0 ? 0 : h - k;
    E a, b;
    unfold(xr[i], xi[i], xr[j], xi[j], wr[k], wi[k], a, b);
    y[2 * k] = a * scale; y[2 * k + 1] = b * scale;
    if (all && k && k < h) { y[2 * (2 * h - k)] = a * scale; y[2 * (2 * h - k) + 1] = -(b * scale); }
  };
  int64_t k = 1;
  for (; k + L <= h; k += L) {
    int64_t j = h - k - L + 1;
    Vector<E> a, b, c, d;
    unfold(vload(xr + k), vload(xi + k), reversed(vload(xr + j)), reversed(vload(xi + j)), vload(wr + k), vload(wi + k), a, b);
    a *= scale; b *= scale;
    join(a, b, c, d);
    vstore(y + 2 * k, c); vstore(y + 2 * k + L, d);
    if (all) {
      join(reversed(a), reversed(-b), c, d);
      E* mirror = y + 2 * (h + j);
      vstore(mirror, c); vstore(mirror + L, d);
    }
  }
  one(0);
  for (; k <= h; k++) one(k);
}

template <class E> static void refold_line(const FftPlan<E>& plan, const E* x, E* re, E* im) {
  constexpr int64_t L = LANES<E>;
  int64_t h = plan.n, k = 1;
  const E *wr = plan.fold_re, *wi = plan.fold_im;
  refold(x[0], E(0), x[2 * h], E(0), wr[0], wi[0], re[0], im[0]);
  for (; k + L <= h; k += L) {
    int64_t j = h - k - L + 1;
    Vector<E> a, b, c, d, u, v;
    split(vload(x + 2 * k), vload(x + 2 * k + L), a, b);
    split(vload(x + 2 * j), vload(x + 2 * j + L), c, d);
    refold(a, b, reversed(c), reversed(d), vload(wr + k), vload(wi + k), u, v);
    vstore(re + k, u); vstore(im + k, v);
  }
  for (; k < h; k++) refold(x[2 * k], x[2 * k + 1], x[2 * (h - k)], x[2 * (h - k) + 1], wr[k], wi[k], re[k], im[k]);
}

// ---------------------------------------------------------------------------------------------------------------- kernels
// A unit of work is a block of up to FFT_BLOCK lines that lie side by side (inner > 1), else one line. Lines go through as many at a time as there are lanes.
// body(outer index, first inner index, lines) or, of lines one after another, body(first line, 0, lines) for all of the units [lo, hi).
template <class Body> static void each_group(int64_t inner, int64_t together, int64_t lo, int64_t hi, Body body) {
  if (inner == 1) {
    for (int64_t line = lo; line < hi; line += together) body(line, 0, hi - line < together ? hi - line : together);
    return;
  }
  int64_t blocks = (inner + FFT_BLOCK - 1) / FFT_BLOCK;
  for (int64_t u = lo; u < hi; u++) {
    int64_t from = u % blocks * FFT_BLOCK, to = from + FFT_BLOCK < inner ? from + FFT_BLOCK : inner;
    for (int64_t at = from; at < to; at += together) body(u / blocks, at, to - at < together ? to - at : together);
  }
}

// Where a group begins in an array of `length` elements a line.
static inline int64_t start(int64_t outer, int64_t at, int64_t length, int64_t inner) { return inner == 1 ? outer * length : outer * length * inner + at; }

// Lines at a time; 1: a line alone.
template <class E> static int64_t lines_together(const FftPlan<E>& plan, int64_t inner) { return inner == 1 && plan.alone() ? 1 : LANES<E>; }

// out <- in, complex; n[4]: forward
template <class E> static void complex_lines(const FftPlan<E>& plan, const FftWork<E>& work, E scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  int64_t length = n[2], inner = n[3], step = 2 * inner, gap = inner == 1 ? 2 * length : 2, s = lines_together(plan, inner);
  bool inverse = !n[4];                                                // the inverse transform is that of the swapped parts, swapped
  each_group(inner, s, lo, hi, [&](int64_t outer, int64_t at, int64_t lines) {
    Buffers<E> b = {work.xr, work.xi, work.yr, work.yi};
    int64_t from = 2 * start(outer, at, length, inner);
    const E* x = (const E*)p[1] + from;
    E* y = (E*)p[0] + from;
    if (s == 1 || (inner > 1 && lines == s)) {
      Pairs<E> source = {(E*)x, step, inverse, 1}, sink = {y, step, inverse, scale};
      return transform<E>(plan, b, s, &source, &sink);
    }
    gather_pairs(x, length, step, gap, lines, s, inverse ? b.xi : b.xr, inverse ? b.xr : b.xi);
    transform<E>(plan, b, s, nullptr, nullptr);
    spread_pairs(y, length, step, gap, lines, s, inverse ? b.xi : b.xr, inverse ? b.xr : b.xi, scale);
  });
}

// out (complex: length / 2 + 1 a line, or with n[4] all of them) <- in (real)
template <class E> static void real_to_complex(const FftPlan<E>& plan, const FftWork<E>& work, E scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  int64_t length = n[2], inner = n[3], half = length / 2, wanted = n[4] ? length : half + 1, s = lines_together(plan, inner);
  bool even = length % 2 == 0;
  each_group(inner, s, lo, hi, [&](int64_t outer, int64_t at, int64_t lines) {
    Buffers<E> b = {work.xr, work.xi, work.yr, work.yi};
    const E* x = (const E*)p[1] + start(outer, at, length, inner);
    E* y = (E*)p[0] + 2 * start(outer, at, wanted, inner);
    if (s == 1 && even) {
      Pairs<E> source = {(E*)x, 2, false, 1};
      transform<E>(plan, b, 1, &source, nullptr);
      return unfold_line(plan, b.xr, b.xi, y, n[4], scale);
    }
    int64_t gap = inner == 1 ? length : 1;
    if (!even) {
      gather(x, length, inner, gap, lines, s, b.xr);
      for (int64_t i = 0; i < length * s; i++) b.xi[i] = 0;
    } else if (inner == 1) gather_pairs(x, half, 2, gap, lines, s, b.xr, b.xi);
    else { gather(x, half, 2 * inner, gap, lines, s, b.xr); gather(x + inner, half, 2 * inner, gap, lines, s, b.xi); }
    transform<E>(plan, b, s, nullptr, nullptr);
    if (even) {
      for (int64_t k = 0; k <= half; k++) {
        int64_t i = (k == half ? 0 : k) * s, j = (k == 0 ? 0 : half - k) * s;
        for (int64_t q = 0; q < s; q += LANES<E>) {
          Vector<E> u, v;
          unfold(vload(b.xr + i + q), vload(b.xi + i + q), vload(b.xr + j + q), vload(b.xi + j + q), plan.fold_re[k], plan.fold_im[k], u, v);
          vstore(b.yr + k * s + q, u); vstore(b.yi + k * s + q, v);
        }
      }
      b.turn();
    }
    for (int64_t k = half + 1; k < wanted; k++)
      for (int64_t q = 0; q < s; q++) { b.xr[k * s + q] = b.xr[(length - k) * s + q]; b.xi[k * s + q] = -b.xi[(length - k) * s + q]; }
    spread_pairs(y, wanted, 2 * inner, inner == 1 ? 2 * wanted : 2, lines, s, b.xr, b.xi, scale);
  });
}

// out (real, length a line) <- in (complex, length / 2 + 1 a line).
// The imaginary parts of the first element and, for even lengths, of the last are not looked at.
template <class E> static void complex_to_real(const FftPlan<E>& plan, const FftWork<E>& work, E scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  int64_t length = n[2], inner = n[3], half = length / 2, given = half + 1, s = lines_together(plan, inner);
  bool even = length % 2 == 0;
  each_group(inner, s, lo, hi, [&](int64_t outer, int64_t at, int64_t lines) {
    Buffers<E> b = {work.xr, work.xi, work.yr, work.yi};               // the parts are swapped for an inverse transform
    const E* x = (const E*)p[1] + 2 * start(outer, at, given, inner);
    E* y = (E*)p[0] + start(outer, at, length, inner);
    if (s == 1 && even) {
      Pairs<E> sink = {y, 2, true, scale};
      refold_line(plan, x, b.xi, b.xr);
      return transform<E>(plan, b, 1, nullptr, &sink);
    }
    gather_pairs(x, given, 2 * inner, inner == 1 ? 2 * given : 2, lines, s, b.yr, b.yi);
    for (int64_t q = 0; q < s; q++) { b.yi[q] = 0; if (even) b.yi[half * s + q] = 0; }
    if (even) {
      for (int64_t k = 0; k < half; k++)
        for (int64_t q = 0; q < s; q += LANES<E>) {
          int64_t i = k * s + q, j = (half - k) * s + q;
          Vector<E> u, v;
          refold(vload(b.yr + i), vload(b.yi + i), vload(b.yr + j), vload(b.yi + j), plan.fold_re[k], plan.fold_im[k], u, v);
          vstore(b.xi + i, u); vstore(b.xr + i, v);
        }
    } else {
      for (int64_t k = 0; k < length; k++)
        for (int64_t q = 0; q < s; q++) {
          int64_t m = (k <= half ? k : length - k) * s + q;
          b.xi[k * s + q] = b.yr[m];
          b.xr[k * s + q] = k <= half ? b.yi[m] : -b.yi[m];
        }
    }
    transform<E>(plan, b, s, nullptr, nullptr);
    int64_t gap = inner == 1 ? length : 1;
    if (!even) spread(y, length, inner, gap, lines, s, b.xi, scale);
    else if (inner == 1) spread_pairs(y, half, 2, gap, lines, s, b.xi, b.xr, scale);
    else { spread(y, half, 2 * inner, gap, lines, s, b.xi, scale); spread(y + inner, half, 2 * inner, gap, lines, s, b.xr, scale); }
  });
}

template <class E> static void run_kernel(int kind, const FftPlan<E>& plan, const FftWork<E>& work, E scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  switch (kind) {
    case FFT_C2C: return complex_lines(plan, work, scale, p, n, lo, hi);
    case FFT_R2C: return real_to_complex(plan, work, scale, p, n, lo, hi);
    default: return complex_to_real(plan, work, scale, p, n, lo, hi);
  }
}

}  // namespace
