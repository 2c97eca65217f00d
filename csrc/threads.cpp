// One pool of threads for all kernels. Work is cut into chunks of `grain` units, by shape only; which thread runs a chunk never matters for the result.
// It matters for the caches: each thread begins with its own share of consecutive chunks, the same at every call, so that what one kernel left in a core's
// cache the next finds there. Who is done takes chunks from the others' shares.
//
// A job lives in the pool while its caller is inside pool_run. Workers enter it by raising `inside` and then looking whether it is still `open`; the
// caller closes it and waits until nobody is inside. So a worker that wakes late does no harm, and no job waits for a sleeping worker.
// A second caller finds the pool busy and runs its work itself. After a fork the child has no workers: it gets a fresh pool, the old one is abandoned.
#include "platform.h"
#include "runtime.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace rl {

// ------------------------------------------------------------------------------------------------------- scratch memory
const int64_t OUT_OF_SCRATCH = 0xff;         // a status no recipe has an error for
struct Scratch {
  char* data = nullptr;
  int64_t size = 0;
  ~Scratch() { platform::aligned_free(data); }
};
static char* scratch_of(int64_t bytes) {     // this thread's; kept between kernels
  static thread_local Scratch s;
  if (RL_LIKELY(bytes <= s.size)) return s.data;
  platform::aligned_free(s.data);
  s.size = 0;
  s.data = (char*)platform::aligned_new(64, (size_t)bytes + (size_t)bytes / 4);
  if (s.data) s.size = bytes + bytes / 4;
  return s.data;
}

static RL_APART int64_t run_guarded(Kernel kernel, char** p, const int64_t* n, const Scalar* s, int64_t scratch_bytes, int64_t lo, int64_t hi) {
  size_t mapping;
  char* scratch = guarded_new((size_t)scratch_bytes, &mapping);
  if (!scratch) return OUT_OF_SCRATCH;
  int64_t status = kernel(p, n, s, scratch, lo, hi);
  guarded_free(scratch, (size_t)scratch_bytes, mapping);
  return status;
}

static int64_t run_range(Kernel kernel, char** p, const int64_t* n, const Scalar* s, int64_t scratch_bytes, int64_t lo, int64_t hi) {
  char* scratch = nullptr;
  if (RL_UNLIKELY(g_guard_pages) && scratch_bytes > 0) return run_guarded(kernel, p, n, s, scratch_bytes, lo, hi);
  if (scratch_bytes > 0 && !(scratch = scratch_of(scratch_bytes))) return OUT_OF_SCRATCH;
  return kernel(p, n, s, scratch, lo, hi);
}

// --------------------------------------------------------------------------------------------------------------- the pool
struct Job { Kernel kernel; char** p; const int64_t* n; const Scalar* s; int64_t scratch, units, grain; };
struct alignas(64) Share { std::atomic<int64_t> next{0}; int64_t end = 0; };      // chunks; a cache line of its own, since every chunk writes to it

struct Pool {
  std::atomic<bool> busy{false};             // some caller owns the pool
  std::atomic<bool> open{false};             // the job may be entered
  std::atomic<int> inside{0};                // workers in the job
  std::atomic<uint64_t> generation{0};       // rises with every job, wakes workers
  std::atomic<int> asleep{0};
  std::atomic<bool> stop{false};
  Job job;
  std::vector<Share> shares;                 // of the caller, then of each worker
  std::atomic<int64_t> failed{INT64_MAX};    // lowest chunk that failed so far
  int64_t status = 0;                        // of that chunk, guarded by `lock`
  std::mutex lock;
  std::condition_variable wake;
  std::vector<std::thread> workers;
};
static std::atomic<Pool*> g_pool;
static std::atomic<bool> g_creating;          // a lock that a forked child can simply clear
static int g_threads;                        // 0: not decided yet

