"""einsum in all its spellings, and the functions of several tensors around it: they take apart their arguments in Python and then call operators."""
from __future__ import annotations

import string

from . import _C, registry
from .functions import _into, meshgrid, nonzero
from .overrides import handle_torch_function, has_torch_function


def _op(name):
    return registry.find(name).op.function


# ----------------------------------------------------------------------------------------------------------------- einsum
_LETTERS = string.ascii_uppercase + string.ascii_lowercase            # as a subscript list numbers them
_ELLIPSIS = "..."


def einsum(*args):
    """Products of tensors summed over subscripts: `einsum('ij,jk->ik', a, b)` is the product of two matrices.

    Without `->` the subscripts that appear once are the result's, in alphabetical order. A subscript repeated in one operand walks its
    diagonal; `...` stands for any dimensions, which broadcast. The subscripts may also be lists of numbers: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

    >>> rushlight.einsum('ii', rushlight.ones(3, 3))
    tensor(3.)
    """
    if len(args) < 2:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list")
    equation, operands = (args[0], args[1:]) if isinstance(args[0], str) else _from_lists(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    if has_torch_function(operands) and not _C.torch_function_disabled():
        return handle_torch_function(einsum, operands, equation, *operands)            # whatever the spelling was
    operands = list(operands)
    inputs, result = _parse(equation, len(operands))
    operands, inputs, result = _without_ellipsis(operands, inputs, result)
    for i, (x, labels) in enumerate(zip(operands, inputs)):
        operands[i], inputs[i] = _diagonals(x, labels, i)
    _check_sizes(operands, inputs)
    return _contracted(operands, inputs, result)


def _from_lists(args):
    """The equation behind operands and subscript lists in turn, a last list being the result's."""
    def letter(s):
        if s is Ellipsis:
            return _ELLIPSIS
        if not 0 <= s < 52:
            raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
        return _LETTERS[s]
    text = lambda subscripts: "".join(letter(s) for s in subscripts)
    operands = list(args[0:len(args) - len(args) % 2:2])
    equation = ",".join(text(s) for s in args[1::2])
    return (equation + "->" + text(args[-1]) if len(args) % 2 else equation), operands


def _subscripts(text, start, who, again):
    """The labels of one operand, or of the result, as a list with '...' in the place of an ellipsis."""
    out, i = [], 0
    while i < len(text):
        c = text[i]
        if c == ".":
            if _ELLIPSIS in out:
                raise RuntimeError(f"einsum(): found '.' for {again}")
            if text[i:i + 3] != _ELLIPSIS:
                raise RuntimeError(f"einsum(): found '.' for {who}")
            out.append(_ELLIPSIS)
            i += 3
            continue
        if c != " ":
            if c not in string.ascii_letters:
                raise RuntimeError(f"einsum(): invalid subscript given at index {start + i} in the equation string, subscripts must be in [a-zA-Z]")
            out.append(c)
        i += 1
    return out


def _parse(equation, count):
    """(labels of each operand, labels of the result or None)."""
    left, arrow, right = equation.partition("->")
    inputs, start = [], 0
    for i, text in enumerate(left.split(",")):
        if i >= count:
            raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
        inputs.append(_subscripts(text, start, f"operand {i} that is not part of any ellipsis", f"operand {i} for which an ellipsis was already found"))
        start += len(text) + 1
    if len(inputs) < count:
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if not arrow:
        return inputs, None
    result = _subscripts(right, len(left) + 2, "output that is not part of any ellipsis (...)", "output but an ellipsis (...) was already found")
    known = {c for labels in inputs for c in labels}
    for k, c in enumerate(result):
        if c in result[:k]:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
        if c != _ELLIPSIS and c not in known:
            raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
    return inputs, result


def _without_ellipsis(operands, inputs, result):
    """Ellipses become labels of their own, counted from the right."""
    spans = []
    for i, (x, labels) in enumerate(zip(operands, inputs)):
        named, dots = len(labels) - labels.count(_ELLIPSIS), _ELLIPSIS in labels
        if named > x.dim():
            how = "is more than" if dots else "does not match"
            more = "" if dots else " and no ellipsis was given"
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({named}) {how} the number of dimensions ({x.dim()}) for operand {i}{more}")
        if named != x.dim() and not dots:
            raise RuntimeError(f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions ({x.dim()}) for operand "
                               f"{i} and no ellipsis was given")
        spans.append(x.dim() - named)
    widest = max(spans)
    hidden = [chr(0x3B1 + k) for k in range(widest)]                    # outside of what a user can write
    open_up = lambda labels, span: [c for label in labels for c in (hidden[widest - span:] if label == _ELLIPSIS else [label])]
    if result is None:
        counts = {}
        for labels in inputs:
            for c in labels:
                counts[c] = counts.get(c, 0) + 1
        result = hidden + sorted(c for c, n in counts.items() if n == 1 and c != _ELLIPSIS)
    else:
        result = open_up(result, widest)
    return operands, [open_up(labels, span) for labels, span in zip(inputs, spans)], result


def _diagonals(x, labels, operand):
    """A view without repeated labels."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(f"einsum(): subscript {c} is repeated for operand {operand} but the sizes don't match, {x.shape[second]} != {x.shape[first]}")
            x = x.diagonal(0, first, second).movedim(-1, first)
            labels = labels[:second] + labels[second + 1:]
    return x, labels


def _check_sizes(operands, inputs):
    sizes = {}
    for i, (x, labels) in enumerate(zip(operands, inputs)):
        for c, n in zip(labels, x.shape):
            seen = sizes.get(c, 1)
            if n != 1 and seen not in (1, n):
                raise RuntimeError(f"einsum(): subscript {c} has size {n} for operand {i} which does not broadcast with previously seen size {seen}")
            sizes[c] = seen if n == 1 else n


def _aligned(x, labels, order):
    """A view with the dimensions in `order`, size 1 for those it lacks."""
    x = x.permute([labels.index(c) for c in order if c in labels])
    for d, c in enumerate(order):
        if c not in labels:
            x = x.unsqueeze(d)
    return x


def _contracted(operands, inputs, result):
    if len(operands) == 1:
        order = result + [c for c in inputs[0] if c not in result]
        x = _aligned(operands[0], inputs[0], order)
        return x.sum(list(range(len(result), len(order)))) if len(order) > len(result) else x
    summed = {c for labels in inputs for c in labels} - set(result)
    if len(operands) == 2 and not summed:
        return _op("mul")(*[_aligned(x, labels, result) for x, labels in zip(operands, inputs)])
    memory, (a, b) = result, (inputs[0], inputs[1])
    if len(operands) == 2:
        # The product comes out as batch, rows, columns; as torch does, the operands change places where that leaves the last dimension adjacent.
        if result and result[-1] in a and result[-1] not in b:
            operands, inputs = operands[::-1], inputs[::-1]
            a, b = b, a
        both = [c for c in result if c in a and c in b]
        memory = both + [c for c in result if c in a and c not in b] + [c for c in result if c not in a]
    names = {c: _LETTERS[k] for k, c in enumerate(dict.fromkeys(c for labels in inputs for c in labels))}
    spell = lambda labels: "".join(names[c] for c in labels)
    out = _op("_einsum")(operands, ",".join(map(spell, inputs)) + "->" + spell(memory))
    return out if memory == result else out.permute([memory.index(c) for c in result])


# --------------------------------------------------------------------------------------------------------------- the others
def chain_matmul(*matrices, out=None):
    """The product of matrices in the order that needs the fewest multiplications; `linalg.multi_dot` is its newer name."""
    _C.warn("chain_matmul is deprecated: linalg.multi_dot([a, b, ...]) does the same", once=True)
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for m in matrices:
        if m.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {m.dim()}, expected 2 instead.")
    if len(matrices) == 1:
        return matrices[0].clone() if out is None else _into(out, matrices[0])
    return _op("linalg_multi_dot")(list(matrices)) if out is None else _op("linalg_multi_dot")(list(matrices), out=out)


def block_diag(*tensors):
    """Matrices along the diagonal of one that is zero elsewhere; vectors and numbers count as rows."""
    if not tensors:
        return _op("empty")((1, 0))
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return _op("_block_diag")(list(tensors))


def cartesian_prod(*tensors):
    """Every combination of one element from each vector, a row each."""
    if not tensors:
        raise RuntimeError("cartesian_prod expects at least one tensor")
    for t in tensors:
        if t.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return _op("stack")([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1)


def combinations(input, r=2, with_replacement=False):
    """Every choice of r elements in their order, a row each; `with_replacement`: an element may be chosen again."""
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    n = input.numel()
    places = meshgrid(*[_op("_arange")(n, 0, 1, dtype=_C.int64)] * r, indexing="ij")
    mask = _op("ones")((n,) * r, dtype=_C.bool)
    for a, b in zip(places, places[1:]):
        mask = mask & (a <= b if with_replacement else a < b)
    rows = nonzero(mask)
    return input.index_select(0, rows.reshape(-1)).reshape(rows.shape)


