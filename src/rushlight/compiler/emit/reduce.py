"""Accumulators: how a reduction runs along a row, with one order for every width and every cut (contract, section 8).

Element i of a block goes to lane i mod 32; lanes are folded by halving; blocks are combined pairwise, in order, by a binary counter.
A value is a tuple of parts here: one, or two for complex numbers. Booleans accumulate as bytes.
"""
import math

from . import values
from .ir import Var

LANES = 32
FLOAT_ELEMS = ('float', 'double')


def _add(f, a, b): return tuple(x + y for x, y in zip(a, b))


def _mul(f, a, b):
    if len(a) == 1: return (a[0] * b[0],)
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _extreme(better):
    """A NaN on either side wins, as torch's amax and amin; integers have none."""
    def combine(f, a, b):
        (x,), (y,) = a, b
        best = f.select(better(y, x), y, x)
        return (f.select(y.ne(y), y, best) if x.elem in FLOAT_ELEMS else best,)      # two selections: to join two masks of a vector costs ten times as much
    return combine


def _extreme_apart(better):
    """The same for a running accumulator of floats, with NaN kept apart: (best of the numbers, the last NaN or 0). A step is then one
    max instruction, and its latency, not the comparison of NaN's, is what the loop waits for."""
    def combine(f, a, b):
        if len(a) == 1: return (f.select(better(b[0], a[0]), b[0], a[0]),)
        return f.select(better(b[0], a[0]), b[0], a[0]), f.select(b[1].ne(b[1]), b[1], a[1])
    return combine


def _log_add_exp(f, a, b):
    """Running log of a sum of exponentials. Real: a is (largest m, sum of exp(x - m)), b the next x: one exponential a step, one logarithm at the end. Equal
    infinities differ by nothing. Complex: a is the logarithm itself, since its imaginary part counts the turns."""
    from .. import mathlib
    if len(b) == 1:
        (m, s), (x,) = a, b
        e = mathlib.exp(f, f.select(x.eq(m), 0.0, -f.call('fabs', m - x)))
        above = x > m
        return f.select(above, x, m), f.select(above, f.fma(s, e, 1.0), s + e)
    above = b[0] > a[0]
    high = [f.select(above, y, x) for x, y in zip(a, b)]
    low = [f.select(above, x, y) for x, y in zip(a, b)]
    size = mathlib.exp(f, f.select(low[0].eq(high[0]), 0.0, low[0] - high[0]))
    size = f.select(low[0].eq(-math.inf), 0.0, size)
    turn = f.select(low[0].eq(-math.inf), 0.0, low[1] - high[1])
    re, im = size * mathlib.cos(f, turn), size * mathlib.sin(f, turn)
    # log |1 + z| as half the log1p of 2 re + |z|^2, which is small where z is
    real = mathlib.log1p(f, f.fma(re, re + 2.0, im * im)) * 0.5
    return high[0] + real, high[1] + mathlib.atan2(f, im, re + 1.0)


COMBINE = {
    'logaddexp': _log_add_exp,
    'sum': _add, 'prod': _mul, 'xor': lambda f, a, b: (a[0] ^ b[0],), 'any': lambda f, a, b: (a[0] | b[0],), 'all': lambda f, a, b: (a[0] & b[0],),
    'amax': _extreme_apart(lambda a, b: a > b), 'amin': _extreme_apart(lambda a, b: a < b),
    'max': _extreme(lambda a, b: a > b), 'min': _extreme(lambda a, b: a < b),
}


def accumulator_dtype(dtype): return 'u8' if dtype == 'b1' else {'f16': 'f32', 'bf16': 'f32'}.get(dtype, dtype)


def identity(kind, dtype):
    dtype = accumulator_dtype(dtype)
    if kind in ('sum', 'any', 'xor', 'linear'): return 0
    if kind in ('prod', 'all'): return 1
    if kind == 'logaddexp': return -math.inf
    low = kind in ('amax', 'max', 'argmax')
    if dtype in values.FLOATS: return -math.inf if low else math.inf
    bits = int(dtype[1:])
    if dtype[0] == 'u': return 0 if low else (1 << bits) - 1
    return -(1 << (bits - 1)) if low else (1 << (bits - 1)) - 1


def parts(v): return v if isinstance(v, tuple) else (v,)
def whole(vs): return vs if len(vs) > 1 else vs[0]


def apart(kind, dtype): return kind in ('amax', 'amin') and dtype in values.FLOATS


