"""Attention without its matrix of weights: a block of keys at a time, softmax carried along (forward), weights computed again from the saved
logarithm of their sum (backward). Batches and heads are two dimensions with free strides, so that the usual views of one projection are read in place.

**The bits.** Keys are taken in blocks of 128, ascending. A block's scores are one fma chain over the features each; they are scaled, biased and
compared in the order of the keys, 8 (4) lanes wide, lanes folded by halving. The result of a row so far is multiplied by exp(old maximum - new maximum) and
goes on as one fma chain over the keys. Backward, every sum over keys or over queries is one ascending chain. Rows do not see each other: how they
are shared between threads or grouped in blocks changes nothing.

**The machine code.** All five products are gemm's tiles. Keys (backward: and values) are packed transposed, once for each block of them, and then met by
all the queries of the unit, 48 at a time: the scores of one such block stay in the first-level cache.

Masks: a bias is added to the scores (-inf: not to be seen); `causal` leaves out keys behind the query's own place. A row that sees nothing is 0, and its
logarithm is stored as +inf, so that its weights are 0 in the backward too.
"""
import math

from rushlight.compiler import mathlib
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.mathlib_exp import KIND, exp_reduce, power_of_two
from rushlight.compiler.templates import pack
from rushlight.compiler.templates import tile as tiles
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke, lane_mask
from rushlight.compiler.templates.tile import Panels, tile_of

KEYS, QUERIES = 128, 48                         # of a block
UNITS = 16                                      # with fewer pairs of batch and head than this the queries of one are cut too,
UNIT_ROWS = 192                                 # into stretches of so many
EXP_LOW = {'float': -87.0, 'double': -708.0}    # below: 0

FORWARD_INTS = ('rows', 'keys', 'depth', 'width', 'heads', 'unit_rows', 'row_units')
BACKWARD_INTS = ('rows', 'keys', 'depth', 'width', 'heads')
STRIDES = ('batch', 'head', 'row')


def scratch_forward(dtype, depth, unit_rows):
    _, size, _ = ELEMENT[dtype]
    return (depth * KEYS + unit_rows * 2 + (QUERIES * KEYS + QUERIES)) * size


def scratch_backward(dtype, depth, width, rows):
    _, size, _ = ELEMENT[dtype]
    return (depth * KEYS + width * KEYS + rows + 2 * QUERIES * KEYS) * size


# -------------------------------------------------------------------------------------------------------------- pieces
def exp_below(f, x):
    """exp of what is not above 0 (or by a rounding), NaN kept."""
    low = EXP_LOW[x.elem]
    q, n = exp_reduce(f, f.select(x < low, low, x), KIND[x.elem])
    return f.select(x < low, 0.0, (q + 1.0) * power_of_two(f, n, x.elem))


def folded(f, v, join):
    width = v.width
    while width > 1:
        width //= 2
        v = join(f.shuffle(v, list(range(width))), f.shuffle(v, list(range(width, 2 * width))))
    return v


def larger(f): return lambda a, b: f.select(a > b, a, b)


PRODUCT = [('ptr', 'a'), ('ptr', 'b'), ('ptr', 'c'), ('i64', 'm'), ('i64', 'n'), ('i64', 'depth'), ('i64', 'a_row'), ('i64', 'a_k'), ('i64', 'b_k'),
           ('i64', 'b_panel'), ('i64', 'c_row'), ('i64', 'onward')]


def product_function(module, dtype):
    """C (+)= A B: A with free strides, B in panels of two vectors of columns, b_panel apart, rows b_k apart in each."""
    elem, _, _ = ELEMENT[dtype]
    tile = tile_of(dtype)
    width = tile.width
    f = Internal(module, 'product', PRODUCT)
    a, b, c, m, n, depth, a_row, a_k, b_k, b_panel, c_row, onward = f.args
    count, panels = Panels.even(f, tile, m)
    at = Var(f, b)
    with f.loop(f.const(0), n, width) as j:
        columns = f.min(n - j, f.const(width))
        with f.loop(f.const(0), count) as panel:
            row = panels.first_row(panel)
            invoke(f, 'tiles', element(f, a, row * a_row, elem), at.get(), element(f, c, row * c_row + j, elem), depth, a_row, a_k, b_k, c_row, onward,
                   columns, panels.count(panel))
        at.set(element(f, at.get(), b_panel, elem))
    tiles.functions(module, dtype)


