// `_C.Op` and its faces: the objects Python calls. An op has signatures and a definition; a face is one way to call it:
//   op.function           rushlight.add: does not bind, so `class M: act = rushlight.relu` works
//   op.method             Tensor.add: binds
//   op.inplace_function, op.inplace_method      add_: the first argument is also the destination
// `_C.OpFunction(op, name=None, module=None, form=0)` and `_C.OpMethod(op, name=None, form=0)` make more of them (aliases, `nn.functional` names).
// Faces pickle by module and qualified name, and answer inspect.signature().
//
// Decisions: `forms` is an iterable of 'inplace', 'out' (functions and methods always exist); `returns` is a list of (type, name or None), or the text after
// the schema's arrow; named results become a struct sequence `torch.return_types.NAME`, found as `op.result_type`; lists come back as tuples, as in torch.
#include "compat.h"
#include "op.h"

namespace rl {

PyTypeObject *OpType, *OpFunctionType, *OpMethodType;
PyObject* g_required;
extern PyObject* g_disabled_torch_function;

// ------------------------------------------------------------------------------------------------------ named results
static PyObject* result_repr(PyObject* o) {        // torch.return_types.max(\nvalues=…,\nindices=…)
  std::string s = std::string(Py_TYPE(o)->tp_name) + "(";
  PyObject* names = PyObject_GetAttrString(o, "__match_args__");
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names) && i < PyTuple_GET_SIZE(o); i++) {
    PyObject* r = PyObject_Repr(PyTuple_GET_ITEM(o, i));
    const char* text = r ? PyUnicode_AsUTF8(r) : nullptr;
    if (!text) { Py_XDECREF(r); Py_DECREF(names); return nullptr; }
    s += std::string(i ? ",\n" : "\n") + PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i)) + "=" + text;
    Py_DECREF(r);
  }
  if (!names) return nullptr;
  Py_DECREF(names);
  return PyUnicode_FromString((s + ")").c_str());
}

// The types say that they are torch's, and are found here.
static PyObject* result_reduce(PyObject* o, PyObject*) {
  PyObject *module = PyImport_ImportModule("rushlight.return_types"), *made = module ? PyObject_GetAttrString(module, "_made") : nullptr, *values = made ? PySequence_Tuple(o) : nullptr;
  PyObject* out = values ? Py_BuildValue("O(sO)", made, strrchr(Py_TYPE(o)->tp_name, '.') + 1, values) : nullptr;
  Py_XDECREF(module); Py_XDECREF(made); Py_XDECREF(values);
  return out;
}
static PyMethodDef result_methods[] = {{"__reduce__", result_reduce, METH_NOARGS, nullptr}, {}};

static PyTypeObject* result_type(const char* op_name, const std::vector<std::string>& fields) {
  // The descriptor's texts must outlive the type, which lives for ever.
  std::string* name = new std::string(std::string("torch.return_types.") + op_name);
  auto* members = new std::vector<PyStructSequence_Field>();
  for (auto& f : fields) members->push_back({(new std::string(f))->c_str(), nullptr});
  members->push_back({nullptr, nullptr});
  PyStructSequence_Desc desc{name->c_str(), nullptr, members->data(), (int)fields.size()};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  PyObject* reduce = type ? PyDescr_NewMethod(type, result_methods) : nullptr;
  if (!reduce || PyObject_SetAttrString((PyObject*)type, "__reduce__", reduce) < 0) Py_CLEAR(type);
  Py_XDECREF(reduce);
  if (type) { type->tp_repr = result_repr; PyType_Modified(type); }
  return type;
}

