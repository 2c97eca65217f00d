// The runtime's shared vocabulary: what a tensor, a layout, a storage, an op, a plan and a tape node are, and which file
// answers for what. Read this first; every other file in csrc/ implements one part of it.
//
// Rules that hold everywhere
//  - everything here is touched under the GIL, except kernels running on the pool and storages' reference counts being
//    *held* (never changed) meanwhile;
//  - a function that returns a pointer returns nullptr with a Python exception set; one that returns bool returns false;
//  - "new" in a comment means the caller owns the reference, "borrowed" that it does not;
//  - reference counts of C++ objects (Layout, Storage, Version, Plan, Node, ViewInfo) are plain int64: the GIL guards them.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rl {

#define RL_LIKELY(x) __builtin_expect(!!(x), 1)
#define RL_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RL_APART __attribute__((noinline))      // the rare continuation of a hot function: inlined, its registers and room would be saved by every call

// ------------------------------------------------------------------------------------------------ dtypes (dtype.cpp)
enum class DType : uint8_t {
  Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64, Complex64, Complex128,
  UInt16, UInt32, UInt64, Float8E4M3, Float8E5M2, Complex32, Count
};
struct DTypeInfo { const char* name; const char* alias; uint8_t itemsize; char kind; };  // kind: b u i f c
extern const DTypeInfo DTYPES[];
inline int itemsize(DType d) { return DTYPES[(int)d].itemsize; }
enum class Device : uint8_t { CPU, Meta };
enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

extern PyTypeObject *DTypeType, *DeviceType, *SizeType, *LayoutNameType, *MemoryFormatType;
const char* dtype_scalar_name(DType);               // "Float", "Long": what torch's messages call it
const char* dtype_cpp_name(DType);                  // "float", "long int": what some others call it
DType to_real(DType);                               // complex64 -> float32; others unchanged
bool to_complex(DType, DType*);                     // float32 -> complex64; false (no exception) when there is none
PyObject* dtype_object(DType);                      // borrowed: the one `rushlight.float32` …
bool dtype_from(PyObject*, DType*);                 // a dtype object (or Python type bool/int/float/complex) -> code
PyObject* device_object(Device);                    // new
bool device_from(PyObject*, Device*);               // device object, "cpu", "cpu:0", "meta"; errors as torch's
PyObject* memory_format_object(MemoryFormat);       // borrowed
bool memory_format_from(PyObject*, MemoryFormat*);
PyObject* strided_object();                         // borrowed
PyObject* size_object(const int64_t*, int n);       // new torch.Size
bool layout_name_from(PyObject*, int*);             // torch.strided -> 0; TypeError otherwise
extern DType g_default_dtype;                       // set_default_dtype; changing it bumps g_config_epoch
extern uint64_t g_config_epoch;                     // part of every key

// -------------------------------------------------------------------------------------------- storage (storage.cpp)
struct Storage {
  int64_t rc;
  char* data;                 // may be null: meta device, zero bytes, or pending
  int64_t nbytes;
  uint32_t version;           // the default version counter of tensors over this storage
  uint8_t device, flags;      // StorageFlag
  int16_t size_class;         // allocator's
  void (*release)(Storage*);  // frees data that is not the allocator's own (numpy, DLPack, mmap); may be null
  void* owner;                // for release: a PyObject*, a DLManagedTensor*, a mapping
  PyObject* object;           // borrowed: its UntypedStorage object, if one exists
};
enum StorageFlag : uint8_t { ST_EXTERNAL = 1, ST_SHARED = 2, ST_PENDING = 4, ST_NORESIZE = 8, ST_READONLY = 16, ST_READ = 32 /* a recorded call is going to read it */ };
Storage* storage_new(int64_t nbytes, Device = Device::CPU);                 // new; out of memory: exception naming the size
extern bool g_guard_pages;                                                  // RUSHLIGHT_GUARD_PAGES: memory ends at a protected page
char* guarded_new(size_t bytes, size_t* mapping);                           // null: no memory. Any thread
void guarded_free(char*, size_t bytes, size_t mapping);                     // ends the process if something was written behind the bytes
Storage* storage_external(void* data, int64_t nbytes, void (*release)(Storage*), void* owner);   // new
bool storage_resize(Storage*, int64_t nbytes);                              // keeps the content
bool storage_move(Storage*, void* data, int64_t nbytes, void (*release)(Storage*), void* owner);   // other memory under the same storage; the caller has copied the content
void storage_free(Storage*);
inline void incref(Storage* s) { ++s->rc; }
inline void decref(Storage* s) { if (--s->rc == 0) storage_free(s); }
void* block_new(size_t bytes, int* size_class);     // the caching allocator for small C++ objects and storages
void block_free(void*, int size_class);
bool pending_flush();                               // record.cpp: run what compile() has recorded so far
int64_t recorded_references(const Storage*);        // how many of a storage's references the recording holds
bool pending_lost();                                // raises: what was promised will never be computed. False
inline bool materialize(Storage* s) { return RL_LIKELY(!(s->flags & (ST_PENDING | ST_READ))) || (pending_flush() && (!(s->flags & ST_PENDING) || pending_lost())); }

