// Recipes: the compiler's answer to one kind of call, parsed from plain data, and the small integer language that turns a recipe into an exact
// plan without entering Python.
//
// Decisions where the contract leaves room:
//  - `_C.Recipe(data, kernels=None)`: `data` is the contract's dictionary. A step's kernel ('object', sha, symbol) is resolved by `kernels`:
//    a callable (sha, symbol) -> address, a dict {(sha, symbol): address}, or a sequence of addresses, one per step. A plain int is an address.
//  - a dtype in a recipe is a code (int) or a graph name ('f32');
//  - strides None mean contiguous; bytes_slot -1 means the layout's own size;
//  - arithmetic wraps in 64 bits; sizes that overflow are refused where layouts are interned.
#include "op.h"
#include <numeric>

namespace rl {

PyTypeObject* RecipeType;

// ------------------------------------------------------------------------------------------------- reading plain data
static const char* const INT_OPS[] = {"add", "sub", "mul", "floordiv", "mod", "min", "max", "eq", "ne", "lt", "le", "and", "or", "not", "select", "neg", "ceildiv", "gcd"};
enum IntOp : uint8_t { I_ADD, I_SUB, I_MUL, I_FLOORDIV, I_MOD, I_MIN, I_MAX, I_EQ, I_NE, I_LT, I_LE, I_AND, I_OR, I_NOT, I_SELECT, I_NEG, I_CEILDIV, I_GCD, I_COUNT };

// Graph names of dtypes, in the order of DType.
static const char* const DTYPE_NAMES[] = {"b1", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128", "u16", "u32", "u64", "f8e4m3", "f8e5m2", "c32"};

// One recipe is read with a sticky failure: the first bad field names itself, the rest is skipped.
struct Reader {
  bool ok = true;
  void fail(const char* where, const char* what) {
    if (ok && !PyErr_Occurred()) raise(PyExc_TypeError, "bad recipe: %s: %s", where, what);
    ok = false;
  }
  int64_t integer(PyObject* o, const char* where) {
    if (!ok) return 0;
    if (!o || !PyLong_Check(o)) { fail(where, "an int is needed"); return 0; }
    int64_t v = PyLong_AsLongLong(o);
    if (v == -1 && PyErr_Occurred()) ok = false;
    return v;
  }
  int32_t slot(PyObject* o, const char* where) {
    if (o == Py_None) return -1;
    int64_t v = integer(o, where);
    if (ok && (v < -1 || v > (1 << 28))) fail(where, "a slot is out of range");
    return (int32_t)v;
  }
  // Calls `each` for the items of a list or tuple; None and a missing field are empty.
  template <class F> void each(PyObject* o, const char* where, F&& item) {
    if (!ok || !o || o == Py_None) return;
    PyObject* fast = PySequence_Fast(o, "bad recipe: a list is needed");
    if (!fast) { ok = false; return; }
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(fast); i++) item(PySequence_Fast_GET_ITEM(fast, i));
    Py_DECREF(fast);
    (void)where;
  }
  PyObject* at(PyObject* o, Py_ssize_t i, const char* where) {       // borrowed
    if (!ok) return nullptr;
    if (!o || !(PyTuple_Check(o) || PyList_Check(o)) || i >= PySequence_Fast_GET_SIZE(o)) { fail(where, "a longer tuple is needed"); return nullptr; }
    return PySequence_Fast_GET_ITEM(o, i);
  }
  const char* text(PyObject* o, const char* where) {
    if (!ok) return "";
    if (!o || !PyUnicode_Check(o)) { fail(where, "a str is needed"); return ""; }
    const char* s = PyUnicode_AsUTF8(o);
    if (!s) { ok = false; return ""; }
    return s;
  }
  void slots(PyObject* o, const char* where, std::vector<int32_t>* out) { each(o, where, [&](PyObject* e) { out->push_back(slot(e, where)); }); }
  DType dtype(PyObject* o, const char* where) {
    if (ok && o && PyUnicode_Check(o)) {
      const char* s = text(o, where);
      for (int i = 0; i < (int)(sizeof(DTYPE_NAMES) / sizeof(*DTYPE_NAMES)); i++) if (!strcmp(DTYPE_NAMES[i], s)) return (DType)i;
      fail(where, "unknown dtype");
      return DType::Bool;
    }
    int64_t v = integer(o, where);
    if (ok && (v < 0 || v >= (int64_t)DType::Count)) fail(where, "unknown dtype");
    return (DType)v;
  }
};

static RefKind ref_kind(Reader& r, PyObject* o, const char* where) {
  const char* s = r.text(o, where);
  if (!strcmp(s, "arg")) return RefKind::Arg;
  if (!strcmp(s, "dest")) return RefKind::Dest;
  if (!strcmp(s, "buffer")) return RefKind::Buffer;
  if (!strcmp(s, "view")) return RefKind::View;
  if (!strcmp(s, "none")) return RefKind::None;
  r.fail(where, "unknown reference");
  return RefKind::None;
}

static Kernel resolve_kernel(Reader& r, PyObject* spec, PyObject* kernels, Py_ssize_t step, bool* draws) {
  *draws = false;
  if (!r.ok) return nullptr;
  if (PyLong_Check(spec)) return (Kernel)(uintptr_t)r.integer(spec, "kernel");
  const char* kind = r.text(r.at(spec, 0, "kernel"), "kernel");
  if (!strcmp(kind, "native")) {
    const char* name = r.text(r.at(spec, 1, "kernel"), "kernel");
    *draws = r.ok && !strncmp(name, "draw_", 5);      // by name: only those touch the generator
    Kernel k = r.ok ? native_kernel_find(name) : nullptr;
    if (r.ok && !k) { if (!PyErr_Occurred()) raise(PyExc_RuntimeError, "bad recipe: no native kernel is named '%s'", name); r.ok = false; }
    return k;
  }
  PyObject *sha = r.at(spec, 1, "kernel"), *symbol = r.at(spec, 2, "kernel"), *address = nullptr;
  if (!r.ok) return nullptr;
  if (!kernels || kernels == Py_None) { r.fail("kernel", "an object's symbol needs the `kernels` argument"); return nullptr; }
  if (PyDict_Check(kernels)) {
    PyObject* key = PyTuple_Pack(2, sha, symbol);
    address = key ? PyDict_GetItemWithError(kernels, key) : nullptr;
    Py_XDECREF(key); Py_XINCREF(address);
  } else if (PyCallable_Check(kernels)) {
    address = PyObject_CallFunctionObjArgs(kernels, sha, symbol, nullptr);
  } else {
    address = PySequence_GetItem(kernels, step);
  }
  if (!address) { r.fail("kernel", "its symbol has no address"); return nullptr; }
  int64_t v = r.integer(address, "kernel address");
  Py_DECREF(address);
  if (r.ok && !v) r.fail("kernel", "its address is null");
  return (Kernel)(uintptr_t)v;
}

static PyObject* exception_type(const char* name) {        // borrowed; builtins only, anything else is a RuntimeError
  static const struct { const char* name; PyObject** type; } KNOWN[] = {
      {"IndexError", &PyExc_IndexError}, {"ValueError", &PyExc_ValueError}, {"TypeError", &PyExc_TypeError}, {"RuntimeError", &PyExc_RuntimeError},
      {"ZeroDivisionError", &PyExc_ZeroDivisionError}, {"OverflowError", &PyExc_OverflowError}, {"NotImplementedError", &PyExc_NotImplementedError},
      {"ArithmeticError", &PyExc_ArithmeticError}, {"AssertionError", &PyExc_AssertionError}};
  for (auto& k : KNOWN) if (!strcmp(k.name, name)) return *k.type;
  if (!strcmp(name, "LinAlgError")) return LinAlgError;
  return PyExc_RuntimeError;
}

// Every slot used must exist, and every reference point at something: a recipe from a damaged cache must not read wild memory.
static void check_slots(Reader& r, const Parsed& p) {
  // The number of entry slots depends on the call, so only instructions can be checked here against each other; plan_evaluate checks the rest.
  int nbuffers = (int)p.buffers.size();
  for (auto& s : p.steps) for (auto& q : s.pointers) {
    if (q.kind == RefKind::Buffer && (q.index < 0 || q.index >= nbuffers)) r.fail("pointers", "no such buffer");
    if (q.kind == RefKind::View || q.kind == RefKind::None || q.index < 0) r.fail("pointers", "unknown reference");
  }
  for (auto& o : p.outputs) if (o.kind == RefKind::Buffer && (o.index < 0 || o.index >= nbuffers)) r.fail("outputs", "no such buffer");
  for (int h : p.hidden) if (h < 0 || h >= nbuffers) r.fail("hidden", "no such buffer");
  for (auto& s : p.saves) {
    int limit = s.kind == SaveKind::Output ? (int)p.outputs.size() : s.kind == SaveKind::Hidden ? (int)p.hidden.size() : 1 << 20;
    if (s.index < 0 || s.index >= limit) r.fail("saves", "no such value");
  }
}

static bool read_recipe(PyObject* data, PyObject* kernels, Parsed* p) {
  Reader r;
  auto field = [&](const char* name) { return PyDict_GetItemString(data, name); };
  r.each(field("consts"), "consts", [&](PyObject* o) { p->consts.push_back(r.integer(o, "consts")); });
  r.each(field("program"), "program", [&](PyObject* o) {
    Instruction in{I_COUNT, -1, -1, -1};
    PyObject* code = r.at(o, 0, "program");
    if (r.ok && PyUnicode_Check(code)) {
      const char* s = r.text(code, "program");
      for (int i = 0; i < I_COUNT; i++) if (!strcmp(INT_OPS[i], s)) in.opcode = (uint8_t)i;
    } else {
      int64_t v = r.integer(code, "program");
      if (v >= 0 && v < I_COUNT) in.opcode = (uint8_t)v;
    }
    if (r.ok && in.opcode == I_COUNT) r.fail("program", "unknown opcode");
    if (!r.ok) return;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (n > 1) in.a = r.slot(r.at(o, 1, "program"), "program");
    if (n > 2) in.b = r.slot(r.at(o, 2, "program"), "program");
    if (n > 3) in.c = r.slot(r.at(o, 3, "program"), "program");
    p->program.push_back(in);
  });
  r.slots(field("guards"), "guards", &p->guards);
  r.each(field("buffers"), "buffers", [&](PyObject* o) {
    BufferSpec b;
    b.dtype = r.dtype(r.at(o, 0, "buffers"), "buffers");
    r.slots(r.at(o, 1, "buffers"), "buffers", &b.shape);
    r.slots(r.at(o, 2, "buffers"), "buffers", &b.strides);
    b.bytes = r.slot(r.at(o, 3, "buffers"), "buffers");
    if (r.ok && !b.strides.empty() && b.strides.size() != b.shape.size()) r.fail("buffers", "shape and strides differ in length");
    p->buffers.push_back(std::move(b));
  });
  r.each(field("outputs"), "outputs", [&](PyObject* o) {
    OutputSpec u{ref_kind(r, r.at(o, 0, "outputs"), "outputs"), -1, DType::Bool, {}, {}, -1};
    if (u.kind != RefKind::None) u.index = r.slot(r.at(o, 1, "outputs"), "outputs");
    if (r.ok && u.kind == RefKind::View) {
      u.dtype = r.dtype(r.at(o, 2, "outputs"), "outputs");
      r.slots(r.at(o, 3, "outputs"), "outputs", &u.shape);
      r.slots(r.at(o, 4, "outputs"), "outputs", &u.strides);
      u.offset = r.slot(r.at(o, 5, "outputs"), "outputs");
    }
    p->outputs.push_back(std::move(u));
  });
  r.slots(field("hidden"), "hidden", &p->hidden);
  if (PyObject* once = field("once")) p->once = r.integer(once, "once") != 0;
  if (PyObject* unreached = field("unreached")) p->unreached = r.integer(unreached, "unreached") != 0;
  if (PyObject* constant = field("constant")) p->constant = (uint64_t)r.integer(constant, "constant");
  r.each(field("steps"), "steps", [&](PyObject* o) {
    StepSpec s;
    s.kernel = resolve_kernel(r, r.at(o, 0, "steps"), kernels, (Py_ssize_t)p->steps.size(), &s.draws);
    PyObject* spec = r.at(o, 0, "steps");                       // ('native', name, first error): its third item may be absent
    s.first_error = r.ok && PyTuple_Check(spec) && PyTuple_GET_SIZE(spec) == 3 && PyLong_Check(PyTuple_GET_ITEM(spec, 2)) ? (int32_t)r.integer(PyTuple_GET_ITEM(spec, 2), "kernel") : 0;
    r.each(r.at(o, 1, "steps"), "pointers", [&](PyObject* q) {
      PointerSpec ref{ref_kind(r, r.at(q, 0, "pointers"), "pointers"), r.slot(r.at(q, 1, "pointers"), "pointers"), -1};
      if (r.ok && PySequence_Fast_GET_SIZE(q) > 2) ref.offset = r.slot(r.at(q, 2, "pointers"), "pointers");
      s.pointers.push_back(ref);
    });
    r.slots(r.at(o, 2, "steps"), "ints", &s.ints);
    r.slots(r.at(o, 3, "steps"), "scalars", &s.scalars);
    s.units = r.slot(r.at(o, 4, "steps"), "steps");
    s.grain = r.slot(r.at(o, 5, "steps"), "steps");
    s.cost = r.slot(r.at(o, 6, "steps"), "steps");
    s.scratch = r.slot(r.at(o, 7, "steps"), "steps");
    p->steps.push_back(std::move(s));
  });
  r.each(field("errors"), "errors", [&](PyObject* o) {
    const char* type = r.text(r.at(o, 0, "errors"), "errors");
    PyObject* exception = exception_type(type);
    int32_t size = PySequence_Size(o) > 2 ? r.slot(r.at(o, 2, "errors"), "errors") : -1;
    p->errors.push_back({exception, r.text(r.at(o, 1, "errors"), "errors"), size});
  });
  r.each(field("warnings"), "warnings", [&](PyObject* o) {
    std::string text = r.text(r.at(o, 0, "warnings"), "warnings");
    p->warnings.push_back({text, r.integer(r.at(o, 1, "warnings"), "warnings") ? said_before(text) : nullptr});
  });
  r.each(field("saves"), "saves", [&](PyObject* o) {
    const char* s = r.text(r.at(o, 0, "saves"), "saves");
    SaveKind k = !strcmp(s, "arg") ? SaveKind::Arg : !strcmp(s, "output") ? SaveKind::Output : SaveKind::Hidden;
    if (r.ok && k == SaveKind::Hidden && strcmp(s, "hidden")) r.fail("saves", "unknown reference");
    p->saves.push_back({k, r.slot(r.at(o, 1, "saves"), "saves")});
  });
  r.slots(field("backward_syms"), "backward_syms", &p->backward_syms);
  if (PyObject* node = field("node"); node && node != Py_None) p->node = r.text(node, "node");
  if (r.ok) check_slots(r, *p);
  if (PyObject* key = field("backward"); r.ok && key && key != Py_None) {
    p->backward_op = backward_op_of(key);
    if (!p->backward_op) return false;
    Py_INCREF(key);
    p->backward = key;
  }
  if (!r.ok && !PyErr_Occurred()) raise(PyExc_TypeError, "bad recipe");
  return r.ok;
}

// ---------------------------------------------------------------------------------------------------- the Python type
static PyObject* recipe_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"data", "kernels", nullptr};
  PyObject *data, *kernels = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O", (char**)names, &PyDict_Type, &data, &kernels)) return nullptr;
  Recipe* self = (Recipe*)type->tp_alloc(type, 0);
  if (!self) return nullptr;
  Py_INCREF(data);
  self->data = data;
  self->parsed = new Parsed();
  if (!read_recipe(data, kernels, self->parsed)) { Py_DECREF(self); return nullptr; }
  return (PyObject*)self;
}
static void recipe_dealloc(PyObject* o) {
  Recipe* self = (Recipe*)o;
  if (self->parsed) { Py_XDECREF(self->parsed->backward); delete self->parsed; }
  Py_XDECREF(self->data);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}
