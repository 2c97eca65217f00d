"""Depthwise convolutions: each channel has one filter of its own. No product of matrices is left, so each pixel is summed directly.

**The bits.** Forward and input: one chain of fused multiply-adds over the taps in ascending order; taps outside the source read zeros. Weight: pixels go
to eight chains by their width index mod 8, each over (image, depth, height, width); the chains are folded by halving. All layouts follow
the same order.

**The machine code.** Vectors run along channels, whatever the layout: along pixels each short row would be a masked vector to copy and to store in pieces, and a
stride would leave holes in it. What a block of rows of pixels reads is copied into a *room* first: vectors of channels, pixel by pixel, with zeros around, so that no tap is outside.
Where channels are adjacent (channels_last) that is a plain copy, where pixels are (NCHW) squares are transposed in registers. Of the room each tap of each pixel is
one load, at a place that is the pixel's plus the tap's; both are in tables. Where channels are adjacent in source and target, forward and input read in place,
which takes 0.5 to 0.85 of the time.

Windows and phases are those of conv.py.
"""
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import conv, gemm
from rushlight.compiler.templates.gemm import Step
from rushlight.compiler.templates.pieces import Internal, Kernel, Module, element, invoke, lane_mask, multiply_add, prefetch, transpose
from rushlight.compiler.templates.tile import store_partial, vector_of
from rushlight.compiler.templates.windows import INTS, PHASE_NAMES, Integers, Known, phase_function, remembered, split, sum_of, zero_run

ALL_INTS = INTS + ('block', 'images')                                   # block: rows of pixels
ACROSS = 8                                                              # pixels at a time
ROW_PIXELS = 4                                                          # in place
CHAINS = 8                                                              # of a weight
TOGETHER = 9                                                            # taps of a weight at a time: nine, 25 and 27 leave the fewest over
CALLS = 8                                                               # of a weight's kernel at most: threads share the work, but each has units side by side
SIDE_BY_SIDE = 16                                                       # units of a weight that take turns: what one reads is beside what the next reads
BLOCK_BYTES = 1 << 14                                                   # of a room that is read for each chain: half the first-level cache
TURNED_BYTES = 1 << 17                                                  # of a room that is read once: a quarter of the second-level cache
CACHE_LINE = 64

# A room: of each tap of the depth `rows` rows of `pitch` pixels. low: where in the source it begins, of the first block; reach: the rows that a row of pixels reads.
ROOM = ('slices', 'slice_move', 'rows', 'pitch', 'low_h', 'low_w', 'reach', 'source_d', 'source_h', 'source_w', 'step_d', 'step_h', 'step_w', 'step_channel')


# -------------------------------------------------------------------------------------------------------------------------- the room
def describe_room(f, at, n, **own):
    for name, value in own.items():
        at[name] = value
    for d in 'dhw':
        at[f'source_{d}'] = n[f'source_{d}']
        at[f'step_{d}'] = n[f'source_step_{d}']
    at['step_channel'] = n['source_channel']


def fill_function(module, dtype):
    """Fill the first `rows` rows of a room, of `left` channels, with the source from depth `d` and row `top` on. Columns beside the source must be zero already: they stay so."""
    elem, _, lanes = vector_of(dtype)
    f = Internal(module, 'fill', [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'described'), ('i64', 'd'), ('i64', 'top'), ('i64', 'rows'), ('i64', 'left')])
    source, room, described, d, top, rows, left = f.args
    n = Known(f, described, ROOM)
    before = f.min(f.max(f.const(0) - n['low_w'], f.const(0)), n['pitch'])            # zeros at the head of a row
    behind = f.max(f.min(n['source_w'] - n['low_w'], n['pitch']), before)             # where the source's pixels end
    first = f.min(f.max(f.const(0) - top, f.const(0)), rows)
    last = f.max(f.min(n['source_h'] - top, rows), first)
    with f.loop(f.const(0), n['slices']) as i:
        y = d + i * n['slice_move']
        there = y.ult(n['source_d'])
        begin, end = f.select(there, first, rows), f.select(there, last, rows)
        to = [element(f, room, (i * n['rows'] + j) * n['pitch'] * lanes, elem) for j in (f.const(0), begin, end)]
        from_ = element(f, source, y * n['step_d'] + (top + begin) * n['step_h'] + (n['low_w'] + before) * n['step_w'], elem)
        zero_run(f, elem, lanes, to[0], begin * n['pitch'] * lanes)
        invoke(f, 'turn', from_, n['step_channel'], left, end - begin, n['step_h'], behind - before, n['step_w'], element(f, to[1], before * lanes, elem), n['pitch'] * lanes)
        zero_run(f, elem, lanes, to[2], (rows - end) * n['pitch'] * lanes)
    turn_function(module, dtype)
    return f


