"""Windows: where a convolution reads, and packing what it reads for the micro-kernel (tile.py).

A *target* pixel takes from a *source* at `pixel * advance + start + tap * tap_move`, zero where that is outside. Forward, the target is the result;
for the gradient of the input it is the input, and its pixels fall into stride**d *phases*: those of one phase are reached by the
same few taps. Sizes and strides come in threes (d, h, w).
"""
from functools import wraps

from rushlight.compiler import jit
from rushlight.compiler.emit.ir import SIZE, Var
from rushlight.compiler.templates.pieces import ELEMENT, Internal, element, invoke, lane_mask, transpose
from rushlight.compiler.templates.tile import tile_of, vector_of

# of each of the three dimensions
DIMENSION = ('pixels', 'source', 'taps', 'advance', 'tap_move', 'phases', 'tap_skip', 'shift', 'dilation', 'source_step', 'target_step')
GENERAL = ('groups', 'depth', 'rows', 'source_image', 'source_group', 'source_channel', 'target_image', 'target_group', 'target_channel',
           'panels', 'panel_rows', 'tall_panels', 'unit_panels', 'row_units', 'unit_columns', 'column_units', 'most_k', 'scattered')
INTS = GENERAL + tuple(f'{name}_{d}' for name in DIMENSION for d in 'dhw')
PHASE = ('count', 'start', 'extent', 'first')           # of a phase and dimension: its taps, where its first window begins, its pixels, its first tap


SPARE = 16                                               # rows of a packed panel beyond its end that may be written


def remembered(make):
    """A function that writes a kernel, writing each one once. Those with an epilogue are different every time."""
    kept = {}

    @wraps(make)
    def once(*args, epilogue=None):
        if epilogue is not None: return make(*args, epilogue)
        key = (jit.tier(), *args)                           # a pack is built for several
        if key not in kept: kept[key] = make(*args)
        return kept[key]
    return once


class Integers:
    """The kernel's integers by name, loaded where they are wanted."""

    def __init__(self, f, pointer, names):
        self.f, self.pointer, self.at = f, pointer, {name: i for i, name in enumerate(names)}

    def __getitem__(self, name):
        f = self.f
        return f.load(f.at(self.pointer, f.const(self.at[name]), 'i64'), 'i64')

    def __setitem__(self, name, value):
        f = self.f
        f.store(value, f.at(self.pointer, f.const(self.at[name]), 'i64'))


class Known(dict):
    """The integers loaded once, at the head of a function."""

    def __init__(self, f, pointer, names):
        table = Integers(f, pointer, names)
        super().__init__((name, table[name]) for name in names)


PHASE_NAMES = [f'{name}_{d}' for name in PHASE for d in 'dhw']


def split(f, index, *sizes):
    """index as digits, the last the fastest: one more digit than sizes."""
    digits = []
    for size in reversed(sizes):
        digits.insert(0, index % size)
        index = index // size
    return [index, *digits]


def phase_function(module):
    """Fill in a phase: which taps reach its pixels, and where in the source."""
    f = Internal(module, 'phase', [('ptr', 'phase'), ('ptr', 'n'), ('i64', 'number')])
    at, n = Integers(f, f.args[0], PHASE_NAMES), Known(f, f.args[1], INTS)
    for d, number in zip('dhw', split(f, f.args[2], n['phases_h'], n['phases_w'])):
        phase_of_dimension(f, at, n, d, number)