static PyObject* recipe_data(PyObject* o, void*) { PyObject* d = ((Recipe*)o)->data; Py_INCREF(d); return d; }
static PyObject* recipe_repr(PyObject* o) {
  Parsed* p = ((Recipe*)o)->parsed;
  return PyUnicode_FromFormat("<Recipe: %zd instructions, %zd guards, %zd buffers, %zd steps>", (Py_ssize_t)p->program.size(), (Py_ssize_t)p->guards.size(),
                              (Py_ssize_t)p->buffers.size(), (Py_ssize_t)p->steps.size());
}
static PyGetSetDef recipe_getset[] = {{"data", recipe_data, nullptr, "The dictionary this recipe was made from.", nullptr}, {}};
static PyType_Slot recipe_slots[] = {{Py_tp_new, (void*)recipe_new}, {Py_tp_dealloc, (void*)recipe_dealloc}, {Py_tp_repr, (void*)recipe_repr},
    {Py_tp_getset, recipe_getset}, {Py_tp_doc, (void*)"Recipe(data, kernels=None): what the compiler decided about one kind of call."}, {0, nullptr}};
static PyType_Spec recipe_spec = {"rushlight._C.Recipe", sizeof(Recipe), 0, Py_TPFLAGS_DEFAULT, recipe_slots};

