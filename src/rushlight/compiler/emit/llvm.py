"""Kernels to LLVM IR: one function `i64 kernel(ptr p, ptr n, ptr s, ptr scratch, i64 lo, i64 hi)` each, over work units [lo, hi).

Pointers, sizes and strides arrive in p and n, in the order of first use, so two kernels that do the same have the same text, whatever
they came from. Strides along the vectorised axis decide how a value is loaded: 1 as a vector, 0 once per row, others lane by lane.
"""
from contextlib import ExitStack

from .. import mathlib, region, symbolic
from ..graph import itemsize
from ..loops import BLOCK, ROWS, closure, is_one, is_zero
from ..primitives import PRIMITIVES
from ..schedule import COLUMNS, TILE
from . import reduce, values
from .interior import interior_of
from .ir import Fn, Module, Val, Var
from .overlap import overlapping
from .pairs import pair_counters

LANES = reduce.LANES
TAIL = 8                       # the masked tail of a row: loops of eight
FEW = 4                        # a tail that cannot be masked goes by four and then one by one: short rows are all tail
ROWS_AT_ONCE = 4               # rows per sweep in a kernel that only accumulates columns
IN_DOUBLE = {*mathlib.IN_DOUBLE, 'fmod'}                        # float functions that round a double at the end
MASKABLE = ('float', 'double', 'i32', 'i64', 'u32', 'u64')      # what AVX2 loads and stores under a mask


def in_double(e):
    """May the value have been a double just before? Also the length of a complex number (a hypot), and whatever a scalar loop does inside."""
    return e.dtype in ('f64', 'c64', 'c128') or e.op in IN_DOUBLE or e.op == 'loop'


def maskable(exprs, stores, inner):
    """Masked tails: every access along the row is dense and of a type that masks well; otherwise the tail goes one by one."""
    for e in exprs:
        if inner not in e.axes or e.op not in ('load', 'combine'): continue
        if e.op == 'load' and (any(inner in a.axes for a in e.args[:len(e.attrs['dynamic'])]) or e.attrs['guarded'] and inner in e.args[-2].axes): return False
        if not is_one(e.attrs['strides'].get(inner, 0)): return False
        if values.MEMORY[e.dtype] not in MASKABLE or e.dtype in values.PAIR: return False
    for s in stores:
        if inner not in s.strides: continue
        dtype = s.memory.dtype
        if not is_one(s.strides[inner]) or values.MEMORY[dtype] not in MASKABLE or dtype in values.PAIR: return False
    return True


class At:
    """An index along the inner axis: `width` elements from `index` on. tail: how far into the tail of the row, or None in its main part. mask: of the lanes
    within the row; count: how many they are, or more than there are lanes."""
    def __init__(self, index, width, mask=None, reuse=(), tail=None, count=None):
        self.index, self.width, self.mask, self.reuse, self.tail, self.count, self.memo = index, width, mask, reuse, tail, count, {}


class Context:
    """What every kernel needs: the function, its integers, pointers and scalars, loaded once in the entry block."""

    def __init__(self, program):
        self.program, self.module = program, Module()
        self.f = Fn(self.module, 'kernel', [('ptr', 'p'), ('ptr', 'n'), ('ptr', 's'), ('ptr', 'scratch'), ('i64', 'lo'), ('i64', 'hi')],
                    returns='i64')
        self.p, self.n_, self.s, self.scratch, self.lo, self.hi = self.f.args
        self.ints, self.int_at, self.pointers, self.pointer_at, self.scalars, self.scalar_at = [], {}, [], {}, [], {}

    def entry(self, text, elem):
        name = self.f.fresh()
        self.f.allocas.append(f'  {name} = {text}')
        return Val(self.f, name, elem)

    def n(self, x):
        """A run-time integer (an int is a constant of the code: only what the layout class fixes)."""
        if not isinstance(x, symbolic.SymInt): return self.f.const(x)
        x = self.program.simplify(x)
        if not isinstance(x, symbolic.SymInt): return self.f.const(x)
        key = symbolic.key(x)
        if key not in self.int_at:
            where = self.entry(f'getelementptr i64, ptr %n, i64 {len(self.ints)}', 'ptr')
            self.int_at[key] = self.entry(f'load i64, ptr {where.name}, align 8', 'i64')
            self.ints.append(x)
        return self.int_at[key]

    def parameter(self, x):
        """A number that must not become part of the code."""
        where = self.entry(f'getelementptr i64, ptr %n, i64 {len(self.ints)}', 'ptr')
        self.ints.append(x)
        return self.entry(f'load i64, ptr {where.name}, align 8', 'i64')

    def pointer(self, memory, offset=0):
        """Where a place starts; the offset (in elements) is added by the recipe."""
        kind, what = memory.place
        key = (kind, what if isinstance(what, int) else id(what), symbolic.key(offset))
        if key not in self.pointer_at:
            where = self.entry(f'getelementptr ptr, ptr %p, i64 {len(self.pointers)}', 'ptr')
            self.pointer_at[key] = self.entry(f'load ptr, ptr {where.name}, align 8', 'ptr')
            self.pointers.append((kind, what, offset * itemsize(memory.dtype)))
        return self.pointer_at[key]

    def scalar(self, index, kind, dtype):
        if index not in self.scalar_at:
            self.scalar_at[index] = len(self.scalars)
            self.scalars.append(index)
        f, k = self.f, self.scalar_at[index]
        def part(i, elem): return f.load(f.at(self.s, f.const(2 * k + i), 'i64'), elem)
        if kind in 'bi': return values.cast(f, part(0, 'i64'), 'i64', dtype)
        if kind == 'f': return values.cast(f, part(0, 'double'), 'f64', dtype)
        return values.cast(f, (part(0, 'double'), part(1, 'double')), 'c128', dtype)

    def times(self, index, stride):
        """index * stride, nothing when the stride is 1."""
        if is_one(stride): return index
        return index * self.n(stride)

    def spaced(self, base, index, stride, dtype, width):
        """The addresses of `width` elements `stride` apart. A product for each would cost as much as its load: one for four, and the other three are what a machine's
        addressing modes say."""
        f = self.f
        first = values.address(f, base, self.times(index, stride), dtype)
        if width == 1: return [first]
        step, out = self.n(stride) * itemsize(dtype), []
        second, third, four = step + step, step * 3, step * 4
        for lane in range(0, width, 4):
            if lane: first = f.at(first, four, 'i8')
            out += [first, f.at(first, step, 'i8'), f.at(first, second, 'i8'), f.at(first, third, 'i8')]
        return out[:width]


