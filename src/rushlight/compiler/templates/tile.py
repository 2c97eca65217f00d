"""The tile: the rows by two vectors of C that stay in registers while k goes by. All products are made of it: matrices, convolutions, attention.

Its size is the machine's. With 16 registers of 32 bytes it has 6 rows; with 32 registers of 64 bytes (AVX-512) it has 14, each step of k reads its elements of A
as operands of the multiply-adds, and rows come in pairs: half as many functions to compile; where the last row of a pair is missing its neighbour is computed
twice. No size changes the bits: each element of C is its own chain over k.

    tile_of(dtype)      what the machine's tile is
    Panels              how rows are cut into panels of at most a tile's
    functions           the machine code: `tiles`, for any rows and columns up to a whole tile
"""
from dataclasses import dataclass

from rushlight.compiler import jit
from rushlight.compiler.emit.ir import SIZE, Var
from rushlight.compiler.templates.pieces import ELEMENT, Internal, element, invoke, lane_mask, multiply_add, offset, prefetch, switch


@dataclass(frozen=True)
class Tile:
    dtype: str
    rows: int                                   # at most
    step: int                                   # of rows: there are functions for step, 2 * step, ... rows
    lanes: int                                  # of each of the two vectors
    k_unroll: int
    k_block: int                                # a panel of B, so many rows of it, stays in the first-level cache

    @property
    def width(self): return 2 * self.lanes

    @property
    def masked(self): return self.lanes > ELEMENT[self.dtype][2]     # with vectors of 64 bytes masked loads and stores cost no more than whole ones


WIDE = ('f32', 'f64')                           # what the wide machines' tile holds


