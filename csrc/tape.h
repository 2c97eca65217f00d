// The tape: who computed a tensor, from what, and how to go back.
//
// A Node is one C++ object: header, edges, gradient slots, saved slots and scalars in one allocation. An edge is
// (node, output slot). A saved slot holds storage, layout, offset and version, never a Tensor: a node that saves its own
// output makes no cycle. Saved intermediates are extra ("hidden") output slots of their node.
//
//   node.cpp      nodes: allocation, reference counts, iterative freeing, saved slots, garbage collection
//   saved_hooks.cpp   saved slots that the user packs his own way (autograd.graph.saved_tensors_hooks)
//   tape.cpp      recording: plans, views, in-place operations and the histories they rewrite
//   engine.cpp    running: dependency counts, accumulation, hooks, capture
//   grad_fn.cpp   what Python sees of a node, hooks on tensors and nodes, backward() and grad()
//   function.cpp  autograd.Function: nodes whose backward is Python
//
// Decisions
//  - A leaf owns its AccumulateGrad node for ever (Tensor.node). While anything else refers to that node too, the node owns
//    the leaf in return (node_incref / node_decref switch the reference on and off), so that a graph keeps its leaves alive.
//  - Sequence numbers come from one counter: an edge always points to a smaller number (AccumulateGrad excepted, which has
//    no edges), so descending order is a topological order.
//  - The replayer bumps versions after writing and before tape_record; tape_after_inplace bumps for those who write by hand.
#pragma once
#include "plan.h"