extern PyTypeObject* UntypedStorageType;
PyObject* storage_object(Storage*);                 // new: the UntypedStorage of a storage, one per storage while it lives
Storage* storage_of(PyObject*);                     // borrowed, from an UntypedStorage (or an object with an `_untyped_storage`); TypeError otherwise

struct Version { int64_t rc; uint32_t value; };     // a counter of its own: after `.data`, or when storage is swapped under a tensor

// ---------------------------------------------------------------------------------------------- layouts (layout.cpp)
// Interned: two tensors have the same layout if and only if the pointers are equal. `id` is never reused.
struct Layout {
  int64_t rc; uint64_t id, hash; Layout* next;
  int64_t numel, nbytes;           // nbytes: of a dense copy
  PyObject *size, *stride;         // cached torch.Size and stride tuple, or null
  uint32_t cls;                    // id of the generic class (layout_class_id), what recipes are keyed by
  DType dtype; Device device; uint8_t ndim, flags;
  int64_t d[];                     // shape[ndim], then strides[ndim] in elements
  const int64_t* shape() const { return d; }
  const int64_t* strides() const { return d + ndim; }
};
enum LayoutFlag : uint8_t { L_CONTIGUOUS = 1, L_DENSE = 2 /*non-overlapping and dense*/, L_CHANNELS_LAST = 4, L_CHANNELS_LAST_3D = 8, L_CONJ = 16, L_NEG = 32 };
const int MAX_DIMS = 64;
// new reference; strides == nullptr means contiguous. bits: L_CONJ | L_NEG only, the rest is computed. Overflowing sizes are an error.
Layout* layout_intern(DType, Device, int ndim, const int64_t* shape, const int64_t* strides, int bits = 0);
PyObject* layout_size(Layout*);     // borrowed: the cached torch.Size
PyObject* layout_stride(Layout*);   // borrowed: the cached tuple of strides
bool layout_contiguous(const Layout*, MemoryFormat);
void memory_format_strides(MemoryFormat, int ndim, const int64_t* shape, int64_t* strides);   // Contiguous, ChannelsLast (ndim 4), ChannelsLast3d (ndim 5)
void layout_release(Layout*);       // rc reached 0: stays in the table until evicted (bounded, clock bit)
inline void incref(Layout* l) { ++l->rc; }
inline void decref(Layout* l) { if (--l->rc == 0) layout_release(l); }
inline bool same_shape(const Layout* a, const Layout* b) { return a->ndim == b->ndim && !memcmp(a->shape(), b->shape(), sizeof(int64_t) * a->ndim); }
// The generic class: dtype, device, conj/neg bits, ndim, and per dimension the size class (0, 1, more), the stride class (0, 1, other),
// the rank of the stride among the others and whether it collapses with the next dimension (stride[i] == shape[i+1]*stride[i+1]).
// Strides of size-1 dimensions are ignored. Two layouts of one class can share a recipe.
int64_t layout_extent(const Layout*);    // elements from the first to one past the last touched (0 if empty)
bool layout_self_overlaps(const Layout*);   // some element is reachable by two indices (expanded, as_strided windows)