def pack_function(module, dtype):
    """`count` lines (keys) of `depth` elements, transposed into panels."""
    elem, _, lanes = ELEMENT[dtype]
    width = tile_of(dtype).width
    f = Internal(module, 'pack_block', [('ptr', 'source'), ('ptr', 'target'), ('i64', 'depth'), ('i64', 'count'), ('i64', 'line_step')])
    source, target, depth, count, line_step = f.args
    with f.loop(f.const(0), count, width) as j:
        pack.panel_of(f, element(f, source, j * line_step, elem), element(f, target, j * depth, elem), depth, f.min(count - j, f.const(width)), line_step,
                      f.const(1))
    pack.functions(module, elem, width, lanes)


def fill_function(module, dtype):
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'fill', [('ptr', 'to'), ('i64', 'count'), (elem, 'value')])
    to, count, value = f.args
    whole = count & -lanes
    with f.loop(f.const(0), whole, lanes) as i:
        f.store(f.splat(value, lanes), element(f, to, i, elem))
    with f.loop(whole, count) as i:
        f.store(value, element(f, to, i, elem))


def scale_function(module, dtype):
    """A row times a number."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'scale_row', [('ptr', 'row'), ('i64', 'count'), (elem, 'by')])
    row, count, by = f.args
    whole = count & -lanes
    with f.loop(f.const(0), whole, lanes) as i:
        at = element(f, row, i, elem)
        f.store(f.load(at, elem, lanes) * f.splat(by, lanes), at)
    with f.loop(whole, count) as i:
        at = element(f, row, i, elem)
        f.store(f.load(at, elem) * by, at)


def scores(f, elem, lanes, line, bias, c, nb, scale, row, first, has_bias, causal, partial):
    """A vector of scaled, biased, masked scores of one row, keys c.. of the block that begins at key `first`. partial: lanes past the last key are -inf."""
    x = f.load(element(f, line, c, elem), elem, lanes) * f.splat(scale, lanes)
    mask = lane_mask(f, nb - c, lanes) if partial else None
    if has_bias:
        x = x + f.load(element(f, bias, c, elem), elem, lanes, mask)
    if causal:
        mine = lane_mask(f, row - first - c + 1, lanes)
        mask = mine if mask is None else mask & mine
    return x if mask is None else f.select(mask, x, f.const(-math.inf, elem, lanes))


WEIGH = [('ptr', 's'), ('ptr', 'm'), ('ptr', 'l'), ('ptr', 'o'), ('ptr', 'bias'), ('i64', 'mb'), ('i64', 'nb'), ('i64', 'bias_row'), ('i64', 'row'),
         ('i64', 'first'), ('i64', 'width')]


def weigh_function(module, dtype, has_bias, causal):
    """Scores of a block of queries and keys become weights beside the maximum so far; sums and results so far are brought down to it."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'weigh', [*WEIGH, (elem, 'scale')])
    s, m, l, o, bias, mb, nb, bias_row, row, first, width, scale = f.args
    whole = nb & -lanes
    none = f.const(-math.inf, elem, lanes)
    with f.loop(f.const(0), mb) as i:
        line, extra = element(f, s, i * KEYS, elem), element(f, bias, i * bias_row, elem) if has_bias else None
        top = Var(f, none)

        def look(c, partial):
            x = scores(f, elem, lanes, line, extra, c, nb, scale, row + i, first, has_bias, causal, partial)    # noqa: B023
            f.store(x, element(f, line, c, elem))                                                               # noqa: B023
            top.set(larger(f)(x, top.get()))                                                                    # noqa: B023
        with f.loop(f.const(0), whole, lanes) as c:
            look(c, False)
        with f.when(whole < nb):
            look(whole, True)
        m_at, l_at = element(f, m, i, elem), element(f, l, i, elem)
        old = f.load(m_at, elem)
        new = larger(f)(folded(f, top.get(), larger(f)), old)
        base = f.select(new.eq(-math.inf), 0.0, new)
        total = Var(f, f.const(0, elem, lanes))
        with f.loop(f.const(0), nb, lanes) as c:
            at = element(f, line, c, elem)
            p = exp_below(f, f.load(at, elem, lanes) - f.splat(base, lanes))
            f.store(p, at)
            total.set(total.get() + p)
        shrink = exp_below(f, old - base)
        f.store(new, m_at)
        f.store(f.load(l_at, elem) * shrink + folded(f, total.get(), lambda a, b: a + b), l_at)
        with f.when(shrink.ne(1.0)):
            invoke(f, 'scale_row', element(f, o, i * width, elem), width, shrink)


