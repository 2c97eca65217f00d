// Recipes and plans: what Python decided about a kind of call, and that decision resolved for exact layouts.
//
//  - a Recipe (Python object `_C.Recipe`) is the contract's dictionary, parsed. It holds for every call of one generic key whose guards hold;
//  - a Plan is a recipe evaluated for one exact key: layouts interned, integers computed, kernels' addresses in place. The replayer (plan.cpp)
//    needs nothing else. One allocation; reference-counted by the table, by running calls and by tape nodes.
//
// What the tape needs of a plan is here too: which values a node keeps (`saves`), the op that computes its gradients (`backward_op`), and
// `backward_call`, which lays out that op's arguments. The replayer bumps the version of everything it wrote *before* it calls tape_record,
// so a saved output of an in-place op is saved at its new version; tape_record must not bump again.
#pragma once
#include "runtime.h"

namespace rl {

// Keys are words: of plans (plan.cpp) and of recorded streams (record.cpp).
inline uint64_t hash_key(const uint64_t* k, int n) {
  uint64_t h = (uint64_t)n;
  for (int i = 0; i < n; i++) { h = (h ^ k[i]) * 0x9E3779B97F4A7C15ull; h ^= h >> 29; }
  return h ? h : 1;
}
struct KeyHash { size_t operator()(const std::vector<uint64_t>& k) const { return (size_t)hash_key(k.data(), (int)k.size()); } };

enum class RefKind : uint8_t { Arg, Dest, Buffer, View, None };          // what a pointer or an output refers to
enum class SaveKind : uint8_t { Arg, Output, Hidden };

// ------------------------------------------------------------------------------------------------------------- recipes
struct Instruction { uint8_t opcode; int32_t a, b, c; };
struct BufferSpec { DType dtype; std::vector<int32_t> shape, strides; int32_t bytes; };     // slots
struct PointerSpec { RefKind kind; int32_t index, offset; };                                // offset: slot of a byte offset, -1: zero
struct StepSpec {
  Kernel kernel; bool draws;      // draws: takes random numbers, so it runs at once, whole and in order
  int32_t first_error;            // a routine counts its own errors from 1: where they begin in the recipe's table
  std::vector<PointerSpec> pointers; std::vector<int32_t> ints, scalars;
  int32_t units, grain, cost, scratch;                                                      // slots; scratch -1: none
};
struct OutputSpec { RefKind kind; int32_t index; DType dtype; std::vector<int32_t> shape, strides; int32_t offset; };
struct ErrorSpec { PyObject* type; std::string message; int32_t size; };      // size: slot of what {size} stands for, or -1
struct SaveSpec { SaveKind kind; int32_t index; };

struct Recipe {
  PyObject_HEAD
  PyObject* data;                          // the dictionary itself, for the compiler (fusion reads it)
  struct Parsed* parsed;
};
struct Parsed {
  std::vector<int64_t> consts; std::vector<Instruction> program; std::vector<int32_t> guards;
  std::vector<BufferSpec> buffers; std::vector<StepSpec> steps; std::vector<OutputSpec> outputs; std::vector<int32_t> hidden;
  std::vector<ErrorSpec> errors; std::vector<SaveSpec> saves; std::vector<int32_t> backward_syms;
  PyObject* backward = nullptr;            // the key, or null
  Op* backward_op = nullptr;               // borrowed (ops live for ever)
  std::string node;
  struct Warning { std::string text; bool* said; };               // said: null, or given once a process
  std::vector<Warning> warnings;           // given at every call, before anything runs
  bool once = false;                       // backward frees the node even if it keeps nothing: a second one is refused, as torch does
  bool unreached = false;                  // gradients that the backward leaves out do not exist (None) instead of being zero
  uint64_t constant = 0;                   // bit j: output j has no gradient, though its dtype could have one
};
extern PyTypeObject* RecipeType;

// --------------------------------------------------------------------------------------------------------------- plans
struct Pointer { RefKind kind; int32_t index; int64_t offset; };         // offset in bytes
struct Step {
  Kernel kernel; const Pointer* pointers; const int64_t* ints; const int32_t* scalars;   // scalars null: the call's own array, as it is
  int64_t units, grain, scratch; int32_t npointers, nscalars, first_error; bool parallel, draws;
};
struct Buffer { Layout* layout; int64_t bytes; };                        // layout: owned
struct Output { RefKind kind; int32_t index; Layout* layout; int64_t offset; };   // layout: of a view, owned; offset in bytes

struct Plan {
  int64_t rc; uint64_t hash, mask;         // mask: bit i, flattened tensor argument i wants a gradient
  Op* op; Recipe* recipe;                  // recipe: owned
  uint32_t nkey; uint8_t form, clock, big, draws, meta, simple, only_view, warns;
  int32_t nbuffers, nsteps, nouts, nhidden, nargs;
  int32_t npointers, max_scalars;          // over all steps; of one step that picks its scalars
  Buffer* buffers; Step* steps; Output* outs; const int32_t* hidden; const uint64_t* key;
  int64_t work;                            // bytes touched, all steps
  int64_t* error_sizes;                    // what {size} stands for in each error's message; owned
  PyObject* request;                       // owned: what the compiler was or would be asked (call_request), once the plan was recorded


