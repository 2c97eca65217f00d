"""Matrix products: C[i, j] = sum over k of A[i, k] B[k, j], batched, any strides.

**The bits.** Each element of C is one chain of fused multiply-adds in ascending k, starting from 0 and continued through C in memory
from one block of k to the next. Neither blocking, packing, threads nor strides can change it. (Products with a single row or
column follow another rule, in gemv.py: lanes over k.)

**The machine code.** A micro-kernel keeps a tile of 6 rows by 2 vectors of C in registers and walks down k: per step two
vectors of B and six broadcast elements of A. A's rows and k have free strides, so it reads A in place or packed alike; B needs
adjacent columns. Packing (pack.py) is a step of its own, shared by all threads, into a temporary buffer; or, where a panel of B
is used by a single unit, that unit packs it by itself. Whether packing is worth it is decided by the recipe's integer program
from sizes and strides, so one recipe and one kernel serve all sizes.

**The epilogue** (bias, activation) runs over a tile that has just been finished and is still in the first-level cache.
"""
from dataclasses import dataclass, field

from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import gemv, pack
from rushlight.compiler.templates.pieces import (
    ELEMENT,
    Internal,
    Kernel,
    Module,
    element,
    invoke,
    lane_mask,
    multiply_add,
    offset,
    prefetch,
    switch,
)

ROWS = 6                                        # of the tile; its columns are two vectors
K_UNROLL = 4
K_BLOCK = {8: 192, 4: 384, 2: 384, 1: 384}      # by element size: a panel of B (64 bytes wide) stays in the first-level cache
IN_PLACE, PACK_SHARED, PACK_HERE = 0, 1, 2       # how B is read

# the kernel's integers
INTS = ('n', 'k', 'k_block', 'k_blocks', 'panels', 'panel_rows', 'tall_panels', 'a_panel', 'a_row', 'a_row_step', 'a_k_step',
        'b_column', 'b_k_step', 'b_line', 'b_depth', 'c_row', 'a_batch', 'b_batch', 'c_batch', 'packed_a', 'packed_b', 'unit_panels',
        'unit_columns', 'row_units', 'column_units')
POINTERS = ('a', 'b', 'c', 'a_packed', 'b_packed')


@dataclass
class Epilogue:
    """What happens to a finished element. `emit(f, value, row, column, batch, pointer, integer, scalar)` returns the new value; value has
    some width of adjacent columns starting at `column`; pointer(i), integer(i) and scalar(i) give the i-th extra operands."""
    emit: object
    pointers: list = field(default_factory=list)    # recipe pointers: (kind, index, byte offset)
    ints: list = field(default_factory=list)        # ints or SymInts
    scalars: list = field(default_factory=list)     # indices of run-time scalars


# a_row, a_k, b_k, c_row: strides in elements; onward: continue from what C holds; columns: of the tile
TILE_ARGUMENTS = [('ptr', 'a'), ('ptr', 'b'), ('ptr', 'c'), ('i64', 'depth'), ('i64', 'a_row'), ('i64', 'a_k'), ('i64', 'b_k'),
                  ('i64', 'c_row'), ('i64', 'onward'), ('i64', 'columns')]


