"""Scheduling: which axis is vectorised, which axes become one, what happens in which pass over a row, how the work is cut.

None of it changes a bit: axes are merged only where every access says they are one, and the cut is a function of the shape.
"""
from .evaluate import Indirect, MustStore
from .graph import itemsize
from .loops import BLOCK, DEAR, REDUCTIONS, ROWS, Pass, closure, is_one, is_zero
from .symbolic import hint, known_equal, product

CHUNK = 16384         # elements a thread takes at a time, about
COLUMNS = 4096        # columns of one work unit of a kernel that only accumulates columns
# rows of a tile, and the width of its vectors: more lines would meet in one set of the cache when strides are powers of two
TILE = 8
SHORT = 4             # elements of a row that is not worth being one


def schedule(k, fusion):
    is_map = k.form == 'nest' and not k.inner_axes
    if is_map: order_map(k)
    merge_axes(k, fusion)
    k.tiled = is_map and tile_map(k)
    plan_passes(k)
    keep_dear(k)
    k.overlapped = overlapped(k)
    cut(k, fusion.program)


# ------------------------------------------------------------------------------------------------------------- axes
def accesses(k, exprs=None):
    """The coefficient of each axis in everything the kernel touches: dicts, changed in place when axes merge."""
    out, seen = [], set()
    for e in closure(k.roots()) if exprs is None else exprs:
        d = e.attrs['strides'] if e.op in ('load', 'combine') else e.attrs['affine'].terms if e.op == 'index' else None
        if d is not None and id(d) not in seen: seen.add(id(d)); out.append(d)
    if exprs is None: out += [s.strides for s in k.stores + k.columns]
    return out


def order_map(k):
    """A pure map may run its axes in any order: that of the first result's memory, so the innermost is dense there."""
    strides = k.stores[0].strides
    k.outer.sort(key=lambda a: -hint(strides.get(a, 0)))
    # Rows of a fixed few elements have no vectors in them: the next axis has, where everything read is dense along it (pixel_shuffle).
    if len(k.outer) > 1 and isinstance(k.sizes[k.outer[-1]], int) and k.sizes[k.outer[-1]] <= SHORT and not isinstance(k.sizes[k.outer[-2]], int):
        loads = [e.attrs['strides'] for e in closure(k.roots()) if e.op == 'load']
        if loads and all(is_one(s.get(k.outer[-2], 0)) for s in loads): k.outer[-2:] = k.outer[:-3:-1]
    if k.outer: k.inner_axes, k.outer = [k.outer[-1]], k.outer[:-1]


def tile_map(k):
    """A value that is dense along another axis than the inner one (a transposed operand) is read in tiles: some rows at a time along that
    axis, so that a cache line is used up before it leaves. True when the kernel should."""
    if k.inner is None: return False
    for e in closure(k.roots()):
        if e.op != 'load' or e.args: continue
        strides = e.attrs['strides']
        dense = [a for a in k.outer if is_one(strides.get(a, 0))]
        if dense and k.inner in strides and not is_one(strides[k.inner]):
            k.outer.remove(dense[0])
            k.outer.append(dense[0])
            return True
    return False


def mergeable(k, touched, a, b):
    """Is axis a, just outside b, the continuation of b in every access? (Where a loop over their group runs never, every axis is; an empty
    reduction still has its rows.)"""
    groups = [g for g in (k.outer, k.inner_axes, k.rows) if a in g or b in g] or [[a, b]]
    if any(is_zero(k.sizes[x]) for g in groups for x in g): return True
    return all(known_equal(d.get(a, 0), k.sizes[b] * d.get(b, 0)) for d in touched)


def merge(k, touched, a, b):
    for d in touched:
        if d.pop(a, None) is not None: d.setdefault(b, 0)          # only a loop that runs never has no step along b here
    k.sizes[b] = k.sizes[a] * k.sizes[b]
    for e in k.builder.exprs.values():
        if a in e.axes: e.axes = (e.axes - {a}) | {b}


def merge_list(k, touched, axes):
    """Merge neighbours of a list (outermost first), in place."""
    i = len(axes) - 2
    while i >= 0:
        if mergeable(k, touched, axes[i], axes[i + 1]): merge(k, touched, axes[i], axes[i + 1]); del axes[i]
        i -= 1


def merge_axes(k, fusion):
    touched = accesses(k)
    # Accesses through variables that are no longer needed by any effect still constrain nothing: closure() sees only live ones.
    merge_list(k, touched, k.inner_axes)
    if k.form == 'nest' and not k.rows and k.inner_axes and not any(e.op in REDUCTIONS for e in closure(k.roots())):
        while k.outer and mergeable(k, touched, k.outer[-1], k.inner_axes[0]) and len(k.inner_axes) == 1:
            merge(k, touched, k.outer.pop(), k.inner_axes[0])
    merge_list(k, touched, k.outer)
    merge_list(k, touched, k.rows)
    if len(k.inner_axes) > 1:
        if k.columns and not any(e.op in REDUCTIONS for e in closure(k.roots())) and not k.stores:
            k.outer, k.inner_axes = k.outer + k.inner_axes[:-1], k.inner_axes[-1:]
        else: cannot_merge(k)
    k.inner = k.inner_axes[0] if k.inner_axes else None