// `returns`: "Tensor", "Tensor[]", "(Tensor values, Tensor indices)", or a list of (type, name or None).
static bool read_returns(PyObject* o, const char* op_name, Signature* sig) {
  std::vector<std::string> types, names;
  if (PyUnicode_Check(o)) {
    std::string s = PyUnicode_AsUTF8(o);
    if (!s.empty() && s.front() == '(') s = s.substr(1, s.size() - 2);
    size_t at = 0;
    while (at <= s.size()) {
      size_t comma = std::min(s.find(',', at), s.size());
      std::string item = s.substr(at, comma - at);
      while (!item.empty() && item.front() == ' ') item.erase(0, 1);
      size_t space = item.find(' ');
      types.push_back(item.substr(0, space));
      names.push_back(space == std::string::npos ? "" : item.substr(space + 1));
      at = comma + 1;
    }
  } else {
    PyObject* items = PySequence_Fast(o, "returns: a list is needed");
    if (!items) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); i++) {
      PyObject* e = PySequence_Fast_GET_ITEM(items, i);
      PyObject *type = e, *name = Py_None;
      if (PyTuple_Check(e) && PyTuple_GET_SIZE(e) == 2) { type = PyTuple_GET_ITEM(e, 0); name = PyTuple_GET_ITEM(e, 1); }
      if (!PyUnicode_Check(type) || (name != Py_None && !PyUnicode_Check(name))) { Py_DECREF(items); raise(PyExc_TypeError, "%s: returns must be (type, name) pairs", op_name); return false; }
      types.push_back(PyUnicode_AsUTF8(type));
      names.push_back(name == Py_None ? "" : PyUnicode_AsUTF8(name));
    }
    Py_DECREF(items);
  }
  sig->returns = types.size() == 1 ? (types[0].find("[]") != std::string::npos ? ReturnKind::List : ReturnKind::One) : ReturnKind::Tuple;
  bool named = sig->returns == ReturnKind::Tuple;
  for (auto& n : names) named &= !n.empty();
  if (named) sig->result_type = result_type(op_name, names);
  return !named || sig->result_type;
}

// ---------------------------------------------------------------------------------------------------------- signatures
static bool read_param(PyObject* o, Op* op, Signature* sig) {
  PyObject *name, *fallback;
  const char* type;
  int keyword_only;
  if (!PyTuple_Check(o) || !PyArg_ParseTuple(o, "UsOp;a parameter is (name, type, default, keyword_only)", &name, &type, &fallback, &keyword_only)) {
    if (!PyErr_Occurred()) raise(PyExc_TypeError, "%s: a parameter is (name, type, default, keyword_only)", op->text);
    return false;
  }
  Param p{};
  if (!parse_param_type(type, &p)) return false;
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  p.name = name;
  p.keyword_only = keyword_only;
  p.face_only = p.kind == ParamKind::Bool && (!strcmp(PyUnicode_AsUTF8(name), "requires_grad") || !strcmp(PyUnicode_AsUTF8(name), "pin_memory"));
  p.fallback = nullptr;
  if (fallback != g_required) {
    // A memory format's default is written by name in a schema.
    if (p.kind == ParamKind::MemoryFormat && PyUnicode_Check(fallback)) {
      static const struct { const char* name; MemoryFormat code; } FORMATS[] = {{"contiguous_format", MemoryFormat::Contiguous}, {"preserve_format", MemoryFormat::Preserve},
          {"channels_last", MemoryFormat::ChannelsLast}, {"channels_last_3d", MemoryFormat::ChannelsLast3d}};
      PyObject* found = nullptr;
      for (auto& f : FORMATS) if (!strcmp(PyUnicode_AsUTF8(fallback), f.name)) found = memory_format_object(f.code);
      if (!found) { raise(PyExc_ValueError, "%s: unknown memory format '%U'", op->text, fallback); return false; }
      fallback = found;
    }
    Py_INCREF(fallback);
    p.fallback = fallback;
  }
  if (!p.keyword_only) sig->positional++;
  if (!p.fallback) sig->required++;
  sig->has_written |= p.written;
  if (!encode_default(op, &p)) return false;
  sig->params.push_back(std::move(p));
  return true;
}

