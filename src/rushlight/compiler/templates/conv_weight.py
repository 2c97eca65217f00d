"""The gradient of a convolution's weight, as a product: rows are lines (channel, tap), columns filters, and k is (image, pixel).

Each element is one chain of fused multiply-adds in ascending k, continued in memory from block to block; no two units add to the same element.
What a line reads of the source is copied block by block next to the micro-kernel: where pixels are adjacent line by line, where channels are (channels_last) as a packed
panel, the channels of one tap. Few adjacent channels are brought into planes first.
"""
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import pack
from rushlight.compiler.templates import tile as tiles
from rushlight.compiler.templates.conv import block_of, depthwise, product
from rushlight.compiler.templates.gemm import UNIT_ROWS, UNITS, Step, cut
from rushlight.compiler.templates.pieces import Internal, Kernel, Module, element, invoke, lane_mask
from rushlight.compiler.templates.planes import FEW_CHANNELS, adjacent_channels, in_planes
from rushlight.compiler.templates.tile import Panels, panels_of, tile_of, vector_of
from rushlight.compiler.templates.windows import Counter, Known, copy_run, remembered, spill_run, spill_zeros, split, zero_run

TOGETHER = 1 << 20            # bytes of results that are added to in turns: they stay in a cache
WEIGHT_INTS = ('groups', 'images', 'channels', 'filters', 'lines', 'source_image', 'source_group', 'source_channel', 'unit_panels', 'row_units',
               'unit_columns', 'column_units', 'together', 'panels', 'panels_of_tap', 'panel_rows', 'tall_panels', 'gradient_image', 'gradient_group', 'gradient_filter', 'gradient_pixel') + tuple(
    f'{name}_{d}' for name in ('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step') for d in 'dhw')


@remembered
def weight_text(dtype, by_taps):
    """The module with the kernel `convolve_weight`. Rows of the product are lines (channel, tap), columns filters, k is (image, pixel). Units: (group, block of columns,
    block of row panels). What lines read and a panel of the gradient are packed block by block of k. by_taps: a panel has neighbouring channels of one tap, otherwise neighbouring lines."""
    elem, _, lanes = vector_of(dtype)
    tile = tile_of(dtype)
    width = tile.width
    module = Module()
    f = Kernel(module, 'convolve_weight')
    n = Known(f, f.integers, WEIGHT_INTS)
    source, target, gradient = (f.p(i) for i in range(3))
    pixels = n['pixels_d'] * n['pixels_h'] * n['pixels_w']
    blocks, each = block_of(f, pixels, tile.k_block)
    room = f.array(elem, tile.k_block * width)
    rows_of = Panels(f, tile, n['channels'] if by_taps else n['lines'], n['panel_rows'], n['tall_panels'])
    taps = n['taps_d'] * n['taps_h'] * n['taps_w']
    line_step = taps if by_taps else f.const(1)              # from one row of a panel to the next

    def first_line(panel):
        if not by_taps: return rows_of.first_row(panel)
        return rows_of.first_row(panel % n['panels_of_tap']) * taps + panel // n['panels_of_tap']

    def rows_in(panel): return rows_of.count(panel % n['panels_of_tap'] if by_taps else panel)

    def bounds(unit):
        group, column_unit, row_unit = split(f, unit, n['column_units'], n['row_units'])
        first_panel = row_unit * n['unit_panels']
        last_panel = f.min(first_panel + n['unit_panels'], n['panels'])
        first_column = column_unit * n['unit_columns']
        return group, first_panel, last_panel, first_column, f.min(first_column + n['unit_columns'], n['filters'])

    def clear(unit):
        group, first_panel, last_panel, first_column, last_column = bounds(unit)
        with f.loop(first_panel, last_panel) as panel:
            with f.loop(f.const(0), rows_in(panel)) as row:
                line = group * n['lines'] + first_line(panel) + row * line_step
                zero_run(f, elem, lanes, element(f, target, line * n['filters'] + first_column, elem), last_column - first_column)

    def add(unit, image, block):
        group, first_panel, last_panel, first_column, last_column = bounds(unit)
        source_at = element(f, source, image * n['source_image'] + group * n['source_group'], elem)
        gradient_at = element(f, gradient, image * n['gradient_image'] + group * n['gradient_group'], elem)
        target_at = element(f, target, group * n['lines'] * n['filters'], elem)
        k0 = block * each
        depth = f.min(pixels - k0, each)
        pitch = depth + lanes                                # of copied lines
        if by_taps:
            windows_of = lambda panel: element(f, f.scratch, (panel - first_panel) * depth * tile.rows, elem)
            with f.loop(first_panel, last_panel) as panel:
                invoke(f, 'window_channels', source_at, windows_of(panel), f.integers, first_line(panel), rows_in(panel), k0, depth)
        else:
            first_row, last_row = rows_of.first_row(first_panel), rows_of.first_row(last_panel)
            windows_of = lambda panel: element(f, f.scratch, (rows_of.first_row(panel) - first_row) * pitch, elem)
            invoke(f, 'window_lines', source_at, f.scratch, f.integers, first_row, last_row - first_row, k0, depth, pitch)
        a_steps = (f.const(1), f.const(tile.rows)) if by_taps else (pitch, f.const(1))
        with f.loop(first_column, last_column, width) as j:
            columns = f.min(last_column - j, f.const(width))
            from_ = element(f, gradient_at, j * n['gradient_filter'] + k0 * n['gradient_pixel'], elem)
            pack.panel_of(f, from_, room, depth, columns, n['gradient_filter'], n['gradient_pixel'])
            with f.loop(first_panel, last_panel) as panel:
                to = element(f, target_at, first_line(panel) * n['filters'] + j, elem)
                invoke(f, 'tiles', windows_of(panel), room, to, depth, *a_steps, f.const(width), n['filters'] * line_step, image + block, columns, rows_in(panel))

    # Units whose results fit the cache together take turns at each block of pixels: it is read from memory once.
    with f.loop(f.lo, f.hi, n['together']) as first_unit:
        last_unit = f.min(first_unit + n['together'], f.hi)
        with f.when(n['images'].eq(0)):          # nothing to sum
            with f.loop(first_unit, last_unit) as unit: clear(unit)
        with f.loop(f.const(0), n['images']) as image:
            with f.loop(f.const(0), blocks) as block:
                with f.loop(first_unit, last_unit) as unit: add(unit, image, block)
    (channels_function if by_taps else lines_function)(module, dtype)
    pack.functions(module, elem, width, lanes)
    tiles.functions(module, dtype)
    return module.text()


