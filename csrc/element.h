// One element of a tensor, read and written one at a time: what item(), tolist(), tensor([...]) and the random fills share.
// Bulk conversions are kernels that the compiler generates; nothing here is meant for loops over large tensors of mixed dtypes.
#pragma once
#include "runtime.h"
#include <cmath>

namespace rl {

inline float float_of_bits(uint32_t bits) { float f; std::memcpy(&f, &bits, 4); return f; }
inline uint32_t bits_of_float(float f) { uint32_t bits; std::memcpy(&bits, &f, 4); return bits; }

inline float half_to_float(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000 | (mantissa << 13));
  if (exponent) return float_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float magnitude = float(mantissa) * 5.9604644775390625e-8f;      // subnormal: mantissa * 2^-24, exact
  return sign ? -magnitude : magnitude;
}

// Round to nearest, ties to even; overflow becomes infinity.
inline uint16_t float_to_half(float f) {
  uint32_t bits = bits_of_float(f), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);      // NaN
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);     // rounds to 65520 or more: infinity
  if (magnitude >= 0x38800000) {                                   // a normal half
    uint32_t shifted = magnitude - 0x38000000;
    return uint16_t(sign | ((shifted + 0xfff + ((shifted >> 13) & 1)) >> 13));
  }
  if (magnitude < 0x33000000) return uint16_t(sign);               // below half of the smallest subnormal
  int exponent = int(magnitude >> 23), shift = 126 - exponent;     // value = m * 2^(exponent-150); the result counts units of 2^-24
  uint32_t m = (magnitude & 0x7fffff) | 0x800000, low = m & ((1u << shift) - 1), halfway = 1u << (shift - 1), out = m >> shift;
  if (low > halfway || (low == halfway && (out & 1))) ++out;
  return uint16_t(sign | out);
}

inline float bfloat_to_float(uint16_t b) { return float_of_bits(uint32_t(b) << 16); }
inline uint16_t float_to_bfloat(float f) {
  uint32_t bits = bits_of_float(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// 8-bit floats: e4m3fn (bias 7, no infinity, 0x7f is NaN) and e5m2 (bias 15, IEEE-like).
inline float float8_to_float(uint8_t b, bool e5m2) {
  if (e5m2) return half_to_float(uint16_t(uint16_t(b) << 8));
  uint32_t exponent = (b >> 3) & 15, mantissa = b & 7;
  float magnitude = exponent == 15 && mantissa == 7 ? NAN : exponent ? std::ldexp(float(8 + mantissa), int(exponent) - 10) : std::ldexp(float(mantissa), -9);
  return b & 0x80 ? -magnitude : magnitude;
}
inline uint8_t float_to_float8(float f, bool e5m2) {
  uint32_t bits = bits_of_float(f);
  uint8_t sign = uint8_t((bits >> 24) & 0x80);
  float magnitude = std::fabs(f);
  int mantissa_bits = e5m2 ? 2 : 3, lowest = e5m2 ? -14 : -6;
  if (magnitude != magnitude) return uint8_t(sign | 0x7f);
  if (std::isinf(magnitude)) return uint8_t(sign | (e5m2 ? 0x7c : 0x7e));      // e4m3fn saturates
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = exponent - 1 < lowest ? lowest : exponent - 1;
  float units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));       // in units of the last place
  uint32_t code = uint32_t(units) + (uint32_t(exponent - lowest) << mantissa_bits);    // a carry runs into the exponent, as it should
  uint32_t top = e5m2 ? 0x7c : 0x7e;
  return uint8_t(sign | (code > top ? top : code));
}

inline bool is_float_kind(DType d) { return DTYPES[(int)d].kind == 'f'; }
inline bool is_complex_kind(DType d) { return DTYPES[(int)d].kind == 'c'; }
inline DType real_of(DType d) { return d == DType::Complex64 ? DType::Float32 : d == DType::Complex128 ? DType::Float64 : d == DType::Complex32 ? DType::Float16 : d; }

// torch's C++ name of a dtype ("Float", "Long"), which its messages use.
inline const char* scalar_type_name(DType d) {
  static const char* names[] = {"Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble",
                                "UInt16", "UInt32", "UInt64", "Float8_e4m3fn", "Float8_e5m2", "ComplexHalf"};
  return names[(int)d];
}

