// The Generator type: seeding, state, pickling. What is drawn from it is in rng.cpp.
#include "rng.h"
#include "compat.h"
#include <cstddef>
#include <random>

namespace rl {

PyTypeObject* GeneratorType;
Generator* g_default_generator;
Generator* g_current_generator;

static const uint64_t DEFAULT_SEED = 67280421310721u;

void Generator::reseed(uint64_t value) {
  seed = value;
  engine.seed(uint32_t(value));
  has_cached_normal = false;
  cached_normal = 0;
}

double Generator::normal() {
  if (has_cached_normal) {
    has_cached_normal = false;
    return cached_normal;
  }
  double u1 = engine.unit64(), u2 = engine.unit64();
  double radius = std::sqrt(-2.0 * std::log1p(-u2)), theta = 2.0 * 3.14159265358979323846 * u1;
  cached_normal = radius * std::sin(theta);
  has_cached_normal = true;
  return radius * std::cos(theta);
}

static Generator* generator_new() {
  Generator* g = (Generator*)GeneratorType->tp_alloc(GeneratorType, 0);
  if (g) g->reseed(DEFAULT_SEED);
  return g;
}

Generator* generator_of(PyObject* o) {
  if (!o || o == Py_None) return g_default_generator;
  if (PyObject_TypeCheck(o, GeneratorType)) return (Generator*)o;
  raise(PyExc_TypeError, "expected a torch.Generator, but got %s", Py_TYPE(o)->tp_name);
  return nullptr;
}

// --------------------------------------------------------------------------------------------------------------- state
// torch's 5056 bytes: u64 seed | i32 left | i32 seeded | u64 next | 624 u64 words | f64 | f64 cached normal | f64 | i32 cache valid | pad | f32 | bool | pad
static const int64_t STATE_BYTES = 5056;
enum { AT_SEED = 0, AT_LEFT = 8, AT_SEEDED = 12, AT_NEXT = 16, AT_WORDS = 24, AT_CACHED = 5024, AT_VALID = 5040 };
template <class T> static void put(char* p, T v) { std::memcpy(p, &v, sizeof v); }
template <class T> static T take(const char* p) { T v; std::memcpy(&v, p, sizeof v); return v; }

static PyObject* get_state(PyObject* self, PyObject*) {
  Generator* g = (Generator*)self;
  Tensor* t = tensor_empty(DType::UInt8, Device::CPU, 1, &STATE_BYTES);
  if (!t) return nullptr;
  char* p = data_ptr(t);
  std::memset(p, 0, STATE_BYTES);
  put<uint64_t>(p + AT_SEED, g->seed);
  put<int32_t>(p + AT_LEFT, g->engine.left);
  put<int32_t>(p + AT_SEEDED, 1);
  put<uint64_t>(p + AT_NEXT, uint64_t(g->engine.next));
  for (int i = 0; i < MersenneTwister::N; i++) put<uint64_t>(p + AT_WORDS + 8 * i, g->engine.state[i]);
  if (g->has_cached_normal) put<double>(p + AT_CACHED, g->cached_normal);
  put<int32_t>(p + AT_VALID, g->has_cached_normal);
  return (PyObject*)t;
}

static PyObject* set_state(PyObject* self, PyObject* state) {
  Generator* g = (Generator*)self;
  if (!is_tensor(state)) return raise(PyExc_TypeError, "expected a torch.ByteTensor, but got %s", Py_TYPE(state)->tp_name);
  Tensor* t = (Tensor*)state;
  const Layout* l = t->layout;
  if (l->dtype != DType::UInt8 || l->device != Device::CPU || !(l->flags & L_CONTIGUOUS)) return raise(PyExc_TypeError, "RNG state must be a torch.ByteTensor");
  if (l->numel != STATE_BYTES)
    return raise(PyExc_RuntimeError, "Expected a CPUGeneratorImplState of size %d but found the input RNG state size to be %lld", int(STATE_BYTES), (long long)l->numel);
  if (!materialize(t->storage)) return nullptr;
  const char* p = data_ptr(t);
  int32_t left = take<int32_t>(p + AT_LEFT);
  uint64_t next = take<uint64_t>(p + AT_NEXT);
  bool consistent = next <= 624 && left >= 1 && left <= 624 && (left == 1 || left == 625 - int32_t(next));
  if (take<int32_t>(p + AT_SEEDED) != 1 || !consistent) return raise(PyExc_RuntimeError, "Invalid mt19937 state");
  g->seed = take<uint64_t>(p + AT_SEED);
  g->engine.left = left;
  g->engine.next = int32_t(next);
  for (int i = 0; i < MersenneTwister::N; i++) g->engine.state[i] = uint32_t(take<uint64_t>(p + AT_WORDS + 8 * i));
  g->has_cached_normal = take<int32_t>(p + AT_VALID) != 0;
  g->cached_normal = take<double>(p + AT_CACHED);
  return Py_NewRef(self);
}

// ------------------------------------------------------------------------------------------------------------- methods
static PyObject* manual_seed(PyObject* self, PyObject* seed) {
  if (!PyLong_Check(seed) || PyBool_Check(seed)) {
    if (!PyIndex_Check(seed) || PyBool_Check(seed)) return raise(PyExc_RuntimeError, "manual_seed expected a long, but got %s", Py_TYPE(seed)->tp_name);
  }
  PyObject* number = PyNumber_Index(seed);
  if (!number) return nullptr;
  int over = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &over);
  if (over > 0) {      // the upper half of the unsigned range
    uint64_t wide = PyLong_AsUnsignedLongLong(number);
    if (wide == ~uint64_t(0) && PyErr_Occurred()) PyErr_Clear();
    else { value = int64_t(wide); over = 0; }
  }
  Py_DECREF(number);
  if (over) return raise(PyExc_ValueError, "Overflow when unpacking long long");
  ((Generator*)self)->reseed(uint64_t(value));
  return Py_NewRef(self);
}

