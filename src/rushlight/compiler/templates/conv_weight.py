"""The gradient of a convolution's weight, as a product: rows are lines (channel, tap), columns filters, and k is (image, pixel).

Each element is one chain of fused multiply-adds in ascending k, continued in memory from block to block; no two units add to the same element.
A line is a row of windows of the source, copied (and from channels_last transposed) block by block next to the micro-kernel.
"""
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import pack
from rushlight.compiler.templates import tile as tiles
from rushlight.compiler.templates.conv import UNIT_ROWS, UNITS, block_of, cut, depthwise, product
from rushlight.compiler.templates.gemm import Step
from rushlight.compiler.templates.pieces import Internal, Kernel, Module, element, invoke, lane_mask, transpose
from rushlight.compiler.templates.planes import in_planes
from rushlight.compiler.templates.tile import Panels, panels_of, tile_of, vector_of
from rushlight.compiler.templates.windows import Counter, Known, copy_run, remembered, spill_run, spill_zeros, split, zero_run

TOGETHER = 1 << 20            # bytes of results that are added to in turns: they stay in a cache
WEIGHT_INTS = ('in_planes', 'groups', 'images', 'channels', 'filters', 'lines', 'source_image', 'source_group', 'source_channel', 'unit_panels', 'row_units',
               'unit_columns', 'column_units', 'together', 'panels', 'panel_rows', 'tall_panels', 'gradient_image', 'gradient_group', 'gradient_filter', 'gradient_pixel') + tuple(
    f'{name}_{d}' for name in ('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step') for d in 'dhw')


@remembered
def weight_text(dtype):
    """The module with the kernel `convolve_weight`. Rows of the product are lines (channel, tap), columns filters, k is (image, pixel). Units:
    (group, block of columns, block of row panels). Lines and a panel of the gradient are packed block by block of k."""
    elem, _, lanes = vector_of(dtype)
    tile = tile_of(dtype)
    width = tile.width
    module = Module(tile.vector_bytes)
    f = Kernel(module, 'convolve_weight')
    n = Known(f, f.integers, WEIGHT_INTS)
    source, target, gradient, planes = (f.p(i) for i in range(4))
    source = f.select(n['in_planes'].ne(0), planes, source)
    pixels = n['pixels_d'] * n['pixels_h'] * n['pixels_w']
    blocks, each = block_of(f, pixels, tile.k_block)
    room = f.array(elem, tile.k_block * width)
    panels = Panels(f, tile, n['lines'], n['panel_rows'], n['tall_panels'])

    def bounds(unit):
        group, column_unit, row_unit = split(f, unit, n['column_units'], n['row_units'])
        first_panel = row_unit * n['unit_panels']
        last_panel = f.min(first_panel + n['unit_panels'], n['panels'])
        first_column = column_unit * n['unit_columns']
        return group, first_panel, last_panel, first_column, f.min(first_column + n['unit_columns'], n['filters'])

    def clear(unit):
        group, first_panel, last_panel, first_column, last_column = bounds(unit)
        with f.loop(panels.first_row(first_panel), panels.first_row(last_panel)) as row:
            zero_run(f, elem, lanes, element(f, target, (group * n['lines'] + row) * n['filters'] + first_column, elem), last_column - first_column)

    def add(unit, image, block):
        group, first_panel, last_panel, first_column, last_column = bounds(unit)
        source_at = element(f, source, image * n['source_image'] + group * n['source_group'], elem)
        gradient_at = element(f, gradient, image * n['gradient_image'] + group * n['gradient_group'], elem)
        target_at = element(f, target, group * n['lines'] * n['filters'], elem)
        first_row, last_row = panels.first_row(first_panel), panels.first_row(last_panel)
        k0 = block * each
        depth = f.min(pixels - k0, each)
        pitch = depth + lanes
        invoke(f, 'window_lines', source_at, f.scratch, f.integers, first_row, last_row - first_row, k0, depth, pitch)
        with f.loop(first_column, last_column, width) as j:
            columns = f.min(last_column - j, f.const(width))
            from_ = element(f, gradient_at, j * n['gradient_filter'] + k0 * n['gradient_pixel'], elem)
            pack.panel_of(f, from_, room, depth, columns, n['gradient_filter'], n['gradient_pixel'])
            with f.loop(first_panel, last_panel) as panel:
                row, rows = panels.first_row(panel), panels.count(panel)
                invoke(f, 'tiles', element(f, f.scratch, (row - first_row) * pitch, elem), room,
                       element(f, target_at, row * n['filters'] + j, elem), depth, pitch, f.const(1), f.const(width), n['filters'],
                       image + block, columns, rows)

    # Units whose results fit the cache together take turns at each block of pixels: it is read from memory once.
    with f.loop(f.lo, f.hi, n['together']) as first_unit:
        last_unit = f.min(first_unit + n['together'], f.hi)
        with f.when(n['images'].eq(0)):          # nothing to sum
            with f.loop(first_unit, last_unit) as unit: clear(unit)
        with f.loop(f.const(0), n['images']) as image:
            with f.loop(f.const(0), blocks) as block:
                with f.loop(first_unit, last_unit) as unit: add(unit, image, block)
    lines_function(module, dtype)
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


