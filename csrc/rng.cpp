// Random fills: torch's CPU streams bit for bit, for every dtype, size and layout. The engine and its arithmetic are in rng_math.h, the Generator in
// generator.cpp. Everything is drawn serially under the GIL, so nothing depends on the number of threads.
//
// Values are produced in *memory* order of the tensor (dimensions sorted by stride), so a transpose is filled as its storage lies. A dense tensor is therefore
// one straight run. normal_ has two streams: 16 or more contiguous elements in blocks, everything else one at a time through the generator's cache.
//
// Native ops registered here, with the schemas they read (trailing requires_grad and pin_memory belong to the face; G = "Generator? generator=None"):
//   uniform_(Tensor(a!) self, float from=0, float to=1, *, G)      normal_(self, float mean=0, float std=1, *, G)
//   random_(self, *, G) | (self, SymInt to, *, G) | (self, SymInt from, SymInt? to, *, G)
//   bernoulli_(self, float p=0.5, *, G) | (self, Tensor p, *, G)     bernoulli(Tensor self, *, G) | (self, float p, *, G)
//   exponential_(self, float lambd=1, *, G)   cauchy_(self, float median=0, float sigma=1, *, G)   log_normal_(self, float mean=1, float std=2, *, G)
//   geometric_(self, float p, *, G)
//   rand, randn(SymInt[] size, *, G, dtype, layout, device)          randint(SymInt high, SymInt[] size, …) | (SymInt low, SymInt high, SymInt[] size, …)
//   rand_like, randn_like(Tensor self, *, dtype, layout, device, memory_format)      randint_like(self, SymInt high, …) | (self, SymInt low, SymInt high, …)
//   randperm(SymInt n, *, G, dtype, layout, device)
//   normal(Tensor mean, Tensor std, *, G) | (Tensor mean, float std=1, *, G) | (float mean, Tensor std, *, G) | (float mean, float std, SymInt[] size, *, G, dtype, layout, device)
// Native kernels for the compiler's draw nodes: draw_bernoulli, draw_uniform, draw_normal, draw_exponential; see the end of the file for their arguments.
#include "rng.h"
#include "element.h"
#include "tape.h"