class Row:
    """One setting of the outer axes, and everything that does not vary along the inner one."""

    def __init__(self, k, index): self.k, self.f, self.index, self.memo, self.bases, self.around = k, k.f, index, {}, {}, None

    def inside(self, axis, i):
        """The same within a loop over one more axis: what is known here is known there, and addresses go on from here."""
        out = Row(self.k, {**self.index, axis: i})
        out.memo.update(self.memo)
        out.around = self
        return out

    def offset(self, strides, first=None):
        out = first
        for a, stride in strides.items():
            if a == self.k.inner: continue
            term = self.k.times(self.index[a], stride)
            out = term if out is None else out + term
        return out if out is not None else self.f.const(0)

    def base(self, e):
        """The address of a load at inner index 0 (and at 0 of axes whose loops are yet to come: see `inside`)."""
        if e not in self.bases:
            k, a, first, around = self.k, e.attrs, None, self.around
            known, done = self.index.keys(), around.index.keys() if around is not None else None
            for arg, stride in zip(e.args, a.get('dynamic', ())):
                if k.varies(arg) or not arg.axes <= known or done is not None and arg.axes <= done: continue
                term = k.times(self.value(arg), stride)
                first = term if first is None else first + term
            start = k.pointer(a['memory'], a.get('offset', 0)) if around is None else around.base(e)
            strides = {x: s for x, s in a['strides'].items() if x in known and (done is None or x not in done)}
            self.bases[e] = values.address(self.f, start, self.offset(strides, first), e.dtype)
        return self.bases[e]

    def store_base(self, s):
        if s not in self.bases:
            start = self.k.pointer(s.memory, s.offset)
            self.bases[s] = values.address(self.f, start, self.offset(s.strides), s.memory.dtype)
        return self.bases[s]

    def value(self, e, width=1):
        """A value that does not vary along the inner axis, as a scalar or spread over lanes. Outside of inner loops (see prepare)."""
        if (e, width) in self.memo: return self.memo[e, width]
        f, k = self.f, self.k
        top = k.top
        if self is not top and (e, 1) in top.memo and width == 1: return top.memo[e, 1]
        if e.op == 'const': v = values.constant(f, e.attrs['value'], e.dtype, width)
        elif width > 1: v = values.splat(f, self.value(e), width)
        elif e.op == 'load': v = self.row_load(e)
        elif e.op == 'index':
            a = e.attrs['affine']
            v = self.offset(a.terms, None if is_zero(a.const) else k.n(a.const))
        elif e.op == 'combine': v = k.combine(self, e, At(None, 1))
        elif e.op == 'fold': v = k.fold(self, e, At(None, 1))
        else: v = k.apply(e, [self.value(a) for a in e.args])
        self.memo[e, width] = v
        return v

    def row_load(self, e):
        f = self.f
        if not e.attrs['guarded']: return values.load(f, self.base(e), e.dtype)
        valid, other = (self.value(a) for a in e.args[-2:])
        p = f.select(valid, self.base(e), self.k.nowhere())
        return values.select(f, valid, values.load(f, p, e.dtype), other)

    def prepare(self, roots, widths, reuse=(), known=()):
        """Emit, before an inner loop, the per-row values and addresses its body will use."""
        todo, seen = list(roots), set()
        while todo:
            e = todo.pop()
            if e in seen or e in known: continue
            seen.add(e)
            if not self.k.varies(e):
                for w in widths: self.value(e, w)
            elif e in reuse: self.k.kept_base(self, reuse[e])
            else:
                for x in (e,) if e.op in ('load', 'combine') else swept_loads(e.args[0], e.attrs['along']) if e.op == 'fold' else (): self.base(x)
                todo.extend(seeds(e.args, e.attrs['along']) if e.op == 'fold' else e.args)

    def element(self, e, at):
        """The value of e at an inner index."""
        if e in at.memo: return at.memo[e]
        k, f = self.k, self.f
        if not k.varies(e): return self.memo[e, at.width] if (e, at.width) in self.memo else k.top.memo[e, at.width]
        if e in at.reuse:
            v = values.load(f, k.kept_at(self, e, at.reuse[e], at), e.dtype, at.width)
        elif e.op == 'load': v = self.element_load(e, at)
        elif e.op == 'index':
            a = e.attrs['affine']
            lanes = f.splat(at.index, at.width) + f.lanes(at.width, 'i64') if at.width > 1 else at.index
            v = lanes if is_one(a.terms[k.inner]) else lanes * f.splat(k.n(a.terms[k.inner]), at.width)
            rest = self.offset(a.terms, None if is_zero(a.const) else k.n(a.const))
            if rest.name != '0': v = v + f.splat(rest, at.width)
        elif e.op == 'combine': v = k.combine(self, e, at)
        elif e.op == 'fold': v = k.fold(self, e, at)
        else: v = k.apply(e, [self.element(a, at) for a in e.args], at.mask)
        at.memo[e] = v
        return v

    def element_load(self, e, at):
        k, a = self.k, e.attrs
        stride = a['strides'].get(k.inner, 0)
        moving = [(x, s) for x, s in zip(e.args, a['dynamic']) if k.varies(x)]
        valid = other = None
        if a['guarded'] and not k.varies(e.args[-2]) and at.width > 1: return self.branched_load(e, at)
        if a['guarded']: valid, other = (self.element(x, at) for x in e.args[-2:])
        return self.lanes_load(e, at, stride, moving, valid, other)

    def branched_load(self, e, at):
        """A guard that holds for the whole row or for none of it: one test instead of a mask."""
        f, a = self.f, e.attrs
        here = Var(f, self.spread(e.args[-1], at)) if e.dtype not in values.PAIR else [Var(f, x) for x in self.spread(e.args[-1], at)]
        moving = [(x, s) for x, s in zip(e.args, a['dynamic']) if self.k.varies(x)]
        for x, _ in moving: self.element(x, at)
        with f.when(self.value(e.args[-2])):
            v = self.lanes_load(e, at, a['strides'].get(self.k.inner, 0), moving, None, None)
            for var, x in zip(here, v) if isinstance(here, list) else [(here, v)]: var.set(x)
        return tuple(x.get() for x in here) if isinstance(here, list) else here.get()

    def spread(self, e, at):
        """e at the index, also when it does not vary there."""
        return self.element(e, at) if self.k.varies(e) else self.value(e, at.width)

    def lanes_load(self, e, at, stride, moving, valid, other):
        """Neighbouring elements as a vector, others lane by lane."""
        f, k = self.f, self.k
        if not moving and is_one(stride):
            p = values.address(f, self.base(e), at.index, e.dtype)
            if valid is None: return values.load(f, p, e.dtype, at.width, at.mask)
            if values.MEMORY[e.dtype] in MASKABLE and e.dtype not in values.PAIR and at.width > 1:
                v = values.load(f, p, e.dtype, at.width, valid if at.mask is None else valid & at.mask)
                return f.select(valid, v, other)
        backwards = not moving and isinstance(stride, int) and stride == -1 and valid is None and at.mask is None
        if backwards and e.dtype not in values.PAIR and at.width > 1:
            p = f.at(self.base(e), 0 - at.index - (at.width - 1), values.MEMORY[e.dtype])
            return f.shuffle(values.load(f, p, e.dtype, at.width), range(at.width - 1, -1, -1))
        offsets = None                                             # lane by lane
        for x, s in moving:
            v = self.element(x, at)
            if not is_one(s): v = v * f.splat(k.n(s), at.width)
            offsets = v if offsets is None else offsets + v
        if offsets is None and valid is None and not is_zero(stride): return values.load_lanes(f, k.spaced(self.base(e), at.index, stride, e.dtype, at.width), e.dtype)
        addresses = []
        for lane in range(at.width):
            index = k.times(at.index + lane if lane else at.index, stride) if not is_zero(stride) else None
            if offsets is not None:
                o = f.extract(offsets, lane)
                index = o if index is None else index + o
            p = values.address(f, self.base(e), index, e.dtype) if index is not None else self.base(e)
            if valid is not None: p = f.select(f.extract(valid, lane), p, k.nowhere())
            addresses.append(p)
        v = values.load_lanes(f, addresses, e.dtype)
        return v if valid is None else values.select(f, valid, v, other)


