// Running ops: the registry of ops and native implementations, run_call and its shorthands, Python's operators on tensors, calls over lists of
// tensors (optimizers), hooks and guards.
//
// Decisions:
//  - an op whose signature marks arguments as written (`Tensor(a!)`) runs in form 1 by itself; a functional op with an in-place form runs so through its
//    in-place faces, with its first tensor as the destination;
//  - call_op fills what the caller leaves out with the defaults of the first signature, parameter by parameter: tensors, syms and statics are each taken
//    from their list while it lasts (a list parameter takes its length from the statics, as in a Call);
//  - the reflected form of an operator (`2 - x`) runs the op with its arguments in the order written, or an op bound as "r" + name with them exchanged;
//  - native ops that write: checks, version bump and history are done here, not by the native function.
#include "compat.h"
#include "op.h"
#include "element.h"
#include <unordered_map>

namespace rl {

Stats g_stats;
Hooks g_hooks;
extern PyObject* g_disabled_torch_function;

// ------------------------------------------------------------------------------------------------------------ registries
static std::unordered_map<std::string, NativeOp>& natives() { static std::unordered_map<std::string, NativeOp> m; return m; }
static std::unordered_map<std::string, Kernel>& native_kernels() { static std::unordered_map<std::string, Kernel> m; return m; }
static std::unordered_map<std::string, Op*>& ops() { static std::unordered_map<std::string, Op*> m; return m; }

void native_register(const char* name, NativeOp f) { natives()[name] = f; }
NativeOp native_find(const char* name) { auto it = natives().find(name); return it == natives().end() ? nullptr : it->second; }
void native_kernel_register(const char* name, Kernel k) { native_kernels()[name] = k; }
Kernel native_kernel_find(const char* name) {
  if (!strncmp(name, "lapack_", 7) && !lapack_open()) return nullptr;       // its library is opened by the first recipe that needs it
  auto it = native_kernels().find(name);
  return it == native_kernels().end() ? nullptr : it->second;
}

bool op_register(Op* op) {                       // the newest op of a name is the one op_find gives; all live for ever, plans refer to them
  Py_INCREF(op);
  ops()[op->text] = op;
  return true;
}
Op* op_find(const char* name) {
  auto it = ops().find(name);
  if (it != ops().end()) return it->second;
  raise(PyExc_NotImplementedError, "the operator '%s' is not defined", name);
  return nullptr;
}

// One anonymous op per backward key. Its parameters are those of contract section 5.
Op* backward_op_of(PyObject* key) {
  static PyObject* table = PyDict_New();
  if (!table) return nullptr;
  if (PyObject* known = PyDict_GetItemWithError(table, key)) return (Op*)known;
  if (PyErr_Occurred()) return nullptr;
  PyObject* made = PyObject_CallFunction((PyObject*)OpType, "s[([(ssOO)(ssOO)(ssOO)(ssOO)(ssOO)]s)]O", "backward",
      "grads", "Tensor?[]", g_required, Py_False, "saved", "Tensor?[]", g_required, Py_False, "needed", "int", g_required, Py_False,
      "syms", "SymInt[]", g_required, Py_False, "scalars", "Scalar[]", g_required, Py_False, "Tensor[]", key);
  if (!made) return nullptr;
  ((Op*)made)->is_backward = 1;
  bool good = PyDict_SetItem(table, key, made) == 0;
  Py_DECREF(made);
  return good ? (Op*)made : nullptr;
}

// ---------------------------------------------------------------------------------------------------------------- running
static void mark_written(Call& c) {
  c.form = 1;
  c.ndest = 0;
  int at = 0;
  Args a(c);
  const Signature& sig = signature_of(c);
  // Written arguments precede everything whose place depends on a list's length only rarely; walk what comes before them properly.
  for (const Param& p : sig.params) {
    if (p.face_only) continue;
    switch (p.kind) {
      case ParamKind::Tensor:
        if (p.written && c.t[at] && c.ndest < 8) c.dests[c.ndest++] = c.t[at];
        at++;
        break;
      case ParamKind::TensorList: {
        int n = (int)a.word();
        for (int i = 0; i < n; i++, at++) if (p.written && c.t[at] && c.ndest < 8) c.dests[c.ndest++] = c.t[at];
        break;
      }
      case ParamKind::TensorOrScalar: skip_words(a, p); at++; break;
      default: skip_words(a, p); break;
    }
  }
}

int run_call(Call& c, PyObject** outs, int max) {
  Op* op = c.op;
  if (RL_UNLIKELY(signature_of(c).has_written) && c.form == 0) mark_written(c);
  if (RL_LIKELY(c.form == 0)) {
    if (runs_native(c)) { ++g_stats.native_calls; return op->native(c, outs, max); }
    Plan* p = plan_lookup(c, grad_mask(c));
    return RL_LIKELY(p != nullptr) ? plan_run(p, c, outs, max) : -1;
  }
  return run_inplace_or_out(c, outs, max);
}

Tensor* call_op(Op* op, std::initializer_list<Tensor*> tensors, std::initializer_list<int64_t> syms, std::initializer_list<uint64_t> statics) {
  if (!op) return nullptr;
  Call c;
  c.op = op;
  const int params = (int)op->signatures->front().params.size(), given = (int)(tensors.size() + statics.size() + syms.size());
  if (RL_UNLIKELY(params > 8 || given > 12) && !call_reserve(c, (int)tensors.size() + 32, (int)statics.size() + 64, (int)syms.size() + 64, 32)) return nullptr;
  auto t = tensors.begin();
  auto y = syms.begin();
  auto w = statics.begin();
  for (const Param& p : op->signatures->front().params) {
    if (p.face_only) continue;
    auto by_default = [&] { if (!p.fallback) return false; append_encoded(c, p.encoded); return true; };
    auto word = [&] { c.static_words[c.nstatic++] = *w++; };
    bool good = true;
    switch (p.kind) {
      case ParamKind::Tensor: if (t != tensors.end()) c.t[c.nt++] = *t++; else good = by_default(); break;
      case ParamKind::TensorOrScalar: if (t != tensors.end()) { c.static_words[c.nstatic++] = 0; c.t[c.nt++] = *t++; } else good = by_default(); break;
      case ParamKind::TensorList: {
        if (w == statics.end()) { good = by_default(); break; }
        uint64_t n = *w;
        word();
        while (n-- && t != tensors.end()) c.t[c.nt++] = *t++;
        break;
      }
      case ParamKind::SymInt:
        if (y == syms.end()) { good = by_default(); break; }
        if (p.optional) c.static_words[c.nstatic++] = 1;
        c.syms[c.nsym++] = *y++;
        break;
      case ParamKind::SymIntList: {
        if (w == statics.end()) { good = by_default(); break; }
        uint64_t n = *w;
        word();
        while (n != ABSENT && n-- && y != syms.end()) c.syms[c.nsym++] = *y++;
        break;
      }
      case ParamKind::IntList: {
        if (w == statics.end()) { good = by_default(); break; }
        uint64_t n = *w;
        word();
        while (n != ABSENT && n-- && w != statics.end()) word();
        break;
      }
      case ParamKind::Int: case ParamKind::Bool:
        if (w == statics.end()) { good = by_default(); break; }
        if (p.optional) { bool present = *w != 0; word(); if (present && w != statics.end()) word(); } else word();
        break;
      case ParamKind::Generator: break;
      case ParamKind::Scalar: case ParamKind::Float: case ParamKind::ScalarList: good = by_default(); break;
      default: if (w == statics.end()) good = by_default(); else word(); break;
    }
    if (!good) { raise(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%U\"", op->text, p.name); return nullptr; }
  }
  PyObject* outs[16];
  int n = run_call(c, outs, 16);
  if (n < 0) return nullptr;
  for (int i = 1; i < n; i++) Py_XDECREF(outs[i]);
  if (n == 0 || !outs[0]) { raise(PyExc_RuntimeError, "%s() gave no result", op->text); return nullptr; }
  return (Tensor*)outs[0];
}

Tensor* connected(const char* by, Tensor* made, Tensor* a, Tensor* b) {
  if (!made || !tls.grad_mode || !((a && a->requires_grad) || (b && b->requires_grad))) return made;
  Op* op = op_find(by);
  Tensor* out = !op ? nullptr : b ? call_op(op, {made, a, b}) : call_op(op, {made, a});
  Py_DECREF((PyObject*)made);
  return out;
}

// --------------------------------------------------------------------------------------------------------- operators
static const char* const SLOT_NAMES[] = {"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and", "or", "xor",
                                         "neg", "pos", "abs", "invert", "lt", "le", "eq", "ne", "gt", "ge"};
static_assert(sizeof(SLOT_NAMES) / sizeof(*SLOT_NAMES) == S_COUNT);
// An op as an operator: which signature takes exactly the operands (the rest have defaults), found once when it is bound.
struct Bound { Op* op; int overload; };
static Bound g_operator[S_COUNT], g_reflected[S_COUNT];

static int operator_overload(const Op* op, int operands) {
  for (size_t k = 0; k < op->signatures->size(); k++) {
    const Signature& s = (*op->signatures)[k];
    if ((int)s.params.size() < operands) continue;
    bool fits = true;
    for (int i = 0; i < (int)s.params.size(); i++) {
      ParamKind kind = s.params[i].kind;
      fits &= i < operands ? kind == ParamKind::Tensor || kind == ParamKind::TensorOrScalar : s.params[i].fallback != nullptr;
    }
    if (fits) return (int)k;
  }
  return -1;
}

// What is no number, or one that int64 does not hold (with an error set).
static RL_APART int push_unsigned(Call& c, PyObject* o) {
  Tensor* wide = PyErr_Occurred() ? unsigned_from(o) : nullptr;
  if (!wide) return PyErr_Occurred() ? -1 : 0;
  c.static_words[c.nstatic++] = 0;
  c.t[c.nt++] = wide;
  c.keep[c.nkeep++] = (PyObject*)wide;
  return 1;
}
// One operand of an operator: 1 taken, 0 foreign, -1 error.
static inline int push_operand(Call& c, const Param& p, PyObject* o) {
  if (RL_LIKELY(is_exact(o)) || is_tensor(o)) {
    if (p.kind == ParamKind::TensorOrScalar) c.static_words[c.nstatic++] = 0;
    c.t[c.nt++] = (Tensor*)o;
    return 1;
  }
  if (p.kind != ParamKind::TensorOrScalar) return 0;
  Scalar s; ScalarKind kind;
  if (PyFloat_CheckExact(o)) { s.re = PyFloat_AS_DOUBLE(o); s.im = 0; kind = ScalarKind::Float; }
  else if (!scalar_from(o, &s, &kind)) return push_unsigned(c, o);
  c.static_words[c.nstatic++] = (uint64_t)kind;
  c.t[c.nt++] = nullptr;
  c.scalars[c.nscalar++] = s;
  return 1;
}

// Do the operands, or a mode, want the call for themselves?
static inline bool wants_override(PyObject* a, PyObject* b) {
  uint32_t guard = tls.guard;
  if (RL_LIKELY(!(guard & (G_DISPATCH | G_NO_DISPATCH)) && is_exact(a) && (!b || is_exact(b) || PyFloat_CheckExact(b) || PyLong_CheckExact(b)))) return false;
  if (guard & G_NO_DISPATCH) return false;
  if (guard & G_DISPATCH) return (guard & G_MODE) || g_hooks.guarded;
  return has_torch_function(a) || (b && has_torch_function(b));
}
static PyObject* override_call(Op* op, uint8_t form, PyObject* a, PyObject* b) {
  Face* face = op_face(op, is_tensor(a), form);
  if (!face) return nullptr;
  PyObject* args[] = {a, b};
  return PyObject_Vectorcall((PyObject*)face, args, b ? 2 : 1, nullptr);
}

static PyObject* run_operator(const Bound& bound, uint8_t form, PyObject* a, PyObject* b) {
  Op* op = bound.op;
  if (RL_UNLIKELY(wants_override(a, b))) return override_call(op, form, a, b);
  if (RL_UNLIKELY(bound.overload < 0)) {
    // No signature of two operands: let the parser decide, and treat what it refuses as foreign.
    PyObject* args[] = {a, b};
    Face* face = op_face(op, false, form);
    return face ? PyObject_Vectorcall((PyObject*)face, args, b ? 2 : 1, nullptr) : nullptr;
  }
  const Signature& sig = (*op->signatures)[bound.overload];
  Call c;
  c.op = op;
  c.overload = (uint8_t)bound.overload;
  c.form = form;
  int r = push_operand(c, sig.params[0], a);
  if (RL_LIKELY(r > 0) && b) r = push_operand(c, sig.params[1], b);
  if (RL_UNLIKELY(r <= 0)) { if (r < 0) return nullptr; Py_RETURN_NOTIMPLEMENTED; }
  for (size_t i = b ? 2 : 1; i < sig.params.size(); i++) if (!sig.params[i].face_only) append_encoded(c, sig.params[i].encoded);
  if (form == 1) { c.dests[0] = c.t[0]; c.ndest = 1; }
  return call_finish(c);
}

PyObject* op_binary(int slot, PyObject* a, PyObject* b) {
  const Bound& bound = g_operator[slot];
  if (RL_UNLIKELY(!bound.op)) Py_RETURN_NOTIMPLEMENTED;
  if (RL_UNLIKELY(!is_tensor(a)) && g_reflected[slot].op) return run_operator(g_reflected[slot], 0, b, a);
  return run_operator(bound, 0, a, b);
}
PyObject* op_unary(int slot, PyObject* a) {
  if (RL_UNLIKELY(!g_operator[slot].op)) return raise(PyExc_NotImplementedError, "the operator '%s' is not defined", SLOT_NAMES[slot]);
  if (slot == S_INVERT && is_tensor(a)) {
    DType d = ((Tensor*)a)->layout->dtype;
    char kind = DTYPES[(int)d].kind;
    if (kind == 'f' || kind == 'c')
      return raise(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors, not on %s", DTYPES[(int)d].name);
  }
  return run_operator(g_operator[slot], 0, a, nullptr);
}
PyObject* op_inplace(int slot, PyObject* a, PyObject* b) {
  const Bound& bound = g_operator[slot];
  if (RL_UNLIKELY(!bound.op) || !(bound.op->forms & FORM_INPLACE) || !is_tensor(a)) Py_RETURN_NOTIMPLEMENTED;      // Python then tries the plain operator
  return run_operator(bound, 1, a, b);
}
// == takes an array for a tensor, as in torch: both sides would otherwise leave it to Python, which compares identities. `refused` (taken over): what was said to it first.
static RL_APART PyObject* equal_to_array(PyObject* a, PyObject* array, PyObject* refused) {
  Tensor* shared = is_numpy_array(array) ? tensor_from_numpy(array, false) : nullptr;
  if (!shared) { PyErr_Clear(); return refused; }
  Py_DECREF(refused);
  PyObject* result = op_compare(Py_EQ, a, (PyObject*)shared);
  Py_DECREF(shared);
  return result;
}
PyObject* op_compare(int py_op, PyObject* a, PyObject* b) {
  static_assert(Py_LT == 0 && Py_LE == 1 && Py_EQ == 2 && Py_NE == 3 && Py_GT == 4 && Py_GE == 5);
  const Bound& bound = g_operator[S_LT + py_op];
  if (RL_UNLIKELY(!bound.op)) Py_RETURN_NOTIMPLEMENTED;
  PyObject* result = run_operator(bound, 0, a, b);
  return RL_UNLIKELY(result == Py_NotImplemented) && py_op == Py_EQ ? equal_to_array(a, b, result) : result;
}

static PyObject* bind_operator(PyObject*, PyObject* args) {
  const char* name;
  PyObject* op;
  if (!PyArg_ParseTuple(args, "sO!", &name, OpType, &op)) return nullptr;
  for (int reflected = 0; reflected < 2; reflected++) {
    if (reflected && name[0] != 'r') break;
    const char* wanted = name + reflected;
    for (int i = 0; i < S_COUNT; i++) {
      if (strcmp(SLOT_NAMES[i], wanted)) continue;
      Bound& b = reflected ? g_reflected[i] : g_operator[i];
      b = {(Op*)op, operator_overload((Op*)op, i >= S_NEG && i <= S_INVERT ? 1 : 2)};     // ops live for ever: no reference to take
      Py_RETURN_NONE;
    }
  }
  return raise(PyExc_ValueError, "unknown operator '%s'", name);
}

// ------------------------------------------------------------------------------------------------ calls over lists of tensors
// foreach_call(op, lists, scalars=(), **others): the op once per row of the parallel lists, without returning to Python in between. Tensor
// parameters take the lists in order (None: absent), run-time scalars take `scalars` in order (a number for all, or a list, one per row); every other
// parameter is given by name or has its default.
static PyObject* foreach_call(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject *target, *lists_given, *scalars_given = nullptr;
  if (!PyArg_ParseTuple(args, "OO|O:foreach_call", &target, &lists_given, &scalars_given)) return nullptr;
  Op* op = Py_TYPE(target) == OpType ? (Op*)target : nullptr;
  uint8_t form = 0;
  if (Py_TYPE(target) == OpFunctionType || Py_TYPE(target) == OpMethodType) { op = ((Face*)target)->op; form = ((Face*)target)->form; }
  if (!op) return raise(PyExc_TypeError, "foreach_call(): an Op or one of its faces is needed, not %s", Py_TYPE(target)->tp_name);
  const Signature& sig = op->signatures->front();
  std::vector<PyObject*> rows;             // owned tuples, one per Tensor parameter; null: absent
  std::vector<PyObject*> owned;
  PyObject *lists = PySequence_Tuple(lists_given), *scalars = scalars_given ? PySequence_Tuple(scalars_given) : PyTuple_New(0), *result = nullptr;
  Py_ssize_t count = -1, next_list = 0, next_scalar = 0, used_keywords = 0;
  bool good = lists && scalars;
  struct Source { PyObject* value; bool per_row; };          // of each parameter
  std::vector<Source> sources;
  for (size_t i = 0; good && i < sig.params.size(); i++) {
    const Param& p = sig.params[i];
    PyObject* named = kwargs ? PyDict_GetItemWithError(kwargs, p.name) : nullptr;
    if (named) { used_keywords++; sources.push_back({named, false}); continue; }
    bool tensor = p.kind == ParamKind::Tensor || p.kind == ParamKind::TensorOrScalar;
    if (tensor && next_list < PyTuple_GET_SIZE(lists)) {
      PyObject* given = PyTuple_GET_ITEM(lists, next_list++);
      if (given == Py_None) { sources.push_back({p.optional ? Py_None : nullptr, false}); if (!p.optional) { raise(PyExc_TypeError, "%s(): argument '%U' cannot be None", op->text, p.name); good = false; } continue; }
      PyObject* t = PySequence_Tuple(given);
      if (!t) { good = false; break; }
      owned.push_back(t);
      if (count >= 0 && PyTuple_GET_SIZE(t) != count) { raise(PyExc_RuntimeError, "Tensor lists must have the same number of tensors, got %zd and %zd", count, PyTuple_GET_SIZE(t)); good = false; break; }
      count = PyTuple_GET_SIZE(t);
      sources.push_back({t, true});
    } else if ((p.kind == ParamKind::Scalar || p.kind == ParamKind::Float) && next_scalar < PyTuple_GET_SIZE(scalars)) {
      PyObject* given = PyTuple_GET_ITEM(scalars, next_scalar++);
      if (PyList_Check(given) || PyTuple_Check(given)) {
        PyObject* t = PySequence_Tuple(given);
        if (!t) { good = false; break; }
        owned.push_back(t);
        sources.push_back({t, true});
      } else sources.push_back({given, false});
    } else if (p.fallback) sources.push_back({nullptr, false});
    else { raise(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%U\"", op->text, p.name); good = false; }
  }
  if (good && (next_list < PyTuple_GET_SIZE(lists) || next_scalar < PyTuple_GET_SIZE(scalars))) { raise(PyExc_TypeError, "foreach_call(): more lists or scalars than %s() takes", op->text); good = false; }
  if (good && kwargs && used_keywords != PyDict_GET_SIZE(kwargs)) { raise(PyExc_TypeError, "foreach_call(): a keyword is not a parameter of %s()", op->text); good = false; }
  for (auto& s : sources) if (good && s.per_row && PyTuple_GET_SIZE(s.value) != count) { raise(PyExc_RuntimeError, "Tensor list must have same number of elements as scalar list, got %zd and %zd", count, PyTuple_GET_SIZE(s.value)); good = false; }
  for (auto& s : sources)                      // nobody is asked for a __torch_function__ here, and nothing is written before an error
    for (Py_ssize_t row = 0; good && s.per_row && row < count; row++) {
      PyObject* v = PyTuple_GET_ITEM(s.value, row);
      if (!is_tensor(v) || !is_sparse((Tensor*)v)) continue;
      raise(PyExc_NotImplementedError, "%s() over lists of tensors is not implemented for sparse ones", op->text);
      good = false;
    }
  Face* face = good ? op_face(op, false, form) : nullptr;
  good = good && face;
  for (Py_ssize_t row = 0; good && row < count; row++) {
    Call c;
    c.op = op;
    c.form = form;
    if (sig.params.size() > 12) good = call_reserve(c, 64, 192, 96, 64);
    for (size_t i = 0; good && i < sig.params.size(); i++) {
      const Param& p = sig.params[i];
      if (p.face_only) continue;
      const Source& s = sources[i];
      if (!s.value) { append_encoded(c, p.encoded); continue; }
      PyObject* v = s.per_row ? PyTuple_GET_ITEM(s.value, row) : s.value;
      bool overloaded = false;
      int r = convert_argument(face, op, p, v, c, &overloaded, true);
      if (r == 0) raise(PyExc_TypeError, "%s(): argument '%U' must be %s, not %s", op->text, p.name, param_type_text(p).c_str(), Py_TYPE(v)->tp_name);
      if (r > 0 && p.kind == ParamKind::Tensor && v != Py_None && !is_tensor(v)) { raise(PyExc_TypeError, "%s(): argument '%U' must be Tensor, not %s", op->text, p.name, Py_TYPE(v)->tp_name); r = 0; }
      good = r > 0;
    }
    if (!good) break;
    if (form == 1) { c.dests[0] = c.t[0]; c.ndest = 1; }
    PyObject* outs[16];
    int n = run_call(c, outs, 16);
    for (int i = 0; i < n; i++) Py_XDECREF(outs[i]);
    good = n >= 0;
  }
  if (good) result = Py_NewRef(Py_None);
  for (PyObject* o : owned) Py_DECREF(o);
  Py_XDECREF(lists); Py_XDECREF(scalars);
  return result;
}

// foreach_map(function, operands, keywords=None) -> tuple: the function once per row of the operands, without returning to Python in between. Operands that are lists
// or tuples, all as long as the first, give each row its entry; the others are the same for every row.
static PyObject* foreach_map(PyObject*, PyObject* args) {
  PyObject *function, *operands, *keywords = Py_None;
  if (!PyArg_ParseTuple(args, "OO!|O:foreach_map", &function, &PyTuple_Type, &operands, &keywords)) return nullptr;
  Py_ssize_t n = PyTuple_GET_SIZE(operands), count = -1;
  const Py_ssize_t MOST = 8;
  PyObject* row[MOST];
  if (n > MOST) return raise(PyExc_TypeError, "foreach_map(): at most %d operands", (int)MOST);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* o = PyTuple_GET_ITEM(operands, i);
    if (!PyTuple_Check(o) && !PyList_Check(o)) continue;
    Py_ssize_t length = PySequence_Fast_GET_SIZE(o);
    if (count >= 0 && length != count) return raise(PyExc_RuntimeError, "Tensor lists must have the same number of tensors, got %zd and %zd", count, length);
    count = length;
  }
  if (count < 0) return raise(PyExc_TypeError, "foreach_map(): one operand must be a list");
  PyObject* results = PyTuple_New(count);
  for (Py_ssize_t r = 0; results && r < count; r++) {
    for (Py_ssize_t i = 0; i < n; i++) {
      PyObject* o = PyTuple_GET_ITEM(operands, i);
      bool list = PyTuple_Check(o) || PyList_Check(o);
      if (list && r >= PySequence_Fast_GET_SIZE(o)) { raise(PyExc_RuntimeError, "foreach_map(): a list changed its length"); Py_CLEAR(results); break; }
      row[i] = list ? PySequence_Fast_GET_ITEM(o, r) : o;
      Py_INCREF(row[i]);
    }
    if (!results) break;
    PyObject* out = PyObject_VectorcallDict(function, row, (size_t)n, keywords == Py_None ? nullptr : keywords);
    for (Py_ssize_t i = 0; i < n; i++) Py_DECREF(row[i]);
    if (!out) { Py_CLEAR(results); break; }
    PyTuple_SET_ITEM(results, r, out);
  }
  return results;
}

// ------------------------------------------------------------------------------------------------------- hooks, guards
static PyObject* set_hooks(PyObject*, PyObject* args, PyObject* kwargs) {
  const struct { const char* name; PyObject** slot; } HOOKS[] = {{"compile", &g_hooks.compile}, {"torch_function", &g_hooks.torch_function}, {"flush", &g_hooks.flush}, {"guarded", &g_hooks.guarded}};
  if (PyTuple_GET_SIZE(args)) return raise(PyExc_TypeError, "set_hooks() takes keywords only");
  PyObject *key, *value;
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &value);) {
    PyObject** slot = nullptr;
    for (auto& h : HOOKS) if (!PyUnicode_CompareWithASCIIString(key, h.name)) slot = h.slot;
    if (!slot) return raise(PyExc_TypeError, "set_hooks() got an unexpected keyword argument '%U'", key);
    Py_XSETREF(*slot, value == Py_None ? nullptr : Py_NewRef(value));
  }
  Py_RETURN_NONE;
}