namespace rl {

// ------------------------------------------------------------------------------------------------------- where to write
// A tensor's elements as the fills see them: complex ones are pairs of reals.
struct Target {
  DType dtype; int ndim; bool dense, contiguous; int64_t numel; char* data;
  int64_t shape[MAX_DIMS + 1], strides[MAX_DIMS + 1];
};

static Target target_of(const Tensor* t) {
  const Layout* l = t->layout;
  bool complex = is_complex_kind(l->dtype);
  Target x;
  x.dtype = real_of(l->dtype);
  x.ndim = l->ndim + complex;
  x.dense = l->flags & L_DENSE;
  x.contiguous = l->flags & L_CONTIGUOUS;
  x.numel = l->numel * (complex ? 2 : 1);
  x.data = l->numel ? data_ptr(t) : nullptr;
  for (int i = 0; i < l->ndim; i++) { x.shape[i] = l->shape()[i]; x.strides[i] = l->strides()[i] * (complex ? 2 : 1); }
  if (complex) { x.shape[l->ndim] = 2; x.strides[l->ndim] = 1; }
  return x;
}

// Calls write(address, offset in `other`) for every element in memory order. other_strides: bytes, or null.
template <class Write> static void in_memory_order(const Target& x, const int64_t* other_strides, Write write) {
  if (x.numel == 0) return;
  int size = itemsize(x.dtype), perm[MAX_DIMS + 1];
  if (x.dense && !other_strides) {
    for (int64_t i = 0; i < x.numel; i++) write(x.data + i * size, int64_t(0));
    return;
  }
  memory_order(x.ndim, x.shape, x.strides, perm);
  int64_t at[MAX_DIMS + 1] = {0}, other = 0;
  char* p = x.data;
  for (int64_t count = x.numel; count > 0; count--) {
    write(p, other);
    for (int k = 0; k < x.ndim; k++) {
      int d = perm[k];
      p += x.strides[d] * size;
      if (other_strides) other += other_strides[d];
      if (++at[d] < x.shape[d]) break;
      p -= x.strides[d] * size * x.shape[d];
      if (other_strides) other -= other_strides[d] * x.shape[d];
      at[d] = 0;
    }
  }
}

template <class Next> static void fill_floats(const Target& x, Next next) {
  in_memory_order(x, nullptr, [&](char* p, int64_t) { store_float(x.dtype, p, next()); });
}

// An integer cast to the dtype as C casts it: floats round, narrow integers wrap.
static void store_cast(DType d, char* p, int64_t v) {
  if (!is_float_kind(d)) store_integer(d, p, v);
  else if (d == DType::Float64) store_float(d, p, double(v));
  else store_float(d, p, double(float(v)));
}

// ----------------------------------------------------------------------------------------------------------- the fills
static const int CHUNK = 512;

static void fill_uniform(Generator* g, const Target& x, double from, double to) {
  uint32_t words[2 * CHUNK];
  if (x.dtype == DType::Float64) {
    double buffer[CHUNK];
    if (x.dense) {
      for (int64_t i = 0; i < x.numel; i += CHUNK) {
        int n = int(x.numel - i < CHUNK ? x.numel - i : CHUNK);
        g->engine.words(words, 2 * n);
        uniform_of_words(words, (double*)x.data + i, n, from, to - from, to);
      }
      return;
    }
    fill_floats(x, [&] { g->engine.words(words, 2); uniform_of_words(words, buffer, 1, from, to - from, to); return buffer[0]; });
    return;
  }
  float low = float(from), high = float(to), range = high - low;
  if (x.dtype == DType::Float32 && x.dense) {
    for (int64_t i = 0; i < x.numel; i += CHUNK) {
      int n = int(x.numel - i < CHUNK ? x.numel - i : CHUNK);
      g->engine.words(words, n);
      uniform_of_words(words, (float*)x.data + i, n, low, range, high);
    }
    return;
  }
  // Half types are computed in float32; what equals the upper bound is judged after rounding, in the dtype.
  char top[8], bottom[8], value[8];
  int size = itemsize(x.dtype);
  store_float(x.dtype, top, to);
  store_float(x.dtype, bottom, from);
  double top_value = load_real(x.dtype, top);
  in_memory_order(x, nullptr, [&](char* p, int64_t) {
    store_float(x.dtype, value, std::fma(unit32(g->engine.word()), range, low));
    std::memcpy(p, load_real(x.dtype, value) == top_value ? bottom : value, size_t(size));
  });
}

template <class T> static void normal_blocks(Generator* g, T* data, int64_t n, T mean, T std) {      // n >= 16
  auto uniforms = [&](T* out, int64_t count) {
    uint32_t words[2 * CHUNK];
    for (int64_t i = 0; i < count; i += CHUNK) {
      int take = int(count - i < CHUNK ? count - i : CHUNK);
      g->engine.words(words, sizeof(T) == 8 ? 2 * take : take);
      uniform_of_words(words, out + i, take, T(0), T(1), T(1));
    }
  };
  uniforms(data, n);
  box_muller_blocks(data, n / 16, mean, std);
  if (n % 16) {      // the last sixteen are drawn again
    uniforms(data + n - 16, 16);
    box_muller_blocks(data + n - 16, 1, mean, std);
  }
}

// Half types draw block by block in float32, then round.
static void normal_blocks_half(Generator* g, const Target& x, float mean, float std) {
  float block[16];
  auto draw_at = [&](int64_t start) {
    for (float& u : block) u = unit32(g->engine.word());
    box_muller_blocks(block, 1, mean, std);
    for (int j = 0; j < 16; j++) store_float(x.dtype, x.data + (start + j) * itemsize(x.dtype), block[j]);
  };
  for (int64_t i = 0; i + 16 <= x.numel; i += 16) draw_at(i);
  if (x.numel % 16) draw_at(x.numel - 16);
}

static void fill_normal(Generator* g, const Target& x, double mean, double std) {
  if (x.numel >= 16 && x.contiguous) {
    if (x.dtype == DType::Float32) normal_blocks(g, (float*)x.data, x.numel, float(mean), float(std));
    else if (x.dtype == DType::Float64) normal_blocks(g, (double*)x.data, x.numel, mean, std);
    else normal_blocks_half(g, x, float(mean), float(std));
    return;
  }
  fill_floats(x, [&] { return std::fma(g->normal(), std, mean); });
}

static void fill_range(Generator* g, const Target& x, uint64_t range, int64_t from) {
  if (range >= uint64_t(1) << 28)
    in_memory_order(x, nullptr, [&](char* p, int64_t) { store_cast(x.dtype, p, int64_t(g->engine.word64() % range + uint64_t(from))); });
  else
    in_memory_order(x, nullptr, [&](char* p, int64_t) { store_cast(x.dtype, p, int64_t(g->engine.word() % uint32_t(range)) + from); });
}

static uint64_t bernoulli_bound(double p) {      // u = k * 2^-53 < p exactly when k < this
  return uint64_t(std::ceil(p * 0x1p53));
}

static void fill_bernoulli(Generator* g, const Target& x, double p) {
  uint64_t below = bernoulli_bound(p);
  in_memory_order(x, nullptr, [&](char* at, int64_t) { store_cast(x.dtype, at, (g->engine.word64() & ((uint64_t(1) << 53) - 1)) < below); });
}

// ------------------------------------------------------------------------------------------------ the protocol of a fill
// While compile() records, what was recorded so far may read the memory about to be written, or draw from the same stream: it runs first.
static bool flush_recorded() { return RL_LIKELY(!(tls.guard & G_RECORD)) || pending_flush(); }

// Checks that do not depend on the distribution; afterwards the memory may be written. Meta tensors: *write is false.
static bool begin_fill(Tensor* self, bool* write) {
  const Layout* l = self->layout;
  *write = false;
  if (!flush_recorded()) return false;
  if (!refuse_self_overlap(self)) return false;
  Tensor* base = view_base(self);
  if (tls.grad_mode && (self->requires_grad || (base && base->requires_grad))) {
    // The gradient of what was there is zero, exactly as zero_'s: let it do the tape's checks and rewrite the history.
    PyObject* done = call_method((PyObject*)self, "zero_");
    if (!done) return false;
    Py_DECREF(done);
  }
  if (l->device == Device::Meta) return true;
  *write = l->numel > 0;
  return materialize(self->storage);
}

// The memory of a tensor with a conj or neg bit holds what the bit undoes: what was drawn is turned around in place.
static bool resolve_fill(Tensor* self) {
  const Layout* l = self->layout;
  if (RL_LIKELY(!(l->flags & (L_CONJ | L_NEG))) || l->device == Device::Meta) return true;
  Layout* plain = layout_intern(l->dtype, l->device, l->ndim, l->shape(), l->strides());
  Tensor* memory = plain ? tensor_alias(self) : nullptr;
  if (!memory) { if (plain) decref(plain); return false; }
  int flags = l->flags;
  decref(memory->layout);
  memory->layout = plain;
  bool good = true;
  for (auto [bit, name] : {std::pair{L_CONJ, "conj_physical"}, std::pair{L_NEG, "neg"}}) {
    Tensor* turned = good && flags & bit ? call_op(op_find(name), {memory}) : nullptr;
    Tensor* done = turned ? call_op(op_find("copy_"), {memory, turned}) : nullptr;
    good &= done || !(flags & bit);
    Py_XDECREF((PyObject*)turned);
    Py_XDECREF((PyObject*)done);
  }
  Py_DECREF((PyObject*)memory);
  return good;
}

static int finish_fill(Tensor* self, PyObject** outs) {
  if (!resolve_fill(self)) return -1;
  outs[0] = Py_NewRef((PyObject*)self);
  return 1;
}

static bool not_implemented(const char* kernel, DType d) {
  raise(PyExc_NotImplementedError, "\"%s\" not implemented for '%s'", kernel, scalar_type_name(d));
  return false;
}
static std::string number_text(double v) {
  char text[32];
  snprintf(text, sizeof text, "%g", v);
  return text;
}
static const char* cpp_name(DType d) {      // as torch's messages spell the C++ types
  static const char* names[] = {"bool", "unsigned char", "signed char", "short int", "int", "long int", "c10::Half", "c10::BFloat16", "float", "double"};
  return (int)d < 10 ? names[(int)d] : DTYPES[(int)d].name;
}
static double largest(DType d) {
  return d == DType::Float16 ? 65504.0 : d == DType::BFloat16 ? 3.3895313892515355e38 : d == DType::Float32 ? 3.4028234663852886e38 : 1.7976931348623157e308;
}
static bool is_plain_float(DType d) { return d == DType::Float16 || d == DType::BFloat16 || d == DType::Float32 || d == DType::Float64; }

static bool check_uniform(DType d, double from, double to) {
  d = real_of(d);
  if (!is_plain_float(d)) return not_implemented("check_uniform_bounds", d);
  double top = largest(d);
  if (!(from >= -top && from <= top)) { raise(PyExc_RuntimeError, "from is out of bounds for %s", cpp_name(d)); return false; }
  if (!(to >= -top && to <= top)) { raise(PyExc_RuntimeError, "to is out of bounds for %s", cpp_name(d)); return false; }
  if (from > to) { raise(PyExc_RuntimeError, "uniform_ expects to return a [from, to) range, but found from=%s > to=%s", number_text(from).c_str(), number_text(to).c_str()); return false; }
  if (to - from > top) {
    raise(PyExc_RuntimeError, "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%s and from=%s which result in to-from to exceed the limit", scalar_type_name(d), number_text(to).c_str(), number_text(from).c_str());
    return false;
  }
  return true;
}

static bool uniform_into(Tensor* self, Generator* g, double from, double to) {
  bool write;
  if (!g || !check_uniform(self->layout->dtype, from, to) || !begin_fill(self, &write)) return false;
  if (write) fill_uniform(g, target_of(self), from, to);
  return true;
}

static bool normal_into(Tensor* self, Generator* g, double mean, double std) {
  bool write;
  DType d = self->layout->dtype;
  if (!g) return false;
  if (!(std >= 0)) { raise(PyExc_RuntimeError, "normal expects std >= 0.0, but found std %s", number_text(std).c_str()); return false; }
  if (!is_plain_float(real_of(d))) return not_implemented("normal_kernel_cpu", d);
  if (!begin_fill(self, &write)) return false;
  if (!write) return true;
  Target x = target_of(self);
  fill_normal(g, x, mean, is_complex_kind(d) ? std / std::sqrt(2.0) : std);      // the two parts of a complex number share the variance
  return true;
}

// -------------------------------------------------------------------------------------------------------------- random_
static int digits_of(DType d) { return d == DType::Float64 ? 53 : d == DType::Float32 ? 24 : d == DType::Float16 ? 11 : 8; }
static double rounded(DType d, double v) { char b[8]; store_float(d, b, v); return load_real(d, b); }
static int floor_log2(uint64_t v) { int n = 0; while (v >>= 1) ++n; return n; }

// In a float dtype the bounds move inwards to numbers that it can hold.
static int64_t inner_from(DType d, int64_t from) {
  double next = rounded(d, d == DType::Float64 ? double(from + 1) : double(float(from + 1)));
  if (!(next < double(from))) return from;
  uint64_t size = from + 1 < 0 ? uint64_t(-(from + 1)) : uint64_t(from + 1);
  return int64_t(next) + (int64_t(1) << (floor_log2(size) - digits_of(d) + 1));
}
static int64_t inner_to(DType d, int64_t to) {
  double last = rounded(d, d == DType::Float64 ? double(to - 1) : double(float(to - 1)));
  if (!(last >= double(to))) return to;
  uint64_t size = to - 1 < 0 ? uint64_t(-(to - 1)) : uint64_t(to - 1);
  return int64_t(last) - (int64_t(1) << (floor_log2(size) - digits_of(d) + 1));
}

static bool check_bound(DType d, int64_t v, const char* name) {
  if (is_plain_float(d)) {
    if (!(double(v) >= -largest(d) && double(v) <= largest(d))) { raise(PyExc_RuntimeError, "%s is out of bounds for %s", name, cpp_name(d)); return false; }
    int64_t exact = int64_t(1) << digits_of(d);
    if (v < -exact || v > exact)
      return warn(nullptr, "%s is out of bounds [-(2^%d), 2^%d]: beyond, %s does not hold every integer, and those it does not hold are never drawn", name, digits_of(d), digits_of(d), cpp_name(d));
    return true;
  }
  int bits = itemsize(d) * 8;
  bool is_signed = DTYPES[(int)d].kind == 'i';
  int64_t top = d == DType::Bool ? 1 : bits == 64 ? INT64_MAX : is_signed ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
  int64_t bottom = is_signed ? (bits == 64 ? INT64_MIN : -top - 1) : 0;
  if (v >= bottom && v <= top) return true;
  raise(PyExc_RuntimeError, "%s is out of bounds for %s", name, cpp_name(d));
  return false;
}

static bool random_range_into(Tensor* self, Generator* g, int64_t from, int64_t to) {
  DType d = self->layout->dtype;
  bool write;
  if (!g) return false;
  if (is_complex_kind(d)) { raise(PyExc_RuntimeError, "check_random_bounds handles only integral, floating-point and boolean types"); return false; }
  if (from >= to) { raise(PyExc_RuntimeError, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld", (long long)from, (long long)to); return false; }
  if (is_plain_float(d)) {
    from = inner_from(d, from);
    to = inner_to(d, to);
    if (from >= to) { raise(PyExc_RuntimeError, "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=%lld >= to=%lld", (long long)from, (long long)to); return false; }
  }
  if (!check_bound(d, from, "from") || !check_bound(d, to - 1, "to - 1") || !begin_fill(self, &write)) return false;
  if (write) fill_range(g, target_of(self), uint64_t(to) - uint64_t(from), from);
  return true;
}

// random_(from, None): up to the largest number of the dtype, or to all 64 bits.
static bool random_from_into(Tensor* self, Generator* g, int64_t from) {
  DType d = self->layout->dtype;
  bool write;
  if (!g) return false;
  if (from == INT64_MIN) {
    if (is_complex_kind(d) || d == DType::Bool || d == DType::Float16) return not_implemented("random_full_64_bits_range_kernel_cpu", d);
    if (!is_plain_float(d) && d != DType::Int64) { raise(PyExc_RuntimeError, "random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16, not %s", scalar_type_name(d)); return false; }
    if (!begin_fill(self, &write)) return false;
    if (write) { Target x = target_of(self); in_memory_order(x, nullptr, [&](char* p, int64_t) { store_cast(x.dtype, p, int64_t(g->engine.word64())); }); }
    return true;
  }
  int64_t last;
  if (is_plain_float(d)) {
    last = int64_t(1) << digits_of(d);
    from = inner_from(d, from);
    if (from >= last) { raise(PyExc_RuntimeError, "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got from=%lld > to_inc=%lld", (long long)from, (long long)last); return false; }
  } else if (is_complex_kind(d)) {
    raise(PyExc_RuntimeError, "random_from_to_impl handles only integral, floating-point and boolean types");
    return false;
  } else {
    int bits = itemsize(d) * 8;
    last = d == DType::Bool ? 1 : bits == 64 ? INT64_MAX : DTYPES[(int)d].kind == 'i' ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
  }
  if (!check_bound(d, from, "from") || !begin_fill(self, &write)) return false;
  if (write) fill_range(g, target_of(self), uint64_t(last) - uint64_t(from) + 1, from);
  return true;
}

static bool random_any_into(Tensor* self, Generator* g) {
  DType d = self->layout->dtype;
  bool write;
  if (!g) return false;
  if (is_complex_kind(d)) return not_implemented("random_kernel_cpu", d);
  if (!begin_fill(self, &write)) return false;
  if (!write) return true;
  Target x = target_of(self);
  uint64_t count;      // values run from 0 to count - 1
  if (is_plain_float(d)) count = (uint64_t(1) << digits_of(d)) + 1;
  else if (d == DType::Bool) count = 2;
  else if (d == DType::UInt64) count = 0;
  else count = uint64_t(1) << (itemsize(d) * 8 - (DTYPES[(int)d].kind == 'i'));
  bool wide = d == DType::Int64 || d == DType::Float64 || d == DType::UInt64;
  in_memory_order(x, nullptr, [&](char* p, int64_t) {
    uint64_t w = wide ? g->engine.word64() : g->engine.word();
    store_cast(d, p, int64_t(count ? w % count : w));
  });
  return true;
}

// --------------------------------------------------------------------------------------------------------- native ops
static int native_uniform_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  double from = a.real(), to = a.real(1);
  return uniform_into(self, generator_of(c.generator), from, to) ? finish_fill(self, outs) : -1;
}
static int native_normal_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  double mean = a.real(), std = a.real(1);
  return normal_into(self, generator_of(c.generator), mean, std) ? finish_fill(self, outs) : -1;
}

static int native_random_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  Generator* g = generator_of(c.generator);
  bool ok;
  if (c.overload == 0) ok = random_any_into(self, g);
  else if (c.overload == 1) ok = random_range_into(self, g, 0, a.sym());
  else {
    int64_t from = a.sym(), to;
    ok = a.maybe_sym(&to) ? random_range_into(self, g, from, to) : random_from_into(self, g, from);
  }
  return ok ? finish_fill(self, outs) : -1;
}