def enter(f, v, dtype, kind=None):
    """A value as an accumulator of this kind holds it."""
    if apart(kind, dtype): return v, v
    if dtype == 'b1': return (f.convert('zext', v, 'u8'),)
    return parts(v)


def leave(f, vs, dtype, kind=None):
    if apart(kind, dtype): return f.select(vs[1].ne(vs[1]), vs[1], vs[0])
    if kind == 'logaddexp' and dtype not in values.PAIR:
        from .. import mathlib
        return vs[0] + mathlib.log(f, vs[1])
    if dtype == 'b1': return vs[0].ne(0)
    return whole(vs)


def identities(f, kind, dtype, width):
    start = parts(values.constant(f, identity(kind, dtype), accumulator_dtype(dtype), width))
    second = apart(kind, dtype) or kind == 'logaddexp' and dtype not in values.PAIR
    return (*start, f.const(0.0, start[0].elem, width)) if second else start


def fold(f, combine, vs):
    """Lanes by halving."""
    while vs[0].width > 1:
        h = vs[0].width // 2
        vs = combine(f, tuple(f.shuffle(v, range(h)) for v in vs), tuple(f.shuffle(v, range(h, 2 * h)) for v in vs))
    return vs


def fold_copies(f, combine, copies):
    """Vectors that are 32 lanes together, by halving."""
    while len(copies) > 1:
        h = len(copies) // 2
        copies = [combine(f, a, b) for a, b in zip(copies[:h], copies[h:])]
    return fold(f, combine, copies[0])


class Room:
    """Memory for `count` values, each of them parts of the types and widths of `like`."""

    def __init__(self, f, count, like):
        self.f, self.like = f, like
        self.places = [f.array(v.elem, count, v.width) for v in like]

    def _at(self, place, number, v): return self.f.at(place, number if v.width == 1 else number * v.width, v.elem)
    def read(self, number): return tuple(self.f.load(self._at(p, number, v), v.elem, v.width) for p, v in zip(self.places, self.like))
    def write(self, number, vs, plain=False):
        """plain: vectors as they are, where LLVM would make a masked store of a chosen value that may be what is there already: slow, and slow to read again."""
        for p, v in zip(self.places, vs): self.f.store(v, self._at(p, number, v), volatile=plain)


class Blocks:
    """The results of blocks, combined pairwise and in order by a binary counter. A result may be a vector: that of one block of each of many rows."""

    def __init__(self, f, combine, room):
        self.f, self.combine, self.room = f, combine, room                      # room: for 64 results
        self.count, self.depth = Var(f, f.const(0)), Var(f, f.const(0))

    def clear(self): self.count.set(self.f.const(0)); self.depth.set(self.f.const(0))

    def push(self, vs):
        """Add a block's result: two results of equal rank become one of the next."""
        f = self.f
        carry, left = [Var(f, v) for v in vs], Var(f, self.count.get())
        with f.loop_while(lambda: (left.get() & 1).ne(0)):
            self.depth.set(self.depth.get() - 1)
            for var, v in zip(carry, self.combine(f, self.room.read(self.depth.get()), tuple(c.get() for c in carry))): var.set(v)
            left.set(left.get() >> 1)
        self.room.write(self.depth.get(), [c.get() for c in carry])
        self.depth.set(self.depth.get() + 1)
        self.count.set(self.count.get() + 1)

    def result(self, nothing):
        """What is left, combined from the latest back; `nothing` if no block was pushed."""
        f, out = self.f, [Var(self.f, v) for v in nothing]
        with f.when(self.depth.get() > 0):
            at = Var(f, self.depth.get() - 1)
            for var, v in zip(out, self.room.read(at.get())): var.set(v)
            with f.loop_while(lambda: at.get() > 0):
                at.set(at.get() - 1)
                for var, v in zip(out, self.combine(f, self.room.read(at.get()), tuple(o.get() for o in out))): var.set(v)
        return tuple(o.get() for o in out)