static bool read_signature(PyObject* o, Op* op) {
  PyObject *params, *returns;
  if (!PyTuple_Check(o) || PyTuple_GET_SIZE(o) != 2) { raise(PyExc_TypeError, "%s: a signature is (params, returns)", op->text); return false; }
  params = PyTuple_GET_ITEM(o, 0);
  returns = PyTuple_GET_ITEM(o, 1);
  Signature sig;
  PyObject* items = PySequence_Fast(params, "params: a list is needed");
  bool good = items != nullptr;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(items); i++) good = read_param(PySequence_Fast_GET_ITEM(items, i), op, &sig);
  Py_XDECREF(items);
  if (!good || !read_returns(returns, op->text, &sig)) return false;
  bool number_or_tensor = false, tensor = false;
  for (auto& p : sig.params) { number_or_tensor |= p.kind == ParamKind::TensorOrScalar; tensor |= p.kind == ParamKind::Tensor || p.kind == ParamKind::TensorList; }
  sig.needs_tensor = number_or_tensor && !tensor;
  sig.plain_from = (int)sig.params.size();
  Encoded tail;
  sig.tails.push_back(tail);
  for (; sig.plain_from && sig.params[sig.plain_from - 1].fallback; sig.plain_from--) {
    const Encoded& e = sig.params[sig.plain_from - 1].encoded;
    tail.statics.insert(tail.statics.begin(), e.statics.begin(), e.statics.end());
    tail.syms.insert(tail.syms.begin(), e.syms.begin(), e.syms.end());
    tail.scalars.insert(tail.scalars.begin(), e.scalars.begin(), e.scalars.end());
    tail.tensors += e.tensors;
    tail.only_words = tail.syms.empty() && tail.scalars.empty() && !tail.tensors;
    sig.tails.insert(sig.tails.begin(), tail);
  }
  // parse_plain asks for no more room than there is: two words for a parameter, and lists look for theirs
  if (sig.params.size() > Call::INLINE || tail.statics.size() > 16 || tail.syms.size() > 16 || tail.scalars.size() > Call::SCALARS) sig.plain_from = INT_MAX;
  op->signatures->push_back(std::move(sig));
  return true;
}

// ---------------------------------------------------------------------------------------------------------------- Op
static uint32_t g_next_op_id = 1;

static bool read_forms(PyObject* o, Op* op) {
  op->forms = FORM_FUNCTION | FORM_METHOD;
  if (!o || o == Py_None) return true;
  if (PyLong_Check(o)) { op->forms |= (uint8_t)PyLong_AsLong(o); return !PyErr_Occurred(); }
  PyObject* items = PySequence_Fast(o, "forms: a list of names is needed");
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); i++) {
    const char* s = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(items, i));
    if (!s) { Py_DECREF(items); return false; }
    if (!strcmp(s, "inplace")) op->forms |= FORM_INPLACE;
    else if (!strcmp(s, "out")) op->forms |= FORM_OUT;
    else if (strcmp(s, "function") && strcmp(s, "method")) { raise(PyExc_ValueError, "%s: unknown form '%s'", op->text, s); Py_DECREF(items); return false; }
  }
  Py_DECREF(items);
  return true;
}

static PyObject* op_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"name", "signatures", "definition", "forms", "native", nullptr};
  PyObject *name, *signatures, *definition = Py_None, *forms = nullptr, *native = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UO|OOO", (char**)keywords, &name, &signatures, &definition, &forms, &native)) return nullptr;
  Op* op = (Op*)type->tp_alloc(type, 0);
  if (!op) return nullptr;
  op->signatures = new std::vector<Signature>();
  op->name = Py_NewRef(name);
  op->text = PyUnicode_AsUTF8(name);
  op->definition = Py_NewRef(definition);
  op->id = g_next_op_id++;
  op->native_overload = -1;
  if (PyTuple_Check(native)) {               // (name, signature): the others are compiled
    int which = 0;
    if (!PyArg_ParseTuple(native, "Oi", &native, &which)) { Py_DECREF(op); return nullptr; }
    op->native_overload = (int16_t)which;
  }
  if (native != Py_None) {
    const char* s = PyUnicode_Check(native) ? PyUnicode_AsUTF8(native) : nullptr;
    op->native = s ? native_find(s) : nullptr;
    if (!op->native) { raise(PyExc_RuntimeError, "%s: no native operator is named '%S'", op->text, native); Py_DECREF(op); return nullptr; }
  }
  bool good = read_forms(forms, op);
  PyObject* list = good ? PySequence_Fast(signatures, "signatures: a list is needed") : nullptr;
  good = list && PySequence_Fast_GET_SIZE(list) > 0;
  if (list && !good) raise(PyExc_ValueError, "%s: at least one signature is needed", op->text);
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(list); i++) good = read_signature(PySequence_Fast_GET_ITEM(list, i), op);
  Py_XDECREF(list);
  if (good && op->signatures->size() > 255) { raise(PyExc_ValueError, "%s: too many signatures", op->text); good = false; }
  op->direct = !op->native;
  for (auto& s : *op->signatures) op->direct &= s.returns == ReturnKind::One && !s.has_written;
  // What the definition says, if it says it: a reference, or null; an error other than its absence is the caller's.
  auto said = [&](const char* name) { PyObject* value = nullptr; if (good && optional_attribute(definition, name, &value) < 0) good = false; return value; };
  auto flag = [&](const char* name) { PyObject* value = said(name); int yes = value ? PyObject_IsTrue(value) : 0; Py_XDECREF(value); if (yes < 0) good = false; return yes > 0; };
  op->one_value = flag("one_value");
  if (flag("numbers")) for (auto& s : *op->signatures) s.needs_tensor = false;
  op->separate = flag("separate");
  op->converts = flag("converts");
  if (PyObject* layout = said("layout")) {
    const char* text = PyUnicode_Check(layout) ? PyUnicode_AsUTF8(layout) : nullptr;
    op->pointwise = text && !strncmp(text, "pointwise", 9);           // also "pointwise contiguous", whose results are dense
    Py_DECREF(layout);
  }
  if (definition != Py_None) op->doc = said("__doc__");
  if (!good || !op_register(op)) { Py_DECREF(op); return nullptr; }
  return (PyObject*)op;
}
// Registered ops live for ever (op_register keeps a reference); this runs only for one that could not be made.
static void op_dealloc(PyObject* o) {
  Op* op = (Op*)o;
  plans_forget(op);
  if (op->signatures)
    for (auto& s : *op->signatures) {
      for (auto& p : s.params) { Py_XDECREF(p.name); Py_XDECREF(p.fallback); }
      Py_XDECREF(s.result_type);
    }
  delete op->signatures;
  Py_XDECREF(op->name); Py_XDECREF(op->definition); Py_XDECREF(op->doc);
  Py_XDECREF((PyObject*)op->function); Py_XDECREF((PyObject*)op->method); Py_XDECREF((PyObject*)op->inplace_function); Py_XDECREF((PyObject*)op->inplace_method);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}
