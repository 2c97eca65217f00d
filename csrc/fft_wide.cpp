// The Fourier transform's loops for processors with 256-bit vectors: the same source as everywhere, compiled with AVX2 (CMakeLists.txt).
#ifdef __AVX2__
#define FFT_NAMESPACE fft_wide
#include "fft_lines.h"
namespace rl {
void fft_kernel_wide(int kind, const FftPlan<float>& plan, const FftWork<float>& work, float scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  fft_wide::run_kernel<float>(kind, plan, work, scale, p, n, lo, hi);
}
void fft_kernel_wide(int kind, const FftPlan<double>& plan, const FftWork<double>& work, double scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  fft_wide::run_kernel<double>(kind, plan, work, scale, p, n, lo, hi);
}
}
#endif
