// Everything that depends on the Python version (3.11 to 3.14) lives here, so that no other file asks for PY_VERSION_HEX.
#pragma once
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000
#error "Rushlight needs Python 3.11 or newer"
#endif
#ifdef Py_GIL_DISABLED
#error "Rushlight's runtime is guarded by the GIL: build it for the default (not free-threaded) Python"
#endif

#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>
#define RL_T_PYSSIZET T_PYSSIZET
#define RL_T_OBJECT T_OBJECT
#define RL_READONLY READONLY
#else
#define RL_T_PYSSIZET Py_T_PYSSIZET
#define RL_T_OBJECT _Py_T_OBJECT           // None where nothing is; the public kind raises
#define RL_READONLY Py_READONLY
#endif

namespace rl {

// Brings an object of a heap type back to life from a freelist. The memory still has its type pointer (and 3.14's flags beside the count); the type's reference is
// retaken. A debug build of Python sums all counts and may list all objects: it is told as by Python's own freelists.
inline void revive(PyObject* o, PyTypeObject* type) {
  Py_INCREF((PyObject*)type);
#ifdef Py_REF_DEBUG
  _Py_NewReference(o);
#else
  Py_SET_REFCNT(o, 1);
#endif
}

// A new instance of a subclass of tuple, its items empty. 3.14 keeps the hash in the tuple, and 0 is not "unknown" there: allocated memory alone is not enough.
inline PyObject* tuple_alloc(PyTypeObject* type, Py_ssize_t n) {
  PyObject* t = type->tp_alloc(type, n);
#if PY_VERSION_HEX >= 0x030E0000
  if (t) ((PyTupleObject*)t)->ob_hash = -1;
#endif
  return t;
}

// getattr without an AttributeError: 1 found (new reference), 0 absent, -1 another error.
inline int optional_attribute(PyObject* o, const char* name, PyObject** out) {
#if PY_VERSION_HEX >= 0x030D0000
  return PyObject_GetOptionalAttrString(o, name, out);
#else
  *out = PyObject_GetAttrString(o, name);
  if (*out) return 1;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
  PyErr_Clear();
  return 0;
#endif
}

// What a weak reference refers to, a new reference; null (no error) if it is dead.
inline PyObject* weak_target(PyObject* weak) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* o = nullptr;
  (void)PyWeakref_GetRef(weak, &o);              // an error only for what is no weak reference
  return o;
#else
  PyObject* o = PyWeakref_GetObject(weak);
  return o == Py_None ? nullptr : Py_NewRef(o);
#endif
}

// The value of an int of one digit (below 2^30): true for nearly every size and index, without a call into Python.
inline bool small_int(PyObject* o, int64_t* out) {
#if PY_VERSION_HEX >= 0x030C0000
  if (!PyLong_CheckExact(o) || !PyUnstable_Long_IsCompact((PyLongObject*)o)) return false;
  *out = PyUnstable_Long_CompactValue((PyLongObject*)o);
  return true;
#else
  if (!PyLong_CheckExact(o)) return false;
  Py_ssize_t n = Py_SIZE(o);
  if (n < -1 || n > 1) return false;
  *out = n * (int64_t)((PyLongObject*)o)->ob_digit[0];      // zero has a digit too, of any value
  return true;
#endif
}

inline Py_hash_t hash_pointer(const void* p) {
  size_t y = (size_t)p;
  y = (y >> 4) | (y << (8 * sizeof(void*) - 4));    // objects are 16-byte aligned: bring the low zeros to the top
  Py_hash_t h = (Py_hash_t)y;
  return h == -1 ? -2 : h;
}

// Nobody but the caller can see the object: the only reference to it is one that the caller (or a list in its hand) owns. Not to be asked about an argument of a
// function that Python called: from 3.14 on the interpreter lends those from its local variables without counting, and 1 proves nothing.
inline bool sole_reference(PyObject* o) { return Py_REFCNT(o) == 1; }

}  // namespace rl