static PyObject* op_repr(PyObject* o) { return PyUnicode_FromFormat("<Op %U>", ((Op*)o)->name); }

// --------------------------------------------------------------------------------------------------------------- faces
static PyObject* face_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames);

static Face* face_make(PyTypeObject* type, Op* op, PyObject* name, PyObject* module, uint8_t form) {
  Face* f = (Face*)type->tp_alloc(type, 0);
  if (!f) return nullptr;
  f->vectorcall = face_call;
  Py_INCREF(op);
  f->op = op;
  f->form = form;
  f->is_method = type == OpMethodType;
  PyObject* own = nullptr;
  if (name) f->name = Py_NewRef(name);
  else {
    if (op->definition != Py_None) optional_attribute(op->definition, "short_name", &own);
    if (PyErr_Occurred()) PyErr_Clear();
    PyObject* base = own && PyUnicode_Check(own) ? own : op->name;
    f->name = form == 1 ? PyUnicode_FromFormat("%U_", base) : Py_NewRef(base);
    Py_XDECREF(own);
  }
  f->qualname = f->name ? (f->is_method ? PyUnicode_FromFormat("Tensor.%U", f->name) : Py_NewRef(f->name)) : nullptr;
  f->module = module && module != Py_None ? Py_NewRef(module) : PyUnicode_InternFromString("rushlight");
  f->doc = Py_NewRef(op->doc ? op->doc : Py_None);
  if (!f->name || !f->qualname || !f->module) { Py_DECREF(f); return nullptr; }
  return f;
}

Face* op_face(Op* op, bool method, uint8_t form) {
  if (form == 1 && !(op->forms & FORM_INPLACE)) { raise(PyExc_AttributeError, "%s has no in-place form", op->text); return nullptr; }
  Face** slot = form == 1 ? (method ? &op->inplace_method : &op->inplace_function) : (method ? &op->method : &op->function);
  if (!*slot) *slot = face_make(method ? OpMethodType : OpFunctionType, op, nullptr, nullptr, form);
  return *slot;
}

