// Sorting and selecting along rows: the runtime's routines behind sort, topk, kthvalue, median and mode (ops/sort.py), called by trace.native.
//
// One work unit is one row, dense in memory; rows are independent, so nothing depends on how they are shared between threads. Ties are decided by place: the
// element that comes first counts as smaller (as larger, where the largest are wanted), so results are those of a stable sort.
//
//   sort_rows      p: values, indices, x                n: dtype, length, descending                 scratch: 24 bytes an element
//   topk_rows      p: values, indices, x                n: dtype, length, k, largest                 scratch: 24 bytes an element
//   kth_rows       p: values, indices, x                n: dtype, length, k, 0 kth | 1 median | 2 nanmedian      scratch: 16 bytes an element, and 64
//   mode_rows      p: values, indices, x                n: dtype, length                             scratch: 24 bytes an element
#include "sort_keys.h"
#include <numeric>

namespace rl {

// -------------------------------------------------------------------------------------------------------------- sorting
// Rows too long for an index beside the key: any length, no scratch, and slower.
template <class E> static void sort_long_row(const typename E::Bits* row, int64_t n, bool descending, typename E::Bits* values, int64_t* indices) {
  std::iota(indices, indices + n, int64_t(0));
  std::stable_sort(indices, indices + n, [&](int64_t a, int64_t b) { return descending ? E::key(row[a]) > E::key(row[b]) : E::key(row[a]) < E::key(row[b]); });
  for (int64_t i = 0; i < n; i++) values[i] = row[indices[i]];
}

template <class E> static void sort_row(const typename E::Bits* row, int64_t n, bool descending, typename E::Bits* values, int64_t* indices, char* scratch) {
  using U = typename E::Bits;
  if (n >= INDEX_LIMIT) { sort_long_row<E>(row, n, descending, values, indices); return; }
  uint64_t *words = (uint64_t*)scratch, *room = words + n;
  order_row<E>(row, n, descending, words, room);
  const U flip = descending ? U(~U(0)) : U(0);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = index_of(words[i]);
    indices[i] = at;
    if constexpr (sizeof(U) == 8) values[i] = row[at];
    else {      // from the key, which is in order already, rather than from a random place of the row
      U key = U(U(key_of(words[i])) ^ flip);
      values[i] = E::lost(key) ? row[at] : E::bits(key);
    }
  }
}

static int64_t sort_rows(char** p, const int64_t* n, const Scalar*, char* scratch, int64_t lo, int64_t hi) {
  with_element((DType)n[0], [&](auto element) {
    using E = decltype(element);
    using U = typename E::Bits;
    for (int64_t row = lo; row < hi; row++)
      sort_row<E>((const U*)p[2] + row * n[1], n[1], n[2] != 0, (U*)p[0] + row * n[1], (int64_t*)p[1] + row * n[1], scratch);
  });
  return 0;
}

// ------------------------------------------------------------------------------------------------------------- selecting
// An element that may be chosen; the best compare as smallest.
struct WideCandidate {
  uint64_t key; int64_t index;
  bool operator<(const WideCandidate& o) const { return key != o.key ? key < o.key : index < o.index; }
};
struct NarrowCandidate {      // key and index in one word: half the memory, one comparison
  uint64_t word;
  NarrowCandidate() = default;
  NarrowCandidate(uint64_t key, int64_t index) : word(word_of(key, index)) {}
  bool operator<(const NarrowCandidate& o) const { return word < o.word; }
};
static inline uint64_t key_of(const WideCandidate& c) { return c.key; }
static inline int64_t index_of(const WideCandidate& c) { return c.index; }
static inline uint64_t key_of(const NarrowCandidate& c) { return key_of(c.word); }
static inline int64_t index_of(const NarrowCandidate& c) { return index_of(c.word); }

// Whether a block may hold an element better than the threshold. May say yes in vain (a NaN threshold), never no.
template <class E> static bool block_may_beat(const typename E::Bits* block, int count, typename E::Bits threshold, bool largest) {
  using N = typename E::Number;
  N limit;
  std::memcpy(&limit, &threshold, sizeof limit);
  bool found = false;
  if constexpr (E::is_float && sizeof(N) == 2) {
    N bound = E::key(threshold);
    if (largest) for (int i = 0; i < count; i++) found |= E::key(block[i]) > bound;
    else for (int i = 0; i < count; i++) found |= E::key(block[i]) < bound;
  } else {
    const N* x = (const N*)block;
    if (largest) for (int i = 0; i < count; i++) found |= !(x[i] <= limit);      // a NaN beats every number
    else for (int i = 0; i < count; i++) found |= !(x[i] >= limit);
  }
  return found;
}