def turn_function(module, dtype):
    """Rows of pixels of a vector of planes, `step` apart, to vectors of channels, those of a row one after the other; lanes beyond `channels` may hold anything. A row
    may be followed by zeros up to a whole vector of pixels: what is there is zero, or is written after this. Of adjacent channels this takes a piece of every pixel, and the next
    call the piece beside it, which the machine does not see coming: it is called for here."""
    elem, size, lanes = vector_of(dtype)
    f = Internal(module, 'turn', [('ptr', 'source'), ('i64', 'step'), ('i64', 'channels'), ('i64', 'rows'), ('i64', 'row_step'), ('i64', 'length'), ('i64', 'pixel_step'),
                                  ('ptr', 'room'), ('i64', 'room_step')])
    source, step, channels, rows, row_step, length, pixel_step, room, room_step = f.args

    def every_row(way):
        with f.loop(f.const(0), rows) as row:
            way(row * row_step, element(f, room, row * room_step, elem))

    def channels_adjacent():
        def way(at, to, mask=None):
            with f.loop(f.const(0), length) as p:
                from_ = element(f, source, at + p * pixel_step, elem)
                prefetch(f, element(f, from_, lanes, elem))
                f.store(f.load(from_, elem, lanes, mask), element(f, to, p * lanes, elem))
        mask = lane_mask(f, channels, lanes) if size >= 4 else None
        f.branch(channels.eq(lanes), lambda: every_row(way), lambda: every_row(lambda at, to: way(at, to, mask) if size >= 4 else one_by_one(at, to)))

    def pixels_adjacent():
        planes = [element(f, source, f.min(f.const(c), channels - 1) * step, elem) for c in range(lanes)]
        whole = length & -lanes
        mask = lane_mask(f, length - whole, lanes)

        def way(at, to):
            def square(p, mask):
                turned = transpose(f, [f.load(element(f, plane, at + p, elem), elem, lanes, mask) for plane in planes])
                for i, v in enumerate(turned):
                    f.store(v, element(f, to, (p + i) * lanes, elem))
            with f.loop(f.const(0), whole, lanes) as p:
                square(p, None)
            with f.when(whole < length):
                square(whole, mask)
        every_row(way)

    def one_by_one(at, to):
        with f.loop(f.const(0), channels) as c:
            with f.loop(f.const(0), length) as p:
                f.store(f.load(element(f, source, at + c * step + p * pixel_step, elem), elem), element(f, to, p * lanes + c, elem))

    def otherwise():
        every_row(one_by_one)
    f.branch(step.eq(1), channels_adjacent, lambda: f.branch(pixel_step.eq(1), pixels_adjacent, otherwise) if size >= 4 else otherwise())
    return f


# ---------------------------------------------------------------------------------------------------------- forward and the input's gradient
@remembered
def windows_text(dtype, channels_last, epilogue=None):
    """The module with the kernel `depthwise`. channels_last: the target is. Units: (phase, image, depth), and then blocks of rows and vectors of channels, of these
    the ones that are nearer in memory fastest. The filters are packed: of each phase panels of one vector, element (tap, lane). Scratch: the taps' places, those
    of a block's pixels in room and target, the room."""
    elem, size, lanes = vector_of(dtype)
    module = Module()
    f = Kernel(module, 'depthwise')
    n = Known(f, f.integers, ALL_INTS)
    source, target, filters = (f.p(i) for i in range(3))
    storage, described = f.array('i64', len(PHASE_NAMES)), f.array('i64', len(ROOM))
    most = [(n[f'pixels_{d}'] + n[f'phases_{d}'] - 1) // n[f'phases_{d}'] for d in 'dhw']
    vectors, blocks = (n['groups'] + (lanes - 1)) // lanes, (most[1] + n['block'] - 1) // n['block']
    places = f.scratch
    pixels = element(f, places, (n['taps_d'] * n['taps_h'] * n['taps_w'] + 7) & -8, 'i64')      # vectors of the room should not lie across cache lines
    room = element(f, pixels, (n['block'] * most[2] * 2 + 7) & -8, 'i64')
    ready = Var(f, f.const(-1))
    with f.loop(f.lo, f.hi) as unit:
        number, image, d, *rest = split(f, unit, n['images'], most[0], *((blocks, vectors) if channels_last else (vectors, blocks)))
        block, vector = rest if channels_last else rest[::-1]
        with f.when(number.ne(ready.get())):
            ready.set(number)
            invoke(f, 'phase', storage, f.integers, number)
            invoke(f, 'prepare', storage, described, places, pixels, room, f.integers)
        phase = Known(f, storage, PHASE_NAMES)
        h, channel = block * n['block'], vector * lanes
        with f.when((d < phase['extent_d']) & (h < phase['extent_h'])):
            numbers = split(f, number, n['phases_h'], n['phases_w'])
            pixel = [x * n[f'phases_{k}'] + r for k, x, r in zip('dhw', (d, h, f.const(0)), numbers)]
            to = element(f, target, image * n['target_image'] + channel * n['target_channel'] + sum_of([x * n[f'target_step_{k}'] for k, x in zip('dhw', pixel)]), elem)
            taps = phase['count_d'] * phase['count_h'] * phase['count_w']
            count, left = f.min(phase['extent_h'] - h, n['block']), f.min(n['groups'] - channel, f.const(lanes))
            with f.when(taps.ne(0)):
                low, reach = (f.load(element(f, described, ROOM.index(name), 'i64'), 'i64') for name in ('low_h', 'reach'))
                invoke(f, 'fill', element(f, source, image * n['source_image'] + channel * n['source_channel'], elem), room, described,
                       d * n['advance_d'] + phase['start_d'], h * n['advance_h'] + low, (count - 1) * n['advance_h'] + reach, left)
            invoke(f, 'sum_windows', room, places, pixels, element(f, filters, number * n['most_k'] + channel * taps, elem), to, taps, count * phase['extent_w'], left,
                   n['target_channel'])
            if epilogue:                        # a forward convolution: there is one phase
                at = (d * n['pixels_h'] + h) * n['pixels_w']
                if channels_last:
                    invoke(f, 'finish', to, n['target_step_w'], count * n['pixels_w'], left, at, channel, image, f.pointers, f.integers, f.scalars)
                else:
                    invoke(f, 'finish', to, n['target_channel'], left, count * n['pixels_w'], channel, at, image, f.pointers, f.integers, f.scalars)
    phase_function(module)
    prepare_function(module, dtype)
    fill_function(module, dtype)
    sum_function(module, dtype, channels_last)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, 3, len(ALL_INTS))
    return module.text()