static PyObject* face_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* keywords[] = {"op", "name", "module", "form", nullptr};
  PyObject *op, *name = Py_None, *module = Py_None;
  int form = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OOi", (char**)keywords, OpType, &op, &name, &module, &form)) return nullptr;
  if (name != Py_None && !PyUnicode_Check(name)) return raise(PyExc_TypeError, "name must be str");
  if (form < 0 || form > 1) return raise(PyExc_ValueError, "form must be 0 or 1");
  if (form == 1 && !(((Op*)op)->forms & FORM_INPLACE)) return raise(PyExc_ValueError, "%s has no in-place form", ((Op*)op)->text);
  return (PyObject*)face_make(type, (Op*)op, name == Py_None ? nullptr : name, module, (uint8_t)form);
}
static void face_dealloc(PyObject* o) {
  Face* f = (Face*)o;
  Py_XDECREF(f->op); Py_XDECREF(f->name); Py_XDECREF(f->qualname); Py_XDECREF(f->module); Py_XDECREF(f->doc); Py_XDECREF(f->dict);
  PyTypeObject* type = Py_TYPE(o);
  type->tp_free(o);
  Py_DECREF(type);
}
static PyObject* face_repr(PyObject* o) {
  Face* f = (Face*)o;
  return f->is_method ? PyUnicode_FromFormat("<method '%U' of 'torch.Tensor' objects>", f->name) : PyUnicode_FromFormat("<function %U.%U>", f->module, f->qualname);
}
static PyObject* face_bind(PyObject* self, PyObject* object, PyObject*) {
  return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}
static PyObject* face_reduce(PyObject* o, PyObject*) { return Py_NewRef(((Face*)o)->qualname); }
static PyObject* face_signature(PyObject* o, void*) { return signature_object((Face*)o); }
static PyObject* face_text_signature(PyObject* o, void*) { return text_signature((Face*)o); }

// ------------------------------------------------------------------------------------------------- the life of a call
// Which types want the call: each overriding type once, subclasses before their bases, otherwise from left to right.
static bool collect_types(PyObject* o, PyObject* list, bool nested) {
  if (nested && (PyTuple_Check(o) || PyList_Check(o))) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++) if (!collect_types(PySequence_Fast_GET_ITEM(o, i), list, false)) return false;
    return true;
  }
  if (!has_torch_function(o)) return true;
  PyObject* type = (PyObject*)Py_TYPE(o);
  Py_ssize_t at = PyList_GET_SIZE(list);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    if (PyList_GET_ITEM(list, i) == type) return true;
    if (at == PyList_GET_SIZE(list) && PyType_IsSubtype((PyTypeObject*)type, (PyTypeObject*)PyList_GET_ITEM(list, i))) at = i;
  }
  return PyList_Insert(list, at, type) == 0;
}

static PyObject* call_hook(PyObject* hook, Face* face, PyObject* types, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  PyObject* tuple = PyTuple_New(nargs);
  PyObject* kwargs = PyDict_New();
  bool good = tuple && kwargs;
  for (Py_ssize_t i = 0; good && i < nargs; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; good && kwnames && i < PyTuple_GET_SIZE(kwnames); i++) good = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) == 0;
  PyObject* r = good ? PyObject_CallFunctionObjArgs(hook, (PyObject*)face, types, tuple, kwargs, nullptr) : nullptr;
  Py_XDECREF(tuple); Py_XDECREF(kwargs);
  return r;
}

PyObject* override_handler() {
  if (!g_hooks.torch_function) {
    PyObject* module = PyImport_ImportModule("rushlight.overrides");
    g_hooks.torch_function = module ? PyObject_GetAttrString(module, "dispatch") : nullptr;
    Py_XDECREF(module);
  }
  return g_hooks.torch_function;
}

PyObject* dispatch_override(Face* face, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (!override_handler()) return nullptr;
  Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  PyObject* list = PyList_New(0);
  for (Py_ssize_t i = 0; list && i < total; i++) if (!collect_types(args[i], list, true)) Py_CLEAR(list);
  PyObject* types = list ? PyList_AsTuple(list) : nullptr;
  PyObject* r = types ? call_hook(g_hooks.torch_function, face, types, args, nargs, kwnames) : nullptr;
  Py_XDECREF(list); Py_XDECREF(types);
  return r;
}

PyObject* wrap_results(const Call& c, PyObject** outs, int n) {
  const Signature& sig = signature_of(c);
  for (int i = 0; i < n; i++) if (!outs[i]) outs[i] = Py_NewRef(Py_None);
  if (RL_LIKELY(sig.returns == ReturnKind::One && n == 1)) return outs[0];
  if (n == 0 && sig.returns != ReturnKind::List) Py_RETURN_NONE;
  PyObject* result;
  if (sig.result_type) {
    result = PyStructSequence_New(sig.result_type);
    for (int i = 0; i < n; i++) { if (result) PyStructSequence_SET_ITEM(result, i, outs[i]); else Py_DECREF(outs[i]); }
    return result;
  }
  result = PyTuple_New(n);
  for (int i = 0; i < n; i++) { if (result) PyTuple_SET_ITEM(result, i, outs[i]); else Py_DECREF(outs[i]); }
  return result;
}

