// From Python's arguments to a Call: conversion of every schema type. Which signature is tried and what is said when none fits is signature.cpp's.
//
// Conversions answer Ok, Mismatch (another overload may fit; nothing raised) or Error (raised). The layout of words in a Call is fixed in runtime.h.
// Decisions:
//  - a number given for `Tensor|Scalar` leaves a null in the tensor list, so that flattened argument numbers do not depend on it;
//  - `requires_grad` and `pin_memory` parameters of type bool belong to the face: the first marks the result, the second is accepted and ignored (there is no
//    device whose transfers it could speed up);
//  - strings are interned for ever, and objects given for `Any` of a compiled op are kept for ever by value (they are part of plan keys); native ops get
//    the caller's own object, borrowed.
#include "compat.h"
#include "op.h"
#include "element.h"

namespace rl {

// --------------------------------------------------------------------------------------------------- a Call's arrays
// A spilled array is a heap block whose first 16 bytes hold its capacity.
template <class T> static bool reserve_array(T** array, T* inline_array, int inline_size, int used, int wanted, void** heap) {
  int64_t capacity = *heap ? *(int64_t*)*heap : inline_size;
  if (wanted <= capacity) return true;
  capacity = (int64_t)wanted + wanted / 2 + 64;
  char* block = (char*)malloc(16 + (size_t)capacity * sizeof(T));
  if (!block) { PyErr_NoMemory(); return false; }
  *(int64_t*)block = capacity;
  T* fresh = (T*)(block + 16);
  if (used) memcpy(fresh, *array, (size_t)used * sizeof(T));
  free(*heap);
  *heap = block;
  *array = fresh;
  (void)inline_array;
  return true;
}
bool call_reserve(Call& c, int tensors, int statics, int syms, int scalars) {
  return reserve_array(&c.t, c.tensors, Call::INLINE, c.nt, tensors, &c.heap[0]) &&
         reserve_array(&c.static_words, c.static_inline, Call::WORDS, c.nstatic, statics, &c.heap[1]) &&
         reserve_array(&c.syms, c.sym_inline, Call::WORDS, c.nsym, syms, &c.heap[2]) &&
         reserve_array(&c.scalars, c.scalar_inline, Call::SCALARS, c.nscalar, scalars, &c.heap[3]);
}
void Call::release() {
  while (nkeep) Py_DECREF(keep[--nkeep]);
  for (void*& h : heap) { free(h); h = nullptr; }
}

void append_encoded(Call& c, const Encoded& e) {
  if (RL_LIKELY(e.one_word)) { c.static_words[c.nstatic++] = e.statics[0]; return; }
  for (uint64_t w : e.statics) c.static_words[c.nstatic++] = w;
  append_others(c, e);
}
void append_others(Call& c, const Encoded& e) {
  for (int64_t y : e.syms) c.syms[c.nsym++] = y;
  for (const Scalar& s : e.scalars) c.scalars[c.nscalar++] = s;
  for (int i = 0; i < e.tensors; i++) c.t[c.nt++] = nullptr;
}

// -------------------------------------------------------------------------------------------------------- type names
bool parse_param_type(const char* text, Param* p) {
  std::string s = text;
  p->optional = p->item_optional = p->by_value = p->written = false;
  p->fixed = 0;
  if (size_t a = s.find('('); a != std::string::npos) {                  // "(a!)" marks an argument that is written, "(a)" one that is aliased
    size_t b = s.find(')', a);
    if (b == std::string::npos) { raise(PyExc_ValueError, "bad parameter type '%s'", text); return false; }
    p->written = s.find('!', a) < b;
    s.erase(a, b - a + 1);
  }
  bool list = false;
  if (!s.empty() && s.back() == '?') { p->optional = true; s.pop_back(); }
  if (!s.empty() && s.back() == '!') { p->by_value = true; s.pop_back(); }
  if (!s.empty() && s.back() == '?') { p->optional = true; s.pop_back(); }
  if (size_t a = s.find('['); a != std::string::npos) {
    list = true;
    p->fixed = atoi(s.c_str() + a + 1);
    s.erase(a);
    if (!s.empty() && s.back() == '?') { p->item_optional = true; s.pop_back(); }
  }
  static const struct { const char* name; ParamKind one, many; bool has_list; } KINDS[] = {
      {"Tensor", ParamKind::Tensor, ParamKind::TensorList, true}, {"Tensor|Scalar", ParamKind::TensorOrScalar, ParamKind::Any, false},
      {"Scalar", ParamKind::Scalar, ParamKind::ScalarList, true}, {"float", ParamKind::Float, ParamKind::Any, false}, {"int", ParamKind::Int, ParamKind::IntList, true},
      {"bool", ParamKind::Bool, ParamKind::IntList, true}, {"str", ParamKind::Str, ParamKind::Any, false}, {"SymInt", ParamKind::SymInt, ParamKind::SymIntList, true},
      {"ScalarType", ParamKind::DType, ParamKind::Any, false}, {"Device", ParamKind::Device, ParamKind::Any, false}, {"Layout", ParamKind::LayoutName, ParamKind::Any, false},
      {"MemoryFormat", ParamKind::MemoryFormat, ParamKind::Any, false}, {"Generator", ParamKind::Generator, ParamKind::Any, false}, {"Any", ParamKind::Any, ParamKind::Any, false}};
  for (auto& k : KINDS) {
    if (s != k.name || (list && !k.has_list)) continue;
    p->kind = list ? k.many : k.one;
    return true;
  }
  raise(PyExc_ValueError, "bad parameter type '%s'", text);
  return false;
}

std::string param_type_text(const Param& p) {
  switch (p.kind) {
    case ParamKind::Tensor: case ParamKind::TensorOrScalar: return "Tensor";
    case ParamKind::TensorList: return "tuple of Tensors";
    case ParamKind::Scalar: return "Number";
    case ParamKind::ScalarList: return "tuple of Numbers";
    case ParamKind::Float: return "float";
    case ParamKind::Int: case ParamKind::SymInt: return "int";
    case ParamKind::Bool: return "bool";
    case ParamKind::Str: return "str";
    case ParamKind::IntList: case ParamKind::SymIntList: return "tuple of ints";
    case ParamKind::DType: return "torch.dtype";
    case ParamKind::Device: return "torch.device";
    case ParamKind::LayoutName: return "torch.layout";
    case ParamKind::MemoryFormat: return "torch.memory_format";
    case ParamKind::Generator: return "torch.Generator";
    case ParamKind::Any: return "object";
  }
  return "object";
}

// ------------------------------------------------------------------------------------------------------------ numbers
// Is it a numpy scalar? Without importing numpy: by the name of its type. Arrays are not numbers.
static bool numpy_scalar(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  return !strncmp(name, "numpy.", 6) && strcmp(name, "numpy.ndarray") && Py_TYPE(o)->tp_as_number;
}

static bool scalar_from_number(PyObject* o, Scalar* s, ScalarKind* kind) {
  s->im = 0;
  if (PyFloat_Check(o)) { s->re = PyFloat_AS_DOUBLE(o); *kind = ScalarKind::Float; return true; }
  if (PyBool_Check(o)) { s->i = o == Py_True; *kind = ScalarKind::Bool; return true; }
  if (PyLong_Check(o)) {
    s->i = PyLong_AsLongLong(o);
    *kind = ScalarKind::Int;
    return s->i != -1 || !PyErr_Occurred();
  }
  if (PyComplex_Check(o)) { Py_complex z = PyComplex_AsCComplex(o); s->re = z.real; s->im = z.imag; *kind = ScalarKind::Complex; return true; }
  return false;
}

// True and a value; or false, with an error set only when the number cannot be held.
bool scalar_from(PyObject* o, Scalar* s, ScalarKind* kind) {
  if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) return scalar_from_number(o, s, kind);
  if (is_tensor(o)) {                                        // a tensor without dimensions stands for its value, unless that would cut the graph
    Tensor* t = (Tensor*)o;
    if (t->layout->ndim || t->requires_grad || t->layout->device == Device::Meta) return false;
    PyObject* v = tensor_item(t);
    bool good = v && scalar_from_number(v, s, kind);
    Py_XDECREF(v);
    return good;
  }
  if (!numpy_scalar(o)) return false;
  if (!strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10)) {      // 1.0 or 0.0, as in torch: every numpy number that is no integer is a float
    int v = PyObject_IsTrue(o);
    if (v < 0) return false;
    s->re = v; s->im = 0; *kind = ScalarKind::Float;
    return true;
  }
  PyObject* v = nullptr;
  if (PyIndex_Check(o)) v = PyNumber_Index(o);
  else if (!strncmp(Py_TYPE(o)->tp_name, "numpy.complex", 13) || !strcmp(Py_TYPE(o)->tp_name, "numpy.clongdouble")) v = PyObject_CallMethod(o, "__complex__", nullptr);
  else if (Py_TYPE(o)->tp_as_number->nb_float) v = PyNumber_Float(o);
  if (!v) { if (PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear(); return false; }
  bool good = scalar_from_number(v, s, kind);
  Py_DECREF(v);
  return good;
}