LINES_ARGUMENTS = [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'n'), ('i64', 'line'), ('i64', 'count'), ('i64', 'k0'), ('i64', 'depth'), ('i64', 'pitch')]


def for_runs(f, n, shift, first, depth, body):
    """The pixels [k0, k0 + depth), which start at `first` (d, h, w), cut at rows: body(done before, low, high, run, source offset of pixel low): pixels
    [low, high) of the run are inside the source."""
    at, row, done = Var(f, first[2]), Counter(f, first[:2], [None, n['pixels_h']]), Var(f, f.const(0))
    across, advance = n['pixels_w'], n['advance_w']
    pixels_before = lambda place: f.min(f.max(place + advance - 1, f.const(0)) // advance, across)       # of a row, those left of a place in the source
    left, right = pixels_before(f.const(0) - shift['w']), pixels_before(n['source_w'] - shift['w'])
    with f.loop_while(lambda: done.get() < depth):
        here = at.get()
        run = f.min(across - here, depth - done.get())
        y, x = (r * n[f'advance_{d}'] + shift[d] for d, r in zip('dh', row.get()))
        inside = y.ult(n['source_d']) & x.ult(n['source_h'])
        low, high = (f.select(inside, f.min(f.max(end - here, f.const(0)), run), f.const(0)) for end in (left, right))
        body(done.get(), low, high, run, y * n['source_step_d'] + x * n['source_step_h'] + (shift['w'] + (here + low) * advance) * n['source_step_w'])
        done.set(done.get() + run)
        at.set(f.const(0))
        row.step()


def for_rows(f, n, shift, first, depth, body):
    """The same for an image (no depth) and a tap that is inside the source at all its pixels: only steps are added."""
    across, down = n['pixels_w'], n['advance_h'] * n['source_step_h']
    row = (first[1] * n['advance_h'] + shift['h']) * n['source_step_h'] + shift['w'] * n['source_step_w']
    at, done, away = Var(f, first[2]), Var(f, f.const(0)), Var(f, row + first[2] * n['advance_w'] * n['source_step_w'])
    next_row = Var(f, row + down)
    with f.loop_while(lambda: done.get() < depth):
        run = f.min(across - at.get(), depth - done.get())
        body(done.get(), f.const(0), run, run, away.get())
        done.set(done.get() + run)
        at.set(f.const(0))
        away.set(next_row.get())
        next_row.set(next_row.get() + down)


def for_block(f, n, shift, k0, depth, body, clear):
    """The same where pixels and source are images of one size and neighbours in both are equally far apart: all pixels are one run, which reads a place too far left or right at
    the ends of the image's rows. Those are clear(position, count)ed afterwards."""
    across = n['pixels_w']
    away = shift['h'] * across + shift['w']
    low = f.min(f.max(f.const(0) - k0 - away, f.const(0)), depth)
    high = f.max(f.min(n['pixels_h'] * across - k0 - away, depth), low)
    body(f.const(0), low, high, depth, (k0 + away + low) * n['source_step_w'])
    with f.when(shift['w'].ne(0)):
        left, right = f.max(f.const(0) - shift['w'], f.const(0)), f.max(shift['w'], f.const(0))
        start = f.select(left > 0, f.const(0), across - right)     # of what is cleared in each row
        with f.loop(f.const(0) - k0 % across + start, depth, across) as at:
            first = f.max(at, f.const(0))
            clear(first, f.max(f.min(at + f.min(left + right, across), depth) - first, f.const(0)))


def pieces(f, n, tap, k0, depth, run, clear):
    """The pixels [k0, k0 + depth) of a tap, as for_runs, for_rows or for_block cuts them."""
    shift = {d: x * n[f'tap_move_{d}'] + n[f'shift_{d}'] for d, x in zip('dhw', tap)}
    flat = n['source_step_h'].eq(n['source_step_w'] * n['source_w']) & n['shift_d'].eq(0)
    for name, value in (('advance_w', 1), ('advance_h', 1), ('taps_d', 1), ('pixels_d', 1), ('source_d', 1), ('source_w', n['pixels_w']), ('source_h', n['pixels_h'])):
        flat = flat & n[name].eq(value)
    inside = n['pixels_d'].eq(1) & shift['d'].eq(0)
    for d in 'hw':
        inside = inside & (shift[d] > -1) & ((n[f'pixels_{d}'] - 1) * n[f'advance_{d}'] + shift[d] < n[f'source_{d}'])
    first = split(f, k0, n['pixels_h'], n['pixels_w'])
    f.branch(flat, lambda: for_block(f, n, shift, k0, depth, run, clear),
             lambda: f.branch(inside, lambda: for_rows(f, n, shift, first, depth, run), lambda: for_runs(f, n, shift, first, depth, run)))


def lines_function(module, dtype):
    """What `count` lines (channel, tap) from `line` on read at the pixels [k0, k0 + depth): element (line, pixel) at line * pitch + pixel. A line is written from its
    head to its end, in whole vectors: each piece may go beyond its own end, the last into the gap before the next line."""
    elem, _, lanes = vector_of(dtype)
    f = Internal(module, 'window_lines', LINES_ARGUMENTS)
    source, room, n, line, count, k0, depth, pitch = f.args
    n = Known(f, n, WEIGHT_INTS)
    taps = [n[f'taps_{d}'] for d in 'dhw']
    step = n['advance_w'] * n['source_step_w']

    def line_by_line(every):
        lines = Counter(f, split(f, line, *taps), [None, *taps])
        with f.loop(f.const(0), count) as i:
            channel, *tap = lines.get()
            base = element(f, source, channel * n['source_channel'], elem)
            to = element(f, room, i * pitch, elem)

            def run(done, low, high, length, away):
                here = element(f, to, done, elem)
                from_, inside = element(f, base, away, elem), element(f, here, low, elem)

                def copy():
                    if every is None: copy_run(f, elem, lanes, from_, step, inside, high - low)
                    else: spill_run(f, elem, lanes, from_, inside, high - low, every)

                def with_borders():
                    spill_zeros(f, elem, lanes, here, low)
                    copy()
                    spill_zeros(f, elem, lanes, element(f, here, high, elem), length - high)
                if high is length: copy()
                else: f.branch((high - low).eq(length), copy, with_borders)
            pieces(f, n, tap, k0, depth, run, lambda at, some: zero_run(f, elem, 1, element(f, to, at, elem), some))
            lines.step()

    f.branch(step.eq(1), lambda: line_by_line(1), lambda: f.branch(step.eq(2), lambda: line_by_line(2), lambda: line_by_line(None)))
    return f


def channels_function(module, dtype):
    """What `count` adjacent channels of one tap read at the pixels [k0, k0 + depth): element (channel, pixel) at pixel * rows of a tile + channel. The first of them is `line`, a
    (channel, tap). Each pixel is written in whole vectors, beyond its end: what is there is written after this."""
    elem, _, lanes = vector_of(dtype)
    rows = tile_of(dtype).rows
    f = Internal(module, 'window_channels', [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'n'), ('i64', 'line'), ('i64', 'count'), ('i64', 'k0'), ('i64', 'depth')])
    source, room, n, line, count, k0, depth = f.args
    n = Known(f, n, WEIGHT_INTS)
    channel, *tap = split(f, line, *(n[f'taps_{d}'] for d in 'dhw'))
    step = n['advance_w'] * n['source_step_w']
    starts = range(0, rows, lanes)
    masks = [lane_mask(f, count - start, lanes) for start in starts]

    def zeros(first, last):
        with f.loop(first, last) as p:
            for start in starts: f.store(f.const(0, elem, lanes), element(f, room, p * rows + start, elem))

    def run(done, low, high, length, away):
        from_ = element(f, source, away + channel, elem)
        zeros(done, done + low)
        with f.loop(low, high) as p:
            for start, mask in zip(starts, masks):
                value = f.load(element(f, from_, (p - low) * step + start, elem), elem, lanes, mask)
                f.store(value, element(f, room, (done + p) * rows + start, elem))
        zeros(done + high, done + length)

    def clear(at, some): zero_run(f, elem, 1, element(f, room, at * rows, elem), some * rows)
    pieces(f, n, tap, k0, depth, run, clear)
    return f


