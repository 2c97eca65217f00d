// The module `rushlight._C`: brings up every file in order, and the helpers that all of them use.
#include "runtime.h"
#include "compat.h"
#include <cstdarg>

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