static bool bernoulli_into(Tensor* self, Generator* g, double p) {
  bool write;
  if (!g) return false;
  if (!(p >= 0 && p <= 1)) { raise(PyExc_RuntimeError, "bernoulli_ expects p to be in [0, 1], but got p=%s", number_text(p).c_str()); return false; }
  if (is_complex_kind(self->layout->dtype)) return not_implemented("bernoulli_scalar_cpu_", self->layout->dtype);
  if (!begin_fill(self, &write)) return false;
  if (write) fill_bernoulli(g, target_of(self), p);
  return true;
}

static bool bernoulli_tensor_into(Tensor* self, Generator* g, Tensor* p) {
  const Layout *s = self->layout, *q = p->layout;
  bool write;
  if (!g) return false;
  if (!is_plain_float(q->dtype)) return not_implemented("bernoulli_tensor_cpu_p_", q->dtype);
  if (is_complex_kind(s->dtype)) return not_implemented("bernoulli_tensor_cpu_self_", s->dtype);
  if (q->device == Device::Meta && s->device != Device::Meta) { raise(PyExc_NotImplementedError, "Cannot inplace into non-meta tensor with meta tensor argument"); return false; }
  Tensor* wide = view_expand(p, s->ndim, s->shape());      // raises torch's "The expanded size …"
  if (!wide) return false;
  bool ok = materialize(p->storage);
  int64_t strides[MAX_DIMS + 1];
  for (int i = 0; i < s->ndim; i++) strides[i] = wide->layout->strides()[i] * itemsize(q->dtype);
  const char* chances = data_ptr(wide);
  if (ok && s->device != Device::Meta && s->numel) {       // all of them are checked before the first is used
    Target reader = target_of(wide);
    reader.dense = false;
    bool inside = true;
    in_memory_order(reader, nullptr, [&](char* at, int64_t) { double v = load_real(q->dtype, at); inside &= v >= 0 && v <= 1; });
    if (!inside) { raise(PyExc_RuntimeError, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (bernoulli: every probability must be in [0, 1])"); ok = false; }
  }
  ok = ok && begin_fill(self, &write);
  if (ok && write) {
    Target x = target_of(self);
    in_memory_order(x, strides, [&](char* at, int64_t other) {
      double chance = load_real(q->dtype, chances + other);
      double u = q->dtype == DType::Float64 ? g->engine.unit64() : double(unit32(g->engine.word()));
      store_cast(x.dtype, at, u < chance);
    });
  }
  Py_DECREF(wide);
  return ok;
}

static int native_bernoulli_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  Generator* g = generator_of(c.generator);
  bool ok = c.overload == 1 ? bernoulli_tensor_into(self, g, a.tensor()) : bernoulli_into(self, g, a.real(0.5));
  return ok ? finish_fill(self, outs) : -1;
}

static int give(Tensor* t, bool ok, PyObject** outs) {
  if (!ok || !t) { Py_XDECREF((PyObject*)t); return -1; }
  outs[0] = (PyObject*)t;
  return 1;
}

static DType drawn_dtype(const Call& c, const Tensor* like) { return c.form == 2 && c.ndest ? c.dests[0]->layout->dtype : like->layout->dtype; }      // out= is drawn in its own dtype

static int native_bernoulli(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  Generator* g = generator_of(c.generator);
  Tensor* out = tensor_empty(drawn_dtype(c, self), self->layout->device, self->layout->ndim, self->layout->shape());        // dense, whatever self is: as torch
  bool ok = out && (c.overload == 1 ? bernoulli_into(out, g, a.real(0.5)) : bernoulli_tensor_into(out, g, self));
  if (ok) out = connected("_drawn_from", out, self, nullptr);
  return give(out, ok, outs);
}

// The distributions that are drawn one value at a time in double precision and cast at the end.
template <class Draw> static int fill_one_by_one(Tensor* self, Generator* g, PyObject** outs, Draw draw) {
  bool write;
  if (!g || !begin_fill(self, &write)) return -1;
  if (write) fill_floats(target_of(self), [&] { return draw(g); });
  return finish_fill(self, outs);
}

static int native_exponential_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  double rate = a.real(1);
  DType d = self->layout->dtype;
  if (!is_plain_float(d)) { raise(PyExc_RuntimeError, "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified %s", scalar_type_name(d)); return -1; }
  if (!(rate > 0)) { raise(PyExc_RuntimeError, "exponential_ expects lambda > 0.0, but found lambda=%s", number_text(rate).c_str()); return -1; }
  double scale = -1.0 / rate;
  return fill_one_by_one(self, generator_of(c.generator), outs, [=](Generator* g) { return scale * std::log1p(-g->engine.unit64()); });
}