// The k best of a row, best first, at the start of `best` (room for the row). A threshold, the k-th best so far, keeps almost all elements out.
template <class E, class Candidate> static void best_of_row(const typename E::Bits* row, int64_t n, int64_t k, bool largest, Candidate* best) {
  using U = typename E::Bits;
  const U flip = largest ? U(~U(0)) : U(0);
  auto candidate = [&](int64_t i) { return Candidate{uint64_t(U(E::key(row[i]) ^ flip)), i}; };
  const int BLOCK = 32;
  int64_t room = std::max<int64_t>(4 * k, 4 * BLOCK), count = std::min(n, room), next = count;
  for (int64_t i = 0; i < count; i++) best[i] = candidate(i);
  auto keep_best = [&] { if (count > k) { std::nth_element(best, best + k - 1, best + count); count = k; } };
  if (next < n) {
    keep_best();
    while (next < n) {
      int size = int(std::min<int64_t>(BLOCK, n - next));
      U threshold = row[index_of(best[k - 1])];
      if (block_may_beat<E>(row + next, size, threshold, largest)) {
        uint64_t worst = key_of(best[k - 1]);
        for (int i = 0; i < size; i++) { Candidate c = candidate(next + i); best[count] = c; count += key_of(c) < worst; }
        if (count + BLOCK > room) keep_best();
      }
      next += size;
    }
  }
  keep_best();
  std::sort(best, best + k);
}

static int64_t topk_rows(char** p, const int64_t* n, const Scalar*, char* scratch, int64_t lo, int64_t hi) {
  with_element((DType)n[0], [&](auto element) {
    using E = decltype(element);
    using U = typename E::Bits;
    int64_t length = n[1], k = n[2];
    if (k == 0) return;
    for (int64_t r = lo; r < hi; r++) {
      const U* row = (const U*)p[2] + r * length;
      U* values = (U*)p[0] + r * k;
      int64_t* indices = (int64_t*)p[1] + r * k;
      if (k > 2048 && 4 * k > length && length < INDEX_LIMIT) {      // so many that sorting them all costs less
        uint64_t* words = (uint64_t*)scratch;
        order_row<E>(row, length, n[3] != 0, words, words + length);
        for (int64_t i = 0; i < k; i++) { indices[i] = index_of(words[i]); values[i] = row[indices[i]]; }
        continue;
      }
      auto choose = [&](auto* best) {
        best_of_row<E>(row, length, k, n[3] != 0, best);
        for (int64_t i = 0; i < k; i++) { indices[i] = index_of(best[i]); values[i] = row[indices[i]]; }
      };
      if (sizeof(U) < 8 && length < INDEX_LIMIT) choose((NarrowCandidate*)scratch);
      else choose((WideCandidate*)scratch);
    }
  });
  return 0;
}

// The least and the greatest key of a row. Keys of up to 4 bytes are kept: they are wanted again and cost more than a load.
template <class E> static void key_range(const typename E::Bits* row, int64_t n, typename E::Bits* keys, uint64_t& low, uint64_t& high) {
  using U = typename E::Bits;
  using S = std::make_signed_t<U>;      // what SSE2 compares
  const U TOP = U(U(1) << (8 * sizeof(U) - 1));
  S least = S(U(~TOP)), greatest = S(TOP);
  for (int64_t i = 0; i < n; i++) {
    U key = E::key(row[i]);
    if constexpr (sizeof(U) < 8) keys[i] = key;
    S s = S(U(key ^ TOP));
    least = s < least ? s : least;
    greatest = s > greatest ? s : greatest;
  }
  low = U(U(least) ^ TOP);
  high = U(U(greatest) ^ TOP);
}

// The keys of a row: as kept by key_range, or made anew from 8-byte elements (and from rows too long for an index beside the key).
template <class E> struct KeptKeys {
  const typename E::Bits* keys;
  uint64_t operator()(int64_t i) const { return keys[i]; }
  bool any_between(int64_t i, int count, uint64_t low, uint64_t high) const {
    using U = typename E::Bits;
    const U first = U(low), span = U(high - low);
    bool found = false;
    for (int j = 0; j < count; j++) found |= U(keys[i + j] - first) <= span;
    return found;
  }
};
template <class E> struct MadeKeys {
  const typename E::Bits* row;
  uint64_t operator()(int64_t i) const { return E::key(row[i]); }
  bool any_between(int64_t, int, uint64_t, uint64_t) const { return true; }
};