// Of an int that only uint64 holds, with the OverflowError set: torch takes it for a uint64 tensor without dimensions. New; null with the error still set otherwise.
Tensor* unsigned_from(PyObject* o) {
  if (!PyErr_ExceptionMatches(PyExc_OverflowError) || !PyLong_Check(o)) return nullptr;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  bool fits = PyLong_AsUnsignedLongLong(o) != (unsigned long long)-1 || !PyErr_Occurred();
  if (!fits) { PyErr_Restore(type, value, trace); return nullptr; }
  Py_XDECREF(type); Py_XDECREF(value); Py_XDECREF(trace);
  return tensor_from_data(o, true, DType::UInt64, Device::CPU);
}

// Ints, numpy ints, integer tensors of one element; never bool or float. 1 yes, 0 no, -1 error set. narrow: as torch takes dims and counts, where tensors have no
// dimensions and other objects do not pass for their __index__; sizes and bounds may be those.
static int integer_from(PyObject* o, int64_t* out, bool narrow) {
  if (RL_LIKELY(small_int(o, out))) return 1;
  if (RL_LIKELY(PyLong_CheckExact(o)) || (PyLong_Check(o) && !PyBool_Check(o))) {
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (RL_UNLIKELY(overflow)) { raise(PyExc_ValueError, "Overflow when unpacking long long"); return -1; }
    return 1;
  }
  if (PyBool_Check(o) || !PyIndex_Check(o)) return 0;
  if (is_tensor(o)) {
    Layout* l = ((Tensor*)o)->layout;
    char kind = DTYPES[(int)l->dtype].kind;
    if ((narrow ? l->ndim != 0 : l->numel != 1) || (kind != 'i' && kind != 'u') || l->device == Device::Meta) return 0;
  } else if (narrow && !numpy_scalar(o)) return 0;
  PyObject* v = PyNumber_Index(o);
  if (!v) { if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1; PyErr_Clear(); return 0; }
  int r = integer_from(v, out, narrow);
  Py_DECREF(v);
  return r;
}

