"""The matrix templates: values, the order of sums bit by bit, any strides, any cut of the work, nothing written outside C."""
import harness
import numpy as np
import pytest

from rushlight.compiler import mathlib
from rushlight.compiler.symbolic import Program
from rushlight.compiler.templates import Epilogue, Operand, gemm, gemv, lower_matmul
from rushlight.compiler.templates.tile import tile_of

NUMPY = {'f32': np.float32, 'f64': np.float64, 'i64': np.int64, 'i32': np.int32, 'i16': np.int16, 'i8': np.int8, 'u8': np.uint8}
_kernels = {}


def kernel(step):
    key = step.text, step.symbol
    if key not in _kernels:
        _kernels[key] = harness.kernel(*key)
    return _kernels[key]


def room(size):
    buffer = np.full(size + 64, 0xA5, np.uint8)
    return buffer[-buffer.ctypes.data % 64:][:size]


def multiply(dtype, a, b, c, epilogue=None, extra=(), cuts=()):
    """C = A B through the template's own steps, units cut at the given places (modulo their number), later pieces first."""
    element_strides = [tuple(s // x.itemsize for s in x.strides) for x in (a, b, c)]
    operands = [Operand(('arg', i), 0, s) for i, s in enumerate(element_strides)]
    temporaries, steps = lower_matmul(Program(), dtype, a.shape[0], a.shape[1], b.shape[2], a.shape[2], *operands, epilogue)
    buffers = [room(max(1, size)) for size in temporaries]
    arrays = [a, b, c, *extra]
    for step in steps:
        addresses = [(buffers if kind == 'temporary' else arrays)[i].ctypes.data + offset for kind, i, offset in step.pointers]
        edges = sorted({0, step.units, *(cut % (step.units + 1) for cut in cuts)})
        for lo, hi in reversed(list(zip(edges, edges[1:]))):
            assert kernel(step)(addresses, step.ints, lo, hi, step.scratch, [0.0] * len(step.scalars)) == 0
    return steps


def laid_out(x, how):
    """The same values in other strides; NaN (or junk) between them."""
    if how == 'transposed':
        return np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    if how == 'spread':
        wide = np.full((x.shape[0], 2 * x.shape[1] + 1, 3 * x.shape[2] + 1), 77, x.dtype)
        if x.dtype.kind == 'f':
            wide[:] = np.nan
        view = wide[:, :2 * x.shape[1]:2, :3 * x.shape[2]:3]
        view[:] = x
        return view
    return np.ascontiguousarray(x)


LAYOUTS = ('contiguous', 'transposed', 'spread')


def chain(a, b):
    """One fma after another in ascending k: products of floats are exact in long double, so each link rounds as an fma does
    (but for double rounding, once in 2^40)."""
    wide = np.longdouble if a.dtype == np.float64 else np.float64
    c = np.zeros((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
    for k in range(a.shape[2]):
        c = (a[:, :, k:k + 1].astype(wide) * b[:, k:k + 1, :] + c).astype(a.dtype)
    return c


def lanes(x, b):
    """The rule of gemv.py for one row x [k] and B [k, n]."""
    total = None
    for start in range(0, max(len(x), 1), gemv.BLOCK):
        acc = np.zeros((gemv.LANES, b.shape[1]), x.dtype)
        for k in range(start, min(start + gemv.BLOCK, len(x))):
            lane = (k - start) % gemv.LANES
            acc[lane] = (np.float64(x[k]) * b[k] + acc[lane]).astype(x.dtype)
        while len(acc) > 1:
            acc = acc[:len(acc) // 2] + acc[len(acc) // 2:]
        total = acc[0] if total is None else total + acc[0]
    return total


def matrices(dtype, batch, m, n, k, seed=0):
    random = np.random.default_rng(seed)
    if dtype[0] in 'iu':
        return tuple(random.integers(-100, 100, s).astype(NUMPY[dtype]) for s in ((batch, m, k), (batch, k, n)))
    return tuple(random.standard_normal(s).astype(NUMPY[dtype]) for s in ((batch, m, k), (batch, k, n)))


def same_bits(x, y):
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


SHAPES = [(1, 2, 2, 0), (1, 4, 4, 4), (2, 7, 17, 5), (3, 6, 16, 32), (1, 13, 31, 64), (2, 5, 9, 100),
          (1, 60, 40, 33), (1, 11, 200, 7), (1, 130, 150, 140)]


@pytest.mark.parametrize('dtype', ['f32', 'f64', 'i64', 'i8'])
@pytest.mark.parametrize('shape', SHAPES, ids=str)
def test_any_strides_any_cut_same_chain(dtype, shape):
    a, b = matrices(dtype, *shape)
    with np.errstate(over='ignore'):
        want = a @ b if dtype[0] == 'i' else chain(a, b)
    if dtype == 'f64' and np.finfo(np.longdouble).nmant < 100:
        want = None                              # no wider type to emulate the chain with: the layouts must still agree
    for la in LAYOUTS:
        for lb in LAYOUTS:
            guarded = np.full((shape[0], shape[1] + 2, shape[2] + 5), 77, a.dtype)
            c = guarded[:, 1:-1, 2:-3]
            multiply(dtype, laid_out(a, la), laid_out(b, lb), c, cuts=(1, 3))
            got = c.copy()
            if want is None:
                want = got
                assert np.allclose(got, a.astype(np.longdouble) @ b.astype(np.longdouble), rtol=1e-12, atol=1e-12)
            assert same_bits(got, want), (la, lb)
            c[:] = 77
            assert (guarded == 77).all(), 'something was written outside C'


@pytest.mark.parametrize('transposed', [False, True])
def test_blocks_of_k_continue_the_chain(transposed):
    a, b = matrices('f32', 1, 9, 40, 2 * tile_of('f32').k_block + 50)
    c = np.empty((1, 9, 40), np.float32)
    multiply('f32', a, laid_out(b, 'transposed' if transposed else 'contiguous'), c)
    assert same_bits(c, chain(a, b))


def test_packing_is_chosen_and_changes_nothing():
    a, b = matrices('f32', 1, 400, 330, 410)
    c, d = np.empty((1, 400, 330), np.float32), np.empty((1, 400, 330), np.float32)
    packed = multiply('f32', a, b, c)
    assert [s.symbol for s in packed if s.units] == ['pack', 'pack', 'gemm']
    for i in range(0, 400, 40):                 # the same product in slabs too small to be packed
        steps = multiply('f32', a[:, i:i + 40], b, d[:, i:i + 40])
        assert [s.symbol for s in steps if s.units] == ['gemm']
    assert same_bits(c, d)


def test_c_with_adjacent_rows_is_the_transposed_product():
    a, b = matrices('f32', 2, 20, 35, 12)
    c = np.zeros((2, 35, 20), np.float32).transpose(0, 2, 1)
    multiply('f32', a, b, c)
    assert same_bits(c, chain(a, b))
    with pytest.raises(ValueError, match='one of the strides of C must be 1'):
        multiply('f32', a, b, np.zeros((2, 40, 70), np.float32)[:, ::2, ::2])


@pytest.mark.parametrize('dtype', ['f32', 'i32'])
@pytest.mark.parametrize('count, k', [(1, 1), (1, 31), (1, 33), (4, 4), (9, 100), (70, 257), (130, 64), (3, 0), (2, gemv.BLOCK + 77)])
def test_one_row_or_column(dtype, count, k):
    a, b = matrices(dtype, 2, 1, count, k)
    want = a @ b if dtype[0] == 'i' else np.stack([lanes(x[0], y)[None] for x, y in zip(a, b)])
    for la in LAYOUTS:
        for lb in LAYOUTS:
            c = np.full((2, 1, count), 77, a.dtype)
            multiply(dtype, laid_out(a, la), laid_out(b, lb), c, cuts=(1, 2))
            assert same_bits(c, want), ('row', la, lb)
            column = np.full((2, count, 1), 77, a.dtype)
            multiply(dtype, laid_out(b.transpose(0, 2, 1), lb), laid_out(a.transpose(0, 2, 1), la), column, cuts=(1,))
            assert same_bits(column.transpose(0, 2, 1), want), ('column', la, lb)


def test_an_expanded_operand():
    a, b = matrices('f32', 1, 200, 140, 150)
    many = np.broadcast_to(b, (3, 150, 140))
    left = np.concatenate([a, 2 * a, -a])
    c = np.empty((3, 200, 140), np.float32)
    multiply('f32', left, many, c)
    assert same_bits(c, chain(left, many))


@pytest.mark.parametrize('m, n, k, batch', [(0, 5, 3, 1), (5, 0, 3, 1), (5, 4, 3, 0), (1, 0, 3, 1), (0, 1, 3, 1), (1, 1, 0, 2)])
def test_empty(m, n, k, batch):
    a, b = matrices('f32', batch, m, n, k)
    c = np.full((batch, m, n), 77, np.float32)
    multiply('f32', a, b, c)
    assert (c == 0).all()                       # an empty sum is 0; an empty C is left alone


def bias_and(activation):
    def emit(f, value, row, column, batch, pointer, integer, scalar):
        bias = f.load(f.at(pointer(0), column, value.elem), value.elem, value.width)
        return activation(f, value + bias)
    return Epilogue(emit, [('arg', 3, 0)])


@pytest.mark.parametrize('m, n, k', [(5, 19, 8), (7, 33, 900), (1, 40, 20), (30, 1, 50), (6, 16, 0), (1, 3, gemv.BLOCK + 9)])
def test_epilogue_after_the_sum(m, n, k):
    a, b = matrices('f32', 2, m, n, k)
    bias = np.random.default_rng(5).standard_normal(n).astype(np.float32)
    plain, fused = np.empty((2, m, n), np.float32), np.empty((2, m, n), np.float32)
    multiply('f32', a, b, plain)
    multiply('f32', a, b, fused, bias_and(mathlib.tanh), [bias])
    tanh = harness.pointwise(mathlib.tanh, 'float', 8)
    assert same_bits(fused, tanh(plain + bias))


def test_special_values_pass_through():
    a, b = matrices('f32', 1, 4, 20, 6)
    a[0, 1, 2], b[0, 3, 4] = np.nan, np.inf
    c = np.empty((1, 4, 20), np.float32)
    multiply('f32', a, b, c)
    assert np.isnan(c[0, 1]).all() and np.isinf(c[0, 0, 4]) and np.isfinite(c[0, 0, :4]).all()


def test_kernel_sizes_are_reasonable():
    from rushlight.compiler import jit
    assert len(jit.generate(gemm.kernel_text('f32'))) < 24_000      # it is shipped with the package
