"""Checks gradients against finite differences, in double precision.

`gradcheck(fn, inputs)` compares, for every input that requires grad and every differentiable output, the Jacobian made of vector-Jacobian
products
with the one made of central differences. `gradgradcheck` does the same to the gradient. For complex inputs and outputs the convention is
torch's: the
gradient is the conjugate Wirtinger derivative, and real and imaginary parts are perturbed separately.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import warn

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]

Tensor = _C.Tensor


class GradcheckError(RuntimeError):
    """A gradient differs from its numerical estimate, or breaks another rule of gradients."""


def _tensors(values: Any) -> tuple:
    return (values,) if isinstance(values, Tensor) else tuple(values)


def _differentiable(values: Any) -> list:
    return [v for v in _tensors(values) if isinstance(v, Tensor) and v.requires_grad]


def _numbers(tensor) -> list:
    """The elements as Python numbers, in logical order."""
    return tensor.detach().reshape(-1).tolist()


def _each_element(x):
    """Index tuples in logical order."""
    index = [0] * x.dim()
    for _ in range(x.numel()):
        yield tuple(index)
        for axis in reversed(range(x.dim())):
            index[axis] += 1
            if index[axis] < x.shape[axis]:
                break
            index[axis] = 0


def _outputs_of(fn: Callable, inputs: tuple) -> list:
    from .grad_mode import no_grad

    with no_grad():
        return [_numbers(y) for y in _tensors(fn(*inputs)) if isinstance(y, Tensor)]


def _numerical(fn: Callable, inputs: tuple, x, eps: float, wanted: list[int]) -> list[list[list]]:
    """For each wanted output the matrix [element of x][element of y] of derivatives. Of a complex x: (d/d re, d/d im) pairs."""
    from .grad_mode import no_grad

    data = x.data                      # its own version counter: perturbing must not look like an in-place change
    jacobians: list[list[list]] = [[] for _ in wanted]
    for index in _each_element(data):
        rows: list[list] = [[] for _ in wanted]
        for step in (eps, eps * 1j) if x.is_complex() else (eps,):
            original = data[index].item()
            with no_grad():
                data[index] = original + step
            above = _outputs_of(fn, inputs)
            with no_grad():
                data[index] = original - step
            below = _outputs_of(fn, inputs)
            with no_grad():
                data[index] = original
            for row, i in zip(rows, wanted):
                row.append([(a - b) / (2 * eps) for a, b in zip(above[i], below[i])])
        for jacobian, row in zip(jacobians, rows):
            jacobian.append(row)
    return jacobians


def _combine(numerical: list[list[list]], conjugate_v: complex) -> list[list]:
    """What a vjp with the unit vector v must give: torch's convention, grad = conj(v·dL/dx*) summed over real and imaginary parts."""
    result = []
    for parts in numerical:
        if len(parts) == 1:
            result.append([(conjugate_v * d).real for d in parts[0]])         # a real x has a real gradient, whatever y is
        else:
            result.append([complex((conjugate_v * a).real, (conjugate_v * b).real) for a, b in zip(*parts)])
    return result


def _analytical(y, x, v: complex, materialised_zero: float = 0.0) -> list[list]:
    """[element of y] -> gradient with respect to x as numbers, for the cotangent v at that element."""
    from . import grad

    rows = []
    for index in _each_element(y):
        cotangent = y.detach().new_zeros(y.shape)
        cotangent[index] = v
        gradient, = grad(y, x, cotangent, retain_graph=True, allow_unused=True)
        rows.append([materialised_zero] * x.numel() if gradient is None else _numbers(gradient))
    return rows


def _close(a: complex, b: complex, rtol: float, atol: float) -> bool:
    if a != a or b != b:
        return a != a and b != b
    if a == b:
        return True
    return abs(a - b) <= atol + rtol * abs(b)


def _fail(raise_exception: bool, message: str) -> bool:
    if raise_exception:
        raise GradcheckError(message)
    return False


def _compare(analytical, numerical, rtol, atol) -> tuple[int, int] | None:
    for j, row in enumerate(analytical):
        for i, value in enumerate(row):
            if not _close(value, numerical[i][j], rtol, atol):
                return i, j
    return None