// ------------------------------------------------------------------------------------------------- __torch_function__
PyObject* g_disabled_torch_function;       // _C._disabled_torch_function_impl: a type that has it wants no override

bool has_torch_function(PyObject* o) {
  if (tls.guard & G_NO_DISPATCH) return false;   // nobody is asked: then such an object must not pass for an argument either
  PyTypeObject* type = Py_TYPE(o);
  if (type == TensorType || type == ParameterType || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  PyObject* f = nullptr;
  if (optional_attribute((PyObject*)type, "__torch_function__", &f) <= 0) { PyErr_Clear(); return false; }
  bool yes = f != Py_None && f != g_disabled_torch_function;
  Py_DECREF(f);
  return yes;
}

// ------------------------------------------------------------------------------------------------------- conversions
static PyObject* kept_for_ever(PyObject* o) {                // borrowed: the first equal object of the same type ever seen
  static PyObject* table = PyDict_New();
  if (!table) return nullptr;
  if (PyUnicode_CheckExact(o)) return PyDict_SetDefault(table, o, o);
  PyObject* key = PyTuple_Pack(2, (PyObject*)Py_TYPE(o), o);   // 1, 1.0 and True are equal but not the same argument
  if (!key) return nullptr;
  PyObject* kept = PyDict_SetDefault(table, key, o);
  Py_DECREF(key);
  return kept;
}

static inline void push(Call& c, uint64_t w) { c.static_words[c.nstatic++] = w; }

static void push_absent(Call& c, const Param& p) {
  switch (p.kind) {
    case ParamKind::Tensor: c.t[c.nt++] = nullptr; break;
    case ParamKind::TensorOrScalar: push(c, 0); c.t[c.nt++] = nullptr; break;
    case ParamKind::Generator: break;
    case ParamKind::IntList: case ParamKind::SymIntList: case ParamKind::DType: case ParamKind::Device: case ParamKind::LayoutName: case ParamKind::MemoryFormat:
      push(c, ABSENT);
      break;
    default: push(c, 0); break;            // Scalar: kind None; int, bool, SymInt: not present; str, Any: null; lists of tensors: none
  }
}

enum Conversion { CONVERTED = 1, MISMATCH = 0, FAILED = -1 };
// What the parameters after a list may still need: a signature of up to 12 has at most 3 words each (longer ones reserve when parsing starts).
const int SLACK = 36, TENSOR_SLACK = 12;

static Conversion convert_tensor_list(const Param& p, PyObject* v, Call& c, bool* overloaded, bool strict) {
  if (!PyTuple_Check(v) && !PyList_Check(v)) return MISMATCH;
  PyObject* items = PySequence_Tuple(v);   // a list may change while Python runs: hold the tensors themselves
  if (!items) return FAILED;
  int n = (int)PyTuple_GET_SIZE(items);
  if (c.nkeep == 8 || !call_reserve(c, c.nt + n + TENSOR_SLACK)) { Py_DECREF(items); if (!PyErr_Occurred()) raise(PyExc_RuntimeError, "too many list arguments"); return FAILED; }
  c.keep[c.nkeep++] = items;
  push(c, (uint64_t)n);
  for (int i = 0; i < n; i++) {
    PyObject* e = PyTuple_GET_ITEM(items, i);
    if (RL_LIKELY(is_exact(e))) { c.t[c.nt++] = (Tensor*)e; continue; }
    if (e == Py_None && p.item_optional) { c.t[c.nt++] = nullptr; continue; }
    bool tensor = is_tensor(e);
    if (has_torch_function(e)) { *overloaded = true; c.t[c.nt++] = tensor ? (Tensor*)e : nullptr; continue; }
    if (tensor) { c.t[c.nt++] = (Tensor*)e; continue; }
    if (!strict) return MISMATCH;
    raise(PyExc_TypeError, "expected Tensor as element %d in argument 0, but got %s", i, Py_TYPE(e)->tp_name);
    return FAILED;
  }
  return CONVERTED;
}

// items: `n` values that make one list of integers.
static Conversion convert_ints(const Face* face, const Param& p, PyObject* const* items, Py_ssize_t n, Call& c) {
  bool sym = p.kind == ParamKind::SymIntList;
  if (!(sym ? call_reserve(c, 0, 0, c.nsym + (int)n + SLACK) : call_reserve(c, 0, c.nstatic + (int)n + SLACK))) return FAILED;
  push(c, (uint64_t)n);
  for (Py_ssize_t i = 0; i < n; i++) {
    int64_t value = 0;
    int r = integer_from(items[i], &value, false);
    if (RL_UNLIKELY(r <= 0)) {
      if (r == 0 && PyBool_Check(items[i])) { value = items[i] == Py_True; goto store; }      // bool[] shares this kind, and True is an int
      if (i == 0 && r == 0) return MISMATCH;
      const char* name = face ? PyUnicode_AsUTF8(face->name) : "op";
      if (r < 0) PyErr_Clear();
      std::string why = r < 0 ? "Overflow when unpacking long long" : std::string("type must be tuple of ints,but got ") + Py_TYPE(items[i])->tp_name;
      raise(PyExc_TypeError, "%s(): argument '%U' failed to unpack the object at pos %zd with error \"%s\"", name, p.name, i + 1, why.c_str());
      return FAILED;
    }
  store:
    if (sym) c.syms[c.nsym++] = value; else push(c, (uint64_t)value);
  }
  return CONVERTED;
}

static Conversion convert_list(const Face* face, const Param& p, PyObject* v, Call& c) {
  if (PyTuple_Check(v) || PyList_Check(v)) {
    // __index__ of an item may run Python and change a list under our feet: walk a tuple.
    PyObject* items = PyTuple_Check(v) ? Py_NewRef(v) : PyList_AsTuple(v);
    if (!items) return FAILED;
    Conversion r = convert_ints(face, p, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items), c);
    Py_DECREF(items);
    return r;
  }
  if (!p.fixed) return MISMATCH;
  int64_t value;
  int r = integer_from(v, &value, !is_tensor(v));
  if (r <= 0) return r ? FAILED : MISMATCH;
  push(c, (uint64_t)p.fixed);
  for (int i = 0; i < p.fixed; i++) { if (p.kind == ParamKind::SymIntList) c.syms[c.nsym++] = value; else push(c, (uint64_t)value); }
  return CONVERTED;
}