def prepare_function(module, dtype):
    """The tables of a phase, and an empty room."""
    elem, _, lanes = vector_of(dtype)
    f = Internal(module, 'prepare', [('ptr', 'phase'), ('ptr', 'described'), ('ptr', 'places'), ('ptr', 'pixels'), ('ptr', 'room'), ('ptr', 'n')])
    phase, described, places, pixels, room, n = f.args
    phase, n = Known(f, phase, PHASE_NAMES), Known(f, n, ALL_INTS)
    counts = [phase[f'count_{d}'] for d in 'dhw']
    spans = {d: f.max(phase[f'count_{d}'] - 1, f.const(0)) * n[f'tap_move_{d}'] for d in 'hw'}
    before = {d: f.min(x, f.const(0)) for d, x in spans.items()}           # from a window's first tap to its first pixel
    reach = {d: f.max(x, f.const(0)) - before[d] + 1 for d, x in spans.items()}
    rows, pitch = (n['block'] - 1) * n['advance_h'] + reach['h'], (phase['extent_w'] - 1) * n['advance_w'] + reach['w']
    describe_room(f, Integers(f, described, ROOM), n, slices=counts[0], slice_move=n['tap_move_d'], rows=rows, pitch=pitch, low_h=phase['start_h'] + before['h'],
                  low_w=phase['start_w'] + before['w'], reach=reach['h'])
    with f.loop(f.const(0), conv.product(counts)) as t:
        i, j, k = split(f, t, *counts[1:])
        f.store(((i * rows + j * n['tap_move_h'] - before['h']) * pitch + k * n['tap_move_w'] - before['w']) * lanes, element(f, places, t, 'i64'))
    at = Var(f, pixels)
    with f.loop(f.const(0), n['block']) as row:
        with f.loop(f.const(0), phase['extent_w']) as q:
            f.store((row * n['advance_h'] * pitch + q * n['advance_w']) * lanes, at.get())
            f.store(row * n['phases_h'] * n['target_step_h'] + q * n['phases_w'] * n['target_step_w'], element(f, at.get(), 1, 'i64'))
            at.set(element(f, at.get(), 2, 'i64'))
    zero_run(f, elem, lanes, room, counts[0] * rows * pitch * lanes)
    return f


def sum_function(module, dtype, channels_last):
    """The windows of the first `count` pixels of a block, of `left` channels: eight pixels at a time."""
    elem, size, lanes = vector_of(dtype)
    f = Internal(module, 'sum_windows', [('ptr', 'room'), ('ptr', 'places'), ('ptr', 'pixels'), ('ptr', 'panel'), ('ptr', 'target'), ('i64', 'taps'), ('i64', 'count'),
                                         ('i64', 'left'), ('i64', 'step')])
    room, places, pixels, panel, target, taps, count, left, step = f.args
    square = size >= 4 and not channels_last
    across = lanes if square else ACROSS

    def place(pixel, which):
        return f.load(element(f, pixels, pixel * 2 + which, 'i64'), 'i64')
    with f.loop(f.const(0), count, across) as number:
        first = f.max(f.min(number, count - across), f.const(0))           # the last ones may repeat some pixels
        which = [f.min(first + p, count - 1) for p in range(across)]
        here = [element(f, room, place(p, 0), elem) for p in which]
        acc = [Var(f, f.const(0, elem, lanes)) for _ in here]
        with f.loop(f.const(0), taps) as t:
            away = f.load(element(f, places, t, 'i64'), 'i64')
            w = f.load(element(f, panel, t * lanes, elem), elem, lanes)
            for p in range(across):
                acc[p].set(multiply_add(f, f.load(element(f, here[p], away, elem), elem, lanes), w, acc[p].get()))
        values = transpose(f, [a.get() for a in acc]) if square else [a.get() for a in acc]

        def scattered(values=values, which=which):
            at = [element(f, target, place(p, 1), elem) for p in which]
            for c in range(lanes):
                with f.when(left > c):
                    for p in range(across):
                        f.store(f.extract(values[c], p) if square else f.extract(values[p], c), element(f, at[p], c * step, elem))

        def planes(values=values, which=which):
            for c, v in enumerate(values):
                with f.when(left > c):
                    f.store(v, element(f, target, place(which[0], 1) + c * step, elem))
        if channels_last:
            store_partial(f, values, [element(f, target, place(p, 1), elem) for p in which], left, elem, lanes)
        elif square:
            adjacent = (count > across - 1) & (place(which[-1], 1) - place(which[0], 1)).eq(across - 1)
            f.branch(adjacent, planes, scattered)
        else:
            scattered()
    return f


