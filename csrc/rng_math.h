// The numbers behind torch's random streams: the mt19937 engine, and the arithmetic that turns its words into normals, bit for bit.
//
// torch's float32 normals come from an 8-lane AVX2 routine with its own logarithm, sine and cosine (the single-precision Cephes polynomials, the multiply-adds
// contracted). Here the same steps are written with explicit std::fma, so they give those bits on any machine; the file must be compiled without
// contraction of its own (-ffp-contract=off), which would fuse more than torch does.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace rl {

// On x86-64 a second copy of a hot loop is compiled for machines with fused multiply-add; the loader picks it. Elsewhere fma is either an
// instruction already or a correct library call.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define RL_FUSED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define RL_FUSED
#endif
#define RL_INLINE __attribute__((always_inline)) inline      // into the clones, whatever their target

// The builtins rather than std::fma and std::sqrt: the library's wrappers are not inlined into the clones.
RL_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
RL_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

// -------------------------------------------------------------------------------------------------------------- engine
struct MersenneTwister {
  static const int N = 624, M = 397;
  uint32_t state[N];
  int32_t left, next;      // torch's two counters: words before the next twist (plus one), and the next word's place

  void seed(uint32_t value) {
    state[0] = value;
    for (uint32_t i = 1; i < N; i++) state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
    left = 1;
    next = 0;
  }
  static uint32_t twist_one(uint32_t u, uint32_t v) { return (((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1) ^ (v & 1u ? 0x9908b0dfu : 0u); }
  void twist() {
    for (int i = 0; i < N - M; i++) state[i] = state[i + M] ^ twist_one(state[i], state[i + 1]);
    for (int i = N - M; i < N - 1; i++) state[i] = state[i + M - N] ^ twist_one(state[i], state[i + 1]);
    state[N - 1] = state[M - 1] ^ twist_one(state[N - 1], state[0]);
  }
  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }
  void words(uint32_t* out, int64_t n) {
    while (n > 0) {
      if (left == 1) { twist(); next = 0; left = N + 1; }
      int32_t take = left - 1 < n ? left - 1 : int32_t(n);
      for (int32_t i = 0; i < take; i++) out[i] = temper(state[next + i]);
      next += take; left -= take; out += take; n -= take;
    }
  }
  uint32_t word() {
    if (left == 1) { twist(); next = 0; left = N + 1; }
    --left;
    return temper(state[next++]);
  }
  uint64_t word64() { uint64_t high = word(); return high << 32 | word(); }
  double unit64() { return double(word64() & ((uint64_t(1) << 53) - 1)) * 0x1p-53; }      // [0, 1)
};

RL_INLINE float unit32(uint32_t word) { return float(word & 0xffffffu) * 0x1p-24f; }

// ------------------------------------------------------------------------------------------------------- float32 Cephes
RL_INLINE float cephes_log(float x) {      // x > 0 and normal
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  float e = float(int32_t(bits >> 23) - 0x7f) + 1.0f;
  uint32_t mantissa = (bits & 0x807fffffu) | 0x3f000000u;
  float m;
  std::memcpy(&m, &mantissa, 4);
  bool small = m < 0.707106781186547524f;
  float t = small ? m : 0.0f;
  m -= 1.0f;
  e -= small ? 1.0f : 0.0f;
  m += t;
  float z = m * m, y = 7.0376836292e-2f;
  y = fused(y, m, -1.1514610310e-1f);
  y = fused(y, m, 1.1676998740e-1f);
  y = fused(y, m, -1.2420140846e-1f);
  y = fused(y, m, 1.4249322787e-1f);
  y = fused(y, m, -1.6668057665e-1f);
  y = fused(y, m, 2.0000714765e-1f);
  y = fused(y, m, -2.4999993993e-1f);
  y = fused(y, m, 3.3333331174e-1f);
  y *= m;
  y = fused(y, z, e * -2.12194440e-4f);      // which multiply of a pair is fused is torch's compiler's choice
  y = fused(-z, 0.5f, y);
  m += y;
  return fused(e, 0.693359375f, m);
}

RL_INLINE void cephes_sincos(float x, float* sine, float* cosine) {      // x >= 0
  int32_t j = (int32_t(x * 1.27323954473516f) + 1) & ~1;
  float y = float(j);
  bool sin_negative = j & 4, use_sin = !(j & 2), cos_negative = !((j - 2) & 4);
  x = fused(y, -0.78515625f, x);
  x = fused(y, -2.4187564849853515625e-4f, x);
  x = fused(y, -3.77489497744594108e-8f, x);
  float z = x * x;
  float c = fused(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = fused(c, z, 4.166664568298827e-2f);
  c *= z;
  c = fused(c, z, -(z * 0.5f)) + 1.0f;
  float q = fused(-1.9515295891e-4f, z, 8.3321608736e-3f);
  q = fused(q, z, -1.6666654611e-1f);
  q *= z;
  q = fused(q, x, x);
  float s = use_sin ? q : c, k = use_sin ? c : q;
  *sine = sin_negative ? -s : s;
  *cosine = cos_negative ? -k : k;
}

// ------------------------------------------------------------------------------------- fills over dense memory, in order
// Sixteen uniforms become sixteen normals, in place: element j pairs with j + 8.
RL_INLINE void box_muller16(float* u, float mean, float std) {
  for (int j = 0; j < 8; j++) {
    float radius = __builtin_sqrtf(-2.0f * cephes_log(1.0f - u[j])), theta = 6.28318530717958647692f * u[j + 8], s, c;
    cephes_sincos(theta, &s, &c);
    u[j] = fused(radius * c, std, mean);
    u[j + 8] = fused(radius * s, std, mean);
  }
}
RL_INLINE void box_muller16(double* u, double mean, double std) {
  for (int j = 0; j < 8; j++) {
    double radius = __builtin_sqrt(-2.0 * std::log(1.0 - u[j])), theta = 6.283185307179586476925286766559 * u[j + 8];
    u[j] = fused(radius * std::cos(theta), std, mean);
    u[j + 8] = fused(radius * std::sin(theta), std, mean);
  }
}

[[maybe_unused]] RL_FUSED static void box_muller_blocks(float* u, int64_t blocks, float mean, float std) {
  for (int64_t b = 0; b < blocks; b++) box_muller16(u + 16 * b, mean, std);
}
[[maybe_unused]] RL_FUSED static void box_muller_blocks(double* u, int64_t blocks, double mean, double std) {
  for (int64_t b = 0; b < blocks; b++) box_muller16(u + 16 * b, mean, std);
}
[[maybe_unused]] RL_FUSED static void uniform_of_words(const uint32_t* words, float* out, int n, float low, float range, float high) {
  for (int i = 0; i < n; i++) {
    float v = fused(unit32(words[i]), range, low);
    out[i] = v == high ? low : v;                        // rounding up to the open end wraps to the closed one
  }
}
[[maybe_unused]] RL_FUSED static void uniform_of_words(const uint32_t* words, double* out, int n, double low, double range, double high) {
  for (int i = 0; i < n; i++) {
    uint64_t w = uint64_t(words[2 * i]) << 32 | words[2 * i + 1];
    double v = fused(double(int64_t(w & ((uint64_t(1) << 53) - 1))) * 0x1p-53, range, low);
    out[i] = v == high ? low : v;
  }
}
[[maybe_unused]] RL_FUSED static void bernoulli_of_words(const uint32_t* words, uint8_t* out, int n, uint64_t below) {
  for (int i = 0; i < n; i++) {
    uint64_t w = uint64_t(words[2 * i]) << 32 | words[2 * i + 1];
    out[i] = (w & ((uint64_t(1) << 53) - 1)) < below;
  }
}

}  // namespace rl
