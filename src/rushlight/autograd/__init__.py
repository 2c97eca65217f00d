"""Gradients: `backward`, `grad`, custom Functions, and the switches for recording. The engine is `csrc/engine.cpp`."""
from __future__ import annotations

from typing import Any

from .. import _C
from . import function, functional, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, FunctionCtx
from .grad_mode import enable_grad, enforce_grad_layout_policy, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = ["Function", "FunctionCtx", "Variable", "backward", "grad", "function", "functional", "graph", "gradcheck", "gradgradcheck",
           "GradcheckError", "detect_anomaly",
           "set_detect_anomaly", "no_grad", "enable_grad", "set_grad_enabled", "set_multithreading_enabled", "enforce_grad_layout_policy", "inference_mode"]

Variable = _C.Tensor
Tensor = _C.Tensor


def _as_tuple(value: Any) -> tuple:
    return (value,) if isinstance(value, (Tensor, graph.GradientEdge)) else tuple(value)


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Any = None,
             inputs: Any = None) -> None:
    """Adds the gradients of `tensors` to the `.grad` of the leaves they were computed from (or of `inputs` only)."""
    if grad_variables is not None:
        from .._C import warn

        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use "
                               "`grad_tensors`.")
        grad_tensors = grad_variables
    if inputs is not None and not isinstance(inputs, (Tensor, graph.GradientEdge)) and len(inputs) == 0:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    tensors = _as_tuple(tensors)
    gradients = None if grad_tensors is None else _as_tuple(grad_tensors)
    targets = () if inputs is None else _as_tuple(inputs)
    _C.run_graph(tensors, gradients, create_graph if retain_graph is None else retain_graph, create_graph, targets, True, True)


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
         only_inputs: bool = True,
         allow_unused: bool | None = None, is_grads_batched: bool = False, materialize_grads: bool = False) -> tuple:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; no `.grad` is touched.

    >>> x = rushlight.tensor(3.0, requires_grad=True)
    >>> rushlight.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    if not only_inputs:
        from .._C import warn

        warn("only_inputs argument is deprecated: it has no effect, and grad() touches no other leaf. backward() adds to all of them", FutureWarning)
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    gradients = None if grad_outputs is None else _as_tuple(grad_outputs)
    level = _varying(gradients)
    if level is not None:
        batches = [None if g is None else level.whole(g) for g in gradients]
        with _C.without_mode():
            results = grad(outputs, inputs, batches, retain_graph, create_graph, allow_unused=allow_unused, is_grads_batched=True, materialize_grads=materialize_grads)
        return tuple(None if result is None else level.wrap(result) for result in results)
    if is_grads_batched:
        return _grad_of_rows(outputs, inputs, gradients, retain_graph, create_graph, allow_unused, materialize_grads)
    results = _C.run_graph(outputs, gradients, create_graph if retain_graph is None else retain_graph, create_graph, inputs,
                              bool(allow_unused) or materialize_grads, False)
    if materialize_grads and any(result is None for result in results):
        if any(isinstance(x, graph.GradientEdge) for x, result in zip(inputs, results) if result is None):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        results = tuple(_zeros_like(x, create_graph) if result is None else result for x, result in zip(inputs, results))
    return results


def _varying(gradients):
    """The level of vmap under way, if a gradient stands for one of each of its examples."""
    level = _C.top_mode() if gradients else None
    return level if hasattr(level, "batch_of") and any(g is not None and level.batch_of(g) is not None for g in gradients) else None


def _grad_of_rows(outputs, inputs, gradients, retain_graph, create_graph, allow_unused, materialize_grads) -> tuple:
    """`is_grads_batched`: the first dimension of every gradient counts examples; so does that of the results."""
    given = [g for g in gradients or () if g is not None]
    sizes = {g.shape[0] if g.dim() else None for g in given}
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        raise RuntimeError("is_grads_batched=True: every grad_output needs a first dimension, of one size for all and not empty; got shapes "
                           f"{[tuple(g.shape) for g in given]}")
    for i, (out, g) in enumerate(zip(outputs, gradients)):
        if g is not None and isinstance(out, Tensor) and g.shape[1:] != out.shape:
            raise RuntimeError("If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of the "
                               "remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
                               f"grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {out.shape}.")
    count = sizes.pop()
    keep = create_graph if retain_graph is None else retain_graph
    rows = [grad(outputs, inputs, [None if g is None else g[i] for g in gradients], retain_graph=keep or i + 1 < count, create_graph=create_graph,
                 allow_unused=allow_unused, materialize_grads=materialize_grads) for i in range(count)]
    return tuple(None if column[0] is None else _stack(column) for column in zip(*rows))


def _stack(tensors):
    import rushlight

    return rushlight.stack(tensors)


def _zeros_like(tensor, requires_grad: bool):
    zeros = tensor.detach().new_zeros(tensor.shape)
    return zeros.requires_grad_() if requires_grad else zeros


def variable(*args, **kwargs):
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")