// -------------------------------------------------------------------------------------------- the integer language
static inline int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  int64_t m = a % b;
  return m && ((m < 0) != (b < 0)) ? m + b : m;
}
static int64_t evaluate(const Instruction& in, const int64_t* v) {
  auto a = [&] { return v[in.a]; };
  auto b = [&] { return v[in.b]; };
  switch ((IntOp)in.opcode) {
    case I_ADD: return wrap_add(a(), b());
    case I_SUB: return (int64_t)((uint64_t)a() - (uint64_t)b());
    case I_MUL: return wrap_mul(a(), b());
    case I_FLOORDIV: return floor_div(a(), b());
    case I_MOD: return floor_mod(a(), b());
    case I_MIN: return a() < b() ? a() : b();
    case I_MAX: return a() > b() ? a() : b();
    case I_EQ: return a() == b();
    case I_NE: return a() != b();
    case I_LT: return a() < b();
    case I_LE: return a() <= b();
    case I_AND: return a() && b();
    case I_OR: return a() || b();
    case I_NOT: return !a();
    case I_SELECT: return a() ? b() : v[in.c];
    case I_NEG: return (int64_t)(0 - (uint64_t)a());
    case I_CEILDIV: return b() ? (int64_t)(0 - (uint64_t)floor_div((int64_t)(0 - (uint64_t)a()), b())) : 0;
    case I_GCD: {
      uint64_t x = a() < 0 ? 0 - (uint64_t)a() : (uint64_t)a(), y = b() < 0 ? 0 - (uint64_t)b() : (uint64_t)b();
      return (int64_t)std::gcd(x, y);
    }
    default: return 0;
  }
}
// How many operands an instruction has, so that unused ones need not be valid slots.
static int arity(uint8_t opcode) { return opcode == I_SELECT ? 3 : opcode == I_NOT || opcode == I_NEG ? 1 : 2; }