// How many results an op that returns a list may have: a native one is told the room it has before it counts.
static int list_capacity(const Call& c) {
  int64_t most = 64 + c.nt + c.nsym;
  const int64_t limit = 1 << 24;
  if (c.nt && c.t[0]) for (int i = 0; i < c.t[0]->layout->ndim; i++) most = std::max(most, c.t[0]->layout->shape()[i] + 64);
  for (int i = 0; i < c.nsym; i++) if (c.syms[i] < limit) most = std::max(most, c.syms[i] + 64);
  for (int i = 0; i < c.nstatic; i++) if (c.static_words[i] < (uint64_t)limit) most = std::max(most, (int64_t)c.static_words[i] + 64);
  return (int)std::min(most, limit * 2);
}

static bool mark_requires_grad(PyObject* o) {
  if (!o || !is_tensor(o)) return true;
  Tensor* t = (Tensor*)o;
  char kind = DTYPES[(int)t->layout->dtype].kind;
  if (kind != 'f' && kind != 'c') { raise(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients"); return false; }
  t->requires_grad = 1;
  return true;
}

static PyObject* finish_into(Call& c, PyObject** outs, int max) {
  int n = run_call(c, outs, max);
  if (RL_UNLIKELY(n < 0)) return nullptr;
  if (RL_UNLIKELY(c.requires_grad))
    for (int i = 0; i < n; i++) if (!mark_requires_grad(outs[i])) { for (int k = 0; k < n; k++) Py_XDECREF(outs[k]); return nullptr; }
  return wrap_results(c, outs, n);
}

static RL_APART PyObject* finish_otherwise(Call& c) {
  PyObject* inline_outs[16];
  if (RL_LIKELY(signature_of(c).returns != ReturnKind::List)) return finish_into(c, inline_outs, 16);
  int max = list_capacity(c);
  PyObject** outs = (PyObject**)malloc(sizeof(PyObject*) * (size_t)max);     // untouched pages cost nothing
  if (!outs) return PyErr_NoMemory();
  PyObject* r = finish_into(c, outs, max);
  free(outs);
  return r;
}

PyObject* call_finish(Call& c) {
  if (RL_UNLIKELY(!c.op->direct || c.form || c.requires_grad)) return finish_otherwise(c);
  Plan* p = plan_lookup(c, grad_mask(c));
  PyObject* out = nullptr;
  if (RL_UNLIKELY(!p || plan_run(p, c, &out, 1) < 0)) return nullptr;
  return RL_LIKELY(out != nullptr) ? out : Py_NewRef(Py_None);
}

// out=: one tensor, or a tuple for several results.
static bool take_out(const Face* face, PyObject* out, Call& c) {
  c.form = 2;
  c.ndest = 0;
  auto add = [&](PyObject* o) {
    if (!is_tensor(o)) { raise(PyExc_TypeError, "%U(): argument 'out' must be Tensor, not %s", face->name, Py_TYPE(o)->tp_name); return false; }
    if (c.ndest == 8) { raise(PyExc_TypeError, "%U(): too many out= tensors", face->name); return false; }
    c.dests[c.ndest++] = (Tensor*)o;
    return true;
  };
  if (!PyTuple_Check(out) && !PyList_Check(out)) return add(out);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(out); i++) if (!add(PySequence_Fast_GET_ITEM(out, i))) return false;
  return true;
}

static RL_APART bool method_receiver(const Face* face, PyObject* const* args, Py_ssize_t nargs) {
  if (nargs && (is_tensor(args[0]) || has_torch_function(args[0]))) return true;
  if (!nargs) raise(PyExc_TypeError, "unbound method Tensor.%U() needs an argument", face->name);
  else raise(PyExc_TypeError, "descriptor '%U' for 'torch.Tensor' objects doesn't apply to a '%s' object", face->name, Py_TYPE(args[0])->tp_name);
  return false;
}

static PyObject* face_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Face* face = (Face*)self;
  Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  uint32_t guard = tls.guard;
  if (RL_UNLIKELY((guard & G_DISPATCH) && !(guard & G_NO_DISPATCH))) {
    if (guard & G_MODE) return dispatch_override(face, args, nargs, kwnames);
    if (g_hooks.guarded) return call_hook(g_hooks.guarded, face, Py_None, args, nargs, kwnames);
  }
  if (face->is_method && !(nargs && is_exact(args[0])) && !method_receiver(face, args, nargs)) return nullptr;
  Call c;
  c.op = face->op;
  c.form = face->form;
  if (RL_UNLIKELY(kwnames || !parse_plain(face, args, nargs, c))) {
    PyObject* out = nullptr;
    ParseResult r = parse_call(face, args, nargs, kwnames, c, &out);
    if (RL_UNLIKELY(r == ParseResult::Error)) return nullptr;
    if (RL_UNLIKELY(r == ParseResult::Overloaded) && !(guard & G_NO_DISPATCH)) return dispatch_override(face, args, nargs, kwnames);
    if (RL_UNLIKELY(out != nullptr) && out != Py_None) {
      if (!(guard & G_NO_DISPATCH) && has_torch_function(out)) return dispatch_override(face, args, nargs, kwnames);
      if (!take_out(face, out, c)) return nullptr;
    }
  }
  if (RL_UNLIKELY(face->form == 1)) {
    if (!c.nt || !c.t[0]) return raise(PyExc_TypeError, "%U(): argument 'self' (position 1) must be Tensor", face->name);
    c.dests[c.ndest++] = c.t[0];
  }
  return call_finish(c);
}

