// Nodes: one allocation each, plain reference counts, freed without recursion, seen by the cyclic GC through the tensors that own them.
#include "tape.h"
#include <new>

namespace rl {

int64_t g_nodes = 0;
static uint64_t g_sequence = 0;      // one counter for all threads (under the GIL)

void node_incref(Node* n) { node_hold(n); }
void node_decref(Node* n) { node_drop(n); }

Node* node_new(NodeKind kind, int nedges, int nout, int nhidden, int nsaved, int nscalar) {
  const int nslots = nout + nhidden;
  if (RL_UNLIKELY(nedges >= NO_HISTORY || nslots >= NO_HISTORY || nsaved >= NO_HISTORY || nscalar > 255)) {
    raise(PyExc_NotImplementedError, "one operation on %d tensors with %d results and %d scalars is more than the tape records; split it", nedges, nslots, nscalar);
    return nullptr;
  }
  const size_t tail = nedges * sizeof(Edge) + nslots * sizeof(Tensor*) + nsaved * sizeof(Saved);
  int size_class;
  Node* n = (Node*)block_new(sizeof(Node) + tail + nscalar * sizeof(Scalar), &size_class);
  if (RL_UNLIKELY(!n)) return nullptr;
  memset((void*)n, 0, sizeof(Node) + tail);
  n->rc = 1;
  n->kind = kind;
  n->nedges = (uint16_t)nedges; n->nslots = (uint16_t)nslots; n->nout = (uint16_t)nout; n->nsaved = (uint16_t)nsaved;
  n->nscalar = (uint8_t)nscalar;
  n->size_class = size_class;
  ++g_nodes;
  if (RL_UNLIKELY(g_anomaly)) anomaly_remember(n);
  return n;
}

void node_connected(Node* n) { n->sequence = ++g_sequence; }

NodeExtra* node_extra(Node* n) {
  if (!n->extra) n->extra = new NodeExtra;
  return n->extra;
}

// ------------------------------------------------------------------------------------------------------- leaves' nodes
// The leaf owns the node. As soon as a second owner appears, the node owns the leaf too; when the second owner has gone, no more.
void leaf_hold(Node* n) { if (n->leaf) Py_INCREF((PyObject*)n->leaf); }
void leaf_release(Node* n) { if (n->leaf) Py_DECREF((PyObject*)n->leaf); }

Node* leaf_node(Tensor* t) {
  if (RL_LIKELY(t->node != nullptr)) return t->node;
  Node* n = node_new(NodeKind::Accumulate, 0, 1);
  if (!n) return nullptr;
  n->leaf = t;
  t->node = n;
  return n;
}

// ----------------------------------------------------------------------------------------------------------- saved slots
void saved_fill(Saved* s, Tensor* t, uint32_t expected, uint16_t index, bool output) {
  s->storage = t->storage; incref(s->storage);
  s->layout = t->layout; incref(s->layout);
  s->offset = t->offset;
  s->version = t->version;
  if (s->version) ++s->version->rc;
  s->expected = expected; s->index = index; s->output = output;
}

static void version_release(Version* v) {
  if (v && --v->rc == 0) PyMem_Free(v);
}

void node_release_saved(Node* n) {
  if (n->released) return;
  n->released = 1;
  if (n->kind == NodeKind::CopySlices) { if (n->step->writer) node_release_saved(n->step->writer); return; }
  if (n->kind == NodeKind::Function && n->ctx) function_release_saved(n->ctx);
  Saved* s = n->saved();
  for (int i = 0; i < n->nsaved; i++) {
    if (!s[i].storage) continue;
    if (RL_UNLIKELY(s[i].is_packed)) {
      Packed* packed = s[i].packed; s[i].packed = nullptr; s[i].is_packed = false;
      decref(s[i].layout); s[i].layout = nullptr;
      packed_free(packed);
      continue;
    }
    Storage* storage = s[i].storage; s[i].storage = nullptr;
    version_release(s[i].version); s[i].version = nullptr;
    decref(s[i].layout); s[i].layout = nullptr;
    decref(storage);
  }
}

static const char* const TENSOR_TYPE_NAMES[] = {"Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double",
  "ComplexFloat", "ComplexDouble", "UInt16", "UInt32", "UInt64", "Float8_e4m3fn", "Float8_e5m2", "ComplexHalf"};

bool raise_second_time() {
  raise(PyExc_RuntimeError,
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved "
        "intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after calling backward.");
  return false;
}

static Edge history_of(Node* n, const Saved& s) {
  if (s.output) return {n, s.index};
  return s.index == NO_HISTORY ? Edge{nullptr, 0} : n->edges()[s.index];
}

static Tensor* changed(Node* n, const Saved& s, uint32_t now) {
  std::string text = "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.";
  text += TENSOR_TYPE_NAMES[(int)s.layout->dtype];
  text += "Tensor " + shape_text(s.layout) + "]";
  Edge from = history_of(n, s);
  Node* maker = from.node;
  uint32_t slot = from.slot;
  if (maker && maker->kind != NodeKind::Accumulate) text += ", which is output " + std::to_string(slot) + " of " + function_name(maker) + ",";
  text += " is at version " + std::to_string(now) + "; expected version " + std::to_string(s.expected) + " instead. Hint: ";
  text += g_anomaly ? "the backtrace further above shows the operation that failed to compute its gradient. The variable in question was changed in there or anywhere later."
                    : "enable anomaly detection to find the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).";
  text += " The gradient of " + function_name(n) + " needs the value as it was; change a copy (x.clone()) or use the out-of-place form.";
  PyErr_SetString(PyExc_RuntimeError, text.c_str());
  return nullptr;
}

Tensor* saved_unpack(Node* n, int index, bool history) {
  Saved& s = n->saved()[index];
  if (RL_UNLIKELY(n->released)) { raise_second_time(); return nullptr; }
  if (!s.storage) return nullptr;
  Tensor* t;
  if (RL_UNLIKELY(s.is_packed)) {
    t = packed_value(s);
    if (!t) return nullptr;
  } else {
    uint32_t now = s.version ? s.version->value : s.storage->version;
    if (RL_UNLIKELY(now != s.expected)) return changed(n, s, now);
    incref(s.layout); incref(s.storage);
    t = tensor_wrap(s.layout, s.storage, s.offset);
    if (RL_UNLIKELY(!t)) return nullptr;
    if (s.version) { t->version = s.version; ++s.version->rc; }
  }
  if (history) {
    Edge from = history_of(n, s);
    Node* maker = from.node;
    if (maker && s.output && s.index < n->nout && !dtype_differentiable(s.layout->dtype)) maker = nullptr;     // an index that came with a value
    if (maker) {
      node_hold(maker);
      if (maker->python) tensor_track(t);
      t->node = maker;
      t->out_nr = (uint16_t)from.slot;
      t->requires_grad = 1;
    }
  }
  return t;
}

// ---------------------------------------------------------------------------------------------------------------- freeing
static std::vector<Node*> g_dead;
static bool g_freeing = false;

static void extra_free(NodeExtra* e) {
  Py_XDECREF(e->pre_hooks); Py_XDECREF(e->post_hooks); Py_XDECREF(e->accumulated_hooks); Py_XDECREF(e->metadata);
  for (auto& h : e->tensor_hooks) Py_XDECREF(h.hooks);
  for (auto& r : e->retained) Py_XDECREF(r.tensor);
  delete e;
}

static void node_dismantle(Node* n) {
  node_release_saved(n);
  for (int i = 0; i < n->nedges; i++) if (Node* to = n->edges()[i].node) node_drop(to);
  for (int i = 0; i < n->nslots; i++) Py_XDECREF((PyObject*)n->grads()[i]);
  switch (n->kind) {
    case NodeKind::Plan: if (n->plan) decref(n->plan); break;
    case NodeKind::View: case NodeKind::CopySlices:
      if (ViewStep* step = n->step) {
        if (step->source) decref(step->source);
        if (step->out) decref(step->out);
        if (step->writer) node_drop(step->writer);
        delete step;
      }
      break;
    case NodeKind::Function:
      if (PyObject* ctx = n->ctx) { n->ctx = nullptr; function_node_dies(ctx); Py_DECREF(ctx); }
      break;
    case NodeKind::Accumulate: break;      // its leaf is dying, or gave it up
  }
  if (n->extra) extra_free(n->extra);
  --g_nodes;
  block_free(n, n->size_class);
}

// A graph may be a million nodes deep: what dies while another is being taken apart waits in a list. Taking apart may run Python
// (hooks, ctx attributes), so a pending exception is put aside.
void node_free(Node* n) {
  if (g_freeing) { g_dead.push_back(n); return; }
  g_freeing = true;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  const bool error = PyErr_Occurred() != nullptr;
  if (RL_UNLIKELY(error)) PyErr_Fetch(&type, &value, &traceback);
  node_dismantle(n);
  while (!g_dead.empty()) {
    Node* next = g_dead.back();
    g_dead.pop_back();
    node_dismantle(next);
  }
  g_freeing = false;
  if (RL_UNLIKELY(error)) PyErr_Restore(type, value, traceback);
}

// --------------------------------------------------------------------------------------------------- garbage collection
static int extra_traverse(NodeExtra* e, visitproc visit, void* arg) {
  Py_VISIT(e->pre_hooks); Py_VISIT(e->post_hooks); Py_VISIT(e->accumulated_hooks); Py_VISIT(e->metadata);
  for (auto& h : e->tensor_hooks) Py_VISIT(h.hooks);
  for (auto& r : e->retained) Py_VISIT(r.tensor);
  return 0;
}

// What a node with a single owner holds, and what the nodes below hold as long as each has a single owner: that owner's references.
// Nodes that hold no Python object anywhere below are not entered.
int node_traverse(Node* root, visitproc visit, void* arg) {
  std::vector<Node*> todo{root};
  while (!todo.empty()) {
    Node* n = todo.back();
    todo.pop_back();
    if (n->extra) { int r = extra_traverse(n->extra, visit, arg); if (r) return r; }
    if (n->kind == NodeKind::Function) Py_VISIT(n->ctx);
    for (int i = 0; i < n->nsaved; i++)
      if (n->saved()[i].is_packed) { Py_VISIT(n->saved()[i].packed->value); Py_VISIT(n->saved()[i].packed->unpack); }
    for (int i = 0; i < n->nedges; i++) {
      Node* to = n->edges()[i].node;
      if (!to) continue;
      // A leaf is held by its node for as long as the node has owners besides the leaf: with exactly one, that reference is ours.
      if (to->kind == NodeKind::Accumulate) { if (to->rc == 2) Py_VISIT((PyObject*)to->leaf); }
      else if (to->rc == 1 && to->python) todo.push_back(to);
    }
    if (n->kind == NodeKind::CopySlices && n->step->writer && n->step->writer->rc == 1) todo.push_back(n->step->writer);
  }
  return 0;
}

void node_clear(Node* n) {
  NodeExtra* e = n->extra;
  if (!e) return;
  Py_CLEAR(e->pre_hooks); Py_CLEAR(e->post_hooks); Py_CLEAR(e->accumulated_hooks); Py_CLEAR(e->metadata);
  auto hooks = std::move(e->tensor_hooks);
  e->tensor_hooks.clear();
  for (auto& h : hooks) Py_XDECREF(h.hooks);
}

static int view_traverse(ViewInfo* v, visitproc visit, void* arg) {
  for (; v && v->rc == 1; v = v->parent) Py_VISIT((PyObject*)v->base);
  return 0;
}

int tape_traverse(Tensor* t, visitproc visit, void* arg) {
  if (Node* n = t->node) {
    // The hooks of a leaf's node are visited from the leaf alone, whoever else holds the node: leaf and node live and die together.
    if (n->kind == NodeKind::Accumulate) { if (n->leaf == t && n->extra) { int r = extra_traverse(n->extra, visit, arg); if (r) return r; } }
    else if (n->rc == 1) { int r = node_traverse(n, visit, arg); if (r) return r; }
  }
  return t->view ? view_traverse(t->view, visit, arg) : 0;
}

void tape_clear(Tensor* t) {
  if (Node* n = t->node) {
    if (n->kind == NodeKind::Accumulate) { if (n->leaf == t) node_clear(n); }
    else { t->node = nullptr; t->requires_grad = 0; t->out_nr = 0; node_drop(n); }
  }
  if (view_base(t)) view_release(t);
}

// ------------------------------------------------------------------------------------------------------------------ names
static const char* view_name(const ViewStep& step) {
  if (step.spec.name) return step.spec.name;
  switch (step.spec.kind) {
    case ViewKind::Alias: case ViewKind::Detach: return "AliasBackward0";
    case ViewKind::Reshape: return "ViewBackward0";
    case ViewKind::Permute: {
      int moved = 0;
      for (size_t i = 0; i < step.spec.ints.size(); i++) moved += step.spec.ints[i] != (int64_t)i;
      return moved == 2 ? "TransposeBackward0" : "PermuteBackward0";
    }
    case ViewKind::Expand: return "ExpandBackward0";
    case ViewKind::Slice: return "SliceBackward0";
    case ViewKind::Select: return "SelectBackward0";
    case ViewKind::Squeeze: return "SqueezeBackward0";
    case ViewKind::Unsqueeze: return "UnsqueezeBackward0";
    case ViewKind::Diagonal: return "DiagonalBackward0";
    case ViewKind::AsStrided: return "AsStridedBackward0";
    case ViewKind::Unfold: return "UnfoldBackward0";
    case ViewKind::Conj: return "ConjBackward0";
    case ViewKind::Neg: return "NegViewBackward0";
    case ViewKind::ViewAsReal: return "ViewAsRealBackward0";
    case ViewKind::ViewAsComplex: return "ViewAsComplexBackward0";
    case ViewKind::DType: return "ViewBackward1";
  }
  return "ViewBackward0";
}

const char* node_name(Node* n) {
  switch (n->kind) {
    case NodeKind::Plan: return n->plan->node_name;
    case NodeKind::View: return view_name(*n->step);
    case NodeKind::Accumulate: return "AccumulateGrad";
    case NodeKind::CopySlices: return "CopySlices";
    case NodeKind::Function: return n->ctx ? function_short_name(n->ctx) : "Function";
  }
  return "";
}

// "MulBackward0" -> "Mul"
std::string function_name(Node* n) {
  std::string name = node_name(n);
  size_t end = name.rfind("Backward");
  bool suffix = end != std::string::npos && end > 0;
  for (size_t i = suffix ? end + 8 : 0; suffix && i < name.size(); i++) suffix = name[i] >= '0' && name[i] <= '9';
  return suffix ? name.substr(0, end) : name;
}

}  // namespace rl