// An int beyond int64 (the OverflowError is set): the uint64 tensor that torch makes of it, or, where a number is wanted and the tensors are floating, a float (MISMATCH: go on with it).
static Conversion convert_unsigned(const Param& p, PyObject* v, Call& c, Scalar* s, ScalarKind* kind) {
  Tensor* wide = unsigned_from(v);
  if (!wide) return FAILED;
  if (c.nkeep == 8) { Py_DECREF(wide); raise(PyExc_RuntimeError, "too many list arguments"); return FAILED; }
  c.keep[c.nkeep++] = (PyObject*)wide;
  if (p.kind == ParamKind::TensorOrScalar && !c.op->converts) { push(c, 0); c.t[c.nt - 1] = wide; return CONVERTED; }
  bool floating = false;
  for (int i = 0; i < c.nt; i++) floating |= c.t[i] && strchr("fc", DTYPES[(int)c.t[i]->layout->dtype].kind);
  if (!floating) { raise(PyExc_RuntimeError, "value cannot be converted to type int64_t without overflow"); return FAILED; }
  s->re = PyLong_AsDouble(v); s->im = 0; *kind = ScalarKind::Float;
  return MISMATCH;
}

static Conversion convert_scalar(const Param& p, PyObject* v, Call& c) {
  Scalar s; ScalarKind kind;
  if (RL_LIKELY(PyFloat_CheckExact(v))) { s.re = PyFloat_AS_DOUBLE(v); s.im = 0; kind = ScalarKind::Float; }
  else if (p.kind == ParamKind::Float && PyLong_CheckExact(v)) {           // of any size
    s.re = PyLong_AsDouble(v); s.im = 0; kind = ScalarKind::Float;
    if (s.re == -1 && PyErr_Occurred()) return FAILED;
  } else if (!scalar_from(v, &s, &kind)) {
    if (!PyErr_Occurred()) return MISMATCH;
    Conversion r = convert_unsigned(p, v, c, &s, &kind);
    if (r != MISMATCH) return r;
  }
  if (p.kind == ParamKind::Float) {
    if (kind == ScalarKind::Complex) return MISMATCH;
    if (kind != ScalarKind::Float) { s.re = (double)s.i; kind = ScalarKind::Float; }
  }
  push(c, (uint64_t)kind);
  if (!p.by_value) { c.scalars[c.nscalar++] = s; return CONVERTED; }
  if (kind != ScalarKind::Complex) s.im = 0;
  uint64_t words[2];
  memcpy(words, &s, 16);
  push(c, words[0]); push(c, words[1]);
  return CONVERTED;
}