static int default_threads() {
  for (const char* name : {"RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const char* v = getenv(name)) if (int n = atoi(v); n > 0) return n;
  unsigned n = std::thread::hardware_concurrency();
  return n ? (int)n : 1;
}
int pool_threads() { return g_threads ? g_threads : (g_threads = default_threads()); }

static void take_chunks(Pool* pool, Share& share) {
  const Job& j = pool->job;
  for (;;) {
    int64_t chunk = share.next.fetch_add(1, std::memory_order_relaxed);
    // A chunk after a failed one cannot change the answer; one before it can.
    if (chunk >= share.end || chunk > pool->failed.load(std::memory_order_relaxed)) return;
    int64_t lo = chunk * j.grain, hi = std::min(lo + j.grain, j.units);
    int64_t status = run_range(j.kernel, j.p, j.n, j.s, j.scratch, lo, hi);
    if (RL_LIKELY(!status)) continue;
    std::lock_guard<std::mutex> hold(pool->lock);
    if (chunk < pool->failed.load(std::memory_order_relaxed)) { pool->failed.store(chunk, std::memory_order_relaxed); pool->status = status; }
  }
}

static void work(Pool* pool, size_t own) {
  size_t n = pool->shares.size();
  for (size_t i = 0; i < n; i++) take_chunks(pool, pool->shares[(own + i) % n]);
}

static void worker(Pool* pool, size_t own) {
  uint64_t seen = 0;
  // A worker that is done early waits for the caller's last chunk and for Python's next call. Sleeping in between costs a wake-up of 50 to 100
  // microseconds on a virtual machine: half of a product of 256x256. After the first moments it yields, so that others get the core if they want it.
  const int SPINS = 4000;
  const auto PATIENCE = std::chrono::microseconds(400);
  for (;;) {
    auto idle = [&] { return pool->generation.load(std::memory_order_acquire) == seen && !pool->stop.load(std::memory_order_relaxed); };
    for (int i = 0; i < SPINS && idle(); i++) {}
    if (idle()) {
      const auto end = std::chrono::steady_clock::now() + PATIENCE;
      while (idle() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    }
    if (pool->generation.load(std::memory_order_acquire) == seen) {
      std::unique_lock<std::mutex> hold(pool->lock);
      pool->asleep.fetch_add(1);
      pool->wake.wait(hold, [&] { return pool->generation.load() != seen || pool->stop.load(); });
      pool->asleep.fetch_sub(1);
    }
    if (pool->stop.load()) return;
    seen = pool->generation.load(std::memory_order_acquire);
    pool->inside.fetch_add(1);
    if (pool->open.load()) work(pool, own);
    pool->inside.fetch_sub(1);
  }
}

static Pool* pool_ready(int threads) {
  if (Pool* pool = g_pool.load(std::memory_order_acquire)) return pool;
  while (g_creating.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  Pool* pool = g_pool.load(std::memory_order_acquire);
  if (!pool) {
    static bool registered = false;
    if (!registered) { registered = true; platform::after_fork_in_child(pool_after_fork); }
    pool = new Pool();
    pool->shares = std::vector<Share>((size_t)threads);
    try {
      for (int i = 1; i < threads; i++) pool->workers.emplace_back(worker, pool, (size_t)i);
    } catch (...) {}                         // fewer workers than wished: the caller's own thread always works
    g_pool.store(pool, std::memory_order_release);
  }
  g_creating.store(false, std::memory_order_release);
  return pool;
}

void pool_after_fork() {                      // the old pool's threads do not exist here, and its lock may be held by one of them
  g_pool.store(nullptr);
  g_creating.store(false);
}

void pool_set_threads(int n) {
  if (n < 1) n = 1;
  if (n == g_threads) return;
  g_threads = n;
  Pool* pool = g_pool.load();
  if (!pool) return;
  while (pool->busy.exchange(true)) std::this_thread::yield();      // a kernel of another thread is running: it needs no GIL to finish
  { std::lock_guard<std::mutex> hold(pool->lock); pool->stop.store(true); }
  pool->wake.notify_all();
  for (auto& t : pool->workers) t.join();
  g_pool.store(nullptr);
  // Another thread may still look at `busy` of the old pool: it stays, for ever busy, and that thread works alone. A few hundred bytes per change.
}

int64_t pool_run(Kernel kernel, char** p, const int64_t* n, const Scalar* s, int64_t scratch_bytes, int64_t units, int64_t grain, bool parallel) {
  if (grain < 1) grain = 1;
  int threads;
  if (!parallel || units <= grain || (threads = pool_threads()) < 2) return run_range(kernel, p, n, s, scratch_bytes, 0, units);
  Pool* pool = pool_ready(threads);
  if (pool->busy.exchange(true, std::memory_order_acquire)) return run_range(kernel, p, n, s, scratch_bytes, 0, units);
  pool->job = Job{kernel, p, n, s, scratch_bytes, units, grain};
  int64_t chunks = (units + grain - 1) / grain, shares = (int64_t)pool->shares.size(), next = 0;
  for (int64_t i = 0; i < shares; i++) {
    Share& share = pool->shares[(size_t)i];
    share.next.store(next, std::memory_order_relaxed);
    share.end = next += chunks / shares + (i < chunks % shares);
  }
  pool->failed.store(INT64_MAX, std::memory_order_relaxed);
  pool->status = 0;
  pool->open.store(true);
  pool->generation.fetch_add(1);
  if (pool->asleep.load()) {
    { std::lock_guard<std::mutex> hold(pool->lock); }               // a worker between its test and its sleep must not miss the call
    pool->wake.notify_all();
  }
  work(pool, 0);
  pool->open.store(false);
  for (int spins = 0; pool->inside.load(); spins++) if (spins > 1000) std::this_thread::yield();
  int64_t status = pool->failed.load(std::memory_order_relaxed) == INT64_MAX ? 0 : pool->status;
  pool->busy.store(false, std::memory_order_release);
  return status;
}

// -------------------------------------------------------------------------------------------------------------- the module
static PyObject* set_num_threads(PyObject*, PyObject* o) {
  if (!PyLong_Check(o) || PyBool_Check(o)) return raise(PyExc_RuntimeError, "set_num_threads expects an int, but got %s", Py_TYPE(o)->tp_name);
  int64_t n = PyLong_AsLongLong(o);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  if (n < 1) return raise(PyExc_RuntimeError, "set_num_threads expects a positive integer");
  pool_set_threads((int)std::min<int64_t>(n, 1024));
  Py_RETURN_NONE;
}
static PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(pool_threads()); }
static PyMethodDef thread_methods[] = {
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(int)\n\nHow many threads kernels may use. Results do not depend on it."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads() -> int"}, {}};
bool init_threads(PyObject* m) { return PyModule_AddFunctions(m, thread_methods) == 0; }

}  // namespace rl
