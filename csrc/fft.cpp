// Fourier transforms of any length, as kernels of the runtime (trace.native calls them).
//
// A line of n numbers goes through Stockham's algorithm: one pass for each factor of n (8 4 2 3 5 7 11 13), between two pairs of arrays that keep real and
// imaginary parts apart. Lines that lie side by side in memory (a transform of an outer dimension), and short ones, go through together, as the lanes of
// vectors; a longer line alone fills the vectors with its own elements. The first pass reads the tensor and the last one writes it. A length with a larger
// prime factor is a convolution (Bluestein) of a length without. Real transforms of even length are complex ones of half the length, and a fold.
//
// Each line's arithmetic is the same whatever lines it travels with: results do not depend on how the work is cut.
// n of every kernel: element (0 float, 1 double), outer count, length, inner count, an option, the scale: a code (0: none, 1: 1/sqrt(size), 2: 1/size) and a size.
// The option: of complex transforms, forward or not; of real to complex, all of the results or the half that determines the rest.
#include "runtime.h"
#include <cmath>
#include <memory>
#include <mutex>
#include <unordered_map>
#define FFT_NAMESPACE fft_plain
#include "fft_lines.h"

namespace rl {

#if defined(__x86_64__) && defined(RUSHLIGHT_FFT_WIDE)
void fft_kernel_wide(int kind, const FftPlan<float>&, const FftWork<float>&, float scale, char** p, const int64_t* n, int64_t lo, int64_t hi);
void fft_kernel_wide(int kind, const FftPlan<double>&, const FftWork<double>&, double scale, char** p, const int64_t* n, int64_t lo, int64_t hi);
static bool has_wide() { static const bool yes = __builtin_cpu_supports("avx2"); return yes; }
template <class T> static inline void run(int kind, const FftPlan<T>& plan, const FftWork<T>& work, T scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  if (has_wide()) fft_kernel_wide(kind, plan, work, scale, p, n, lo, hi);
  else fft_plain::run_kernel<T>(kind, plan, work, scale, p, n, lo, hi);
}
#else
template <class T> static inline void run(int kind, const FftPlan<T>& plan, const FftWork<T>& work, T scale, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  fft_plain::run_kernel<T>(kind, plan, work, scale, p, n, lo, hi);
}
#endif

template <class T> static void fft(int kind, char** p, const int64_t* n, int64_t lo, int64_t hi);

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
  std::vector<T> fold_re, fold_im, chirp_re, chirp_im, kernel_re, kernel_im;
  std::shared_ptr<Transform> longer;
  FftPlan<T> plan;                                             // all of it, as the loops read it

  explicit Transform(int64_t length);
  void view() {
    plan.n = n; plan.count = (int)radices.size();
    for (int i = 0; i < plan.count; i++) { plan.radices[i] = radices[i]; plan.wr[i] = wr[i].data(); plan.wi[i] = wi[i].data(); }
    plan.fold_re = fold_re.data(); plan.fold_im = fold_im.data();
    plan.chirp_re = chirp_re.data(); plan.chirp_im = chirp_im.data(); plan.kernel_re = kernel_re.data(); plan.kernel_im = kernel_im.data();
    if (longer) plan.longer = &longer->plan;
  }
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
  // Powers of 2 first, in passes of 8 (few trips through memory, and a first pass by 8 fills the vectors of the next ones), what is left over in 4s.
  int eights = twos % 3 == 1 && (twos > 4 || (twos == 4 && n < 64)) ? twos / 3 - 1 : twos / 3;
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
    std::vector<double> values(2 * size, 0), result(2 * size);
    for (int64_t k = 0; k < n; k++) {
      double re, im;
      root((int64_t)((unsigned __int128)k * k % (2 * n)), 2 * n, &re, &im);
      chirp_re[k] = (T)re; chirp_im[k] = (T)im;
      for (int64_t at : {k, k ? size - k : 0}) { values[2 * at] = re / size; values[2 * at + 1] = -im / size; }
    }
    char* p[] = {(char*)result.data(), (char*)values.data()};
    const int64_t sizes[] = {1, 1, size, 1, 1, 0, 0};
    fft<double>(FFT_C2C, p, sizes, 0, 1);                      // in double: these factors meet every input
    for (int64_t k = 0; k < size; k++) { kernel_re[k] = (T)result[2 * k]; kernel_im[k] = (T)result[2 * k + 1]; }
    view();
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
  view();
}

// Memory for the lines under way. Each thread keeps what it last needed, up to a size: fresh pages would cost more than a small transform.
template <class T> struct Memory {
  std::unique_ptr<T[]> memory;
  int64_t size = 0;
};

template <class T> static void fft(int kind, char** p, const int64_t* n, int64_t lo, int64_t hi) {
  const int64_t KEPT = (8 << 20) / (int64_t)sizeof(T);
  int64_t length = n[2];
  auto transform = transform_of<T>(kind != FFT_C2C && length % 2 == 0 ? length / 2 : length);
  const FftPlan<T>& plan = transform->plan;
  int64_t lines = n[3] == 1 && plan.alone() ? 1 : FFT_LANES;
  int64_t each = (std::max(plan.room(), kind == FFT_C2C ? 0 : length) + 1) * lines + 16;         // apart by more than a power of 2, which would share cache lines
  static thread_local Memory<T> kept;
  Memory<T> own;
  Memory<T>& used = 4 * each <= KEPT ? kept : own;
  if (used.size < 4 * each) { used.memory.reset(new T[(size_t)(4 * each)]); used.size = 4 * each; }
  T* m = used.memory.get();
  double scale = n[5] == 0 ? 1.0 : n[5] == 1 ? 1.0 / std::sqrt((double)n[6]) : 1.0 / (double)n[6];
  run<T>(kind, plan, {m, m + each, m + 2 * each, m + 3 * each}, (T)scale, p, n, lo, hi);
}

template <int KIND> static int64_t fft_kernel(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  if (n[0]) fft<double>(KIND, p, n, lo, hi); else fft<float>(KIND, p, n, lo, hi);
  return 0;
}

bool init_fft(PyObject*) {
  native_kernel_register("fft_c2c", fft_kernel<FFT_C2C>);
  native_kernel_register("fft_r2c", fft_kernel<FFT_R2C>);
  native_kernel_register("fft_c2r", fft_kernel<FFT_C2R>);
  return true;
}

}  // namespace rl
