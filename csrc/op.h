// An operator as the runtime sees it: signatures, faces, the last plan it ran. See op.cpp (objects, calls), args.cpp (parsing, errors).
#pragma once
#include "plan.h"

namespace rl {

enum class ParamKind : uint8_t {
  Tensor, TensorList, TensorOrScalar, Scalar, Float, Int, Bool, Str, IntList, SymInt, SymIntList, DType, Device, LayoutName, MemoryFormat,
  Generator, Any, ScalarList /* only of backward ops */
};

// What a missing argument contributes to a Call, encoded once when the op is made.
struct Encoded {
  std::vector<uint64_t> statics; std::vector<int64_t> syms; std::vector<Scalar> scalars; int tensors = 0;   // tensors: nulls
  bool one_word = false;                   // one static and nothing else: most defaults
  bool only_words = true;                  // nothing but statics
};

struct Param {
  PyObject* name;            // interned
  PyObject* fallback;        // default value, or null: required
  ParamKind kind;
  bool optional;             // `?`: None is allowed
  bool item_optional;        // `Tensor?[]`
  bool by_value;             // `Scalar!`, `float!`
  bool written;              // `Tensor(a!)`
  bool keyword_only;
  bool face_only;            // requires_grad, pin_memory: never reach the Call's words
  int fixed;                 // `int[2]`: a bare int stands for that many; 0: a list is needed
  Encoded encoded;           // the default, when there is one
};

enum class ReturnKind : uint8_t { One, Tuple, List };
struct Signature {
  std::vector<Param> params;
  int positional = 0;        // how many may be given by position
  int required = 0;
  bool has_written = false;
  int plain_from = 0;        // every parameter from here on has a default
  std::vector<Encoded> tails;              // the defaults of all parameters from plain_from on, from the next on, and so on
  bool needs_tensor = false; // numbers are allowed everywhere, but not everywhere at once: `add(1, 2)` is no call
  ReturnKind returns = ReturnKind::One;
  PyTypeObject* result_type = nullptr;     // a named tuple, or null
};

enum OpForm : uint8_t { FORM_FUNCTION = 1, FORM_METHOD = 2, FORM_INPLACE = 4, FORM_OUT = 8 };
struct Face;
struct Op {
  PyObject_HEAD
  PyObject* name; const char* text;        // text: UTF-8 of name
  uint32_t id; uint8_t forms, pointwise, is_backward;
  uint8_t direct;                          // compiled, writes no argument, one result: nothing stands between a call and its plan
  uint8_t one_value;                       // every element is written the same: the written tensor may overlap itself
  uint8_t converts;                        // a number is converted to the tensors' dtype: what int64 does not hold is refused
  uint8_t separate;                        // a written tensor may share no memory at all with another operand, not even exactly
  int16_t native_overload;                 // the one signature that `native` serves, or -1: all
  Plan* last;                              // the plan of the previous call: borrowed, cleared when the table drops it
  NativeOp native;
  std::vector<Signature>* signatures;
  PyObject *definition, *doc;
  Face *function, *method, *inplace_function, *inplace_method;     // owned; made on demand
};
struct Face {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Op* op;
  PyObject *name, *qualname, *module, *doc, *dict;
  uint8_t form, is_method;
};
extern PyTypeObject *OpType, *OpFunctionType, *OpMethodType;
extern PyObject* g_required;               // _C.REQUIRED

// ------------------------------------------------------------------------------------------------------- signature.cpp
enum class ParseResult { Ok, Error, Overloaded };               // Overloaded: parsed, but a __torch_function__ wants the call
// Parse into `call` (op, form already set) by the op's signatures in order. On failure the torch-worded TypeError is set.
// `*out`: the out= argument (borrowed) or null.
RL_APART ParseResult parse_call(Face*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, Call& call, PyObject** out);
bool parse_plain(const Face*, PyObject* const* args, Py_ssize_t nargs, Call& call);   // the same for what most calls are; false: not one of those, and nothing was taken
std::string signature_text(const Op*, const Signature&, bool method, bool with_out);
PyObject* signature_object(const Face*);                        // inspect.Signature, new
PyObject* text_signature(const Face*);                          // "(input, other, *, alpha=1)", new

// ------------------------------------------------------------------------------------------------------------ args.cpp
// 1 converted and appended to the call, 0 does not fit (nothing raised), -1 raised. `strict`: no other signature remains to be tried.
int convert_argument(const Face*, const Op*, const Param&, PyObject*, Call&, bool* overloaded, bool strict);
int convert_varargs(const Face*, const Param&, PyObject* const* items, Py_ssize_t n, Call&);
bool parse_param_type(const char* text, Param*);
bool encode_default(const Op*, Param*);
std::string param_type_text(const Param&);                      // "tuple of ints", "Number", …: torch's words
void append_encoded(Call&, const Encoded&);
void append_others(Call&, const Encoded&);            // what is not a static word
bool has_torch_function(PyObject*);
bool scalar_from(PyObject*, Scalar*, ScalarKind*);              // Python numbers, numpy scalars; false without an error if it is neither
Tensor* unsigned_from(PyObject*);           // with an OverflowError set: an int that only uint64 holds, as a tensor; null with the error otherwise
PyObject* call_params(const Call&);                             // the `params` of a compile request; new
bool fill_call_defaults(Call&, const Signature&, int from_param);

// -------------------------------------------------------------------------------------------------------------- op.cpp
inline const Signature& signature_of(const Call& c) { return (*c.op->signatures)[c.overload]; }
// Moves a reader past the words of one parameter (the tensors of a call are counted apart).
inline void skip_words(Args& a, const Param& p) {
  const int64_t* ints; int64_t v; Scalar s;
  switch (p.kind) {
    case ParamKind::Tensor: case ParamKind::Generator: break;
    case ParamKind::TensorOrScalar: a.scalar(&s); break;
    case ParamKind::Scalar: case ParamKind::Float: if (p.by_value) { if (a.word()) a.is += 2; } else a.scalar(&s); break;
    case ParamKind::Int: case ParamKind::Bool: if (p.optional) a.maybe_integer(&v); else a.integer(); break;
    case ParamKind::IntList: a.int_list(&ints); break;
    case ParamKind::SymInt: if (p.optional) a.maybe_sym(&v); else a.sym(); break;
    case ParamKind::SymIntList: a.sym_list(&ints); break;
    default: a.word(); break;
  }
}
inline bool runs_native(const Call& c) { return c.op->native && (c.op->native_overload < 0 || c.op->native_overload == c.overload); }
Face* op_face(Op*, bool method, uint8_t form);                  // borrowed: the op's own faces; null with AttributeError when it has no such form
PyObject* override_handler();              // borrowed: rushlight.overrides.dispatch, imported when first needed; null with an error
PyObject* dispatch_override(Face*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);    // hooks.torch_function
PyObject* call_finish(Call&);                                   // run and wrap, for faces and operators
const uint32_t G_DISPATCH = G_MODE | G_AUTOCAST | G_FUNC | G_PROFILE;    // guards that take the call to Python
PyObject* wrap_results(const Call&, PyObject** outs, int n);    // takes the references over

// -------------------------------------------------------------------------------------------------------- calls.cpp
NativeOp native_find(const char* name);                         // null when unknown
bool op_register(Op*);
int run_inplace_or_out(Call&, PyObject** outs, int max);        // inplace.cpp: forms 1 and 2, with every check
bool init_calls(PyObject* m); bool init_recipe(PyObject* m);

}  // namespace rl