def phase_of_dimension(f, at, n, d, number):
    phases, skip, taps = n[f'phases_{d}'], n[f'tap_skip_{d}'], n[f'taps_{d}']
    first = Var(f, f.const(0))

    def begin():
        return number + n[f'shift_{d}'] - first.get() * n[f'dilation_{d}']
    with f.loop_while(lambda: (first.get() < skip) & (begin() % phases).ne(0)):
        first.set(first.get() + 1)
    reached = (first.get() < skip) & (first.get() < taps)
    at[f'count_{d}'] = f.select(reached, (taps - first.get() + skip - 1) // skip, f.const(0))
    at[f'start_{d}'] = begin() // phases
    at[f'first_{d}'] = first.get()
    at[f'extent_{d}'] = (n[f'pixels_{d}'] - number + phases - 1) // phases


def k_of(phase, n):
    return phase['count_d'] * phase['count_h'] * phase['count_w'] * n['depth']


class Counter:
    """Nested counters without division: the last runs fastest. Each has a limit."""

    def __init__(self, f, starts, limits):
        self.f, self.limits = f, limits
        self.vars = [Var(f, s) for s in starts]

    def get(self): return [v.get() for v in self.vars]

    def step(self):
        """One further."""
        f = self.f

        def bump(level):
            v = self.vars[level]
            v.set(v.get() + 1)
            if level:
                with f.when(v.get().eq(self.limits[level])):
                    v.set(f.const(0))
                    bump(level - 1)
        bump(len(self.vars) - 1)


def for_taps(f, n, phase, k0, depth, body):
    """Cut [k0, k0 + depth) at taps: body(tap counters, first channel, channels, done) with `done` elements of k before it."""
    tap, channel = k0 // f.max(n['depth'], f.const(1)), k0 % f.max(n['depth'], f.const(1))
    counter = Counter(f, split(f, tap, f.max(phase['count_h'], f.const(1)), f.max(phase['count_w'], f.const(1))),
                      [None, phase['count_h'], phase['count_w']])
    done, at = Var(f, f.const(0)), Var(f, channel)
    with f.loop_while(lambda: done.get() < depth):
        run = f.min(n['depth'] - at.get(), depth - done.get())
        body(counter.get(), at.get(), run, done.get())
        done.set(done.get() + run)
        at.set(f.const(0))
        counter.step()


# ----------------------------------------------------------------------------------------------- a panel of pixels, vectors along them
PANEL_ARGUMENTS = [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'k0'), ('i64', 'k_count'), ('i64', 'pixel')]


def panel_function(module, dtype):
    """Pack the windows of a tile's pixels from `pixel` on: element (k, lane) at k * width + lane. The room has SPARE rows more. By the widest vectors that meet
    no more than one end of a row."""
    _, _, lanes = ELEMENT[dtype]
    whole = tile_of(dtype).lanes
    if whole == lanes: return panel_by(module, dtype, 'window_panel', lanes)
    f = Internal(module, 'window_panel', PANEL_ARGUMENTS)
    narrow, wide = (f'window_panel_{k}' for k in (lanes, whole))
    across = Integers(f, f.args[2], PHASE_NAMES)['extent_w']
    f.branch(across > whole - 2, lambda: invoke(f, wide, *f.args), lambda: invoke(f, narrow, *f.args))
    panel_by(module, dtype, narrow, lanes)
    panel_by(module, dtype, wide, whole)


