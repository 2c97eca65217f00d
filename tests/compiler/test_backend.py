"""The compiler's back half on graphs written by hand: every kernel form, strides, dtypes, order of reductions, aliasing, errors."""
import itertools

import numpy as np
import pytest
from graphs import Graphs

from rushlight.compiler import backend, cache, jit

RNG = np.random.default_rng(0)


def normal(*shape): return RNG.standard_normal(shape).astype(np.float32)
def same(a, b): return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(np.ascontiguousarray(a).view(np.uint8),
                                                                                    np.ascontiguousarray(b).view(np.uint8))
def layouts(a):
    """The same values behind other strides."""
    yield a
    if not a.ndim: return
    for p in list(itertools.permutations(range(a.ndim)))[1:]: yield np.ascontiguousarray(a.transpose(p)).transpose(np.argsort(p))
    wide = np.zeros(tuple(2 * d for d in a.shape), a.dtype)
    wide[tuple(slice(None, None, 2) for _ in a.shape)] = a
    yield wide[tuple(slice(None, None, 2) for _ in a.shape)]


# ---------------------------------------------------------------------------------------------------------------- maps
@pytest.mark.parametrize('shape', [(), (1,), (4,), (0,), (33,), (5, 7), (3, 0), (2, 3, 40), (1, 65), (70, 1, 3)])
def test_map_any_layout(shape):
    a, b = normal(*shape), normal(*shape)
    a, b = np.asarray(a), np.asarray(b)
    for x, y in zip(layouts(a), reversed(list(layouts(b)))):
        g = Graphs()
        [out] = g.run([g.input(x) * g.input(y) + 1.0])
        assert np.array_equal(out, a * b + np.float32(1))


def test_broadcast_scalars_and_views():
    a, row, column = normal(30, 50), normal(50), normal(30, 1)
    g = Graphs()
    x = g.input(a)
    outs = g.run([x * g.input(row) + g.input(column), x * g.scalar(0), x.permute(1, 0), x.flip(1), x.slice(1, 3, 10, 4),
                  x.flip(0).slice(0, 1, 5)], scalars=[2.5])
    for got, want in zip(outs, [a * row + column, a * np.float32(2.5), a.T, a[:, ::-1], a[:, 3::4][:, :10],
                                a[::-1][1:6]]): assert np.array_equal(got, want)


def test_reshapes():
    a = normal(4, 6, 5)
    for layout in layouts(a):
        g = Graphs()
        x = g.input(layout)
        d = x.shape
        merged = (x + 1.0).reshape(d[0], d[1] * d[2])
        outs = g.run([merged, merged.reshape(*d) * 2.0, x.reshape(d[0] * d[1], d[2]), x.permute(2, 0, 1).reshape(d[2], d[0] * d[1]) - 1.0])
        for got, want in zip(outs, [(a + 1).reshape(4, 30), (a + 1) * 2, a.reshape(24, 5),
                                    a.transpose(2, 0, 1).reshape(5, 24) - 1]): assert np.array_equal(got, want)