class RowAccumulator:
    """One reduction along a row: reset per block, step by step, then a scalar; block results through a binary counter."""

    def __init__(self, f, kind, dtype, width, blocked, one_block=None):
        """blocked: rows may be longer than a block. one_block: an i1 that is true when they are not, which most rows are."""
        self.f, self.kind, self.dtype, self.width, self.blocked, self.one_block = f, kind, dtype, width, blocked, one_block
        self.combine = COMBINE[kind]
        self.copies = LANES // width
        start = identities(f, kind, dtype, width)
        self.acc = [tuple(Var(f, v) for v in start) for _ in range(self.copies)]
        self.memory = [f.array(v.elem, LANES) for v in start]
        if blocked:
            one = identities(f, kind, dtype, 1)
            self.blocks = Blocks(f, self.combine, Room(f, 64, one))
            self.only = [Var(f, v) for v in one]

    @staticmethod
    def of_lanes(f, kind, dtype, v, mask):
        """The reduction of one vector, without an accumulator."""
        empty = identities(f, kind, dtype, mask.width)
        entered = tuple(f.select(mask, x, i) for x, i in zip(enter(f, v, dtype, kind), empty))
        return leave(f, fold(f, COMBINE[kind], COMBINE[kind](f, empty, entered)), dtype, kind)

    def reset(self):
        for copy in self.acc:
            for var, v in zip(copy, identities(self.f, self.kind, self.dtype, self.width)): var.set(v)

    def start_row(self):
        if not self.blocked: return
        self.blocks.clear()
        for var, v in zip(self.only, identities(self.f, self.kind, self.dtype, 1)): var.set(v)

    def step(self, copy, v, mask=None):
        f, vars_ = self.f, self.acc[copy]
        v = enter(f, v, self.dtype, self.kind)
        if mask is not None: v = tuple(f.select(mask, x, i) for x, i in zip(v, identities(f, self.kind, self.dtype, self.width)))
        for var, x in zip(vars_, self.combine(f, tuple(a.get() for a in vars_), v)): var.set(x)

    # -- the tail: the lanes go through memory, so that element i still meets lane i mod 32
    def open_tail(self):
        for c, copy in enumerate(self.acc):
            for mem, var in zip(self.memory, copy): self.f.store(var.get(), self.f.at(mem, self.f.const(c * self.width), var.elem))
    def tail_step(self, lane, v, mask):
        f = self.f
        v = enter(f, v, self.dtype, self.kind)
        width = v[0].width
        if mask is not None: v = tuple(f.select(mask, x, i) for x, i in zip(v, identities(f, self.kind, self.dtype, width)))
        where = [f.at(mem, lane, x.elem) for mem, x in zip(self.memory, v)]
        old = tuple(f.load(p, x.elem, width) for p, x in zip(where, v))
        for p, x in zip(where, self.combine(f, old, v)): f.store(x, p)
    def close_tail(self):
        for c, copy in enumerate(self.acc):
            for mem, var in zip(self.memory, copy):
                var.set(self.f.load(self.f.at(mem, self.f.const(c * self.width), var.elem), var.elem, self.width))

    def block_result(self): return fold_copies(self.f, self.combine, [tuple(v.get() for v in copy) for copy in self.acc])

    def end_block(self, start):
        vs = self.block_result()
        def keep():
            for var, v in zip(self.only, vs): var.set(v)
        self.f.branch(self.one_block, keep, lambda: self.blocks.push(vs))

    def result(self):
        vs = self.blocks.result([o.get() for o in self.only]) if self.blocked else self.block_result()
        return leave(self.f, vs, self.dtype, self.kind)


def as_key(f, x, above):
    """A float as an integer of the same order: zeros are equal, NaN is above all numbers or below. For comparisons one by one that wait for each other: floats' go through
    mask registers where there are such, which takes four times as long."""
    elem, top = ('i32', 31) if x.elem == 'float' else ('i64', 63)
    bits = f.bitcast(x + 0.0, elem)
    return f.select(x.ne(x), f.const((1 << top) - 1 if above else -(1 << top), elem, x.width), bits ^ ((bits >> top) & ((1 << top) - 1)))


def beats(kind, x, y):
    """Is x better than y, by argmax or argmin: NaN beats every number."""
    out = x > y if kind == 'argmax' else x < y
    return out | (x.ne(x) & y.eq(y)) if x.elem in FLOAT_ELEMS else out


def precedes(kind, x, y, tie):
    """x before y; equal values (and two NaN) go by `tie`."""
    same = x.eq(y)
    if x.elem in FLOAT_ELEMS: same = same | (x.ne(x) & y.ne(y))
    return beats(kind, x, y) | (same & tie)


