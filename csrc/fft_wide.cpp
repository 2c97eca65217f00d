// The Fourier transform's inner loops for processors with 256-bit vectors: the same source as everywhere, compiled with AVX2 (CMakeLists.txt).
#ifdef __AVX2__
#define FFT_NAMESPACE fft_wide
#include "fft_passes.h"
namespace rl {
void fft_pass_wide(int radix, int64_t m, int64_t s, const float* xr, const float* xi, float* yr, float* yi, const float* wr, const float* wi) { fft_wide::run_pass(radix, m, s, xr, xi, yr, yi, wr, wi); }
void fft_pass_wide(int radix, int64_t m, int64_t s, const double* xr, const double* xi, double* yr, double* yi, const double* wr, const double* wi) { fft_wide::run_pass(radix, m, s, xr, xi, yr, yi, wr, wi); }
}
#endif
