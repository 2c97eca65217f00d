"""Depthwise convolutions: each channel has one filter of its own. No product of matrices is left, so each pixel is summed directly.

**The bits.** Forward and input: one chain of fused multiply-adds over the taps in ascending order; taps outside the source in depth or height are left
out, in width they read zeros. Weight: pixels go to eight chains by their width index mod 8, over (image, depth, height, width); the chains are
folded by halving. Both layouts follow the same order.

Where pixels are adjacent in memory (NCHW) vectors run along them; where channels are (channels_last), along those. `windows` and phases are those of conv.py.
"""
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.templates import conv, gemm
from rushlight.compiler.templates.conv import INTS, PHASE_NAMES, Counter, Integers, phase_function, split, sum_of
from rushlight.compiler.templates.gemm import Step, store_partial
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke, lane_mask, multiply_add

FILTER = ('filter_channel', 'filter_d', 'filter_h', 'filter_w')         # memory steps of the weight
ALL_INTS = INTS + FILTER
ACROSS = 4                                                              # pixels at a time where vectors run along channels
LANES = 8                                                               # chains of a weight


def taps_inside(f, n, phase, pixel, body):
    """body(source offset, filter offset) for each tap of depth and height that is inside the source. pixel: (d, h) in the phase."""
    start = [x * n[f'advance_{d}'] + phase[f'start_{d}'] for d, x in zip('dh', pixel)]
    with f.loop(f.const(0), phase['count_d']) as i:
        d = start[0] + i * n['tap_move_d']
        with f.when(d.ult(n['source_d'])):
            with f.loop(f.const(0), phase['count_h']) as j:
                h = start[1] + j * n['tap_move_h']
                with f.when(h.ult(n['source_h'])):
                    tap = [phase[f'first_{x}'] + k * n[f'tap_skip_{x}'] for x, k in zip('dh', (i, j))]
                    body(d * n['source_step_d'] + h * n['source_step_h'], sum_of([t * n[f'filter_{x}'] for x, t in zip('dh', tap)]), (i, j))


