// Connectionist temporal classification: the runtime's routines behind ctc_loss (ops/loss_sequence.py), called by trace.native.
//
// A target of L labels becomes 2L+1 states: a blank, label 0, a blank, label 1 ... a blank. alpha[t][s] is the log probability of all ways to be in state s at
// time t having passed through the states before it; beta[t][s] that of all ways to go on from there to the end. One work unit is one sequence of the batch.
//
//   ctc_forward    p: nll [N], alpha [N, T, states], log_probs [T, N, C], targets, starts [N], input lengths [N], target lengths [N]
//                  n: is double, T, N, C, states, blank
//   ctc_backward   p: grad of log_probs [T, N, C], grad of nll [N], nll, alpha, log_probs, targets, starts, input lengths, target lengths
//                  n: is double, T, N, C, states, blank, zero infinity          scratch: (2 * states + C) elements
#include "runtime.h"
#include <cmath>
#include <limits>

namespace rl {

template <class F> static F log_sum(F a, F b) {
  F top = a > b ? a : b;
  if (top == -std::numeric_limits<F>::infinity()) return top;
  return std::log(std::exp(a - top) + std::exp(b - top)) + top;
}

template <class F> static F log_sum(F a, F b, F c) {
  F top = a > b ? a : b;
  if (c > top) top = c;
  if (top == -std::numeric_limits<F>::infinity()) return top;
  return std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top)) + top;
}

// The label of state s, and whether a path may come to it straight from the label before, without a blank between: only if they differ.
struct States {
  const int64_t* target;
  int64_t labels, blank;
  int64_t count() const { return 2 * labels + 1; }
  int64_t label(int64_t s) const { return s & 1 ? target[s >> 1] : blank; }
  bool skips(int64_t s) const { return (s & 1) && s > 1 && target[s >> 1] != target[(s >> 1) - 1]; }
};

template <class F> static void forward_one(F* nll, F* alpha, const F* log_probs, States states, int64_t length, int64_t step, int64_t room) {
  const F none = -std::numeric_limits<F>::infinity();
  const int64_t count = states.count();
  if (length == 0) { *nll = states.labels ? -none : F(0); return; }
  for (int64_t s = 0; s < count; s++) alpha[s] = s < 2 ? log_probs[states.label(s)] : none;
  for (int64_t t = 1; t < length; t++) {
    const F *before = alpha + (t - 1) * room, *now = log_probs + t * step;
    F* here = alpha + t * room;
    for (int64_t s = 0; s < count; s++) {
      F stay = before[s], next = s > 0 ? before[s - 1] : none, jump = states.skips(s) ? before[s - 2] : none;
      here[s] = log_sum(stay, next, jump) + now[states.label(s)];
    }
  }
  const F* last = alpha + (length - 1) * room;
  *nll = -log_sum(last[count - 1], count > 1 ? last[count - 2] : none);
}

template <class F> static void forward_units(char** p, const int64_t* n, int64_t lo, int64_t hi) {
  const int64_t T = n[1], N = n[2], C = n[3], room = n[4];
  const int64_t *targets = (const int64_t*)p[3], *starts = (const int64_t*)p[4], *lengths = (const int64_t*)p[5], *labels = (const int64_t*)p[6];
  for (int64_t i = lo; i < hi; i++) {
    F* alpha = (F*)p[1] + i * T * room;
    for (int64_t k = 0; k < T * room; k++) alpha[k] = -std::numeric_limits<F>::infinity();
    forward_one((F*)p[0] + i, alpha, (const F*)p[2] + i * C, States{targets + starts[i], labels[i], n[5]}, lengths[i], N * C, room);
  }
}

template <class F> static void backward_one(F* grad, F weight, F nll, const F* alpha, const F* log_probs, States states, int64_t length, int64_t step,
                                            int64_t room, int64_t C, F* scratch) {
  const F none = -std::numeric_limits<F>::infinity();
  const int64_t count = states.count();
  F *beta = scratch, *later = scratch + room, *mass = later + room;      // mass: of each class at one time, alpha and beta together
  for (int64_t t = length - 1; t >= 0; t--) {
    const F* now = log_probs + t * step;
    for (int64_t c = 0; c < C; c++) mass[c] = none;
    for (int64_t s = count - 1; s >= 0; s--) {
      F rest;
      if (t == length - 1) rest = s >= count - 2 ? F(0) : none;
      else {
        F stay = later[s], next = s + 1 < count ? later[s + 1] : none, jump = s + 2 < count && states.skips(s + 2) ? later[s + 2] : none;
        rest = log_sum(stay, next, jump);
      }
      const int64_t c = states.label(s);
      beta[s] = rest + now[c];
      mass[c] = log_sum(mass[c], alpha[t * room + s] + beta[s]);
    }
    for (int64_t c = 0; c < C; c++) grad[t * step + c] = (std::exp(now[c]) - std::exp(mass[c] + nll - now[c])) * weight;
    F* spare = beta;
    beta = later;
    later = spare;
  }
}

template <class F> static void backward_units(char** p, const int64_t* n, char* scratch, int64_t lo, int64_t hi) {
  const int64_t T = n[1], N = n[2], C = n[3], room = n[4];
  const int64_t *targets = (const int64_t*)p[5], *starts = (const int64_t*)p[6], *lengths = (const int64_t*)p[7], *labels = (const int64_t*)p[8];
  for (int64_t i = lo; i < hi; i++) {
    F *grad = (F*)p[0] + i * C, nll = ((const F*)p[2])[i];
    const bool impossible = n[6] && nll == std::numeric_limits<F>::infinity();
    for (int64_t t = impossible ? 0 : lengths[i]; t < T; t++)
      for (int64_t c = 0; c < C; c++) grad[t * N * C + c] = F(0);
    if (impossible) continue;
    backward_one(grad, ((const F*)p[1])[i], nll, (const F*)p[3] + i * T * room, (const F*)p[4] + i * C, States{targets + starts[i], labels[i], n[5]},
                 lengths[i], N * C, room, C, (F*)scratch);
  }
}

static int64_t ctc_forward(char** p, const int64_t* n, const Scalar*, char*, int64_t lo, int64_t hi) {
  if (n[0]) forward_units<double>(p, n, lo, hi); else forward_units<float>(p, n, lo, hi);
  return 0;
}

static int64_t ctc_backward(char** p, const int64_t* n, const Scalar*, char* scratch, int64_t lo, int64_t hi) {
  if (n[0]) backward_units<double>(p, n, scratch, lo, hi); else backward_units<float>(p, n, scratch, lo, hi);
  return 0;
}

bool init_ctc(PyObject*) {
  native_kernel_register("ctc_forward", ctc_forward);
  native_kernel_register("ctc_backward", ctc_backward);
  return true;
}

}  // namespace rl