// set_guard(bits, on) -> the word before. For modes, recording, profiling.
static PyObject* set_guard(PyObject*, PyObject* args) {
  unsigned int bits;
  int on;
  if (!PyArg_ParseTuple(args, "Ip:set_guard", &bits, &on)) return nullptr;
  uint32_t before = tls.guard;
  tls.guard = on ? before | bits : before & ~bits;
  return PyLong_FromUnsignedLong(before);
}
static PyObject* get_guard(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(tls.guard); }

// with disable_torch_function(): …  Overrides are not consulted inside; what was before comes back, also after an exception.
struct Disabler { PyObject_HEAD uint32_t before; };
static PyObject* disabler_enter(PyObject* o, PyObject*) { ((Disabler*)o)->before = tls.guard & G_NO_DISPATCH; tls.guard |= G_NO_DISPATCH; return Py_NewRef(o); }
static PyObject* disabler_exit(PyObject* o, PyObject* const*, Py_ssize_t) { tls.guard = (tls.guard & ~(uint32_t)G_NO_DISPATCH) | ((Disabler*)o)->before; Py_RETURN_NONE; }
static PyMethodDef disabler_methods[] = {{"__enter__", disabler_enter, METH_NOARGS, nullptr}, {"__exit__", (PyCFunction)(void*)disabler_exit, METH_FASTCALL, nullptr}, {}};
static PyType_Slot disabler_slots[] = {{Py_tp_methods, disabler_methods}, {Py_tp_doc, (void*)"Context in which __torch_function__ is not consulted."}, {0, nullptr}};
static PyType_Spec disabler_spec = {"rushlight._C.disable_torch_function", sizeof(Disabler), 0, Py_TPFLAGS_DEFAULT, disabler_slots};

