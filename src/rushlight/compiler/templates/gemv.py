"""Products with one row or one column, and dot products: y[j] = sum over k of x[k] B[k, j], batched, any strides.

**The bits.** A single output has no neighbours to fill a vector with, so k itself is spread: k is cut in blocks of 16384; inside a
block element i goes to lane i mod 32; each lane is a chain of fused multiply-adds in ascending i from 0; lanes are folded by
halving (lane l takes lane l + 16, then + 8, ...); block sums are added in ascending order. This depends on the sizes alone. Three
ways of reading B keep it: along k where B's columns are contiguous (lanes are vector lanes), across columns where its rows are
(lanes are 32 rows of accumulators on the stack), and through a gathered copy for any other strides.

A unit is one group of outputs times one block of k, so a long dot product is shared between threads too; with more than one
block the block sums go to a temporary and a second kernel adds them.
"""
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke, lane_mask, multiply_add

LANES = 32
BLOCK = 16384
GROUP = 64                                      # outputs of a unit

INTS = ('k', 'count', 'blocks', 'groups', 'x_step', 'b_k', 'b_j', 'y_step', 'x_batch', 'b_batch', 'y_batch', 'y_block')
POINTERS = ('x', 'b', 'y')
COMBINE_INTS = ('count', 'blocks', 'y_step', 'y_batch')


def scratch_bytes(program, size, x_step, b_k, b_j):
    """Gathered copies of x and of a column of B, where their strides ask for them."""
    one = program.eq
    read_in_place = program.select(one(b_k, 1), one(x_step, 1), one(b_j, 1))
    return program.select(read_in_place, 0, 2 * BLOCK * size)


