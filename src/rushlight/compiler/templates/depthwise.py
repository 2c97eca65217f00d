"""Depthwise convolutions: each channel has one filter of its own. No product of matrices is left, so each pixel is summed directly.

**The bits.** Forward and input: one chain of fused multiply-adds over the taps in ascending order; taps outside the source read zeros. Weight: pixels go
to eight chains by their width index mod 8, each over (image, depth, height, width); the chains are folded by halving. Both layouts follow
the same order.

Where channels are adjacent (channels_last) vectors run along them and read in place. Where pixels are (NCHW), a vector of planes is turned into vectors of
channels, with zeros around; a row of seven or fourteen pixels would fill no vector, and a stride would leave holes in it. Planes too large for that are copied
one by one with zeros around, their pixels sorted by their index mod the stride, so that every tap of a vector of pixels is one plain load.
Windows and phases are those of conv.py.
"""
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import conv, gemm
from rushlight.compiler.templates.gemm import Step, store_partial
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke, lane_mask, multiply_add, prefetch, transpose
from rushlight.compiler.templates.windows import INTS, PHASE_NAMES, Integers, Known, copy_run, phase_function, remembered, spill_run, split, sum_of, zero_run

FILTER = ('filter_channel', 'filter_d', 'filter_h', 'filter_w')         # memory steps of the weight
ALL_INTS = INTS + FILTER
ACROSS = 4                                                              # rows, or pixels of a row, at a time
CHAINS = 8                                                              # of a weight
TOGETHER = 9                                                            # taps of a weight at a time: nine, 25 and 27 leave the fewest over
SIDE_BY_SIDE = 16                                                       # units of a weight that take turns: what one reads is beside what the next reads
TURNED_PIXELS = 4096                                                    # of a vector of planes, with zeros around: a quarter of the second-level cache
BLOCK_PIXELS = 512                                                      # of the source, of one vector of channels: half the first-level cache

# The padded copy of a plane: its rows (depth, height) one after the other, each in `advance` parts of `part` pixels. The integers:
PLANE = ('rows_d', 'rows_h', 'part', 'pitch', 'low_d', 'low_h', 'low_w')


# ------------------------------------------------------------------------------------------------------------ a plane with zeros around
def plane_of(f, at, n, get, vector):
    """Fill in PLANE for windows described by `get(name, dimension)`: count, start, extent; advance and tap_move come from n."""
    for d in 'dhw':
        span = (get('count', d) - 1) * n[f'tap_move_{d}']
        low = get('start', d) + f.min(span, f.const(0))
        at[f'low_{d}'] = low
        reach = f.max(span, f.const(0)) - f.min(span, f.const(0))
        if d != 'w':
            at[f'rows_{d}'] = (get('extent', d) - 1) * n[f'advance_{d}'] + reach + 1
        else:
            vectors = (get('extent', 'w') + (vector - 1)) & -vector
            part = vectors + reach // n['advance_w'] + 1
            at['part'] = part
            at['pitch'] = part * n['advance_w']


