"""Products of matrices and vectors: all of them are one template with different views of its operands."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import matrices
from .common import OUT_TENSOR_DTYPE, broadcast_shapes, hint, numel_of, shape_text

_ADDMM = dict(out=OUT_TENSOR_DTYPE, refuses="b", kernel="addmm_impl_cpu_")


def _multiply_2d(a, b, name="mat1 and mat2"):
    for word, x in (("mat1", a), ("mat2", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{word} must be a matrix, got {x.ndim}-D tensor")
    if not a.shape[1] == b.shape[0]:
        raise RuntimeError(f"{name} shapes cannot be multiplied ({hint(a.shape[0])}x{hint(a.shape[1])} and {hint(b.shape[0])}x{hint(b.shape[1])})")
    return T.matmul(a, b)


@op("mm(Tensor self, Tensor mat2) -> Tensor", rule="match", layout="contiguous", node="MmBackward0", samples=matrices("mm"),
    contracts={"self": -1, "mat2": -2}, **_ADDMM)
def mm(self, mat2):
    """The product of two matrices."""
    if self.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"{'self' if self.ndim != 2 else 'mat2'} must be a matrix")
    return _multiply_2d(self, mat2)


@op("bmm(Tensor self, Tensor mat2) -> Tensor", rule="match", layout="contiguous", node="BmmBackward0", samples=matrices("bmm"),
    contracts={"self": -1, "mat2": -2}, out=OUT_TENSOR_DTYPE, refuses="b")
def bmm(self, mat2):
    """Products of matrices, one per entry of a batch."""
    if self.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor" if self.ndim != 3 else "batch2 must be a 3D tensor")
    if not self.shape[0] == mat2.shape[0] or not self.shape[2] == mat2.shape[1]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{hint(self.shape[0])}, {hint(self.shape[2])}] "
                           f"but got: [{hint(mat2.shape[0])}, {hint(mat2.shape[1])}].")
    return T.matmul(self, mat2)


def _multiply_vector(mat, vec, rows=None):
    """mat @ vec; `rows`: of the tensor that is added to it."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {mat.ndim}, {vec.ndim}")
    rows = mat.shape[0] if rows is None else rows
    if not mat.shape[1] == vec.shape[0] or not (rows == mat.shape[0] or rows == 1):
        raise RuntimeError(f"size mismatch, got input ({hint(rows)}), mat ({hint(mat.shape[0])}x{hint(mat.shape[1])}), vec ({hint(vec.shape[0])})")
    return T.reshape(T.matmul(mat, T.reshape(vec, (vec.shape[0], 1))), (mat.shape[0],))


@op("mv(Tensor self, Tensor vec) -> Tensor", rule="match", layout="contiguous", node="MvBackward0", samples=matrices("mv"),
    out="addmv input tensors must have the same dtype, but got {out}, {result}, and {result}", refuses="b", kernel="addmv_impl_cpu")
def mv(self, vec):
    """A matrix times a vector."""
    return _multiply_vector(self, vec)


def _dot_rule(self, tensor):
    if self.dtype != tensor.dtype:
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {T.dtype_word(self.dtype)} and {T.dtype_word(tensor.dtype)}")
    return "match"


@op("dot(Tensor self, Tensor tensor) -> Tensor", rule=_dot_rule, layout="contiguous", node="DotBackward0", samples=matrices("dot"),
    out="result dtype {out} does not match input dtype {result}", refuses="b")
def dot(self, tensor):
    """The sum of products of two vectors."""
    if self.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
    return _dot(self, tensor)


def _dot(a, b):
    if not a.shape[0] == b.shape[0]:
        raise RuntimeError(f"inconsistent tensor size, expected tensor [{hint(a.shape[0])}] and src [{hint(b.shape[0])}] to have the same number of elements, "
                           f"but got {hint(a.shape[0])} and {hint(b.shape[0])} elements respectively")
    return T.reshape(T.matmul(T.reshape(a, (1, a.shape[0])), T.reshape(b, (b.shape[0], 1))), ())


@op("outer(Tensor self, Tensor vec2) -> Tensor", rule="same", layout="contiguous", node="MulBackward0", aliases=("ger",), samples=matrices("dot"))
def outer(self, vec2):
    """Every product of an element of one vector with one of the other."""
    if self.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected 1-D argument {'self' if self.ndim != 1 else 'vec2'}, but got {self.ndim if self.ndim != 1 else vec2.ndim}-D")
    return T.reshape(self, (self.shape[0], 1)) * T.reshape(vec2, (1, vec2.shape[0]))


