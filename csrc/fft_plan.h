// What a Fourier transform of one length needs, as plain memory: fft.cpp makes it, the transforms' loops (fft_lines.h, compiled for several instruction sets) read it.
#pragma once
#include <cstdint>

namespace rl {

template <class E> struct FftPlan {
  int64_t n = 0;
  int count = 0, radices[64];                                  // the passes, in order
  const E *wr[64], *wi[64];                                    // and their twiddles
  const E *fold_re, *fold_im;                                  // exp(-2 pi i k / 2n): of a real transform of twice the length
  const FftPlan* longer = nullptr;                             // Bluestein: the convolution's
  const E *chirp_re, *chirp_im, *kernel_re, *kernel_im;        // exp(-pi i k^2 / n), and the transform of its conjugate
  int64_t room() const { return longer ? longer->n : n; }      // numbers that a line needs in each of the four arrays
  bool alone() const { return longer || (count > 1 && radices[0] == 8 && n >= 64); }     // one line fills the vectors
};

template <class E> struct FftWork { E *xr, *xi, *yr, *yi; };      // four arrays for the lines under way

enum FftKind { FFT_C2C, FFT_R2C, FFT_C2R };
constexpr int64_t FFT_BLOCK = 16;                              // lines side by side that are one unit of work (ops/fft.py knows it too)
constexpr int64_t FFT_LANES = 8;                               // most lines that go through together

}  // namespace rl
