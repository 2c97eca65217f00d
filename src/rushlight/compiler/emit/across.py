"""Row reductions of operands that are dense along another axis (the channels of a channels_last image): vectors run across that axis, the row's 32 lanes lie in memory.

The order is that of every row reduction (contract, section 8): element i of a block goes to lane i mod 32, lanes are folded by halving, blocks are combined
pairwise by a binary counter. Only here a lane is a vector of neighbouring rows.
"""
from ..graph import itemsize
from ..loops import BLOCK, closure, is_one
from ..symbolic import product
from . import reduce, values
from .ir import Var
from .llvm import MASKABLE, TAIL, At, Evaluator, Row

COLUMNS = 256         # rows (neighbours in memory) of one work unit
LANES = reduce.LANES


class AcrossEmitter(Evaluator):
    def __init__(self, program, sizes, outer, along, inner, store, kind):
        super().__init__(program, inner, closure([store.expr]))
        self.sizes, self.along, self.store, self.kind = sizes, along, store, kind
        self.value, self.dtype = store.expr, store.expr.dtype
        self.combined = reduce.COMBINE[kind]
        self.hoist()
        f = self.f
        width = 32 if itemsize(self.dtype) <= 4 else 16
        count, columns, length = product(sizes[a] for a in outer), sizes[inner], product(sizes[a] for a in along)
        chunks = program.ceildiv(columns, COLUMNS)
        self.units = count * chunks
        self.grain = program.max(1, program.floordiv(16384, program.max(1, length * program.min(columns, COLUMNS))))
        self.cost = count * columns * length * (itemsize(self.dtype) + 4)
        self.length = self.n(length)
        self.rooms = {}
        size, pieces, masked = self.n(columns), self.n(chunks), self.dense()
        with f.loop(self.lo, self.hi) as unit:
            index = self.split(outer, unit // pieces)
            first = (unit % pieces) * COLUMNS
            last = f.min(first + COLUMNS, size)
            main = first + ((last - first) & -width)
            with f.loop(first, main, width) as c: self.rows(index, c, width, None)
            if masked:
                with f.loop(main, last, TAIL) as c: self.rows(index, c, TAIL, f.lanes(TAIL) < f.splat(f.convert('trunc', last - c, 'i32'), TAIL))
            else:
                with f.loop(main, last) as c: self.rows(index, c, 1, None)

    def dense(self):
        """May the last rows be masked: every access dense across them, and of a type that masks well."""
        def ok(strides, dtype): return is_one(strides.get(self.inner, 1)) and values.MEMORY[dtype] in MASKABLE and dtype not in values.PAIR
        loads = [e for e in self.exprs if e.op == 'load' and self.varies(e)]
        return all(ok(e.attrs['strides'], e.dtype) and not e.args for e in loads) and ok(self.store.strides, self.store.memory.dtype)

    def room(self, what, count, width):
        """Memory for `count` vectors of each part of an accumulator."""
        if (what, width) not in self.rooms:
            self.rooms[what, width] = [(self.f.array(v.elem, count, width), v.elem) for v in reduce.identities(self.f, self.kind, self.dtype, width)]
        return self.rooms[what, width]

    def slot(self, room, number, width): return [self.f.at(p, number * width, elem) for p, elem in room]
    def read(self, room, number, width): return tuple(self.f.load(p, elem, width) for p, (_, elem) in zip(self.slot(room, number, width), room))
    def write(self, room, number, width, vs):
        for p, v in zip(self.slot(room, number, width), vs): self.f.store(v, p)

    def rows(self, index, column, width, mask):
        """`width` rows at once."""
        f = self.f
        lanes, stack = self.room('lanes', LANES, width), self.room('stack', 64, width)
        empty = reduce.identities(f, self.kind, self.dtype, width)
        blocks, depth = Var(f, f.const(0)), Var(f, f.const(0))
        with f.loop(f.const(0), self.length, BLOCK) as start:
            with f.loop(f.const(0), f.const(LANES)) as lane: self.write(lanes, lane, width, empty)
            with f.loop(start, f.min(start + BLOCK, self.length)) as i:
                row, at = Row(self, {**index, **self.split(self.along, i)}), At(column, width, mask)
                row.prepare([self.value], {width})
                v = row.element(self.value, at) if self.varies(self.value) else row.value(self.value, width)
                lane = i & (LANES - 1)
                self.write(lanes, lane, width, self.combined(f, self.read(lanes, lane, width), reduce.enter(f, v, self.dtype, self.kind)))
            half = LANES
            while half > 1:
                half //= 2
                with f.loop(f.const(0), f.const(half)) as lane:
                    self.write(lanes, lane, width, self.combined(f, self.read(lanes, lane, width), self.read(lanes, lane + half, width)))
            self.push(stack, blocks, depth, self.read(lanes, f.const(0), width), width)
        self.put(index, column, reduce.leave(f, self.popped(stack, depth, empty, width), self.dtype, self.kind), mask)

    def push(self, stack, blocks, depth, vs, width):
        """Add a block's result: two results of equal rank become one of the next."""
        f = self.f
        carry, left = [Var(f, v) for v in vs], Var(f, blocks.get())
        with f.loop_while(lambda: (left.get() & 1).ne(0)):
            depth.set(depth.get() - 1)
            for var, v in zip(carry, self.combined(f, self.read(stack, depth.get(), width), tuple(c.get() for c in carry))): var.set(v)
            left.set(left.get() >> 1)
        self.write(stack, depth.get(), width, [c.get() for c in carry])
        depth.set(depth.get() + 1)
        blocks.set(blocks.get() + 1)

    def popped(self, stack, depth, empty, width):
        """What is left, combined from the latest back."""
        f = self.f
        out = [Var(f, v) for v in empty]
        with f.when(depth.get() > 0):
            at = Var(f, depth.get() - 1)
            for var, v in zip(out, self.read(stack, at.get(), width)): var.set(v)
            with f.loop_while(lambda: at.get() > 0):
                at.set(at.get() - 1)
                for var, v in zip(out, self.combined(f, self.read(stack, at.get(), width), tuple(o.get() for o in out))): var.set(v)
        return tuple(o.get() for o in out)

    def put(self, index, column, v, mask):
        f, s = self.f, self.store
        row = Row(self, {**index, **{a: f.const(0) for a in self.along}})
        base, stride, dtype = row.store_base(s), s.strides.get(self.inner, 0), s.memory.dtype
        if is_one(stride): return values.store(f, v, values.address(f, base, column, dtype), dtype, mask)
        return values.store_lanes(f, v, self.spaced(base, column, stride, dtype, v.width), dtype)