def lines_function(module, dtype):
    """What `count` lines (channel, tap) from `line` on read at the pixels [k0, k0 + depth): element (line, pixel) at line * pitch + pixel. A line is written from its
    head to its end, in whole vectors: each piece may go beyond its own end, the last into the gap before the next line."""
    elem, size, lanes = vector_of(dtype)
    f = Internal(module, 'window_lines', LINES_ARGUMENTS)
    source, room, n, line, count, k0, depth, pitch = f.args
    n = Known(f, n, WEIGHT_INTS)
    taps = [n[f'taps_{d}'] for d in 'dhw']
    first = split(f, k0, n['pixels_h'], n['pixels_w'])
    step = n['advance_w'] * n['source_step_w']
    shift = lambda tap: {d: x * n[f'tap_move_{d}'] + n[f'shift_{d}'] for d, x in zip('dhw', tap)}
    flat = n['advance_w'].eq(1) & n['advance_h'].eq(1) & n['taps_d'].eq(1) & n['pixels_d'].eq(1) & n['source_d'].eq(1) & n['shift_d'].eq(0) & n['source_w'].eq(
        n['pixels_w']) & n['source_h'].eq(n['pixels_h']) & n['source_step_h'].eq(n['source_step_w'] * n['source_w'])

    def pieces(shift, run, clear):
        f.branch(flat, lambda: for_block(f, n, shift, k0, depth, run, clear), lambda: for_runs(f, n, shift, first, depth, run))

    def line_by_line(every):
        lines = Counter(f, split(f, line, *taps), [None, *taps])
        with f.loop(f.const(0), count) as i:
            channel, *tap = lines.get()
            base = element(f, source, channel * n['source_channel'], elem)
            to = element(f, room, i * pitch, elem)

            def run(done, low, high, length, away):
                here = element(f, to, done, elem)
                from_, inside = element(f, base, away, elem), element(f, here, low, elem)
                spill_zeros(f, elem, lanes, here, low)
                if every is None: copy_run(f, elem, lanes, from_, step, inside, high - low)
                else: spill_run(f, elem, lanes, from_, inside, high - low, every)
                spill_zeros(f, elem, lanes, element(f, here, high, elem), length - high)
            pieces(shift(tap), run, lambda at, some: zero_run(f, elem, 1, element(f, to, at, elem), some))
            lines.step()

    def channels_together():
        """Channels are adjacent in the source: squares of pixels and channels are transposed in registers."""
        total = taps[0] * taps[1] * taps[2]
        numbers = Counter(f, [f.const(0)] * 3, [None, *taps[1:]])
        with f.loop(f.const(0), total) as tap:
            begin = (line - tap + total - 1) // total            # channels whose line of this tap is among ours
            end = (line + count - tap + total - 1) // total
            row = lambda channel: element(f, room, (channel * total + tap - line) * pitch, elem)

            def run(done, low, high, length, away):
                from_ = element(f, source, away, elem)

                def squares(channel, channels):
                    """channels: how many of eight there are, None: all."""
                    mask = None if channels is None else lane_mask(f, channels, lanes)
                    with f.loop(low, high, lanes) as p:         # pixels beyond the last repeat it
                        places = [f.min(p - low + i, high - low - 1) * step + channel for i in range(lanes)]
                        values = transpose(f, [f.load(element(f, from_, at, elem), elem, lanes, mask) for at in places])
                        for i, v in enumerate(values):
                            to = element(f, row(channel + i), done + p, elem)
                            if channels is None: f.store(v, to)
                            else:
                                with f.when(channels > i): f.store(v, to)

                def zeros(low, high):
                    with f.when(low < high):
                        with f.loop(begin, end) as channel:
                            spill_zeros(f, elem, lanes, element(f, row(channel), done + low, elem), high - low)
                zeros(f.const(0), low)
                whole = end - ((end - begin) & (lanes - 1))
                with f.loop(begin, whole, lanes) as channel:
                    squares(channel, None)
                with f.when(whole < end):
                    squares(whole, end - whole)
                zeros(high, length)

            def clear(at, some):
                with f.loop(begin, end) as channel: zero_run(f, elem, 1, element(f, row(channel), at, elem), some)
            pieces(shift(numbers.get()), run, clear)
            numbers.step()

    def lines_apart():
        f.branch(step.eq(1), lambda: line_by_line(1), lambda: f.branch(step.eq(2), lambda: line_by_line(2), lambda: line_by_line(None)))
    if size < 4: lines_apart()                                   # no masked loads of such elements
    else: f.branch(n['source_channel'].eq(1) & step.ne(1), channels_together, lines_apart)
    return f