static int native_cauchy_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  double median = a.real(0), sigma = a.real(1);
  DType d = self->layout->dtype;
  if (!(sigma > 0)) { raise(PyExc_RuntimeError, "cauchy_ expects sigma > 0.0, but found sigma=%s", number_text(sigma).c_str()); return -1; }
  if (!is_plain_float(d)) { raise(PyExc_RuntimeError, "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified %s", cpp_name(d)); return -1; }
  return fill_one_by_one(self, generator_of(c.generator), outs, [=](Generator* g) { return median + sigma * std::tan(3.14159265358979323846 * (g->engine.unit64() - 0.5)); });
}

static int native_log_normal_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  double mean = a.real(1), std = a.real(2);
  if (!(std > 0)) { raise(PyExc_RuntimeError, "log_normal_ expects std > 0.0, but found std=%s", number_text(std).c_str()); return -1; }
  if (!is_plain_float(self->layout->dtype)) { not_implemented("log_normal_cpu", self->layout->dtype); return -1; }
  return fill_one_by_one(self, generator_of(c.generator), outs, [=](Generator* g) { return std::exp(std::fma(g->normal(), std, mean)); });
}

static int native_geometric_(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  double p = a.real();
  DType d = self->layout->dtype;
  if (!(p > 0 && p < 1)) { raise(PyExc_RuntimeError, "geometric_ expects p to be in (0, 1), but got p=%s", number_text(p).c_str()); return -1; }
  if (self->layout->numel && (d == DType::Bool || is_complex_kind(d))) { not_implemented("geometric_cpu", d); return -1; }
  Generator* g = generator_of(c.generator);
  double scale = std::log1p(-p);
  auto draw = [=](Generator* from) { return std::ceil(std::log(from->engine.unit64()) / scale); };
  if (is_plain_float(d)) return fill_one_by_one(self, g, outs, draw);
  bool write;
  if (!g || !begin_fill(self, &write)) return -1;
  if (write) {
    Target x = target_of(self);
    in_memory_order(x, nullptr, [&](char* at, int64_t) { double v = draw(g); store_integer(d, at, v < 9.2e18 ? int64_t(v) : INT64_MAX); });
  }
  return finish_fill(self, outs);
}