static Conversion convert_other(const Face* face, const Op* op, const Param& p, PyObject* v, Call& c, bool* overloaded) {
  int64_t value;
  switch (p.kind) {
    case ParamKind::Int: case ParamKind::SymInt: {
      int r = integer_from(v, &value, p.kind == ParamKind::Int);
      if (r <= 0) return r ? FAILED : MISMATCH;
      if (p.optional) push(c, 1);
      if (p.kind == ParamKind::Int) push(c, (uint64_t)value); else c.syms[c.nsym++] = value;
      return CONVERTED;
    }
    case ParamKind::Bool: {
      if (v != Py_True && v != Py_False) return MISMATCH;
      if (p.optional) push(c, 1);
      push(c, v == Py_True);
      return CONVERTED;
    }
    case ParamKind::Str: {
      if (!PyUnicode_Check(v)) return MISMATCH;
      PyObject* exact = PyUnicode_CheckExact(v) ? Py_NewRef(v) : PyObject_Str(v);
      PyObject* kept = exact ? kept_for_ever(exact) : nullptr;
      Py_XDECREF(exact);
      if (!kept) return FAILED;
      push(c, (uint64_t)(uintptr_t)kept);
      return CONVERTED;
    }
    case ParamKind::IntList: case ParamKind::SymIntList: return convert_list(face, p, v, c);
    case ParamKind::DType: {
      DType d;
      if (Py_TYPE(v) != DTypeType && !PyType_Check(v)) return MISMATCH;
      if (!dtype_from(v, &d)) { if (PyType_Check(v) && PyErr_ExceptionMatches(PyExc_TypeError)) { PyErr_Clear(); return MISMATCH; } return FAILED; }
      push(c, (uint64_t)d);
      return CONVERTED;
    }
    case ParamKind::Device: {
      Device d;
      if (Py_TYPE(v) != DeviceType && !PyUnicode_Check(v) && !(PyLong_Check(v) && !PyBool_Check(v))) return MISMATCH;
      if (!device_from(v, &d)) return FAILED;
      push(c, (uint64_t)d);
      return CONVERTED;
    }
    case ParamKind::LayoutName: {
      int code;
      if (Py_TYPE(v) != LayoutNameType) return MISMATCH;
      if (!layout_name_from(v, &code)) return FAILED;
      if (RL_UNLIKELY(code != 0)) {                       // a sparse result is Python's to make (overrides.dispatch)
        if (tls.guard & G_NO_DISPATCH) { raise(PyExc_NotImplementedError, "%s() is not implemented for layout=%R", op->text, v); return FAILED; }
        *overloaded = true;
      }
      push(c, (uint64_t)code);
      return CONVERTED;
    }
    case ParamKind::MemoryFormat: {
      MemoryFormat f;
      if (Py_TYPE(v) != MemoryFormatType) return MISMATCH;
      if (!memory_format_from(v, &f)) return FAILED;
      push(c, (uint64_t)f);
      return CONVERTED;
    }
    case ParamKind::Generator:
      if (!PyObject_TypeCheck(v, GeneratorType)) return MISMATCH;
      c.generator = v;
      return CONVERTED;
    case ParamKind::Any: {
      if (op->native) { push(c, (uint64_t)(uintptr_t)v); return CONVERTED; }
      PyObject* kept = kept_for_ever(v);
      if (!kept) return FAILED;
      push(c, (uint64_t)(uintptr_t)kept);
      return CONVERTED;
    }
    default: return MISMATCH;
  }
}