def pad_function(module, dtype):
    """Copy a plane of the source into the room that `plane` describes. What is around it must be zero already: it stays so from plane to plane."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'pad_plane', [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'plane'), ('ptr', 'values')])
    source, room, plane, values = f.args
    plane, v = Known(f, plane, PLANE), Known(f, values, SOURCE)
    advance = v['advance_w']
    before = f.max(f.const(0) - plane['low_w'], f.const(0))              # zeros at the head of a row
    behind = f.min(v['source_w'] - plane['low_w'], plane['pitch'])       # where the source's pixels end
    first = f.max(plane['low_w'], f.const(0))
    with f.when(behind > before):
        with f.loop(f.const(0), plane['rows_d']) as i:
            with f.loop(f.const(0), plane['rows_h']) as j:
                d, h = i + plane['low_d'], j + plane['low_h']
                to = element(f, room, (i * plane['rows_h'] + j) * plane['pitch'], elem)
                at = element(f, source, d * v['step_d'] + h * v['step_h'] + first * v['step_w'], elem)
                with f.when(d.ult(v['source_d']) & h.ult(v['source_h'])):
                    f.branch(advance.eq(1), lambda: fill_run(f, dtype, at, v['step_w'], element(f, to, before, elem), behind - before),
                             lambda: invoke(f, 'deal', at, to, before, behind - before, advance, plane['part'], v['step_w']))
    deal_function(module, dtype)
    return f


def fill_run(f, dtype, source, step, target, count):
    """count elements that are `step` apart, to adjacent ones, and zeros up to a whole vector: what is there is zero, or is written after this."""
    elem, _, lanes = ELEMENT[dtype]
    f.branch(step.eq(1), lambda: spill_run(f, elem, lanes, source, target, count), lambda: copy_run(f, elem, lanes, source, step, target, count))


def clear_plane(f, dtype, room, plane):
    elem, _, lanes = ELEMENT[dtype]
    zero_run(f, elem, lanes, room, plane['rows_d'] * plane['rows_h'] * plane['pitch'] + lanes)


def deal_function(module, dtype):
    """Deal out `count` pixels of a row, the first at index `begin`, to the parts index mod advance."""
    elem, size, lanes = ELEMENT[dtype]
    f = Internal(module, 'deal', [('ptr', 'source'), ('ptr', 'target'), ('i64', 'begin'), ('i64', 'count'), ('i64', 'advance'), ('i64', 'part'), ('i64', 'step')])
    source, target, begin, count, advance, part, step = f.args
    done = Var(f, f.const(0))
    if size >= 4:
        with f.when(advance.eq(2) & step.eq(1)):
            # pairs of vectors into even and odd ones; an odd start swaps the two
            odd = begin & 1
            halves = [element(f, target, (odd * part) + begin.lshr(1), elem),
                      element(f, target, f.select(odd.eq(0), part, f.const(0)) + (begin + 1).lshr(1), elem)]
            with f.loop_while(lambda: done.get() + (2 * lanes - 1) < count):
                a, b = (f.load(element(f, source, done.get() + k * lanes, elem), elem, lanes) for k in range(2))
                at = done.get().lshr(1)
                for k in range(2):
                    f.store(f.shuffle(a, [2 * i + k for i in range(lanes)], b), element(f, halves[k], at, elem))
                done.set(done.get() + 2 * lanes)
    where = begin + done.get()
    slot, which = Var(f, where // advance), Var(f, where % advance)
    with f.loop(done.get(), count) as i:
        f.store(f.load(element(f, source, i * step, elem), elem), element(f, target, which.get() * part + slot.get(), elem))
        which.set(which.get() + 1)
        with f.when(which.get().eq(advance)):
            which.set(f.const(0))
            slot.set(slot.get() + 1)
    return f


SOURCE = ('source_d', 'source_h', 'source_w', 'step_d', 'step_h', 'step_w', 'advance_w')


def describe_source(f, at, n):
    for d in 'dhw':
        at[f'source_{d}'] = n[f'source_{d}']
        at[f'step_{d}'] = n[f'source_step_{d}']
    at['advance_w'] = n['advance_w']


def tap_offset(f, plane, n, start, taps):
    index = [start[d] + t * n[f'tap_move_{d}'] - plane[f'low_{d}'] for d, t in zip('dhw', taps)]
    advance = n['advance_w']
    return (index[0] * plane['rows_h'] + index[1]) * plane['pitch'] + (index[2] % advance) * plane['part'] + index[2] // advance


# -------------------------------------------------------------------------------------------------------- vectors along pixels
def rows_function(module, dtype):
    """All pixels of a phase of one plane, from its padded copy: a vector of pixels of four rows at a time. tables: each tap's place and weight."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'plane_rows', [('ptr', 'room'), ('ptr', 'places'), ('ptr', 'weights'), ('ptr', 'target'), ('ptr', 'phase'), ('ptr', 'plane'),
                                        ('ptr', 'n'), ('i64', 'taps')])
    room, places, weights, target, phase, plane, n, taps = f.args
    phase, plane = Known(f, phase, PHASE_NAMES), Known(f, plane, PLANE)
    n = Known(f, n, ALL_INTS)
    step = {d: n[f'phases_{d}'] * n[f'target_step_{d}'] for d in 'dhw'}
    with f.loop(f.const(0), phase['extent_d']) as d:
        with f.loop(f.const(0), phase['extent_h'], ACROSS) as h:
            last = phase['extent_h'] - 1
            rows = [f.min(h + r, last) for r in range(ACROSS)]
            bases = [element(f, room, (d * n['advance_d'] * plane['rows_h'] + row * n['advance_h']) * plane['pitch'], elem) for row in rows]
            with f.loop(f.const(0), phase['extent_w'], lanes) as q:
                acc = [Var(f, f.const(0, elem, lanes)) for _ in rows]
                here = [element(f, b, q, elem) for b in bases]
                with f.loop(f.const(0), taps) as t:
                    place = f.load(element(f, places, t, 'i64'), 'i64')
                    w = f.splat(f.load(element(f, weights, t, elem), elem), lanes)
                    for r in range(ACROSS):
                        acc[r].set(multiply_add(f, f.load(element(f, here[r], place, elem), elem, lanes), w, acc[r].get()))
                count = f.min(phase['extent_w'] - q, f.const(lanes))
                for r in range(ACROSS):
                    with f.when(h + r < phase['extent_h']):
                        to = element(f, target, d * step['d'] + (h + r) * step['h'] + q * step['w'], elem)
                        value = acc[r].get()

                        def apart(value=value, to=to):
                            for lane in range(lanes):
                                with f.when(count > lane):
                                    f.store(f.extract(value, lane), element(f, to, step['w'] * lane, elem))
                        f.branch(step['w'].eq(1), lambda value=value, to=to: store_partial(f, [value], [to], count, elem, lanes), apart)
    return f