def _product_node(given):
    """torch's matmul is a different operator for each pair of ranks; the last of its steps names the result."""
    ranks = given["self"].ndim, given["other"].ndim
    names = {(1, 1): "DotBackward0", (1, 2): "SqueezeBackward4", (2, 1): "MvBackward0", (2, 2): "MmBackward0"}
    return names.get(ranks, "CloneBackward0" if ranks[0] == 2 else "UnsafeViewBackward0")


@op("matmul(Tensor self, Tensor other) -> Tensor", rule="match", layout="contiguous", on="torch Tensor linalg", node=_product_node,
    samples=matrices("matmul"), contracts={"self": -1, "other": -2}, **_ADDMM)
def matmul(self, other):
    """The matrix product by the rules of `@`: vectors are rows on the left and columns on the right, leading dimensions broadcast."""
    if self.ndim == 0 or other.ndim == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {self.ndim}D and {other.ndim}D")
    if self.ndim == 1 and other.ndim == 1:
        return _dot(self, other)
    if self.ndim == 2 and other.ndim == 1:
        return _multiply_vector(self, other)
    a = T.reshape(self, (1, self.shape[0])) if self.ndim == 1 else self
    b = T.reshape(other, (other.shape[0], 1)) if other.ndim == 1 else other
    out = _batched(a, b)
    if self.ndim == 1:
        return T.reshape(out, out.shape[:-2] + out.shape[-1:])
    return T.reshape(out, out.shape[:-1]) if other.ndim == 1 else out


def _batched(a, b):
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if a.ndim == 2 and b.ndim == 2:
        return _multiply_2d(a, b)
    if b.ndim == 2:                                  # the batch is only more rows
        rows = numel_of(a.shape[:-1])
        return T.reshape(_multiply_2d(T.reshape(a, (rows, k)), b), a.shape[:-1] + (n,))
    if not k == b.shape[-2]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{hint(numel_of(b.shape[:-2]))}, {hint(k)}] "
                           f"but got: [{hint(numel_of(b.shape[:-2]))}, {hint(b.shape[-2])}].")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = numel_of(batch)
    a3 = T.reshape(T.expand(a, batch + (m, k)), (count, m, k))
    b3 = T.reshape(T.expand(b, batch + (k, n)), (count, k, n))
    return T.reshape(T.matmul(a3, b3), batch + (m, n))


@op("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar! beta=1, Scalar! alpha=1) -> Tensor", rule=lambda self, mat1, mat2, *_: _same_dtypes(self, mat1, mat2), inplace=True, layout="contiguous",
    node="AddmmBackward0", samples=matrices("addmm"), **_ADDMM)
def addmm(self, mat1, mat2, beta, alpha):
    """`beta * self + alpha * (mat1 @ mat2)`; with beta 0, self is not looked at."""
    return _add_product(self, _multiply_2d(mat1, mat2), beta, alpha)


@op("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar! beta=1, Scalar! alpha=1) -> Tensor", rule="match", inplace=True, layout="contiguous",
    node="AddmvBackward0", samples=matrices("addmv"), out=OUT_TENSOR_DTYPE, refuses="b", kernel="addmv_impl_cpu")
def addmv(self, mat, vec, beta, alpha):
    """`beta * self + alpha * (mat @ vec)`."""
    return _add_product(self, _multiply_vector(mat, vec, self.shape[0] if self.ndim else 1), beta, alpha)


@op("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar! beta=1, Scalar! alpha=1) -> Tensor", rule="match", inplace=True, layout="contiguous",
    node="BaddbmmBackward0", samples=matrices("baddbmm"), out=OUT_TENSOR_DTYPE, refuses="b")
def baddbmm(self, batch1, batch2, beta, alpha):
    """`beta * self + alpha * bmm(batch1, batch2)`."""
    if batch1.ndim == 3 and batch2.ndim == 3:
        _fits(self, (batch1.shape[0], batch1.shape[1], batch2.shape[2]))
    return _add_product(self, bmm(batch1, batch2), beta, alpha)


def _add_product(self, product, beta, alpha):
    _fits(self, product.shape)
    if not T.is_complex(product.dtype):
        if isinstance(alpha, complex) or isinstance(beta, complex):
            raise RuntimeError("value cannot be converted to type float without overflow")
        if not T.is_float(product.dtype):               # as torch: the fraction of a factor is dropped
            alpha, beta = int(alpha), int(beta)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (self if beta == 1 else self * beta)