// ------------------------------------------------------------------------------------------------ evaluation to a plan
static bool bad_recipe(const Call& c, const char* what) {
  raise(PyExc_RuntimeError, "bad recipe for %s: %s", c.op->text, what);
  return false;
}

// The device a call's results live on: an explicit `device=` rules, else a meta operand makes everything meta.
static Device result_device(const Call& c) {
  if (!c.op->is_backward) {
    const Signature& sig = signature_of(c);
    Args a(c);
    for (const Param& p : sig.params) {
      if (p.face_only) continue;
      const int64_t* ints; Tensor** ts; int64_t v; Scalar s;
      switch (p.kind) {
        case ParamKind::Device: { Device d; if (a.device(&d)) return d; break; }
        case ParamKind::Tensor: a.tensor(); break;
        case ParamKind::TensorList: a.tensor_list(&ts); break;
        case ParamKind::TensorOrScalar: a.tensor(); a.scalar(&s); break;
        case ParamKind::Scalar: case ParamKind::Float:
          if (p.by_value) { if (a.word()) a.is += 2; } else a.scalar(&s);
          break;
        case ParamKind::Int: case ParamKind::Bool: if (p.optional) a.maybe_integer(&v); else a.integer(); break;
        case ParamKind::IntList: a.int_list(&ints); break;
        case ParamKind::SymInt: if (p.optional) a.maybe_sym(&v); else a.sym(); break;
        case ParamKind::SymIntList: a.sym_list(&ints); break;
        case ParamKind::Generator: break;
        case ParamKind::ScalarList: a.is += (int)a.word(); break;
        default: a.word(); break;
      }
    }
  }
  for (int i = 0; i < c.nt; i++) if (c.t[i] && c.t[i]->layout->device == Device::Meta) return Device::Meta;
  return Device::CPU;
}