static PyObject* torch_function_disabled(PyObject*, PyObject*) { return PyBool_FromLong((tls.guard & G_NO_DISPATCH) != 0); }

// Modes: objects whose __torch_function__ sees every call of this thread. The innermost is on top; while it runs, `without_mode` hides it.
static thread_local std::vector<PyObject*>* t_modes;       // owned references
static void show_modes() { if (t_modes && !t_modes->empty()) tls.guard |= G_MODE; else tls.guard &= ~(uint32_t)G_MODE; }
static PyObject* push_mode(PyObject*, PyObject* mode) {
  if (!t_modes) t_modes = new std::vector<PyObject*>();
  t_modes->push_back(Py_NewRef(mode));
  show_modes();
  Py_RETURN_NONE;
}
static PyObject* pop_mode(PyObject*, PyObject*) {
  if (!t_modes || t_modes->empty()) return raise(PyExc_RuntimeError, "no mode is active");
  PyObject* mode = t_modes->back();
  t_modes->pop_back();
  show_modes();
  return mode;
}
static PyObject* top_mode(PyObject*, PyObject*) { return Py_NewRef(t_modes && !t_modes->empty() ? t_modes->back() : Py_None); }
struct ModeHider { PyObject_HEAD PyObject* mode; };
static PyObject* hider_enter(PyObject* o, PyObject*) {
  ModeHider* h = (ModeHider*)o;
  if (t_modes && !t_modes->empty()) { Py_XSETREF(h->mode, t_modes->back()); t_modes->pop_back(); show_modes(); }
  return Py_NewRef(o);
}
static PyObject* hider_exit(PyObject* o, PyObject* const*, Py_ssize_t) {
  ModeHider* h = (ModeHider*)o;
  if (h->mode) { t_modes->push_back(h->mode); h->mode = nullptr; show_modes(); }
  Py_RETURN_NONE;
}
static void hider_dealloc(PyObject* o) {
  Py_XDECREF(((ModeHider*)o)->mode);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}
