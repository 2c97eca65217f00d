// The module `rushlight._C`: brings up every file in order, and the helpers that all of them use.
#include "runtime.h"
#include "compat.h"
#include <cstdarg>
#include <unordered_map>

namespace rl {

constinit thread_local ThreadState tls;

// ------------------------------------------------------------------------------------------------------------- errors
PyObject* raise(PyObject* type, const char* format, ...) {
  va_list args;
  va_start(args, format);
  PyErr_FormatV(type, format, args);
  va_end(args);
  return nullptr;
}

// ----------------------------------------------------------------------------------------------------------- warnings
static bool g_warn_always;

// How many frames up the first is that does not belong to the library, counted as PyErr_WarnEx does: 1 is the frame that runs.
static int caller_level() {
  int level = 1;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame) {
    PyObject* globals = PyFrame_GetGlobals(frame);
    PyObject* name = globals ? PyDict_GetItemString(globals, "__name__") : nullptr;
    const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    bool ours = text && !strncmp(text, "rushlight", 9) && (!text[9] || text[9] == '.');
    Py_XDECREF(globals);
    PyFrameObject* above = ours ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    if (!ours) break;
    frame = above;
    level++;
  }
  PyErr_Clear();
  return level;
}

bool warn(bool* said, const char* format, ...) {
  if (said && *said && !g_warn_always) return true;
  if (said) *said = true;                      // before: a handler of warnings may call what warns
  va_list args;
  va_start(args, format);
  PyObject* text = PyUnicode_FromFormatV(format, args);
  va_end(args);
  const char* words = text ? PyUnicode_AsUTF8(text) : nullptr;
  bool good = words && PyErr_WarnEx(PyExc_UserWarning, words, caller_level()) == 0;
  if (said && !good) *said = false;            // an error stands for a call that was not made: the next is refused as well
  Py_XDECREF(text);
  return good;
}

bool* said_before(const std::string& text) {
  static std::unordered_map<std::string, bool> said;
  return &said[text];
}

static PyObject* py_warn(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* NAMES[] = {"text", "category", "once", nullptr};
  const char* text;
  PyObject* category = PyExc_UserWarning;
  int once = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|Op:warn", (char**)NAMES, &text, &category, &once)) return nullptr;
  if (once ? !warn(said_before(text), "%s", text) : PyErr_WarnEx(category, text, caller_level()) < 0) return nullptr;
  Py_RETURN_NONE;
}
static PyObject* set_warn_always(PyObject*, PyObject* on) {
  int value = PyObject_IsTrue(on);
  if (value < 0) return nullptr;
  g_warn_always = value != 0;
  Py_RETURN_NONE;
}
static PyObject* is_warn_always(PyObject*, PyObject*) { return PyBool_FromLong(g_warn_always); }

// -------------------------------------------------------------------------------------------------------------- texts
std::string ints_text(const int64_t* v, int n) {
  std::string s = "[";
  for (int i = 0; i < n; i++) s += (i ? ", " : "") + std::to_string(v[i]);
  return s + "]";
}
std::string shape_text(const Layout* l) { return ints_text(l->shape(), l->ndim); }

// -------------------------------------------------------------------------------------------------------- int sequences
PyObject* int_tuple(const int64_t* v, int n) {
  PyObject* t = PyTuple_New(n);
  for (int i = 0; t && i < n; i++) {
    PyObject* o = PyLong_FromLongLong(v[i]);
    if (!o) { Py_DECREF(t); return nullptr; }
    PyTuple_SET_ITEM(t, i, o);
  }
  return t;
}

// One integer from an int, a numpy integer or an integer tensor of one element (all answer __index__). A float is not one.
static bool int_item(PyObject* o, Py_ssize_t position, int64_t* out) {
  if (RL_LIKELY(PyLong_Check(o))) { *out = PyLong_AsLongLong(o); return *out != -1 || !PyErr_Occurred(); }
  if (PyIndex_Check(o)) {
    PyObject* number = PyNumber_Index(o);
    if (!number) return false;
    *out = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return *out != -1 || !PyErr_Occurred();
  }
  raise(PyExc_TypeError, "must be tuple of ints, but found element of type %s at pos %zd", Py_TYPE(o)->tp_name, position);
  return false;
}

bool int_list(PyObject* o, std::vector<int64_t>* out) {
  out->clear();
  if (PyUnicode_Check(o) || PyBytes_Check(o)) { raise(PyExc_TypeError, "must be tuple of ints, not %s", Py_TYPE(o)->tp_name); return false; }
  PyObject* items = PySequence_Fast(o, "must be tuple of ints");
  if (!items) {
    if (PyErr_ExceptionMatches(PyExc_TypeError)) raise(PyExc_TypeError, "must be tuple of ints, not %s", Py_TYPE(o)->tp_name);
    return false;
  }
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(items); i++) {    // __index__ may run Python: read the size anew each time
    int64_t v;
    good = int_item(PySequence_Fast_GET_ITEM(items, i), i, &v);
    out->push_back(v);
  }
  Py_DECREF(items);
  return good;
}

// ----------------------------------------------------------------------------------------------------------- counters
struct Stat { const char* name; const int64_t* value; };
static std::vector<Stat>& stats() { static std::vector<Stat> v; return v; }
void stat_register(const char* name, const int64_t* value) { stats().push_back({name, value}); }

static PyObject* module_stats(PyObject*, PyObject*) {
  PyObject* d = PyDict_New();
  for (const Stat& s : stats()) {
    if (!d) return nullptr;
    PyObject* v = PyLong_FromLongLong(*s.value);
    if (!v || PyDict_SetItemString(d, s.name, v) < 0) { Py_XDECREF(v); Py_DECREF(d); return nullptr; }
    Py_DECREF(v);
  }
  return d;
}

static PyMethodDef methods[] = {
  {"stats", module_stats, METH_NOARGS, "stats() -> dict\n\nThe runtime's counters: layouts, plans, hits, misses, evictions …"},
  {"warn", (PyCFunction)(void*)py_warn, METH_VARARGS | METH_KEYWORDS, "warn(text, category=UserWarning, once=False)\n\nWarn at the line of the program that called into the library, however deep in it this is. "
   "once: a UserWarning, the first time in a process only."},
  {"set_warn_always", set_warn_always, METH_O, "set_warn_always(b)\n\nWhether what is said once a process is said every time."},
  {"is_warn_always_enabled", is_warn_always, METH_NOARGS, "is_warn_always_enabled() -> bool"},
  {nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "rushlight._C", "The runtime: tensors, plans and the tape.", -1, methods};

}  // namespace rl

PyMODINIT_FUNC PyInit__C() {
  using namespace rl;
  PyObject* m = PyModule_Create(&definition);
  if (!m) return nullptr;
  bool (*const parts[])(PyObject*) = {init_dtype, init_layout, init_storage, init_tensor, init_views, init_op, init_plan, init_loader,
    init_threads, init_tape, init_function, init_interop, init_construct, init_index, init_rng, init_sort, init_unique, init_distributions, init_ctc, init_record, init_lapack, init_fft, init_sparse};
  for (auto part : parts)
    if (!part(m)) { Py_DECREF(m); return nullptr; }
  return m;
}