@remembered
def planes_text(dtype, channels_last, epilogue=None):
    """The module with the kernel `depthwise`, vectors along pixels. Units: planes, one channel of one image. channels_last: the target is, and its
    epilogue has pixels as rows. Scratch: the taps' places and weights, the padded plane."""
    elem, size, lanes = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'depthwise')
    n = Known(f, f.integers, ALL_INTS)
    source, target, filters = (f.p(i) for i in range(3))
    tables = {name: f.array('i64', len(names)) for name, names in (('phase', PHASE_NAMES), ('plane', PLANE), ('source', SOURCE))}
    describe_source(f, Integers(f, tables['source'], SOURCE), n)
    all_taps = n['taps_d'] * n['taps_h'] * n['taps_w']
    places = f.scratch
    weights = element(f, places, all_taps, 'i64')
    room = element(f, weights, (all_taps * size + 63) & -64, 'i8')
    with f.loop(f.const(0), n['phases_d'] * n['phases_h'] * n['phases_w']) as number:
        invoke(f, 'phase', tables['phase'], f.integers, number)
        phase = Known(f, tables['phase'], PHASE_NAMES)
        plane_of(f, Integers(f, tables['plane'], PLANE), n, lambda name, d: phase[f'{name}_{d}'], lanes)
        plane = Known(f, tables['plane'], PLANE)
        start = {d: phase[f'start_{d}'] for d in 'dhw'}
        counts = [phase[f'count_{d}'] for d in 'dhw']
        taps = counts[0] * counts[1] * counts[2]
        with f.loop(f.const(0), taps) as t:
            f.store(tap_offset(f, plane, n, start, split(f, t, counts[1], counts[2])), element(f, places, t, 'i64'))
        with f.when(taps.ne(0)):
            clear_plane(f, dtype, room, plane)
        numbers = split(f, number, n['phases_h'], n['phases_w'])
        begin = sum_of([r * n[f'target_step_{d}'] for d, r in zip('dhw', numbers)])
        with f.loop(f.lo, f.hi) as unit:
            image, channel = split(f, unit, n['groups'])
            source_at = element(f, source, image * n['source_image'] + channel * n['source_channel'], elem)
            target_at = element(f, target, image * n['target_image'] + channel * n['target_channel'] + begin, elem)
            filter_at = element(f, filters, channel * n['filter_channel'], elem)
            done = Var(f, f.const(0))
            with f.loop(f.const(0), counts[0]) as i:
                with f.loop(f.const(0), counts[1]) as j:
                    with f.loop(f.const(0), counts[2]) as k:
                        tap = [phase[f'first_{d}'] + x * n[f'tap_skip_{d}'] for d, x in zip('dhw', (i, j, k))]
                        away = sum_of([x * n[f'filter_{d}'] for d, x in zip('dhw', tap)])
                        f.store(f.load(element(f, filter_at, away, elem), elem), element(f, weights, done.get(), elem))
                        done.set(done.get() + 1)
            with f.when(taps.ne(0)):
                invoke(f, 'pad_plane', source_at, room, tables['plane'], tables['source'])
            invoke(f, 'plane_rows', room, places, weights, target_at, tables['phase'], tables['plane'], f.integers, taps)
            if epilogue:                        # a forward convolution: there is one phase
                pixels = n['pixels_d'] * n['pixels_h'] * n['pixels_w']
                across = (f.const(0), f.const(1), pixels, channel, f.const(0))
                down = (n['target_step_w'], pixels, f.const(1), f.const(0), channel)
                invoke(f, 'finish', target_at, *(down if channels_last else across), image, f.pointers, f.integers, f.scalars)
    phase_function(module)
    pad_function(module, dtype)
    rows_function(module, dtype)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, 3, len(ALL_INTS))
    return module.text()


# ------------------------------------------------------------------------------------------------------ vectors along channels
@remembered
def pixels_text(dtype, epilogue=None):
    """The module with the kernel `depthwise`, channels adjacent. Units: (image, phase, depth and height) rows of pixels. The filters are packed: of
    each phase, panels of two vectors of channels, element (tap, lane)."""
    elem, _, lanes = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'depthwise')
    n = Known(f, f.integers, ALL_INTS)
    source, target, filters = (f.p(i) for i in range(3))
    storage = f.array('i64', len(PHASE_NAMES))
    phases = n['phases_d'] * n['phases_h'] * n['phases_w']
    most = [(n[f'pixels_{d}'] + n[f'phases_{d}'] - 1) // n[f'phases_{d}'] for d in 'dh']
    with f.loop(f.lo, f.hi) as unit:
        image, number, d, h = split(f, unit, phases, most[0], most[1])
        invoke(f, 'phase', storage, f.integers, number)
        phase = Known(f, storage, PHASE_NAMES)
        with f.when((d < phase['extent_d']) & (h < phase['extent_h'])):
            numbers = split(f, number, n['phases_h'], n['phases_w'])
            pixel = [x * n[f'phases_{k}'] + r for k, x, r in zip('dhw', (d, h, f.const(0)), numbers)]
            to = element(f, target, image * n['target_image'] + sum_of([x * n[f'target_step_{k}'] for k, x in zip('dhw', pixel)]), elem)
            invoke(f, 'pixel_row', element(f, source, image * n['source_image'], elem), element(f, filters, number * n['most_k'], elem), to, storage,
                   f.integers, d, h)
            if epilogue:
                row = (d * n['pixels_h'] + h) * n['pixels_w']
                invoke(f, 'finish', to, n['target_step_w'], phase['extent_w'], n['groups'], row, f.const(0), image, f.pointers, f.integers, f.scalars)
    phase_function(module)
    pixel_row_function(module, dtype)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, 3, len(ALL_INTS))
    return module.text()