static PyMethodDef hider_methods[] = {{"__enter__", hider_enter, METH_NOARGS, nullptr}, {"__exit__", (PyCFunction)(void*)hider_exit, METH_FASTCALL, nullptr}, {}};
static PyType_Slot hider_slots[] = {{Py_tp_methods, hider_methods}, {Py_tp_dealloc, (void*)hider_dealloc}, {Py_tp_doc, (void*)"Context in which the innermost mode does not see calls."}, {0, nullptr}};
static PyType_Spec hider_spec = {"rushlight._C.without_mode", sizeof(ModeHider), 0, Py_TPFLAGS_DEFAULT, hider_slots};

// A class that sets `__torch_function__ = _disabled_torch_function_impl` is treated as a plain tensor.
static PyObject* disabled_impl(PyObject*, PyObject* args, PyObject*) {
  PyObject *func, *types, *fargs = nullptr, *fkwargs = nullptr;
  if (!PyArg_ParseTuple(args, "OO|OO", &func, &types, &fargs, &fkwargs)) return nullptr;
  uint32_t before = tls.guard & G_NO_DISPATCH;
  tls.guard |= G_NO_DISPATCH;
  PyObject* tuple = fargs ? PySequence_Tuple(fargs) : PyTuple_New(0);
  PyObject* r = tuple ? PyObject_Call(func, tuple, fkwargs && fkwargs != Py_None ? fkwargs : nullptr) : nullptr;
  Py_XDECREF(tuple);
  tls.guard = (tls.guard & ~(uint32_t)G_NO_DISPATCH) | before;
  return r;
}