  // ---- for the tape
  Op* backward_op;                         // null: the result is not differentiable
  const char* node_name;                   // "AddBackward0"
  int32_t nsaves, nbackward_syms, nscalars;
  const SaveSpec* saves;                   // ('arg', k) | ('output', j) | ('hidden', h), in the order the backward op wants them
  const int64_t* backward_syms;
  const uint8_t* scalar_kinds;             // ScalarKind of the forward call's run-time scalars
  Layout* hidden_layout(int h) const { return buffers[hidden[h]].layout; }     // borrowed
};
void plan_free(Plan*);
inline void incref(Plan* p) { ++p->rc; }
inline void decref(Plan* p) { if (--p->rc == 0) plan_free(p); }

// The call of a node's backward op: incoming gradients (public outputs, then hidden ones; null: undefined), the saved values in the order of
// `saves` (null only where the forward argument was absent), which flattened forward arguments want a gradient, and the forward call's
// scalars. Everything stays borrowed. run_call then gives one result per set bit of `needed`, ascending; null for a structural zero. With
// more than 64 tensor arguments the mask is all ones and there is one result per argument.
// In the Call: t: gradients, saved; statics: number of gradients, of saved, needed, number of syms, of scalars, one ScalarKind each.
bool backward_call(Call&, const Plan*, Tensor** grads, int ngrads, Tensor** saved, int nsaved, uint64_t needed, const Scalar* scalars);
Op* backward_op_of(PyObject* key);         // borrowed: the one anonymous op of a recipe's backward key (contract 5); null with an error

// ------------------------------------------------------------------------------------------ tables and replay (inside)
// Which tensors of the call want a gradient: bit i, argument i; all ones where there are more than 64 (tape.h).
inline uint64_t grad_mask(const Call& c) {
  uint64_t mask = 0;
  if (!tls.grad_mode) return mask;
  if (RL_LIKELY(c.nt <= 64)) {
    for (int i = 0; i < c.nt; i++) if (c.t[i]) mask |= (uint64_t)c.t[i]->requires_grad << i;
    return mask;
  }
  for (int i = 0; i < c.nt; i++) if (c.t[i] && c.t[i]->requires_grad) mask = ~(uint64_t)0;
  return mask;
}
Plan* plan_lookup(Call&, uint64_t mask);   // borrowed: valid until Python may run; null with an error. May compile
int plan_run(Plan*, Call&, PyObject** outs, int max);
bool plan_launch(Plan*, Call&, Storage** buffers, bool may_release);                 // the steps alone; may_release: the GIL, if the plan is big
int plan_outputs(Plan*, Call&, Storage** buffers, PyObject** outs, int max);         // wrap, bump versions, record on the tape
// Evaluate for this call: a new plan without a key, null and *applies == false when a guard fails, null with an error otherwise.
Plan* plan_evaluate(Recipe*, const Call&, uint64_t mask, bool* applies);
PyObject* call_request(const Call&, uint64_t mask);   // (op, form, grad_mask, params, dests, signature): what hooks.compile is called with; new
PyObject* layout_description(const Layout*);   // (dtype_code, device_code, shape, strides, bits), new
void plans_forget(Op*);                    // the op's plans leave the tables
bool raise_status(const Plan*, int64_t status);   // always false

// ----------------------------------------------------------------------------------------------- recording (record.cpp)
// Under G_RECORD a plan is noted instead of run: outputs get pending storages. Same result as plan_run.
int record_plan(Plan*, Call&, PyObject** outs, int max);

struct Stats { int64_t hits, table_hits, misses, recipe_evaluations, guard_failures, compiles, evictions, recipe_evictions, launches, recorded, flushes, native_calls, overlaps; };
extern Stats g_stats;
struct Hooks { PyObject *compile, *torch_function, *flush, *guarded; };
extern Hooks g_hooks;

}  // namespace rl