// ------------------------------------------------------------------------------------------------------------- getters
static PyObject* op_get_face(PyObject* o, void* which) {
  intptr_t w = (intptr_t)which;
  Face* f = op_face((Op*)o, w & 1, (uint8_t)(w >> 1));
  return f ? Py_NewRef((PyObject*)f) : nullptr;
}
static PyObject* op_get_definition(PyObject* o, void*) { return Py_NewRef(((Op*)o)->definition); }
static int op_set_definition(PyObject* o, PyObject* v, void*) {
  if (!v) { raise(PyExc_AttributeError, "definition cannot be deleted"); return -1; }
  Py_SETREF(((Op*)o)->definition, Py_NewRef(v));
  return 0;
}
static PyObject* op_get_native(PyObject* o, void*) { return PyBool_FromLong(((Op*)o)->native != nullptr); }
static PyObject* op_get_pointwise(PyObject* o, void*) { return PyBool_FromLong(((Op*)o)->pointwise); }
static int op_set_pointwise(PyObject* o, PyObject* v, void*) {
  int truth = v ? PyObject_IsTrue(v) : 0;
  if (truth < 0) return -1;
  ((Op*)o)->pointwise = (uint8_t)truth;
  return 0;
}
static PyObject* op_get_result_type(PyObject* o, void*) {
  for (auto& s : *((Op*)o)->signatures) if (s.result_type) return Py_NewRef((PyObject*)s.result_type);
  Py_RETURN_NONE;
}
static PyObject* op_get_forms(PyObject* o, void*) {
  uint8_t f = ((Op*)o)->forms;
  PyObject* list = PyList_New(0);
  auto add = [&](const char* s) { PyObject* u = PyUnicode_FromString(s); if (u) { PyList_Append(list, u); Py_DECREF(u); } };
  if (!list) return nullptr;
  if (f & FORM_INPLACE) add("inplace");
  if (f & FORM_OUT) add("out");
  PyObject* t = PyList_AsTuple(list);
  Py_DECREF(list);
  return t;
}
static PyObject* op_get_id(PyObject* o, void*) { return PyLong_FromUnsignedLong(((Op*)o)->id); }

static PyGetSetDef op_getset[] = {
    {"function", op_get_face, nullptr, "the function, which does not bind", (void*)0}, {"method", op_get_face, nullptr, "the method of Tensor", (void*)1},
    {"inplace_function", op_get_face, nullptr, "the function that writes its first argument", (void*)2},
    {"inplace_method", op_get_face, nullptr, "the method that writes its tensor", (void*)3}, {"definition", op_get_definition, op_set_definition, "whatever Python attached", nullptr},
    {"native", op_get_native, nullptr, "implemented in C++", nullptr},
    {"pointwise", op_get_pointwise, op_set_pointwise, "overlapping operands of an in-place call are an error, as torch's pointwise ops have it", nullptr},
    {"result_type", op_get_result_type, nullptr, "the named tuple of its results, or None", nullptr}, {"forms", op_get_forms, nullptr, "'inplace', 'out'", nullptr},
    {"id", op_get_id, nullptr, "part of every plan key", nullptr}, {}};