static PyObject* find_op(PyObject*, PyObject* name) {
  const char* s = PyUnicode_AsUTF8(name);
  Op* op = s ? op_find(s) : nullptr;
  return op ? Py_NewRef((PyObject*)op) : nullptr;
}

static PyMethodDef call_methods[] = {
    {"bind_operator", bind_operator, METH_VARARGS, "bind_operator(name, op)\n\nMake op what a Python operator on tensors runs: 'add', 'neg', 'lt' …; 'rsub' for the reflected form."},
    {"foreach_map", foreach_map, METH_VARARGS, "foreach_map(function, operands, keywords=None)\n\nThe function once per row of its operands that are lists."},
    {"foreach_call", (PyCFunction)(void*)foreach_call, METH_VARARGS | METH_KEYWORDS, "foreach_call(op, lists, scalars=(), **others)\n\nThe op once per row of parallel lists of tensors."},
    {"set_hooks", (PyCFunction)(void*)set_hooks, METH_VARARGS | METH_KEYWORDS, "set_hooks(*, compile, torch_function, flush, guarded)"},
    {"set_guard", set_guard, METH_VARARGS, "set_guard(bits, on) -> int\n\nSet or clear bits of this thread's guard word."},
    {"get_guard", get_guard, METH_NOARGS, "get_guard() -> int"},
    {"torch_function_disabled", torch_function_disabled, METH_NOARGS, "torch_function_disabled() -> bool"},
    {"push_mode", push_mode, METH_O, "push_mode(mode)\n\nIts __torch_function__ sees every call of this thread until pop_mode()."},
    {"pop_mode", pop_mode, METH_NOARGS, "pop_mode() -> mode"},
    {"top_mode", top_mode, METH_NOARGS, "top_mode() -> the innermost mode, or None"},
    {"find_op", find_op, METH_O, "find_op(name) -> Op"},
    {"_disabled_torch_function_impl", (PyCFunction)(void*)disabled_impl, METH_VARARGS | METH_KEYWORDS, "Assign to __torch_function__ to be treated as a plain tensor."},
    {}};

