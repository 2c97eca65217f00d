// Recording: a node for a plan that ran, a node for a view, and what an in-place write does to the histories that share the memory.
#include "tape.h"
#include "compat.h"
#include "op.h"
#include <algorithm>
#include <new>

namespace rl {

static void take_history(Tensor* t, Node* n, uint32_t slot) {      // n: one more owner
  node_hold(n);
  t->node = n;
  t->out_nr = (uint16_t)slot;
  t->requires_grad = 1;
  if (RL_UNLIKELY(n->python)) tensor_track(t);
}

// ------------------------------------------------------------------------------------------------------------------ edges
bool leaf_slow(const Tensor* t) {          // no node yet, requires grad, has a view record: a stale view is not a leaf
  Tensor* base = view_base(t);
  return !base || t->view->version == version_of(t) || is_leaf(base);
}

bool gradient_edge(Tensor* t, Edge* e) {
  *e = Edge{nullptr, 0};
  if (!t->requires_grad) return true;
  if (RL_UNLIKELY(view_base(t) != nullptr) && !refresh_view(t)) return false;
  e->node = leaf_node(t);
  e->slot = t->out_nr;
  return e->node != nullptr;
}

static bool connect(Node* n, int i, Tensor* t) {
  if (!t || !t->requires_grad) return true;
  if (RL_UNLIKELY(!gradient_edge(t, &n->edges()[i]))) { n->edges()[i] = Edge{nullptr, 0}; return false; }
  Node* to = n->edges()[i].node;
  if (!to) return true;
  node_hold(to);
  n->python |= to->python;
  return true;
}

// ------------------------------------------------------------------------------------------------------------------ plans
static bool refuse_inference() {
  raise(PyExc_RuntimeError, "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation "
        "tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
        "instead of `torch.inference_mode()`.");
  return false;
}

// The counter that guards a tensor's data: two tensors with the same counter change version together.
static const void* counter_of(const Tensor* t) { return t->version ? (const void*)t->version : (const void*)t->storage; }

static bool save_all(Node* n, Plan* plan, const Call& call, PyObject** outs, Storage** hidden) {
  for (int i = 0; i < plan->nsaves; i++) {
    Saved* slot = &n->saved()[i];
    const SaveSpec& ref = plan->saves[i];
    if (ref.kind == SaveKind::Hidden) {
      slot->storage = hidden[ref.index]; incref(slot->storage);
      slot->layout = plan->hidden_layout(ref.index); incref(slot->layout);
      slot->index = (uint16_t)(n->nout + ref.index);
      slot->output = true;
      slot->expected = slot->storage->version;
      continue;
    }
    Tensor* t = ref.kind == SaveKind::Arg ? call.t[ref.index] : (Tensor*)outs[ref.index];
    if (!t) continue;
    if (RL_UNLIKELY(t->bits & T_INFERENCE)) return refuse_inference();
    uint32_t version = version_of(t);
    // An argument is saved as it was read: if this very call has written it since, backward must notice.
    if (call.ndest && ref.kind == SaveKind::Arg)
      for (int d = 0; d < call.ndest; d++) if (counter_of(call.dests[d]) == counter_of(t)) { version--; break; }
    saved_fill(slot, t, version, (uint16_t)ref.index, ref.kind == SaveKind::Output);
  }
  return true;
}

bool tape_record(Plan* plan, const Call& call, PyObject** outs, int nout, Storage** hidden) {
  Node* n = node_new(NodeKind::Plan, plan->nargs, nout, plan->nhidden, plan->nsaves, call.nscalar);
  if (RL_UNLIKELY(!n)) { for (int h = 0; h < plan->nhidden; h++) decref(hidden[h]); return false; }
  incref(plan);
  n->plan = plan;
  if (call.nscalar) memcpy(n->scalars(), call.scalars, call.nscalar * sizeof(Scalar));
  bool good = true;
  for (int i = 0; good && i < plan->nargs; i++) good = connect(n, i, call.t[i]);
  node_connected(n);
  if (RL_LIKELY(good)) good = save_all(n, plan, call, outs, hidden);
  for (int h = 0; h < plan->nhidden; h++) decref(hidden[h]);
  for (int i = 0; good && i < nout; i++) {
    Tensor* out = (Tensor*)outs[i];
    if (!out || (PyObject*)out == Py_None || !dtype_differentiable(out->layout->dtype)) continue;
    if (RL_UNLIKELY(plan->recipe->parsed->constant >> i & 1)) continue;
    if (RL_LIKELY(!call.form)) {
      // An argument given back has its own history; so has a view.
      if (RL_UNLIKELY(plan->outs[i].kind != RefKind::Buffer) && (plan->outs[i].kind == RefKind::Arg || out->node)) continue;
      take_history(out, n, i);
      continue;
    }
    int argument = -1;
    for (int a = 0; a < plan->nargs; a++) if (call.t[a] == out) { argument = a; break; }
    good = rebase_history(out, n, i, argument);
  }
  if (RL_UNLIKELY(tls.saved_hooks != nullptr) && good && n->nsaved) good = saved_pack_all(n, plan, call, outs);
  node_drop(n);
  return good;
}

// ------------------------------------------------------------------------------------------------------------------ views
static ViewInfo* view_info_new() {
  int size_class;
  void* block = block_new(sizeof(ViewInfo), &size_class);
  if (!block) return nullptr;
  ViewInfo* v = new (block) ViewInfo{};
  v->rc = 1;
  v->size_class = size_class;
  return v;
}

static void view_info_drop(ViewInfo* v) {
  while (v && --v->rc == 0) {
    ViewInfo* parent = v->parent;
    Tensor* base = v->base;
    int size_class = v->size_class;
    v->~ViewInfo();
    block_free(v, size_class);
    Py_XDECREF((PyObject*)base);
    v = parent;
  }
}

// The list of live views hangs on the base, so that a write into the base can reach them.
static bool enlist(Tensor* base, ViewInfo* v) {
  if (!base->view) {
    base->view = view_info_new();
    if (!base->view) return false;
    base->view->tensor = base;
  }
  ViewInfo* head = base->view;
  v->prev = head;
  v->next = head->next;
  if (v->next) v->next->prev = v;
  head->next = v;
  return true;
}

void view_release(Tensor* t) {
  ViewInfo* v = t->view;
  if (!v) return;
  t->view = nullptr;
  v->tensor = nullptr;
  if (v->prev) v->prev->next = v->next;
  if (v->next) v->next->prev = v->prev;
  v->prev = v->next = nullptr;
  view_info_drop(v);
}

void view_mark_multi_output(Tensor* t, int output, const char* function) {
  if (!view_base(t)) return;
  if (t->view->creation == Creation::Default) t->view->creation = Creation::MultiOutput;
  t->view->output = (uint16_t)output;
  t->view->function = function;
}

bool tape_record_view(Tensor* source, Tensor* out, ViewSpec&& spec) {
  if (spec.kind == ViewKind::Detach) return true;
  const bool differentiable = dtype_differentiable(out->layout->dtype) && spec.kind != ViewKind::DType;
  if (source->requires_grad && tls.grad_mode && differentiable) {
    Node* n = node_new(NodeKind::View, 1, 1);
    if (!n) return false;
    n->step = new ViewStep{spec, source->layout, source->offset, out->layout, out->offset, {}, nullptr, 0};
    incref(source->layout); incref(out->layout);
    bool good = connect(n, 0, source);
    node_connected(n);
    if (good) take_history(out, n, 0);
    node_drop(n);
    if (!good) return false;
  } else if (source->requires_grad && differentiable) {
    out->requires_grad = 1;              // torch: a view made under no_grad requires grad like its base, but has no history
  }
  // A view of an inference tensor is one, wherever it is made. Inside the mode it keeps no track of its base.
  if (RL_UNLIKELY(source->bits & T_INFERENCE)) { out->bits |= T_INFERENCE; if (tls.guard & G_INFERENCE) return true; }

  ViewInfo* v = view_info_new();
  if (!v) return false;
  Tensor* from = view_base(source);
  Tensor* base = from ? from : source;
  Py_INCREF((PyObject*)base);
  v->base = base;
  v->tensor = out;
  v->spec = std::move(spec);
  v->version = version_of(out);
  v->creation = tls.guard & G_INFERENCE ? Creation::Inference : tls.grad_mode ? Creation::Default : Creation::NoGrad;
  if (from) {
    v->parent = source->view;
    ++v->parent->rc;
    if (v->creation == Creation::Default) v->creation = v->parent->creation;
  }
  if (!enlist(base, v)) { view_info_drop(v); return false; }
  out->view = v;
  tensor_track(out);
  return true;
}

static std::vector<ViewSpec> chain_of(const ViewInfo* v) {
  std::vector<ViewSpec> chain;
  for (; v && v->base; v = v->parent) chain.push_back(v->spec);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

static Tensor* replay(Tensor* base, const std::vector<ViewSpec>& chain) {
  Tensor* t = base;
  Py_INCREF((PyObject*)t);
  for (const ViewSpec& spec : chain) {
    Tensor* next = view_apply(t, spec);
    Py_DECREF((PyObject*)t);
    if (!next) return nullptr;
    t = next;
  }
  return t;
}

// `indirect`: not the view itself but its base, or another view of it, is or was written.
static bool refuse_view(const ViewInfo* v, bool indirect) {
  std::string maker = v->function ? v->function : v->tensor && v->tensor->node ? function_name(v->tensor->node) : "a function";
  const char* what = indirect ? "its base or another view of its base has been modified inplace" : "is being modified inplace";
  switch (v->creation) {
    case Creation::Default: return true;
    case Creation::MultiOutput:
      raise(PyExc_RuntimeError, "Output %d of %s is a view and %s. This view is the output of a function that returns multiple views. Such functions do "
            "not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
            (int)v->output, maker.c_str(), what);
      return false;
    case Creation::NoGrad:
      raise(PyExc_RuntimeError, "A view was created in no_grad mode and %s with grad mode enabled. Given that this use case is ambiguous and error-prone, "
            "it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't "
            "want the inplace to be tracked) or both outside (if you want the inplace to be tracked).", what);
      return false;
    case Creation::Inference:
      raise(PyExc_RuntimeError, "A view was created in inference mode and %s in normal mode. Given that this use case is ambiguous and error-prone, it is "
            "forbidden. You can clarify your code by moving both the view and the inplace either both inside the inference_mode block (if you don't "
            "want the inplace to be tracked) or both outside (if you want the inplace to be tracked).", what);
      return false;
    case Creation::CustomFunction:
      raise(PyExc_RuntimeError, "Output %d of %s is a view and %s. This view was created inside a custom Function (or because an input was returned as-is) and "
            "the autograd logic to handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
            "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function.",
            (int)v->output, maker.c_str(), what);
      return false;
  }
  return true;
}

// A view whose data changed version since its history was made: its history is the way to the base's present one.
bool refresh_view(Tensor* t) {
  ViewInfo* v = t->view;
  const uint32_t now = version_of(t);
  if (RL_LIKELY(v->version == now)) return true;
  Tensor* base = v->base;
  if (!base->requires_grad || is_leaf(base) || !dtype_differentiable(t->layout->dtype)) { v->version = now; return true; }
  if (v->creation != Creation::Default && !refuse_view(v, true)) return false;
  const bool grad_mode = tls.grad_mode;
  tls.grad_mode = true;
  Tensor* again = replay(base, chain_of(v));
  tls.grad_mode = grad_mode;
  if (!again) return false;
  Node* old = t->node;
  t->node = again->node;
  t->out_nr = again->out_nr;
  t->requires_grad = 1;
  again->node = nullptr;
  again->requires_grad = 0;
  Py_DECREF((PyObject*)again);
  v->version = now;
  if (old) {
    if (old->kind == NodeKind::Accumulate && old->leaf == t) { old->leaf = nullptr; if (old->rc > 1) Py_DECREF((PyObject*)t); }
    node_drop(old);
  }
  if (t->node->python) tensor_track(t);
  return true;
}

// --------------------------------------------------------------------------------------------------------- in-place writes
static bool check_written(Tensor* t, bool recorded) {
  if (RL_UNLIKELY(t->bits & T_INFERENCE) && !(tls.guard & G_INFERENCE)) {
    raise(PyExc_RuntimeError, "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal tensor before "
          "doing inplace update.");
    return false;
  }
  if (!recorded) return true;
  if (Tensor* base = view_base(t)) {
    if (t->view->creation != Creation::Default && !refuse_view(t->view, false)) return false;
    if (t->requires_grad && is_leaf(base)) {
      raise(PyExc_RuntimeError, "a view of a leaf Variable that requires grad is being used in an in-place operation. Its base has shape %s; write under "
            "torch.no_grad(), or into a copy (clone()).", shape_text(base->layout).c_str());
      return false;
    }
  }
  if (t->requires_grad && is_leaf(t)) {
    raise(PyExc_RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation. It has shape %s; write under torch.no_grad(), or "
          "into a copy (clone()).", shape_text(t->layout).c_str());
    return false;
  }
  return true;
}

bool tape_check_written(Tensor* t) { return check_written(t, tls.grad_mode); }

bool tape_before_inplace(const Call& call) {
  bool recorded = false;
  if (tls.grad_mode) {
    for (int i = 0; i < call.nt; i++) if (call.t[i] && call.t[i]->requires_grad) { recorded = true; break; }
    for (int i = 0; i < call.ndest; i++) recorded |= call.dests[i]->requires_grad != 0;
  }
  if (call.form == 2 && recorded) {
    raise(PyExc_RuntimeError, "%s(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.",
          call.op ? call.op->text : "op");
    return false;
  }
  for (int i = 0; i < call.ndest; i++) if (!check_written(call.dests[i], recorded)) return false;
  if (RL_UNLIKELY(tls.before_write != nullptr))
    for (int i = 0; i < call.ndest; i++) {
      PyObject* done = PyObject_CallOneArg(tls.before_write, (PyObject*)call.dests[i]);
      if (!done) return false;
      Py_DECREF(done);
    }
  return true;
}

// A gradient that a tensor retains belongs to its newest value.
static void move_retained(Tensor* t, Node* from, Node* to, uint32_t slot) {
  if (!(t->bits & T_RETAINS_GRAD) || !from || !from->extra) return;
  auto& list = from->extra->retained;
  for (size_t i = 0; i < list.size(); i++) {
    PyObject* target = weak_target(list[i].tensor);
    Py_XDECREF(target);
    if (target != (PyObject*)t) continue;
    node_extra(to)->retained.push_back({slot, list[i].tensor});
    to->python = 1;
    list.erase(list.begin() + i);
    return;
  }
}

static void replace_history(Tensor* t, Node* n, uint32_t slot) {
  Node* old = t->node;
  move_retained(t, old, n, slot);
  t->node = nullptr;
  take_history(t, n, slot);
  if (!old) return;
  if (old->kind == NodeKind::Accumulate && old->leaf == t) { old->leaf = nullptr; if (old->rc > 1) Py_DECREF((PyObject*)t); }
  node_drop(old);
}

void tape_set_history(Tensor* t, Node* n, uint32_t slot) { replace_history(t, n, slot); }

// Every live view of a base that now has a new history requires grad; which history, it finds out when asked. (A view that was an argument of the
// write itself has been looked at since the version changed: that is why being stale is said here.)
static void wake_views(Tensor* base) {
  if (!base->view) return;
  for (ViewInfo* v = base->view->next; v; v = v->next) {
    if (!v->tensor || !dtype_differentiable(v->tensor->layout->dtype)) continue;
    v->tensor->requires_grad = 1;
    v->version = version_of(v->tensor) - 1;
  }
}

bool rebase_history(Tensor* self, Node* n, uint32_t slot, int argument) {
  Tensor* base = view_base(self);
  if (!base) { replace_history(self, n, slot); wake_views(self); return true; }
  if (n->nout != 1) {
    raise(PyExc_RuntimeError, "an operation that writes several tensors at once cannot record a gradient through a view: pass copies, or write under no_grad()");
    return false;
  }
  // The base's new history: its old one outside the written region, the writer's inside (what torch calls CopySlices).
  Node* copy = node_new(NodeKind::CopySlices, 1 + n->nedges, 1);
  if (!copy) return false;
  copy->step = new ViewStep{{}, base->layout, base->offset, self->layout, self->offset, chain_of(self->view), n, argument};
  incref(base->layout); incref(self->layout);
  node_hold(n);
  n->writer = 1;
  bool good = connect(copy, 0, base);
  for (int i = 0; i < n->nedges; i++) {
    if (i == argument || !n->edges()[i].node) continue;
    copy->edges()[1 + i] = n->edges()[i];
    node_hold(n->edges()[i].node);
  }
  copy->python |= n->python;
  node_connected(copy);
  if (good) { replace_history(base, copy, 0); wake_views(base); }
  node_drop(copy);
  if (!good) return false;
  Node* before = self->node;
  if (before) node_hold(before);
  good = refresh_view(self);
  if (good && before) move_retained(self, before, self->node, self->out_nr);
  if (before) node_drop(before);
  return good;
}

bool tape_after_inplace(Tensor* self, Node* n) {
  bump_version(self);
  if (!n) return true;
  int argument = 0;
  return rebase_history(self, n, 0, argument);
}

void tape_detach_(Tensor* t) {
  if (view_base(t)) {
    raise(PyExc_RuntimeError, "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and "
          "gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these gradients.");
    return;
  }
  if (t->node && t->node->kind != NodeKind::Accumulate) { Node* old = t->node; t->node = nullptr; node_drop(old); }
  t->out_nr = 0;
  t->requires_grad = 0;
}

// ------------------------------------------------------------------------------------------------------ gradients of views
// By-value and run-time integers lie in a Call as runtime.h says.
struct GradientCall {
  Call call;
  bool good = false;
  GradientCall(const char* name, Tensor* grad) {
    call.op = op_find(name);
    good = call.op && call_reserve(call, 1, 16, 4 * MAX_DIMS + 8);
    call.t[0] = grad; call.nt = 1;
  }
  GradientCall& sizes(const int64_t* v, int n) {
    if (!good) return *this;
    call.static_words[call.nstatic++] = n;
    for (int i = 0; i < n; i++) call.syms[call.nsym++] = v[i];
    return *this;
  }
  GradientCall& number(int64_t v) { if (good) call.static_words[call.nstatic++] = (uint64_t)v; return *this; }
  GradientCall& sym(int64_t v) { if (good) call.syms[call.nsym++] = v; return *this; }
  Tensor* run() {
    if (!good) return nullptr;
    PyObject* out = nullptr;
    return run_call(call, &out, 1) < 0 ? nullptr : (Tensor*)out;
  }
};

Tensor* view_step_backward(const ViewStep& step, Tensor* grad) {
  const Layout* to = step.source;
  const auto& v = step.spec.ints;
  switch (step.spec.kind) {
    case ViewKind::Alias: case ViewKind::Detach: Py_INCREF((PyObject*)grad); return grad;
    case ViewKind::Reshape: case ViewKind::Squeeze: case ViewKind::Unsqueeze: return view_reshape(grad, to->ndim, to->shape(), true);
    case ViewKind::Permute: {
      int64_t back[MAX_DIMS];
      for (size_t i = 0; i < v.size(); i++) back[v[i]] = (int64_t)i;
      return view_permute(grad, (int)v.size(), back);
    }
    case ViewKind::Expand: return GradientCall("view_backward_expand", grad).sizes(to->shape(), to->ndim).run();
    case ViewKind::Slice: return GradientCall("slice_backward", grad).sizes(to->shape(), to->ndim).number(v[0]).sym(v[1]).sym(v[3]).run();
    case ViewKind::Select: return GradientCall("select_backward", grad).sizes(to->shape(), to->ndim).number(v[0]).sym(v[1]).run();
    case ViewKind::Diagonal: return GradientCall("diagonal_backward", grad).sizes(to->shape(), to->ndim).sym(v[0]).number(v[1]).number(v[2]).run();
    case ViewKind::Unfold: return GradientCall("unfold_backward", grad).sizes(to->shape(), to->ndim).number(v[0]).sym(v[1]).sym(v[2]).run();
    case ViewKind::AsStrided: {
      const int n = (int)v[0];
      const int64_t item = itemsize(to->dtype);
      return GradientCall("as_strided_backward", grad).sizes(to->shape(), to->ndim).sizes(to->strides(), to->ndim).sym(step.source_offset / item)
          .sizes(v.data() + 1, n).sizes(v.data() + 1 + n, n).sym(v[1 + 2 * n]).run();
    }
    case ViewKind::Conj: case ViewKind::Neg: return view_apply(grad, step.spec);
    case ViewKind::ViewAsComplex: return view_apply(grad, ViewSpec{ViewKind::ViewAsReal, {}});
    case ViewKind::ViewAsReal: {
      Tensor* dense = grad;
      Py_INCREF((PyObject*)dense);
      if (!(grad->layout->flags & L_CONTIGUOUS)) {
        Py_DECREF((PyObject*)dense);
        dense = (Tensor*)PyObject_CallMethod((PyObject*)grad, "contiguous", nullptr);
        if (!dense) return nullptr;
      }
      Tensor* out = view_apply(dense, ViewSpec{ViewKind::ViewAsComplex, {}});
      Py_DECREF((PyObject*)dense);
      return out;
    }
    case ViewKind::DType: break;
  }
  raise(PyExc_NotImplementedError, "derivative for view(dtype) is not implemented");
  return nullptr;
}

// ----------------------------------------------------------------------------------------------------------------- Python
static PyObject* py_set_grad_enabled(PyObject*, PyObject* on) {
  int want = PyObject_IsTrue(on);
  if (want < 0) return nullptr;
  bool old = tls.grad_mode;
  tls.grad_mode = want;
  return PyBool_FromLong(old);
}
static PyObject* py_is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(tls.grad_mode); }
static PyObject* py_set_inference_mode(PyObject*, PyObject* on) {
  int want = PyObject_IsTrue(on);
  if (want < 0) return nullptr;
  bool old = tls.guard & G_INFERENCE;
  tls.guard = want ? tls.guard | G_INFERENCE : tls.guard & ~(uint32_t)G_INFERENCE;
  return PyBool_FromLong(old);
}
static PyObject* py_is_inference_mode(PyObject*, PyObject*) { return PyBool_FromLong((tls.guard & G_INFERENCE) != 0); }

static PyObject* py_bump_version(PyObject*, PyObject* o) {
  if (!is_tensor(o)) return raise(PyExc_TypeError, "expected a Tensor, not %s", Py_TYPE(o)->tp_name);
  bump_version((Tensor*)o);
  Py_RETURN_NONE;
}

// --------------------------------------------------------------------------------------------------------------- swapping
// Who but the tensor itself knows it by its address: a graph that its gradient is to be written from, its views, the node that writes its retained gradient.
static bool refuse_swap(const Tensor* t, const char* name) {
  const char* holder = t->node && t->node->kind == NodeKind::Accumulate && t->node->rc > 1 ? "a graph" : t->view && !t->view->base && t->view->next ? "a view" :
                       t->bits & T_RETAINS_GRAD ? "its retained gradient" : nullptr;
  if (holder) raise(PyExc_RuntimeError, "Expected use_count of %s to be 1 or 2 with an AccumulateGrad node: %s refers to it, and would meet the other tensor in its place", name, holder);
  return holder != nullptr;
}
static void own(Tensor* t) {
  if (t->node && t->node->kind == NodeKind::Accumulate) t->node->leaf = t;
  if (t->view) t->view->tensor = t;
}
// swap_contents(a, b): everything but identity, class and weak references (utils.swap_tensors).
static PyObject* swap_contents(PyObject*, PyObject* args) {
  PyObject *x, *y;
  if (!PyArg_ParseTuple(args, "O!O!:swap_contents", TensorType, &x, TensorType, &y)) return nullptr;
  Tensor *a = (Tensor*)x, *b = (Tensor*)y;
  if (refuse_swap(a, "t1") || refuse_swap(b, "t2")) return nullptr;
  if (a == b) Py_RETURN_NONE;
  const uint8_t stays = T_TRACKED;
  std::swap(a->layout, b->layout); std::swap(a->storage, b->storage); std::swap(a->offset, b->offset); std::swap(a->version, b->version);
  std::swap(a->node, b->node); std::swap(a->view, b->view); std::swap(a->grad, b->grad); std::swap(a->dict, b->dict);
  std::swap(a->out_nr, b->out_nr); std::swap(a->requires_grad, b->requires_grad);
  const uint8_t differ = (a->bits ^ b->bits) & (uint8_t)~stays;
  a->bits ^= differ; b->bits ^= differ;
  own(a); own(b);
  if ((a->bits | b->bits) & stays) { tensor_track(a); tensor_track(b); }
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
  {"swap_contents", swap_contents, METH_VARARGS, "swap_contents(a, b)\n\nEach tensor becomes what the other was, but for class and identity."},
  {"bump_version", py_bump_version, METH_O, "bump_version(tensor)\n\nThe data changed by other means than an operation."},
  {"set_grad_enabled", py_set_grad_enabled, METH_O, "set_grad_enabled(on) -> bool\n\nSwitches recording for this thread; the old setting."},
  {"is_grad_enabled", py_is_grad_enabled, METH_NOARGS, "is_grad_enabled() -> bool"},
  {"set_inference_mode", py_set_inference_mode, METH_O, "set_inference_mode(on) -> bool\n\nThe old setting. Grad mode is the caller's to switch."},
  {"is_inference_mode_enabled", py_is_inference_mode, METH_NOARGS, "is_inference_mode_enabled() -> bool"},
  {nullptr}};

// `with _C.no_grad_guard():` for the package's own code, without the Python class.
struct Guarded { PyObject_HEAD bool before; };
static PyObject* guard_enter(PyObject* o, PyObject*) {
  ((Guarded*)o)->before = tls.grad_mode;
  tls.grad_mode = false;
  Py_RETURN_NONE;
}
static PyObject* guard_exit(PyObject* o, PyObject* const*, Py_ssize_t) {
  tls.grad_mode = ((Guarded*)o)->before;
  Py_RETURN_NONE;
}
static PyMethodDef guard_methods[] = {
  {"__enter__", guard_enter, METH_NOARGS, nullptr}, {"__exit__", (PyCFunction)(void*)guard_exit, METH_FASTCALL, nullptr}, {nullptr}};
static PyType_Slot guard_slots[] = {{Py_tp_methods, guard_methods}, {Py_tp_new, (void*)PyType_GenericNew}, {0, nullptr}};
static PyType_Spec guard_spec = {"rushlight._C.no_grad_guard", sizeof(Guarded), 0, Py_TPFLAGS_DEFAULT, guard_slots};

bool init_tape(PyObject* m) {
  PyObject* guard = PyType_FromSpec(&guard_spec);
  if (!guard || PyModule_AddObjectRef(m, "no_grad_guard", guard) < 0) { Py_XDECREF(guard); return false; }
  Py_DECREF(guard);
  stat_register("nodes", &g_nodes);
  return PyModule_AddFunctions(m, methods) == 0 && init_grad_fn(m) && init_saved_hooks(m);
}

}  // namespace rl
