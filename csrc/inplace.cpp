// Calls that write into given tensors: in-place forms and out=. Everything that can be refused is refused before anything is written.
//
// Overlap, where a written tensor shares memory with another operand (torch's rules, plus: never garbage):
//  - the written tensor reaches one element by two indices: torch's RuntimeError, unless the op writes one value everywhere (fill_);
//  - an operand is exactly the written tensor: a pointwise op runs as it is, any other reads a copy of the operand;
//  - both are dense and partly overlap: torch's RuntimeError for pointwise ops and ops that write by declaration (copy_), a copy of the operand otherwise;
//  - operators declared `separate` (torch's scatters, gathers and joins) refuse any of it;
//  - torch does not look at strided ones ("too hard"): here the operand is copied.
#include "compat.h"
#include "op.h"

namespace rl {

// ------------------------------------------------------------------------------------------------------------------ overlap
enum class Overlap { None, Same, Partial, Unknown };

static Overlap overlap_of(const Tensor* a, const Tensor* b) {
  if (a->storage != b->storage || !a->storage->nbytes || !a->layout->numel || !b->layout->numel) return Overlap::None;
  // A conj or neg bit changes how an element is read, not where it is.
  const Layout *x = a->layout, *y = b->layout;
  if (a->offset == b->offset && (x == y || (x->dtype == y->dtype && same_shape(x, y) && !memcmp(x->strides(), y->strides(), sizeof(int64_t) * (size_t)x->ndim))))
    return Overlap::Same;
  // Strides may not be negative here, so a tensor's memory starts at its offset.
  int64_t a_end = a->offset + layout_extent(a->layout) * itemsize(a->layout->dtype), b_end = b->offset + layout_extent(b->layout) * itemsize(b->layout->dtype);
  if (a_end <= b->offset || b_end <= a->offset) return Overlap::None;
  bool dense = (a->layout->flags & L_DENSE) && (b->layout->flags & L_DENSE);
  return dense ? Overlap::Partial : Overlap::Unknown;
}

bool refuse_self_overlap(const Tensor* t) {
  if (RL_LIKELY(t->layout->flags & L_DENSE) || !layout_self_overlaps(t->layout)) return true;
  raise(PyExc_RuntimeError, "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.");
  return false;
}
static bool raise_partial() {
  raise(PyExc_RuntimeError, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
        "Please clone() the tensor before performing the operation.");
  return false;
}

// Holds copies of operands for the length of a call.
struct Copies {
  std::vector<Tensor*> list;
  ~Copies() { for (Tensor* t : list) Py_DECREF((PyObject*)t); }
};

// Operands that must not be read while the destinations are written are replaced by copies. `own[i]`: argument i is itself a destination.
static bool separate_operands(Call& c, Copies* copies, bool pointwise, bool refuse_partial) {
  for (int d = 0; d < c.ndest; d++) {
    bool own_seen = false;
    for (int i = 0; i < c.nt; i++) {
      Tensor* t = c.t[i];
      if (!t) continue;
      if (c.form == 1 && t == c.dests[d] && !own_seen) { own_seen = true; continue; }     // the destination in its own place
      Overlap o = overlap_of(c.dests[d], t);
      if (RL_LIKELY(o == Overlap::None)) continue;
      bool also_written = false;
      for (int e = 0; e < c.ndest; e++) also_written |= c.form == 1 && e != d && c.dests[e] == t;
      if (also_written) { if (o == Overlap::Same) continue; return raise_partial(); }     // two destinations over the same memory: the op's own business if identical
      bool resolved = c.dests[d]->layout->flags & (L_CONJ | L_NEG);                      // torch computes these elsewhere and copies: it refuses nothing
      if (!resolved && (c.op->separate || (o == Overlap::Partial && refuse_partial))) return raise_partial();
      if (o == Overlap::Same && pointwise) continue;
      Tensor* copy = call_op(op_find("clone"), {t});
      if (!copy) return false;
      ++g_stats.overlaps;
      copies->list.push_back(copy);
      c.t[i] = copy;
    }
  }
  return true;
}

// ----------------------------------------------------------------------------------------------------------------- in-place
static int run_native_inplace(Call& c, PyObject** outs, int max) {
  for (int i = 0; i < c.ndest; i++) if (!materialize(c.dests[i]->storage)) return -1;
  ++g_stats.native_calls;
  int n = c.op->native(c, outs, max);
  if (n < 0) return -1;
  for (int i = 0; i < c.ndest; i++) bump_version(c.dests[i]);
  return n;
}

static int run_inplace(Call& c, PyObject** outs, int max) {
  for (int i = 0; i < c.ndest && !c.op->one_value; i++) if (!refuse_self_overlap(c.dests[i])) return -1;
  if (!tape_before_inplace(c)) return -1;
  if (runs_native(c)) return run_native_inplace(c, outs, max);
  bool declared = signature_of(c).has_written;
  Copies copies;
  if (c.nt > 1 && !separate_operands(c, &copies, c.op->pointwise && !declared, c.op->pointwise || declared)) return -1;
  Plan* p = plan_lookup(c, grad_mask(c));
  return p ? plan_run(p, c, outs, max) : -1;
}

// --------------------------------------------------------------------------------------------------------------------- out=
// torch.can_cast, for results: never from floating to integral, from complex to real, or from anything to bool.
static bool can_cast(DType from, DType to) {
  auto rank = [](DType d) { char k = DTYPES[(int)d].kind; return k == 'b' ? 0 : k == 'u' || k == 'i' ? 1 : k == 'f' ? 2 : 3; };
  return rank(from) <= rank(to);
}

static const Layout* output_layout(const Plan* p, int i, const Call& c) {
  const Output& o = p->outs[i];
  switch (o.kind) {
    case RefKind::Buffer: return p->buffers[o.index].layout;
    case RefKind::Arg: return c.t[o.index]->layout;
    case RefKind::View: return o.layout;
    default: return nullptr;
  }
}


// What the definition says of an out= tensor that has another dtype than the result: OpDef.out_refusal, an exception or None.
static bool refuse_dtype(const Call& c, const Tensor* dest, const Layout* want, bool castable) {
  PyObject* stated = nullptr;
  if (int found = optional_attribute(c.op->definition, "out", &stated); found <= 0) return found == 0;
  bool nothing = PyBool_Check(stated);
  Py_DECREF(stated);
  if (nothing) return true;
  PyObject* request = call_request(c, 0);
  if (!request) return false;
  DType have = dest->layout->dtype;
  PyObject* names = Py_BuildValue("{s:s,s:s,s:s,s:s}", "out", dtype_scalar_name(have), "result", dtype_scalar_name(want->dtype), "out_c", dtype_cpp_name(have), "result_c",
                                  dtype_cpp_name(want->dtype));
  PyObject* error = !names ? nullptr : PyObject_CallMethod(c.op->definition, "out_refusal", "OOOO", PyTuple_GET_ITEM(request, 5), PyTuple_GET_ITEM(request, 3),
                                                          castable ? Py_True : Py_False, names);
  if (error && error != Py_None) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  bool good = error == Py_None;
  Py_XDECREF(error); Py_XDECREF(names);
  Py_DECREF(request);
  return good;
}

// torch's reductions accumulate in the dtype of their out= tensor, and its factories take it, unless told `dtype=`.
static bool take_dtype_from_out(Call& c, const Tensor* dest) {
  Args a(c);
  for (const Param& p : signature_of(c).params) {
    if (p.face_only) continue;
    if (p.kind != ParamKind::DType) { skip_words(a, p); continue; }
    if (c.static_words[a.is] != ABSENT) return true;
    PyObject* wanted = nullptr;
    int yes = optional_attribute(c.op->definition, "dtype_from_out", &wanted);
    if (yes > 0) yes = PyObject_IsTrue(wanted);
    Py_XDECREF(wanted);
    if (yes <= 0) return yes == 0;
    if (!refuse_dtype(c, dest, dest->layout, true)) return false;
    c.static_words[a.is] = (uint64_t)dest->layout->dtype;
    return true;
  }
  return true;
}

// Whether a result of this layout may go to the destination at all.
static bool check_out(const Call& c, Tensor* dest, const Layout* want) {
  if (want->device != dest->layout->device) {
    raise(PyExc_RuntimeError, "Attempting to copy from device %s to device %s, but cross-device copies are not allowed!", want->device == Device::Meta ? "meta" : "cpu",
          dest->layout->device == Device::Meta ? "meta" : "cpu");
    return false;
  }
  bool castable = can_cast(want->dtype, dest->layout->dtype);
  if (want->dtype != dest->layout->dtype && !refuse_dtype(c, dest, want, castable)) return false;
  if (!castable) {
    raise(PyExc_RuntimeError, "result type %s can't be cast to the desired output type %s", dtype_scalar_name(want->dtype), dtype_scalar_name(dest->layout->dtype));
    return false;
  }
  return !same_shape(want, dest->layout) || refuse_self_overlap(dest);
}
// A destination of another shape becomes one of the result's. torch warns of it where tensors say the shape, not where sizes do.
static bool fit_out(const Call& c, Tensor* dest, const Layout* want) {
  if (same_shape(want, dest->layout)) return true;
  if (dest->layout->numel && c.nt &&
      !warn(nullptr, "%s(): the out= tensor of shape %s had elements and was resized to the result's shape, %s. That is deprecated; out.resize_(0) beforehand says that it is meant.", c.op->text,
            shape_text(dest->layout).c_str(), shape_text(want).c_str())) return false;
  // It gets the result's strides too (columns of LAPACK's), and the memory they reach.
  int64_t reach = 1;
  for (int d = 0; d < want->ndim; d++) reach += (want->shape()[d] - 1) * want->strides()[d];
  PyObject* size = int_tuple(want->shape(), want->ndim);
  PyObject* strides = int_tuple(want->strides(), want->ndim);
  const bool rows = (want->flags & L_CONTIGUOUS) || !want->numel;
  PyObject* r = !size || !strides ? nullptr : rows ? PyObject_CallMethod((PyObject*)dest, "resize_", "(O)", size)
                                                   : PyObject_CallMethod((PyObject*)dest, "resize_", "((L))", (long long)reach);
  if (r && !rows) {
    Py_DECREF(r);
    r = PyObject_CallMethod((PyObject*)dest, "as_strided_", "(OO)", size, strides);
  }
  Py_XDECREF(size);
  Py_XDECREF(strides);
  Py_XDECREF(r);
  return r != nullptr;
}

// Results of a functional run go into the given tensors by copy_.
static int copy_results(Call& c, Tensor* const* dests, int ndest, PyObject** results, int n, PyObject** outs) {
  bool good = n == ndest;
  if (!good) raise(PyExc_TypeError, "%s(): expected %d out= tensors, got %d", c.op->text, n, ndest);
  for (int i = 0; good && i < n; i++) {
    good = results[i] && is_tensor(results[i]) && check_out(c, dests[i], ((Tensor*)results[i])->layout);
    if (!good && !PyErr_Occurred()) raise(PyExc_RuntimeError, "%s(): out= is not supported for this result", c.op->text);
  }
  for (int i = 0; good && i < n; i++) good = fit_out(c, dests[i], ((Tensor*)results[i])->layout);
  for (int i = 0; good && i < n; i++) {
    Tensor* r = call_op(op_find("copy_"), {dests[i], (Tensor*)results[i]});
    good = r != nullptr;
    Py_XDECREF((PyObject*)r);
  }
  for (int i = 0; i < n; i++) Py_XDECREF(results[i]);
  if (!good) return -1;
  for (int i = 0; i < n; i++) outs[i] = Py_NewRef((PyObject*)dests[i]);
  return n;
}

static bool refuse_gradients(const Call& c) {
  if (!tls.grad_mode) return true;
  bool any = false;
  for (int i = 0; i < c.nt; i++) any |= c.t[i] && c.t[i]->requires_grad;
  for (int i = 0; i < c.ndest; i++) any |= c.dests[i]->requires_grad;
  if (!any) return true;
  raise(PyExc_RuntimeError, "%s(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.", c.op->text);
  return false;
}

static int run_out(Call& c, PyObject** outs, int max) {
  if (!refuse_gradients(c)) return -1;
  Tensor* dests[8];
  int ndest = c.ndest;
  memcpy(dests, c.dests, sizeof(Tensor*) * (size_t)ndest);
  auto functional = [&]() -> int {
    PyObject* results[16];
    bool native = runs_native(c);         // it sees the out= tensors: a draw is made in their dtype
    if (!native) c.form = 0;
    if (!native) c.ndest = 0;
    if (native) ++g_stats.native_calls;
    int n = native ? c.op->native(c, results, 16) : run_call(c, results, 16);
    c.form = 0;
    c.ndest = 0;
    return n < 0 ? -1 : copy_results(c, dests, ndest, results, n, outs);
  };
  if (ndest == 1 && !take_dtype_from_out(c, dests[0])) return -1;
  for (int d = 0; c.op->separate && d < ndest; d++) if (!refuse_self_overlap(dests[d])) return -1;
  for (int d = 0; c.op->separate && d < ndest; d++)
    for (int i = 0; i < c.nt; i++) if (c.t[i] && (c.t[i] == dests[d] || overlap_of(dests[d], c.t[i]) != Overlap::None)) { raise_partial(); return -1; }
  if (runs_native(c)) return functional();
  // The functional plan says what the results look like.
  c.form = 0;
  c.ndest = 0;
  Plan* p = plan_lookup(c, 0);
  if (!p) return -1;
  incref(p);
  bool good = p->nouts == ndest, direct = true;
  if (!good) raise(PyExc_TypeError, "%s(): expected %d out= tensors, got %d", c.op->text, p->nouts, ndest);
  for (int i = 0; good && i < ndest; i++) {
    const Layout* want = output_layout(p, i, c);
    if (!want) { direct = false; continue; }
    direct &= p->outs[i].kind == RefKind::Buffer && want->dtype == dests[i]->layout->dtype && !(dests[i]->layout->flags & (L_CONJ | L_NEG)) && !p->meta && !p->draws;
    good = check_out(c, dests[i], want);
    // Growing a destination would change an operand under the call that is to read it: the results are made first. torch's pointwise ops refuse it.
    for (int k = 0; good && k < c.nt && !same_shape(want, dests[i]->layout); k++) {
      if (!c.t[k] || c.t[k]->storage != dests[i]->storage) continue;
      direct = false;
      if (c.op->separate) { raise_partial(); good = false; break; }          // torch looks after growing: then they share memory
      if (c.op->pointwise && c.t[k] == dests[i]) {
        raise(PyExc_RuntimeError, "output with shape %s doesn't match the broadcast shape %s", shape_text(dests[i]->layout).c_str(), shape_text(want).c_str());
        good = false;
      }
    }
  }
  for (int i = 0; good && direct && i < ndest; i++) good = fit_out(c, dests[i], output_layout(p, i, c));
  decref(p);
  if (!good) return -1;
  if (!direct) return functional();
  c.form = 2;
  c.ndest = ndest;
  memcpy(c.dests, dests, sizeof(Tensor*) * (size_t)ndest);
  for (int i = 0; i < ndest; i++) for (int k = 0; k < i; k++) if (overlap_of(dests[i], dests[k]) != Overlap::None) { raise_partial(); return -1; }
  Copies copies;
  if (!separate_operands(c, &copies, c.op->pointwise, c.op->pointwise)) return -1;
  p = plan_lookup(c, 0);
  return p ? plan_run(p, c, outs, max) : -1;
}

int run_inplace_or_out(Call& c, PyObject** outs, int max) { return c.form == 2 ? run_out(c, outs, max) : run_inplace(c, outs, max); }

}  // namespace rl