def _fits(self, shape):
    """What is added to a product spreads to its shape, or expand's error."""
    target = f"Target sizes: {shape_text(shape)}.  Tensor sizes: {shape_text(self.shape)}"
    if self.ndim > len(shape):
        raise RuntimeError(f"The number of sizes provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor "
                           f"({self.ndim}).  {target}")
    for k in range(1, self.ndim + 1):
        if not (self.shape[-k] == 1 or self.shape[-k] == shape[-k]):
            raise RuntimeError(f"The expanded size of the tensor ({hint(shape[-k])}) must match the existing size ({hint(self.shape[-k])}) at "
                               f"non-singleton dimension {len(shape) - k}.  {target}")


def _same_dtypes(added, first, second):
    """One dtype for all, else in the words of addmm, which torch's linear with a bias calls."""
    for word, value in (("self", added), ("mat1", first)) if added is not None else ():
        if value.dtype != second.dtype:
            raise RuntimeError(f"{word} and mat2 must have the same dtype, but got {T.dtype_word(value.dtype)} and {T.dtype_word(second.dtype)}")
    return "match"


def _linear_node(given):
    if given["weight"].ndim != 2 or given["bias"] is None: return _product_node({"self": given["input"], "other": given["weight"]})
    return "AddmmBackward0" if given["input"].ndim == 2 else "ViewBackward0"


@op("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", rule=lambda input, weight, bias: _same_dtypes(bias, input, weight), layout="contiguous", on="F", node=_linear_node,
    samples=matrices("linear"), out=OUT_TENSOR_DTYPE, refuses="b", kernel="addmm_impl_cpu_",
    contracts={"input": -1, "weight": -1})
def linear(input, weight, bias):
    """`input @ weight.T + bias`: one kernel, the bias is added as the product is written."""
    if weight.ndim == 1:
        out = matmul(input, weight)
        return out if bias is None else out + bias
    if weight.ndim != 2:
        raise RuntimeError(f"linear(): weight must be a matrix, but its shape is {shape_text(weight.shape)}")
    if input.ndim == 0:
        raise RuntimeError("both arguments to linear need to be at least 1D, but they are 0D and 2D")
    rows, k = numel_of(input.shape[:-1]), input.shape[-1]
    n = weight.shape[0]
    if not k == weight.shape[1]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({hint(rows)}x{hint(k)} and {hint(weight.shape[1])}x{hint(n)})\n"
                           f"  in linear(input: {shape_text(input.shape)}, weight: {shape_text(weight.shape)})\n"
                           f"  input's last dimension is {hint(k)}, weight's is {hint(weight.shape[1])}")
    out, whole = T.matmul(T.reshape(input, (rows, k)), T.permute(weight, (1, 0))), input.shape[:-1] + (n,)
    if bias is not None and bias.ndim > 1:               # not torch.nn.Linear's: anything that spreads over the result
        spread = broadcast_shapes(bias.shape, whole)
        ones = len(spread) - len(whole)
        if not all(a == b for a, b in zip(spread, (1,) * ones + whole)):
            raise RuntimeError(f"output with shape {shape_text(whole)} doesn't match the broadcast shape {shape_text(spread)}")
        return T.reshape(out, whole) + T.reshape(bias, bias.shape[ones:])
    if bias is not None:
        if not (bias.ndim == 0 or bias.shape[0] == n or bias.shape[0] == 1):
            raise RuntimeError(f"The expanded size of the tensor ({hint(n)}) must match the existing size ({hint(bias.shape[0])}) at non-singleton dimension 1.  "
                               f"Target sizes: [{hint(rows)}, {hint(n)}].  Tensor sizes: {shape_text(bias.shape)}")
        out = out + bias
    return T.reshape(out, whole)


def _inner_out(given):
    """A product with a 0-dim operand is torch's mul, which takes any out= that can hold the result."""
    if () in (given["self"][2], given["other"][2]):
        return True
    return "tensordot: Expected the output tensor to have dtype {result}, but got an output tensor with dtype {out}"


@op("inner(Tensor self, Tensor other) -> Tensor", rule="match", layout="contiguous", out=_inner_out, refuses="b", kernel="addmm_impl_cpu_",
    samples=matrices("inner"))
def inner(self, other):
    """Sums of products over the last dimensions of both."""
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    k = self.shape[-1]
    if not k == other.shape[-1]:
        raise RuntimeError(f"inner() the last dimension must match on both input tensors but got shapes {shape_text(self.shape)} and {shape_text(other.shape)}")
    a = T.reshape(self, (numel_of(self.shape[:-1]), k))
    b = T.reshape(other, (numel_of(other.shape[:-1]), k))
    return T.reshape(T.matmul(a, T.permute(b, (1, 0))), self.shape[:-1] + other.shape[:-1])


