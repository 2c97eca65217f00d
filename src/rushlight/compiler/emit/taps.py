"""Where the largest element of each window is (`fold` of kind argmax) when windows are long: vectors run along the window's rows, not across windows.

    for o in results:
        for each row of o's window:
            for t in its taps, 8 at a time:   the best of each lane, and its place
        the best lane

Windows lie apart in memory, so a vector across them is gathered one lane after another, and few windows do not fill it; the taps of one row are neighbours. An
argmax has the same answer in any order: of equal lanes the one whose place comes first, of NaN the last. (A sum has not: it stays in order, across windows.)
"""
from contextlib import ExitStack

from .. import schedule
from ..loops import closure, is_one
from ..symbolic import hint, product
from . import reduce, values
from .ir import Var
from .llvm import MASKABLE, At, Evaluator, Row

LANES = 8
LONG = 8                 # taps of a window's row that are worth it: a vector of them


def along_taps(k, program):
    """Should this kernel run so? The two cases are two recipes, told apart by a guard."""
    if k.form != 'nest' or k.rows or k.columns or k.partials or k.tiled or len(k.passes) != 1 or k.passes[0].reduces: return False
    exprs = closure(k.roots())
    folds = [e for e in exprs if e.op == 'fold']
    if not folds or any(e.op == 'combine' for e in exprs) or not all(dense_taps(k, e) for e in folds): return False
    long = program.le(LONG, k.sizes[folds[0].attrs['along'][-1]])
    for e in folds[1:]: long = program.logical_and(long, program.le(LONG, k.sizes[e.attrs['along'][-1]]))
    truth = bool(hint(long))
    program.guard(long if truth else program.logical_not(long))
    return truth


def dense_taps(k, fold):
    """Are the taps of a window's row neighbours in memory, and those of neighbouring windows not?"""
    last, behind = fold.attrs['along'][-1], closure(fold.args)
    if fold.attrs['kind'] != 'argmax' or any(e.op == 'fold' for e in behind): return False
    for e in behind:
        if e.op != 'load' or last not in e.axes: continue
        computed = e.args[:len(e.attrs['dynamic'])]
        if any(last in a.axes for a in computed) or not is_one(e.attrs['strides'].get(last, 0)): return False
        if values.MEMORY[e.dtype] not in MASKABLE or e.dtype in values.PAIR: return False
        if is_one(e.attrs['strides'].get(k.inner, 0)) and not any(k.inner in a.axes for a in computed): return False
    return True


class TapEmitter(Evaluator):
    def __init__(self, kernel, program):
        super().__init__(program, None, closure(kernel.roots()))
        self.kernel, self.sizes = kernel, kernel.sizes
        self.hoist()
        f, column = self.f, kernel.inner
        columns = kernel.sizes[column] if column is not None else 1
        taps = product(self.sizes[a] for e in self.exprs if e.op == 'fold' for a in e.attrs['along'])
        self.units = product(self.sizes[a] for a in kernel.outer)
        self.grain = program.max(1, program.floordiv(schedule.CHUNK, program.max(1, columns * taps)))
        self.cost = kernel.cost * taps
        with f.loop(self.lo, self.hi) as unit:
            index = self.split(kernel.outer, unit)
            with f.loop(f.const(0), self.n(columns)) as c: self.result({**index, column: c})

    def result(self, index):
        row, at = Row(self, index), At(None, 1)
        found = [(s, row.value(s.expr)) for s in self.kernel.stores]
        for s, v in found: self.put(row, s, v, at)

    def fold(self, row, e, at):
        f, arg, along = self.f, e.args[0], e.attrs['along']
        best = Var(f, reduce.identities(f, 'amax', arg.dtype, LANES)[0])
        place = Var(f, f.const(0, 'i32', LANES))
        count = self.n(self.sizes[along[-1]])
        whole = count & -LANES
        with ExitStack() as loops:
            inside, _ = self.fold_loops(loops, row, arg, at, along, len(along) - 1)
            self.inner = along[-1]
            inside.prepare([arg], {LANES})
            number = f.const(0)
            for a, b in zip(along, along[1:]): number = (number + inside.index[a]) * self.n(self.sizes[b])

            def step(t, mask):
                v, old = inside.spread(arg, At(t, LANES, mask)), best.get()
                take = v > old
                if v.is_float: take = take | v.ne(v)
                if mask is not None: take = take & mask
                best.set(f.select(take, v, old))
                place.set(f.select(take, f.splat(f.convert('trunc', number + t, 'i32'), LANES) + f.lanes(LANES), place.get()))
            with f.loop(f.const(0), whole, LANES) as t: step(t, None)
            with f.when(whole < count): step(whole, f.lanes(LANES) < f.splat(f.convert('trunc', count - whole, 'i32'), LANES))
        self.inner = None
        return f.convert('sext', self.best_lane(best.get(), place.get()), 'i64')

    def best_lane(self, v, place):
        f, width = self.f, LANES
        while width > 1:
            width //= 2
            (v, w), (place, other) = ((f.shuffle(x, list(range(width))), f.shuffle(x, list(range(width, 2 * width)))) for x in (v, place))
            take = (w > v) | (w.eq(v) & (other < place))
            if v.is_float: take = take | (w.ne(w) & (v.eq(v) | (other > place)))
            v, place = f.select(take, w, v), f.select(take, other, place)
        return place