def tile_of(dtype):
    _, size, lanes = ELEMENT[dtype]
    if jit.wide_vectors() and dtype in WIDE:
        return Tile(dtype, 14, 2, 2 * lanes, 1, 256 * 4 // size)
    return Tile(dtype, 6, 1, lanes, 4, 192 if size == 8 else 384)


def vector_of(dtype):
    """(element, bytes, lanes of a whole register): for what is neither a chain over lanes nor bound to short rows."""
    elem, size, _ = ELEMENT[dtype]
    return elem, size, tile_of(dtype).lanes


# ------------------------------------------------------------------------------------------------------------ panels of rows
def panels_of(program, tile, rows):
    """(panels, rows of a panel, how many panels have a step more): as even as steps allow, so that no small one is left over."""
    panels = program.max(program.ceildiv(rows, tile.rows), 1)
    steps = program.ceildiv(rows, tile.step)
    return panels, program.floordiv(steps, panels) * tile.step, program.mod(steps, panels)


class Panels:
    """The same in a kernel: where a panel begins and how many rows it has."""

    def __init__(self, f, tile, rows, panel_rows, tall):
        self.f, self.step, self.rows, self.panel_rows, self.tall = f, tile.step, rows, panel_rows, tall

    def first_row(self, panel):
        return self.f.min(panel * self.panel_rows + self.f.min(panel, self.tall) * self.step, self.rows)

    def count(self, panel):
        f = self.f
        return f.min(self.panel_rows + f.select(panel < self.tall, f.const(self.step), f.const(0)), self.rows - self.first_row(panel))

    @classmethod
    def even(cls, f, tile, rows):
        """Cut here, not by the recipe. Returns (panels, their Panels)."""
        panels = (rows + (tile.rows - 1)) // tile.rows
        some, steps = f.max(panels, f.const(1)), (rows + (tile.step - 1)) // tile.step
        return panels, cls(f, tile, rows, steps // some * tile.step, steps % some)


# -------------------------------------------------------------------------------------------------------------- machine code
# a_row, a_k, b_k, c_row: strides in elements; onward: continue from what C holds; columns and rows: of the tile
ARGUMENTS = [('ptr', 'a'), ('ptr', 'b'), ('ptr', 'c'), ('i64', 'depth'), ('i64', 'a_row'), ('i64', 'a_k'), ('i64', 'b_k'),
             ('i64', 'c_row'), ('i64', 'onward'), ('i64', 'columns'), ('i64', 'rows')]
SCALED = {1: 'i8', 2: 'i16', 4: 'i32', 8: 'i64'}


def functions(module, dtype):
    """`tiles`: C's rows x columns, up to a whole tile, from `depth` steps of k."""
    tile = tile_of(dtype)
    elem, _, _ = ELEMENT[dtype]
    f = Internal(module, 'tiles', ARGUMENTS)
    *common, columns, rows = f.args
    a, b, c = common[:3]
    counts = range(tile.step, tile.rows + 1, tile.step)
    with switch(f, (rows - 1) // tile.step, len(counts)) as case:
        for i, r in enumerate(counts):
            one, two = f'tile_{r}x1', f'tile_{r}x2'
            with case(i):
                def in_parts(one=one):
                    def both():                 # more than one vector, less than two
                        invoke(f, one, *common, f.const(tile.lanes), rows)
                        second = [a, element(f, b, tile.lanes, elem), element(f, c, tile.lanes, elem), *common[3:]]
                        invoke(f, one, *second, columns - tile.lanes, rows)
                    f.branch(columns > tile.lanes, both, lambda: invoke(f, one, *common, columns, rows))

                def single(one=one): invoke(f, one, *common, columns, rows)
                def whole(two=two): invoke(f, two, *common, columns, rows)
                if tile.masked: f.branch(columns > tile.lanes, whole, single)
                else: f.branch(columns.eq(tile.width), whole, in_parts)
    for r in counts:
        tile_function(module, tile, r, 2)
        tile_function(module, tile, r, 1)


def tile_function(module, tile, rows, vectors):
    """rows x (vectors * lanes) of C. Of the last vector only those lanes are touched in memory that `columns` reaches, where the tile is masked or has one
    vector. With rows in steps the last row may be missing: then it is the one before it once more."""
    elem, size, _ = ELEMENT[tile.dtype]
    lanes = tile.lanes
    f = Internal(module, f'tile_{rows}x{vectors}', ARGUMENTS)
    a, b, c, depth, a_row, a_k, b_k, c_row, onward, columns, count = f.args
    a_row, a_k, b_k, c_row = (x * size for x in (a_row, a_k, b_k, c_row))
    partial = tile.masked or vectors == 1
    masks = [None] * vectors
    if partial: masks[-1] = lane_mask(f, columns - (vectors - 1) * lanes, lanes)
    c_rows = [c]
    for _ in range(1, rows):
        c_rows.append(offset(f, c_rows[-1], c_row))
    a_offsets = Multiples(f, a_row, rows)
    if tile.step > 1:
        missing = count < rows
        c_rows[-1] = f.select(missing, c_rows[-2], c_rows[-1])
        a_offsets.replace(rows - 1, f.select(missing, a_row * (rows - 2), a_row * (rows - 1)))
    acc = [[Var(f, f.const(0, elem, lanes)) for _ in range(vectors)] for _ in range(rows)]
    for p in c_rows:
        prefetch(f, p)
    with f.when(onward.ne(0)):
        for i in range(rows):
            for v in range(vectors):
                acc[i][v].set(f.load(element(f, c_rows[i], v * lanes, elem), elem, lanes, masks[v]))
    a_at, b_at = Var(f, a), Var(f, b)

    def step():
        pa, pb = a_at.get(), b_at.get()
        columns_of_b = [f.load(element(f, pb, v * lanes, elem), elem, lanes, masks[v]) for v in range(vectors)]
        for i in range(rows):
            x = f.splat(f.load(a_offsets.address(pa, i), elem), lanes)
            for v in range(vectors):
                acc[i][v].set(multiply_add(f, x, columns_of_b[v], acc[i][v].get()))
        a_at.set(offset(f, pa, a_k))
        b_at.set(offset(f, pb, b_k))
    whole = depth & -tile.k_unroll
    with f.loop(f.const(0), whole, tile.k_unroll):
        for _ in range(tile.k_unroll):
            step()
    if tile.k_unroll > 1:
        with f.loop(whole, depth):
            step()
    if partial and not tile.masked:
        store_partial(f, [x[0].get() for x in acc], c_rows, columns, elem, lanes)
    else:
        for i in range(rows):
            for v in range(vectors):
                f.store(acc[i][v].get(), element(f, c_rows[i], v * lanes, elem), masks[v])
    return f


class Multiples:
    """Addresses that are multiples of a distance away. The odd multiples are kept, the even ones are odd ones scaled in the address: half the registers."""

    def __init__(self, f, distance, count):
        self.f, self.kept, self.replaced = f, {i: distance * i for i in range(1, count, 2)}, {}

    def replace(self, i, offset): self.replaced[i] = offset

    def address(self, base, i):
        if i == 0: return base
        if i in self.replaced: return offset(self.f, base, self.replaced[i])
        scale = i & -i
        return self.f.emit(f'getelementptr inbounds {SCALED[scale]}, ptr {base.name}, i64 {self.kept[i // scale].name}', 'ptr')


def store_partial(f, values, addresses, count, elem, lanes):
    """Store the first `count` lanes of each vector: of 32 bytes halves by the bits of count (AVX2's masked stores take dozens of cycles on some machines)."""
    if lanes * SIZE[elem] > 32:
        mask = lane_mask(f, count, lanes)
        for v, p in zip(values, addresses):
            f.store(v, p, mask)
        return

    def all_lanes():
        for v, p in zip(values, addresses):
            f.store(v, p)

    def pieces():
        rest = [Var(f, v) for v in values]
        at = [Var(f, p) for p in addresses]
        width = lanes // 2
        while width:
            with f.when((count & width).ne(0)):
                for v, p in zip(rest, at):
                    f.store(f.shuffle(v.get(), list(range(width))), p.get())
                    v.set(f.shuffle(v.get(), [(i + width) % lanes for i in range(lanes)]))
                    p.set(element(f, p.get(), width, elem))
            width //= 2
    f.branch(count.eq(lanes), all_lanes, pieces)