static void entry_slots(const Layout* l, std::vector<int64_t>* v) { v->insert(v->end(), l->d, l->d + 2 * l->ndim); }

static Layout* slots_layout(DType dtype, Device device, const std::vector<int32_t>& shape, const std::vector<int32_t>& strides, const int64_t* v) {
  int64_t s[MAX_DIMS], t[MAX_DIMS];
  int n = (int)shape.size();
  if (n > MAX_DIMS) { raise(PyExc_RuntimeError, "too many dimensions: %d", n); return nullptr; }
  for (int i = 0; i < n; i++) s[i] = v[shape[i]];
  for (int i = 0; i < (int)strides.size(); i++) t[i] = v[strides[i]];
  return layout_intern(dtype, device, n, s, strides.empty() ? nullptr : t);
}

// ScalarKinds of the call's run-time scalars, in the order of c.scalars: the tape hands them to the backward op.
static void scalar_kinds(const Call& c, std::vector<uint8_t>* kinds) {
  Args a(c);
  for (const Param& p : signature_of(c).params) {
    if (p.face_only) continue;
    const int64_t* ints; Tensor** ts; int64_t v;
    switch (p.kind) {
      case ParamKind::Tensor: case ParamKind::Generator: break;
      case ParamKind::TensorOrScalar: if (uint64_t k = a.word()) kinds->push_back((uint8_t)k); break;
      case ParamKind::Scalar: case ParamKind::Float: {
        uint64_t k = a.word();
        if (p.by_value) { if (k) a.is += 2; } else if (k) kinds->push_back((uint8_t)k);
        break;
      }
      case ParamKind::ScalarList: for (uint64_t n = a.word(); n--;) kinds->push_back((uint8_t)a.word()); break;
      case ParamKind::TensorList: a.tensor_list(&ts); break;
      case ParamKind::Int: case ParamKind::Bool: if (p.optional) a.maybe_integer(&v); else a.integer(); break;
      case ParamKind::IntList: a.int_list(&ints); break;
      case ParamKind::SymInt: if (p.optional) a.word(); break;
      case ParamKind::SymIntList: a.word(); break;
      default: a.word(); break;
    }
  }
}