def pixel_row_function(module, dtype):
    """A row of pixels of a phase: four pixels at a time, and for them panels of channels."""
    elem, _, lanes = ELEMENT[dtype]
    width = 2 * lanes
    f = Internal(module, 'pixel_row', [('ptr', 'source'), ('ptr', 'filter'), ('ptr', 'target'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'd'), ('i64', 'h')])
    source, filters, target, phase, n, d, h = f.args
    phase, n = Known(f, phase, PHASE_NAMES), Known(f, n, ALL_INTS)
    zeros = f.array(elem, width)
    for v in range(2):
        f.store(f.const(0, elem, lanes), element(f, zeros, v * lanes, elem))
    counts = [phase[f'count_{x}'] for x in 'dhw']
    taps = counts[0] * counts[1] * counts[2]
    begin = [x * n[f'advance_{k}'] + phase[f'start_{k}'] for k, x in zip('dh', (d, h))]
    target_step, advance, move = n['target_step_w'] * n['phases_w'], n['advance_w'], n['tap_move_w']
    span = (counts[2] - 1) * move
    def group(q, across, channel, whole_panel, inside):
        """`across` pixels from q on. whole_panel: all lanes are channels; inside: no tap is beside the source's rows."""
        left = n['groups'] - channel
        second = f.max(left - lanes, f.const(0))
        panel = element(f, filters, channel * taps, elem)          # panels of `width` channels, `taps` elements each
        here = element(f, source, channel, elem)
        masks = [None, None] if whole_panel else [lane_mask(f, left, lanes), lane_mask(f, second, lanes)]
        acc = [[Var(f, f.const(0, elem, lanes)) for _ in range(2)] for _ in range(across)]
        start = q * advance + phase['start_w']
        w_at = Var(f, panel)
        if across > 1:
            # Rows are far apart in memory, and each piece of one is short: what the next row of pixels reads and writes is called for here, or it arrives late
            coming = (begin[1] + f.max((counts[1] - 1) * n['tap_move_h'], f.const(0)) + 1) * n['source_step_h'] + (start + f.max(span, f.const(0))) * n['source_step_w']
            following = (q * n['phases_w']) * n['target_step_w'] + n['phases_h'] * n['target_step_h']
            for p in range(across):
                prefetch(f, element(f, here, coming + n['source_step_w'] * p, elem))
                prefetch(f, element(f, target, channel + following + target_step * p, elem))
        with f.loop(f.const(0), counts[0]) as i:
            with f.loop(f.const(0), counts[1]) as j:
                y, x = begin[0] + i * n['tap_move_d'], begin[1] + j * n['tap_move_h']
                there = y.ult(n['source_d']) & x.ult(n['source_h'])
                line = f.select(there, element(f, here, y * n['source_step_d'] + x * n['source_step_h'], elem), zeros)
                step = f.select(there, n['source_step_w'], f.const(0))
                limit = f.select(there, n['source_w'], f.const(0))
                with f.loop(f.const(0), counts[2]) as t:
                    place = start + t * move
                    w = [f.load(element(f, w_at.get(), v * lanes, elem), elem, lanes) for v in range(2)]
                    w_at.set(element(f, w_at.get(), width, elem))
                    at = Var(f, element(f, line, place * step, elem))
                    for p in range(across):
                        from_ = at.get()
                        if not inside:
                            from_ = f.select((place + advance * p).ult(limit), from_, zeros)
                        for v in range(2):
                            value = f.load(element(f, from_, v * lanes, elem), elem, lanes, masks[v])
                            acc[p][v].set(multiply_add(f, value, w[v], acc[p][v].get()))
                        if p + 1 < across:
                            at.set(element(f, at.get(), advance * step, elem))
        for p in range(across):
            for v in range(2):
                to = element(f, target, channel + (q + p) * target_step + v * lanes, elem)
                if whole_panel:
                    f.store(acc[p][v].get(), to)
                else:
                    store_partial(f, [acc[p][v].get()], [to], (f.min(left, f.const(lanes)), second)[v], elem, lanes)

    def channels(q, across, inside):
        full = n['groups'] & -width
        with f.loop(f.const(0), full, width) as channel:
            group(q, across, channel, True, inside)
        with f.when(full < n['groups']):
            group(q, across, full, False, inside)
    full = f.select(phase['extent_w'] < ACROSS, f.const(0), phase['extent_w'])
    with f.loop(f.const(0), full, ACROSS) as group_at:
        q = f.min(group_at, phase['extent_w'] - ACROSS)            # the last four may repeat some pixels: cheaper than one at a time
        first = q * advance + phase['start_w']
        inside = (first + f.min(span, f.const(0)) > -1) & (first + f.max(span, f.const(0)) + (ACROSS - 1) * advance < n['source_w'])
        f.branch(inside, lambda: channels(q, ACROSS, True), lambda: channels(q, ACROSS, False))
    with f.loop(full, phase['extent_w']) as q:
        channels(q, 1, False)
    return f