# ------------------------------------------------------------------------------------------------ the same, in place where channels are adjacent
@remembered
def rows_text(dtype, epilogue=None):
    """The module with the kernel `depthwise` for a source and a target whose channels are adjacent. Units: (phase, image, depth and height) rows of pixels. The
    filters are packed, panels of two vectors. Scratch: the taps' places, the addresses that four pixels read, zeros for all channels."""
    elem, _, lanes = vector_of(dtype)
    module = Module()
    f = Kernel(module, 'depthwise')
    n = Known(f, f.integers, ALL_INTS)
    source, target, filters = (f.p(i) for i in range(3))
    storage = f.array('i64', len(PHASE_NAMES))
    most = [(n[f'pixels_{d}'] + n[f'phases_{d}'] - 1) // n[f'phases_{d}'] for d in 'dh']
    places = f.scratch
    addresses = element(f, places, n['taps_d'] * n['taps_h'] * n['taps_w'], 'i64')
    zeros = element(f, addresses, n['taps_d'] * n['taps_h'] * n['taps_w'] * ROW_PIXELS, 'i64')
    zero_run(f, elem, lanes, zeros, n['groups'])
    ready = Var(f, f.const(-1))
    with f.loop(f.lo, f.hi) as unit:
        number, image, d, h = split(f, unit, n['images'], *most)
        with f.when(number.ne(ready.get())):
            ready.set(number)
            invoke(f, 'phase', storage, f.integers, number)
            counts = [f.load(element(f, storage, PHASE_NAMES.index(f'count_{k}'), 'i64'), 'i64') for k in 'dhw']
            with f.loop(f.const(0), conv.product(counts)) as t:
                moved = [x * n[f'tap_move_{k}'] * n[f'source_step_{k}'] for k, x in zip('dhw', split(f, t, *counts[1:]))]
                f.store(sum_of(moved), element(f, places, t, 'i64'))
        phase = Known(f, storage, PHASE_NAMES)
        with f.when((d < phase['extent_d']) & (h < phase['extent_h'])):
            numbers = split(f, number, n['phases_h'], n['phases_w'])
            pixel = [x * n[f'phases_{k}'] + r for k, x, r in zip('dhw', (d, h, f.const(0)), numbers)]
            to = element(f, target, image * n['target_image'] + sum_of([x * n[f'target_step_{k}'] for k, x in zip('dhw', pixel)]), elem)
            invoke(f, 'pixel_row', element(f, source, image * n['source_image'], elem), element(f, filters, number * n['most_k'], elem), to, places, addresses, zeros,
                   storage, f.integers, d, h)
            if epilogue:
                row = (d * n['pixels_h'] + h) * n['pixels_w']
                invoke(f, 'finish', to, n['target_step_w'], phase['extent_w'], n['groups'], row, f.const(0), image, f.pointers, f.integers, f.scalars)
    phase_function(module)
    pixel_row_function(module, dtype)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, 3, len(ALL_INTS))
    return module.text()