def load_pixels(f, elem, lanes, at, valid, spacing, step):
    """One vector of pixels, `step` elements apart in memory; zero where not valid (None: all are). spacing: 1, 2 or 0 for any."""
    if spacing == 1:
        return f.load(at, elem, lanes, valid)
    if spacing == 2:
        twice = [i // 2 for i in range(2 * lanes)]
        picked = f.vector([int(i % 2 == 0) for i in range(lanes)], 'i1')
        parts = []
        for half in range(2):
            mask = picked if valid is None else f.shuffle(valid, twice[half * lanes:(half + 1) * lanes]) & picked
            parts.append(f.load(element(f, at, half * lanes, elem), elem, lanes, mask))
        return f.shuffle(parts[0], [2 * i for i in range(lanes)], parts[1])
    out = Var(f, f.const(0, elem, lanes))
    for lane in range(lanes):
        def take(lane=lane):
            out.set(f.insert(out.get(), f.load(element(f, at, step * lane, elem), elem), lane))
        if valid is None:
            take()
        else:
            with f.when(f.extract(valid, lane)):
                take()
    return out.get()


def row_function(module, name, dtype, spacing):
    """One row of pixels of a phase, vectors along it."""
    elem, size, lanes = ELEMENT[dtype]
    f = Internal(module, name, [('ptr', 'source'), ('ptr', 'filter'), ('ptr', 'target'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'd'), ('i64', 'h')])
    source, filters, target, phase, n, d, h = f.args
    phase, n = Integers(f, phase, PHASE_NAMES), Integers(f, n, ALL_INTS)
    extent, advance, move, count = phase['extent_w'], n['advance_w'], n['tap_move_w'], phase['count_w']
    step = advance * n['source_step_w']
    target_step = n['target_step_w'] * n['phases_w']
    numbers = f.lanes(lanes)
    narrow = lambda v: f.splat(f.convert('trunc', v, 'i32'), lanes)
    span = (count - 1) * move
    with f.loop(f.const(0), extent, 2 * lanes) as q:
        first = q * advance + phase['start_w']
        low = first + f.min(span, f.const(0))
        high = first + f.max(span, f.const(0)) + (2 * lanes - 1) * advance
        inside = (low > -1) & (high < n['source_w']) & (q + (2 * lanes - 1) < extent)
        acc = [Var(f, f.const(0, elem, lanes)) for _ in range(2)]

        def sums(whole):
            def taps(source_at, filter_at, _):
                line = element(f, source, source_at, elem)
                weights = element(f, filters, filter_at + phase['first_w'] * n['filter_w'], elem)
                with f.loop(f.const(0), count) as t:
                    place = first + t * move
                    w = f.splat(f.load(element(f, weights, t * n['tap_skip_w'] * n['filter_w'], elem), elem), lanes)
                    at = element(f, line, place * n['source_step_w'], elem)
                    for v in range(2):
                        valid = None
                        if not whole:
                            where = narrow(place + v * lanes * advance) + numbers * narrow(advance)
                            there = numbers < narrow(extent - q - v * lanes)
                            valid = where.ult(narrow(n['source_w'])) & there
                        x = load_pixels(f, elem, lanes, element(f, at, step * (v * lanes), elem), valid, spacing, step)
                        acc[v].set(multiply_add(f, x, w, acc[v].get()))
            taps_inside(f, n, phase, (d, h), taps)
        f.branch(inside, lambda: sums(True), lambda: sums(False))
        to = element(f, target, q * target_step, elem)

        def adjacent():
            for v in range(2):
                left = extent - q - v * lanes
                with f.when(left > 0):
                    store_partial(f, [acc[v].get()], [element(f, to, v * lanes, elem)], f.min(left, f.const(lanes)), elem, lanes)

        def apart():
            for v in range(2):
                value = acc[v].get()
                for lane in range(lanes):
                    with f.when(q + (v * lanes + lane) < extent):
                        f.store(f.extract(value, lane), element(f, to, target_step * (v * lanes + lane), elem))
        f.branch(target_step.eq(1), adjacent, apart)
    return f


def planes_text(dtype, channels_last, epilogue=None):
    """The module with the kernel `depthwise`, vectors along pixels. Units: planes, one channel of one image. channels_last: the target is, and its
    epilogue has pixels as rows."""
    elem, _, _ = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'depthwise')
    n = Integers(f, f.integers, ALL_INTS)
    source, target, filters = (f.p(i) for i in range(3))
    storage = f.array('i64', len(PHASE_NAMES))
    phase = Integers(f, storage, PHASE_NAMES)
    step = n['advance_w'] * n['source_step_w']
    with f.loop(f.lo, f.hi) as unit:
        image, channel = split(f, unit, n['groups'])
        source_at = element(f, source, image * n['source_image'] + channel * n['source_channel'], elem)
        target_at = element(f, target, image * n['target_image'] + channel * n['target_channel'], elem)
        filter_at = element(f, filters, channel * n['filter_channel'], elem)
        with f.loop(f.const(0), n['phases_d'] * n['phases_h'] * n['phases_w']) as number:
            invoke(f, 'phase', storage, f.integers, number)
            numbers = split(f, number, n['phases_h'], n['phases_w'])
            with f.loop(f.const(0), phase['extent_d']) as d:
                with f.loop(f.const(0), phase['extent_h']) as h:
                    pixel = [x * n[f'phases_{k}'] + r for k, x, r in zip('dhw', (d, h, f.const(0)), numbers)]
                    to = element(f, target_at, sum_of([x * n[f'target_step_{k}'] for k, x in zip('dhw', pixel)]), elem)
                    args = (source_at, filter_at, to, storage, f.integers, d, h)
                    f.branch(step.eq(1), lambda: invoke(f, 'row_1', *args),
                             lambda: f.branch(step.eq(2), lambda: invoke(f, 'row_2', *args), lambda: invoke(f, 'row_any', *args)))
                    if epilogue:
                        first = (d * n['pixels_h'] + h) * n['pixels_w']
                        across = (f.const(0), f.const(1), phase['extent_w'], channel, first)
                        down = (n['target_step_w'], phase['extent_w'], f.const(1), first, channel)
                        invoke(f, 'finish', to, *(down if channels_last else across), image, f.pointers, f.integers, f.scalars)
    phase_function(module)
    for name, spacing in (('row_1', 1), ('row_2', 2), ('row_any', 0)):
        row_function(module, name, dtype, spacing if ELEMENT[dtype][1] >= 4 else 0)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, 3, len(ALL_INTS))
    return module.text()


