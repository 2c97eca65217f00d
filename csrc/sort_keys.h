// Elements as unsigned keys whose order is the order of the values, and the sorts of such keys that sort.cpp and unique.cpp share.
//
// The order is torch's: NaN is the largest value whatever its sign and payload, and -0 equals 0. A descending sort inverts the keys, which keeps equal
// elements in the order they had: every sort here is stable.
//
// Keys of up to 32 bits travel with their index in one word (key above, index below): words are all different, so any sort of words is a stable sort of
// keys. Rows of 2^32 elements or more have no room for the index and take the slow road (sort.cpp).
#pragma once
#include "element.h"
#include <algorithm>
#include <bit>
#include <type_traits>

namespace rl {

// One kind of element each. Bits: the unsigned integer of its size; key: to the ordered key; reads its value from the key unless `lost`.
template <class U> struct UnsignedElement {
  using Bits = U;
  using Number = U;
  static const bool is_float = false;
  static U key(U b) { return b; }
  static U bits(U k) { return k; }
  static bool lost(U) { return false; }
  static bool is_nan(U) { return false; }
};
template <class U, class S> struct SignedElement {
  using Bits = U;
  using Number = S;
  static const bool is_float = false;
  static const U TOP = U(U(1) << (8 * sizeof(U) - 1));
  static U key(U b) { return U(b ^ TOP); }
  static U bits(U k) { return U(k ^ TOP); }
  static bool lost(U) { return false; }
  static bool is_nan(U) { return false; }
};
template <class U, class N, U INFINITE> struct FloatElement {
  using Bits = U;
  using Number = N;                      // the type the processor compares, or Bits where it has none (half types)
  static const bool is_float = true;
  static const U TOP = U(U(1) << (8 * sizeof(U) - 1)), LAST = U(~U(0));
  static bool is_nan(U b) { return U(b & U(~TOP)) > INFINITE; }
  static U key(U b) {      // no selections, which compilers turn into jumps; signed comparisons and shifts, which SSE2 has
    using S = std::make_signed_t<U>;
    U magnitude = U(b & U(~TOP));
    b = U(b & U(U(0) - U(magnitude != 0)));
    U k = U(b ^ U(U(S(b) >> (8 * sizeof(U) - 1)) | TOP));
    return U(k | U(U(0) - U(S(magnitude) > S(INFINITE))));
  }
  static U bits(U k) { return U(k & TOP) ? U(k ^ TOP) : U(~k); }
  static bool lost(U k) { return k == TOP || k == LAST; }      // a zero's sign, a NaN's payload
};
using HalfElement = FloatElement<uint16_t, uint16_t, 0x7c00>;
using BrainElement = FloatElement<uint16_t, uint16_t, 0x7f80>;
using SingleElement = FloatElement<uint32_t, float, 0x7f800000u>;
using DoubleElement = FloatElement<uint64_t, double, 0x7ff0000000000000ull>;

// Calls f(kind of element). Every dtype that has an order; the callers refuse the others.
template <class F> inline void with_element(DType d, F f) {
  switch (d) {
    case DType::Bool: case DType::UInt8: f(UnsignedElement<uint8_t>{}); break;
    case DType::Int8: f(SignedElement<uint8_t, int8_t>{}); break;
    case DType::Int16: f(SignedElement<uint16_t, int16_t>{}); break;
    case DType::Int32: f(SignedElement<uint32_t, int32_t>{}); break;
    case DType::Int64: f(SignedElement<uint64_t, int64_t>{}); break;
    case DType::UInt16: f(UnsignedElement<uint16_t>{}); break;
    case DType::UInt32: f(UnsignedElement<uint32_t>{}); break;
    case DType::UInt64: f(UnsignedElement<uint64_t>{}); break;
    case DType::Float16: f(HalfElement{}); break;
    case DType::BFloat16: f(BrainElement{}); break;
    case DType::Float32: f(SingleElement{}); break;
    default: f(DoubleElement{}); break;
  }
}

const int64_t INDEX_LIMIT = int64_t(1) << 32;
inline uint64_t word_of(uint64_t key, int64_t index) { return key << 32 | uint64_t(index); }
inline uint64_t key_of(uint64_t word) { return word >> 32; }
inline int64_t index_of(uint64_t word) { return int64_t(word & 0xffffffffu); }
inline int bit_width(uint64_t v) { return 64 - std::countl_zero(v); }

inline void insertion_sort(uint64_t* a, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    uint64_t w = a[i];
    int64_t j = i;
    for (; j > 0 && a[j - 1] > w; j--) a[j] = a[j - 1];
    a[j] = w;
  }
}