// The place of the k-th smallest element (from 0); all keys are in [low, high]. The row is split by the leading bits in which keys differ, and only the part that
// holds the k-th is looked at again.
template <class Candidate, class Keys> static int64_t kth_of_row(Keys key_at, uint64_t low, uint64_t high, int64_t n, int64_t k, Candidate* part) {
  const int64_t SMALL = 512;
  const int DIGIT = 11;
  if (n <= SMALL) {
    for (int64_t i = 0; i < n; i++) part[i] = Candidate{key_at(i), i};
    std::nth_element(part, part + k, part + n);
    return index_of(part[k]);
  }
  int64_t counts[1 << DIGIT];
  bool first = true;
  for (int64_t count = n;;) {
    const int digit = std::min(DIGIT, bit_width(uint64_t(count)) - 3);      // about four elements a bucket: clearing and summing buckets costs too
    int width = bit_width(high - low), shift = width > digit ? width - digit : 0;
    std::fill_n(counts, size_t(1) << digit, 0);
    auto bucket = [&](uint64_t key) { return size_t((key - low) >> shift); };
    if (first) for (int64_t i = 0; i < n; i++) ++counts[bucket(key_at(i))];
    else for (int64_t i = 0; i < count; i++) ++counts[bucket(key_of(part[i]))];
    size_t b = 0;
    while (counts[b] <= k) k -= counts[b++];
    uint64_t begin = low + (uint64_t(b) << shift), end = begin + std::min(high - begin, (uint64_t(1) << shift) - 1);
    int64_t kept = 0;
    auto keep = [&](uint64_t key, Candidate c) { part[kept] = c; kept += key - begin <= end - begin; };      // part has room for n + 1
    if (first) {
      const int BLOCK = 16;      // most blocks of a long row have nothing in the bucket
      for (int64_t i = 0; i < n; i += BLOCK) {
        int size = int(std::min<int64_t>(BLOCK, n - i));
        if (!key_at.any_between(i, size, begin, end)) continue;
        for (int64_t j = i; j < i + size; j++) { uint64_t key = key_at(j); keep(key, Candidate{key, j}); }
      }
    } else for (int64_t i = 0; i < count; i++) { Candidate c = part[i]; keep(key_of(c), c); }
    first = false;
    count = kept;
    if (shift == 0) return index_of(part[k]);      // all equal, in order of place
    if (count <= SMALL) { std::nth_element(part, part + k, part + count); return index_of(part[k]); }
    low = begin;
    high = end;
  }
}

static int64_t kth_rows(char** p, const int64_t* n, const Scalar*, char* scratch, int64_t lo, int64_t hi) {
  enum { KTH, MEDIAN, NANMEDIAN };
  with_element((DType)n[0], [&](auto element) {
    using E = decltype(element);
    using U = typename E::Bits;
    int64_t length = n[1];
    U* keys = (U*)scratch;
    char* part = scratch + (sizeof(U) < 8 ? length * 8 : 0);
    for (int64_t r = lo; r < hi; r++) {
      const U* row = (const U*)p[2] + r * length;
      int64_t k = n[2], at = -1;
      uint64_t low, high;
      key_range<E>(row, length, keys, low, high);
      if (n[3] != KTH) {
        int64_t absent = 0, first = -1;
        if (E::is_float && high == U(~U(0)))      // the key of NaN
          for (int64_t i = length - 1; i >= 0; i--) if (E::is_nan(row[i])) { ++absent; first = i; }
        if (n[3] == MEDIAN) { if (first >= 0) at = first; k = (length - 1) / 2; }
        else k = absent == length ? 0 : (length - absent - 1) / 2;
      }
      if (at < 0) {
        if constexpr (sizeof(U) == 8) at = kth_of_row(MadeKeys<E>{row}, low, high, length, k, (WideCandidate*)part);
        else if (length < INDEX_LIMIT) at = kth_of_row(KeptKeys<E>{keys}, low, high, length, k, (NarrowCandidate*)part);
        else at = kth_of_row(MadeKeys<E>{row}, low, high, length, k, (WideCandidate*)scratch);
      }
      ((U*)p[0])[r] = row[at];
      ((int64_t*)p[1])[r] = at;
    }
  });
  return 0;
}

// -------------------------------------------------------------------------------------------------------------------- mode
// The most frequent value, the smallest of several, and where it is last. A NaN equals nothing, so each counts once.
static int64_t mode_rows(char** p, const int64_t* n, const Scalar*, char* scratch, int64_t lo, int64_t hi) {
  with_element((DType)n[0], [&](auto element) {
    using E = decltype(element);
    using U = typename E::Bits;
    int64_t length = n[1];
    uint64_t *words = (uint64_t*)scratch, *room = words + length;
    for (int64_t r = lo; r < hi; r++) {
      const U* row = (const U*)p[2] + r * length;
      order_row<E>(row, length, false, words, room);
      int64_t most = 0, at = 0;
      for (int64_t start = 0; start < length;) {
        int64_t end = start + 1;
        U key = E::key(row[index_of(words[start])]);
        while (end < length && E::key(row[index_of(words[end])]) == key && !E::is_nan(row[index_of(words[end])])) ++end;
        if (end - start > most) { most = end - start; at = index_of(words[end - 1]); }
        start = end;
      }
      ((U*)p[0])[r] = row[at];
      ((int64_t*)p[1])[r] = at;
    }
  });
  return 0;
}

bool init_sort(PyObject*) {
  native_kernel_register("sort_rows", sort_rows);
  native_kernel_register("topk_rows", topk_rows);
  native_kernel_register("kth_rows", kth_rows);
  native_kernel_register("mode_rows", mode_rows);
  return true;
}

}  // namespace rl