// Memory of a plan: the struct and all its arrays in one block.
struct Carver {
  char* base; size_t used;
  template <class T> T* take(size_t n) {
    used = (used + alignof(T) - 1) & ~(alignof(T) - 1);
    T* p = base ? (T*)(base + used) : nullptr;
    used += n * sizeof(T);
    return p;
  }
};

static size_t carve(Plan* plan, char* base, const Parsed& r, size_t nkinds, Step** steps, Pointer** pointers, int64_t** ints, int32_t** scalars, int64_t** syms, uint8_t** kinds) {
  size_t npointers = 0, nints = 0, nstep_scalars = 0;
  for (auto& s : r.steps) { npointers += s.pointers.size(); nints += s.ints.size(); nstep_scalars += s.scalars.size(); }
  Carver m{base, sizeof(Plan)};
  Buffer* buffers = m.take<Buffer>(r.buffers.size());
  *steps = m.take<Step>(r.steps.size());
  Output* outs = m.take<Output>(r.outputs.size());
  *pointers = m.take<Pointer>(npointers);
  *ints = m.take<int64_t>(nints);
  *scalars = m.take<int32_t>(nstep_scalars);
  *syms = m.take<int64_t>(r.backward_syms.size());
  *kinds = m.take<uint8_t>(nkinds);
  if (plan) { plan->buffers = buffers; plan->steps = *steps; plan->outs = outs; }
  return m.used;
}

static const int64_t BIG_WORK = 1 << 20, PARALLEL_WORK = 1 << 16;