// A real element as a double (exact but for 64-bit integers).
inline double load_real(DType d, const char* p) {
  switch (d) {
    case DType::Bool: return *(const uint8_t*)p != 0;
    case DType::UInt8: return *(const uint8_t*)p;
    case DType::Int8: return *(const int8_t*)p;
    case DType::Int16: { int16_t v; std::memcpy(&v, p, 2); return v; }
    case DType::Int32: { int32_t v; std::memcpy(&v, p, 4); return v; }
    case DType::Int64: { int64_t v; std::memcpy(&v, p, 8); return double(v); }
    case DType::UInt16: { uint16_t v; std::memcpy(&v, p, 2); return v; }
    case DType::UInt32: { uint32_t v; std::memcpy(&v, p, 4); return v; }
    case DType::UInt64: { uint64_t v; std::memcpy(&v, p, 8); return double(v); }
    case DType::Float16: { uint16_t v; std::memcpy(&v, p, 2); return half_to_float(v); }
    case DType::BFloat16: { uint16_t v; std::memcpy(&v, p, 2); return bfloat_to_float(v); }
    case DType::Float32: { float v; std::memcpy(&v, p, 4); return v; }
    case DType::Float64: { double v; std::memcpy(&v, p, 8); return v; }
    case DType::Float8E4M3: return float8_to_float(*(const uint8_t*)p, false);
    case DType::Float8E5M2: return float8_to_float(*(const uint8_t*)p, true);
    default: return 0;
  }
}

// The elements' integer types, unsigned ones wrapped to int64.
inline int64_t load_integer(DType d, const char* p) {
  switch (d) {
    case DType::Bool: return *(const uint8_t*)p != 0;
    case DType::UInt8: return *(const uint8_t*)p;
    case DType::Int8: return *(const int8_t*)p;
    case DType::Int16: { int16_t v; std::memcpy(&v, p, 2); return v; }
    case DType::Int32: { int32_t v; std::memcpy(&v, p, 4); return v; }
    case DType::UInt16: { uint16_t v; std::memcpy(&v, p, 2); return v; }
    case DType::UInt32: { uint32_t v; std::memcpy(&v, p, 4); return v; }
    default: { int64_t v; std::memcpy(&v, p, 8); return v; }
  }
}

inline void store_integer(DType d, char* p, int64_t v) {
  switch (d) {
    case DType::Bool: *(uint8_t*)p = v != 0; break;
    case DType::UInt8: case DType::Int8: { uint8_t x = uint8_t(v); *p = char(x); break; }
    case DType::Int16: case DType::UInt16: { uint16_t x = uint16_t(v); std::memcpy(p, &x, 2); break; }
    case DType::Int32: case DType::UInt32: { uint32_t x = uint32_t(v); std::memcpy(p, &x, 4); break; }
    default: std::memcpy(p, &v, 8); break;
  }
}

// A double into any float dtype, rounded once per step as C's casts do (double to float to half).
inline void store_float(DType d, char* p, double v) {
  switch (d) {
    case DType::Float64: std::memcpy(p, &v, 8); break;
    case DType::Float32: { float x = float(v); std::memcpy(p, &x, 4); break; }
    case DType::Float16: { uint16_t x = float_to_half(float(v)); std::memcpy(p, &x, 2); break; }
    case DType::BFloat16: { uint16_t x = float_to_bfloat(float(v)); std::memcpy(p, &x, 2); break; }
    case DType::Float8E4M3: *(uint8_t*)p = float_to_float8(float(v), false); break;
    case DType::Float8E5M2: *(uint8_t*)p = float_to_float8(float(v), true); break;
    default: break;
  }
}

PyObject* element_object(DType, const char* p, bool conj, bool neg);    // interop.cpp: new Python bool, int, float or complex
bool element_store(DType, char* p, PyObject* number);                   // construct.cpp: a Python or numpy number, 0-dim tensor; torch's overflow errors

// construct.cpp
bool check_sizes(int n, const int64_t* sizes);      // "Trying to create tensor with negative dimension …"
// The order in which a tensor's memory runs: perm[0] is the innermost (fastest) dimension. Ambiguous dimensions (stride 0) stay where they are.
void memory_order(int ndim, const int64_t* shape, const int64_t* strides, int* perm);
Tensor* empty_like_tensor(const Tensor* self, DType, Device, int memory_format);        // new; memory_format: -1 or 1 keep the order of self's memory
bool require_grad(Tensor*);                         // make a fresh tensor a leaf that requires grad, or torch's error
Tensor* tensor_from_data(PyObject* data, bool has_dtype, DType dtype, Device device);   // new: torch.tensor(data) without the options
bool is_numpy_array(PyObject*);                     // interop.cpp; false while numpy is not imported
bool is_numpy_scalar(PyObject*);
Tensor* tensor_from_numpy(PyObject* array, bool warn_readonly);     // new: shares memory
Tensor* tensor_copy_to(Tensor* source, DType, Device);              // new: detached dense copy, with the layout of `source` kept
PyObject* call_method(PyObject* self, const char* name, PyObject* a = nullptr, PyObject* b = nullptr);   // interop.cpp; new

}  // namespace rl