def pixel_row_function(module, dtype):
    """A row of pixels of a phase: four pixels at a time, and for them panels of channels. Inside the source a tap is read at the pixel's place plus its own; for
    pixels at the border there is a table of addresses, of zeros where a tap is outside."""
    elem, size, lanes = vector_of(dtype)
    width = 2 * lanes
    lines = range(0, width, CACHE_LINE // size)
    f = Internal(module, 'pixel_row', [('ptr', 'source'), ('ptr', 'filter'), ('ptr', 'target'), ('ptr', 'places'), ('ptr', 'addresses'), ('ptr', 'zeros'),
                                       ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'd'), ('i64', 'h')])
    source, filters, target, places, addresses, zeros, phase, n, d, h = f.args
    phase, n = Known(f, phase, PHASE_NAMES), Known(f, n, ALL_INTS)
    counts = [phase[f'count_{x}'] for x in 'dhw']
    taps, extent = conv.product(counts), phase['extent_w']
    spans = [(c - 1) * n[f'tap_move_{k}'] for k, c in zip('dhw', counts)]
    low, high = ([g(x, f.const(0)) for x in spans] for g in (f.min, f.max))
    begin = [x * n[f'advance_{k}'] + phase[f'start_{k}'] for k, x in zip('dh', (d, h))]
    target_step, advance = n['target_step_w'] * n['phases_w'], n['advance_w']
    rows_inside = f.const(1, 'i1')
    for k, at, a, b in zip('dh', begin, low, high):
        rows_inside = rows_inside & (at + a > -1) & (at + b < n[f'source_{k}'])

    def group(q, channel, whole_panel, inside):
        """whole_panel: all lanes are channels; inside: no tap is outside."""
        left = n['groups'] - channel
        second = f.max(left - lanes, f.const(0))
        masks = [None, None] if whole_panel else [lane_mask(f, left, lanes), lane_mask(f, second, lanes)]
        panel = element(f, filters, channel * taps, elem)          # panels of `width` channels, `taps` elements each
        acc = [[Var(f, f.const(0, elem, lanes)) for _ in range(2)] for _ in range(ROW_PIXELS)]
        corner = begin[0] * n['source_step_d'] + begin[1] * n['source_step_h'] + (q * advance + phase['start_w']) * n['source_step_w'] + channel
        here = [element(f, source, corner + advance * n['source_step_w'] * p, elem) for p in range(ROW_PIXELS)]
        if inside:
            # Rows are far apart in memory, and each piece of one is short: what the next row of pixels reads and writes is called for here, or it arrives late
            coming = element(f, source, corner + (high[1] + 1) * n['source_step_h'] + high[2] * n['source_step_w'], elem)
            with f.loop(f.const(0), f.min(n['advance_h'], counts[1])) as i:
                with f.loop(f.const(0), advance * ROW_PIXELS) as j:
                    for line in lines:
                        prefetch(f, element(f, coming, i * n['source_step_h'] + j * n['source_step_w'] + line, elem))
            for p in range(ROW_PIXELS):
                for line in lines:
                    prefetch(f, element(f, target, channel + (q + p) * target_step + n['phases_h'] * n['target_step_h'] + line, elem))
        with f.loop(f.const(0), taps) as t:
            w = [f.load(element(f, panel, t * width + v * lanes, elem), elem, lanes) for v in range(2)]
            if inside:
                away = f.load(element(f, places, t, 'i64'), 'i64')
            for p in range(ROW_PIXELS):
                from_ = element(f, here[p], away, elem) if inside else element(f, f.load(element(f, addresses, t * ROW_PIXELS + p, 'i64'), 'ptr'), channel, elem)
                for v in range(2):
                    acc[p][v].set(multiply_add(f, f.load(element(f, from_, v * lanes, elem), elem, lanes, masks[v]), w[v], acc[p][v].get()))
        for p in range(ROW_PIXELS):
            for v in range(2):
                to = element(f, target, channel + f.min(q + p, extent - 1) * target_step + v * lanes, elem)
                if whole_panel:
                    f.store(acc[p][v].get(), to)
                else:
                    store_partial(f, [acc[p][v].get()], [to], (f.min(left, f.const(lanes)), second)[v], elem, lanes)

    def channels(q, inside):
        full = n['groups'] & -width
        with f.loop(f.const(0), full, width) as channel:
            group(q, channel, True, inside)
        with f.when(full < n['groups']):
            group(q, full, False, inside)

    def border(q):
        at = Var(f, addresses)
        with f.loop(f.const(0), counts[0]) as i:
            with f.loop(f.const(0), counts[1]) as j:
                y, x = begin[0] + i * n['tap_move_d'], begin[1] + j * n['tap_move_h']
                line = element(f, source, y * n['source_step_d'] + x * n['source_step_h'], elem)
                limit = f.select(y.ult(n['source_d']) & x.ult(n['source_h']), n['source_w'], f.const(0))
                with f.loop(f.const(0), counts[2]) as t:
                    for p in range(ROW_PIXELS):
                        place = f.min(q + p, extent - 1) * advance + phase['start_w'] + t * n['tap_move_w']
                        f.store(f.select(place.ult(limit), element(f, line, place * n['source_step_w'], elem), zeros), element(f, at.get(), p, 'i64'))
                    at.set(element(f, at.get(), ROW_PIXELS, 'i64'))
        channels(q, False)
    with f.loop(f.const(0), extent, ROW_PIXELS) as number:
        q = f.max(f.min(number, extent - ROW_PIXELS), f.const(0))          # the last four may repeat some pixels
        first = q * advance + phase['start_w']
        inside = rows_inside & (extent > ROW_PIXELS - 1) & (first + low[2] > -1) & (first + high[2] + (ROW_PIXELS - 1) * advance < n['source_w'])
        f.branch(inside, lambda: channels(q, True), lambda: border(q))
    return f


