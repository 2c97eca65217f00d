"""Convolutions as implicit matrix products: windows of an image are packed where the micro-kernel (tile.py) wants them, never as a whole.

Three computations, each the transpose of the others:
    forward   y[n, f, o] = sum over (tap, c) of x[n, c, o * stride + tap * dilation - padding] w[f, c, tap]
    input     x[n, c, i] = sum over (tap, f) of y[n, f, (i + padding - tap * dilation) / stride] w[f, c, tap], where that divides
    weight    w[c, tap, f] = sum over (n, o) of x[n, c, o * stride + tap * dilation - padding] y[n, f, o]

**Windows.** Forward and input are one kernel: a *target* pixel takes from a *source* at `pixel * advance + shift + tap * tap_move`. For the input of
a strided convolution the target's pixels fall into stride**d *phases*; those of one phase use the same few taps, so no product with a
zero is ever computed. All three dimensions are always there (depth and height are 1 where a convolution has fewer).

**Two forms.** Where the target's pixels are adjacent in memory (NCHW) rows of the product are channels and a panel of pixels is packed into
the first-level cache, a vector of pixels at a time. Where its channels are adjacent (channels_last) rows are pixels, whose channels are copied
run by run; unless they are few: then vectors along them would be mostly empty, the first form computes a block and writes it out pixel by pixel. Few adjacent
channels of the source are brought into planes before (planes.py). All have the order (tap, channel) of k, so the bits are the same.

**The bits.** Each element is one chain of fused multiply-adds in ascending k = (tap, channel), or (image, pixel) for the weight, as in gemm.py.
"""
from dataclasses import dataclass, replace

from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import gemm, pack
from rushlight.compiler.templates import tile as tiles
from rushlight.compiler.templates.gemm import Step, cut
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke
from rushlight.compiler.templates.planes import in_planes
from rushlight.compiler.templates.tile import Panels, panels_of, tile_of, vector_of
from rushlight.compiler.templates.windows import (
    DIMENSION,
    INTS,
    PHASE_NAMES,
    SPARE,
    Counter,
    Integers,
    copy_run,
    k_of,
    panel_function,
    phase_function,
    remembered,
    rows_function,
    split,
    sum_of,
)

POINTERS = ('source', 'target', 'filter')
FEW_COLUMNS = 9                                          # fewer fill at most half a vector of 64 bytes, a quarter of a tile
SCATTERED_COLUMNS = 256                                  # at most, where a unit's results are gathered before they are written