// ---------------------------------------------------------------------------------------------- tensors (tensor.cpp)
struct Node; struct ViewInfo; struct Plan; struct Op;
struct Tensor {
  PyObject_HEAD
  Layout* layout;
  Storage* storage;      // never null
  int64_t offset;        // bytes; never a cached data pointer, resize_ moves storage under its views
  Version* version;      // null: the storage's own counter
  Node* node;            // grad_fn of a non-leaf; AccumulateGrad of a leaf that has one; else null
  ViewInfo* view;        // differentiable views: base, chain, how made (tape.h)
  PyObject* grad;        // Tensor or null
  PyObject* dict;
  PyObject* weakrefs;
  uint16_t out_nr;       // which output of `node`
  uint8_t requires_grad; // for non-leaves: has a node
  uint8_t bits;          // TensorBit
};
enum TensorBit : uint8_t { T_RETAINS_GRAD = 1, T_INFERENCE = 2, T_FRESH = 4, T_TRACKED = 8 /* by the cyclic GC: only tensor_track sets it */,
  T_SPARSE = 16 /* a sparse tensor: Python has its indices and values; this object is its place in the graph, on no device */ };
inline bool is_sparse(const Tensor* t) { return RL_UNLIKELY(t->bits & T_SPARSE); }
extern PyTypeObject* TensorType;           // rushlight.Tensor, made in C++; Python adds methods to it
extern PyTypeObject* ParameterType;        // nn.Parameter: a subclass that takes the fast path too; null until registered
inline bool is_exact(PyObject* o) { PyTypeObject* t = Py_TYPE(o); return RL_LIKELY(t == TensorType || t == ParameterType); }
inline bool is_tensor(PyObject* o) { return is_exact(o) || PyType_IsSubtype(Py_TYPE(o), TensorType); }
Tensor* tensor_wrap(Layout*, Storage*, int64_t offset);      // new Tensor; takes over both references
Tensor* tensor_empty(DType, Device, int ndim, const int64_t* shape, const int64_t* strides = nullptr);   // new, uninitialised
Tensor* tensor_alias(Tensor*);             // new: same layout, storage, offset, version counter; no autograd (detach)
inline char* data_ptr(const Tensor* t) { return t->storage->data + t->offset; }
inline uint32_t version_of(const Tensor* t) { return t->version ? t->version->value : t->storage->version; }
inline void bump_version(Tensor* t) { ++(t->version ? t->version->value : t->storage->version); }
inline bool is_leaf(const Tensor* t);      // tape.h
void tensor_track(Tensor*);                // enter the cyclic GC: called when a tensor first can own a cycle (hooks, dict, view, graph holder)
PyObject* tensor_item(Tensor*);            // new Python scalar; numel must be 1 (interop.cpp)