namespace rl {

enum class NodeKind : uint8_t { Plan, View, Accumulate, CopySlices, Function };

struct Edge { Node* node; uint32_t slot; };

const uint16_t NO_HISTORY = 0xFFFF;
struct Packed { PyObject *value, *unpack; };      // what a pack hook made of a saved value, and who makes the value again; both owned
struct Saved {
  union {
    Storage* storage;    // null: an absent optional argument
    Packed* packed;      // owned, when is_packed; then there is no version
  };
  Layout* layout;
  int64_t offset;
  Version* version;      // as in Tensor; owned
  uint32_t expected;     // version when saved
  uint16_t index;        // an input's history is edges()[index] (or NO_HISTORY); an output is slot `index` of the node itself
  bool output, is_packed;
};

struct NodeExtra;        // what few nodes have: hooks, a Python face, metadata
struct ViewStep;

struct Node {
  int64_t rc;
  uint64_t sequence;
  uint64_t run;          // the engine run that owns pending, wanted and grads(); 0: none
  int32_t pending;       // gradients still to come in that run
  uint16_t nedges, nslots, nsaved, nout;   // slots: public outputs (nout), then hidden ones
  NodeKind kind;
  uint8_t wanted;        // by that run (engine.cpp)
  uint8_t released;      // saved slots were freed
  uint8_t python;        // holds Python objects, itself or further down: its tensors enter the cyclic GC
  uint8_t writer;        // a CopySlices node runs it too
  uint8_t busy;          // AccumulateGrad: a thread is adding into the leaf's gradient
  uint8_t nscalar;
  int size_class;
  union {
    Plan* plan;          // Plan: owned
    Tensor* leaf;        // Accumulate: owned while the node has another owner than the leaf; null: the leaf is a leaf no more
    PyObject* ctx;       // Function: owned
    ViewStep* step;      // View, CopySlices: owned
  };
  NodeExtra* extra;      // null for most
  // The order keeps every part aligned: each size is a multiple of 8.
  Edge* edges() { return (Edge*)(this + 1); }
  Tensor** grads() { return (Tensor**)(edges() + nedges); }
  Saved* saved() { return (Saved*)(grads() + nslots); }
  Scalar* scalars() { return (Scalar*)(saved() + nsaved); }
};

// ------------------------------------------------------------------------------------------------------------ nodes (node.cpp)
extern int64_t g_nodes;                       // how many live; the counter "nodes" of _C.stats()
Node* node_new(NodeKind, int nedges, int nout, int nhidden = 0, int nsaved = 0, int nscalar = 0);    // new; edges and slots are zero
void node_connected(Node*);                   // numbers it: call when all edges are there, since finding one may make nodes (stale views)
void node_free(Node*);                        // rc reached 0; iterative
void leaf_hold(Node*); void leaf_release(Node*);
inline void node_hold(Node* n) { if (RL_UNLIKELY(n->kind == NodeKind::Accumulate) && n->rc == 1) leaf_hold(n); ++n->rc; }
inline void node_drop(Node* n) {
  int64_t left = --n->rc;
  if (RL_UNLIKELY(left <= 1)) { if (left == 0) node_free(n); else if (n->kind == NodeKind::Accumulate) leaf_release(n); }
}
Tensor* saved_unpack(Node*, int index, bool history);       // new, or null: absent, or null with an error. Checks the version
void saved_fill(Saved*, Tensor*, uint32_t expected, uint16_t index, bool output);
void node_release_saved(Node*);
bool raise_second_time();                     // always false: what was saved has been freed
const char* node_name(Node*);                 // "MulBackward0", "AccumulateGrad", …
std::string function_name(Node*);             // "Mul": how errors name the operation

// Packing (saved_hooks.cpp). `given`: the tensor that was saved, or null: one is made. On failure the slot stays as it was.
bool saved_pack(Node*, Saved*, Tensor* given, PyObject* pack, PyObject* unpack);
bool saved_pack_all(Node*, const Plan*, const Call&, PyObject** outs);     // by the hooks of this thread
bool saved_pack_default(Node*, Saved*, Tensor*);                           // the same for one slot
Tensor* packed_value(const Saved&);           // new: asks the unpack hook; has the saved shape and dtype
void packed_free(Packed*);

// For tensor.cpp: what a tensor reaches through node and view, for tp_traverse and tp_clear. They look at ownership themselves.
int tape_traverse(Tensor*, visitproc, void*);
void tape_clear(Tensor*);
int node_traverse(Node*, visitproc, void*);   // only of a node with a single owner
void node_clear(Node*);

inline bool dtype_differentiable(DType d) { char k = DTYPES[(int)d].kind; return k == 'f' || k == 'c'; }
bool leaf_slow(const Tensor*);
inline bool is_leaf(const Tensor* t) {
  if (t->node) return t->node->kind == NodeKind::Accumulate;
  return RL_LIKELY(!t->view || !t->requires_grad) || leaf_slow(t);
}
Node* leaf_node(Tensor*);                     // borrowed: makes the AccumulateGrad of a leaf that has none; null with an error
// Where a tensor's gradient goes, borrowed; (null, 0) if it does not require grad. Regenerates the history of a stale view; false on error.
bool gradient_edge(Tensor*, Edge*);
bool refresh_view(Tensor*);                   // regenerate if stale; false with an error (no_grad and multi-output views)

struct NodeExtra {
  struct SlotHooks { uint32_t slot; PyObject* hooks; };           // OrderedDict id -> hook(grad)
  struct Retained { uint32_t slot; PyObject* tensor; };           // weakref of a tensor that retains its gradient
  PyObject* face = nullptr;                                       // borrowed: the grad_fn object, if one is alive
  PyObject *pre_hooks = nullptr, *post_hooks = nullptr;           // OrderedDict: on the node
  PyObject* accumulated_hooks = nullptr;                          // OrderedDict: after the leaf's gradient was written
  PyObject* metadata = nullptr;                                   // dict
  std::vector<SlotHooks> tensor_hooks;
  std::vector<Retained> retained;
};
NodeExtra* node_extra(Node*);                 // makes it

// ------------------------------------------------------------------------------------------------------------ views (tape.cpp)
enum class Creation : uint8_t { Default, MultiOutput, NoGrad, Inference, CustomFunction };
// Where a view comes from: a chain of steps, innermost last; `base` is never itself a view.
// A *base* with live views has a record too, with base == null: their list starts there.
// So "is t a view" is view_base(t) != null, never t->view != null.
struct ViewInfo {
  int64_t rc;
  Tensor* base;            // owned; null in the record of a base
  ViewInfo* parent;        // owned: the steps before this one, or null
  ViewSpec spec;
  Tensor* tensor;          // borrowed: whose record this is; null once that tensor died
  ViewInfo *prev, *next;   // the live views of one base, from the base's record on
  uint32_t version;        // of the data when the history was made: another one means it is stale
  int size_class;
  Creation creation;
  uint16_t output;         // multi-output: which output
  const char* function;    // multi-output: of what ("Unbind")
};
inline Tensor* view_base(const Tensor* t) { return t->view ? t->view->base : nullptr; }        // borrowed
bool refuse_self_overlap(const Tensor* written);                   // false and torch's error if some element is reachable by two indices (inplace.cpp)
void view_release(Tensor*);                   // tensor.cpp's dealloc: drops t->view
void view_mark_multi_output(Tensor* view, int output, const char* function);    // unbind, split, chunk …: function is "Unbind", "Split", a literal
// One view step as a node needs it. CopySlices: the whole way from the base to the written view, and who wrote.
struct ViewStep {
  ViewSpec spec;
  Layout* source; int64_t source_offset;      // what the view was taken of; the layout is owned
  Layout* out; int64_t out_offset;            // the view
  std::vector<ViewSpec> chain;
  Node* writer;                               // CopySlices: the node of the in-place operation; owned
  int written;                                // CopySlices: which of the writer's arguments is the written view
};
Tensor* view_step_backward(const ViewStep&, Tensor* grad);      // new
void tape_set_history(Tensor*, Node*, uint32_t slot);      // in place of whatever it had
bool tape_check_written(Tensor*);             // may this tensor be written by a recorded operation?
bool rebase_history(Tensor* self, Node*, uint32_t slot, int argument);   // self was written by the node; argument: which of its arguments self is

// ---------------------------------------------------------------------------------------------------------- engine (engine.cpp)
struct BackwardRequest {
  const Edge* roots; Tensor* const* gradients; int nroots;
  const Edge* inputs; const Layout* const* input_layouts; int ninputs;     // none: accumulate into every leaf. A layout may be unknown (null)
  bool keep_graph, create_graph, accumulate;                    // accumulate with inputs: backward(inputs=), else capture
};
bool engine_run(const BackwardRequest&, Tensor** captured);     // captured: ninputs results, new or null
bool node_apply(Node*, Tensor** grads, uint64_t needed, Tensor** results);     // results: nedges, new or null
Tensor* zeros_like_layout(const Layout*);     // new, contiguous
extern bool g_anomaly, g_anomaly_nan;
int64_t current_run();                        // the engine run whose hooks or Python backward this thread is in; -1: none
bool run_executes(Node*);                     // does that run get to this node?
void anomaly_remember(Node*);                 // the Python stack, in the node's metadata
void anomaly_report(Node*);                   // warns with it; keeps the current exception

// -------------------------------------------------------------------------------------------------- Python's face (grad_fn.cpp)
PyObject* node_object(Node*);                 // new: grad_fn; the same object as long as one is alive
PyObject* tensor_grad_fn(Tensor*);            // new: grad_fn or None; regenerates stale views
PyObject* node_next_functions(Node*);         // new
bool retain_grad(Tensor*);
bool init_grad_fn(PyObject* m);               // called by init_tape
bool init_saved_hooks(PyObject* m);           // called by init_tape
Node* node_of(PyObject*);                     // borrowed: behind a grad_fn object or the ctx of a Function; null with an error

// --------------------------------------------------------------------------------------------- autograd.Function (function.cpp)
extern PyTypeObject* FunctionBaseType;
bool function_apply_backward(Node*, Tensor** grads, uint64_t needed, Tensor** results);
Node* function_node(PyObject* ctx);           // borrowed; null: not a ctx, or one without a graph
const char* function_short_name(PyObject* ctx);
void function_node_dies(PyObject* ctx);
void function_release_saved(PyObject* ctx);
const Layout* function_output_layout(PyObject* ctx, uint32_t slot);     // borrowed; null: not a tensor
bool function_forget_saved(PyObject* ctx, int index);      // the object given to save_for_backward: its slot has been packed

}  // namespace rl