def cannot_merge(k):
    """The row dimensions are not one run of memory for something in this kernel. A reduction runs over its logical index, so its operand
    must be laid out so; failing that, whoever is in the way leaves the kernel."""
    why = 'its dimensions are not one dense run for everything behind the reduction'
    reduces = [e for e in closure(k.roots()) if e.op in REDUCTIONS]
    for e in reduces:
        axes = list(k.inner_axes)
        touched = accesses(k, closure([e]))
        if not all(mergeable(k, touched, a, b) for a, b in zip(axes, axes[1:])):
            raise MustStore(e.attrs['node'].args[0], why)
    for s in k.stores:
        axes = list(k.inner_axes)
        dense = all(known_equal(s.strides.get(a, 0), k.sizes[b] * s.strides.get(b, 0)) for a, b in zip(axes, axes[1:]))
        if not dense and any(a in s.strides for a in axes):
            raise Indirect(s.node, 'the rows of the result are not dense in memory')
    if reduces: raise MustStore(reduces[0].attrs['node'], 'other values of this kernel do not run densely along its rows')
    raise AssertionError(f'no single inner axis: {k}')


# ------------------------------------------------------------------------------------------------------------ passes
def varies(k, e): return k.inner is not None and k.inner in e.axes


def plan_passes(k):
    """The pass of an effect is the number of row reductions that must be complete before it."""
    exprs = closure(k.roots())
    depth = {}
    for e in exprs: depth[e] = max((depth[a] for a in e.args), default=0) + (e.op in REDUCTIONS)
    k.depth = depth
    k.passes = [Pass() for _ in range(1 + max(depth.values(), default=0))]
    for e in exprs:
        if e.op in REDUCTIONS: k.passes[depth[e] - 1].reduces.append(e)
    for s in k.stores:
        if varies(k, s.expr) or k.inner in s.strides: k.passes[depth[s.expr]].stores.append(s)
        else: k.row_stores.append(s)
    for s in k.columns: k.passes[depth[s.expr]].columns.append(s)
    while len(k.passes) > 1 and not (k.passes[-1].reduces or k.passes[-1].stores or k.passes[-1].columns): k.passes.pop()


def keep_dear(k):
    """A dear value evaluated in an earlier pass over the same row is kept instead of evaluated again: in a scratch row, or in the row of
    a result that is written late enough to lend its place."""
    if len(k.passes) < 2: return
    first = {}
    hosts = [s for s in k.stores if s.memory.place[0] == 'buffer' and is_one(s.strides.get(k.inner)) and not s.expr.op == 'load']
    for i, p in enumerate(k.passes):
        available = {e for e in first if first[e] < i}
        for e in closure(p.operands(), stop=available):
            if e in available: p.reuse[e] = None
            elif e.op in DEAR and varies(k, e) and k.depth[e] <= i: first.setdefault(e, i)
    place = {}
    for e in sorted({e for p in k.passes for e in p.reuse}, key=lambda e: e.number):
        last = max(i for i, p in enumerate(k.passes) if e in p.reuse)
        host = next((s for s in hosts if s.expr.dtype == e.dtype and k.depth[s.expr] >= last), None)
        if host is not None: hosts.remove(host); place[e] = host
        else: place[e] = len(k.scratch); k.scratch.append(e.dtype)
    for p in k.passes: p.reuse = {e: place[e] for e in p.reuse}
    for e, where in place.items(): k.passes[first[e]].keep[e] = where


def overlapped(k):
    """Should the last pass over a row, which writes a result, go together with the first pass over the next row, which reduces what it reads? One after the other, the first
    waits for memory that the last leaves idle."""
    if k.form != 'nest' or k.inner is None or k.rows or k.columns or not k.outer or len(k.passes) < 2: return False
    first, last = k.passes[0], k.passes[-1]
    return bool(first.reduces and last.stores) and not (first.stores or first.keep or last.reduces or last.keep)


# ------------------------------------------------------------------------------------------------------------- work units
def cut(k, program):
    """units, grain (units a thread takes at a time), cost (bytes), scratch (bytes a thread)."""
    row = k.sizes[k.inner] if k.inner is not None else 1
    outer = product(k.sizes[a] for a in k.outer)
    weight = k.bytes_per_element()
    rows = product(k.sizes[a] for a in k.rows)
    k.cost = outer * rows * row * weight
    k.scratch_bytes = sum(((row * itemsize(d) + 127) for d in k.scratch), 0) if k.scratch else None
    if k.form == 'flat':
        k.units, k.grain = program.max(1, program.ceildiv(row, BLOCK)), 4
        return
    k.linear = False
    if k.tiled:
        k.units, k.grain = outer, program.max(TILE, program.floordiv(CHUNK * 4, row))
        return
    k.linear = not k.outer and not k.rows and k.inner is not None and not any(p.reduces for p in k.passes) and not k.row_stores
    if k.linear: k.units, k.grain = row, CHUNK
    elif k.rows:
        # A kernel that only accumulates columns may cut them too: few long rows still make enough units.
        k.blocks, k.pieces = k.columns[0].count, None
        if len(k.passes) == 1 and not (k.row_stores or k.passes[0].reduces or k.passes[0].stores): k.pieces = program.ceildiv(row, COLUMNS)
        k.units = outer * k.blocks * (1 if k.pieces is None else k.pieces)
        k.grain = program.max(1, program.floordiv(CHUNK // ROWS, row))
    else:
        k.units, k.grain = outer, program.max(1, program.floordiv(CHUNK, row))
        if k.overlapped: k.grain = program.max(k.grain, program.min(4, program.floordiv(outer, 16)))     # there must be a next row