static Conversion convert(const Face* face, const Op* op, const Param& p, PyObject* v, Call& c, bool* overloaded, bool strict) {
  Conversion r;
  if (p.kind == ParamKind::Tensor) {
    if (RL_LIKELY(is_exact(v))) { c.t[c.nt++] = (Tensor*)v; return CONVERTED; }
    if (v == Py_None && p.optional) { c.t[c.nt++] = nullptr; return CONVERTED; }
    r = MISMATCH;
    if (is_tensor(v)) { c.t[c.nt++] = (Tensor*)v; r = CONVERTED; *overloaded |= has_torch_function(v); }
  } else if (v == Py_None && p.optional) {
    push_absent(c, p);
    return CONVERTED;
  } else if (p.kind == ParamKind::TensorOrScalar) {
    r = CONVERTED;
    if (RL_LIKELY(is_exact(v))) { push(c, 0); c.t[c.nt++] = (Tensor*)v; return CONVERTED; }
    if (is_tensor(v)) { push(c, 0); c.t[c.nt++] = (Tensor*)v; *overloaded |= has_torch_function(v); }
    else { c.t[c.nt++] = nullptr; r = convert_scalar(p, v, c); }
  } else if (p.kind == ParamKind::Scalar || p.kind == ParamKind::Float) {
    r = convert_scalar(p, v, c);
  } else if (p.kind == ParamKind::TensorList) {
    r = convert_tensor_list(p, v, c, overloaded, strict);
  } else {
    r = convert_other(face, op, p, v, c, overloaded);
  }
  // A foreign object with __torch_function__ fits any parameter: the call will not get further than its handler.
  if (RL_UNLIKELY(r == MISMATCH) && has_torch_function(v)) { *overloaded = true; return CONVERTED; }
  return r;
}

