// Which signature a call means, and what is said when it means none: overloads are tried in order, errors use torch's words.
//
// A face adds to its op's signatures: functions call a leading `self` tensor `input`, methods do not count it; functions take `out=` when the op has
// that form; numpy's names for some parameters (axis, keepdims …) are understood, as torch understands them.
#include "compat.h"
#include "op.h"
#include <algorithm>

namespace rl {

// ------------------------------------------------------------------------------------------------------ names of parameters
struct Names {
  PyObject *self, *input, *out, *dim, *axis, *keepdim, *keepdims, *other, *x, *a, *x1, *x2, *requires_grad;
  Names() {
    auto intern = [](const char* s) { return PyUnicode_InternFromString(s); };
    self = intern("self"); input = intern("input"); out = intern("out"); dim = intern("dim"); axis = intern("axis"); keepdim = intern("keepdim");
    keepdims = intern("keepdims"); other = intern("other"); x = intern("x"); a = intern("a"); x1 = intern("x1"); x2 = intern("x2");
    requires_grad = intern("requires_grad");
  }
};
static const Names& names() { static Names n; return n; }

// What the parameter is called through this face.
static PyObject* face_name(const Face* face, const Param& p) {
  return !face->is_method && p.name == names().self && (p.kind == ParamKind::Tensor || p.kind == ParamKind::TensorOrScalar) ? names().input : p.name;
}
// A function takes out=; a method does not, nor does what writes its first argument (it has where to write).
static bool takes_out(const Face* face) { return !face->is_method && !face->form && (face->op->forms & FORM_OUT); }
static bool same(PyObject* a, PyObject* b) { return a == b || PyUnicode_Compare(a, b) == 0; }
static bool answers_to(const Face* face, const Param& p, PyObject* keyword) {
  PyObject* name = face_name(face, p);
  if (same(name, keyword)) return true;
  const Names& n = names();
  if (name == n.dim) return same(keyword, n.axis);
  if (name == n.keepdim) return same(keyword, n.keepdims);
  if (name == n.other) return same(keyword, n.x2);
  if (name == n.input && p.kind == ParamKind::Tensor) return same(keyword, n.x) || same(keyword, n.a) || same(keyword, n.x1);
  return false;
}

static std::string text_of(PyObject* o, bool repr = false) {
  PyObject* s = repr ? PyObject_Repr(o) : PyObject_Str(o);
  const char* u = s ? PyUnicode_AsUTF8(s) : nullptr;
  std::string r = u ? u : "?";
  if (!u) PyErr_Clear();
  Py_XDECREF(s);
  return r;
}
static const char* type_text(PyObject* o) {
  if (is_tensor(o) && is_exact(o)) return Py_TYPE(o) == ParameterType ? "Parameter" : "Tensor";
  const char* name = Py_TYPE(o)->tp_name;
  const char* dot = strrchr(name, '.');
  return dot && !strncmp(name, "rushlight", 9) ? dot + 1 : name;
}

// ------------------------------------------------------------------------------------------------------------ one attempt
struct Given { Face* face; PyObject* const* args; Py_ssize_t nargs; PyObject* kwnames; Py_ssize_t nkw; };

static PyObject* find_keyword(const Given& g, const Param& p, Py_ssize_t* where) {      // borrowed
  PyObject* name = face_name(g.face, p);
  for (Py_ssize_t i = 0; i < g.nkw; i++) if (PyTuple_GET_ITEM(g.kwnames, i) == name) { *where = i; return g.args[g.nargs + i]; }
  for (Py_ssize_t i = 0; i < g.nkw; i++) if (answers_to(g.face, p, PyTuple_GET_ITEM(g.kwnames, i))) { *where = i; return g.args[g.nargs + i]; }
  return nullptr;
}
// `x.view(2, 3)`, `zeros(2, 3)`: the sole positional parameter (self aside) is a list, and the values stand where it would.
static bool takes_varargs(const Signature& sig, bool method) {
  if (sig.positional != (method ? 2 : 1)) return false;
  ParamKind k = sig.params[sig.positional - 1].kind;
  return k == ParamKind::IntList || k == ParamKind::SymIntList;
}
static bool is_integer(PyObject* o) {
  if (PyLong_Check(o)) return !PyBool_Check(o);
  if (!PyIndex_Check(o)) return false;
  if (!is_tensor(o)) return true;
  char kind = DTYPES[(int)((Tensor*)o)->layout->dtype].kind;
  return ((Tensor*)o)->layout->numel == 1 && (kind == 'i' || kind == 'u');
}

static int take_face_only(const Param& p, PyObject* v, Call& c) {
  if (v == Py_None) return 1;
  if (!PyBool_Check(v)) return 0;
  if (p.name == names().requires_grad) c.requires_grad = v == Py_True;
  return 1;
}

static int try_signature(const Given& g, int overload, Call& c, PyObject** out, bool* overloaded, bool strict) {
  Op* op = g.face->op;
  const Signature& sig = (*op->signatures)[overload];
  c.overload = (uint8_t)overload;
  int nparams = (int)sig.params.size();
  bool varargs = false;
  if (RL_UNLIKELY(nparams > 12) && !call_reserve(c, nparams + Call::INLINE, 3 * nparams + Call::WORDS, nparams + Call::WORDS, nparams + Call::SCALARS)) return -1;
  Py_ssize_t first_list = sig.positional - 1;
  if (RL_UNLIKELY(g.nargs > first_list) && takes_varargs(sig, g.face->is_method)) varargs = is_integer(g.args[first_list]);
  if (RL_UNLIKELY(g.nargs > sig.positional) && !varargs) return 0;
  Py_ssize_t keywords_used = 0;
  *out = nullptr;
  for (int i = 0; i < nparams; i++) {
    const Param& p = sig.params[i];
    PyObject* v;
    if (i < g.nargs && i < sig.positional) {
      v = g.args[i];
      if (RL_UNLIKELY(varargs) && i == first_list) {
        int r = convert_varargs(g.face, p, g.args + i, g.nargs - i, c);
        if (r <= 0) return r;
        continue;
      }
    } else {
      Py_ssize_t where;
      v = g.nkw ? find_keyword(g, p, &where) : nullptr;
      if (!v) {
        if (RL_UNLIKELY(!p.fallback)) return 0;
        if (RL_LIKELY(p.encoded.one_word)) c.static_words[c.nstatic++] = p.encoded.statics[0];
        else if (!p.face_only) append_encoded(c, p.encoded);
        continue;
      }
      keywords_used++;
    }
    // What most arguments are, without a call: a tensor, or a small integer that is part of the key.
    if (RL_LIKELY(p.kind == ParamKind::Tensor && is_exact(v))) { c.t[c.nt++] = (Tensor*)v; continue; }
    if (int64_t value; p.kind == ParamKind::Int && small_int(v, &value)) {
      if (p.optional) c.static_words[c.nstatic++] = 1;
      c.static_words[c.nstatic++] = (uint64_t)value;
      continue;
    }
    int r = RL_UNLIKELY(p.face_only) ? take_face_only(p, v, c) : convert_argument(g.face, op, p, v, c, overloaded, strict);
    if (RL_UNLIKELY(r <= 0)) return r;
  }
  if (sig.needs_tensor && !*overloaded) {
    bool any = false;
    for (int i = 0; i < c.nt; i++) any |= c.t[i] != nullptr;
    if (RL_UNLIKELY(!any)) return 0;
  }
  if (RL_LIKELY(keywords_used == g.nkw)) return 1;
  if (takes_out(g.face))
    for (Py_ssize_t i = 0; i < g.nkw; i++) if (same(PyTuple_GET_ITEM(g.kwnames, i), names().out)) { *out = g.args[g.nargs + i]; keywords_used++; }
  return keywords_used == g.nkw;
}

static void reset(Call& c) {
  c.nt = c.nstatic = c.nsym = c.nscalar = 0;
  c.generator = nullptr;
  c.requires_grad = 0;
  while (c.nkeep) Py_DECREF(c.keep[--c.nkeep]);
}

// ------------------------------------------------------------------------------------------------------------- messages
static std::string default_text(PyObject* v) {
  if (PyTuple_Check(v) || PyList_Check(v)) {
    std::string s = "(";
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(v); i++) s += (i ? ", " : "") + text_of(PySequence_Fast_GET_ITEM(v, i), true);
    return s + ")";
  }
  return text_of(v, true);
}
std::string signature_text(const Op*, const Signature& sig, bool method, bool with_out) {
  std::string s = "(";
  bool star = false, first = true;
  auto item = [&](const std::string& t) { s += (first ? "" : ", ") + t; first = false; };
  for (size_t i = method ? 1 : 0; i < sig.params.size(); i++) {
    const Param& p = sig.params[i];
    if (p.keyword_only && !star) { item("*"); star = true; }
    std::string name = !method && p.name == names().self && (p.kind == ParamKind::Tensor || p.kind == ParamKind::TensorOrScalar) ? "input" : text_of(p.name);
    item(param_type_text(p) + " " + name + (p.fallback ? " = " + default_text(p.fallback) : ""));
  }
  if (with_out && !method) { if (!star) item("*"); item("Tensor out = None"); }
  return s + ")";
}