def pixels_text(dtype, epilogue=None):
    """The module with the kernel `depthwise`, channels adjacent. Units: (image, phase, depth and height) rows of pixels. The filters are packed: of
    each phase, panels of two vectors of channels, element (tap, lane)."""
    elem, _, lanes = ELEMENT[dtype]
    width = 2 * lanes
    module = Module()
    f = Kernel(module, 'depthwise')
    n = Integers(f, f.integers, ALL_INTS)
    source, target, filters = (f.p(i) for i in range(3))
    storage = f.array('i64', len(PHASE_NAMES))
    phase = Integers(f, storage, PHASE_NAMES)
    phases = n['phases_d'] * n['phases_h'] * n['phases_w']
    most = [(n[f'pixels_{d}'] + n[f'phases_{d}'] - 1) // n[f'phases_{d}'] for d in 'dh']
    with f.loop(f.lo, f.hi) as unit:
        image, number, d, h = split(f, unit, phases, most[0], most[1])
        invoke(f, 'phase', storage, f.integers, number)
        with f.when((d < phase['extent_d']) & (h < phase['extent_h'])):
            numbers = split(f, number, n['phases_h'], n['phases_w'])
            pixel = [x * n[f'phases_{k}'] + r for k, x, r in zip('dhw', (d, h, f.const(0)), numbers)]
            to = element(f, target, image * n['target_image'] + sum_of([x * n[f'target_step_{k}'] for k, x in zip('dhw', pixel)]), elem)
            from_ = element(f, source, image * n['source_image'], elem)
            weights = element(f, filters, number * n['most_k'], elem)
            with f.loop(f.const(0), phase['extent_w'], ACROSS) as q:
                f.branch(q + (ACROSS - 1) < phase['extent_w'],
                         lambda: invoke(f, f'pixels_{ACROSS}', from_, weights, element(f, to, q * n['target_step_w'] * n['phases_w'], elem), storage, f.integers, d, h, q),
                         lambda: single(f, n, phase, from_, weights, to, storage, d, h, q, elem))
            if epilogue:
                row = (d * n['pixels_h'] + h) * n['pixels_w']
                invoke(f, 'finish', to, n['target_step_w'], phase['extent_w'], n['groups'], row, f.const(0), image, f.pointers, f.integers, f.scalars)
    phase_function(module)
    pixel_function(module, dtype, 1, width, lanes)
    pixel_function(module, dtype, ACROSS, width, lanes)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, 3, len(ALL_INTS))
    return module.text()


def single(f, n, phase, source, weights, to, storage, d, h, q, elem):
    with f.loop(q, phase['extent_w']) as p:
        invoke(f, 'pixels_1', source, weights, element(f, to, p * n['target_step_w'] * n['phases_w'], elem), storage, f.integers, d, h, p)


def pixel_function(module, dtype, across, width, lanes):
    """All channels of `across` adjacent pixels of a phase."""
    elem, _, _ = ELEMENT[dtype]
    f = Internal(module, f'pixels_{across}', [('ptr', 'source'), ('ptr', 'filter'), ('ptr', 'target'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'd'), ('i64', 'h'),
                                              ('i64', 'q')])
    source, filters, target, phase, n, d, h, q = f.args
    phase, n = Integers(f, phase, PHASE_NAMES), Integers(f, n, ALL_INTS)
    zeros = f.array(elem, width)
    for v in range(2):
        f.store(f.const(0, elem, lanes), element(f, zeros, v * lanes, elem))
    taps = phase['count_d'] * phase['count_h'] * phase['count_w']
    target_step = n['target_step_w'] * n['phases_w']
    start = [(q + i) * n['advance_w'] + phase['start_w'] for i in range(across)]
    with f.loop(f.const(0), n['groups'], width) as channel:
        left = f.min(n['groups'] - channel, f.const(width))
        panel = element(f, filters, channel * taps, elem)          # panels of `width` channels, `taps` elements each
        acc = [[Var(f, f.const(0, elem, lanes)) for _ in range(2)] for _ in range(across)]

        def sums(masks):
            def inside(source_at, _, tap):
                line = element(f, source, source_at + channel, elem)
                first = (tap[0] * phase['count_h'] + tap[1]) * phase['count_w']
                with f.loop(f.const(0), phase['count_w']) as t:
                    w_at = element(f, panel, (first + t) * width, elem)
                    w = [f.load(element(f, w_at, v * lanes, elem), elem, lanes) for v in range(2)]
                    for i in range(across):
                        place = start[i] + t * n['tap_move_w']
                        at = f.select(place.ult(n['source_w']), element(f, line, place * n['source_step_w'], elem), zeros)
                        for v in range(2):
                            x = f.load(element(f, at, v * lanes, elem), elem, lanes, masks[v])
                            acc[i][v].set(multiply_add(f, x, w[v], acc[i][v].get()))
            taps_inside(f, n, phase, (d, h), inside)

        def whole():
            sums([None, None])
            for i in range(across):
                for v in range(2):
                    f.store(acc[i][v].get(), element(f, target, channel + target_step * i + v * lanes, elem))

        def partly():
            second = f.max(left - lanes, f.const(0))
            sums([lane_mask(f, left, lanes), lane_mask(f, second, lanes)])
            for i in range(across):
                for v, count in enumerate((f.min(left, f.const(lanes)), second)):
                    store_partial(f, [acc[i][v].get()], [element(f, target, channel + target_step * i + v * lanes, elem)], count, elem, lanes)
        f.branch(left.eq(width), whole, partly)
    return f