// ------------------------------------------------------------------------------------------------------ views (views.cpp)
// Native: a new layout over the same storage, no plan. Each returns a new Tensor, recorded on the tape when it must be.
enum class ViewKind : uint8_t { Alias, Reshape, Permute, Expand, Slice, Select, Squeeze, Unsqueeze, Diagonal, AsStrided, Unfold, Conj, Neg, ViewAsReal, ViewAsComplex, DType, Detach };
// A short list of integers: up to six live inside, so that recording a view allocates nothing for them. Behaves like a std::vector.
class Ints {
  uint32_t n = 0, capacity = 6;
  union { int64_t inside[6]; int64_t* heap; };
  bool is_inside() const { return capacity == 6; }
  void reserve(size_t want) {
    if (want <= capacity) return;
    uint32_t grown = (uint32_t)(want < 12 ? 12 : 2 * want);
    int64_t* p = new int64_t[grown];
    memcpy(p, data(), n * sizeof(int64_t));
    if (!is_inside()) delete[] heap;
    heap = p; capacity = grown;
  }
public:
  Ints() {}
  Ints(std::initializer_list<int64_t> v) { insert(end(), v.begin(), v.end()); }
  Ints(const int64_t* first, const int64_t* last) { insert(end(), first, last); }
  Ints(const Ints& o) { insert(end(), o.begin(), o.end()); }
  Ints(Ints&& o) noexcept : n(o.n), capacity(o.capacity) { memcpy((void*)inside, (const void*)o.inside, sizeof inside); o.n = 0; o.capacity = 6; }
  Ints& operator=(Ints o) noexcept { if (!is_inside()) delete[] heap; n = o.n; capacity = o.capacity; memcpy((void*)inside, (const void*)o.inside, sizeof inside); o.n = 0; o.capacity = 6; return *this; }
  ~Ints() { if (!is_inside()) delete[] heap; }
  const int64_t* data() const { return is_inside() ? inside : heap; }
  int64_t* data() { return is_inside() ? inside : heap; }
  size_t size() const { return n; }
  bool empty() const { return n == 0; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + n; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + n; }
  int64_t& operator[](size_t i) { return data()[i]; }
  const int64_t& operator[](size_t i) const { return data()[i]; }
  int64_t& back() { return data()[n - 1]; }
  const int64_t& back() const { return data()[n - 1]; }
  void push_back(int64_t v) { reserve(n + 1); data()[n++] = v; }
  void resize(size_t want) { reserve(want); for (size_t i = n; i < want; i++) data()[i] = 0; n = (uint32_t)want; }
  void insert(const int64_t*, const int64_t* first, const int64_t* last) { size_t k = (size_t)(last - first); reserve(n + k); if (k) memcpy(data() + n, first, k * sizeof(int64_t)); n += (uint32_t)k; }   // at the end
  operator std::vector<int64_t>() const { return {begin(), end()}; }
};
// ViewSpec.ints by kind, always normalised (dims >= 0, no -1 sizes): Reshape: new sizes. Permute: dims. Expand: sizes. Slice: dim, start, stop, step.
// Select: dim, index. Squeeze: removed dims, ascending. Unsqueeze: dim. Diagonal: offset, dim1, dim2. AsStrided: n, sizes, strides, offset (elements, absolute
// in the storage). Unfold: dim, window, step. DType: code. Alias, Conj, Neg, ViewAsReal, ViewAsComplex, Detach: none.
// name: the node's name when it is not the kind's own ("TransposeBackward0" for a Permute made by transpose …); static text or null.
struct ViewSpec { ViewKind kind; Ints ints; const char* name = nullptr; };    // enough to replay on another base, and to find the gradient
Tensor* make_view(Tensor* base, ViewSpec spec, Layout* layout /*taken*/, int64_t offset);   // the one place a view is born
Tensor* view_apply(Tensor* base, const ViewSpec&);                // replay one step
Tensor* view_reshape(Tensor*, int n, const int64_t* sizes, bool copy_allowed);   // view() / reshape(): -1 allowed
Tensor* view_permute(Tensor*, int n, const int64_t* dims, const char* name = nullptr);
Tensor* view_expand(Tensor*, int n, const int64_t* sizes);
Tensor* view_slice(Tensor*, int dim, int64_t start, int64_t stop, int64_t step);  // Python slice rules; step > 0
Tensor* view_select(Tensor*, int dim, int64_t index);
Tensor* view_unsqueeze(Tensor*, int dim);
Tensor* view_as_strided(Tensor*, int n, const int64_t* size, const int64_t* stride, int64_t offset_elements);

// ------------------------------------------------------------------------------------------------- calls and ops (op.cpp)
struct Scalar { union { int64_t i; double re; }; double im; };     // 16 bytes, exactly what kernels read; the kind is in the key
enum class ScalarKind : uint8_t { None, Bool, Int, Float, Complex };