Plan* plan_evaluate(Recipe* recipe, const Call& c, uint64_t mask, bool* applies) {
  const Parsed& r = *recipe->parsed;
  ++g_stats.recipe_evaluations;
  *applies = true;
  std::vector<int64_t> v;
  v.reserve(64 + r.consts.size() + r.program.size());
  for (int i = 0; i < c.nt; i++) if (c.t[i]) entry_slots(c.t[i]->layout, &v);
  if (c.form == 2) for (int i = 0; i < c.ndest; i++) entry_slots(c.dests[i]->layout, &v);
  v.insert(v.end(), c.syms, c.syms + c.nsym);
  v.insert(v.end(), r.consts.begin(), r.consts.end());
  for (const Instruction& in : r.program) {
    int64_t have = (int64_t)v.size();
    const int32_t operand[] = {in.a, in.b, in.c};
    for (int i = 0; i < arity(in.opcode); i++) if (operand[i] < 0 || operand[i] >= have) { bad_recipe(c, "the program reads a slot that does not exist"); return nullptr; }
    v.push_back(evaluate(in, v.data()));
  }
  int64_t nslots = (int64_t)v.size();
  bool in_range = true;
  auto have = [&](int32_t s) { if (s >= nslots) in_range = false; return s; };
  for (int32_t g : r.guards) have(g);
  for (auto& b : r.buffers) { for (int32_t s : b.shape) have(s); for (int32_t s : b.strides) have(s); have(b.bytes); }
  for (auto& s : r.steps) {
    for (int32_t i : s.ints) have(i);
    for (auto& p : s.pointers) {
      have(p.offset);
      if (p.kind == RefKind::Arg && (p.index >= c.nt || !c.t[p.index])) in_range = false;
      if (p.kind == RefKind::Dest && p.index >= c.ndest) in_range = false;
    }
    for (int32_t i : s.scalars) if (i < 0 || i >= c.nscalar) in_range = false;
    have(s.units); have(s.grain); have(s.cost); have(s.scratch);
  }
  for (auto& o : r.outputs) {
    for (int32_t s : o.shape) have(s);
    for (int32_t s : o.strides) have(s);
    have(o.offset);
    if ((o.kind == RefKind::Arg || o.kind == RefKind::View) && (o.index < 0 || o.index >= c.nt || !c.t[o.index])) in_range = false;
    if (o.kind == RefKind::Dest && (o.index < 0 || o.index >= c.ndest)) in_range = false;
  }
  for (auto& s : r.saves) if (s.kind == SaveKind::Arg && s.index >= c.nt) in_range = false;
  for (int32_t s : r.backward_syms) have(s);
  for (auto& e : r.errors) have(e.size);
  if (!in_range) { bad_recipe(c, "it refers to an argument or slot that does not exist"); return nullptr; }
  for (int32_t g : r.guards) if (g >= 0 && !v[g]) { ++g_stats.guard_failures; *applies = false; return nullptr; }

  std::vector<uint8_t> kinds;
  scalar_kinds(c, &kinds);
  Step* steps; Pointer* pointers; int64_t *ints, *syms; int32_t* scalars; uint8_t* kind_bytes;
  size_t bytes = carve(nullptr, nullptr, r, kinds.size(), &steps, &pointers, &ints, &scalars, &syms, &kind_bytes);
  Plan* p = (Plan*)calloc(1, bytes);
  if (!p) { PyErr_NoMemory(); return nullptr; }
  carve(p, (char*)p, r, kinds.size(), &steps, &pointers, &ints, &scalars, &syms, &kind_bytes);
  p->rc = 1; p->mask = mask; p->op = c.op; p->form = c.form; p->nargs = c.nt;
  Py_INCREF(recipe);
  p->recipe = recipe;
  p->hidden = r.hidden.data(); p->nhidden = (int32_t)r.hidden.size();
  if (!kinds.empty()) memcpy(kind_bytes, kinds.data(), kinds.size());
  p->scalar_kinds = kind_bytes; p->nscalars = (int32_t)kinds.size();
  for (size_t i = 0; i < r.backward_syms.size(); i++) syms[i] = r.backward_syms[i] >= 0 ? v[r.backward_syms[i]] : 0;
  p->backward_syms = syms; p->nbackward_syms = (int32_t)r.backward_syms.size();
  p->backward_op = mask ? r.backward_op : nullptr;
  p->node_name = r.node.empty() ? "Backward0" : r.node.c_str();
  p->saves = r.saves.data(); p->nsaves = (int32_t)r.saves.size();
  if (!r.errors.empty()) {
    p->error_sizes = (int64_t*)malloc(r.errors.size() * sizeof(int64_t));
    if (!p->error_sizes) { plan_free(p); PyErr_NoMemory(); return nullptr; }
    for (size_t i = 0; i < r.errors.size(); i++) p->error_sizes[i] = r.errors[i].size >= 0 ? v[r.errors[i].size] : 0;
  }

  Device device = result_device(c);
  p->meta = device == Device::Meta;
  for (auto& b : r.buffers) {
    Layout* l = slots_layout(b.dtype, device, b.shape, b.strides, v.data());
    if (!l) { plan_free(p); return nullptr; }
    int64_t n = b.bytes >= 0 ? v[b.bytes] : l->nbytes;
    p->buffers[p->nbuffers++] = {l, n};
    if (n < 0) { bad_recipe(c, "a buffer has a negative size"); plan_free(p); return nullptr; }
  }
  for (auto& o : r.outputs) {
    Output& u = p->outs[p->nouts];
    u = {o.kind, o.index, nullptr, 0};
    if (o.kind == RefKind::View) {
      u.layout = slots_layout(o.dtype, device, o.shape, o.strides, v.data());
      if (!u.layout) { plan_free(p); return nullptr; }
      u.offset = o.offset >= 0 ? v[o.offset] : 0;
    }
    p->nouts++;
  }
  bool views = false, draws = false;
  for (auto& o : r.outputs) views |= o.kind != RefKind::Buffer;
  for (auto& s : r.steps) {
    Step& q = steps[p->nsteps++];
    q.kernel = s.kernel; q.draws = s.draws; q.first_error = s.first_error;
    q.pointers = pointers; q.npointers = (int32_t)s.pointers.size();
    for (auto& ref : s.pointers) *pointers++ = {ref.kind, ref.index, ref.offset >= 0 ? v[ref.offset] : 0};
    q.ints = ints;
    for (int32_t i : s.ints) *ints++ = i >= 0 ? v[i] : 0;
    bool in_order = true;
    for (size_t i = 0; i < s.scalars.size(); i++) { scalars[i] = s.scalars[i]; in_order &= s.scalars[i] == (int32_t)i; }
    q.scalars = in_order ? nullptr : scalars; q.nscalars = (int32_t)s.scalars.size();
    scalars += s.scalars.size();
    q.units = s.units >= 0 ? v[s.units] : 1;
    q.grain = s.grain >= 0 && v[s.grain] > 0 ? v[s.grain] : q.units;
    q.scratch = s.scratch >= 0 ? v[s.scratch] : 0;
    int64_t cost = s.cost >= 0 ? v[s.cost] : 0;
    q.parallel = cost >= PARALLEL_WORK && q.units > q.grain && !s.draws;
    p->work = wrap_add(p->work, cost);
    draws |= s.draws;
    p->npointers += q.npointers;
    if (q.scalars && q.nscalars > p->max_scalars) p->max_scalars = q.nscalars;
  }
  p->draws = draws;
  // Draws touch the generator, so such a plan keeps the GIL.
  p->big = p->work >= BIG_WORK && !draws && !p->meta;
  p->warns = !r.warnings.empty();
  p->only_view = p->nouts == 1 && p->outs[0].kind == RefKind::View && !p->nsteps && !p->nbuffers && !p->warns && !p->backward_op;
  p->simple = c.form == 0 && !p->warns && !p->meta && !draws && !p->big && !views && p->nsteps == 1 && p->nouts == 1 && p->nbuffers == 1 &&
              p->outs[0].index == 0 && !p->steps[0].parallel && !p->steps[0].scalars && p->npointers <= 8;
  return p;
}