// ---------------------------------------------------------------------------------------------------------- factories
struct DrawOptions { DType dtype; Device device; };
static DrawOptions read_options(Args& a, DType dtype, Device device) {
  DrawOptions o{dtype, device};
  a.dtype(&o.dtype);
  a.code();            // layout
  a.device(&o.device);
  return o;
}

// The tensor a factory fills. out= does not reach natives: the runtime copies the result into it.
static Tensor* factory_target(int n, const int64_t* size, DrawOptions o) { return check_sizes(n, size) ? tensor_empty(o.dtype, o.device, n, size) : nullptr; }

static int native_rand(Call& c, PyObject** outs, int) {
  Args a(c);
  const int64_t* size;
  int n = a.sym_list(&size);
  Tensor* t = factory_target(n, size, read_options(a, g_default_dtype, Device::CPU));
  return give(t, t && uniform_into(t, generator_of(c.generator), 0, 1), outs);
}
static int native_randn(Call& c, PyObject** outs, int) {
  Args a(c);
  const int64_t* size;
  int n = a.sym_list(&size);
  Tensor* t = factory_target(n, size, read_options(a, g_default_dtype, Device::CPU));
  return give(t, t && normal_into(t, generator_of(c.generator), 0, 1), outs);
}
static int native_randint(Call& c, PyObject** outs, int) {
  Args a(c);
  int64_t low = c.overload == 1 ? a.sym() : 0, high = a.sym();
  const int64_t* size;
  int n = a.sym_list(&size);
  Tensor* t = factory_target(n, size, read_options(a, DType::Int64, Device::CPU));
  return give(t, t && random_range_into(t, generator_of(c.generator), low, high), outs);
}
static Tensor* like_target(Args& a, Tensor* self) {
  DrawOptions o = read_options(a, self->layout->dtype, self->layout->device);
  return empty_like_tensor(self, o.dtype, o.device, a.code());
}
static int native_rand_like(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = like_target(a, a.tensor());
  return give(t, t && uniform_into(t, generator_of(c.generator), 0, 1), outs);
}
static int native_randn_like(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* t = like_target(a, a.tensor());
  return give(t, t && normal_into(t, generator_of(c.generator), 0, 1), outs);
}
static int native_randint_like(Call& c, PyObject** outs, int) {
  Args a(c);
  Tensor* self = a.tensor();
  int64_t low = c.overload == 1 ? a.sym() : 0, high = a.sym();
  Tensor* t = like_target(a, self);
  return give(t, t && random_range_into(t, generator_of(c.generator), low, high), outs);
}