static std::string plural(Py_ssize_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

// Why this one signature does not fit, as torch says it; empty when it does (or the reason is an error already raised).
static std::string misfit(const Given& g, int overload, bool* raised) {
  const Op* op = g.face->op;
  const Signature& sig = (*op->signatures)[overload];
  bool method = g.face->is_method;
  std::string name = text_of(g.face->name);
  Py_ssize_t skip = method ? 1 : 0, first_list = sig.positional - 1;
  bool varargs = takes_varargs(sig, method) && g.nargs > first_list && is_integer(g.args[first_list]);
  if (g.nargs > sig.positional && !varargs) {
    Py_ssize_t most = sig.positional - skip, got = g.nargs - skip;
    if (most == 0) return (method ? "Tensor." : "") + name + "() takes no arguments (" + std::to_string(got) + " given)";
    return name + "() takes " + plural(most, "positional argument") + " but " + std::to_string(got) + (got == 1 ? " was given" : " were given");
  }
  std::vector<std::string> missing;
  int first_number = -1;             // a number where a tensor would do: wrong when there is no tensor at all
  bool any_tensor = false;
  for (int i = 0; i < (int)sig.params.size(); i++) {
    const Param& p = sig.params[i];
    Py_ssize_t where = -1;
    PyObject* keyword = g.nkw ? find_keyword(g, p, &where) : nullptr;
    bool by_position = i < g.nargs && i < sig.positional;
    if (by_position && keyword) return name + "() got multiple values for argument '" + text_of(face_name(g.face, p)) + "'";
    if (!by_position && !keyword) {
      if (!p.fallback) missing.push_back(text_of(face_name(g.face, p)));
      continue;
    }
    if (by_position && varargs && i == first_list) continue;
    PyObject* v = by_position ? g.args[i] : keyword;
    Call scratch;
    scratch.op = (Op*)op;
    if (!call_reserve(scratch, 64, 64, 64, 64)) { *raised = true; return ""; }
    bool overloaded = false;
    int r = p.face_only ? take_face_only(p, v, scratch) : convert_argument(g.face, op, p, v, scratch, &overloaded, op->signatures->size() == 1);
    if (r < 0) { *raised = true; return ""; }
    for (int k = 0; k < scratch.nt; k++) any_tensor |= scratch.t[k] != nullptr;
    if (first_number < 0 && p.kind == ParamKind::TensorOrScalar && by_position) first_number = i;
    if (r == 0) {
      std::string at = by_position ? " (position " + std::to_string(i + 1 - skip) + ")" : "";
      bool list = p.kind == ParamKind::IntList || p.kind == ParamKind::SymIntList, empty = true;
      if (list && PyTuple_Check(v)) empty = PyTuple_GET_SIZE(v) == 0; else if (list && PyList_Check(v)) empty = PyList_GET_SIZE(v) == 0;
      std::string found = empty ? std::string(", not ") + type_text(v)                       // a list whose first element is wrong is said to be a list of the wrong things
          : std::string(", but found element of type ") + type_text(PyTuple_Check(v) ? PyTuple_GET_ITEM(v, 0) : PyList_GET_ITEM(v, 0)) + " at pos 0";
      return name + "(): argument '" + text_of(face_name(g.face, p)) + "'" + at + " must be " + param_type_text(p) + found;
    }
  }
  if (!missing.empty()) {
    std::string s = name + "() missing " + std::to_string(missing.size()) + " required positional arguments: ";
    for (size_t i = 0; i < missing.size(); i++) s += (i ? ", \"" : "\"") + missing[i] + "\"";
    return s;
  }
  if (sig.needs_tensor && !any_tensor && first_number >= 0)
    return name + "(): argument '" + text_of(face_name(g.face, sig.params[first_number])) + "' (position " + std::to_string(first_number + 1 - skip) + ") must be Tensor, not " +
           type_text(g.args[first_number]);
  for (Py_ssize_t i = 0; i < g.nkw; i++) {
    PyObject* k = PyTuple_GET_ITEM(g.kwnames, i);
    bool known = takes_out(g.face) && same(k, names().out);
    for (auto& p : sig.params) known |= answers_to(g.face, p, k);
    if (!known) return name + "() got an unexpected keyword argument '" + text_of(k) + "'";
  }
  return "";
}

static RL_APART void raise_no_match(const Given& g) {
  const Op* op = g.face->op;
  bool raised = false;
  if (op->signatures->size() == 1) {
    std::string why = misfit(g, 0, &raised);
    if (!raised) raise(PyExc_TypeError, "%s", why.empty() ? "invalid arguments" : why.c_str());
    return;
  }
  std::string got;
  for (Py_ssize_t i = g.face->is_method ? 1 : 0; i < g.nargs; i++) got += std::string(got.empty() ? "" : ", ") + type_text(g.args[i]);
  for (Py_ssize_t i = 0; i < g.nkw; i++) got += (got.empty() ? "" : ", ") + text_of(PyTuple_GET_ITEM(g.kwnames, i)) + "=" + type_text(g.args[g.nargs + i]);
  std::string s = text_of(g.face->name) + "() received an invalid combination of arguments - got (" + got + "), but expected one of:\n";
  for (size_t i = 0; i < op->signatures->size(); i++) {
    std::string why = misfit(g, (int)i, &raised);
    if (raised) { PyErr_Clear(); raised = false; }
    s += " * " + signature_text(op, (*op->signatures)[i], g.face->is_method, takes_out(g.face)) + "\n";
    if (!why.empty()) s += "      didn't match because " + why + "\n";
  }
  raise(PyExc_TypeError, "%s", s.c_str());
}

// -------------------------------------------------------------------------------------------------------------- parsing
// A list of small integers, given as a tuple or (spread) one by one: where the words go on; null: it is something else, or there is no room for it here.
static RL_APART uint64_t* plain_list(const Signature& sig, const Param& p, PyObject* const* items, Py_ssize_t n, bool spread, Call& c, uint64_t* words) {
  if (!spread) {
    if (!PyTuple_Check(*items)) return nullptr;
    n = PyTuple_GET_SIZE(*items);
    items = &PyTuple_GET_ITEM(*items, 0);
  }
  if (words - c.static_words + n + 2 * (Py_ssize_t)sig.params.size() + 16 > Call::WORDS || c.nsym + n + 16 > Call::WORDS) return nullptr;
  *words++ = (uint64_t)n;
  bool sym = p.kind == ParamKind::SymIntList;
  for (PyObject* const* end = items + n; items != end; items++) {
    int64_t value;
    if (!small_int(*items, &value)) return nullptr;
    if (sym) c.syms[c.nsym++] = value; else *words++ = (uint64_t)value;
  }
  return words;
}

// By position alone, each argument a tensor, a truth value, a small integer that is part of the key or a list of small integers, for the op's first signature.
bool parse_plain(const Face* face, PyObject* const* args, Py_ssize_t nargs, Call& c) {
  const Signature& sig = face->op->signatures->front();
  if (RL_UNLIKELY(nargs < sig.plain_from || (nargs > sig.positional && !takes_varargs(sig, face->is_method)))) return false;
  Tensor** t = c.t;
  uint64_t* words = c.static_words;
  const Param* p = sig.params.data();
  size_t given = (size_t)nargs;
  for (PyObject* const* end = args + nargs; args != end; args++, p++) {
    PyObject* v = *args;
    int64_t value = 0;
    if (p->kind == ParamKind::Tensor) {
      if (RL_UNLIKELY(!is_exact(v))) {
        if (v != Py_None || !p->optional) goto otherwise;
        v = nullptr;
      }
      *t++ = (Tensor*)v;
    } else if (p->kind == ParamKind::TensorOrScalar) {
      if (!is_exact(v)) goto otherwise;
      *words++ = 0;
      *t++ = (Tensor*)v;
    } else if (p->kind == ParamKind::Int ? small_int(v, &value) : p->kind == ParamKind::Bool && !p->face_only && PyBool_Check(v)) {
      if (p->optional) *words++ = 1;
      *words++ = p->kind == ParamKind::Int ? (uint64_t)value : v == Py_True;
    } else if (p->kind == ParamKind::SymIntList || p->kind == ParamKind::IntList) {
      bool spread = takes_varargs(sig, face->is_method) && !(PyTuple_Check(v) && nargs == sig.positional);       // `x.view(2, 3)`
      if (!(words = plain_list(sig, *p, args, end - args, spread, c, words))) goto otherwise;
      if (spread) { given = (size_t)sig.positional; break; }
    } else goto otherwise;
  }
  if (RL_UNLIKELY(sig.needs_tensor && t == c.t)) goto otherwise;
  {
    const Encoded& tail = sig.tails[given - (size_t)sig.plain_from];
    for (uint64_t w : tail.statics) *words++ = w;
    c.nt = (int)(t - c.t);
    c.nstatic = (int)(words - c.static_words);
    if (!tail.only_words) append_others(c, tail);
  }
  return true;
otherwise:
  c.nsym = 0;
  return false;
}

ParseResult parse_call(Face* face, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Call& c, PyObject** out) {
  Given g{face, args, nargs, kwnames, kwnames ? PyTuple_GET_SIZE(kwnames) : 0};
  int n = (int)face->op->signatures->size();
  for (int i = 0; i < n; i++) {
    bool overloaded = false;
    int r = try_signature(g, i, c, out, &overloaded, n == 1);
    if (RL_LIKELY(r > 0)) return RL_UNLIKELY(overloaded) ? ParseResult::Overloaded : ParseResult::Ok;
    if (r < 0) return ParseResult::Error;
    reset(c);
  }
  raise_no_match(g);
  return ParseResult::Error;
}

// ------------------------------------------------------------------------------------------- what inspect and help() see
PyObject* text_signature(const Face* face) {
  const Signature& sig = face->op->signatures->front();
  std::string s = "(";
  bool star = false;
  for (size_t i = 0; i < sig.params.size(); i++) {
    const Param& p = sig.params[i];
    if (i) s += ", ";
    if (p.keyword_only && !star) { s += "*, "; star = true; }
    s += text_of(face_name(face, p));
    if (p.fallback) s += "=" + text_of(p.fallback, true);
  }
  if (takes_out(face)) s += std::string(sig.params.empty() ? "" : ", ") + (star ? "" : "*, ") + "out=None";
  return PyUnicode_FromString((s + ")").c_str());
}

PyObject* signature_object(const Face* face) {
  PyObject *inspect = PyImport_ImportModule("inspect"), *parameter = nullptr, *list = nullptr, *result = nullptr;
  if (!inspect) return nullptr;
  parameter = PyObject_GetAttrString(inspect, "Parameter");
  list = PyList_New(0);
  auto add = [&](PyObject* name, const char* kind, PyObject* fallback) {
    PyObject* k = PyObject_GetAttrString(parameter, kind);
    PyObject* args = k ? PyTuple_Pack(2, name, k) : nullptr;
    PyObject* kwargs = PyDict_New();
    if (kwargs && fallback) PyDict_SetItemString(kwargs, "default", fallback);
    PyObject* p = args && kwargs ? PyObject_Call(parameter, args, kwargs) : nullptr;
    bool good = p && PyList_Append(list, p) == 0;
    Py_XDECREF(k); Py_XDECREF(args); Py_XDECREF(kwargs); Py_XDECREF(p);
    return good;
  };
  bool good = parameter && list;
  if (good) {
    for (const Param& p : face->op->signatures->front().params)
      if (good) good = add(face_name(face, p), p.keyword_only ? "KEYWORD_ONLY" : "POSITIONAL_OR_KEYWORD", p.fallback);
    if (good && takes_out(face)) good = add(names().out, "KEYWORD_ONLY", Py_None);
    if (good) result = PyObject_CallMethod(inspect, "Signature", "O", list);
  }
  Py_DECREF(inspect); Py_XDECREF(parameter); Py_XDECREF(list);
  return result;
}

}  // namespace rl