class ArgAccumulator:
    """argmax, argmin: (value, index) pairs ordered lexicographically, NaN first of all, so any tree gives the same answer."""
    NONE = 0x7fffffff

    def __init__(self, f, kind, dtype, width, blocked, one_block=None):
        if dtype in values.PAIR: raise NotImplementedError(f'{kind} of complex numbers')
        self.f, self.kind, self.dtype, self.width = f, kind, accumulator_dtype(dtype), width
        self.source = dtype
        self.copies = LANES // width
        elem = values.register(self.dtype)
        empty = f.const(identity(kind, dtype), elem, width)
        self.acc = [(Var(f, empty), Var(f, f.const(self.NONE, 'i32', width))) for _ in range(self.copies)]
        self.memory = f.array(elem, LANES), f.array('i32', LANES)
        self.best, self.at = Var(f, f.const(identity(kind, dtype), elem)), Var(f, f.const(-1))

    @staticmethod
    def of_lanes(f, kind, dtype, v, mask):
        """The place of the best of one vector, without an accumulator."""
        v = f.select(mask, enter(f, v, dtype)[0], identity(kind, dtype))
        index = f.select(mask, f.lanes(mask.width), ArgAccumulator.NONE)
        return f.convert('zext', fold(f, ArgAccumulator.earlier(kind), (v, index))[1], 'i64')

    @staticmethod
    def earlier(kind):
        """Of two (value, index) pairs the better, or the earlier of two as good."""
        def combine(f, a, b):
            take = precedes(kind, b[0], a[0], b[1].ult(a[1]))
            return f.select(take, b[0], a[0]), f.select(take, b[1], a[1])
        return combine

    def better(self, x, y, tie): return precedes(self.kind, x, y, tie)

    def reset(self):
        f = self.f
        for value, index in self.acc:
            value.set(f.const(identity(self.kind, self.source), value.elem, self.width))
            index.set(f.const(self.NONE, 'i32', self.width))
    def start_row(self): self.at.set(self.f.const(-1))
    def step(self, copy, v, index, mask=None):
        """index: i32 within the block, ascending."""
        f, (value, at) = self.f, self.acc[copy]
        v = enter(f, v, self.source)[0]
        take = self.better(v, value.get(), at.get().eq(self.NONE))
        if mask is not None: take = take & mask
        value.set(f.select(take, v, value.get())); at.set(f.select(take, index, at.get()))
    def open_tail(self):
        f = self.f
        for c, pair in enumerate(self.acc):
            for mem, var in zip(self.memory, pair): f.store(var.get(), f.at(mem, f.const(c * self.width), var.elem))
    def tail_step(self, lane, v, mask, index):
        f = self.f
        v = enter(f, v, self.source)[0]
        pv, pi = (f.at(mem, lane, e) for mem, e in zip(self.memory, (v.elem, 'i32')))
        old, at = f.load(pv, v.elem, v.width), f.load(pi, 'i32', v.width)
        take = self.better(v, old, at.eq(self.NONE))
        if mask is not None: take = take & mask
        f.store(f.select(take, v, old), pv); f.store(f.select(take, index, at), pi)
    def close_tail(self):
        f = self.f
        for c, pair in enumerate(self.acc):
            for mem, var in zip(self.memory, pair): var.set(f.load(f.at(mem, f.const(c * self.width), var.elem), var.elem, self.width))
    def end_block(self, start):
        f = self.f
        v, i = fold_copies(f, self.earlier(self.kind), [(v.get(), i.get()) for v, i in self.acc])
        index = f.convert('zext', i, 'i64') + start
        take = (self.at.get() < 0) | self.better(v, self.best.get(), index < self.at.get())
        self.best.set(f.select(take, v, self.best.get())); self.at.set(f.select(take, index, self.at.get()))
    def result(self): return self.at.get()


def combine_columns(f, kind, dtype, load, count, rows):
    """The 64-ary tree over `count` partial results, load(b) each: sequential within groups of 64, groups of groups of 64 ..."""
    combine = COMBINE[kind]
    def level(lo, hi, span):
        """The results of blocks [lo, hi), groups of `span` first."""
        first = load.identity
        acc = [Var(f, v) for v in first]
        with f.loop(lo, hi, span) as b:
            v = load(b) if span == 1 else level(b, f.min(b + span, hi), span // rows)
            for var, x in zip(acc, combine(f, tuple(a.get() for a in acc), v)): var.set(x)
        return tuple(a.get() for a in acc)
    out = [Var(f, v) for v in load.identity]
    def at_most(limit, span):
        if span >= rows ** 3:
            for var, v in zip(out, level(f.const(0), count, span)): var.set(v)
            return
        def small():
            for var, v in zip(out, level(f.const(0), count, span)): var.set(v)
        f.branch(count <= limit, small, lambda: at_most(limit * rows, span * rows))
    at_most(rows, 1)
    return tuple(o.get() for o in out)