def tile_function(module, name, dtype, rows, vectors):
    """rows x (vectors * lanes) of C from `depth` steps of k. One vector: only its first `columns` lanes are touched in memory."""
    elem, size, lanes = ELEMENT[dtype]
    f = Internal(module, name, TILE_ARGUMENTS)
    a, b, c, depth, a_row, a_k, b_k, c_row, onward, columns = f.args
    a_row, a_k, b_k, c_row = (x * size for x in (a_row, a_k, b_k, c_row))
    partial = vectors == 1
    mask = lane_mask(f, columns, lanes) if partial else None
    c_rows, a_offsets = [c], [None]
    for i in range(1, rows):
        c_rows.append(offset(f, c_rows[-1], c_row))
        a_offsets.append(a_row if i == 1 else a_offsets[-1] + a_row)
    zero = f.const(0, elem, lanes)
    acc = [[Var(f, zero) for _ in range(vectors)] for _ in range(rows)]
    for p in c_rows:
        prefetch(f, p)
    with f.when(onward.ne(0)):
        for i in range(rows):
            for v in range(vectors):
                acc[i][v].set(f.load(element(f, c_rows[i], v * lanes, elem), elem, lanes, mask))
    a_at, b_at = Var(f, a), Var(f, b)

    def step():
        pa, pb = a_at.get(), b_at.get()
        columns_of_b = [f.load(element(f, pb, v * lanes, elem), elem, lanes, mask) for v in range(vectors)]
        for i in range(rows):
            x = f.splat(f.load(offset(f, pa, a_offsets[i]) if i else pa, elem), lanes)
            for v in range(vectors):
                acc[i][v].set(multiply_add(f, x, columns_of_b[v], acc[i][v].get()))
        a_at.set(offset(f, pa, a_k))
        b_at.set(offset(f, pb, b_k))
    whole = depth & -K_UNROLL
    with f.loop(f.const(0), whole, K_UNROLL):
        for _ in range(K_UNROLL):
            step()
    with f.loop(whole, depth):
        step()
    if partial:
        store_partial(f, [x[0].get() for x in acc], c_rows, columns, elem, lanes)
    else:
        for i in range(rows):
            for v in range(vectors):
                f.store(acc[i][v].get(), element(f, c_rows[i], v * lanes, elem))
    return f


def store_partial(f, values, addresses, count, elem, lanes):
    """Store the first `count` lanes of each vector: halves by the bits of count (masked stores take dozens of cycles on some machines)."""
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