@pytest.mark.parametrize('first,shapes', [((40, 50), ((2, 2), (3, 1000), (60, 9))), ((70, 300), ((100, 5000), (700, 90)))], ids=['small', 'large'])
def test_one_recipe_serves_many_shapes(first, shapes):
    g = Graphs()
    x = g.input(normal(*first))
    e = (x - x.amax(1)).exp()
    recipe = g.recipe([e / e.sum(1), x.sum(0, 1), x.sum(0)])
    for shape in shapes:
        a = normal(*shape)
        soft, total, columns = g.replay(recipe, arrays=[a])
        wide = np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
        np.testing.assert_allclose(soft, wide / wide.sum(1, keepdims=True), rtol=2e-6)
        np.testing.assert_allclose(total, a.astype(np.float64).sum(keepdims=True), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(columns, a.astype(np.float64).sum(0, keepdims=True), rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------------------------------------- reductions
def reference_sum(v, column):
    """The contract's order, in numpy: v is [range, others]."""
    def fold(lanes):
        while len(lanes) > 1: h = len(lanes) // 2; lanes = lanes[:h] + lanes[h:]
        return lanes[0]
    zero = np.zeros(v.shape[1:], v.dtype)
    if column:
        parts = [v[i:i + 64] for i in range(0, max(1, len(v)), 64)]
        def ordered(rows):
            acc = zero.copy()
            for r in rows: acc = acc + r
            return acc
        sums = [ordered(p) for p in parts]
        while True:
            sums = [ordered(sums[i:i + 64]) for i in range(0, len(sums), 64)]
            if len(sums) == 1: return sums[0]
    sums = []
    for start in range(0, max(1, len(v)), 4096):
        block = v[start:start + 4096]
        lanes = np.zeros((32, *v.shape[1:]), v.dtype)
        for i in range(0, len(block), 32): part = block[i:i + 32]; lanes[:len(part)] += part
        sums.append(fold(lanes))
    while len(sums) > 1: sums = [sums[i] + sums[i + 1] if i + 1 < len(sums) else sums[i] for i in range(0, len(sums), 2)]
    return sums[0]


@pytest.mark.parametrize('shape', [(3,), (100,), (5000,), (40000,), (7, 33), (3, 9000), (65, 40), (5000, 3), (300, 70)])
def test_order_of_sums(shape):
    a = normal(*shape)
    g = Graphs()
    x = g.input(a)
    last = len(shape) - 1
    row, total = g.run([x.sum(last), x.sum(*range(len(shape)))], threads=2)
    assert same(np.squeeze(row, last), np.asarray(reference_sum(np.moveaxis(a, last, 0), False)))
    assert same(total.reshape(()), np.asarray(reference_sum(a.reshape(-1), False)))
    if len(shape) == 2:
        [column] = g.run([x.sum(0)])
        assert same(column[0], reference_sum(a, True))


@pytest.mark.parametrize('shape', [(4, 5, 6), (33, 70, 3), (2, 65, 130)])
def test_any_dims_any_strides_same_bits(shape):
    a = normal(*shape)
    for count in (1, 2, 3):
        for dims in itertools.combinations(range(3), count):
            bits = None
            for layout in layouts(a):
                g = Graphs()
                [out] = g.run([g.input(layout).sum(*dims)], threads=2)
                if bits is None: np.testing.assert_allclose(out, a.astype(np.float64).sum(dims, keepdims=True), rtol=1e-4, atol=1e-4)
                bits = out if bits is None else bits
                assert same(out, bits)


def test_fusion_does_not_change_bits():
    a, b = normal(300, 70), normal(70)
    g = Graphs()
    x, y = g.input(a), g.input(b)
    fused = g.run([(x * y).sum(1), (x * y).sum(0), (x * y).sum(0, 1)])
    alone = a * b
    for got, dims in zip(fused, ((1,), (0,), (0, 1))):
        h = Graphs()
        [want] = h.run([h.input(alone).sum(*dims)])
        assert same(got, want)


@pytest.mark.parametrize('dims', [(0,), (1,), (0, 1)])
def test_kinds_and_special_values(dims):
    a = normal(70, 300)
    a[3, 5], a[4, :], a[:, 7] = np.nan, -np.inf, np.inf
    g = Graphs()
    x = g.input(a)
    big, small, arg_big, arg_small, some, every = g.run([x.amax(*dims), x.reduce('amin', *dims), x.argreduce('argmax', *dims),
                                                         x.argreduce('argmin', *dims),
                                                         x.op('lt', 0.0).reduce('any', *dims), x.op('lt', 0.0).reduce('all', *dims)],
                                                         threads=2)
    axis = dims[0] if len(dims) == 1 else None
    keep = lambda v: v.reshape(big.shape)
    assert np.array_equal(big, keep(a.max(axis)), equal_nan=True) and np.array_equal(small, keep(a.min(axis)), equal_nan=True)
    assert np.array_equal(arg_big, keep(a.argmax(axis))) and np.array_equal(arg_small, keep(a.argmin(axis)))
    assert np.array_equal(some, keep((a < 0).any(axis))) and np.array_equal(every, keep((a < 0).all(axis)))


@pytest.mark.parametrize('shape, dims', [((3, 4, 5), (0, 2)), ((3, 4, 5, 6), (1, 3)), ((3, 4, 5, 6), (0, 1, 3)), ((1, 4, 1, 6), (1, 3)), ((2, 300, 5), (0, 2))])
def test_argreduce_over_dimensions_apart(shape, dims):
    """The index counts through the reduced dimensions in order, whatever lies between them."""
    a = np.random.default_rng(0).integers(0, 9, shape).astype('float32')
    g = Graphs()
    found, = g.run([g.input(a).argreduce('argmax', *dims)])
    kept = [d for d in range(len(shape)) if d not in dims]
    want = a.transpose(kept + list(dims)).reshape([shape[d] for d in kept] + [-1]).argmax(-1)
    assert np.array_equal(found.reshape(want.shape), want)


@pytest.mark.parametrize('shape,dims', [((0,), (0,)), ((3, 0), (1,)), ((3, 0), (0, 1)), ((0, 3), (0,)), ((0, 3), (1,))])
def test_empty_reductions(shape, dims):
    g = Graphs()
    x = g.input(np.zeros(shape, np.float32))
    s, p = g.run([x.sum(*dims), x.reduce('prod', *dims)])
    assert np.array_equal(s, np.zeros(s.shape, np.float32)) and np.array_equal(p, np.ones(p.shape, np.float32))


def layer_norm(g, x, w, b):
    n = g.const(1.0) / g.size(x.shape[1])
    mean = x.sum(1) * n
    d = x - mean
    return d / ((d * d).sum(1) * n + 1e-5).sqrt() * w + b


def test_row_kernels_are_one_kernel():
    a, w, b = normal(130, 777), normal(777), normal(777)
    g = Graphs()
    recipe = g.recipe([layer_norm(g, g.input(a), g.input(w), g.input(b))])
    assert len(recipe['steps']) == 1
    [out] = g.replay(recipe, threads=2)
    wide = a.astype(np.float64)
    d = wide - wide.mean(1, keepdims=True)
    np.testing.assert_allclose(out, d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b, rtol=1e-4, atol=1e-5)


def test_cross_entropy_reads_its_rows_in_one_kernel():
    a, target = normal(40, 777), RNG.integers(0, 777, 40)
    g = Graphs()
    x, t = g.input(a), g.input(target)
    top = x.amax(1)
    logs = x - ((x - top).exp().sum(1).log() + top)
    picked = g.op('load', logs, g.iota(x.shape[0], 0, 1), t, guarded=False, shape=(x.shape[0],), dtype='f32')
    recipe = g.recipe([picked.sum(0)])
    assert len(recipe['steps']) == 2                      # the rows; the sum of what is picked, one block
    [out] = g.replay(recipe)
    wide = a.astype(np.float64)
    want = sum(wide[i, k] - np.log(np.exp(wide[i]).sum()) for i, k in enumerate(target))
    np.testing.assert_allclose(out[0], want, rtol=1e-5)


# ------------------------------------------------------------------------------------------------------ scans, indexing
@pytest.mark.parametrize('shape,dim', [((5, 77), 1), ((77, 5), 0), ((70, 300), 0), ((3, 20, 37), 1)])
def test_scans(shape, dim):
    a = normal(*shape)
    for layout in layouts(a):
        g = Graphs()
        x = g.input(layout)
        s, r, m, i = g.run([x.scan('sum', dim), x.scan('sum', dim, True), x.scan('max', dim), x.scan('argmax', dim)], threads=2)
        assert np.array_equal(s, np.add.accumulate(a, dim)) and np.array_equal(r, np.flip(np.add.accumulate(np.flip(a, dim), dim), dim))
        assert np.array_equal(m, np.maximum.accumulate(a, dim)) and np.array_equal(np.take_along_axis(a, i, dim), m)


def test_gather_scatter_and_checks():
    table, rows, grad = normal(50, 70), RNG.integers(0, 50, 300), normal(300, 70)
    g = Graphs()
    x, index, up = g.input(table), g.input(rows), g.input(grad)
    at, column = index.reshape(index.shape[0], 1), g.iota(x.shape[1], 1, 2)
    checked = g.op('check', at, lo=0, hi=x.shape[0], error=('IndexError', 'index {value} is out of range'))
    taken = g.op('load', x, checked, column, guarded=False, shape=(index.shape[0], x.shape[1]), dtype='f32')
    added = g.op('scatter', g.const(0.0).expand(*x.shape), up, at, column, combine='add', shape=x.shape, dtype='f32')
    recipe = g.recipe([taken, added])
    for threads in (1, 2):
        got, total = g.replay(recipe, threads=threads)
        want = np.zeros_like(table)
        for i, r in enumerate(rows): want[r] += grad[i]
        assert np.array_equal(got, table[rows]) and np.array_equal(total, want)
    bad = rows.copy()
    bad[17] = -3
    with pytest.raises(IndexError, match='index -3 is out of range'): g.replay(recipe, arrays=[table, bad, grad])


def test_scatter_modes_along_a_dimension():
    base, index, src = normal(6, 9), RNG.integers(0, 9, (6, 4)), normal(6, 4)
    for mode in ('set', 'add', 'mul', 'max', 'min'):
        g = Graphs()
        x, e, v = g.input(base), g.input(index), g.input(src)
        [out] = g.run([g.op('scatter', x, v, g.iota(x.shape[0], 0, 2), e, combine=mode, shape=x.shape, dtype='f32')], threads=2)
        want = base.copy()
        do = {'set': lambda o, s: s, 'add': lambda o, s: o + s, 'mul': lambda o, s: o * s, 'max': max, 'min': min}[mode]
        for i in range(6):
            for j in range(4): want[i, index[i, j]] = do(want[i, index[i, j]], src[i, j])
        assert np.array_equal(out, want)


def test_guarded_load_pads():
    a = normal(4, 9)
    g = Graphs()
    x = g.input(a)
    at = g.iota(x.shape[1] + 4, 1, 2) - 2
    inside = g.op('bit_and', g.op('le', g.const(0, 'i64'), at), g.op('lt', at, g.size(x.shape[1], 'i64')))
    padded = g.op('load', x, g.iota(x.shape[0], 0, 2), at, inside, g.const(3.0), guarded=True, shape=(x.shape[0], x.shape[1] + 4),
                  dtype='f32')
    assert np.array_equal(g.run([padded])[0], np.pad(a, ((0, 0), (2, 2)), constant_values=3))


def test_cat():
    a, b = normal(3, 4), normal(5, 4)
    g = Graphs()
    x, y = g.input(a), g.input(b)
    c = g.op('cat', x, y + 1.0, dim=0, shape=(x.shape[0] + y.shape[0], x.shape[1]), dtype='f32')
    out, twice = g.run([c, c * 2.0])
    want = np.concatenate([a, b + 1])
    assert np.array_equal(out, want) and np.array_equal(twice, want * 2)


# ------------------------------------------------------------------------------------------------------------- matmul
@pytest.mark.parametrize('m,n,k', [(37, 23, 19), (1, 9, 7), (5, 1, 7), (130, 3, 1), (3, 4, 0)])
def test_matmul_with_a_tail(m, n, k):
    a, w, bias = normal(m, k), normal(n, k), normal(n)
    g = Graphs()
    x, y, z = g.input(a), g.input(w), g.input(bias)
    product = g.op('matmul', x, y.permute(1, 0), shape=(x.shape[0], y.shape[0]), dtype='f32')
    relu = g.op('maximum', product + z, 0.0)
    [fused] = g.run([relu])
    [plain] = g.run([product])
    assert np.array_equal(fused, np.maximum(plain + bias, 0))
    np.testing.assert_allclose(fused, np.maximum(a.astype(np.float64) @ w.T + bias, 0), rtol=1e-4, atol=1e-4)


def test_a_tail_that_others_read():
    a, w, bias = normal(37, 19), normal(23, 19), normal(23)
    g = Graphs()
    x, y, z = g.input(a), g.input(w), g.input(bias)
    linear = g.op('matmul', x, y.permute(1, 0), shape=(x.shape[0], y.shape[0]), dtype='f32') + z
    out, twice, total, turned = g.run([linear, linear * 2.0, linear.sum(1), (linear + 1.0).permute(1, 0)])
    np.testing.assert_allclose(out, a.astype(np.float64) @ w.T + bias, rtol=1e-4, atol=1e-4)
    h = Graphs()
    assert np.array_equal(twice, out * 2) and same(total, h.run([h.input(out).sum(1)])[0]) and np.array_equal(turned, (out + 1).T)


def test_transposed_product_needs_no_copy():
    a, b = normal(30, 20), normal(30, 40)
    g = Graphs()
    x, y = g.input(a), g.input(b)
    turned = g.op('matmul', x.permute(1, 0), y, shape=(x.shape[1], y.shape[1]), dtype='f32').permute(1, 0)
    recipe = g.recipe([turned])
    assert all(step[0][2] in ('gemm', 'pack') for step in recipe['steps'])
    np.testing.assert_allclose(g.replay(recipe)[0], (a.T @ b).T, rtol=1e-4, atol=1e-4)


# --------------------------------------------------------------------------------------------------- dtypes, conversions
def test_half_conversions_are_exact():
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    f = np.concatenate([every.astype(np.float32), RNG.integers(0, 1 << 32, 100000, dtype=np.uint64).astype(np.uint32).view(np.float32),
                        np.float32([65519.9, 65520, 5.9e-8, 2.9e-8, 2.98e-8, -0.0, np.inf])])
    with np.errstate(all='ignore'): want = f.astype(np.float16)
    ok = ~np.isnan(want)
    for through in ('f32', 'f64'):
        g = Graphs()
        [out] = g.run([g.input(f).cast(through).cast('f16')])
        assert np.array_equal(out.view(np.uint16)[ok], want.view(np.uint16)[ok]) and np.isnan(out[~ok]).all()


def test_float_to_integer_as_torch_does():
    f = np.float32([300, -1, -300, 2.9, -2.9, np.nan, np.inf, -np.inf, 3e9, 1e20])
    g = Graphs()
    x = g.input(f)
    u8, i8, i32, i64, b1 = g.run([x.cast(d) for d in ('u8', 'i8', 'i32', 'i64', 'b1')])
    lowest, lowest64 = -(1 << 31), -(1 << 63)
    assert u8[:5].tolist() == [44, 255, 212, 2, 254] and i8[:5].tolist() == [44, -1, -44, 2, -2]
    assert i32.tolist() == [300, -1, -300, 2, -2, lowest, lowest, lowest, lowest, lowest]
    assert i64.tolist() == [300, -1, -300, 2, -2, lowest64, lowest64, lowest64, 3000000000, lowest64] and b1.all()


@pytest.mark.parametrize('dtype', [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float64, np.complex64,
                                   np.complex128])
def test_every_dtype_loads_and_stores(dtype):
    a = (normal(7, 45) * 5 + (1j * normal(7, 45) if np.dtype(dtype).kind == 'c' else 0)).astype(dtype)
    for layout in layouts(a):
        g = Graphs()
        x = g.input(layout)
        copied, turned = g.run([g.op('where', x.op('eq', x), x, x), x.flip(1)])
        assert np.array_equal(copied, a) and np.array_equal(turned, a[:, ::-1])


def test_complex_arithmetic():
    a, b = (normal(3, 37) + 1j * normal(3, 37)).astype(np.complex64), (normal(3, 37) + 1j * normal(3, 37)).astype(np.complex64)
    g = Graphs()
    x, y = g.input(a), g.input(b)
    total, product, turned, summed = g.run([x + y, x * y, x.op('conj'), x.sum(0, 1)])
    assert np.array_equal(total, a + b) and np.array_equal(turned, a.conj())
    np.testing.assert_allclose(product, a * b, rtol=1e-5)
    np.testing.assert_allclose(summed[0, 0], a.sum(), rtol=1e-4)


# --------------------------------------------------------------------------------------------------------------- aliasing
@pytest.mark.parametrize('body', [lambda x: x * 2.0, lambda x: x.flip(0), lambda x: x / x.sum(0, 1), lambda x: x.permute(1, 0),
                                  lambda x: x / x.sum(1),
                                  lambda x: x.scan('sum', 0), lambda x: (x - x.amax(1)).exp() / (x - x.amax(1)).exp().sum(1)])
def test_in_place_is_as_if_copied(body):
    a = normal(40, 40)
    g = Graphs()
    [want] = g.run([body(g.input(a.copy()))])
    target = a.copy()
    h = Graphs()
    h.run([body(h.input(target, aliases=(0,)))], dests=[target])
    assert same(target, np.ascontiguousarray(want))


def test_destination_strides():
    a = normal(4, 5, 6, 7)
    for order in ((0, 2, 3, 1), (3, 1, 0, 2)):
        out = np.empty(tuple(a.shape[d] for d in order), np.float32).transpose(np.argsort(order))
        g = Graphs()
        x = g.input(a)
        g.run([(x - x.amax(2, 3)).exp()], dests=[out])
        assert np.array_equal(out, np.exp(a - a.max((2, 3), keepdims=True))) or np.allclose(out, np.exp(a - a.max((2, 3), keepdims=True)),
                                                                                            rtol=1e-6)


# ------------------------------------------------------------------------------------------------------- objects, cache
def test_equal_kernels_are_one_object():
    g, h = Graphs(), Graphs()
    first = g.recipe([g.input(normal(5, 7)) + g.input(normal(5, 7))])
    second = h.recipe([h.input(normal(6, 3, 9)) + h.input(normal(6, 3, 9))])
    assert first['steps'][0][0] == second['steps'][0][0]


def test_unknown_symbols_are_refused():
    text = 'define double @kernel(double %a) {\n  %x = call double @fmod(double %a, double 2.0)\n  ret double %x\n}\n'
    text += 'declare double @fmod(double, double)\n'
    with pytest.raises(RuntimeError, match=r'calls fmod\(\)'): jit.generate(text)


def test_cache_survives_damage(tmp_path, monkeypatch):
    monkeypatch.setenv('RUSHLIGHT_CACHE_DIR', str(tmp_path))
    data = bytes(range(256)) * 20
    cache.put('test', 'key', data)
    cache._memory.pop(('test', 'key'))
    assert cache.get('test', 'key') == data
    path = cache.entry_path('test', 'key')
    whole = open(path, 'rb').read()
    for damage in (b'', whole[:10], whole[:-7], whole[:50] + b'x' + whole[51:], b'garbage' * 100):
        with open(path, 'wb') as f: f.write(damage)
        cache._memory.pop(('test', 'key'), None)
        assert cache.get('test', 'key') is None
        cache.put('test', 'key', data)
        cache._memory.pop(('test', 'key'))
        assert cache.get('test', 'key') == data


def test_cache_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setenv('RUSHLIGHT_CACHE_DIR', str(tmp_path))
    for i in range(40): cache.put('test', f'bound{i}', RNG.bytes(1000))
    assert cache.size()[1] > 20000
    cache.trim(10000)
    assert cache.size()[1] <= 10000


def test_unwritable_cache_is_harmless(tmp_path, monkeypatch):
    blocked = tmp_path / 'file'
    blocked.write_text('not a directory')
    monkeypatch.setenv('RUSHLIGHT_CACHE_DIR', str(blocked))
    cache.put('test', 'blocked', b'data')
    assert cache.get('test', 'blocked') == b'data'


def test_pack_round_trip(tmp_path):
    path = str(tmp_path / 'kernels.pack')
    assert cache.write_pack(path, [('object', f'k{i}', RNG.bytes(100 + i)) for i in range(5)])[0] == 5
    found = cache.open_pack(path)
    assert len(found[1]) == 5
    with open(path, 'r+b') as f: f.seek(20); f.write(b'\0\0\0\0')
    assert cache.open_pack(path) is None


def test_stages_print():
    g = Graphs()
    x = g.input(normal(5, 7))
    from rushlight.compiler.graph import Output
    text = backend.explain([Output((x.exp() / x.exp().sum(1)).node)], g.inputs, g.program)
    for part in ('accumulate', 'keep', 'is stored: a result', 'define i64 @kernel', 'units'): assert part in text