bool init_calls(PyObject* m) {
  PyObject* disabler = PyType_FromSpec(&disabler_spec);
  if (!disabler || PyModule_AddFunctions(m, call_methods) < 0 || PyModule_AddObjectRef(m, "disable_torch_function", disabler) < 0) return false;
  Py_DECREF(disabler);
  PyObject* hider = PyType_FromSpec(&hider_spec);
  if (!hider || PyModule_AddObjectRef(m, "without_mode", hider) < 0) return false;
  Py_DECREF(hider);
  g_disabled_torch_function = PyObject_GetAttrString(m, "_disabled_torch_function_impl");
  const struct { const char* name; uint32_t bits; } GUARDS[] = {{"G_MODE", G_MODE}, {"G_RECORD", G_RECORD}, {"G_ANOMALY", G_ANOMALY}, {"G_INFERENCE", G_INFERENCE},
      {"G_PROFILE", G_PROFILE}, {"G_AUTOCAST", G_AUTOCAST}, {"G_FUNC", G_FUNC}, {"G_NO_DISPATCH", G_NO_DISPATCH}};
  for (auto& g : GUARDS) if (PyModule_AddIntConstant(m, g.name, (int)g.bits) < 0) return false;
  return g_disabled_torch_function != nullptr;
}

}  // namespace rl
