"""assert_close: comparing results in tests, with torch's rules and messages.

Values are compared with numpy, not with this library's own operators: a test must not trust what it tests.
"""
from __future__ import annotations

import cmath
from collections.abc import Mapping, Sequence

import rushlight as rl
from rushlight import Tensor

__all__ = ["assert_close", "assert_allclose", "make_tensor"]

# dtype -> (rtol, atol); dtypes that are not here are compared for equality
_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
               "complex32": (1e-3, 1e-5), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}


def _name(dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _default_tolerances(*dtypes) -> tuple[float, float]:
    pairs = [_TOLERANCES.get(_name(dtype), (0.0, 0.0)) for dtype in dtypes]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


class _Mismatch(Exception):
    def __init__(self, kind: type, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class _Comparison:
    def __init__(self, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses) -> None:
        if (rtol is None) != (atol is None):
            raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                             f"{'rtol' if rtol is None else 'atol'}.")
        self.given = None if rtol is None else (rtol, atol)
        self.equal_nan = equal_nan
        self.check_device, self.check_dtype, self.check_layout, self.check_stride = check_device, check_dtype, check_layout, check_stride
        self.allow_subclasses = allow_subclasses

    # -------------------------------------------------------------------------------------------------- which comparison
    def compare(self, actual, expected, path: str = "") -> None:
        try:
            self._compare_one(actual, expected, path)
        except _Mismatch as mismatch:
            where = f"\n\nThe failure occurred for item {path}" if path else ""
            raise mismatch.kind(mismatch.message + where) from None

    def _compare_one(self, actual, expected, path: str) -> None:
        if _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                raise _Mismatch(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
            for i, (a, e) in enumerate(zip(actual, expected)):
                self.compare(a, e, f"{path}[{i}]")
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self._compare_keys(actual, expected)
            for key in sorted(actual, key=lambda k: (str(type(k)), k)) if _sortable(actual) else actual:
                self.compare(actual[key], expected[key], f"{path}[{key!r}]")
        elif actual is None or expected is None:
            if actual is not expected:
                raise _Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}")
        elif isinstance(actual, bool) and isinstance(expected, bool):
            if actual is not expected:
                raise _Mismatch(AssertionError, f"Booleans mismatch: {actual} is not {expected}")
        elif isinstance(actual, (int, float, complex)) and isinstance(expected, (int, float, complex)):
            self._compare_numbers(actual, expected)
        elif self._are_arrays(actual, expected):
            self._compare_tensors(rl.as_tensor(actual), rl.as_tensor(expected))
        else:
            raise _Mismatch(TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")

    def _are_arrays(self, actual, expected) -> bool:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not self.allow_subclasses and type(actual) is not type(expected)):
            return False
        return isinstance(actual, Tensor) or type(actual).__module__ == "numpy"

    def _compare_keys(self, actual, expected) -> None:
        missing, additional = [k for k in expected if k not in actual], [k for k in actual if k not in expected]
        if missing or additional:
            message = "The keys of the mappings do not match:"
            if missing:
                message += f"\nMissing keys in the actual mapping: {sorted(missing, key=repr)}"
            if additional:
                message += f"\nAdditional keys in the actual mapping: {sorted(additional, key=repr)}"
            raise _Mismatch(AssertionError, message)

    # --------------------------------------------------------------------------------------------------------- scalars
    def _compare_numbers(self, actual, expected) -> None:
        kinds = {int: "int64", bool: "bool", float: "float64", complex: "complex128"}
        if self.check_dtype and type(actual) is not type(expected):
            raise _Mismatch(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        rtol, atol = self.given or _default_tolerances(kinds.get(type(actual), "float64"), kinds.get(type(expected), "float64"))
        self._check_scalar(actual, expected, rtol, atol)

    def _check_scalar(self, actual, expected, rtol: float, atol: float) -> None:
        if self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected) or actual == expected:
            return
        difference = abs(actual - expected)
        finite = cmath.isfinite(actual) and cmath.isfinite(expected)
        if finite and difference <= atol + rtol * abs(expected):
            return
        equality = rtol == 0 and atol == 0
        relative = float("inf") if expected == 0 else difference / abs(expected)
        allowed = [""] * 2 if equality else [f" (up to {atol} allowed)", f" (up to {rtol} allowed)"]
        raise _Mismatch(AssertionError, f"Scalars are not {'equal' if equality else 'close'}!\n\nExpected {expected} but got {actual}.\n"
                        f"Absolute difference: {difference}{allowed[0]}\nRelative difference: {relative}{allowed[1]}")

    # --------------------------------------------------------------------------------------------------------- tensors
    def _compare_tensors(self, actual: Tensor, expected: Tensor) -> None:
        def same(name: str, a, e) -> None:
            if a != e:
                raise _Mismatch(AssertionError, f"The values for attribute '{name}' do not match: {a} != {e}.")

        same("shape", actual.shape, expected.shape)
        if self.check_layout:
            same("layout", actual.layout, expected.layout)
        if self.check_device:
            same("device", actual.device, expected.device)
        if self.check_dtype:
            same("dtype", actual.dtype, expected.dtype)
        if self.check_stride:
            same("stride()", actual.stride(), expected.stride())
        if actual.is_meta or expected.is_meta:
            return
        if actual.layout is not rl.strided or expected.layout is not rl.strided:
            actual, expected = actual.detach().to_dense(), expected.detach().to_dense()
        rtol, atol = self.given or _default_tolerances(actual.dtype, expected.dtype)
        a, e = _array(actual), _array(expected)
        if a.ndim == 0:
            self._check_scalar(actual.item(), expected.item(), rtol, atol)
        else:
            self._check_arrays(a, e, rtol, atol)

    def _check_arrays(self, a, e, rtol: float, atol: float) -> None:
        import numpy as np
        common = np.result_type(a, e)
        a, e = a.astype(common), e.astype(common)
        equality = rtol == 0 and atol == 0
        with np.errstate(all="ignore"):
            if common.kind == "b":
                difference = (a != e).astype(np.int64)
                magnitude = e.astype(np.float32)
            elif common.kind in "iu":
                difference = np.where(a > e, a - e, e - a)
                magnitude = np.abs(e).astype(np.float32)
            else:
                difference, magnitude = np.abs(a - e), np.abs(e)
            matches = a == e
            if not equality:
                matches |= np.isfinite(difference) & (difference <= atol + rtol * magnitude) & np.isfinite(e)
            if self.equal_nan and common.kind in "fc":
                matches |= np.isnan(a) & np.isnan(e)
            if matches.all():
                return
            if common.kind in "fc":
                relative = np.where(difference == 0, 0, difference / magnitude)
            else:
                relative = difference.astype(np.float32) / magnitude
        wrong = int(matches.size - matches.sum())
        lines = [f"Tensor-likes are not {'equal' if equality else 'close'}!", "",
                 f"Mismatched elements: {wrong} / {matches.size} ({wrong / matches.size:.1%})"]
        for label, values, limit in (("absolute", difference, atol), ("relative", relative, rtol)):
            values = np.where(matches, np.zeros((), values.dtype), values)
            unknown = np.isnan(values) if values.dtype.kind == "f" else np.zeros(1, bool)
            flat = int(np.argmax(unknown if unknown.any() else values))          # a NaN is the greatest difference of all
            at = tuple(int(i) for i in np.unravel_index(flat, values.shape))
            allowed = "" if equality else f" (up to {limit} allowed)"
            lines.append(f"Greatest {label} difference: {values.reshape(-1)[flat].item()} at index {at}{allowed}")
        raise _Mismatch(AssertionError, "\n".join(lines))


def _is_sequence(value) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _sortable(mapping) -> bool:
    return all(isinstance(key, str) for key in mapping)


def _array(tensor: Tensor):
    """The values as a numpy array; bfloat16 and the 8-bit floats, which numpy lacks, as float32."""
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.clone()
    if _name(tensor.dtype) in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        tensor = tensor.to(rl.float32)
    return tensor.numpy()


def assert_close(actual, expected, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
                 equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
                 check_stride: bool = False, msg=None) -> None:
    """Raise AssertionError unless `|actual - expected| <= atol + rtol * |expected|` everywhere and the attributes agree.

    Goes into sequences and mappings. Without tolerances each dtype has its own. `msg` replaces the message, or is given it.
    """
    comparison = _Comparison(rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses)
    try:
        comparison.compare(actual, expected)
    except AssertionError as error:
        if msg is None:
            raise
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


def assert_allclose(actual, expected, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: str = "") -> None:
    """The old name: attributes are not compared."""
    assert_close(rl.as_tensor(actual), rl.as_tensor(expected), rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True,
                 check_dtype=False,
                 check_stride=False, msg=msg or None)


def make_tensor(*shape, dtype, device="cpu", low: float | None = None, high: float | None = None, requires_grad: bool = False,
                noncontiguous: bool = False, exclude_zero: bool = False) -> Tensor:
    """A tensor of random values for tests, uniform in [low, high)."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    size = (*shape[:-1], shape[-1] * 2) if noncontiguous and shape else shape
    if dtype == rl.bool:
        result = rl.randint(0, 2, size, device=device).to(rl.bool)
    elif not (dtype.is_floating_point or dtype.is_complex):
        lowest, highest = (0, 10) if _name(dtype).startswith("u") else (-9, 10)
        result = rl.randint(int(lowest if low is None else low), int(highest if high is None else high), size, device=device).to(dtype)
    else:
        lowest, highest = -9.0 if low is None else low, 9.0 if high is None else high
        if dtype.is_complex:
            real = rl.float64 if _name(dtype) == "complex128" else rl.float32
            result = rl.view_as_complex(rl.empty((*size, 2), dtype=real, device=device).uniform_(lowest, highest))
        else:
            result = rl.empty(size, dtype=dtype, device=device).uniform_(lowest, highest)
    if noncontiguous and shape:
        result = result[..., ::2]
    if exclude_zero:
        result[result == 0] = 1
    return result.requires_grad_(requires_grad) if dtype.is_floating_point or dtype.is_complex else result