def gradcheck(func: Callable, inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
              nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False, check_backward_ad: bool = True,
              fast_mode: bool = False, masked: bool | None = None) -> bool:
    """True if the gradients of `func` at `inputs` agree with finite differences.

    >>> x = rushlight.randn(3, dtype=rushlight.float64, requires_grad=True)
    >>> rushlight.autograd.gradcheck(rushlight.exp, (x,))
    True
    """
    if check_forward_ad or check_batched_grad or check_batched_forward_grad:
        raise NotImplementedError("gradcheck(): forward-mode and batched gradients are not implemented")
    inputs = _tensors(inputs)
    variables = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not variables:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    for i, x in enumerate(variables):
        if str(x.dtype) not in ("torch.float64", "torch.complex128"):
            warn(f"Input #{i} requires gradient and is not of double precision: differences of nearby values are then too coarse, and the check is likely to fail. x.double() is precise enough.")
        x.retain_grad()
    outputs = func(*inputs)
    results = [y for y in _tensors(outputs) if isinstance(y, Tensor)]
    wanted = [i for i, y in enumerate(results) if y.requires_grad]
    if not wanted:
        for x in variables:
            for jacobian in _numerical(func, inputs, x, eps, list(range(len(results)))):
                if any(abs(d) > atol for parts in jacobian for part in parts for d in part):
                    return _fail(raise_exception, "Numerical gradient for function expected to be zero")
        return True
    for k, x in enumerate(variables):
        numerical = _numerical(func, inputs, x, eps, wanted)
        for jacobian, i in zip(numerical, wanted):
            y = results[i]
            for v in (1.0, 1j) if y.is_complex() else (1.0,):
                analytical = _analytical(y, x, v)
                again = _analytical(y, x, v)
                expected = _combine(jacobian, complex(v).conjugate() if y.is_complex() else v)
                place = _compare(analytical, expected, rtol, atol)
                if place is not None:
                    element, output = place
                    return _fail(raise_exception, f"Jacobian mismatch for output {i} with respect to input "
                                                  f"{k},\nnumerical:{expected[element][output]}\n"
                                                  f"analytical:{analytical[output][element]}\n(element {element} of the input, element "
                                                  f"{output} of the output)\n")
                if any(not _close(a, b, 0.0, nondet_tol) for r, s in zip(analytical, again) for a, b in zip(r, s)):
                    return _fail(raise_exception, "Backward is not reentrant, i.e., running backward with same input and grad_output "
                                                  "multiple times gives different values, although analytical gradient matches numerical "
                                                  "gradient. "
                                                  f"The tolerance for nondeterminism was {nondet_tol}.")
    if not _check_shapes(func, inputs, variables, raise_exception):
        return False
    return not check_undefined_grad or _check_undefined(results, wanted, variables, raise_exception)


def _check_shapes(func: Callable, inputs: tuple, variables: list, raise_exception: bool) -> bool:
    from . import grad

    outputs = _differentiable(func(*inputs))
    gradients = grad(outputs, variables, [y.detach().new_zeros(y.shape) for y in outputs], allow_unused=True)
    for gradient, x in zip(gradients, variables):
        if gradient is None:
            continue
        if gradient.shape != x.shape or gradient.dtype != x.dtype or gradient.device != x.device:
            return _fail(raise_exception, f"grad is incorrect: {gradient.dtype} {tuple(gradient.shape)} for an input {x.dtype} "
                                          f"{tuple(x.shape)}")
        if any(value != 0 for value in _numbers(gradient)):
            return _fail(raise_exception, "backward not multiplied by grad_output")
    return True


def _check_undefined(results: list, wanted: list[int], variables: list, raise_exception: bool) -> bool:
    """A gradient that is not there must act as zero."""
    from . import grad

    if len(wanted) < 2:
        return True
    for i in wanted:
        y = results[i]
        gradients = grad(y, variables, y.detach().new_zeros(y.shape), retain_graph=True, allow_unused=True)
        for gradient in gradients:
            if gradient is not None and any(value != 0 for value in _numbers(gradient)):
                return _fail(raise_exception, "Expected backward function to handle undefined output grads. Please look at \"Notes about "
                                              "undefined output gradients\"")
    return True


def gradgradcheck(func: Callable, inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
                  gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0,
                      check_undefined_grad: bool = True,
                  check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
                      check_rev_over_rev: bool = True,
                  fast_mode: bool = False, masked: bool = False) -> bool:
    """True if the second derivatives of `func` at `inputs` agree with finite differences of the first."""
    import rushlight

    from . import grad

    inputs = _tensors(inputs)
    outputs = _differentiable(func(*inputs))
    if grad_outputs is None:
        cotangents = tuple(rushlight.randn_like(y.detach()).requires_grad_() for y in outputs)
    else:
        cotangents = tuple(_tensors(grad_outputs))
    count = len(inputs)

    def gradient(*arguments):
        values, cotangents = arguments[:count], arguments[count:]
        values = tuple(v.view_as(v) if isinstance(v, Tensor) and v.requires_grad else v for v in values)
        variables = [v for v in values if isinstance(v, Tensor) and v.requires_grad]
        with rushlight.enable_grad():
            ys = _differentiable(func(*values))
            gradients = grad(ys, variables, list(cotangents), create_graph=True, allow_unused=True)
        return tuple(g for g in gradients if g is not None and g.requires_grad)

    return gradcheck(gradient, (*inputs, *cotangents), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad)
