// The random generator: torch's mt19937 with its one cached normal, as a Python object.
#pragma once
#include "rng_math.h"
#include "runtime.h"

namespace rl {

struct Generator {
  PyObject_HEAD
  uint64_t seed;
  MersenneTwister engine;
  double cached_normal;      // the second of a pair drawn one at a time; survives other draws, cleared by manual_seed
  bool has_cached_normal;
  PyObject* weakrefs;

  void reseed(uint64_t value);
  double normal();           // one standard normal in double precision, through the cache
};
extern Generator* g_default_generator;

bool init_generator(PyObject* m);      // generator.cpp
}  // namespace rl