# ------------------------------------------------------------------------------------------------------------------ the weight
WEIGHT_INTS = ('groups', 'images', 'source_image', 'source_channel', 'gradient_image', 'gradient_channel', 'gradient_step') + tuple(
    f'{name}_{d}' for name in ('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step') for d in 'dhw') + ('block', 'images_together')


@remembered
def weight_text(dtype, turned):
    """The module with the kernel `depthwise_weight`, vectors along channels. turned: those of the gradient are not adjacent. Units: two vectors. Scratch: the taps'
    places, for each vector, tap and chain a sum, the places of each chain's pixels of a block of rows, the source that such a block reads, and its gradient."""
    elem, _, lanes = vector_of(dtype)
    module = Module()
    f = Kernel(module, 'depthwise_weight')
    n = Known(f, f.integers, WEIGHT_INTS)
    source, target, gradient = (f.p(i) for i in range(3))
    taps = n['taps_d'] * n['taps_h'] * n['taps_w']
    groups = (taps + (TOGETHER - 1)) // TOGETHER
    per_vector = groups * (TOGETHER * CHAINS * lanes)
    places = f.scratch
    chains = element(f, places, (groups * TOGETHER + 7) & -8, 'i64')
    pixels = element(f, chains, per_vector * (2 * SIDE_BY_SIDE), elem)
    room = element(f, pixels, of_chain(f, n) * (CHAINS * 2), 'i64')
    rows, pitch = reach(n, 'h', n['block']), reach(n, 'w', n['pixels_w'])
    with f.loop(f.const(0), groups * TOGETHER) as t:
        i, j, k = split(f, f.min(t, taps - 1), n['taps_h'], n['taps_w'])   # the last is repeated, and thrown away
        f.store(((i * rows + j * n['tap_move_h']) * pitch + k * n['tap_move_w']) * lanes, element(f, places, t, 'i64'))
    with f.loop(f.const(0), f.min(n['pixels_w'], f.const(CHAINS))) as chain:
        at = Var(f, element(f, pixels, chain * of_chain(f, n) * 2, 'i64'))
        with f.loop(f.const(0), n['images_together']) as image:
            with f.loop(f.const(0), n['block']) as row:
                with f.loop(chain, n['pixels_w'], CHAINS) as q:
                    f.store(image * room_of(n, lanes) + (row * n['advance_h'] * pitch + q * n['advance_w']) * lanes, at.get())
                    line = row * n['pixels_w'] + q
                    f.store((image * n['block'] * n['pixels_w'] + line) * lanes if turned else image * n['gradient_image'] + line * n['gradient_step'],
                            element(f, at.get(), 1, 'i64'))
                    at.set(element(f, at.get(), 2, 'i64'))
    described = f.array('i64', len(ROOM))
    describe_room(f, Integers(f, described, ROOM), n, slices=n['taps_d'], slice_move=n['tap_move_d'], rows=rows, pitch=pitch, low_h=n['shift_h'],
                  low_w=n['shift_w'], reach=reach(n, 'h', 1))
    zero_run(f, elem, lanes, room, n['images_together'] * room_of(n, lanes))
    with f.loop(f.lo, f.hi, SIDE_BY_SIDE) as unit:
        begin, end = unit * 2, f.min(f.min(unit + SIDE_BY_SIDE, f.hi) * 2, (n['groups'] + (lanes - 1)) // lanes)
        zero_run(f, elem, lanes, chains, per_vector * (end - begin))
        with f.loop(f.const(0), n['images'], n['images_together']) as image:
            with f.loop(f.const(0), n['pixels_d']) as d:
                with f.loop(f.const(0), n['pixels_h'], n['block']) as h:
                    with f.loop(f.const(0), end - begin) as v:
                        first = (begin + v) * lanes
                        invoke(f, 'weight_rows', element(f, source, image * n['source_image'] + first * n['source_channel'], elem),
                               element(f, gradient, image * n['gradient_image'] + first * n['gradient_channel'], elem), element(f, chains, v * per_vector, elem), places, pixels, room,
                               described, f.integers, f.min(n['images'] - image, n['images_together']), d, h, f.min(n['pixels_h'] - h, n['block']),
                               f.min(n['groups'] - first, f.const(lanes)))
        with f.loop(f.const(0), end - begin) as v:
            first = (begin + v) * lanes
            left = f.min(n['groups'] - first, f.const(lanes))
            with f.loop(f.const(0), taps) as t:
                sums = element(f, chains, v * per_vector + t * (CHAINS * lanes), elem)
                parts = [f.load(element(f, sums, k * lanes, elem), elem, lanes) for k in range(CHAINS)]
                while len(parts) > 1:
                    middle = len(parts) // 2
                    parts = [a + b for a, b in zip(parts[:middle], parts[middle:])]
                f.store(parts[0], sums)
                with f.loop(f.const(0), left) as lane:
                    f.store(f.load(element(f, sums, lane, elem), elem), element(f, target, (first + lane) * taps + t, elem))
    weight_rows_function(module, dtype, turned)
    fill_function(module, dtype)
    return module.text()


def reach(n, d, pixels):
    """How much of the source neighbouring pixels read."""
    return (pixels - 1) * n[f'advance_{d}'] + (n[f'taps_{d}'] - 1) * n[f'tap_move_{d}'] + 1


def of_chain(f, n):
    """The most pixels of a block that a chain has."""
    return n['images_together'] * n['block'] * ((n['pixels_w'] + (CHAINS - 1)) // CHAINS)


def room_of(n, lanes):
    """The elements of one image's room."""
    return (n['taps_d'] * reach(n, 'h', n['block']) * reach(n, 'w', n['pixels_w']) + lanes) * lanes


def weight_rows_function(module, dtype, turned):
    """Add `count` rows of pixels from h on, of some images and one vector of channels, to all chains. What they read is copied with zeros around it first, so that no tap is
    outside; then of one chain, nine taps at a time are in registers: a pixel of the gradient is read once for them."""
    elem, _, lanes = vector_of(dtype)
    f = Internal(module, 'weight_rows', [('ptr', 'source'), ('ptr', 'gradient'), ('ptr', 'chains'), ('ptr', 'places'), ('ptr', 'pixels'), ('ptr', 'room'),
                                         ('ptr', 'described'), ('ptr', 'n'), ('i64', 'images'), ('i64', 'd'), ('i64', 'h'), ('i64', 'count'), ('i64', 'left')])
    source, gradient, chains, places, pixels, room, described, n, images, d, h, count, left = f.args
    n = Known(f, n, WEIGHT_INTS)
    with f.loop(f.const(0), images) as image:
        invoke(f, 'fill', element(f, source, image * n['source_image'], elem), element(f, room, image * room_of(n, lanes), elem), described,
               d * n['advance_d'] + n['shift_d'], h * n['advance_h'] + n['shift_h'], reach(n, 'h', count), left)
    lines = element(f, gradient, (d * n['pixels_h'] + h) * n['pixels_w'] * n['gradient_step'], elem)

    def add(mask, lines):
        taps = n['taps_d'] * n['taps_h'] * n['taps_w']
        with f.loop(f.const(0), taps, TOGETHER) as t:
            some = [f.load(element(f, places, t + k, 'i64'), 'i64') for k in range(TOGETHER)]
            with f.loop(f.const(0), f.min(n['pixels_w'], f.const(CHAINS))) as chain:
                sums = [element(f, chains, ((t + k) * CHAINS + chain) * lanes, elem) for k in range(TOGETHER)]
                acc = [Var(f, f.load(at, elem, lanes)) for at in sums]
                steps = element(f, pixels, chain * of_chain(f, n) * 2, 'i64')
                with f.loop(f.const(0), images * count * ((n['pixels_w'] - chain + (CHAINS - 1)) // CHAINS)) as i:
                    x, y = (element(f, base, f.load(element(f, steps, i * 2 + k, 'i64'), 'i64'), elem) for k, base in enumerate((room, lines)))
                    if not turned: prefetch(f, element(f, y, lanes, elem))
                    y = f.load(y, elem, lanes, mask)
                    for k in range(TOGETHER):
                        acc[k].set(multiply_add(f, f.load(element(f, x, some[k], elem), elem, lanes), y, acc[k].get()))
                for k in range(TOGETHER):
                    f.store(acc[k].get(), sums[k])

    if turned:
        turned_lines = element(f, room, n['images_together'] * room_of(n, lanes), elem)
        with f.loop(f.const(0), images) as image:
            to = element(f, turned_lines, image * n['block'] * n['pixels_w'] * lanes, elem)
            invoke(f, 'turn', element(f, lines, image * n['gradient_image'], elem), n['gradient_channel'], left, f.const(1), f.const(0), count * n['pixels_w'],
                   n['gradient_step'], to, f.const(0))
        add(None, turned_lines)
    else:
        f.branch(left.eq(lanes), lambda: add(None, lines), lambda: add(lane_mask(f, left, lanes), lines))
    return f


# --------------------------------------------------------------------------------------------------------------------- lowering
def lower_windows(program, dtype, shape, ints, phases, source, filters, target, channels_last, epilogue=None):
    """Forward, or the input's gradient. ints: those of conv.lower_windows."""
    pr = program
    _, size, lanes = vector_of(dtype)
    extra = epilogue or gemm.Epilogue(None)
    extents = [pr.ceildiv(ints[f'pixels_{d}'], p) for d, p in zip('dhw', phases)]
    taps = [pr.ceildiv(t, ints[f'tap_skip_{d}']) for t, d in zip(shape.taps, 'dhw')]
    in_place = channels_last and bool(source.strides[1] == 1)
    width = 2 * lanes if in_place else lanes
    panels, count = pr.ceildiv(shape.groups, width), conv.product(phases)
    ints = {**ints, 'most_k': panels * width * conv.product(taps), 'depth': 1}
    own = [ints.get(k, 0) for k in INTS]
    more = {'groups': 1, 'panels': panels, 'panel_lines': width, 'tall_panels': 0, 'lines': shape.groups, 'group_step': 0,
            'line_step': filters.strides[0], 'k_step': 0, **{f'tap_step_{d}': s for d, s in zip('dhw', filters.strides[2:])}}
    packing = Step(conv.filter_text(dtype, width), 'pack_filter', [(*filters.pointer, filters.offset), ('temporary', 0, 0)],
                   own + [more[name] for name in conv.FILTER_INTS], [], count * panels, 16, count * ints['most_k'] * (size * 3))
    if in_place:
        block, text = 1, rows_text(dtype, epilogue=epilogue)
        units, scratch = count * shape.batch * extents[0] * extents[1], conv.product(shape.taps) * (8 + 8 * ROW_PIXELS) + (shape.groups + width) * size
    else:
        block, room = block_of(pr, extents, taps, [ints[f'advance_{d}'] for d in 'dhw'], shape.dilation, TURNED_BYTES // (lanes * size))
        text, units = windows_text(dtype, channels_last, epilogue=epilogue), count * shape.batch * extents[0] * pr.ceildiv(extents[1], block) * panels
        scratch = conv.product(shape.taps) * 8 + block * extents[2] * 16 + 128 + (room + lanes) * (lanes * size)
    least = 1 if in_place else pr.ceildiv(units, gemm.UNITS)       # units to a call: each prepares tables and clears its room
    work = pr.floordiv(count * shape.batch * conv.product(extents) * shape.groups * (2 * size + conv.product(taps)), pr.max(units, 1))
    run = Step(text, 'depthwise', [(*source.pointer, source.offset), (*target.pointer, target.offset), ('temporary', 0, 0), *extra.pointers],
               own + [block, shape.batch, *extra.ints], list(extra.scalars), pr.select(pr.eq(conv.product(extents) * shape.groups, 0), 0, units),
               pr.max(pr.floordiv(1 << 15, pr.max(work, 1)), least), units * work, scratch)
    return [count * ints['most_k'] * size], [packing, run]


def block_of(pr, extents, taps, advance, moves, most):
    """(rows of pixels to a block, pixels of its room)."""
    pitch, reach = ((x - 1) * a + (t - 1) * m + 1 for x, a, t, m in ((extents[2], advance[2], taps[2], moves[2]), (1, advance[1], taps[1], moves[1])))
    block = pr.min(pr.max(pr.floordiv(most, pr.max(pitch * advance[1], 1)), 1), pr.max(extents[1], 1))
    return block, pr.max(taps[0] * ((block - 1) * advance[1] + reach) * pitch, 0)


def lower_weight(program, dtype, shape, source, gradient, target):
    """The weight's gradient, [groups, 1, taps, 1]."""
    pr = program
    _, size, lanes = vector_of(dtype)
    pixels, taps = conv.product(shape.result), conv.product(shape.taps)
    ints = {'groups': shape.groups, 'images': shape.batch, 'source_image': source.strides[0], 'source_channel': source.strides[1],
            'gradient_image': gradient.strides[0], 'gradient_channel': gradient.strides[1], 'gradient_step': gradient.strides[2]}
    for i, d in enumerate('dhw'):
        values = (shape.result[i], shape.image[i], shape.taps[i], shape.stride[i], shape.dilation[i], 0 - shape.padding[i], source.strides[2 + i])
        ints.update({f'{name}_{d}': v for name, v in zip(('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step'), values)})
    turned = not bool(gradient.strides[1] == 1)
    units = pr.ceildiv(shape.groups, 2 * lanes)
    work = shape.batch * pixels * (2 * size + taps) * (2 * lanes)
    most = BLOCK_BYTES // (lanes * size) * (2 if turned else 1)          # a gradient in place has its room in the cache too
    block, room = block_of(pr, shape.result, shape.taps, shape.stride, shape.dilation, most)
    # of small images some at a time, or the chains would move to and from memory more often than pixels do; they are summed depth by depth otherwise
    whole = pr.eq(shape.result[0], 1) * pr.eq(block, shape.result[1])
    together = pr.select(whole, pr.min(pr.max(pr.floordiv(most, pr.max(room, 1)), 1), pr.max(shape.batch, 1)), 1)
    ints.update(block=block, images_together=together)
    tables = pr.ceildiv(taps, TOGETHER) * (TOGETHER * (8 + CHAINS * 2 * SIDE_BY_SIDE * lanes * size)) + together * block * pr.ceildiv(shape.result[2], CHAINS) * (CHAINS * 16)
    room = together * (room + lanes + (block * shape.result[2] if turned else 0)) + 2 * lanes
    return [], [Step(weight_text(dtype, turned), 'depthwise_weight', [(*source.pointer, source.offset), (*target.pointer, target.offset), (*gradient.pointer, gradient.offset)],
                     [ints[k] for k in WEIGHT_INTS], [], pr.select(pr.eq(taps, 0), 0, units), pr.ceildiv(units, CALLS), units * work, 64 + tables + room * (lanes * size))]
