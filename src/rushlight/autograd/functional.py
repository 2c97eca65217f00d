"""Derivatives of functions: `vjp`, `jvp`, `jacobian`, `hessian`, `vhp`, `hvp`, all made of `autograd.grad`."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from .grad_mode import enable_grad

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]

Tensor = _C.Tensor


def _tuple_of(value: Any, name: str, function: str) -> tuple[bool, tuple]:
    """(was it a tuple, as a tuple of tensors)."""
    values = value if isinstance(value, tuple) else (value,)
    for i, v in enumerate(values):
        if not isinstance(v, Tensor):
            raise TypeError(f"The {name} given to {function} must be either a Tensor or a tuple of Tensors but the value at index {i} "
                            f"has type {type(v)}.")
    return isinstance(value, tuple), values


def _prepare(inputs: tuple, create_graph: bool) -> tuple:
    """Tensors that start a graph of their own; with create_graph they stay connected to the caller's."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _grad(outputs: tuple, inputs: tuple, grad_outputs: Any = None, create_graph: bool = False, retain_graph: bool | None = None) -> tuple:
    from . import grad

    kept = [(y, g) for y, g in zip(outputs, grad_outputs if grad_outputs is not None else [None] * len(outputs)) if y.requires_grad]
    if not kept:
        return tuple(None for _ in inputs)
    return grad([y for y, _ in kept], inputs, [g for _, g in kept] if grad_outputs is not None else None, retain_graph=retain_graph,
                create_graph=create_graph, allow_unused=True)


def _fill(gradients: tuple, inputs: tuple, strict: bool, what: str) -> tuple:
    if strict and any(g is None for g in gradients):
        i = next(i for i, g in enumerate(gradients) if g is None)
        raise RuntimeError(f"The output of the user-provided function is independent of input {i}. This is not allowed in strict mode "
                           f"when computing the {what}.")
    return tuple(x.detach().new_zeros(x.shape) if g is None else g for g, x in zip(gradients, inputs))


def _plain(values: Any, create_graph: bool) -> Any:
    """Without a graph nothing that leaves here is connected to the inputs."""
    if create_graph:
        return values
    return tuple(_plain(v, False) for v in values) if isinstance(values, tuple) else values.detach()


def _checked_v(v: Any, like: tuple, is_tuple: bool, function: str) -> tuple:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            what = "user-provided function returns" if function == "vjp" else "input to the user-provided function is"
            raise RuntimeError(f"The vector v can only be None if the {what} a single Tensor with a single element.")
        return (like[0].detach().new_ones(like[0].shape),)
    _, values = _tuple_of(v, "v", function)
    if len(values) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(values)}.")
    for i, (a, b) in enumerate(zip(values, like)):
        if a.shape != b.shape:
            raise RuntimeError(f"{f'Entry {i} in ' if is_tuple else ''}v has invalid size: should be {b.shape} but got {a.shape}.")
    return values


def _shaped(values: tuple, is_tuple: bool) -> Any:
    return values if is_tuple else values[0]


def vjp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(outputs, v times the Jacobian of `func` at `inputs`)."""
    with enable_grad():
        many, inputs = _tuple_of(inputs, "inputs", "vjp")
        inputs = _prepare(inputs, create_graph)
        many_out, outputs = _tuple_of(func(*inputs), "outputs of the user-provided function", "vjp")
        v = _checked_v(v, outputs, many_out, "vjp")
        gradients = _fill(_grad(outputs, inputs, v, create_graph=create_graph), inputs, strict, "vjp")
    return _shaped(_plain(outputs, create_graph), many_out), _shaped(_plain(gradients, create_graph), many)


def jvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(outputs, the Jacobian of `func` at `inputs` times v), by differentiating the vjp with respect to its vector."""
    with enable_grad():
        many, inputs = _tuple_of(inputs, "inputs", "jvp")
        inputs = _prepare(inputs, create_graph)
        v = _checked_v(v, inputs, many, "jvp")
        many_out, outputs = _tuple_of(func(*inputs), "outputs of the user-provided function", "jvp")
        dual = tuple(y.detach().new_zeros(y.shape).requires_grad_() for y in outputs)
        gradients = _fill(_grad(outputs, inputs, dual, create_graph=True), inputs, strict, "jvp")
        result = _fill(_grad(gradients, dual, v, create_graph=create_graph), outputs, False, "jvp")
    return _shaped(_plain(outputs, create_graph), many_out), _shaped(_plain(result, create_graph), many_out)


def _jacobian_of(output, inputs: tuple, create_graph: bool, strict: bool) -> tuple:
    """One block per input: output.shape + input.shape, a row of it per element of the output."""
    rows: list[list] = [[] for _ in inputs]
    flat = output.reshape(-1)
    for i in range(flat.numel()):
        gradients = _fill(_grad((flat[i],), inputs, create_graph=create_graph, retain_graph=True), inputs, strict, "Jacobian")
        for row, gradient in zip(rows, gradients):
            row.append(gradient)
    import rushlight

    blocks = [rushlight.stack(row) if row else x.new_zeros((0, *x.shape)) for row, x in zip(rows, inputs)]
    return tuple(block.reshape((*output.shape, *x.shape)) for block, x in zip(blocks, inputs))


def jacobian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
             strategy: str = "reverse-mode") -> Any:
    """The Jacobian of `func` at `inputs`: for a tuple of inputs or outputs a tuple of blocks."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    with enable_grad():
        many, inputs = _tuple_of(inputs, "inputs", "jacobian")
        inputs = _prepare(inputs, create_graph)
        many_out, outputs = _tuple_of(func(*inputs), "outputs of the user-provided function", "jacobian")
        blocks = tuple(_jacobian_of(y, inputs, create_graph, strict) for y in outputs)
    blocks = _plain(blocks, create_graph)
    return _shaped(tuple(_shaped(row, many) for row in blocks), many_out)


def _scalar(outputs: tuple, many_out: bool, function: str):
    if many_out or not isinstance(outputs[0], Tensor):
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {function} should contain a single element")
    return outputs[0].reshape(())


def hessian(func: Callable, inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
            outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The matrix of second derivatives of a scalar function."""
    many, _ = _tuple_of(inputs, "inputs", "hessian")

    def gradient(*xs):
        many_out, outputs = _tuple_of(func(*xs), "outputs of the user-provided function", "hessian")
        result = _fill(_grad((_scalar(outputs, many_out, "hessian"),), xs, create_graph=True), xs, strict, "Hessian")
        return _shaped(result, many)

    return jacobian(gradient, inputs, create_graph=create_graph, strict=strict)


def vhp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(output, v times the Hessian of a scalar function)."""
    with enable_grad():
        many, inputs = _tuple_of(inputs, "inputs", "vhp")
        inputs = _prepare(inputs, create_graph)
        v = _checked_v(v, inputs, many, "vhp")
        many_out, outputs = _tuple_of(func(*inputs), "outputs of the user-provided function", "vhp")
        output = _scalar(outputs, many_out, "vhp")
        gradients = _fill(_grad((output,), inputs, create_graph=True), inputs, strict, "vhp")
        result = _fill(_grad(gradients, inputs, v, create_graph=create_graph), inputs, False, "vhp")
    return _plain(outputs, create_graph)[0], _shaped(_plain(result, create_graph), many)


def hvp(func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple:
    """(output, the Hessian of a scalar function times v). Second derivatives commute, so this is `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)