int convert_argument(const Face* face, const Op* op, const Param& p, PyObject* v, Call& c, bool* overloaded, bool strict) { return convert(face, op, p, v, c, overloaded, strict); }
int convert_varargs(const Face* face, const Param& p, PyObject* const* items, Py_ssize_t n, Call& c) { return convert_ints(face, p, items, n, c); }

bool encode_default(const Op* op, Param* p) {
  if (!p->fallback || p->face_only) return true;
  Call c;
  bool overloaded = false;
  if (p->fallback == Py_None) push_absent(c, *p);      // a default of None means absent, whether or not the type says `?`
  else {
    int r = convert(nullptr, op, *p, p->fallback, c, &overloaded, true);
    if (r != CONVERTED || c.nt > 1 || (c.nt == 1 && c.t[0])) {
      if (!PyErr_Occurred()) raise(PyExc_TypeError, "%s: the default of '%U' is not a %s", op->text, p->name, param_type_text(*p).c_str());
      return false;
    }
  }
  Encoded& e = p->encoded;
  e.statics.assign(c.static_words, c.static_words + c.nstatic);
  e.syms.assign(c.syms, c.syms + c.nsym);
  e.scalars.assign(c.scalars, c.scalars + c.nscalar);
  e.tensors = c.nt;
  e.one_word = c.nstatic == 1 && !c.nsym && !c.nscalar && !c.nt;
  return true;
}

bool fill_call_defaults(Call& c, const Signature& sig, int from_param) {
  for (size_t i = (size_t)from_param; i < sig.params.size(); i++) {
    const Param& p = sig.params[i];
    if (p.face_only) continue;
    if (!p.fallback) { raise(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%U\"", c.op->text, p.name); return false; }
    append_encoded(c, p.encoded);
  }
  return true;
}

// -------------------------------------------------------------------------------------- the request for the compiler
PyObject* layout_description(const Layout* l) {
  PyObject *shape = int_tuple(l->shape(), l->ndim), *strides = int_tuple(l->strides(), l->ndim);
  if (!shape || !strides) { Py_XDECREF(shape); Py_XDECREF(strides); return nullptr; }
  return Py_BuildValue("(iiNNi)", (int)l->dtype, (int)l->device, shape, strides, (int)(l->flags & (L_CONJ | L_NEG)));
}
static PyObject* describe(Tensor* t) { return t ? layout_description(t->layout) : Py_NewRef(Py_None); }
static PyObject* kind_text(uint64_t kind) {
  static const char* const TEXT[] = {nullptr, "b", "i", "f", "c"};
  return kind ? PyUnicode_InternFromString(TEXT[kind]) : Py_NewRef(Py_None);
}
static PyObject* scalar_object(ScalarKind kind, const Scalar& s) {
  switch (kind) {
    case ScalarKind::None: return Py_NewRef(Py_None);
    case ScalarKind::Bool: return PyBool_FromLong(s.i != 0);
    case ScalarKind::Int: return PyLong_FromLongLong(s.i);
    case ScalarKind::Float: return PyFloat_FromDouble(s.re);
    case ScalarKind::Complex: return PyComplex_FromDoubles(s.re, s.im);
  }
  return nullptr;
}