// The arguments of one call after parsing, in schema order, lists flattened (their lengths are statics). The arrays start inline and spill to
// the heap when a call is long (`call_reserve`), so always go through the pointers t, static_words, syms, scalars. Not copyable.
struct Call {
  static const int INLINE = 24, WORDS = 64, SCALARS = 16;
  Op* op = nullptr;
  Tensor** t = tensors; int nt = 0;                              // borrowed; null where an optional is absent
  uint64_t* static_words = static_inline; int nstatic = 0;       // by-value arguments, list lengths, scalar kinds, presence
  int64_t* syms = sym_inline; int nsym = 0;                      // run-time integers: sizes, bounds, counts
  Scalar* scalars = scalar_inline; int nscalar = 0;              // run-time numbers
  uint8_t form = 0;                                              // 0 functional, 1 in-place, 2 out=
  uint8_t overload = 0;                                          // which signature of the op matched (part of the key)
  uint8_t requires_grad = 0;                                     // factories: the result shall be a leaf that requires grad
  Tensor* dests[8]; int ndest = 0;                               // in-place: the mutated arguments; out=: the given tensors
  PyObject* generator = nullptr;                                 // borrowed or null
  int nkeep = 0; PyObject* keep[8];                              // owned: what keeps flattened lists alive while Python may run
  void* heap[4] = {nullptr, nullptr, nullptr, nullptr};          // spilled arrays, owned
  Tensor* tensors[INLINE]; uint64_t static_inline[WORDS]; int64_t sym_inline[WORDS]; Scalar scalar_inline[SCALARS];
  Call() {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { if (RL_UNLIKELY(((uintptr_t)nkeep | (uintptr_t)heap[0] | (uintptr_t)heap[1] | (uintptr_t)heap[2] | (uintptr_t)heap[3]) != 0)) release(); }
  RL_APART void release();
};
// Room for that many entries in all; false with MemoryError. A caller that stays within INLINE, WORDS and SCALARS need not ask.
bool call_reserve(Call&, int tensors, int statics = 0, int syms = 0, int scalars = 0);

// Python's operators on tensors: tensor.cpp owns the slots, op.cpp these functions; ops are bound by `_C.bind_operator(name, op)`.
enum OperatorSlot : int { S_ADD, S_SUB, S_MUL, S_TRUEDIV, S_FLOORDIV, S_MOD, S_POW, S_MATMUL, S_LSHIFT, S_RSHIFT, S_AND, S_OR, S_XOR,
  S_NEG, S_POS, S_ABS, S_INVERT, S_LT /* then Python's order */, S_LE, S_EQ, S_NE, S_GT, S_GE, S_COUNT };
// their names for bind_operator, in that order: add sub mul truediv floordiv mod pow matmul lshift rshift and or xor neg pos abs invert lt le eq ne gt ge
PyObject* op_binary(int slot, PyObject* a, PyObject* b);       // either may be the tensor; NotImplemented (new) for foreign types
PyObject* op_unary(int slot, PyObject* a);
PyObject* op_inplace(int slot, PyObject* a, PyObject* b);
PyObject* op_compare(int py_op, PyObject* a, PyObject* b);     // py_op: Py_LT … Py_GE

// How arguments lie in a Call, parameter by parameter in schema order (args.cpp writes this, native ops read it with Args):
//   Tensor            t[]: one entry            Tensor?   t[]: one entry, null when absent (the key sees a null layout)
//   Tensor[] Tensor?[]  static: length; t[]: the entries
//   Tensor|Scalar     static: kind (0: a tensor was given), t[]: one entry (null for a number); scalars[]: the number
//   Scalar float (also with ?)   static: ScalarKind (None when absent); scalars[]: the value, only when present
//   Scalar! float!    static: ScalarKind, then two statics (the 16 bytes) when present
//   bool int          static: the value         bool? int?   static: 1, value; or 0 when absent
//   int[] int[]?      static: length, values; length ABSENT when None
//   SymInt            syms[]: the value         SymInt?   static: 1 and syms[], or static 0
//   SymInt[] SymInt[]?   static: length (or ABSENT); syms[]: the values
//   ScalarType? Device? Layout? MemoryFormat?   static: code, or ABSENT.   MemoryFormat codes: 0 contiguous 1 preserve 2 channels_last 3 channels_last_3d
//   str str?          static: the address of the interned Python string, or 0
//   Generator?        call.generator            Any       static: the address of the object (borrowed), or 0
// `requires_grad` and `pin_memory` (bool) and `out` are taken by the face: they are not in the Call's words. `dtype` etc. are.
const uint64_t ABSENT = ~uint64_t(0);

// Run an op from C++ (the tape, indexing, __add__ …). Results go to `outs` (new references, up to `max`); the number of them or -1.
// Goes through the same plans, tape recording and recording as a Python call; no __torch_function__.
int run_call(Call&, PyObject** outs, int max);
Op* op_find(const char* name);              // borrowed; registered ops by name, null with an error if absent
// Shorthand: tensors, run-time ints, one result. Statics must be given when the schema has by-value arguments.
Tensor* call_op(Op*, std::initializer_list<Tensor*>, std::initializer_list<int64_t> syms = {}, std::initializer_list<uint64_t> statics = {});
// What native code made of `a` and `b`, put into the graph by the op `by` (made, a, b): draws have gradients of zero, as in torch, and what has no derivative
// refuses its backward. Takes `made` over; without gradients it is that itself.
Tensor* connected(const char* by, Tensor* made, Tensor* a, Tensor* b = nullptr);

// Reads a Call in schema order: `Args a(call); Tensor* x = a.tensor(); int64_t dim = a.integer(); …`
struct Args {
  const Call& c; int it = 0, is = 0, iy = 0, ic = 0;
  explicit Args(const Call& call) : c(call) {}
  uint64_t word() { return c.static_words[is++]; }
  Tensor* tensor() { return c.t[it++]; }
  int tensor_list(Tensor*** first) { int n = (int)word(); *first = c.t + it; it += n; return n; }
  int64_t integer() { return (int64_t)word(); }
  bool boolean() { return word() != 0; }
  bool maybe_integer(int64_t* v) { if (!word()) return false; *v = (int64_t)word(); return true; }
  int int_list(const int64_t** first) { int64_t n = (int64_t)word(); *first = (const int64_t*)c.static_words + is; if (n < 0) return -1; is += (int)n; return (int)n; }   // -1: absent
  int64_t sym() { return c.syms[iy++]; }
  bool maybe_sym(int64_t* v) { if (!word()) return false; *v = sym(); return true; }
  int sym_list(const int64_t** first) { int64_t n = (int64_t)word(); *first = c.syms + iy; if (n < 0) return -1; iy += (int)n; return (int)n; }              // -1: absent
  ScalarKind scalar(Scalar* v) { ScalarKind k = (ScalarKind)word(); if (k != ScalarKind::None) *v = c.scalars[ic++]; return k; }
  double real(double absent = 0) { Scalar v; ScalarKind k = scalar(&v); return k == ScalarKind::None ? absent : k == ScalarKind::Float || k == ScalarKind::Complex ? v.re : (double)v.i; }
  bool dtype(DType* d) { uint64_t w = word(); if (w == ABSENT) return false; *d = (DType)w; return true; }
  bool device(Device* d) { uint64_t w = word(); if (w == ABSENT) return false; *d = (Device)w; return true; }
  int code() { uint64_t w = word(); return w == ABSENT ? -1 : (int)w; }      // layout, memory format; -1: absent
  PyObject* object() { return (PyObject*)(uintptr_t)word(); }                // str, Any; borrowed, may be null
};

typedef int (*NativeOp)(Call&, PyObject** outs, int max);        // ops implemented in C++: views, random fills, nonzero …
void native_register(const char* name, NativeOp);                // before the Python definition with `native=` is read

// --------------------------------------------------------------------------------------- the thread-local guard word
// Zero on the hot path. Any bit set: the call takes the slow path, which looks at the bits one by one.
enum Guard : uint32_t { G_MODE = 1 /*__torch_function__ modes*/, G_RECORD = 2 /*compile()*/, G_ANOMALY = 4, G_INFERENCE = 8, G_PROFILE = 16, G_AUTOCAST = 32, G_FUNC = 64, G_NO_DISPATCH = 128 };
struct ThreadState {
  uint32_t guard = 0; bool grad_mode = true; uint64_t sequence = 0;
  PyObject* saved_hooks = nullptr;      // what is done to values that nodes save (saved_hooks.cpp); owned; null nearly always
  PyObject* before_write = nullptr;     // called with every tensor that is about to be written in place; owned; null nearly always
};
extern constinit thread_local ThreadState tls;     // constinit: no initialisation check at each use

// ------------------------------------------------------------------------------------------------ tape, as others see it (tape.cpp)
void node_incref(Node*); void node_decref(Node*);
// After a plan ran: make the node, connect it, attach it to the outputs. `hidden`: saved intermediates (references taken over).
bool tape_record(Plan*, const Call&, PyObject** outs, int nout, Storage** hidden);
bool tape_record_view(Tensor* base, Tensor* out, ViewSpec&& spec);      // from make_view
bool tape_before_inplace(const Call&);      // leaf, multi-output view, no_grad view, inference errors: before anything is written
bool tape_after_inplace(Tensor* self, Node*);   // bump, rebase history; the base's too when self is a view
void tape_detach_(Tensor*);

// ---------------------------------------------------------------------------------------------------- kernels and threads
// One kernel runs work units [lo, hi). p: data pointers, n: integers, s: 16-byte scalars, scratch: per-thread memory.
// Returns 0, or code | value << 8 (the code indexes the recipe's error table, the value fills {value} in the message).
typedef int64_t (*Kernel)(char** p, const int64_t* n, const Scalar* s, char* scratch, int64_t lo, int64_t hi);
int64_t pool_run(Kernel, char** p, const int64_t* n, const Scalar* s, int64_t scratch_bytes, int64_t units, int64_t grain, bool parallel);   // threads.cpp; first non-zero status (lowest unit)
int pool_threads(); void pool_set_threads(int); void pool_after_fork();

// ------------------------------------------------------------------------------------- indexing, interop, random (index.cpp, interop.cpp, rng.cpp)
PyObject* index_get(PyObject* self, PyObject* key);                 // mp_subscript; new
int index_set(PyObject* self, PyObject* key, PyObject* value);      // mp_ass_subscript
struct Generator;                                                   // rng.h
extern PyTypeObject* GeneratorType;
extern Generator* g_current_generator;      // what `draw` steps of a running plan use: plan.cpp sets it from Call::generator (generator_of) around a run that draws
Generator* generator_of(PyObject* object_or_null);                  // borrowed: the default generator for null or None; TypeError otherwise
Kernel native_kernel_find(const char* name);                        // kernels with a ('native', name) in a recipe; null when unknown, or with an exception when its library is missing
bool lapack_open();                                                 // lapack.cpp: the library of the kernels named lapack_*; false with an exception
extern PyObject* LinAlgError;                                       // lapack.cpp: _C._LinAlgError
void native_kernel_register(const char* name, Kernel);              // plan.cpp keeps the table

// ------------------------------------------------------------------------------------------------ errors, helpers (module.cpp)
PyObject* raise(PyObject* type, const char* format, ...);      // returns nullptr
// A warning at the line of the program that called into the library. said: null, or what remembers that it was given (once a process, unless set_warn_always). False: it became an error.
bool warn(bool* said, const char* format, ...);
bool* said_before(const std::string& text);                    // what remembers it of a warning that is known by its text; lives for ever
void stat_register(const char* name, const int64_t* value);    // a counter that _C.stats() shows; each file registers its own in init_*
std::string ints_text(const int64_t*, int n);                  // "[2, 3]"
std::string shape_text(const Layout*);                         // "[2, 3]"
PyObject* int_tuple(const int64_t*, int n);                    // new
bool int_list(PyObject*, std::vector<int64_t>*);               // any sequence of integers (also 0-dim int tensors, numpy ints)

// Each file adds its names to the module, in this order.
bool init_dtype(PyObject* m); bool init_layout(PyObject* m); bool init_storage(PyObject* m); bool init_tensor(PyObject* m);
bool init_views(PyObject* m); bool init_op(PyObject* m); bool init_plan(PyObject* m); bool init_loader(PyObject* m);
bool init_threads(PyObject* m); bool init_tape(PyObject* m); bool init_function(PyObject* m); bool init_interop(PyObject* m);
bool init_construct(PyObject* m); bool init_index(PyObject* m); bool init_rng(PyObject* m); bool init_sort(PyObject* m); bool init_unique(PyObject* m); bool init_distributions(PyObject* m); bool init_ctc(PyObject* m); bool init_record(PyObject* m); bool init_lapack(PyObject* m); bool init_fft(PyObject* m); bool init_sparse(PyObject* m);

}  // namespace rl