def seeds(roots, along):
    """The largest parts of expressions that do not vary along some axes."""
    along, out, todo, seen = set(along), [], list(roots), set()
    while todo:
        e = todo.pop()
        if e in seen: continue
        seen.add(e)
        if not e.axes & along: out.append(e)
        else: todo.extend(seeds(e.args, e.attrs['along']) if e.op == 'fold' else e.args)
    return out


def swept_loads(arg, along): return [e for e in closure([arg]) if e.op == 'load' and e.axes & set(along)]


class Evaluator(Context):
    """Evaluates expressions at an index: in one kernel, with one vectorised axis (or none)."""

    def __init__(self, program, inner, exprs):
        super().__init__(program)
        self.inner, self.exprs = inner, exprs
        self.top = Row(self, {})
        self._nowhere, self.rooms = None, {}

    def hoist(self):
        """What varies along no axis is computed once, before all loops."""
        after_reduction = set()
        for e in self.exprs:
            if e.op in ('reduce', 'argreduce') or any(a in after_reduction for a in e.args): after_reduction.add(e)
            elif not e.axes and e.op not in ('combine', 'fold'): self.top.value(e)

    def text(self): return self.module.text()

    def row(self, index): return Row(self, index)

    def varies(self, e): return self.inner is not None and self.inner in e.axes

    # -- values
    def apply(self, e, args, mask=None):
        """mask: the lanes that are in the row; the others hold nothing that a loop could be trusted to end on."""
        f, op = self.f, e.op
        if op == 'const': return values.constant(f, e.attrs['value'], e.dtype)
        if op == 'size': return self.n(e.attrs['expr'])
        if op == 'scalar': return self.scalar(e.attrs['index'], e.attrs['kind'], e.dtype)
        if op == 'cast':
            twice = e.dtype == 'f16' and any(in_double(x) for x in closure([e]))                   # see values.round_half
            return values.cast(f, args[0], e.args[0].dtype, e.dtype, twice)
        if op == 'bitcast': return values.bitcast(f, args[0], e.args[0].dtype, e.dtype)
        if op == 'copy': return args[0]
        if op == 'i.div': return args[0] // args[1]
        if op == 'i.mod': return args[0] % args[1]
        if op == 'loop': return region.emit(f, e.attrs['region'], e.attrs['index'], args, mask)
        primitive = PRIMITIVES[op]
        dtype = e.args[-1].dtype
        dtype = values.BODY_TYPE.get(dtype, dtype)
        if dtype in values.PAIR and op != 'make_complex':
            if primitive.emit_complex is None: raise NotImplementedError(f'{op} of complex numbers')
            return primitive.emit_complex(f, dtype, *args)
        return primitive.emit(f, dtype, *args)

    def nowhere(self):
        """An address that may be read: where the lanes of a guarded load go that must not touch memory."""
        if self._nowhere is None: self._nowhere = self.f.array('i64', 2)
        return self._nowhere

    def combine(self, row, e, at):
        """Partial results of an earlier kernel in their fixed order."""
        f, a = self.f, e.attrs
        base, count, dtype, kind = row.base(e), self.n(a['count']), e.dtype, a['kind']
        if not a['column']:                                         # blocks of one long row: pairwise
            nothing = reduce.identities(f, kind, dtype, 1)
            blocks = reduce.Blocks(f, reduce.COMBINE[kind], reduce.Room(f, 64, nothing))
            with f.loop(f.const(0), count) as b:
                blocks.push(reduce.enter(f, values.load(f, values.address(f, base, b, dtype), dtype), dtype, kind))
            return reduce.leave(f, blocks.result(nothing), dtype, kind)
        stride = a['strides'].get(self.inner, 0) if at.index is not None else 0
        def load(b):
            p = values.address(f, base, self.times(b, a['step']), dtype)
            if is_zero(stride): return reduce.enter(f, values.load(f, p, dtype), dtype, kind)
            if is_one(stride):
                return reduce.enter(f, values.load(f, values.address(f, p, at.index, dtype), dtype, at.width, at.mask), dtype, kind)
            return reduce.enter(f, values.load_lanes(f, self.spaced(p, at.index, stride, dtype, at.width), dtype), dtype, kind)
        load.identity = reduce.identities(f, a['kind'], dtype, at.width if not is_zero(stride) else 1)
        out = reduce.leave(f, reduce.combine_columns(f, a['kind'], dtype, load, count, ROWS), dtype, kind)
        return values.splat(f, out, at.width) if is_zero(stride) and at.width > 1 else out

    def fold(self, row, e, at):
        """A short reduction along axes of its own, in order."""
        f, arg, kind, dtype, along = self.f, e.args[0], e.attrs['kind'], e.args[0].dtype, e.attrs['along']
        start = reduce.identities(f, kind, dtype, at.width)
        place = Var(f, f.const(0, 'i32', at.width)) if kind == 'argmax' else None
        keyed = place is not None and at.width == 1 and start[0].is_float
        acc = [Var(f, v) for v in (start if not keyed else (reduce.as_key(f, start[0], True),))]
        with ExitStack() as loops:
            inside, here = self.fold_loops(loops, row, arg, at, along, len(along))
            inside.prepare([arg], {at.width}, known=here.memo)
            v, index = inside.spread(arg, here), inside.index
            if place is not None:
                number = f.const(0)
                for a in along: number = number * self.n(self.sizes[a]) + index[a]
                absent = v.ne(v) if v.is_float else None
                if keyed: v = reduce.as_key(f, v, True)
                take = v > acc[0].get()
                if absent is not None: take = take | absent
                acc[0].set(f.select(take, v, acc[0].get()))
                place.set(f.select(take, f.splat(f.convert('trunc', number, 'i32'), at.width), place.get()))
            else:
                new = reduce.COMBINE[kind](f, tuple(a.get() for a in acc), reduce.enter(f, v, dtype, kind))
                for a, x in zip(acc, new): a.set(x)
        if place is not None: return f.convert('sext', place.get(), 'i64')
        return reduce.leave(f, tuple(a.get() for a in acc), dtype, kind)

    def fold_loops(self, loops, row, arg, at, along, count):
        """Enters the loops over the first axes of a fold (one for each: dividing a flattened index costs more than most bodies) and gives the row and the place
        inside. What a loop does not change is evaluated before it."""
        f, loads = self.f, swept_loads(arg, along)
        for depth, axis in enumerate(along[:count]):
            found = seeds([arg], along[depth:])
            if depth: row.prepare(found, {at.width}, known=at.memo)            # before the first loop the row around is prepared already
            for s in found: row.spread(s, at)
            for e in loads: row.base(e)
            row = row.inside(axis, loops.enter_context(f.loop(f.const(0), self.n(self.sizes[axis]))))
            known, at = at.memo, At(at.index, at.width, at.mask)
            at.memo.update(known)
        return row, at

    def room(self, what, count, like):
        """Memory in the stack frame, one for each use and width."""
        key = what, like[0].width
        if key not in self.rooms: self.rooms[key] = reduce.Room(self.f, count, like)
        return self.rooms[key]

    def put(self, row, s, v, at):
        """A result at the inner index."""
        f, base, stride, dtype = self.f, row.store_base(s), s.strides.get(self.inner, 0), s.memory.dtype
        if at.index is None: values.store(f, v, base, dtype)
        elif is_one(stride): values.store(f, v, values.address(f, base, at.index, dtype), dtype, at.mask)
        else: values.store_lanes(f, v, self.spaced(base, at.index, stride, dtype, at.width), dtype)

    def sweep(self, lo, hi, body):
        """body(index, width, mask) over [lo, hi) of the inner axis: whole vectors, then the tail. width, masked, tail: the emitter's choices."""
        f = self.f
        main = lo + ((hi - lo) & -self.width)
        with f.loop(lo, main, self.width) as i: body(i, self.width, None)
        with f.loop(main, hi, self.tail) as i: body(i, self.tail, self.tail_mask(hi, i))

    def choose_tail(self, masked): self.masked, self.tail = masked, TAIL if masked else 1

    def tail_mask(self, end, i):
        if not self.masked: return None
        f = self.f
        return f.lanes(TAIL) < f.splat(f.convert('trunc', end - i, 'i32'), TAIL)

    def split(self, axes, number):
        """The indices of a flattened number."""
        out, rest = {}, number
        for a in reversed(axes[1:]):
            n = self.n(self.sizes[a])
            out[a] = rest % n
            rest = rest // n
        if axes: out[axes[0]] = rest
        return out


