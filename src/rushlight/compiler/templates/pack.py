"""Packing: copying a matrix into the order in which the micro-kernel reads it.

A becomes panels of up to a tile's rows, element (i, k) of a panel at k * rows + i; B becomes panels of two vectors of columns, element (k, j) at
k * width + j. Both are one kernel with two strides: a panel has `lines` lines (rows of A, columns of B), the destination holds `depth`
groups of `pitch` elements. Where k is contiguous in memory, squares are transposed in registers; where the lines are, they are copied;
any other strides go element by element. Lanes beyond the last line are left as they are: nobody reads them.
"""
from rushlight.compiler.emit.ir import SIZE
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke, lane_mask, prefetch, transpose
from rushlight.compiler.templates.tile import Panels, tile_of

# the kernel's integers; its pointers are the source and the destination
INTS = ('depth', 'panels', 'panel_lines', 'tall_panels', 'line_step', 'k_step', 'source_batch', 'lines')


def kernel_text(dtype, pitch):
    """The module with the kernel `pack`. Units are panels of all batches."""
    elem, _, lanes = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'pack')
    n = {name: f.n(i) for i, name in enumerate(INTS)}
    source, target = f.p(0), f.p(1)
    panels = Panels(f, tile_of(dtype), n['lines'], n['panel_lines'], n['tall_panels'])
    with f.loop(f.lo, f.hi) as unit:
        batch = unit // n['panels']
        panel = unit % n['panels']
        line, count = panels.first_row(panel), panels.count(panel)
        at = element(f, source, batch * n['source_batch'] + line * n['line_step'], elem)
        to = element(f, target, unit * n['depth'] * pitch, elem)
        panel_of(f, at, to, n['depth'], count, n['line_step'], n['k_step'])
    functions(module, elem, pitch, lanes)
    return module.text()


def panel_of(f, source, target, depth, count, line_step, k_step):
    """Pack one panel, the quickest way its strides allow. The module needs `functions`."""
    args = (source, target, depth, count, line_step, k_step)
    f.branch(line_step.eq(1), lambda: invoke(f, 'copy_lines', *args),
             lambda: f.branch(k_step.eq(1), lambda: invoke(f, 'transpose_lines', *args), lambda: invoke(f, 'gather_lines', *args)))


def functions(module, elem, pitch, lanes):
    copy_lines(module, elem, pitch, lanes)
    transpose_lines(module, elem, pitch, min(lanes, 8))
    gather_lines(module, elem, pitch)


ARGUMENTS = [('ptr', 'source'), ('ptr', 'target'), ('i64', 'depth'), ('i64', 'count'), ('i64', 'line_step'), ('i64', 'k_step')]


def widths(total, lanes):
    """Cut `total` lanes into vectors: (start, width) with widths at most `lanes`, powers of two."""
    start = 0
    while start < total:
        width = lanes
        while width > total - start:
            width //= 2
        yield start, width
        start += width


def copy_lines(module, elem, pitch, lanes):
    """The lines of one k are adjacent in memory."""
    f = Internal(module, 'copy_lines', ARGUMENTS)
    source, target, depth, count, _, k_step = f.args

    def full():
        with f.loop(f.const(0), depth) as k:
            at, to = element(f, source, k * k_step, elem), element(f, target, k * pitch, elem)
            for start, width in widths(pitch, lanes):
                f.store(f.load(element(f, at, start, elem), elem, width), element(f, to, start, elem))

    def partial():
        pieces = list(widths(pitch, lanes))
        masks = [lane_mask(f, count - start, width) for start, width in pieces] if SIZE[elem] >= 4 else None
        with f.loop(f.const(0), depth) as k:
            at, to = element(f, source, k * k_step, elem), element(f, target, k * pitch, elem)
            if masks:
                for (start, width), mask in zip(pieces, masks):
                    f.store(f.load(element(f, at, start, elem), elem, width, mask), element(f, to, start, elem))
            else:                               # no masked loads of such elements
                with f.loop(f.const(0), count) as i:
                    f.store(f.load(element(f, at, i, elem), elem), element(f, to, i, elem))
    f.branch(count.eq(pitch), full, partial)


def transpose_lines(module, elem, pitch, lanes):
    """Each line is contiguous along k: squares of lanes x lanes through registers."""
    f = Internal(module, 'transpose_lines', ARGUMENTS)
    source, target, depth, count, line_step, _ = f.args
    whole = depth & -lanes
    last = count - 1
    for start in range(0, pitch, lanes):
        lines = min(lanes, pitch - start)
        # a short panel reads its last line again: what lands beyond it is never used
        rows = [element(f, source, line_step * f.min(f.const(start + i), last), elem) for i in range(lines)]
        with f.when(last >= start):
            with f.loop(f.const(0), whole, lanes) as k:
                values = [f.load(element(f, row, k, elem), elem, lanes) for row in rows]
                values += [f.poison(elem, lanes)] * (lanes - lines)
                for step, column in enumerate(transpose(f, values)):
                    to = element(f, target, (k + step) * pitch + start, elem)
                    for part, width in widths(lines, lanes):
                        piece = column if width == lanes else f.shuffle(column, [part + i for i in range(width)])
                        f.store(piece, element(f, to, part, elem))
    with f.loop(whole, depth) as k:
        with f.loop(f.const(0), count) as i:
            f.store(f.load(element(f, source, i * line_step + k, elem), elem), element(f, target, k * pitch + i, elem))


def gather_lines(module, elem, pitch):
    f = Internal(module, 'gather_lines', ARGUMENTS)
    source, target, depth, count, line_step, k_step = f.args
    with f.loop(f.const(0), depth) as k:
        with f.loop(f.const(0), count) as i:
            f.store(f.load(element(f, source, i * line_step + k * k_step, elem), elem), element(f, target, k * pitch + i, elem))


AHEAD = 8                                       # steps of k: each reads a short piece somewhere else
TAPS_ARGUMENTS = [*ARGUMENTS, ('i64', 'taps')]


def turn_taps(module, elem, pitch, lanes):
    """Filters whose taps are adjacent, where neither lines nor k are: for each k the square of lines and taps is transposed. The panel of a tap follows that of the tap before it."""
    f = Internal(module, 'turn_taps', TAPS_ARGUMENTS)
    source, target, depth, count, line_step, k_step, taps = f.args
    lines = [element(f, source, line_step * f.min(f.const(i), count - 1), elem) for i in range(pitch)]         # a short panel reads its last line again
    with f.loop(f.const(0), taps, lanes) as t:
        mask = lane_mask(f, taps - t, lanes)
        with f.loop(f.const(0), depth) as k:
            at = k * k_step + t
            for start in range(0, pitch, lanes):
                some = lines[start:start + lanes]
                for line in some: prefetch(f, element(f, line, at + k_step * AHEAD, elem))
                values = [f.load(element(f, line, at, elem), elem, lanes, mask) for line in some]
                values += [f.poison(elem, lanes)] * (lanes - len(some))
                for i, tap in enumerate(transpose(f, values)):
                    with f.when(t + i < taps):
                        to = element(f, target, ((t + i) * depth + k) * pitch + start, elem)
                        for part, width in widths(len(some), lanes):
                            piece = tap if width == lanes else f.shuffle(tap, [part + j for j in range(width)])
                            f.store(piece, element(f, to, part, elem))