void plan_free(Plan* p) {
  for (int i = 0; i < p->nbuffers; i++) decref(p->buffers[i].layout);
  for (int i = 0; i < p->nouts; i++) if (p->outs[i].layout) decref(p->outs[i].layout);
  if (p->op && p->op->last == p) p->op->last = nullptr;
  Py_XDECREF(p->recipe);
  Py_XDECREF(p->request);
  free((void*)p->key);
  free(p->error_sizes);
  free(p);
}

// --------------------------------------------------------------------------------------------------- backward calls
bool backward_call(Call& c, const Plan* plan, Tensor** grads, int ngrads, Tensor** saved, int nsaved, uint64_t needed, const Scalar* scalars) {
  int nscalars = plan->nscalars, nsyms = plan->nbackward_syms;
  if (!call_reserve(c, ngrads + nsaved, 6 + nscalars, nsyms, nscalars)) return false;
  c.op = plan->backward_op;
  c.form = 0; c.overload = 0;
  for (int i = 0; i < ngrads; i++) c.t[i] = grads[i];
  for (int i = 0; i < nsaved; i++) c.t[ngrads + i] = saved[i];
  c.nt = ngrads + nsaved;
  uint64_t* w = c.static_words;
  *w++ = (uint64_t)ngrads; *w++ = (uint64_t)nsaved; *w++ = needed; *w++ = (uint64_t)nsyms; *w++ = (uint64_t)nscalars;
  for (int i = 0; i < nscalars; i++) { *w++ = plan->scalar_kinds[i]; c.scalars[i] = scalars[i]; }
  c.nstatic = (int)(w - c.static_words);
  c.nscalar = nscalars;
  for (int i = 0; i < nsyms; i++) c.syms[i] = plan->backward_syms[i];
  c.nsym = nsyms;
  return true;
}

bool init_recipe(PyObject* m) {
  RecipeType = (PyTypeObject*)PyType_FromSpec(&recipe_spec);
  return RecipeType && PyModule_AddObjectRef(m, "Recipe", (PyObject*)RecipeType) == 0;
}

}  // namespace rl