# -------------------------------------------------------------------------------------------------------------- forward
def named(f, names, first=0): return {name: f.n(first + i) for i, name in enumerate(names)}


def place(n, strides, batch, head): return batch * strides['batch'] + head * strides['head']


def forward_text(dtype, has_bias, causal):
    """The module with the kernel `attention_forward`. Pointers: o, lse, q, k, v, scale, bias. A unit is a stretch of queries of one batch and head."""
    elem, _, _ = ELEMENT[dtype]
    width = tile_of(dtype).width
    module = Module()
    f = Kernel(module, 'attention_forward')
    n = named(f, FORWARD_INTS)
    strides, at = {}, len(FORWARD_INTS)
    for name in ('q', 'k', 'v', *(['bias'] if has_bias else [])):
        strides[name] = named(f, STRIDES, at)
        at += len(STRIDES)
    p = dict(zip(('o', 'lse', 'q', 'k', 'v', 'scale', 'bias'), [f.p(i) for i in range(7 if has_bias else 6)]))
    scale = f.load(p['scale'], elem)
    keys_t = f.scratch
    s = element(f, keys_t, n['depth'] * KEYS, elem)
    m = element(f, s, QUERIES * KEYS, elem)
    l = element(f, m, n['unit_rows'], elem)
    with f.loop(f.lo, f.hi) as unit:
        stretch, pair = unit % n['row_units'], unit // n['row_units']
        head, batch = pair % n['heads'], pair // n['heads']
        first_row = stretch * n['unit_rows']
        last_row = f.min(first_row + n['unit_rows'], n['rows'])
        count = last_row - first_row
        base = {name: element(f, p[name], place(n, strides[name], batch, head), elem) for name in strides}
        out = element(f, p['o'], pair * n['rows'] * n['width'], elem)
        invoke(f, 'fill', m, count, f.const(-math.inf, elem))
        invoke(f, 'fill', l, count, f.const(0, elem))
        invoke(f, 'fill', element(f, out, first_row * n['width'], elem), count * n['width'], f.const(0, elem))
        end = f.min(n['keys'], last_row) if causal else n['keys']
        with f.loop(f.const(0), end, KEYS) as j:
            nb = f.min(n['keys'] - j, f.const(KEYS))
            invoke(f, 'pack_block', element(f, base['k'], j * strides['k']['row'], elem), keys_t, n['depth'], nb, strides['k']['row'])
            start = first_row
            if causal:                           # queries before the block's first key do not see it
                start = first_row + f.max(j - first_row, f.const(0)) // QUERIES * QUERIES
            with f.loop(start, last_row, QUERIES) as i:
                mb = f.min(last_row - i, f.const(QUERIES))
                mine = i - first_row
                invoke(f, 'product', element(f, base['q'], i * strides['q']['row'], elem), keys_t, s, mb, nb, n['depth'], strides['q']['row'], f.const(1),
                       f.const(width), n['depth'] * width, f.const(KEYS), f.const(0))
                row_out = element(f, out, i * n['width'], elem)
                extra = element(f, base['bias'], i * strides['bias']['row'] + j, elem) if has_bias else s
                invoke(f, 'weigh', s, element(f, m, mine, elem), element(f, l, mine, elem), row_out, extra, mb, nb,
                       strides['bias']['row'] if has_bias else f.const(0), i, j, n['width'], scale)
                invoke(f, 'product', s, element(f, base['v'], j * strides['v']['row'], elem), row_out, mb, n['width'], nb, f.const(KEYS), f.const(1),
                       strides['v']['row'], f.const(width), n['width'], f.const(1))
        lse = element(f, p['lse'], pair * n['rows'], elem)
        with f.loop(first_row, last_row) as i:
            total = f.load(element(f, l, i - first_row, elem), elem)
            nothing = total.eq(0.0)
            invoke(f, 'scale_row', element(f, out, i * n['width'], elem), n['width'], f.select(nothing, 0.0, 1.0 / total))
            f.store(f.select(nothing, math.inf, f.load(element(f, m, i - first_row, elem), elem) + mathlib.log(f, total)), element(f, lse, i, elem))
    product_function(module, dtype)
    pack_function(module, dtype)
    fill_function(module, dtype)
    scale_function(module, dtype)
    weigh_function(module, dtype, has_bias, causal)
    return module.text()