class NestEmitter(Evaluator):
    def __init__(self, kernel, program):
        super().__init__(program, kernel.inner, closure(kernel.roots()))
        self.kernel, self.sizes = kernel, kernel.sizes
        self.width = self.pick_width()
        self.choose_tail(self.can_mask())
        self.accumulators, self.tails = {}, {}
        self.interior = interior_of(kernel, program)
        self.hoist()
        self.size = self.n(kernel.sizes[kernel.inner]) if kernel.inner is not None else self.f.const(1)
        for p in kernel.passes:
            for r in p.reduces:
                kind = reduce.ArgAccumulator if r.op == 'argreduce' else reduce.RowAccumulator
                one_block = self.size <= BLOCK if kernel.form != 'flat' else None
                self.accumulators[r] = kind(self.f, r.attrs['kind'], r.args[0].dtype, self.width, kernel.form != 'flat', one_block)
        if kernel.form == 'flat': self.flat()
        elif kernel.linear: self.linear()
        elif kernel.rows: self.row_blocks()
        elif kernel.tiled: self.tiles()
        else: self.rows()

    # -- choices
    def pick_width(self):
        if self.kernel.tiled: return TILE
        part = lambda dtype: itemsize(values.PAIR.get(dtype, dtype))
        widest = max([part(e.dtype) for e in self.exprs if self.varies(e)], default=1)
        return 32 if widest <= 4 else 16

    def can_mask(self): return maskable(self.exprs, self.kernel.stores + self.kernel.columns, self.inner)

    def kept_base(self, row, where):
        """The start of the scratch row, or of the result's row that serves as one."""
        if not isinstance(where, int): return row.store_base(where)
        f, key = self.f, ('scratch', where)
        if key not in self.top.bases:
            at = Val(f, '0', 'i64')
            for d in self.kernel.scratch[:where]: at = at + ((self.size * itemsize(d) + 127) & -64)
            self.top.bases[key] = f.at(self.scratch, at, 'i8')
        return self.top.bases[key]

    def kept_at(self, row, e, where, at):
        """Where a kept value is at an index. The tail of a row goes to a small array instead: it needs no mask there, and a masked store
        followed by a load of the same place would stall."""
        f = self.f
        if at.tail is None: return values.address(f, self.kept_base(row, where), at.index, e.dtype)
        if e not in self.tails: self.tails[e] = f.array(values.MEMORY[e.dtype], reduce.LANES * (2 if e.dtype in values.PAIR else 1))
        return values.address(f, self.tails[e], at.tail, e.dtype)

    # -- loops over work units
    def linear(self):
        """One axis, no reductions: a work unit is an element."""
        row = Row(self, {})
        if self.interior is not None: return self.split_row(row, self.lo, self.hi)
        for p in self.kernel.passes: self.run_range(p, [row], None, self.lo, self.hi, self.lo)

    def flat(self):
        """A work unit is a block of BLOCK elements of one long row; its reductions are partial results."""
        f = self.f
        self.scratch_ready()
        with f.loop(self.lo, self.hi) as unit:
            start = unit * BLOCK
            end = f.min(start + BLOCK, self.size)
            row = Row(self, {})
            for p in self.kernel.passes:
                for r in p.reduces: self.accumulators[r].reset()
                self.run_range(p, [row], None, start, end, start)
                for r in p.reduces: row.memo[r, 1] = self.accumulators[r].result()
            for s in self.kernel.partials:
                values.store(f, row.value(s.expr), values.address(f, self.pointer(s.memory), unit, s.memory.dtype), s.memory.dtype)

    def rows(self):
        """A work unit is a row."""
        f, kernel = self.f, self.kernel
        self.scratch_ready()
        passes = (lambda: overlapping(self)) if kernel.overlapped else lambda: self.each_row(lambda row: self.passes([row], None))
        if self.interior is not None: self.each_row(lambda row: self.split_row(row, f.const(0), self.size))
        elif self.masked and any(p.reduces for p in kernel.passes) and self.size.name != '1':
            def tiny(width): return lambda: self.each_row(lambda row: self.tiny(row, width))
            width = self.tiny_width()
            longer = passes if width in (LANES, None) else lambda: f.branch(self.size <= LANES, tiny(LANES), passes)
            f.branch(self.size <= (width or TAIL), tiny(width or TAIL), longer)
        else: passes()

    def each_row(self, body):
        counters, pairs = self.counters(self.kernel.outer, self.lo), pair_counters(self, self.kernel.outer, self.lo)
        with self.f.loop(self.lo, self.hi) as unit:
            row = Row(self, self.indices(self.kernel.outer, counters, unit))
            for c in pairs: c.enter(row)
            body(row)
            self.advance(self.kernel.outer, counters)
            for c in pairs: c.advance()

    def tiny_width(self):
        """The rows of the first call say which short rows to expect; None: long ones."""
        expected = symbolic.hint(self.kernel.sizes[self.inner])
        return next((w for w in (8, 16, LANES) if expected <= w), None)

    def tiny(self, row, width):
        """A row that is one masked vector: every value is computed once and stays in its register, and a reduction folds these lanes alone, since the others of the
        32 would hold identities."""
        f = self.f
        at = At(f.const(0), width, f.lanes(width) < f.splat(f.convert('trunc', self.size, 'i32'), width))
        for p in self.kernel.passes:
            row.prepare(p.operands(), {width}, known=at.memo)
            for r in p.reduces:
                kind, v = (reduce.ArgAccumulator if r.op == 'argreduce' else reduce.RowAccumulator), row.spread(r.args[0], at)
                row.memo[r, 1] = kind.of_lanes(f, r.attrs['kind'], r.args[0].dtype, v, at.mask)
            writes = [(row.spread(s.expr, at), row.store_base(s), s.memory.dtype) for s in p.stores]
            for v, base, dtype in writes: values.store_some(f, v, base, dtype, self.size)
        for s in self.kernel.row_stores: self.store_row(row, s)

    def split_row(self, row, start, end):
        """[start, end) of a row in three parts: see interior.py."""
        f, inside, border = self.f, self.interior, self.kernel.passes[0]
        lo = f.min(f.max(self.n(inside.lo), start), end)
        hi = f.min(f.max(self.n(inside.hi), lo), end)
        outside = self.exprs, self.masked, self.tail
        self.exprs = closure([s.expr for s in inside.pass_.stores])
        self.choose_tail(self.can_mask())
        self.run_range(inside.pass_, [row], None, lo, hi, lo)
        self.exprs, self.masked, self.tail = outside
        self.prepare(border, [row])
        with f.loop(f.const(0), f.const(2)) as side:
            first = side.eq(0)
            begin = f.select(first, start, hi)
            self.run_range(border, [row], None, begin, f.select(first, lo, end), begin, prepared=True)

    def tiles(self):
        """A work unit is a row, but TILE rows go together, a vector of each in turn: see schedule.tile_map."""
        f, p = self.f, self.kernel.passes[0]
        with f.loop(self.lo, self.hi, TILE) as first:
            last = f.min(first + TILE, self.hi)
            def body(i, width, mask):
                with f.loop(first, last) as r:
                    row = Row(self, self.split(self.kernel.outer, r))
                    row.prepare(p.operands(), {width})
                    self.prepare_stores(p, row)
                    self.body(p, [row], None, [At(i, width, mask)], 0, f.const(0))
            self.sweep(f.const(0), self.size, body)
            for s in self.kernel.row_stores: raise AssertionError(f'a map has no per-row results: {s}')

    def scratch_ready(self):
        for i in range(len(self.kernel.scratch)): self.kept_base(self.top, i)

    def counters(self, axes, start):
        """Variables that count through several axes; one axis needs none."""
        if len(axes) < 2: return None
        f, out, rest = self.f, {}, start
        for a in reversed(axes[1:]):
            n = f.max(self.n(self.kernel.sizes[a]), 1)
            out[a] = Var(f, rest % n)
            rest = rest // n
        out[axes[0]] = Var(f, rest)
        return out
    def indices(self, axes, counters, unit):
        if counters is None: return {a: unit for a in axes}
        return {a: counters[a].get() for a in axes}
    def advance(self, axes, counters):
        if counters is None: return
        f = self.f
        carry = f.const(True, 'i1')
        for a in reversed(axes):
            v = counters[a].get()
            up = f.select(carry, v + 1, v)
            if a == axes[0]: counters[a].set(up); break
            over = up.eq(self.n(self.kernel.sizes[a]))
            counters[a].set(f.select(over, f.const(0), up))
            carry = over

    def row_blocks(self):
        """A work unit is a block of ROWS rows for one setting of the kept outer axes (and a piece of the columns, when it only accumulates
        them); columns accumulate into its partial result."""
        f, kernel = self.f, self.kernel
        self.scratch_ready()
        total = f.const(1)
        for a in kernel.rows: total = total * self.n(kernel.sizes[a])
        blocks = self.n(kernel.blocks)
        with f.loop(self.lo, self.hi) as unit:
            start, end = f.const(0), self.size
            if kernel.pieces is not None:
                pieces = self.n(kernel.pieces)
                start = (unit % pieces) * COLUMNS
                end = f.min(start + COLUMNS, self.size)
                unit = unit // pieces
            block, outer = (unit % blocks, self.split(kernel.outer, unit // blocks)) if kernel.outer else (unit, {})
            first = block * ROWS
            last = f.min(first + ROWS, total)
            where = Row(self, {**outer, **{a: f.const(0) for a in kernel.rows}})
            partial = {}
            for s in kernel.columns:
                at = where.offset({a: c for a, c in s.strides.items() if a != self.inner}, self.times(block, s.step))
                partial[s] = values.address(f, self.pointer(s.memory, s.offset), at, s.memory.dtype)
            def row_at(r): return Row(self, {**outer, **self.split(kernel.rows, r)})
            if kernel.pieces is None:
                self.clear_columns(partial, start, end)
                with f.loop(first, last) as r: self.passes([row_at(r)], partial)
            else:
                main = first + ((last - first) & -ROWS_AT_ONCE)
                with f.loop(first, main, ROWS_AT_ONCE) as r:
                    self.column_rows([row_at(r + q if q else r) for q in range(ROWS_AT_ONCE)], partial, r.eq(first), start, end)
                with f.loop(main, last) as r: self.column_rows([row_at(r)], partial, r.eq(first), start, end)
                with f.when(first >= last): self.clear_columns(partial, start, end)

    def column_rows(self, rows, partial, is_first, start, end):
        """Some rows added to the partial results; the first rows of a block start from the identity instead of what is there."""
        p = self.kernel.passes[0]
        self.f.branch(is_first, lambda: self.run_range(p, rows, (partial, True), start, end, start),
                      lambda: self.run_range(p, [Row(self, r.index) for r in rows], (partial, False), start, end, start))

    def clear_columns(self, partial, start, end):
        f = self.f
        def clear(i, width, mask):
            for s, base in partial.items():
                empty = reduce.leave(f, reduce.identities(f, s.kind, s.memory.dtype, width), s.memory.dtype, s.kind)
                values.store(f, empty, values.address(f, base, i, s.memory.dtype), s.memory.dtype, mask)
        self.sweep(start, end, clear)

    # -- passes over rows
    def passes(self, rows, partial):
        self.some_passes(self.kernel.passes, rows, (partial, False) if partial else None)
        for s in self.kernel.row_stores: self.store_row(rows[0], s)

    def some_passes(self, passes, rows, columns=None):
        for p in passes: self.one_pass(p, rows, columns)

    def one_pass(self, p, rows, columns=None, ahead=()):
        f = self.f
        if not p.operands(): return
        if p.reduces: self.reduce_row(p, rows, columns, ahead=ahead)
        else: self.run_range(p, rows, columns, f.const(0), self.size, f.const(0), ahead=ahead)

    def reduce_row(self, p, rows, columns=None, beside=None, ahead=()):
        """A pass that reduces, block by block. beside, ahead: see run_range."""
        f = self.f
        for r in p.reduces: self.accumulators[r].start_row()
        self.prepare(p, rows)
        with f.loop(f.const(0), self.size, BLOCK) as start:
            for r in p.reduces: self.accumulators[r].reset()
            self.run_range(p, rows, columns, start, f.min(start + BLOCK, self.size), start, prepared=True, beside=beside, ahead=ahead)
            for r in p.reduces: self.accumulators[r].end_block(start)
        for r in p.reduces: rows[0].memo[r, 1] = self.accumulators[r].result()

    def store_row(self, row, s): values.store(self.f, row.value(s.expr), row.store_base(s), s.memory.dtype)

    def prepare(self, p, rows):
        for r in rows:
            r.prepare(p.operands(), {self.width, self.tail} if p.reduces else {self.width, FEW, self.tail}, p.reuse)
            self.prepare_stores(p, r)
            for where in p.keep.values(): self.kept_base(r, where)

    def prepare_stores(self, p, row):
        for s in p.stores: row.store_base(s)

    def run_range(self, p, rows, columns, start, end, block_start, prepared=False, beside=None, ahead=()):
        """One pass over [start, end) of the inner axis: main body, then the tail. beside: another pass and its rows, prepared, that take the same steps.
        ahead: (address, dtype) of rows that a later pass will read and that are called for now."""
        f, width = self.f, self.width
        if not p.operands(): return
        if not prepared: self.prepare(p, rows)
        if self.inner is None:                                     # a scalar: per-row effects only
            return
        together = [(p, rows)] if beside is None else [beside, (p, rows)]
        # Passes that share kept values must agree on where the tail begins.
        copies = reduce.LANES // width if any(p.reduces or p.reuse or p.keep for p, _ in together) else 1
        step = copies * width
        main = start + ((end - start) & -step)
        def steps(start, main, ahead):
            with f.loop(start, main, step) as i:
                for base, dtype in ahead: values.prefetch(f, values.address(f, base, i, dtype), step * itemsize(dtype), level=2)      # the first holds what is wanted now
                for q in range(copies):
                    index = i + q * width if q else i
                    for p, rows in together: self.body(p, rows, columns, [At(index, width, None, p.reuse) for _ in rows], q, block_start)
        calling = f.select(self.size > BLOCK, main, start) if ahead else start           # short rows come soon enough by themselves
        if ahead: steps(start, calling, ahead)
        steps(calling, main, ())
        for p, rows in together:
            if not p.reduces: self.run_tail(p, rows, columns, start, main, end, block_start)
            else:
                with f.when(main < end):
                    if self.masked: self.masked_step(p, rows, columns, main, end, copies, block_start)
                    else: self.run_tail(p, rows, columns, start, main, end, block_start)

    def run_tail(self, p, rows, columns, start, main, end, block_start):
        """What is left of [start, end) from main on, by a few elements."""
        f, rest = self.f, main
        for r in p.reduces: self.accumulators[r].open_tail()
        if self.tail == 1 and not p.reduces:
            again = not (p.reuse or p.keep or p.columns) and all(s.memory.place[0] == 'buffer' for s in p.stores)
            rest = main + ((end - main) & -FEW)
            if again:           # the last four may be partly done again: nothing here reads what the kernel writes
                rest = f.select(end - start < FEW, main, end)
            with f.loop(main, rest, FEW) as i:
                at = f.min(i, end - FEW) if again else i
                self.body(p, rows, columns, [At(at, FEW, None, p.reuse, i - main) for _ in rows], None, block_start)
        with f.loop(rest, end, self.tail) as i:
            mask = self.tail_mask(end, i)
            self.body(p, rows, columns, [At(i, self.tail, mask, p.reuse, i - main, end - i) for _ in rows], None, block_start)
        for r in p.reduces: self.accumulators[r].close_tail()

    def masked_step(self, p, rows, columns, main, end, copies, block_start):
        """What is left of a row that is reduced: one more step of all 32 lanes, most of them perhaps identities. Smaller steps would have to find their lanes in memory."""
        f, width = self.f, self.width
        for q in range(copies):
            first = main + q * width if q else main
            mask = f.lanes(width) < f.splat(f.convert('trunc', end - first, 'i32'), width)
            self.body(p, rows, columns, [At(first, width, mask, p.reuse, f.const(q * width), f.max(end - first, 0)) for _ in rows], q, block_start)

    def body(self, p, rows, columns, ats, copy, block_start):
        """All effects of a pass at one index: values first, then stores, since a store may overwrite what an operand reads in place."""
        f, row, at = self.f, rows[0], ats[0]
        writes = []
        for s in p.columns:
            partial, fresh = columns
            slot = values.address(f, partial[s], at.index, s.memory.dtype)
            dtype = s.memory.dtype
            if fresh: total = reduce.identities(f, s.kind, dtype, at.width)
            else: total = reduce.enter(f, values.load(f, slot, dtype, at.width, at.mask), dtype, s.kind)
            for r, a in zip(rows, ats):
                total = reduce.COMBINE[s.kind](f, total, reduce.enter(f, r.spread(s.expr, a), dtype, s.kind))
            writes.append((reduce.leave(f, total, dtype, s.kind), slot, dtype))
        for r in p.reduces:
            v, acc = row.spread(r.args[0], at), self.accumulators[r]
            extra = ()
            if r.op == 'argreduce':
                first = f.convert('trunc', at.index - block_start, 'i32')
                extra = (f.splat(first, at.width) + f.lanes(at.width) if at.width > 1 else first,)
            if copy is not None: acc.step(copy, v, *extra, mask=at.mask)
            else: acc.tail_step(at.tail, v, at.mask, *extra)
        for e, where in p.keep.items():
            values.store(f, row.spread(e, at), self.kept_at(row, e, where, at), e.dtype)
        lanes = []
        for s in p.stores:
            v, stride = row.spread(s.expr, at), s.strides.get(self.inner, 0)
            base, dtype = row.store_base(s), s.memory.dtype
            if is_one(stride): writes.append((v, values.address(f, base, at.index, dtype), dtype))
            else:
                lanes.append((v, self.spaced(base, at.index, stride, dtype, at.width), dtype))
        for v, p_, dtype in writes:
            if at.mask is not None and at.count is not None: values.store_some(f, v, p_, dtype, at.count)
            else: values.store(f, v, p_, dtype, at.mask)
        for v, addresses, dtype in lanes: values.store_lanes(f, v, addresses, dtype)
