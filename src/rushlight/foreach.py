"""`torch._foreach_NAME`: an operator over lists of tensors in one call, and its in-place form.

One mechanism makes them all from the registry: the operator's own face is called for each row of the lists, in C++ (`_C.foreach_map`), so values, gradients and errors are the
operator's. An operand may be a list of tensors, a list of numbers (one each), one number, or one tensor of no dimensions for all.
"""
from __future__ import annotations

from numbers import Number

from . import _C, registry
from .tensor import Tensor

UNARY = ("abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh "
         "trunc").split()
# name -> the operator for tensors, and the one for numbers
BINARY = {"add": ("add", "add"), "sub": ("sub", "sub"), "mul": ("mul", "mul"), "div": ("div", "div"), "pow": ("pow", "pow"), "clamp_max": ("clamp_max", "clamp_max"),
          "clamp_min": ("clamp_min", "clamp_min"), "maximum": ("maximum", "clamp_min"), "minimum": ("minimum", "clamp_max")}
_ONE_TENSOR = ("add", "mul", "div")                      # take one 0-dim tensor for all
_OPERAND_WORDS = ("other", "scalar", "scalars", "exponent", "weight", "weights", "tensors1", "mat2", "value")


def _faces(name):
    """The plain and the in-place face; where an operator has no in-place form (maximum), its result is copied."""
    definition = registry.find(name)
    plain = definition.op.function
    return plain, definition.op.inplace_function if definition.inplace else lambda self, *rest: self.copy_(plain(self, *rest))


def _need_tensors(name, tensors):
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError(f"_foreach_{name}() received an invalid combination of arguments - got ({type(tensors).__name__}), but expected a tuple of Tensors self")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")


def _same_count(tensors, other):
    """A list beside the tensors: as many, and of one kind."""
    if len(other) == len(tensors):
        return
    if all(isinstance(v, Tensor) for v in other):
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}")
    raise RuntimeError("Tensor list must have same number of elements as scalar list.")


def _is_tensors(value):
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], Tensor)