# ------------------------------------------------------------------------------------------------------------- backward
def recall_function(module, dtype, has_bias, causal):
    """Scores become weights again: exp(score - logarithm of the row's sum)."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'recall', [('ptr', 's'), ('ptr', 'lse'), ('ptr', 'bias'), ('i64', 'mb'), ('i64', 'nb'), ('i64', 'bias_row'), ('i64', 'row'),
                                    ('i64', 'first'), (elem, 'scale')])
    s, lse, bias, mb, nb, bias_row, row, first, scale = f.args
    whole = nb & -lanes
    with f.loop(f.const(0), mb) as i:
        line, extra = element(f, s, i * KEYS, elem), element(f, bias, i * bias_row, elem) if has_bias else None
        base = f.splat(f.load(element(f, lse, i, elem), elem), lanes)

        def weight(c, partial):
            x = scores(f, elem, lanes, line, extra, c, nb, scale, row + i, first, has_bias, causal, partial)    # noqa: B023
            f.store(exp_below(f, x - base), element(f, line, c, elem))                                          # noqa: B023
        with f.loop(f.const(0), whole, lanes) as c:
            weight(c, False)
        with f.when(whole < nb):
            weight(whole, True)


def slope_function(module, dtype):
    """ds = weight * (ds - delta) * scale."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'slope', [('ptr', 's'), ('ptr', 'ds'), ('ptr', 'delta'), ('i64', 'mb'), ('i64', 'nb'), (elem, 'scale')])
    s, ds, delta, mb, nb, scale = f.args
    by = f.splat(scale, lanes)
    with f.loop(f.const(0), mb) as i:
        base = f.splat(f.load(element(f, delta, i, elem), elem), lanes)
        line, target = element(f, s, i * KEYS, elem), element(f, ds, i * KEYS, elem)
        with f.loop(f.const(0), nb, lanes) as c:
            at = element(f, target, c, elem)
            f.store(f.load(element(f, line, c, elem), elem, lanes) * (f.load(at, elem, lanes) - base) * by, at)