def fold(f, lanes):
    """The sum of 32 lanes, halving: 16 takes 16, 8 takes 8 ... `lanes` is the list of vectors that hold them in order."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    v = lanes[0]
    width = v.width
    while width > 1:
        width //= 2
        v = f.shuffle(v, list(range(width))) + f.shuffle(v, list(range(width, 2 * width)))
    return v


def dot_function(module, name, dtype, outputs):
    """`outputs` sums along a contiguous k."""
    elem, _, width = ELEMENT[dtype]
    width = min(width, LANES)
    parts = LANES // width
    f = Internal(module, name, [('ptr', 'x'), ('ptr', 'b'), ('ptr', 'y'), ('i64', 'depth'), ('i64', 'b_j'), ('i64', 'y_step')])
    x, b, y, depth, b_j, y_step = f.args
    columns = [b]
    for _ in range(1, outputs):
        columns.append(element(f, columns[-1], b_j, elem))
    acc = [[Var(f, f.const(0, elem, width)) for _ in range(parts)] for _ in range(outputs)]
    whole = depth & -LANES
    with f.loop(f.const(0), whole, LANES) as k:
        for part in range(parts):
            at = k + part * width
            xs = f.load(element(f, x, at, elem), elem, width)
            for j in range(outputs):
                acc[j][part].set(multiply_add(f, xs, f.load(element(f, columns[j], at, elem), elem, width), acc[j][part].get()))
    with f.when(whole < depth):
        left = f.convert('trunc', depth - whole, 'i32')
        for part in range(parts):
            mask = f.vector(range(part * width, (part + 1) * width), 'i32') < f.splat(left, width)
            at = whole + part * width
            xs = f.load(element(f, x, at, elem), elem, width, mask)
            for j in range(outputs):
                more = multiply_add(f, xs, f.load(element(f, columns[j], at, elem), elem, width, mask), acc[j][part].get())
                acc[j][part].set(f.select(mask, more, acc[j][part].get()))         # adding 0 would turn -0 into 0
    for j in range(outputs):
        f.store(fold(f, [v.get() for v in acc[j]]), element(f, y, y_step * j, elem))


ROWS_DEEP = 4                                   # rows of one lane read before its accumulators go back to memory


def across_function(module, name, dtype, vectors, width):
    """vectors * width adjacent outputs: 32 rows of accumulators in `room`, each row of B added to row i mod 32. A single vector may
    be partial: only its first `left` columns exist."""
    elem, _, _ = ELEMENT[dtype]
    f = Internal(module, name, [('ptr', 'x'), ('ptr', 'b'), ('ptr', 'y'), ('i64', 'depth'), ('i64', 'x_step'), ('i64', 'b_k'),
                                ('i64', 'y_step'), ('ptr', 'room'), ('i64', 'left')])
    x, b, y, depth, x_step, b_k, y_step, room, left = f.args
    span = vectors * width
    zero = f.const(0, elem, width)
    mask = lane_mask(f, f.min(left, f.const(width)), width) if vectors == 1 else None
    with f.loop(f.const(0), f.const(LANES * span), span) as i:
        for v in range(vectors):
            f.store(zero, element(f, room, i + v * width, elem))

    def rows(first, deep):
        """Rows first, first + 32, ... (`deep` of them) into the accumulators of their lane."""
        here = element(f, room, (first & (LANES - 1)) * span, elem)
        scale = [f.splat(f.load(element(f, x, (first + LANES * d) * x_step, elem), elem), width) for d in range(deep)]
        lines = [element(f, b, (first + LANES * d) * b_k, elem) for d in range(deep)]
        for v in range(vectors):
            at = element(f, here, v * width, elem)
            total = f.load(at, elem, width)
            for d in range(deep):
                total = multiply_add(f, scale[d], f.load(element(f, lines[d], v * width, elem), elem, width, mask), total)
            f.store(total, at)
    deep_span = LANES * ROWS_DEEP
    whole = depth & -deep_span
    with f.loop(f.const(0), whole, deep_span) as k:
        with f.loop(k, k + LANES) as row:
            rows(row, ROWS_DEEP)
    with f.loop(whole, depth) as row:
        rows(row, 1)
    half = LANES // 2
    while half:
        with f.loop(f.const(0), f.const(half * span), width) as i:
            at = element(f, room, i, elem)
            f.store(f.load(at, elem, width) + f.load(element(f, at, half * span, elem), elem, width), at)
        half //= 2

    def adjacent():
        for v in range(vectors):
            f.store(f.load(element(f, room, v * width, elem), elem, width), element(f, y, v * width, elem))

    def apart():
        with f.loop(f.const(0), f.min(left, f.const(span))) as i:
            f.store(f.load(element(f, room, i, elem), elem), element(f, y, i * y_step, elem))
    in_place = y_step.eq(1)
    f.branch(in_place if vectors > 1 else in_place & (left >= width), adjacent, apart)


def gather_function(module, name, elem):
    """Copy `count` elements `step` apart to adjacent places."""
    f = Internal(module, name, [('ptr', 'source'), ('ptr', 'target'), ('i64', 'count'), ('i64', 'step')])
    source, target, count, step = f.args
    with f.loop(f.const(0), count) as i:
        f.store(f.load(element(f, source, i * step, elem), elem), element(f, target, i, elem))


def finish_outputs(f, epilogue, elem, y, first, last, step, batch, flipped, offset_pointers, offset_ints):
    """The epilogue over finished outputs, one by one (they are few)."""
    def pointer(i):
        return f.load(f.at(f.pointers, f.const(offset_pointers + i), 'ptr'), 'ptr')

    def integer(i):
        return f.load(f.at(f.integers, f.const(offset_ints + i), 'i64'), 'i64')

    def scalar(i, kind='double'):
        return f.load(f.at(f.scalars, f.const(2 * i), 'double'), kind)
    with f.loop(first, last) as j:
        at = element(f, y, j * step, elem)
        row, column = (j, f.const(0)) if flipped else (f.const(0), j)
        f.store(epilogue.emit(f, f.load(at, elem), row, column, batch, pointer, integer, scalar), at)


def kernel_text(dtype, epilogue=None, flipped=False):
    """The module with the kernel `gemv`. flipped: outputs are rows of the product, not columns (only the epilogue cares)."""
    elem, size, width = ELEMENT[dtype]
    outputs_at_once = max(1, 2 * width // 8)     # f32: 2 outputs, 8 accumulators
    module = Module()
    f = Kernel(module, 'gemv')
    n = {name: f.n(i) for i, name in enumerate(INTS)}
    p = {name: f.p(i) for i, name in enumerate(POINTERS)}
    room_x = f.scratch
    room_b = element(f, room_x, BLOCK, elem)
    sums = f.array(elem, LANES * GROUP)          # 8 or 16 KB of stack: no per-thread memory to ask for
    along = n['b_k'].eq(1)
    # one output is read along k whatever its column stride
    across = f.select(along, f.const(0, 'i1'), n['b_j'].eq(1))
    with f.loop(f.lo, f.hi) as unit:
        block, group, batch = (Var(f, x) for x in (f.const(0), f.const(0), unit))
        with f.when((n['blocks'] * n['groups']).ne(1)):
            block.set(unit % n['blocks'])
            rest = unit // n['blocks']
            group.set(rest % n['groups'])
            batch.set(rest // n['groups'])
        batch, first_k, first = batch.get(), block.get() * BLOCK, group.get() * GROUP
        last = f.min(first + GROUP, n['count'])
        depth = f.min(n['k'] - first_k, f.const(BLOCK))
        x = Var(f, element(f, p['x'], batch * n['x_batch'] + first_k * n['x_step'], elem))
        b = element(f, p['b'], batch * n['b_batch'] + first_k * n['b_k'], elem)
        y = element(f, p['y'], batch * n['y_batch'] + block.get() * n['y_block'], elem)

        def rows_of_columns():
            j = Var(f, first)
            for name, span in (('across_group', GROUP), ('across_vector', width)):
                def more(span=span):             # whole groups, then vectors of which the last may be partial
                    return j.get() + span <= last if span == GROUP else j.get() < last
                with f.loop_while(more):
                    at = j.get()
                    invoke(f, name, x.get(), element(f, b, at, elem), element(f, y, at * n['y_step'], elem), depth, n['x_step'], n['b_k'],
                           n['y_step'], sums, last - at)
                    j.set(at + span)

        def columns():
            with f.when(n['x_step'].ne(1)):
                invoke(f, 'gather', x.get(), room_x, depth, n['x_step'])
                x.set(room_x)

            def contiguous():
                j = Var(f, first)
                for name, span in (('dots', outputs_at_once), ('dot', 1))[outputs_at_once == 1:]:
                    with f.loop_while(lambda span=span: j.get() + span <= last):
                        at = j.get()
                        invoke(f, name, x.get(), element(f, b, at * n['b_j'], elem), element(f, y, at * n['y_step'], elem), depth, n['b_j'],
                               n['y_step'])
                        j.set(at + span)

            def gathered():
                with f.loop(first, last) as j:
                    invoke(f, 'gather', element(f, b, j * n['b_j'], elem), room_b, depth, n['b_k'])
                    invoke(f, 'dot', x.get(), room_b, element(f, y, j * n['y_step'], elem), depth, n['b_j'], n['y_step'])
            f.branch(along, contiguous, gathered)
        f.branch(across, rows_of_columns, columns)
        if epilogue:
            with f.when(n['blocks'].eq(1)):
                finish_outputs(f, epilogue, elem, y, first, last, n['y_step'], batch, flipped, len(POINTERS), len(INTS))
    dot_function(module, 'dot', dtype, 1)
    if outputs_at_once > 1:
        dot_function(module, 'dots', dtype, outputs_at_once)
    across_function(module, 'across_group', dtype, GROUP // width, width)
    across_function(module, 'across_vector', dtype, 1, width)
    gather_function(module, 'gather', elem)
    return module.text()


def combine_text(dtype, epilogue=None, flipped=False):
    """The module with the kernel `combine`: y[j] = the block sums of output j, added in ascending order. Units are batches."""
    elem, _, _ = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'combine')
    count, blocks, step, y_batch = (f.n(i) for i in range(4))
    sums, target = f.p(0), f.p(1)
    with f.loop(f.lo, f.hi) as batch:
        here = element(f, sums, batch * blocks * count, elem)
        y = element(f, target, batch * y_batch, elem)
        with f.loop(f.const(0), count) as j:
            total = Var(f, f.load(element(f, here, j, elem), elem))
            with f.loop(f.const(1), blocks) as i:
                total.set(total.get() + f.load(element(f, here, i * count + j, elem), elem))
            f.store(total.get(), element(f, y, j * step, elem))
        if epilogue:
            finish_outputs(f, epilogue, elem, y, f.const(0), count, step, batch, flipped, 2, len(COMBINE_INTS))
    return module.text()


def lower(program, dtype, batch, count, k, x, b, y, epilogue=None, flipped=False):
    """x: (operand, stride); b: (operand, k stride, j stride); y: (operand, stride). Returns (bytes of each temporary, steps)."""
    from rushlight.compiler.templates.gemm import Epilogue, Step
    pr = program
    _, size, _ = ELEMENT[dtype]
    (x, x_step), (b, b_k, b_j), (y, y_step) = x, b, y
    blocks, groups = pr.max(pr.ceildiv(k, BLOCK), 1), pr.ceildiv(count, GROUP)
    several = pr.lt(1, blocks)
    extra = epilogue or Epilogue(None)
    steps, temporaries = [], [pr.select(several, batch * count * blocks * size, 0)]
    work = batch * count * pr.max(k, 1) * size
    if isinstance(several, int):                 # known: write where it belongs
        direct = not several
    else:                                        # blocks of k depend on the call: the choice is the recipe's, by a guard
        direct = not program.decide('lt', 1, blocks)
    target = (*y.pointer, y.offset) if direct else ('temporary', 0, 0)
    ints = [k, count, blocks, groups, x_step, b_k, b_j, y_step if direct else 1, x.strides[0], b.strides[0],
            y.strides[0] if direct else count * blocks, 0 if direct else count]
    mine = extra if direct else Epilogue(None)
    steps.append(Step(kernel_text(dtype, epilogue if direct else None, flipped), 'gemv',
                      [(*x.pointer, x.offset), (*b.pointer, b.offset), target, *mine.pointers], ints + list(mine.ints), list(mine.scalars),
                      batch * groups * blocks, pr.max(pr.floordiv(1 << 16, pr.max(pr.min(k, BLOCK) * (GROUP * size), 1)), 1), work,
                      scratch_bytes(pr, size, x_step, b_k, b_j)))
    if not direct:
        steps.append(Step(combine_text(dtype, epilogue, flipped), 'combine', [('temporary', 0, 0), (*y.pointer, y.offset), *extra.pointers],
                          [count, blocks, y_step, y.strides[0]] + list(extra.ints), list(extra.scalars), batch, 1,
                          batch * count * blocks * size))
    return temporaries if not direct else [], steps