# -------------------------------------------------------------------------------------------------------------------- the kernels
def block_of(f, k, most):
    """(blocks, elements of each): as even as multiples of 8 allow."""
    blocks = f.max((k + (most - 1)) // most, f.const(1))
    each = ((k + blocks - 1) // blocks + 7) & -8
    return blocks, each


@remembered
def kernel_text(dtype, channels_last, epilogue=None):
    """The module with the kernel `convolve`. Units: (image, group, phase, block of columns, block of row panels) of the product.
    channels_last: its rows are pixels and its columns channels; otherwise the other way round."""
    elem, _, _ = ELEMENT[dtype]
    tile = tile_of(dtype)
    width = tile.width
    module = Module()
    f = Kernel(module, 'convolve')
    n = Integers(f, f.integers, INTS)
    source, target, filters = (f.p(i) for i in range(len(POINTERS)))
    storage = f.array('i64', len(PHASE_NAMES))
    phase = Integers(f, storage, PHASE_NAMES)
    room = None if channels_last else f.array(elem, (tile.k_block + SPARE) * width)
    phases = n['phases_d'] * n['phases_h'] * n['phases_w']
    with f.loop(f.lo, f.hi) as unit:
        image, group, number, column_unit, row_unit = split(f, unit, n['groups'], phases, n['column_units'], n['row_units'])
        invoke(f, 'phase', storage, f.integers, number)
        pixels = phase['extent_d'] * phase['extent_h'] * phase['extent_w']
        k = k_of(phase, n)
        blocks, each = block_of(f, k, tile.k_block)
        source_at = element(f, source, image * n['source_image'] + group * n['source_group'], elem)
        target_at = element(f, target, image * n['target_image'] + group * n['target_group'], elem)
        filter_at = element(f, filters, (group * phases + number) * n['most_k'], elem)      # most_k: of all panels together
        if channels_last:                        # panels are of pixels, which differ from phase to phase
            panel_count, panels = Panels.even(f, tile, pixels)
            columns_end = n['rows']
        else:
            panel_count, panels = n['panels'], Panels(f, tile, n['rows'], n['panel_rows'], n['tall_panels'])
            columns_end = pixels
        first_panel = row_unit * n['unit_panels']
        last_panel = f.min(first_panel + n['unit_panels'], panel_count)
        first_column = column_unit * n['unit_columns']
        last_column = f.min(first_column + n['unit_columns'], columns_end)
        first_row, last_row = panels.first_row(first_panel), panels.first_row(last_panel)
        # Where C is: the target itself, or a block of its own that is written out when it is complete
        scattered = n['scattered'].ne(0)
        c_step = n['target_step_w'] if channels_last else n['target_channel']
        c_row = f.select(scattered, n['unit_columns'], c_step)
        own = f.scratch
        direct = element(f, target_at, first_row * c_step + first_column, elem)
        c_base = f.select(scattered, own, direct)
        if channels_last:
            # the scratch: C's block if it is written later, then the windows
            block_size = f.select(scattered, n['unit_panels'] * tile.rows * n['unit_columns'], f.const(0))
            room_at = element(f, own, block_size, elem)
        with f.when((first_panel < last_panel) & (first_column < last_column)):
            with f.loop(f.const(0), blocks) as block:
                k0 = block * each
                depth = f.min(k - k0, each)
                if channels_last:
                    invoke(f, 'window_rows', source_at, room_at, storage, f.integers, k0, depth, first_row, last_row - first_row)
                with f.loop(first_column, last_column, width) as j:
                    columns = f.min(last_column - j, f.const(width))
                    if channels_last:
                        b_at = element(f, filter_at, j * k + k0 * width, elem)
                    else:
                        invoke(f, 'window_panel', source_at, room, storage, f.integers, k0, depth, j)
                        b_at = room
                    with f.loop(first_panel, last_panel) as panel:
                        row, rows = panels.first_row(panel), panels.count(panel)
                        c_at = element(f, c_base, (row - first_row) * c_row + (j - first_column), elem)
                        if channels_last:
                            a_at, a_row, a_k = element(f, room_at, (row - first_row) * depth, elem), depth, f.const(1)
                        else:
                            a_at, a_row, a_k = element(f, filter_at, (panel * k + k0) * tile.rows, elem), f.const(1), f.const(tile.rows)
                        invoke(f, 'tiles', a_at, b_at, c_at, depth, a_row, a_k, f.const(width), c_row, block, columns, rows)
                        if epilogue:
                            with f.when((block + 1).eq(blocks)):
                                place = (row, group * n['rows'] + j) if channels_last else (group * n['rows'] + row, j)
                                invoke(f, 'finish', c_at, c_row, rows, columns, *place, image, f.pointers, f.integers, f.scalars)
            with f.when(scattered):
                invoke(f, 'write_phase', own, target_at, storage, f.integers, number, first_row, last_row - first_row, first_column,
                       last_column - first_column)
    phase_function(module)
    (rows_function if channels_last else panel_function)(module, dtype)
    write_function(module, dtype, channels_last)
    tiles.functions(module, dtype)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, len(POINTERS), len(INTS))
    return module.text()


def write_function(module, dtype, channels_last):
    """Write a finished block of one phase to its places in the target."""
    elem, _, lanes = vector_of(dtype)
    f = Internal(module, 'write_phase', [('ptr', 'block'), ('ptr', 'target'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'number'), ('i64', 'row'),
                                         ('i64', 'rows'), ('i64', 'column'), ('i64', 'columns')])
    block, target, phase, n, number, row, rows, column, columns = f.args
    phase, n = Integers(f, phase, PHASE_NAMES), Integers(f, n, INTS)
    numbers = split(f, number, n['phases_h'], n['phases_w'])
    extents = [phase[f'extent_{d}'] for d in 'dhw']
    pixel, pixels = (row, rows) if channels_last else (column, columns)
    pitch = n['unit_columns']
    place = lambda counts: sum_of([(x * n[f'phases_{d}'] + p) * n[f'target_step_{d}'] for d, x, p in zip('dhw', counts, numbers)])

    def pixel_by_pixel():
        counter = Counter(f, split(f, pixel, extents[1], extents[2]), [None, *extents[1:]])
        with f.loop(f.const(0), pixels) as i:
            at = place(counter.get())
            if channels_last:
                copy_run(f, elem, lanes, element(f, block, i * pitch, elem), f.const(1), element(f, target, at + column, elem), columns)
            else:
                base = element(f, target, at + row * n['target_channel'], elem)
                with f.loop(f.const(0), rows) as r:
                    f.store(f.load(element(f, block, r * pitch + i, elem), elem), element(f, base, r * n['target_channel'], elem))
            counter.step()

    def planes():
        """Images that share panels: each one's pixels are adjacent in the target."""
        plane, done = extents[1] * extents[2], Var(f, f.const(0))
        with f.loop_while(lambda: done.get() < pixels):
            i = done.get()
            image, at = (pixel + i) // plane, (pixel + i) % plane
            run = f.min(plane - at, pixels - i)
            base = element(f, target, image * n['target_step_d'] + at + row * n['target_channel'], elem)
            with f.loop(f.const(0), rows) as r:
                copy_run(f, elem, lanes, element(f, block, r * pitch + i, elem), f.const(1), element(f, base, r * n['target_channel'], elem), run)
            done.set(i + run)
    if channels_last: pixel_by_pixel()
    else:
        adjacent = n['target_step_w'].eq(1) & n['target_step_h'].eq(extents[2]) & (n['phases_d'] * n['phases_h'] * n['phases_w']).eq(1)
        f.branch(adjacent, planes, pixel_by_pixel)
    return f


FILTER_INTS = ('groups', 'panels', 'panel_lines', 'tall_panels', 'lines', 'group_step', 'line_step', 'k_step',
               'tap_step_d', 'tap_step_h', 'tap_step_w')


@remembered
def filter_text(dtype, pitch):
    """The module with the kernel `pack_filter`: for each (group, phase, panel) the panel's lines in the order (tap, channel) of k. Its
    integers are those of the convolution, then FILTER_INTS."""
    elem, size, lanes = vector_of(dtype)
    module = Module()
    f = Kernel(module, 'pack_filter')
    names = INTS + FILTER_INTS
    n = Integers(f, f.integers, names)
    # the two lists share `groups` and the panels' names: the later one is meant, and is the same or of this kernel
    source, target = f.p(0), f.p(1)
    storage = f.array('i64', len(PHASE_NAMES))
    phase = Integers(f, storage, PHASE_NAMES)
    phases = n['phases_d'] * n['phases_h'] * n['phases_w']
    panels = Panels(f, tile_of(dtype), n['lines'], n['panel_lines'], n['tall_panels'])
    with f.loop(f.lo, f.hi) as unit:
        group, number, panel = split(f, unit, phases, n['panels'])
        invoke(f, 'phase', storage, f.integers, number)
        line, count = panels.first_row(panel), panels.count(panel)
        at = element(f, source, group * n['group_step'] + line * n['line_step'], elem)
        k = k_of(phase, n)
        start = (group * phases + number) * n['most_k'] + panel * k * pitch
        to = element(f, target, start, elem)
        taps = n['taps_d'] * n['taps_h'] * n['taps_w']

        def tap_by_tap(panel=(at, to, count), number_of_taps=phase['count_d'] * phase['count_h'] * phase['count_w']):
            at, to, count = panel
            counter = Counter(f, [f.const(0)] * 3, [None, phase['count_h'], phase['count_w']])
            with f.loop(f.const(0), number_of_taps) as tap:
                place = [phase[f'first_{d}'] + x * n[f'tap_skip_{d}'] for d, x in zip('dhw', counter.get())]
                away = sum_of([x * n[f'tap_step_{d}'] for d, x in zip('dhw', place)])
                pack.panel_of(f, element(f, at, away, elem), element(f, to, tap * n['depth'] * pitch, elem), n['depth'], count, n['line_step'], n['k_step'])
                counter.step()

        def taps_together(panel=(at, to, count), taps=taps):
            at, to, count = panel
            invoke(f, 'turn_taps', at, to, n['depth'], count, n['line_step'], n['k_step'], taps)
        adjacent = phases.eq(1) & (taps > 1)
        for d, step in zip('dhw', (n['taps_h'] * n['taps_w'], n['taps_w'], f.const(1))): adjacent = adjacent & (n[f'taps_{d}'].eq(1) | n[f'tap_step_{d}'].eq(step))
        if size < 4: tap_by_tap()                        # no masked loads of such elements
        else: f.branch(adjacent & n['line_step'].ne(1) & n['k_step'].ne(1), taps_together, tap_by_tap)
    phase_function(module)
    pack.functions(module, elem, pitch, lanes)
    if size >= 4: pack.turn_taps(module, elem, pitch, lanes)
    return module.text()


# --------------------------------------------------------------------------------------------------------------------- lowering
@dataclass
class Shape:
    """What is convolved: sizes are ints or SymInts, dimensions in threes. image: x's extents, result: y's."""
    batch: object
    groups: object
    channels: object                            # of x, per group
    filters: object                             # of y, per group
    image: tuple
    result: tuple
    taps: tuple
    stride: tuple
    padding: tuple
    dilation: tuple


@dataclass
class Tensor:
    """In memory: which pointer, how many bytes after it, and element strides."""
    pointer: tuple
    offset: object
    strides: tuple


def product(values):
    out = 1
    for v in values:
        out = out * v
    return out


def depthwise(shape):
    """One channel and one filter to a group, and more than one group."""
    one = lambda x: isinstance(x, int) and x == 1
    return one(shape.channels) and not one(shape.groups) and bool(shape.filters == 1)


def joins_images(pr, shape, backward, source, width):
    """1 where the last panel of an image's pixels would be mostly empty (7x7 fills three of 16 and begins a fourth) and images may share panels, as layers of one that is deep:
    nothing happens along that dimension yet."""
    pixels = product(pr.ceildiv(x, s) for x, s in zip(shape.image, shape.stride)) if backward else product(shape.result)
    flat = product(pr.eq(x, 1) for x in (shape.image[0], shape.result[0], shape.taps[0], shape.stride[0])) * pr.eq(shape.padding[0], 0)
    wasteful = pr.lt(pixels * 11, pr.ceildiv(pixels, width) * (width * 10))
    return flat * wasteful * pr.lt(1, shape.batch) * pr.lt(shape.batch * source.strides[0], 1 << 30)       # places in the source are kept as 32 bits


def with_images_joined(pr, joined, shape, source, target):
    deep = pr.select(joined, shape.batch, 1)
    taller = lambda extent: (pr.select(joined, deep, extent[0]), *extent[1:])
    stacked = lambda t: replace(t, strides=(*t.strides[:2], pr.select(joined, t.strides[0], t.strides[2]), *t.strides[3:]))
    return replace(shape, batch=pr.select(joined, 1, shape.batch), image=taller(shape.image), result=taller(shape.result)), stacked(source), stacked(target)


def lower_windows(program, dtype, shape, backward, source, filters, target, channels_last, epilogue=None):
    """Forward, or with `backward` the input's gradient: (bytes of each temporary, steps). Strides: of source and target (image, channel, d, h, w),
    of the filters (filter, channel, d, h, w)."""
    pr = program
    _, size, lanes = vector_of(dtype)
    tile = tile_of(dtype)
    width = tile.width
    joined = 0
    # With few channels vectors along them would be mostly empty: then vectors are along pixels, whatever the target's layout
    few = channels_last and not epilogue and not depthwise(shape) and bool((shape.channels if backward else shape.filters) < FEW_COLUMNS)
    channels_last = channels_last and not few
    planes = more_steps = ()
    if not (channels_last or depthwise(shape)):
        depth, reach = (shape.filters, shape.result) if backward else (shape.channels, shape.image)
        source, planes, more_steps = in_planes(pr, dtype, source, (shape.batch, shape.groups, depth), reach, ('temporary', 1))
    if not (channels_last or epilogue or depthwise(shape)):
        joined = joins_images(pr, shape, backward, source, width)
        shape, source, target = with_images_joined(pr, joined, shape, source, target)
    depth, rows = (shape.filters, shape.channels) if backward else (shape.channels, shape.filters)
    pixels, reach = (shape.image, shape.result) if backward else (shape.result, shape.image)
    ints = {'groups': shape.groups, 'depth': depth, 'rows': rows}
    for name, tensor, count in (('source', source, depth), ('target', target, rows)):
        ints[name + '_image'], ints[name + '_channel'] = tensor.strides[:2]
        ints[name + '_group'] = tensor.strides[1] * count
    phases, most_taps = [], []
    for i, d in enumerate('dhw'):
        s, p, dil, taps = shape.stride[i], shape.padding[i], shape.dilation[i], shape.taps[i]
        common = pr.gcd(s, dil) if backward else 1
        skip = pr.floordiv(s, common) if backward else 1
        values = (pixels[i], reach[i], taps, 1 if backward else s, 0 - pr.floordiv(dil, common) if backward else dil, s if backward else 1, skip,
                  p if backward else 0 - p, dil, source.strides[2 + i], target.strides[2 + i])
        ints.update({f'{name}_{d}': v for name, v in zip(DIMENSION, values)})
        phases.append(s if backward else 1)
        most_taps.append(pr.ceildiv(taps, skip))
    most_pixels = product(pr.ceildiv(x, p) for x, p in zip(pixels, phases))
    scattered = 1 if few else pr.max(pr.lt(1, product(phases)), joined)
    most_columns = pr.select(scattered, SCATTERED_COLUMNS, 1 << 40)
    batch = shape.batch * shape.groups * product(phases)
    if channels_last:
        unit_panels, row_units, unit_columns, column_units = cut(pr, tile, batch, pr.ceildiv(most_pixels, tile.rows), rows, most_columns)
        panels, lines, tall, pitch = pr.ceildiv(rows, width), width, 0, width
    else:
        panels, lines, tall = panels_of(pr, tile, rows)
        pitch = tile.rows
        unit_panels, row_units, unit_columns, column_units = cut(pr, tile, batch, panels, most_pixels, most_columns)
    most_k = product(most_taps) * depth
    panel_size = panels * most_k * pitch
    ints.update(panels=panels, panel_rows=lines, tall_panels=tall, unit_panels=unit_panels, row_units=row_units, unit_columns=unit_columns,
                column_units=column_units, most_k=panel_size, scattered=scattered)
    ordered = [ints[name] for name in INTS]
    if depthwise(shape):
        from rushlight.compiler.templates import depthwise as direct
        return direct.lower_windows(pr, dtype, shape, ints, phases, source, filters, target, channels_last, epilogue)

    filter_steps = filters.strides
    line_step, k_step = (filter_steps[1], filter_steps[0]) if backward else (filter_steps[0], filter_steps[1])
    more = {'groups': shape.groups, 'panels': panels, 'panel_lines': lines, 'tall_panels': tall, 'lines': rows,
            'group_step': filter_steps[0] * shape.filters, 'line_step': line_step, 'k_step': k_step,
            **{f'tap_step_{d}': s for d, s in zip('dhw', filter_steps[2:])}}
    count = shape.groups * product(phases) * panels
    packing = Step(filter_text(dtype, pitch), 'pack_filter', [(*filters.pointer, filters.offset), ('temporary', 0, 0)],
                   ordered + [more[name] for name in FILTER_INTS], [], count, pr.max(pr.floordiv(16384, pr.max(most_k * pitch, 1)), 1),
                   count * most_k * (pitch * size * 3))
    extra = epilogue or gemm.Epilogue(None)
    work = pr.max(pr.floordiv(most_pixels * rows * most_k, 6), most_pixels * rows * size)
    per_batch = row_units * column_units
    grain = pr.max(pr.floordiv(1 << 15, pr.max(pr.floordiv(work, per_batch), 1)), 1)
    scratch = pr.select(scattered, unit_panels * (tile.rows * size) * unit_columns, 0)
    if channels_last:
        scratch = scratch + unit_panels * tile.rows * pr.min(tile.k_block + 8, most_k + 8) * size + lanes * size
    units = pr.select(pr.eq(most_pixels * rows, 0), 0, per_batch * batch)
    product_step = Step(kernel_text(dtype, channels_last, epilogue=epilogue), 'convolve',
                        [(*source.pointer, source.offset), (*target.pointer, target.offset), ('temporary', 0, 0), *extra.pointers],
                        ordered + list(extra.ints), list(extra.scalars), units, grain, batch * work, scratch)
    return [shape.groups * product(phases) * panel_size * size, *planes], [packing, *more_steps, product_step]