def lower_weight(program, dtype, shape, source, gradient, target):
    """The weight's gradient, [groups, channels, taps, filters] and dense. source: (image, channel, d, h, w), gradient: (image, filter, pixel)."""
    pr = program
    if depthwise(shape):
        from rushlight.compiler.templates import depthwise as direct
        return direct.lower_weight(pr, dtype, shape, source, gradient, target)
    _, size, lanes = vector_of(dtype)
    tile = tile_of(dtype)
    planes = in_planes(pr, dtype, source, (shape.batch, shape.groups, shape.channels), shape.image, ('temporary', 0, 0))
    strides = planes.source.strides
    lines = shape.channels * product(shape.taps)
    pixels = product(shape.result)
    panels, panel_rows, tall_panels = panels_of(pr, tile, lines)
    most_panels = UNIT_ROWS // tile.rows
    unit_panels, row_units, unit_columns, column_units = cut(pr, tile, shape.groups, panels, shape.filters)
    # few filters and many lines: more blocks of lines, but not so small that packing a panel of the gradient for each shows
    more = pr.max(row_units, pr.min(pr.ceildiv(UNITS // 2, pr.max(column_units * shape.groups, 1)), pr.ceildiv(panels, most_panels // 2)))
    row_units = pr.select(pr.le(panels, most_panels), 1, more)
    unit_panels = pr.ceildiv(panels, row_units)
    row_units = pr.ceildiv(panels, unit_panels)
    ints = {'in_planes': planes.used, 'groups': shape.groups, 'images': shape.batch, 'channels': shape.channels, 'filters': shape.filters, 'lines': lines,
            'source_image': strides[0], 'source_group': strides[1] * shape.channels, 'source_channel': strides[1],
            'unit_panels': unit_panels, 'row_units': row_units, 'unit_columns': unit_columns, 'column_units': column_units, 'panels': panels,
            'together': pr.max(pr.floordiv(TOGETHER, unit_panels * (tile.rows * size) * unit_columns), 1),
            'panel_rows': panel_rows, 'tall_panels': tall_panels, 'gradient_image': gradient.strides[0],
            'gradient_group': gradient.strides[1] * shape.filters, 'gradient_filter': gradient.strides[1], 'gradient_pixel': gradient.strides[2]}
    for i, d in enumerate('dhw'):
        values = (shape.result[i], shape.image[i], shape.taps[i], shape.stride[i], shape.dilation[i], 0 - shape.padding[i], strides[2 + i])
        ints.update({f'{name}_{d}': v for name, v in zip(('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step'), values)})
    work = pr.max(pr.floordiv(shape.batch * pixels * lines * shape.filters, 6), lines * shape.filters * size)
    units = shape.groups * row_units * column_units
    grain = pr.max(pr.floordiv(1 << 15, pr.max(pr.floordiv(work, row_units * column_units), 1)), 1)
    scratch = unit_panels * tile.rows * (pr.min(tile.k_block, pixels) + 8 + lanes) * size
    product_step = Step(weight_text(dtype), 'convolve_weight',
                        [(*source.pointer, source.offset), (*target.pointer, target.offset), (*gradient.pointer, gradient.offset), ('temporary', 0, 0) if planes.steps else (*source.pointer, source.offset)],
                        [ints[name] for name in WEIGHT_INTS], [], pr.select(pr.eq(lines * shape.filters, 0), 0, units), grain,
                        shape.groups * work, scratch)
    return planes.sizes, [*planes.steps, product_step]