@op("vdot(Tensor self, Tensor other) -> Tensor", rule=_dot_rule, layout="contiguous", node="VdotBackward0", refuses="b", kernel="vdot",
    out="result dtype {out} does not match input dtype {result}", samples=matrices("dot"))
def vdot(self, other):
    """`dot` with the first vector conjugated."""
    if self.ndim != 1 or other.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.ndim}D and {other.ndim}D tensors")
    return _dot(T.conj(self), other)


def _addr_misfit(have, want):
    if len(have) != 2:
        return f"2D tensor expected, got {len(have)}D tensor for input"
    return f"size mismatch, input: {have}, v1: [{want[0]}], v2: [{want[1]}]"


@op("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar! beta=1, Scalar! alpha=1) -> Tensor", rule="same", inplace=_addr_misfit, layout="pointwise",
    node="AddrBackward0", samples=matrices("addr"))
def addr(self, vec1, vec2, beta, alpha):
    """`beta * self + alpha * outer(vec1, vec2)`."""
    if vec1.ndim != 1 or vec2.ndim != 1:
        which, x = ("vec1", vec1) if vec1.ndim != 1 else ("vec2", vec2)
        raise RuntimeError(f"addr: Expected 1-D argument {which}, but got {x.ndim}-D")
    return _add_product(self, T.reshape(vec1, (vec1.shape[0], 1)) * T.reshape(vec2, (1, vec2.shape[0])), beta, alpha)


@op("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar! beta=1, Scalar! alpha=1) -> Tensor", rule="match", inplace=True, layout="contiguous",
    node="AddbmmBackward0", out=OUT_TENSOR_DTYPE, refuses="b", samples=matrices("addbmm"))
def addbmm(self, batch1, batch2, beta, alpha):
    """`beta * self` and `alpha` times the sum of the products of a batch of matrices."""
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor" if batch1.ndim != 3 else "batch2 must be a 3D tensor")
    if not batch1.shape[0] == batch2.shape[0]:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {hint(batch1.shape[0])} and {hint(batch2.shape[0])}")
    if not batch1.shape[2] == batch2.shape[1]:
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({hint(batch1.shape[1])}x{hint(batch1.shape[2])} and "
                           f"{hint(batch2.shape[1])}x{hint(batch2.shape[2])})")
    # One product of [m, batch * k] with [batch * k, n]: the sum over the batch is part of the sum over k.
    n, m, k = batch1.shape
    left = T.reshape(T.permute(batch1, (1, 0, 2)), (m, n * k))
    right = T.reshape(batch2, (n * k, batch2.shape[2]))
    return _add_product(self, T.matmul(left, right), beta, alpha)


@op("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", rule="match", layout="contiguous", on="F torch", out=False,
    refuses="b", kernel="addmm_impl_cpu_", samples=matrices("bilinear"))
def bilinear(input1, input2, weight, bias):
    """`y[o] = x1 W[o] x2 + b[o]`, one kernel after the first product."""
    if weight.ndim != 3:
        raise RuntimeError(f"bilinear(): weight must be 3-D, but its shape is {shape_text(weight.shape)}")
    features, in1, in2 = weight.shape
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for k in range(input1.ndim - 1):
        if not input1.shape[k] == input2.shape[k]:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {k}: got {hint(input1.shape[k])} and {hint(input2.shape[k])}")
    for name, x, size in (("input1", input1, in1), ("input2", input2, in2)):
        if not x.shape[-1] == size:
            raise RuntimeError(f"bilinear(): {name} size does not match weight size: got {hint(x.shape[-1])} but expected {hint(size)}")
    if bias is not None and not (bias.ndim == 1 and bias.shape[0] == features):
        raise RuntimeError(f"bilinear(): bias size does not match weight size: got {hint(bias.shape[0])} but expected {hint(features)}")
    rows = numel_of(input1.shape[:-1])
    left = T.matmul(T.reshape(input1, (rows, in1)), T.reshape(T.permute(weight, (1, 0, 2)), (in1, features * in2)))
    products = T.reshape(left, (rows, features, in2)) * T.reshape(input2, (rows, 1, in2))
    out = T.reshape(T.reduce("sum", products, (2,)), input1.shape[:-1] + (features,))
    return out if bias is None else out + bias