def _operand(name, tensors, value):
    """The second operand of a binary operator: a list for each row, or one value for all."""
    if isinstance(value, (list, tuple)):
        _same_count(tensors, value)
        return value
    if isinstance(value, Tensor):
        if name not in _ONE_TENSOR:
            raise TypeError(f"_foreach_{name}() received an invalid combination of arguments: a list of tensors or numbers, or a number is needed")
        if value.dim() != 0:
            raise RuntimeError(f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and {value.numel()} elements.")
        return value
    if isinstance(value, Number) or hasattr(value, "__index__") or hasattr(value, "__float__"):
        return value
    raise TypeError(f"_foreach_{name}() received an invalid combination of arguments - got (list, {type(value).__name__})")


def _given(name, positional, named):
    """The one operand after the tensors, by place or by any of torch's names for it."""
    words = [w for w in _OPERAND_WORDS if w in named]
    values = list(positional) + [named.pop(w) for w in words]
    if len(values) != 1:
        raise TypeError(f"_foreach_{name}() takes one operand beside the tensors, got {len(values)}")
    return values[0]


def _pair(name, doc, make):
    """The plain and the in-place form from make(inplace) -> function(tensors, ...)."""
    for inplace in (False, True):
        run = make(inplace)

        def foreach(self, *args, _run=run, _inplace=inplace, **kwargs):
            if not isinstance(self, Number):
                _need_tensors(name, self)
            out = _run(self, *args, **kwargs)
            return self if _inplace else out
        foreach.__name__ = foreach.__qualname__ = f"_foreach_{name}" + "_" * inplace
        foreach.__doc__ = doc + (" In place." if inplace else "")
        globals()[foreach.__name__] = foreach
        __all__.append(foreach.__name__)


__all__: list[str] = []


def _make_unary(name):
    faces = _faces(name)
    _pair(name, f"`{name}` of each tensor.", lambda inplace: lambda self: _C.foreach_map(faces[inplace], (self,)))


def _make_binary(name):
    of_tensors, of_numbers = (_faces(n) for n in BINARY[name])

    def make(inplace):
        def run(self, *args, **named):
            alpha = named.pop("alpha", None)
            value = _given(name, args, named)
            if named:
                raise TypeError(f"_foreach_{name}() got an unexpected keyword argument '{next(iter(named))}'")
            if isinstance(self, Number):                                   # a number to the power of each tensor
                if name != "pow" or inplace:
                    raise TypeError(f"_foreach_{name}() received an invalid combination of arguments - got ({type(self).__name__})")
                _need_tensors(name, value)
                return _C.foreach_map(of_tensors[0], (self, value))
            value = _operand(name, self, value)
            tensors = _is_tensors(value) or isinstance(value, Tensor)
            if alpha is not None and not tensors:
                raise TypeError(f"_foreach_{name}() received an invalid combination of arguments: alpha goes with tensors only")
            return _C.foreach_map((of_tensors if tensors else of_numbers)[inplace], (self, value), {"alpha": alpha} if alpha is not None else None)
        return run
    _pair(name, f"`{name}` of each tensor and its operand: a list of tensors or numbers, or a number for all.", make)


def _make_addc(name):
    faces = _faces(name)

    def make(inplace):
        def run(self, tensor1, tensor2, value=None, *, scalars=None):
            for other in (tensor1, tensor2):
                _need_tensors(name, other)
                _same_count(self, other)
            value = scalars if value is None else value
            if value is None:
                return _C.foreach_map(faces[inplace], (self, tensor1, tensor2))
            if isinstance(value, Tensor):
                if value.dim() != 1:
                    raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {value.dim()} instead.")
                if value.numel() != len(self):
                    raise RuntimeError(f"Expected length of scalars to match input of length {len(self)} but got {value.numel()} instead.")
                value = value.tolist()
            elif isinstance(value, (list, tuple)):
                _same_count(self, value)
            scaled = lambda a, b, c, v: faces[inplace](a, b, c, value=v)
            return _C.foreach_map(scaled, (self, tensor1, tensor2, value))
        return run
    _pair(name, f"`{name}` of each row of tensors; one value for all, or one each.", make)


def _make_lerp():
    faces = _faces("lerp")

    def make(inplace):
        def run(self, tensors1, *args, **named):
            weight = _given("lerp", args, named)
            for other in (tensors1, weight):
                if isinstance(other, (list, tuple)):
                    _same_count(self, other)
            return _C.foreach_map(faces[inplace], (self, tensors1, weight))
        return run
    _pair("lerp", "`lerp` of each tensor towards another, by one weight or one each.", make)


for _name in UNARY:
    _make_unary(_name)
for _name in BINARY:
    _make_binary(_name)
_make_addc("addcmul")
_make_addc("addcdiv")
_make_lerp()


# --------------------------------------------------------------------------------------------------- without an in-place form
def _foreach_norm(self, ord=2, dtype=None):
    """The vector norm of each tensor."""
    _need_tensors("norm", self)
    return _C.foreach_map(registry.find("linalg_vector_norm").op.function, (self, ord), {"dtype": dtype} if dtype is not None else None)


def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of `abs(x) ** ord` of each tensor."""
    _need_tensors("powsum", self)
    find = lambda name: registry.find(name).op.function
    powers = _C.foreach_map(find("pow"), (_C.foreach_map(find("abs"), (self,)), ord))
    return _C.foreach_map(find("sum"), (powers,), {"dtype": dtype} if dtype is not None else None)


def _foreach_max(self):
    """The largest element of each tensor."""
    _need_tensors("max", self)
    return _C.foreach_map(registry.find("max").op.function, (self,))


def _foreach_mm(self, mat2):
    """The matrix product of each pair."""
    _need_tensors("mm", self)
    _same_count(self, mat2)
    return _C.foreach_map(registry.find("mm").op.function, (self, mat2))


def _foreach_clone(self, *, memory_format=None):
    """A copy of each tensor."""
    _need_tensors("clone", self)
    return _C.foreach_map(registry.find("clone").op.function, (self,), {"memory_format": memory_format} if memory_format is not None else None)


def _foreach_copy_(self, src, non_blocking=False):
    """Each tensor filled with the values of another."""
    _need_tensors("copy_", self)
    _same_count(self, src)
    _C.foreach_map(Tensor.copy_, (self, src))
    return self


def _foreach_zero_(self):
    """Each tensor filled with zeros."""
    _need_tensors("zero_", self)
    _C.foreach_map(Tensor.zero_, (self,))
    return self


__all__ += ["_foreach_norm", "_foreach_powsum", "_foreach_max", "_foreach_mm", "_foreach_clone", "_foreach_copy_", "_foreach_zero_"]