def lower_weight(program, dtype, shape, source, gradient, target):
    """The weight's gradient, [groups, channels, taps, filters] and dense. source: (image, channel, d, h, w), gradient: (image, filter, pixel)."""
    pr = program
    if depthwise(shape):
        from rushlight.compiler.templates import depthwise as direct
        return direct.lower_weight(pr, dtype, shape, source, gradient, target)
    _, size, lanes = vector_of(dtype)
    tile = tile_of(dtype)
    source, planes, steps = in_planes(pr, dtype, source, (shape.batch, shape.groups, shape.channels), shape.image, ('temporary', 0))
    lines = shape.channels * product(shape.taps)
    pixels = product(shape.result)
    by_taps = adjacent_channels(source) and not bool(shape.channels < FEW_CHANNELS) and size >= 4        # no masked loads of smaller elements
    panels_of_tap, panel_rows, tall_panels = panels_of(pr, tile, shape.channels if by_taps else lines)
    panels = panels_of_tap * product(shape.taps) if by_taps else panels_of_tap
    most_panels = UNIT_ROWS // tile.rows
    unit_panels, row_units, unit_columns, column_units = cut(pr, tile, shape.groups, panels, shape.filters, units=UNITS // 2)     # each cut copies the windows once more
    # few filters and many lines: more blocks of lines, but not so small that packing a panel of the gradient for each shows
    more = pr.max(row_units, pr.min(pr.ceildiv(UNITS // 2, pr.max(column_units * shape.groups, 1)), pr.ceildiv(panels, most_panels // 2)))
    row_units = pr.select(pr.le(panels, most_panels), 1, more)
    unit_panels = pr.ceildiv(panels, row_units)
    row_units = pr.ceildiv(panels, unit_panels)
    ints = {'groups': shape.groups, 'images': shape.batch, 'channels': shape.channels, 'filters': shape.filters, 'lines': lines,
            'source_image': source.strides[0], 'source_group': source.strides[1] * shape.channels, 'source_channel': source.strides[1],
            'unit_panels': unit_panels, 'row_units': row_units, 'unit_columns': unit_columns, 'column_units': column_units, 'panels': panels, 'panels_of_tap': panels_of_tap,
            'together': pr.max(pr.floordiv(TOGETHER, unit_panels * (tile.rows * size) * unit_columns), 1),
            'panel_rows': panel_rows, 'tall_panels': tall_panels, 'gradient_image': gradient.strides[0],
            'gradient_group': gradient.strides[1] * shape.filters, 'gradient_filter': gradient.strides[1], 'gradient_pixel': gradient.strides[2]}
    for i, d in enumerate('dhw'):
        values = (shape.result[i], shape.image[i], shape.taps[i], shape.stride[i], shape.dilation[i], 0 - shape.padding[i], source.strides[2 + i])
        ints.update({f'{name}_{d}': v for name, v in zip(('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step'), values)})
    work = pr.max(pr.floordiv(shape.batch * pixels * lines * shape.filters, 6), lines * shape.filters * size)
    units = shape.groups * row_units * column_units
    grain = pr.max(pr.floordiv(1 << 15, pr.max(pr.floordiv(work, row_units * column_units), 1)), 1)
    scratch = unit_panels * tile.rows * (pr.min(tile.k_block, pixels) + 8 + lanes) * size
    product_step = Step(weight_text(dtype, by_taps), 'convolve_weight',
                        [(*source.pointer, source.offset), (*target.pointer, target.offset), (*gradient.pointer, gradient.offset)],
                        [ints[name] for name in WEIGHT_INTS], [], pr.select(pr.eq(lines * shape.filters, 0), 0, units), grain,
                        shape.groups * work, scratch)
    return planes, [*steps, product_step]