# ------------------------------------------------------------------------------------------------------------------ the weight
WEIGHT_INTS = ('groups', 'images', 'source_image', 'source_channel', 'gradient_image', 'gradient_channel', 'gradient_step') + tuple(
    f'{name}_{d}' for name in ('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step') for d in 'dhw')


def weight_rows(f, n, image, body):
    """body(depth index, height index) for each row of pixels of an image."""
    with f.loop(f.const(0), n['pixels_d']) as d:
        with f.loop(f.const(0), n['pixels_h']) as h:
            body(d, h)


def weight_taps(f, n, pixel, body):
    """body(source offset, number of the first tap of the row) for taps inside the source in depth and height."""
    start = [x * n[f'advance_{k}'] + n[f'shift_{k}'] for k, x in zip('dh', pixel)]
    with f.loop(f.const(0), n['taps_d']) as i:
        d = start[0] + i * n['tap_move_d']
        with f.when(d.ult(n['source_d'])):
            with f.loop(f.const(0), n['taps_h']) as j:
                h = start[1] + j * n['tap_move_h']
                with f.when(h.ult(n['source_h'])):
                    body(d * n['source_step_d'] + h * n['source_step_h'], (i * n['taps_h'] + j) * n['taps_w'])


def weight_planes_text(dtype):
    """The module with the kernel `depthwise_weight`, pixels adjacent. Units: channels. Scratch: eight chains for each tap."""
    elem, size, _ = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'depthwise_weight')
    n = Integers(f, f.integers, WEIGHT_INTS)
    source, target, gradient = (f.p(i) for i in range(3))
    taps = n['taps_d'] * n['taps_h'] * n['taps_w']
    step = n['advance_w'] * n['source_step_w']
    with f.loop(f.lo, f.hi) as channel:
        with f.loop(f.const(0), taps) as t:
            f.store(f.const(0, elem, LANES), element(f, f.scratch, t * LANES, elem))
        with f.loop(f.const(0), n['images']) as image:
            source_at = element(f, source, image * n['source_image'] + channel * n['source_channel'], elem)
            gradient_at = element(f, gradient, image * n['gradient_image'] + channel * n['gradient_channel'], elem)

            def row(d, h):
                line = element(f, gradient_at, (d * n['pixels_h'] + h) * n['pixels_w'] * n['gradient_step'], elem)

                def tap_row(away, first):
                    args = (element(f, source_at, away, elem), line, element(f, f.scratch, first * LANES, elem), f.integers)
                    plain = n['gradient_step'].eq(1)
                    f.branch(step.eq(1) & plain, lambda: invoke(f, 'taps_1', *args),
                             lambda: f.branch(step.eq(2) & plain, lambda: invoke(f, 'taps_2', *args), lambda: invoke(f, 'taps_any', *args)))
                weight_taps(f, n, (d, h), tap_row)
            weight_rows(f, n, image, row)
        with f.loop(f.const(0), taps) as t:
            f.store(folded(f, f.load(element(f, f.scratch, t * LANES, elem), elem, LANES)), element(f, target, channel * taps + t, elem))
    for name, spacing in (('taps_1', 1), ('taps_2', 2), ('taps_any', 0)):
        tap_row_function(module, name, dtype, spacing if size >= 4 else 0)
    return module.text()


def folded(f, v):
    width = LANES
    while width > 1:
        width //= 2
        v = f.shuffle(v, list(range(width))) + f.shuffle(v, list(range(width, 2 * width)))
    return v