# ------------------------------------------------------------------------------------------------- planes turned to vectors of channels
def turn_function(module, dtype):
    """Rows of pixels of a vector of planes, `step` apart, to vectors of channels, those of a row one after the other; lanes beyond `channels` may hold anything. A row
    may be followed by zeros up to a whole vector of pixels: what is there is zero, or is written after this."""
    elem, size, lanes = ELEMENT[dtype]
    f = Internal(module, 'turn', [('ptr', 'source'), ('i64', 'step'), ('i64', 'channels'), ('i64', 'rows'), ('i64', 'row_step'), ('i64', 'length'), ('i64', 'pixel_step'),
                                  ('ptr', 'room'), ('i64', 'room_step')])
    source, step, channels, rows, row_step, length, pixel_step, room, room_step = f.args

    def every_row(way):
        with f.loop(f.const(0), rows) as row:
            way(row * row_step, element(f, room, row * room_step, elem))

    def channels_adjacent():
        def way(at, to, mask=None):
            with f.loop(f.const(0), length) as p:
                f.store(f.load(element(f, source, at + p * pixel_step, elem), elem, lanes, mask), element(f, to, p * lanes, elem))
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


@remembered
def turned_text(dtype, epilogue=None):
    """The module with the kernel `depthwise` for planes of adjacent pixels of which a vector, with zeros around, stays in the
    second-level cache. Units: (image, vector of channels). The filters are packed, panels of one vector. Scratch: the places of taps and of pixels' windows, the planes."""
    elem, _, lanes = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'depthwise')
    n = Known(f, f.integers, ALL_INTS)
    source, target, filters = (f.p(i) for i in range(3))
    storage = f.array('i64', len(PHASE_NAMES))
    invoke(f, 'phase', storage, f.integers, f.const(0))
    phase = Known(f, storage, PHASE_NAMES)
    extents, counts = ([phase[f'{name}_{d}'] for d in 'dhw'] for name in ('extent', 'count'))
    pixels, taps = conv.product(extents), conv.product(counts)
    span = [(c - 1) * n[f'tap_move_{d}'] for d, c in zip('dhw', counts)]
    before = [f.min(x, f.const(0)) for x in span]                          # where the first of a window's pixels is, from its first tap
    low = [phase[f'start_{d}'] + b for d, b in zip('dhw', before)]
    sizes = [(e - 1) * n[f'advance_{d}'] + f.max(x, f.const(0)) - b + 1 for d, e, x, b in zip('dhw', extents, span, before)]

    def place(index):
        return ((index[0] * sizes[1] + index[1]) * sizes[2] + index[2]) * lanes
    places = f.scratch
    windows = element(f, places, taps, 'i64')
    room = element(f, windows, (pixels + 7) & -8, 'i64')
    with f.loop(f.const(0), taps) as t:
        f.store(place([x * n[f'tap_move_{d}'] - b for d, x, b in zip('dhw', split(f, t, *counts[1:]), before)]), element(f, places, t, 'i64'))
    with f.loop(f.const(0), pixels) as p:
        f.store(place([x * n[f'advance_{d}'] for d, x in zip('dhw', split(f, p, *extents[1:]))]), element(f, windows, p, 'i64'))
    zero_run(f, elem, lanes, room, conv.product(sizes) * lanes)
    # which part of the room comes from the source; the rest stays zero
    begin = [f.max(f.const(0) - x, f.const(0)) for x in low]
    end = [f.min(n[f'source_{d}'] - x, size) for d, x, size in zip('dhw', low, sizes)]
    with f.loop(f.lo, f.hi) as unit:
        image, part = split(f, unit, (n['groups'] + (lanes - 1)) // lanes)
        channel = part * lanes
        channels = f.min(n['groups'] - channel, f.const(lanes))
        from_ = element(f, source, image * n['source_image'] + channel * n['source_channel'], elem)
        with f.loop(begin[0], end[0]) as d:
            at = [x + y for x, y in zip(low, (d, *begin[1:]))]
            invoke(f, 'turn', element(f, from_, sum_of([x * n[f'source_step_{k}'] for k, x in zip('dhw', at)]), elem), n['source_channel'], channels,
                   end[1] - begin[1], n['source_step_h'], f.max(end[2] - begin[2], f.const(0)), n['source_step_w'], element(f, room, place([d, *begin[1:]]), elem), sizes[2] * lanes)
        to = element(f, target, image * n['target_image'] + channel * n['target_channel'], elem)
        panel = element(f, filters, channel * taps, elem)
        with f.loop(f.const(0), pixels, lanes) as number:
            first = f.max(f.min(number, pixels - lanes), f.const(0))       # the last vector may repeat some pixels
            here = [element(f, room, f.load(element(f, windows, f.min(first + p, pixels - 1), 'i64'), 'i64'), elem) for p in range(lanes)]
            acc = [Var(f, f.const(0, elem, lanes)) for _ in here]
            with f.loop(f.const(0), taps) as t:
                away = f.load(element(f, places, t, 'i64'), 'i64')
                w = f.load(element(f, panel, t * lanes, elem), elem, lanes)
                for p in range(lanes):
                    acc[p].set(multiply_add(f, f.load(element(f, here[p], away, elem), elem, lanes), w, acc[p].get()))
            count = f.min(pixels, f.const(lanes))
            for c, values in enumerate(transpose(f, [a.get() for a in acc])):
                with f.when(channels > c):
                    store_partial(f, [values], [element(f, to, c * n['target_channel'] + first, elem)], count, elem, lanes)
        if epilogue:
            with f.loop(f.const(0), channels) as c:
                invoke(f, 'finish', element(f, to, c * n['target_channel'], elem), f.const(0), f.const(1), pixels, channel + c, f.const(0), image, f.pointers,
                       f.integers, f.scalars)
    phase_function(module)
    turn_function(module, dtype)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, 3, len(ALL_INTS))
    return module.text()