def epilogue_function(module, name, dtype, epilogue, own_pointers=len(POINTERS), own_ints=len(INTS)):
    """Apply the epilogue to rows x columns of C in place. Its operands come after the kernel's own."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, name, [('ptr', 'c'), ('i64', 'c_row'), ('i64', 'rows'), ('i64', 'columns'), ('i64', 'row'), ('i64', 'column'),
                                ('i64', 'batch'), ('ptr', 'p'), ('ptr', 'n'), ('ptr', 's')])
    c, c_row, rows, columns, row, column, batch, p, n, s = f.args

    def pointer(i):
        return f.load(f.at(p, f.const(own_pointers + i), 'ptr'), 'ptr')

    def integer(i):
        return f.load(f.at(n, f.const(own_ints + i), 'i64'), 'i64')

    def scalar(i, kind='double'):
        return f.load(f.at(s, f.const(2 * i), 'double'), kind)
    with f.loop(f.const(0), rows) as i:
        line = element(f, c, i * c_row, elem)

        def apply(j, width):
            at = element(f, line, j, elem)
            f.store(epilogue.emit(f, f.load(at, elem, width), row + i, column + j, batch, pointer, integer, scalar), at)
        whole = columns & -lanes
        with f.loop(f.const(0), whole, lanes) as j:
            apply(j, lanes)
        with f.loop(whole, columns) as j:
            apply(j, 1)
    return f


def block_function(module, name, dtype):
    """One tile of any shape up to 6 rows by two vectors of columns: picks the functions that make it up."""
    elem, _, lanes = ELEMENT[dtype]
    width = 2 * lanes
    f = Internal(module, name, [*TILE_ARGUMENTS, ('i64', 'rows')])
    *common, columns, rows = f.args
    a, b, c = common[:3]
    with switch(f, rows - 1, ROWS) as case:
        for r in range(ROWS):
            with case(r):
                def whole(r=r):
                    invoke(f, f'tile_{r + 1}x2', *common, columns)

                def parts(r=r):
                    def left():                 # more than one vector, less than two
                        invoke(f, f'tile_{r + 1}x1', *common, f.const(lanes))
                        second = [a, element(f, b, lanes, elem), element(f, c, lanes, elem), *common[3:]]
                        invoke(f, f'tile_{r + 1}x1', *second, columns - lanes)
                    f.branch(columns > lanes, left, lambda: invoke(f, f'tile_{r + 1}x1', *common, columns))
                f.branch(columns.eq(width), whole, parts)
    return f


def kernel_text(dtype, epilogue=None):
    """The module with the kernel `gemm`. Its units are blocks of C: `unit_panels` panels of rows by `unit_columns` columns of one batch."""
    elem, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
    module = Module()
    f = Kernel(module, 'gemm')
    n = {name: f.n(i) for i, name in enumerate(INTS)}
    p = {name: f.p(i) for i, name in enumerate(POINTERS)}
    a_base = f.select(n['packed_a'].ne(0), p['a_packed'], p['a'])
    b_base = f.select(n['packed_b'].eq(PACK_SHARED), p['b_packed'], p['b'])
    room = f.array(elem, K_BLOCK[size] * width)  # one panel of B, where packing is not shared
    with f.loop(f.lo, f.hi) as unit:
        batch, row_unit, column_unit = (Var(f, x) for x in (unit, f.const(0), f.const(0)))
        per_batch = n['row_units'] * n['column_units']
        with f.when(per_batch.ne(1)):            # the division is dear for small products
            batch.set(unit // per_batch)
            rest = unit % per_batch
            column_unit.set(rest // n['row_units'])
            row_unit.set(rest % n['row_units'])
        batch = batch.get()
        a_batch = element(f, a_base, batch * n['a_batch'], elem)
        b_batch = element(f, b_base, batch * n['b_batch'], elem)
        c_batch = element(f, p['c'], batch * n['c_batch'], elem)
        first_panel = row_unit.get() * n['unit_panels']
        last_panel = f.min(first_panel + n['unit_panels'], n['panels'])
        first_column = column_unit.get() * n['unit_columns']
        last_column = f.min(first_column + n['unit_columns'], n['n'])
        with f.loop(f.const(0), n['k_blocks']) as block:
            k0 = block * n['k_block']
            depth = f.min(n['k'] - k0, n['k_block'])
            with f.loop(first_column, last_column, width) as j:
                columns = f.min(last_column - j, f.const(width))
                b_at = Var(f, element(f, b_batch, j * n['b_column'] + k0 * n['b_k_step'], elem))
                with f.when(n['packed_b'].eq(PACK_HERE)):
                    source = element(f, b_batch, j * n['b_line'] + k0 * n['b_depth'], elem)
                    pack.panel_of(f, source, room, depth, columns, n['b_line'], n['b_depth'])
                    b_at.set(room)
                with f.loop(first_panel, last_panel) as panel:
                    row = panel * n['panel_rows'] + f.min(panel, n['tall_panels'])
                    rows = n['panel_rows'] + f.select(panel < n['tall_panels'], f.const(1), f.const(0))
                    a_at = element(f, a_batch, panel * n['a_panel'] + row * n['a_row'] + k0 * n['a_k_step'], elem)
                    c_at = element(f, c_batch, row * n['c_row'] + j, elem)
                    invoke(f, 'tiles', a_at, b_at.get(), c_at, depth, n['a_row_step'], n['a_k_step'], n['b_k_step'], n['c_row'],
                           block, columns, rows)
                    if epilogue:
                        with f.when((block + 1).eq(n['k_blocks'])):
                            invoke(f, 'finish', c_at, n['c_row'], rows, columns, row, j, batch, f.pointers, f.integers, f.scalars)
    block_function(module, 'tiles', dtype)
    pack.functions(module, elem, width, lanes)
    for r in range(1, ROWS + 1):
        tile_function(module, f'tile_{r}x2', dtype, r, 2)
        tile_function(module, f'tile_{r}x1', dtype, r, 1)
    if epilogue:
        epilogue_function(module, 'finish', dtype, epilogue)
    return module.text()


# ------------------------------------------------------------------------------------------------------------ lowering
@dataclass
class Operand:
    """A matrix in memory: which pointer, how many bytes after it, and element strides (batch, row, column), as ints or SymInts."""
    pointer: tuple                              # ('arg', k), ('dest', k), ('buffer', i), or a caller's own mark; ('temporary', i) is ours
    offset: object
    strides: tuple


@dataclass
class Step:
    """One recipe step in symbolic terms: the caller compiles `text`, turns ints into slots and ('temporary', i) into buffers."""
    text: str
    symbol: str
    pointers: list                              # (kind, index, byte offset: int or SymInt)
    ints: list
    scalars: list
    units: object
    grain: object
    cost: object                                # bytes touched, as the contract counts work
    scratch: object = 0


# Where packing begins to pay (measured): B when it is beyond the first-level cache and has enough rows to be reused by, or when its
# columns are not adjacent; A when it is beyond the second level, or earlier when k is not contiguous in it.
PACK_B_ROWS, PACK_B_SIZE = 24, 128 * 160
PACK_A_COLUMNS, PACK_A_SIZE, PACK_A_SIZE_STRIDED = 64, 320 * 320, 150 * 150
UNIT_PANELS = 20                                # 120 rows of A times one block of k: half of a 512 KB second-level cache
UNIT_COLUMNS = 64                               # at least; each unit walks down all of its rows of A once for every vector pair of columns
UNITS = 16                                      # enough for any cut to be nearly even


def lower(program, dtype, batch, m, n, k, a, b, c, epilogue=None):
    """The product as recipe steps: (bytes of each temporary, steps). C's columns must be adjacent or, if its rows are, the
    transposed product is computed: the same chains. Sizes and strides are ints or SymInts; nothing is guarded but C's layout."""
    if any(isinstance(x, int) and x == 0 for x in (batch, m, n)):
        return [], []
    if symbolic_eq(m, 1):
        return gemv.lower(program, dtype, batch, n, k, (a, a.strides[2]), (b, b.strides[1], b.strides[2]), (c, c.strides[2]), epilogue)
    if symbolic_eq(n, 1):
        return gemv.lower(program, dtype, batch, m, k, (b, b.strides[1]), (a, a.strides[2], a.strides[1]), (c, c.strides[1]), epilogue,
                          flipped=True)
    if not symbolic_eq(c.strides[2], 1):
        if not symbolic_eq(c.strides[1], 1):
            raise ValueError('gemm.lower: one of the strides of C must be 1; write to a buffer and copy')
        assert epilogue is None, 'the epilogue runs along the rows of C'
        a, b, c, m, n = flipped(b), flipped(a), flipped(c), n, m
    elem, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
    pr = program
    panels = pr.max(pr.ceildiv(m, ROWS), 1)
    panel_rows, tall_panels = pr.floordiv(m, panels), pr.mod(m, panels)
    column_panels = pr.ceildiv(n, width)
    k_blocks = pr.max(pr.ceildiv(k, K_BLOCK[size]), 1)
    k_block = pr.ceildiv(pr.ceildiv(k, k_blocks), 8) * 8

    # Units: blocks of at most 20 panels of rows, cut further along columns until there are about 16 to share out
    row_units = pr.ceildiv(panels, UNIT_PANELS)
    unit_panels = pr.ceildiv(panels, row_units)
    column_units = pr.ceildiv(UNITS, pr.max(row_units * batch, 1))
    unit_columns = pr.max(pr.ceildiv(pr.ceildiv(n, column_units), width) * width, UNIT_COLUMNS)
    column_units = pr.max(pr.ceildiv(n, unit_columns), 1)
    per_batch = row_units * column_units

    pack_b = pr.logical_or(pr.ne(b.strides[2], 1), pr.logical_and(pr.lt(PACK_B_ROWS, m), pr.lt(PACK_B_SIZE, n * k)))
    share_b = pr.logical_and(pack_b, pr.lt(1, row_units))      # with one block of rows no two units would use the same panel
    a_size = pr.select(pr.eq(a.strides[2], 1), PACK_A_SIZE, PACK_A_SIZE_STRIDED)
    pack_a = pr.logical_and(pr.lt(PACK_A_COLUMNS, n), pr.lt(a_size, m * k))
    # an operand shared by all batches is packed once
    a_batches = pr.select(pack_a, pr.select(pr.eq(a.strides[0], 0), pr.min(batch, 1), batch), 0)
    b_batches = pr.select(share_b, pr.select(pr.eq(b.strides[0], 0), pr.min(batch, 1), batch), 0)
    temporaries = [a_batches * panels * (ROWS * size) * k, b_batches * column_panels * (width * size) * k]
    packed_a, packed_b = ('temporary', 0, 0), ('temporary', 1, 0)
    steps = []
    for operand, target, batches, count, lines, first, tall, pitch, line_step, k_step in (
            (a, packed_a, a_batches, panels, m, panel_rows, tall_panels, ROWS, a.strides[1], a.strides[2]),
            (b, packed_b, b_batches, column_panels, n, width, 0, width, b.strides[2], b.strides[1])):
        if isinstance(batches, int) and batches == 0:
            continue
        steps.append(Step(pack.kernel_text(dtype, pitch), 'pack', [(*operand.pointer, operand.offset), target],
                          [k, count, first, tall, line_step, k_step, operand.strides[0], lines], [],
                          batches * count, pr.max(pr.floordiv(16384, pr.max(k * pitch, 1)), 1), batches * count * k * (pitch * size * 2)))

    zero_a, zero_b = pr.eq(a.strides[0], 0), pr.eq(b.strides[0], 0)
    ints = {
        'n': n, 'k': k, 'k_block': k_block, 'k_blocks': k_blocks, 'panels': panels, 'panel_rows': panel_rows, 'tall_panels': tall_panels,
        'a_panel': pr.select(pack_a, k * ROWS, 0), 'a_row': pr.select(pack_a, 0, a.strides[1]),
        'a_row_step': pr.select(pack_a, 1, a.strides[1]), 'a_k_step': pr.select(pack_a, ROWS, a.strides[2]),
        'b_column': pr.select(share_b, k, 1), 'b_k_step': pr.select(pack_b, width, b.strides[1]), 'c_row': c.strides[1],
        'a_batch': pr.select(pack_a, pr.select(zero_a, 0, panels * ROWS * k), a.strides[0]),
        'b_line': b.strides[2], 'b_depth': b.strides[1],
        'b_batch': pr.select(share_b, pr.select(zero_b, 0, column_panels * width * k), b.strides[0]),
        'c_batch': c.strides[0], 'packed_a': pack_a,
        'packed_b': pr.select(share_b, PACK_SHARED, pr.select(pack_b, PACK_HERE, IN_PLACE)),
        'unit_panels': unit_panels, 'unit_columns': unit_columns, 'row_units': row_units, 'column_units': column_units,
    }
    extra = epilogue or Epilogue(None)
    # work in bytes touched: this many operations take the time of one byte
    work = pr.max(pr.floordiv(m * n * k, 6), m * n * size)
    # several small products to one chunk
    grain = pr.max(pr.floordiv(1 << 15, pr.max(pr.floordiv(work, per_batch), 1)), 1)
    steps.append(Step(kernel_text(dtype, epilogue), 'gemm',
                      [(*a.pointer, a.offset), (*b.pointer, b.offset), (*c.pointer, c.offset), packed_a, packed_b, *extra.pointers],
                      [ints[name] for name in INTS] + list(extra.ints), list(extra.scalars), per_batch * batch, grain, batch * work))
    # an empty C has no work: the panel counts above are at least 1
    steps[-1].units = pr.select(pr.eq(m * n, 0), 0, steps[-1].units)
    return temporaries, steps


def flipped(x):
    """The transposed matrix."""
    return Operand(x.pointer, x.offset, (x.strides[0], x.strides[2], x.strides[1]))


def symbolic_eq(x, value):
    return bool(x == value)                     # a SymInt decides by its hint and adds a guard if its class leaves it open