def tap_row_function(module, name, dtype, spacing):
    """Add one row of pixels to the chains of the taps of one row of the filter."""
    elem, _, _ = ELEMENT[dtype]
    f = Internal(module, name, [('ptr', 'source'), ('ptr', 'gradient'), ('ptr', 'chains'), ('ptr', 'n')])
    source, gradient, chains, n = f.args
    n = Integers(f, n, WEIGHT_INTS)
    advance, pixels = n['advance_w'], n['pixels_w']
    step = advance * n['source_step_w']
    numbers = f.lanes(LANES)
    narrow = lambda v: f.splat(f.convert('trunc', v, 'i32'), LANES)
    with f.loop(f.const(0), n['taps_w']) as t:
        first = n['shift_w'] + t * n['tap_move_w']
        acc = Var(f, f.load(element(f, chains, t * LANES, elem), elem, LANES))
        with f.loop(f.const(0), pixels, LANES) as q:
            place = first + q * advance
            at = element(f, source, place * n['source_step_w'], elem)
            to = element(f, gradient, q * n['gradient_step'], elem)

            def add(whole):
                there = None if whole else numbers < narrow(pixels - q)
                valid = None if whole else (narrow(place) + numbers * narrow(advance)).ult(narrow(n['source_w'])) & there
                x = load_pixels(f, elem, LANES, at, valid, spacing, step)
                g = load_pixels(f, elem, LANES, to, there, 1 if spacing else 0, n['gradient_step'])
                acc.set(multiply_add(f, x, g, acc.get()))
            f.branch((place > -1) & (place + (LANES - 1) * advance < n['source_w']) & (q + (LANES - 1) < pixels), lambda: add(True), lambda: add(False))
        f.store(acc.get(), element(f, chains, t * LANES, elem))
    return f