def delta_function(module, dtype):
    """The sum over a row of gradient times result."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'row_dot', [('ptr', 'a'), ('ptr', 'b'), ('ptr', 'to'), ('i64', 'count')])
    a, b, to, count = f.args
    total = Var(f, f.const(0, elem, lanes))
    whole = count & -lanes
    with f.loop(f.const(0), whole, lanes) as i:
        total.set(f.fma(f.load(element(f, a, i, elem), elem, lanes), f.load(element(f, b, i, elem), elem, lanes), total.get()))
    with f.when(whole < count):
        mask = lane_mask(f, count - whole, lanes)
        x, y = (f.load(element(f, v, whole, elem), elem, lanes, mask) for v in (a, b))
        total.set(f.select(mask, f.fma(x, y, total.get()), total.get()))
    f.store(folded(f, total.get(), lambda x, y: x + y), to)


def backward_text(dtype, has_bias, causal):
    """The module with the kernel `attention_backward`. Pointers: dq, dk, dv, do, q, k, v, o, lse, scale, bias. A unit is one batch and head."""
    elem, _, _ = ELEMENT[dtype]
    width = tile_of(dtype).width
    module = Module()
    f = Kernel(module, 'attention_backward')
    n = named(f, BACKWARD_INTS)
    strides, at = {}, len(BACKWARD_INTS)
    for name in ('do', 'q', 'k', 'v', *(['bias'] if has_bias else [])):
        strides[name] = named(f, STRIDES, at)
        at += len(STRIDES)
    names = ('dq', 'dk', 'dv', 'do', 'q', 'k', 'v', 'o', 'lse', 'scale', 'bias')
    p = dict(zip(names, [f.p(i) for i in range(11 if has_bias else 10)]))
    scale = f.load(p['scale'], elem)
    keys_t = f.scratch
    values_t = element(f, keys_t, n['depth'] * KEYS, elem)
    s = element(f, values_t, n['width'] * KEYS, elem)
    ds = element(f, s, QUERIES * KEYS, elem)
    delta = element(f, ds, QUERIES * KEYS, elem)
    one, block = f.const(1), f.const(KEYS)
    with f.loop(f.lo, f.hi) as pair:
        head, batch = pair % n['heads'], pair // n['heads']
        base = {name: element(f, p[name], place(n, strides[name], batch, head), elem) for name in strides}
        row = {name: strides[name]['row'] for name in strides}
        dq = element(f, p['dq'], pair * n['rows'] * n['depth'], elem)
        dk = element(f, p['dk'], pair * n['keys'] * n['depth'], elem)
        dv = element(f, p['dv'], pair * n['keys'] * n['width'], elem)
        o, lse = element(f, p['o'], pair * n['rows'] * n['width'], elem), element(f, p['lse'], pair * n['rows'], elem)
        for to, size in ((dq, n['rows'] * n['depth']), (dk, n['keys'] * n['depth']), (dv, n['keys'] * n['width'])):
            invoke(f, 'fill', to, size, f.const(0, elem))
        with f.loop(f.const(0), n['rows']) as i:
            invoke(f, 'row_dot', element(f, base['do'], i * row['do'], elem), element(f, o, i * n['width'], elem), element(f, delta, i, elem), n['width'])
        with f.loop(f.const(0), n['keys'], KEYS) as j:
            nb = f.min(n['keys'] - j, block)
            k_at, v_at = element(f, base['k'], j * row['k'], elem), element(f, base['v'], j * row['v'], elem)
            dk_at, dv_at = element(f, dk, j * n['depth'], elem), element(f, dv, j * n['width'], elem)
            invoke(f, 'pack_block', k_at, keys_t, n['depth'], nb, row['k'])
            invoke(f, 'pack_block', v_at, values_t, n['width'], nb, row['v'])
            start = j // QUERIES * QUERIES if causal else f.const(0)
            with f.loop(start, n['rows'], QUERIES) as i:
                mb = f.min(n['rows'] - i, f.const(QUERIES))
                q_at, do_at = element(f, base['q'], i * row['q'], elem), element(f, base['do'], i * row['do'], elem)
                invoke(f, 'product', q_at, keys_t, s, mb, nb, n['depth'], row['q'], one, f.const(width), n['depth'] * width, block, f.const(0))
                extra = element(f, base['bias'], i * row['bias'] + j, elem) if has_bias else s
                invoke(f, 'recall', s, element(f, lse, i, elem), extra, mb, nb, row['bias'] if has_bias else f.const(0), i, j, scale)
                invoke(f, 'product', s, do_at, dv_at, nb, n['width'], mb, one, block, row['do'], f.const(width), n['width'], one)
                invoke(f, 'product', do_at, values_t, ds, mb, nb, n['width'], row['do'], one, f.const(width), n['width'] * width, block, f.const(0))
                invoke(f, 'slope', s, ds, element(f, delta, i, elem), mb, nb, scale)
                invoke(f, 'product', ds, k_at, element(f, dq, i * n['depth'], elem), mb, n['depth'], nb, block, one, row['k'], f.const(width), n['depth'], one)
                invoke(f, 'product', ds, q_at, dk_at, nb, n['depth'], mb, one, block, row['q'], f.const(width), n['depth'], one)
    product_function(module, dtype)
    pack_function(module, dtype)
    fill_function(module, dtype)
    recall_function(module, dtype, has_bias, causal)
    slope_function(module, dtype)
    delta_function(module, dtype)
    return module.text()


TEXT = {'attention_forward': forward_text, 'attention_backward': backward_text}