static PyObject* seed_from_system(PyObject* self, PyObject*) {
  std::random_device device;
  uint64_t value = (uint64_t(device()) << 32 | device()) & ((uint64_t(1) << 53) - 1);      // survives a trip through a double
  ((Generator*)self)->reseed(value);
  return PyLong_FromUnsignedLongLong(value);
}

static PyObject* initial_seed(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(((Generator*)self)->seed); }

static PyObject* clone_state(PyObject* self, PyObject*) {
  Generator *g = (Generator*)self, *copy = generator_new();
  if (!copy) return nullptr;
  copy->seed = g->seed;
  copy->engine = g->engine;
  copy->cached_normal = g->cached_normal;
  copy->has_cached_normal = g->has_cached_normal;
  return (PyObject*)copy;
}

static PyObject* reduce(PyObject* self, PyObject*) {
  PyObject* state = get_state(self, nullptr);
  PyObject* device = state ? device_object(Device::CPU) : nullptr;
  if (!device) { Py_XDECREF(state); return nullptr; }
  return Py_BuildValue("(O(N)(KON))", GeneratorType, device, (unsigned long long)((Generator*)self)->seed, Py_None, state);
}

static PyObject* setstate(PyObject* self, PyObject* args) {
  PyObject *state, *offset;
  unsigned long long seed;
  if (!PyTuple_Check(args) || !PyArg_ParseTuple(args, "KOO", &seed, &offset, &state)) return nullptr;
  PyObject* result = set_state(self, state);
  if (!result) return nullptr;
  Py_DECREF(result);
  Py_RETURN_NONE;
}

static PyObject* unsupported_offset(PyObject*, PyObject*) { return raise(PyExc_RuntimeError, "CPU Generator does not use offset"); }
static PyObject* get_device(PyObject*, void*) { return device_object(Device::CPU); }

static PyObject* create(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"device", nullptr};
  PyObject* device = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", (char**)names, &device)) return nullptr;
  Device d = Device::CPU;
  if (device && device != Py_None && !device_from(device, &d)) return nullptr;
  if (d != Device::CPU) return raise(PyExc_RuntimeError, "META device type not an accelerator.");
  return (PyObject*)generator_new();
}

static void destroy(PyObject* self) {
  if (((Generator*)self)->weakrefs) PyObject_ClearWeakRefs(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"manual_seed", manual_seed, METH_O, "manual_seed(seed)\n--\n\nStart the stream of a seed; negative seeds count from 2**64. Returns the generator."},
    {"seed", seed_from_system, METH_NOARGS, "seed()\n--\n\nStart from a seed that the system gives, and return it."},
    {"initial_seed", initial_seed, METH_NOARGS, "initial_seed()\n--\n\nThe seed last set."},
    {"get_state", get_state, METH_NOARGS, "get_state()\n--\n\nThe state as a ByteTensor."},
    {"set_state", set_state, METH_O, "set_state(new_state)\n--\n\nContinue from a state that get_state gave."},
    {"clone_state", clone_state, METH_NOARGS, "clone_state()\n--\n\nA generator of its own at the same place of the stream."},
    {"get_offset", unsupported_offset, METH_NOARGS, nullptr},
    {"set_offset", unsupported_offset, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__setstate__", setstate, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};
static PyGetSetDef getters[] = {{"device", get_device, nullptr, "The device whose numbers this generates.", nullptr}, {nullptr, nullptr, nullptr, nullptr, nullptr}};

bool init_generator(PyObject* m) {
  static PyMemberDef members[] = {{"__weaklistoffset__", RL_T_PYSSIZET, offsetof(Generator, weakrefs), RL_READONLY, nullptr}, {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, (void*)create}, {Py_tp_dealloc, (void*)destroy}, {Py_tp_methods, methods}, {Py_tp_getset, getters}, {Py_tp_members, members},
                                {Py_tp_doc, (void*)"Generator(device='cpu')\n--\n\nA stream of random numbers."}, {0, nullptr}};
  static PyType_Spec spec = {"rushlight.Generator", sizeof(Generator), 0, Py_TPFLAGS_DEFAULT, slots};
  GeneratorType = (PyTypeObject*)PyType_FromSpec(&spec);
  if (!GeneratorType) return false;
  g_default_generator = generator_new();
  return g_default_generator && PyModule_AddObjectRef(m, "Generator", (PyObject*)GeneratorType) == 0 &&
         PyModule_AddObjectRef(m, "default_generator", (PyObject*)g_default_generator) == 0;
}

}  // namespace rl