def weight_pixels_text(dtype):
    """The module with the kernel `depthwise_weight`, channels adjacent. Units: vectors of channels. Scratch: for each tap and chain a vector."""
    elem, _, lanes = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'depthwise_weight')
    n = Integers(f, f.integers, WEIGHT_INTS)
    source, target, gradient = (f.p(i) for i in range(3))
    taps = n['taps_d'] * n['taps_h'] * n['taps_w']
    with f.loop(f.lo, f.hi) as unit:
        channel = unit * lanes
        left = f.min(n['groups'] - channel, f.const(lanes))
        mask = lane_mask(f, left, lanes)
        with f.loop(f.const(0), taps * LANES) as t:
            f.store(f.const(0, elem, lanes), element(f, f.scratch, t * lanes, elem))
        with f.loop(f.const(0), n['images']) as image:
            source_at = element(f, source, image * n['source_image'] + channel, elem)
            gradient_at = element(f, gradient, image * n['gradient_image'] + channel, elem)

            def row(d, h):
                line = element(f, gradient_at, (d * n['pixels_h'] + h) * n['pixels_w'] * n['gradient_step'], elem)

                def tap_row(away, first):
                    with f.loop(f.const(0), n['taps_w']) as t:
                        begin = n['shift_w'] + t * n['tap_move_w']
                        chains = element(f, f.scratch, (first + t) * LANES * lanes, elem)
                        base = element(f, source_at, away, elem)
                        acc = [Var(f, f.load(element(f, chains, k * lanes, elem), elem, lanes)) for k in range(LANES)]

                        def add(q, k):
                            """Pixel q + k to chain k."""
                            place = begin + (q + k) * n['advance_w']
                            inside = place.ult(n['source_w'])
                            g = f.load(element(f, line, (q + k) * n['gradient_step'], elem), elem, lanes, mask)
                            at = f.select(inside, element(f, base, place * n['source_step_w'], elem), f.scratch)
                            x = f.load(at, elem, lanes, mask)
                            x = f.select(f.splat(inside, lanes), x, f.const(0, elem, lanes))
                            acc[k].set(multiply_add(f, x, g, acc[k].get()))
                        whole = n['pixels_w'] & -LANES
                        with f.loop(f.const(0), whole, LANES) as q:
                            for k in range(LANES):
                                add(q, k)
                        for k in range(LANES - 1):
                            with f.when(whole + k < n['pixels_w']):
                                add(whole, k)
                        for k in range(LANES):
                            f.store(acc[k].get(), element(f, chains, k * lanes, elem))
                weight_taps(f, n, (d, h), tap_row)
            weight_rows(f, n, image, row)
        with f.loop(f.const(0), taps) as t:
            chains = element(f, f.scratch, t * LANES * lanes, elem)
            parts = [f.load(element(f, chains, k * lanes, elem), elem, lanes) for k in range(LANES)]
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [a + b for a, b in zip(parts[:half], parts[half:])]
            f.store(parts[0], chains)
            with f.loop(f.const(0), left) as lane:
                f.store(f.load(element(f, chains, lane, elem), elem), element(f, target, (channel + lane) * taps + t, elem))
    return module.text()


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
    if not (channels_last and bool(source.strides[1] == 1)):
        pointers = [(*source.pointer, source.offset), (*target.pointer, target.offset), (*filters.pointer, filters.offset), *extra.pointers]
        work = pixels * (size * 2) + pr.floordiv(pixels * taps, 2)
        units = pr.select(pr.eq(pixels, 0), 0, shape.batch * shape.groups)
        return [], [Step(planes_text(dtype, channels_last, epilogue), 'depthwise', pointers, [ints.get(k, 0) for k in INTS] + [values[k] for k in FILTER] + list(extra.ints),
                         list(extra.scalars), units, pr.max(pr.floordiv(1 << 15, pr.max(work, 1)), 1), shape.batch * shape.groups * work)]
    panels = pr.ceildiv(shape.groups, width)
    count = conv.product(phases)
    ints = {**ints, 'most_k': panels * width * conv.product(pr.ceildiv(t, ints[f'tap_skip_{d}']) for t, d in zip(shape.taps, 'dhw')), 'depth': 1}
    own = [ints.get(k, 0) for k in INTS]
    more = {'images': 1, 'groups': 1, 'panels': panels, 'panel_lines': width, 'tall_panels': 0, 'lines': shape.groups, 'image_step': 0, 'group_step': 0,
            'line_step': filters.strides[0], 'k_step': 0, **{f'tap_step_{d}': s for d, s in zip('dhw', filters.strides[2:])}}
    packing = Step(conv.filter_text(dtype, width), 'pack_filter', [(*filters.pointer, filters.offset), ('temporary', 0, 0)],
                   own + [more[name] for name in conv.FILTER_INTS], [], count * panels, 16, count * panels * taps * (width * size * 3))
    rows = conv.product(pr.ceildiv(ints[f'pixels_{d}'], p) for d, p in zip('dh', phases[:2])) * count
    work = pr.floordiv(pixels * shape.groups * (2 * size + taps), pr.max(rows, 1))
    units = pr.select(pr.eq(pixels * shape.groups, 0), 0, shape.batch * rows)
    run = Step(pixels_text(dtype, epilogue), 'depthwise', [(*source.pointer, source.offset), (*target.pointer, target.offset), ('temporary', 0, 0), *extra.pointers],
               own + [values[k] for k in FILTER] + list(extra.ints), list(extra.scalars), units,
               pr.max(pr.floordiv(1 << 15, pr.max(work, 1)), 1), shape.batch * rows * work)
    return [count * ints['most_k'] * size], [packing, run]


def lower_weight(program, dtype, shape, source, gradient, target, channels_last):
    """The weight's gradient, [groups, 1, taps, 1]."""
    pr = program
    _, size, lanes = ELEMENT[dtype]
    pixels, taps = conv.product(shape.result), conv.product(shape.taps)
    ints = {'groups': shape.groups, 'images': shape.batch, 'source_image': source.strides[0], 'source_channel': source.strides[1],
            'gradient_image': gradient.strides[0], 'gradient_channel': gradient.strides[1], 'gradient_step': gradient.strides[2]}
    for i, d in enumerate('dhw'):
        values = (shape.result[i], shape.image[i], shape.taps[i], shape.stride[i], shape.dilation[i], 0 - shape.padding[i], source.strides[2 + i])
        ints.update({f'{name}_{d}': v for name, v in zip(('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step'), values)})
    units = pr.ceildiv(shape.groups, lanes) if channels_last else shape.groups
    work = shape.batch * pixels * (2 * size + taps) * (lanes if channels_last else 1)
    chains = taps * LANES * size * (lanes if channels_last else 1)
    text = weight_pixels_text(dtype) if channels_last else weight_planes_text(dtype)
    return [], [Step(text, 'depthwise_weight', [(*source.pointer, source.offset), (*target.pointer, target.offset), (*gradient.pointer, gradient.offset)],
                     [ints[k] for k in WEIGHT_INTS], [], pr.select(pr.eq(taps, 0), 0, units), pr.max(pr.floordiv(1 << 15, pr.max(work, 1)), 1), units * work, chains)]