static PyObject* param_value(const Call& c, const Param& p, Args& a) {
  switch (p.kind) {
    case ParamKind::Tensor: return describe(a.tensor());
    case ParamKind::TensorList: {
      Tensor** first;
      int n = a.tensor_list(&first);
      PyObject* list = PyList_New(n);
      for (int i = 0; list && i < n; i++) {
        PyObject* d = describe(first[i]);
        if (!d) { Py_DECREF(list); return nullptr; }
        PyList_SET_ITEM(list, i, d);
      }
      return list;
    }
    case ParamKind::TensorOrScalar: {
      Tensor* t = a.tensor(); Scalar s;
      ScalarKind k = a.scalar(&s);
      return k == ScalarKind::None ? describe(t) : kind_text((uint64_t)k);
    }
    case ParamKind::Scalar: case ParamKind::Float: {
      Scalar s;
      if (!p.by_value) return kind_text((uint64_t)a.scalar(&s));
      ScalarKind k = (ScalarKind)a.word();
      if (k == ScalarKind::None) return Py_NewRef(Py_None);
      uint64_t words[2] = {a.word(), 0};
      words[1] = a.word();
      memcpy(&s, words, 16);
      return scalar_object(k, s);
    }
    case ParamKind::ScalarList: {
      int n = (int)a.word();
      PyObject* list = PyList_New(n);
      for (int i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, kind_text(a.word()));
      return list;
    }
    case ParamKind::Int: case ParamKind::Bool: {
      if (p.optional && !a.word()) return Py_NewRef(Py_None);
      int64_t v = a.integer();
      if (p.kind == ParamKind::Bool) return PyBool_FromLong(v != 0);
      // The needed mask of a backward op is 64 flags, not a number; all ones (more than 64 arguments) is -1, whose every bit is set.
      return c.op->is_backward && v != -1 ? PyLong_FromUnsignedLongLong((uint64_t)v) : PyLong_FromLongLong(v);
    }
    case ParamKind::SymInt:
      if (p.optional && !a.word()) return Py_NewRef(Py_None);
      return PyLong_FromLongLong(a.sym());
    case ParamKind::IntList: case ParamKind::SymIntList: {
      const int64_t* v;
      int n = p.kind == ParamKind::IntList ? a.int_list(&v) : a.sym_list(&v);
      return n < 0 ? Py_NewRef(Py_None) : int_tuple(v, n);
    }
    case ParamKind::DType: { DType d; return Py_NewRef(a.dtype(&d) ? dtype_object(d) : Py_None); }
    case ParamKind::Device: { Device d; return a.device(&d) ? device_object(d) : Py_NewRef(Py_None); }
    case ParamKind::LayoutName: a.code(); return Py_NewRef(Py_None);
    case ParamKind::MemoryFormat: { int code = a.code(); return Py_NewRef(code < 0 ? Py_None : memory_format_object((MemoryFormat)code)); }
    case ParamKind::Str: case ParamKind::Any: { PyObject* o = a.object(); return Py_NewRef(o ? o : Py_None); }
    case ParamKind::Generator: return Py_NewRef(Py_None);
  }
  return nullptr;
}

PyObject* call_params(const Call& c) {
  const Signature& sig = signature_of(c);
  PyObject* list = PyList_New(0);
  Args a(c);
  for (const Param& p : sig.params) {
    PyObject* v = p.face_only ? Py_NewRef(Py_None) : param_value(c, p, a);
    if (!v || !list || PyList_Append(list, v) < 0) { Py_XDECREF(v); Py_XDECREF(list); return nullptr; }
    Py_DECREF(v);
  }
  return list;
}

}  // namespace rl