# ------------------------------------------------------------------------------------------------------------------ the weight
WEIGHT_INTS = ('groups', 'images', 'source_image', 'source_channel', 'gradient_image', 'gradient_channel', 'gradient_step') + tuple(
    f'{name}_{d}' for name in ('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step') for d in 'dhw') + ('block',)


@remembered
def weight_text(dtype, turned):
    """The module with the kernel `depthwise_weight`, vectors along channels. turned: those of the gradient are not adjacent. Units: two vectors. Scratch: the taps'
    places, for each vector, tap and chain a sum, the places of each chain's pixels of a block of rows, the source that such a block reads, and its gradient."""
    elem, _, lanes = ELEMENT[dtype]
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
        with f.loop(f.const(0), n['block']) as row:
            with f.loop(chain, n['pixels_w'], CHAINS) as q:
                f.store((row * n['advance_h'] * pitch + q * n['advance_w']) * lanes, at.get())
                f.store((row * n['pixels_w'] + q) * (lanes if turned else n['gradient_step']), element(f, at.get(), 1, 'i64'))
                at.set(element(f, at.get(), 2, 'i64'))
    zero_run(f, elem, lanes, room, n['taps_d'] * rows * pitch * lanes)
    with f.loop(f.lo, f.hi, SIDE_BY_SIDE) as unit:
        begin, end = unit * 2, f.min(f.min(unit + SIDE_BY_SIDE, f.hi) * 2, (n['groups'] + (lanes - 1)) // lanes)
        zero_run(f, elem, lanes, chains, per_vector * (end - begin))
        with f.loop(f.const(0), n['images']) as image:
            with f.loop(f.const(0), n['pixels_d']) as d:
                with f.loop(f.const(0), n['pixels_h'], n['block']) as h:
                    with f.loop(f.const(0), end - begin) as v:
                        first = (begin + v) * lanes
                        invoke(f, 'weight_rows', element(f, source, image * n['source_image'] + first * n['source_channel'], elem),
                               element(f, gradient, image * n['gradient_image'] + first * n['gradient_channel'], elem), element(f, chains, v * per_vector, elem), places, pixels, room,
                               f.integers, d, h, f.min(n['pixels_h'] - h, n['block']), f.min(n['groups'] - first, f.const(lanes)))
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
    return module.text()


def reach(n, d, pixels):
    """How much of the source neighbouring pixels read."""
    return (pixels - 1) * n[f'advance_{d}'] + (n[f'taps_{d}'] - 1) * n[f'tap_move_{d}'] + 1


def of_chain(f, n):
    """The most pixels of a block that a chain has."""
    return n['block'] * ((n['pixels_w'] + (CHAINS - 1)) // CHAINS)


def weight_rows_function(module, dtype, turned):
    """Add `count` rows of pixels from h on, of one vector of channels, to all chains. What they read is copied with zeros around it first, so that no tap is
    outside; then of one chain, nine taps at a time are in registers: a pixel of the gradient is read once for them."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'weight_rows', [('ptr', 'source'), ('ptr', 'gradient'), ('ptr', 'chains'), ('ptr', 'places'), ('ptr', 'pixels'), ('ptr', 'room'),
                                         ('ptr', 'n'), ('i64', 'd'), ('i64', 'h'), ('i64', 'count'), ('i64', 'left')])
    source, gradient, chains, places, pixels, room, n, d, h, count, left = f.args
    n = Known(f, n, WEIGHT_INTS)
    most_rows, rows, pitch = reach(n, 'h', n['block']), reach(n, 'h', count), reach(n, 'w', n['pixels_w'])
    before = f.min(f.max(f.const(0) - n['shift_w'], f.const(0)), pitch)             # zeros at the head of a row
    behind = f.max(f.min(n['source_w'] - n['shift_w'], pitch), before)              # where the source's pixels end

    top = h * n['advance_h'] + n['shift_h']
    with f.loop(f.const(0), n['taps_d']) as i:
        y = d * n['advance_d'] + n['shift_d'] + i * n['tap_move_d']
        there = y.ult(n['source_d'])
        begin = f.select(there, f.min(f.max(f.const(0) - top, f.const(0)), rows), rows)
        end = f.select(there, f.max(f.min(n['source_h'] - top, rows), begin), rows)
        to = [element(f, room, (i * most_rows + j) * pitch * lanes, elem) for j in (f.const(0), begin, end)]
        from_ = element(f, source, y * n['source_step_d'] + (top + begin) * n['source_step_h'] + (n['shift_w'] + before) * n['source_step_w'], elem)
        zero_run(f, elem, lanes, to[0], begin * pitch * lanes)
        invoke(f, 'turn', from_, n['source_channel'], left, end - begin, n['source_step_h'], behind - before, n['source_step_w'],
               element(f, to[1], before * lanes, elem), pitch * lanes)
        zero_run(f, elem, lanes, to[2], (rows - end) * pitch * lanes)
    lines = element(f, gradient, (d * n['pixels_h'] + h) * n['pixels_w'] * n['gradient_step'], elem)

    def add(mask, lines):
        taps = n['taps_d'] * n['taps_h'] * n['taps_w']
        with f.loop(f.const(0), taps, TOGETHER) as t:
            some = [f.load(element(f, places, t + k, 'i64'), 'i64') for k in range(TOGETHER)]
            with f.loop(f.const(0), f.min(n['pixels_w'], f.const(CHAINS))) as chain:
                sums = [element(f, chains, ((t + k) * CHAINS + chain) * lanes, elem) for k in range(TOGETHER)]
                acc = [Var(f, f.load(at, elem, lanes)) for at in sums]
                steps = element(f, pixels, chain * of_chain(f, n) * 2, 'i64')
                with f.loop(f.const(0), count * ((n['pixels_w'] - chain + (CHAINS - 1)) // CHAINS)) as i:
                    x, y = (element(f, base, f.load(element(f, steps, i * 2 + k, 'i64'), 'i64'), elem) for k, base in enumerate((room, lines)))
                    y = f.load(y, elem, lanes, mask)
                    for k in range(TOGETHER):
                        acc[k].set(multiply_add(f, f.load(element(f, x, some[k], elem), elem, lanes), y, acc[k].get()))
                for k in range(TOGETHER):
                    f.store(acc[k].get(), sums[k])

    if turned:
        turned_lines = element(f, room, (n['taps_d'] * most_rows * pitch + lanes) * lanes, elem)
        invoke(f, 'turn', lines, n['gradient_channel'], left, f.const(1), f.const(0), count * n['pixels_w'], n['gradient_step'], turned_lines, f.const(0))
        add(None, turned_lines)
    else:
        f.branch(left.eq(lanes), lambda: add(None, lines), lambda: add(lane_mask(f, left, lanes), lines))
    turn_function(module, dtype)
    return f


# --------------------------------------------------------------------------------------------------------------------- lowering
def lower_windows(program, dtype, shape, ints, phases, source, filters, target, channels_last, epilogue=None):
    """Forward, or the input's gradient. ints: those of conv.lower_windows."""
    pr = program
    _, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
    taps = conv.product(shape.taps)
    pixels = conv.product(ints[f'pixels_{d}'] for d in 'dhw')
    values = dict(zip(FILTER, (filters.strides[0], *filters.strides[2:])))
    extra = epilogue or gemm.Epilogue(None)
    pointers = [(*source.pointer, source.offset), (*target.pointer, target.offset)]
    adjacent = channels_last and bool(source.strides[1] == 1)
    reach = conv.product((x - 1) * ints[f'advance_{d}'] + (t - 1) * m + 1 for d, x, t, m in zip('dhw', (ints[f'pixels_{d}'] for d in 'dhw'), shape.taps, shape.dilation))
    turned = not channels_last and size >= 4 and bool(conv.product(phases) == 1) and bool(source.strides[4] == 1) and bool(reach <= TURNED_PIXELS)
    if not adjacent and not turned:
        work = pixels * (size * 2) + pr.floordiv(pixels * taps, 2)
        units = pr.select(pr.eq(pixels, 0), 0, shape.batch * shape.groups)
        scratch = taps * (8 + size) + 128 + size * plane_elements(pr, [pr.ceildiv(ints[f'pixels_{d}'], p) for d, p in zip('dhw', phases)],
                                                                  [pr.ceildiv(t, ints[f'tap_skip_{d}']) for t, d in zip(shape.taps, 'dhw')],
                                                                  [ints[f'advance_{d}'] for d in 'dhw'], shape.dilation, lanes)
        return [], [Step(planes_text(dtype, channels_last, epilogue=epilogue), 'depthwise', [*pointers, (*filters.pointer, filters.offset), *extra.pointers],
                         [ints.get(k, 0) for k in INTS] + [values[k] for k in FILTER] + list(extra.ints), list(extra.scalars), units,
                         pr.max(pr.floordiv(1 << 15, pr.max(work, 1)), 1), shape.batch * shape.groups * work, scratch)]
    width = lanes if turned else 2 * lanes
    panels = pr.ceildiv(shape.groups, width)
    count = conv.product(phases)
    ints = {**ints, 'most_k': panels * width * conv.product(pr.ceildiv(t, ints[f'tap_skip_{d}']) for t, d in zip(shape.taps, 'dhw')), 'depth': 1}
    own = [ints.get(k, 0) for k in INTS]
    more = {'groups': 1, 'panels': panels, 'panel_lines': width, 'tall_panels': 0, 'lines': shape.groups, 'group_step': 0,
            'line_step': filters.strides[0], 'k_step': 0, **{f'tap_step_{d}': s for d, s in zip('dhw', filters.strides[2:])}}
    packing = Step(conv.filter_text(dtype, width), 'pack_filter', [(*filters.pointer, filters.offset), ('temporary', 0, 0)],
                   own + [more[name] for name in conv.FILTER_INTS], [], count * panels, 16, count * panels * taps * (width * size * 3))
    if turned:
        units, text = shape.batch * panels, turned_text(dtype, epilogue=epilogue)
        scratch = (taps + pixels) * 8 + 64 + (reach + lanes) * (lanes * size)
    else:
        rows = conv.product(pr.ceildiv(ints[f'pixels_{d}'], p) for d, p in zip('dh', phases[:2])) * count
        units, text, scratch = shape.batch * rows, pixels_text(dtype, epilogue=epilogue), 0
    work = pr.floordiv(shape.batch * pixels * shape.groups * (2 * size + taps), pr.max(units, 1))
    run = Step(text, 'depthwise', [*pointers, ('temporary', 0, 0), *extra.pointers], own + [values[k] for k in FILTER] + list(extra.ints), list(extra.scalars),
               pr.select(pr.eq(pixels * shape.groups, 0), 0, units), pr.max(pr.floordiv(1 << 15, pr.max(work, 1)), 1), units * work, scratch)
    return [count * ints['most_k'] * size], [packing, run]


def plane_elements(pr, extents, taps, advance, moves, vector):
    """At most so many elements has a padded plane (see PLANE)."""
    rows = [(e - 1) * a + (t - 1) * m + 1 for e, t, a, m in zip(extents, taps, advance, moves)]
    part = extents[2] + vector + pr.floordiv((taps[2] - 1) * moves[2], advance[2]) + 2
    return pr.max(rows[0], 1) * pr.max(rows[1], 1) * part * advance[2] + 2 * vector


def lower_weight(program, dtype, shape, source, gradient, target):
    """The weight's gradient, [groups, 1, taps, 1]."""
    pr = program
    _, size, lanes = ELEMENT[dtype]
    pixels, taps = conv.product(shape.result), conv.product(shape.taps)
    ints = {'groups': shape.groups, 'images': shape.batch, 'source_image': source.strides[0], 'source_channel': source.strides[1],
            'gradient_image': gradient.strides[0], 'gradient_channel': gradient.strides[1], 'gradient_step': gradient.strides[2]}
    for i, d in enumerate('dhw'):
        values = (shape.result[i], shape.image[i], shape.taps[i], shape.stride[i], shape.dilation[i], 0 - shape.padding[i], source.strides[2 + i])
        ints.update({f'{name}_{d}': v for name, v in zip(('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step'), values)})
    turned = not bool(gradient.strides[1] == 1)
    units = pr.ceildiv(shape.groups, 2 * lanes)
    work = shape.batch * pixels * (2 * size + taps) * (2 * lanes)
    pitch = (shape.result[2] - 1) * shape.stride[2] + (shape.taps[2] - 1) * shape.dilation[2] + 1
    block = pr.min(pr.max(pr.floordiv(BLOCK_PIXELS, pr.max(pitch * shape.stride[1], 1)), 1), pr.max(shape.result[1], 1))
    rows = (block - 1) * shape.stride[1] + (shape.taps[1] - 1) * shape.dilation[1] + 1
    ints['block'] = block
    tables = pr.ceildiv(taps, TOGETHER) * (TOGETHER * (8 + CHAINS * 2 * SIDE_BY_SIDE * lanes * size)) + block * pr.ceildiv(shape.result[2], CHAINS) * (CHAINS * 16)
    room = pr.max(shape.taps[0] * rows * pitch, 0) + (block * shape.result[2] if turned else 0) + 2 * lanes
    return [], [Step(weight_text(dtype, turned), 'depthwise_weight', [(*source.pointer, source.offset), (*target.pointer, target.offset), (*gradient.pointer, gradient.offset)],
                     [ints[k] for k in WEIGHT_INTS], [], pr.select(pr.eq(taps, 0), 0, units), pr.max(pr.floordiv(1 << 15, pr.max(work, 1)), 1), units * work, 64 + tables + room * (lanes * size))]