// Sorts words whose keys have `bits` bits; the result is in a. room: n words. Long rows: one pass per byte in which keys differ, least significant first.
inline void sort_words(uint64_t* a, uint64_t* room, int64_t n, int bits) {
  if (n <= 24) { insertion_sort(a, n); return; }
  if (n <= 160) { std::sort(a, a + n); return; }
  const int DIGITS = (bits + 7) / 8;
  uint32_t counts[4][256] = {};
  bool sorted = true;
  for (int64_t i = 0; i < n; i++) {
    uint64_t w = a[i];
    for (int d = 0; d < DIGITS; d++) ++counts[d][w >> (32 + 8 * d) & 255];
    sorted &= i == 0 || a[i - 1] <= w;
  }
  if (sorted) return;
  uint64_t *from = a, *to = room;
  for (int d = 0; d < DIGITS; d++) {
    int shift = 32 + 8 * d;
    if (counts[d][from[0] >> shift & 255] == uint32_t(n)) continue;
    uint32_t start = 0;
    for (uint32_t& c : counts[d]) { uint32_t count = c; c = start; start += count; }
    for (int64_t i = 0; i < n; i++) to[counts[d][from[i] >> shift & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != a) std::memcpy(a, from, size_t(n) * 8);
}

// Words in the order of 64-bit keys; afterwards only their indices mean something. The keys' highest 32 bits that differ are sorted first, and runs that
// agree in them by the rest.
inline void order_wide_keys(const uint64_t* keys, uint64_t* words, uint64_t* room, int64_t n) {
  if (n == 0) return;
  uint64_t low = keys[0], high = keys[0];
  for (int64_t i = 1; i < n; i++) { low = keys[i] < low ? keys[i] : low; high = keys[i] > high ? keys[i] : high; }
  int width = bit_width(high - low), shift = width > 32 ? width - 32 : 0;
  for (int64_t i = 0; i < n; i++) words[i] = word_of((keys[i] - low) >> shift, i);
  sort_words(words, room, n, width - shift);
  if (shift == 0) return;
  for (int64_t start = 0; start < n;) {
    int64_t end = start + 1;
    while (end < n && key_of(words[end]) == key_of(words[start])) ++end;
    int64_t length = end - start;
    if (length > 1 && length <= 48) {
      for (int64_t i = start + 1; i < end; i++) {
        uint64_t w = words[i], k = keys[index_of(w)];
        int64_t j = i;
        for (; j > start && keys[index_of(words[j - 1])] > k; j--) words[j] = words[j - 1];
        words[j] = w;
      }
    } else if (length > 1) {
      std::vector<uint64_t> part(words + start, words + end), part_keys((size_t)length), part_words((size_t)length);
      for (int64_t i = 0; i < length; i++) part_keys[size_t(i)] = keys[index_of(part[size_t(i)])];
      order_wide_keys(part_keys.data(), part_words.data(), room + start, length);
      for (int64_t i = 0; i < length; i++) words[start + i] = part[size_t(index_of(part_words[size_t(i)]))];
    }
    start = end;
  }
}

// The order of one row of fewer than 2^32 elements: words, in order, whose indices are the elements' places. room: n words, and for 8-byte elements n more.
template <class E> inline void order_row(const typename E::Bits* row, int64_t n, bool descending, uint64_t* words, uint64_t* room) {
  using U = typename E::Bits;
  const U flip = descending ? U(~U(0)) : U(0);
  if constexpr (sizeof(U) == 8) {
    uint64_t* keys = room + n;
    for (int64_t i = 0; i < n; i++) keys[i] = E::key(row[i]) ^ flip;
    order_wide_keys(keys, words, room, n);
  } else {
    for (int64_t i = 0; i < n; i++) words[i] = word_of(U(E::key(row[i]) ^ flip), i);
    sort_words(words, room, n, 8 * int(sizeof(U)));
  }
}

}  // namespace rl