static PyMemberDef op_members[] = {{"name", RL_T_OBJECT, offsetof(Op, name), RL_READONLY}, {"__doc__", RL_T_OBJECT, offsetof(Op, doc), 0}, {}};
static PyType_Slot op_slots[] = {{Py_tp_new, (void*)op_new}, {Py_tp_dealloc, (void*)op_dealloc}, {Py_tp_repr, (void*)op_repr}, {Py_tp_getset, op_getset}, {Py_tp_members, op_members}, {0, nullptr}};
static PyType_Spec op_spec = {"rushlight._C.Op", sizeof(Op), 0, Py_TPFLAGS_DEFAULT, op_slots};

static PyMemberDef face_members[] = {{"__vectorcalloffset__", RL_T_PYSSIZET, offsetof(Face, vectorcall), RL_READONLY}, {"__dictoffset__", RL_T_PYSSIZET, offsetof(Face, dict), RL_READONLY},
    {"__name__", RL_T_OBJECT, offsetof(Face, name), 0}, {"__qualname__", RL_T_OBJECT, offsetof(Face, qualname), 0}, {"__module__", RL_T_OBJECT, offsetof(Face, module), 0},
    {"__doc__", RL_T_OBJECT, offsetof(Face, doc), 0}, {"op", RL_T_OBJECT, offsetof(Face, op), RL_READONLY}, {}};
static PyGetSetDef face_getset[] = {{"__signature__", face_signature, nullptr, nullptr, nullptr}, {"__text_signature__", face_text_signature, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr}, {}};
static PyMethodDef face_methods[] = {{"__reduce__", face_reduce, METH_NOARGS, nullptr}, {}};
static PyType_Slot function_slots[] = {{Py_tp_new, (void*)face_new}, {Py_tp_dealloc, (void*)face_dealloc}, {Py_tp_repr, (void*)face_repr}, {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_members, face_members}, {Py_tp_getset, face_getset}, {Py_tp_methods, face_methods}, {0, nullptr}};
static PyType_Slot method_slots[] = {{Py_tp_new, (void*)face_new}, {Py_tp_dealloc, (void*)face_dealloc}, {Py_tp_repr, (void*)face_repr}, {Py_tp_call, (void*)PyVectorcall_Call},
    {Py_tp_members, face_members}, {Py_tp_getset, face_getset}, {Py_tp_methods, face_methods}, {Py_tp_descr_get, (void*)face_bind}, {0, nullptr}};
// Immutable: only then does the interpreter remember where a method was found (LOAD_METHOD, LOAD_ATTR).
static PyType_Spec function_spec = {"rushlight._C.OpFunction", sizeof(Face), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL, function_slots};
static PyType_Spec method_spec = {"rushlight._C.OpMethod", sizeof(Face), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    method_slots};

// REQUIRED is its own little type, so that it prints as what it means.
static PyObject* required_repr(PyObject*) { return PyUnicode_FromString("REQUIRED"); }
static PyType_Slot required_slots[] = {{Py_tp_repr, (void*)required_repr}, {0, nullptr}};
static PyType_Spec required_spec = {"rushlight._C.Required", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, required_slots};

bool init_op(PyObject* m) {
  OpType = (PyTypeObject*)PyType_FromSpec(&op_spec);
  OpFunctionType = (PyTypeObject*)PyType_FromSpec(&function_spec);
  OpMethodType = (PyTypeObject*)PyType_FromSpec(&method_spec);
  PyTypeObject* required = (PyTypeObject*)PyType_FromSpec(&required_spec);
  if (!OpType || !OpFunctionType || !OpMethodType || !required) return false;
  g_required = PyObject_New(PyObject, required);
  Py_DECREF(required);
  return g_required && PyModule_AddObjectRef(m, "Op", (PyObject*)OpType) == 0 && PyModule_AddObjectRef(m, "OpFunction", (PyObject*)OpFunctionType) == 0 &&
         PyModule_AddObjectRef(m, "OpMethod", (PyObject*)OpMethodType) == 0 && PyModule_AddObjectRef(m, "REQUIRED", g_required) == 0 && init_recipe(m) && init_calls(m);
}

}  // namespace rl