template <class T> static void permute(Generator* g, T* r, int64_t n, const T* values) {
  const int64_t SERIAL_LIMIT = 214748364;      // 2^32 / 20: from here on 64-bit draws, inside out
  if (n < SERIAL_LIMIT) {
    for (int64_t i = 0; i < n; i++) r[i] = values ? values[i] : T(i);
    for (int64_t i = 0; i + 1 < n; i++) std::swap(r[i], r[i + int64_t(g->engine.word() % uint32_t(n - i))]);
  } else {
    for (int64_t i = 0; i < n; i++) {
      int64_t z = int64_t(g->engine.word64() % uint64_t(i + 1));
      r[i] = r[z];
      r[z] = values ? values[i] : T(i);
    }
  }
}

static int native_randperm(Call& c, PyObject** outs, int) {
  Args a(c);
  int64_t n = a.sym();
  DrawOptions o = read_options(a, DType::Int64, Device::CPU);
  Tensor* t = factory_target(1, &n, o);
  Generator* g = generator_of(c.generator);
  if (!t || !g || !flush_recorded()) { Py_XDECREF((PyObject*)t); return -1; }
  DType d = t->layout->dtype;
  bool ok = true;
  if (d == DType::Bool || is_complex_kind(d)) ok = not_implemented("randperm", d);
  else if (is_plain_float(d) && d != DType::BFloat16 && n > (int64_t(1) << digits_of(d)) + 1) { 
    if (d == DType::Float16) raise(PyExc_RuntimeError, "n cannot be greater than 2049 for Half type.");
    else raise(PyExc_RuntimeError, "n cannot be greater than 2^%d+1 for %s type.", digits_of(d), scalar_type_name(d));
    ok = false;
  }
  else if (!is_plain_float(d) && itemsize(d) < 8 && n > 0 && n > int64_t(1) << (itemsize(d) * 8 - (DTYPES[(int)d].kind == 'i'))) {
    static const char* names[] = {"", "uint8_t", "int8_t", "int16_t", "int"};
    raise(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", (int)d < 5 ? names[(int)d] : DTYPES[(int)d].name);
    ok = false;
  }
  if (ok && n > 0 && t->layout->device == Device::CPU) {
    if (d == DType::Int64 && (t->layout->flags & L_CONTIGUOUS)) permute<int64_t>(g, (int64_t*)data_ptr(t), n, nullptr);
    else {
      std::vector<int64_t> order((size_t)n);
      permute<int64_t>(g, order.data(), n, nullptr);
      int64_t step = t->layout->strides()[0] * itemsize(d);
      for (int64_t i = 0; i < n; i++) store_cast(d, data_ptr(t) + i * step, order[size_t(i)]);
    }
  }
  return give(t, ok, outs);
}

// normal(mean, std) with tensors: standard normals, then ordinary arithmetic, which broadcasts and promotes as usual.
static int native_normal(Call& c, PyObject** outs, int) {
  Args a(c);
  Generator* g = generator_of(c.generator);
  if (!g) return -1;
  if (c.overload == 3) {
    double mean = a.real(), std = a.real();
    const int64_t* size;
    int n = a.sym_list(&size);
    DType dtype = g_default_dtype, asked;
    Args options = a;
    bool has_out = c.form == 2 && c.ndest;
    if (has_out) dtype = c.dests[0]->layout->dtype;
    if (options.dtype(&asked) && has_out && asked != dtype) {
      raise(PyExc_RuntimeError, "dtype %s does not match dtype of out parameter (%s)", scalar_type_name(asked), scalar_type_name(dtype));
      return -1;
    }
    Tensor* t = factory_target(n, size, read_options(a, dtype, Device::CPU));
    return give(t, t && normal_into(t, g, mean, std), outs);
  }
  Tensor* mean = c.overload != 2 ? a.tensor() : nullptr;
  double mean_number = c.overload == 2 ? a.real() : 0;
  Tensor* std = c.overload != 1 ? a.tensor() : nullptr;
  double std_number = c.overload == 1 ? a.real(1) : 1;
  int64_t sizes[MAX_DIMS];
  int n = 0;
  // In torch a number as std becomes a tensor in the shape of out=, which broadcasts with mean.
  Tensor* second = std || c.form != 2 || !c.ndest ? std : c.dests[0];
  for (Tensor* t : {mean, second}) if (t && t->layout->ndim > n) n = t->layout->ndim;
  for (int i = 0; i < n; i++) {
    sizes[i] = 1;
    for (Tensor* t : {mean, second}) {
      int64_t s = t && i >= n - t->layout->ndim ? t->layout->shape()[i - (n - t->layout->ndim)] : 1;
      if (s != 1 && sizes[i] != 1 && s != sizes[i]) { raise(PyExc_RuntimeError, "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d", (long long)sizes[i], (long long)s, i); return -1; }
      if (s != 1) sizes[i] = s;
    }
  }
  if (std && is_complex_kind(std->layout->dtype)) { raise(PyExc_RuntimeError, "normal expects standard deviation to be non-complex"); return -1; }
  if (std && std->layout->device == Device::CPU && materialize(std->storage)) {
    Target reader = target_of(std);
    reader.dense = false;
    bool good = true;
    in_memory_order(reader, nullptr, [&](char* at, int64_t) { good &= load_real(std->layout->dtype, at) >= 0; });
    if (!good) { raise(PyExc_RuntimeError, "normal expects all elements of std >= 0.0"); return -1; }
  }
  Tensor* like = mean ? mean : std;
  Tensor* z = tensor_empty(drawn_dtype(c, like), like->layout->device, n, sizes);
  if (!z || !normal_into(z, g, 0, std_number)) { Py_XDECREF((PyObject*)z); return -1; }
  bool mode = tls.grad_mode;      // torch differentiates neither mean nor std
  tls.grad_mode = false;
  PyObject* result = Py_NewRef((PyObject*)z);
  if (std) { Py_DECREF(result); result = call_method((PyObject*)z, "mul_", (PyObject*)std); }
  if (result) {
    PyObject* addend = mean ? Py_NewRef((PyObject*)mean) : PyFloat_FromDouble(mean_number);
    Py_DECREF(result);
    result = addend ? call_method((PyObject*)z, "add_", addend) : nullptr;
    Py_XDECREF(addend);
  }
  tls.grad_mode = mode;
  Py_XDECREF(result);
  if (result) z = connected("_drawn_from", z, mean ? mean : std, mean ? std : nullptr);
  return give(z, result != nullptr, outs);
}

// ------------------------------------------------------------------------------------------ kernels for compiled draws
// p[0]: the output, dense, filled in memory order; p[1 + i]: parameter i, one number (may be absent, see below).
// n[0]: elements; n[1]: dtype code of the output; n[2 + i]: dtype code of parameter i behind p[1 + i], or -1: the run-time scalar s[i], a double.
// Serial: the step must be one unit. Uses g_current_generator, or the default generator when that is null.
static double parameter(char** p, const int64_t* n, const Scalar* s, int i) { return n[2 + i] < 0 ? s[i].re : load_real((DType)n[2 + i], p[1 + i]); }
static Target draw_target(char** p, const int64_t* n) {
  Target x;
  x.dtype = (DType)n[1];
  x.ndim = 1;
  x.dense = x.contiguous = true;
  x.numel = n[0];
  x.data = p[0];
  x.shape[0] = n[0];
  x.strides[0] = 1;
  return x;
}
static Generator* drawing() { return g_current_generator ? g_current_generator : g_default_generator; }

static int64_t draw_bernoulli(char** p, const int64_t* n, const Scalar* s, char*, int64_t lo, int64_t hi) {
  if (hi <= lo || n[0] <= 0) return 0;
  double chance = parameter(p, n, s, 0);
  Generator* g = drawing();
  uint64_t below = bernoulli_bound(chance < 0 ? 0 : chance > 1 ? 1 : chance);
  if (n[1] == (int64_t)DType::Bool || n[1] == (int64_t)DType::UInt8) {
    uint32_t words[2 * CHUNK];
    for (int64_t i = 0; i < n[0]; i += CHUNK) {
      int take = int(n[0] - i < CHUNK ? n[0] - i : CHUNK);
      g->engine.words(words, 2 * take);
      bernoulli_of_words(words, (uint8_t*)p[0] + i, take, below);
    }
  } else fill_bernoulli(g, draw_target(p, n), chance);
  return 0;
}
static int64_t draw_uniform(char** p, const int64_t* n, const Scalar* s, char*, int64_t lo, int64_t hi) {
  if (hi > lo && n[0] > 0) fill_uniform(drawing(), draw_target(p, n), parameter(p, n, s, 0), parameter(p, n, s, 1));
  return 0;
}
static int64_t draw_normal(char** p, const int64_t* n, const Scalar* s, char*, int64_t lo, int64_t hi) {
  if (hi > lo && n[0] > 0) fill_normal(drawing(), draw_target(p, n), parameter(p, n, s, 0), parameter(p, n, s, 1));
  return 0;
}
static int64_t draw_exponential(char** p, const int64_t* n, const Scalar* s, char*, int64_t lo, int64_t hi) {
  if (hi <= lo || n[0] <= 0) return 0;
  double scale = -1.0 / parameter(p, n, s, 0);
  Generator* g = drawing();
  fill_floats(draw_target(p, n), [&] { return scale * std::log1p(-g->engine.unit64()); });
  return 0;
}

bool init_rng(PyObject* m) {
  struct { const char* name; NativeOp op; } ops[] = {
      {"uniform_", native_uniform_}, {"normal_", native_normal_}, {"random_", native_random_}, {"bernoulli_", native_bernoulli_}, {"bernoulli", native_bernoulli},
      {"exponential_", native_exponential_}, {"cauchy_", native_cauchy_}, {"log_normal_", native_log_normal_}, {"geometric_", native_geometric_},
      {"rand", native_rand}, {"randn", native_randn}, {"randint", native_randint}, {"rand_like", native_rand_like}, {"randn_like", native_randn_like},
      {"randint_like", native_randint_like}, {"randperm", native_randperm}, {"normal", native_normal}};
  for (auto& o : ops) native_register(o.name, o.op);
  native_kernel_register("draw_bernoulli", draw_bernoulli);
  native_kernel_register("draw_uniform", draw_uniform);
  native_kernel_register("draw_normal", draw_normal);
  native_kernel_register("draw_exponential", draw_exponential);
  return init_generator(m);
}

}  // namespace rl