def panel_by(module, dtype, name, lanes):
    """The same by vectors of so many lanes."""
    elem, size, _ = ELEMENT[dtype]
    width = tile_of(dtype).width
    f = Internal(module, name, PANEL_ARGUMENTS)
    source, room, phase, n, k0, k_count, pixel = f.args
    phase, n = Known(f, phase, PHASE_NAMES), Known(f, n, INTS)
    extents = [phase[f'extent_{d}'] for d in 'dhw']
    last = extents[0] * extents[1] * extents[2] - 1
    places = {d: f.array('i32', width) for d in 'dhw'}      # of each lane in the source, for the first tap
    offsets = f.array('i32', width)
    narrow = lambda v: f.convert('trunc', v, 'i32')
    counter = Counter(f, split(f, pixel, extents[1], extents[2]), [None, *extents[1:]])
    cut = []                                                # lanes of each vector before its row ends
    for lane in range(width):
        if lane % lanes == 0:
            cut.append(f.min(extents[2] - counter.get()[2], f.const(lanes)))
        where = [x * n[f'advance_{d}'] + phase[f'start_{d}'] for d, x in zip('dhw', counter.get())]
        for d, x in zip('dhw', where):
            f.store(narrow(x), element(f, places[d], lane, 'i32'))
        f.store(narrow(sum_of([x * n[f'source_step_{d}'] for d, x in zip('dhw', where)])), element(f, offsets, lane, 'i32'))
        if lane + 1 < width:
            with f.when(pixel + lane < last):               # lanes beyond the last pixel repeat it, but do not count as valid: vectors would read on
                counter.step()
    left = narrow(f.min(last + 1 - pixel, f.const(width)))
    # Lanes follow each other in the source, but for one place where a row of pixels ends
    smooth, spacing = extents[2] > lanes - 2, n['advance_w'] * n['source_step_w']

    def tap(taps, channel, run, done):
        move = [x * n[f'tap_move_{d}'] for d, x in zip('dhw', taps)]
        distance = sum_of([x * n[f'source_step_{d}'] for d, x in zip('dhw', move)]) + channel * n['source_channel']
        to = element(f, room, done * width, elem)
        moved = element(f, source, distance, elem)
        valid = []
        for v in range(width // lanes):
            masks = f.lanes(lanes) < f.splat(left - v * lanes, lanes)
            for d, x in zip('dhw', move):
                place = f.load(element(f, places[d], v * lanes, 'i32'), 'i32', lanes) + f.splat(narrow(x), lanes)
                masks = masks & place.ult(f.splat(narrow(n[f'source_{d}']), lanes))
            valid.append(masks)

        def scattered():
            lane_by_lane(f, elem, width, lanes, moved, offsets, valid, to, run, n['source_channel'])
        if size < 4:
            scattered()
            return

        def otherwise():
            f.branch(n['source_channel'].eq(1), lambda: pixels_of_channels(f, elem, width, lanes, moved, offsets, valid, to, run), scattered)

        def in_vectors(every):
            vectors_of_pixels(f, elem, width, lanes, moved, offsets, valid, cut, to, run, n['source_channel'], every)
        f.branch(smooth & spacing.eq(1), lambda: in_vectors(1), lambda: f.branch(smooth & spacing.eq(2), lambda: in_vectors(2), otherwise))
    for_taps(f, n, phase, k0, k_count, tap)
    return f


def sum_of(values):
    total = values[0]
    for v in values[1:]:
        total = total + v
    return total


def spaced_load(f, elem, lanes, at, mask, every):
    """A vector of the elements at[0], at[every], ... (every: 1 or 2); where the mask is not set, zero and no memory is touched. None: all of them."""
    if every == 1:
        return f.load(at, elem, lanes, mask)
    even = f.vector([int(i % 2 == 0) for i in range(lanes)], 'i1')
    parts = []
    for half in range(2):
        wide = even if mask is None else f.shuffle(mask, [(half * lanes + i) // 2 for i in range(lanes)]) & even
        parts.append(f.load(element(f, at, half * lanes, elem), elem, lanes, wide))
    return f.shuffle(parts[0], [2 * i for i in range(lanes)], parts[1])


def vectors_of_pixels(f, elem, width, lanes, source, offsets, valid, cut, to, run, channel_step, every):
    """Each vector is read from one or two rows of the source, of which `every` first or second element counts."""
    numbers = f.lanes(lanes)
    bases, masks = [], []
    partial = None
    for v in range(width // lanes):
        before = numbers < f.splat(f.convert('trunc', cut[v], 'i32'), lanes)
        first, second = valid[v] & before, valid[v] & ~before
        at = [f.const(v * lanes), f.min(cut[v] + v * lanes, f.const(v * lanes + lanes - 1))]
        starts = [f.convert('sext', f.load(element(f, offsets, a, 'i32'), 'i32'), 'i64') for a in at]
        bases.append([element(f, source, starts[0], elem), element(f, source, starts[1] - (at[1] - v * lanes) * every, elem)])
        masks.append([first, second])
        missing = f.any(~first)
        partial = missing if partial is None else partial | missing

    def partly():
        with f.loop(f.const(0), run) as c:
            for v in range(width // lanes):
                parts = [spaced_load(f, elem, lanes, element(f, b, c * channel_step, elem), m, every) for b, m in zip(bases[v], masks[v])]
                f.store(f.select(masks[v][0], parts[0], parts[1]), element(f, to, c * width + v * lanes, elem))

    def fully():
        with f.loop(f.const(0), run) as c:
            for v in range(width // lanes):
                value = spaced_load(f, elem, lanes, element(f, bases[v][0], c * channel_step, elem), None, every)
                f.store(value, element(f, to, c * width + v * lanes, elem))
    f.branch(partial, partly, fully)


def addresses_of_lanes(f, elem, width, lanes, source, offsets, valid, channel_step):
    """For each lane where it is read and how far away its next channel is: where the window is outside, zeros and no distance."""
    zeros = f.array(elem, lanes)
    f.store(f.const(0, elem, lanes), zeros)
    addresses, steps = f.array('i64', width), f.array('i64', width)
    for v in range(width // lanes):
        for lane in range(lanes):
            inside = f.extract(valid[v], lane)
            at = f.convert('sext', f.load(element(f, offsets, v * lanes + lane, 'i32'), 'i32'), 'i64')
            address = f.select(inside, element(f, source, at, elem), zeros)
            f.store(address, element(f, addresses, v * lanes + lane, 'i64'))
            f.store(f.select(inside, channel_step, f.const(0)), element(f, steps, v * lanes + lane, 'i64'))
    return addresses, steps


def pixels_of_channels(f, elem, width, lanes, source, offsets, valid, to, run):
    """Channels are adjacent: squares of pixels and channels are transposed in registers. Goes beyond the last channel up to a whole square: what is there is written after this."""
    addresses, steps = addresses_of_lanes(f, elem, width, lanes, source, offsets, valid, f.const(1))
    with f.loop(f.const(0), run, lanes) as c:
        mask = lane_mask(f, run - c, lanes)
        with f.loop(f.const(0), f.const(width), lanes) as first:
            pixels = []
            for lane in range(lanes):
                at, step = (f.load(element(f, table, first + lane, 'i64'), kind) for table, kind in ((addresses, 'ptr'), (steps, 'i64')))
                pixels.append(f.load(element(f, at, c * step, elem), elem, lanes, mask))
            for i, channel in enumerate(transpose(f, pixels)):
                f.store(channel, element(f, to, (c + i) * width + first, elem))


def lane_by_lane(f, elem, width, lanes, source, offsets, valid, to, run, channel_step):
    """Any strides."""
    addresses, steps = addresses_of_lanes(f, elem, width, lanes, source, offsets, valid, channel_step)
    with f.loop(f.const(0), run) as c:
        for lane in range(width):
            at = f.load(element(f, addresses, lane, 'i64'), 'ptr')
            step = f.load(element(f, steps, lane, 'i64'), 'i64')
            f.store(f.load(element(f, at, c * step, elem), elem), element(f, to, c * width + lane, elem))


# --------------------------------------------------------------------------------------------- rows of pixels, vectors along channels
def rows_function(module, dtype):
    """Copy the windows of `count` pixels from `pixel` on: element (pixel, k) at pixel * k_count + k. The room has a vector to spare at its end."""
    elem, _, lanes = vector_of(dtype)
    f = Internal(module, 'window_rows', [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'k0'), ('i64', 'k_count'),
                                         ('i64', 'pixel'), ('i64', 'count')])
    source, room, phase, n, k0, k_count, pixel, count = f.args
    phase, n = Known(f, phase, PHASE_NAMES), Known(f, n, INTS)
    extents = [phase[f'extent_{d}'] for d in 'dhw']

    def pixels(body):
        counter = Counter(f, split(f, pixel, extents[1], extents[2]), [None, *extents[1:]])
        with f.loop(f.const(0), count) as row:
            where = [x * n[f'advance_{d}'] + phase[f'start_{d}'] for d, x in zip('dhw', counter.get())]
            body(where, element(f, room, row * k_count, elem))
            counter.step()

    def tap_by_tap(where, line):
        def tap(taps, channel, run, done):
            place = [w + x * n[f'tap_move_{d}'] for d, w, x in zip('dhw', where, taps)]
            inside = place[0].ult(n['source_d']) & place[1].ult(n['source_h']) & place[2].ult(n['source_w'])
            to = element(f, line, done, elem)
            at = element(f, source, sum_of([x * n[f'source_step_{d}'] for d, x in zip('dhw', place)]) + channel * n['source_channel'], elem)

            def outside():
                spill_zeros(f, elem, lanes, to, run)

            def adjacent():
                spill_run(f, elem, lanes, at, to, run)
            f.branch(inside, lambda: f.branch(n['source_channel'].eq(1), adjacent, lambda: copy_run(f, elem, lanes, at, n['source_channel'], to, run)), outside)
        for_taps(f, n, phase, k0, k_count, tap)

    # Neighbouring taps are neighbours in memory, channels and all: a row of taps is one run
    length = phase['count_w'] * n['depth']
    merged = n['source_channel'].eq(1) & n['tap_move_w'].eq(1) & n['source_step_w'].eq(n['depth']) & (n['depth'] > 0)

    def row_by_row(where, line):
        first = split(f, k0 // length, phase['count_h'])
        tap_rows, at, done = Counter(f, first, [None, phase['count_h']]), Var(f, k0 % length), Var(f, f.const(0))
        before = f.max(f.const(0) - where[2], f.const(0)) * n['depth']       # elements of a row of taps that are left of the source's pixels
        behind = f.max(f.min((n['source_w'] - where[2]) * n['depth'], length), before)
        whole = before.eq(0) & behind.eq(length)
        for i, d in enumerate('dh'):
            ends = where[i], where[i] + (phase[f'count_{d}'] - 1) * n[f'tap_move_{d}']
            whole = whole & ends[0].ult(n[f'source_{d}']) & ends[1].ult(n[f'source_{d}'])
        with f.loop_while(lambda: done.get() < k_count):
            begin = at.get()
            end = f.min(length, begin + (k_count - done.get()))
            d, h = (w + x * n[f'tap_move_{k}'] for k, w, x in zip('dh', where, tap_rows.get()))
            to = element(f, line, done.get() - begin, elem)
            from_ = element(f, source, d * n['source_step_d'] + h * n['source_step_h'] + where[2] * n['source_step_w'], elem)

            def at_the_border(begin=begin, end=end, d=d, h=h, to=to, from_=from_):
                inside = d.ult(n['source_d']) & h.ult(n['source_h'])
                low = f.select(inside, f.min(f.max(before, begin), end), end)
                high = f.select(inside, f.max(f.min(behind, end), low), end)
                spill_zeros(f, elem, lanes, element(f, to, begin, elem), low - begin)
                spill_run(f, elem, lanes, element(f, from_, low, elem), element(f, to, low, elem), high - low)
                spill_zeros(f, elem, lanes, element(f, to, high, elem), end - high)

            def all_inside(begin=begin, end=end, to=to, from_=from_):
                spill_run(f, elem, lanes, element(f, from_, begin, elem), element(f, to, begin, elem), end - begin)
            f.branch(whole, all_inside, at_the_border)
            done.set(done.get() + end - begin)
            at.set(f.const(0))
            tap_rows.step()
    f.branch(merged, lambda: pixels(row_by_row), lambda: pixels(tap_by_tap))
    return f


def copy_run(f, elem, lanes, source, step, target, count):
    """count elements that are `step` apart, to adjacent ones."""
    def adjacent():
        whole = count & -lanes
        with f.loop(f.const(0), whole, lanes) as i:
            f.store(f.load(element(f, source, i, elem), elem, lanes), element(f, target, i, elem))
        with f.loop(whole, count) as i:
            f.store(f.load(element(f, source, i, elem), elem), element(f, target, i, elem))

    def apart():
        done = Var(f, f.const(0))
        if SIZE[elem] >= 4:
            with f.when(step.eq(2)):
                with f.loop_while(lambda: done.get() + lanes < count):     # one less than there are: the second vector goes beyond its last element
                    at = element(f, source, done.get() * 2, elem)
                    a, b = (f.load(element(f, at, k * lanes, elem), elem, lanes) for k in range(2))
                    f.store(f.shuffle(a, [2 * i for i in range(lanes)], b), element(f, target, done.get(), elem))
                    done.set(done.get() + lanes)
        with f.loop(done.get(), count) as i:
            f.store(f.load(element(f, source, i * step, elem), elem), element(f, target, i, elem))
    f.branch(step.eq(1), adjacent, apart)


def spill_run(f, elem, lanes, source, target, count, every=1):
    """count elements, `every` first or second of the source's, and zeros up to a whole vector: what is there is written after this."""
    if SIZE[elem] < 4:                              # no masked loads of such elements
        return copy_run(f, elem, lanes, source, f.const(every), target, count)
    whole = count & -lanes
    with f.loop(f.const(0), whole, lanes) as i:
        f.store(spaced_load(f, elem, lanes, element(f, source, i * every, elem), None, every), element(f, target, i, elem))
    with f.when(whole < count):
        mask = lane_mask(f, count - whole, lanes)
        f.store(spaced_load(f, elem, lanes, element(f, source, whole * every, elem), mask, every), element(f, target, whole, elem))


def spill_zeros(f, elem, lanes, target, count):
    """count zeros and more, up to a whole vector."""
    with f.loop(f.const(0), count, lanes) as i:
        f.store(f.const(0, elem, lanes), element(f, target, i, elem))


def zero_run(f, elem, lanes, target, count):
    whole = count & -lanes if lanes > 1 else f.const(0)
    if lanes > 1:
        with f.loop(f.const(0), whole, lanes) as i:
            f.store(f.const(0, elem, lanes), element(f, target, i, elem))
    with f.loop(whole, count) as i:
        f.store(f.const(0, elem), element(f, target, i, elem))
