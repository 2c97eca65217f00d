"""Matrix products: C[i, j] = sum over k of A[i, k] B[k, j], batched, any strides.

**The bits.** Each element of C is one chain of fused multiply-adds in ascending k, starting from 0 and continued through C in memory
from one block of k to the next. Neither blocking, packing, threads nor strides can change it. (Products with a single row or
column follow another rule, in gemv.py: lanes over k.)

**The machine code.** A micro-kernel (tile.py) keeps a tile of 6 or 14 rows by 2 vectors of C in registers and walks down k: per step two
vectors of B and an element of A for each row. A's rows and k have free strides, so it reads A in place or packed alike; B needs
adjacent columns. Packing (pack.py) is a step of its own, shared by all threads, into a temporary buffer; or, where a panel of B
is used by a single unit, that unit packs it by itself. Whether packing is worth it is decided by the recipe's integer program
from sizes and strides, so one recipe and one kernel serve all sizes.

**The epilogue** (bias, activation) runs over a tile that has just been finished and is still in the first-level cache.
"""
from dataclasses import dataclass, field

from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import gemv, pack
from rushlight.compiler.templates import tile as tiles
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke
from rushlight.compiler.templates.tile import Panels, panels_of, tile_of

IN_PLACE, PACK_SHARED, PACK_HERE = 0, 1, 2       # how B is read

# the kernel's integers
INTS = ('m', 'n', 'k', 'k_block', 'k_blocks', 'panels', 'panel_rows', 'tall_panels', 'a_panel', 'a_row', 'a_row_step', 'a_k_step',
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


def kernel_text(dtype, epilogue=None):
    """The module with the kernel `gemm`. Its units are blocks of C: `unit_panels` panels of rows by `unit_columns` columns of one batch."""
    elem, _, lanes = ELEMENT[dtype]
    tile = tile_of(dtype)
    width = tile.width
    module = Module()
    f = Kernel(module, 'gemm')
    n = {name: f.n(i) for i, name in enumerate(INTS)}
    p = {name: f.p(i) for i, name in enumerate(POINTERS)}
    a_base = f.select(n['packed_a'].ne(0), p['a_packed'], p['a'])
    b_base = f.select(n['packed_b'].eq(PACK_SHARED), p['b_packed'], p['b'])
    room = f.array(elem, tile.k_block * width)   # one panel of B, where packing is not shared
    panels = Panels(f, tile, n['m'], n['panel_rows'], n['tall_panels'])
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
                    row, rows = panels.first_row(panel), panels.count(panel)
                    a_at = element(f, a_batch, panel * n['a_panel'] + row * n['a_row'] + k0 * n['a_k_step'], elem)
                    c_at = element(f, c_batch, row * n['c_row'] + j, elem)
                    invoke(f, 'tiles', a_at, b_at.get(), c_at, depth, n['a_row_step'], n['a_k_step'], n['b_k_step'], n['c_row'],
                           block, columns, rows)
                    if epilogue:
                        with f.when((block + 1).eq(n['k_blocks'])):
                            invoke(f, 'finish', c_at, n['c_row'], rows, columns, row, j, batch, f.pointers, f.integers, f.scalars)
    tiles.functions(module, dtype)
    pack.functions(module, elem, width, lanes)
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
UNIT_ROWS = 126                                 # of A, times one block of k: half of a 512 KB second-level cache
UNIT_COLUMNS = 64                               # at least; each unit walks down all of its rows of A once for every vector pair of columns
UNITS = 16                                      # enough for any cut to be nearly even


def cut(pr, tile, batch, row_panels, columns, most=None, units=UNITS):
    """(unit_panels, row_units, unit_columns, column_units): blocks of at most UNIT_ROWS rows, cut along columns until there are about `units` to share out. most: of columns."""
    width = tile.width
    row_units = pr.max(pr.ceildiv(row_panels, UNIT_ROWS // tile.rows), 1)
    unit_panels = pr.ceildiv(row_panels, row_units)
    column_units = pr.ceildiv(units, pr.max(row_units * batch, 1))
    unit_columns = pr.max(pr.ceildiv(pr.ceildiv(columns, column_units), width) * width, UNIT_COLUMNS)
    if most is not None:
        unit_columns = pr.min(unit_columns, most)
    return unit_panels, row_units, unit_columns, pr.max(pr.ceildiv(columns, unit_columns), 1)


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
    _, size, _ = ELEMENT[dtype]
    tile = tile_of(dtype)
    width = tile.width
    pr = program
    panels, panel_rows, tall_panels = panels_of(pr, tile, m)
    column_panels = pr.ceildiv(n, width)
    k_blocks = pr.max(pr.ceildiv(k, tile.k_block), 1)
    k_block = pr.ceildiv(pr.ceildiv(k, k_blocks), 8) * 8

    unit_panels, row_units, unit_columns, column_units = cut(pr, tile, batch, panels, n)
    per_batch = row_units * column_units

    pack_b = pr.logical_or(pr.ne(b.strides[2], 1), pr.logical_and(pr.lt(PACK_B_ROWS, m), pr.lt(PACK_B_SIZE, n * k)))
    share_b = pr.logical_and(pack_b, pr.lt(1, row_units))      # with one block of rows no two units would use the same panel
    a_size = pr.select(pr.eq(a.strides[2], 1), PACK_A_SIZE, PACK_A_SIZE_STRIDED)
    pack_a = pr.logical_and(pr.lt(PACK_A_COLUMNS, n), pr.lt(a_size, m * k))
    # an operand shared by all batches is packed once
    a_batches = pr.select(pack_a, pr.select(pr.eq(a.strides[0], 0), pr.min(batch, 1), batch), 0)
    b_batches = pr.select(share_b, pr.select(pr.eq(b.strides[0], 0), pr.min(batch, 1), batch), 0)
    temporaries = [a_batches * panels * (tile.rows * size) * k, b_batches * column_panels * (width * size) * k]
    packed_a, packed_b = ('temporary', 0, 0), ('temporary', 1, 0)
    steps = []
    for operand, target, batches, count, lines, first, tall, pitch, line_step, k_step in (
            (a, packed_a, a_batches, panels, m, panel_rows, tall_panels, tile.rows, a.strides[1], a.strides[2]),
            (b, packed_b, b_batches, column_panels, n, width, 0, width, b.strides[2], b.strides[1])):
        if isinstance(batches, int) and batches == 0:
            continue
        steps.append(Step(pack.kernel_text(dtype, pitch), 'pack', [(*operand.pointer, operand.offset), target],
                          [k, count, first, tall, line_step, k_step, operand.strides[0], lines], [],
                          batches * count, pr.max(pr.floordiv(16384, pr.max(k * pitch, 1)), 1), batches * count * k * (pitch * size * 2)))

    zero_a, zero_b = pr.eq(a.strides[0], 0), pr.eq(b.strides[0], 0)
    ints = {
        'm': m, 'n': n, 'k': k, 'k_block': k_block, 'k_blocks': k_blocks, 'panels': panels, 'panel_rows': panel_rows, 'tall_panels': tall_panels,
        'a_panel': pr.select(pack_a, k * tile.rows, 0), 'a_row': pr.select(pack_a, 0, a.strides[1]),
        'a_row_step': pr.select(pack_a, 1, a.strides[1]), 'a_k_step': pr.select(pack_a, tile.rows, a.strides[2]),
        'b_column': pr.select(share_b, k, 1), 'b_k_step': pr.select(pack_b, width, b.strides[1]), 'c_row': c.strides[1],
        'a_batch': pr.select(pack_a, pr.select(zero_a, 0, panels * tile.rows * k), a.strides[0]),
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
