"""Convolutions as implicit matrix products: windows of an image are packed where the micro-kernel of gemm.py wants them, never as a whole.

Three computations, each the transpose of the others:
    forward   y[n, f, o] = sum over (tap, c) of x[n, c, o * stride + tap * dilation - padding] w[f, c, tap]
    input     x[n, c, i] = sum over (tap, f) of y[n, f, (i + padding - tap * dilation) / stride] w[f, c, tap], where that divides
    weight    w[c, tap, f] = sum over (n, o) of x[n, c, o * stride + tap * dilation - padding] y[n, f, o]

**Windows.** Forward and input are one kernel: a *target* pixel takes from a *source* at `pixel * advance + shift + tap * tap_move`. For the input of
a strided convolution the target's pixels fall into stride**d *phases*; those of one phase use the same few taps, so no product with a
zero is ever computed. All three dimensions are always there (depth and height are 1 where a convolution has fewer).

**Two forms.** Where the target's pixels are adjacent in memory (NCHW) rows of the product are channels and a panel of pixels is packed into
the first-level cache, a vector of pixels at a time. Where its channels are adjacent (channels_last) rows are pixels, whose channels are copied
run by run. Both have the order (tap, channel) of k, so the bits are the same.

**The bits.** Each element is one chain of fused multiply-adds in ascending k = (tap, channel), or (image, pixel) for the weight, as in gemm.py.
"""
from dataclasses import dataclass

from rushlight.compiler.emit.ir import SIZE, Var
from rushlight.compiler.templates import gemm, pack
from rushlight.compiler.templates.gemm import K_BLOCK, ROWS, Step
from rushlight.compiler.templates.pieces import ELEMENT, Internal, Kernel, Module, element, invoke, lane_mask, transpose

# of each of the three dimensions
DIMENSION = ('pixels', 'source', 'taps', 'advance', 'tap_move', 'phases', 'tap_skip', 'shift', 'dilation', 'source_step', 'target_step')
GENERAL = ('groups', 'depth', 'rows', 'source_image', 'source_group', 'source_channel', 'target_image', 'target_group', 'target_channel',
           'panels', 'panel_rows', 'tall_panels', 'unit_panels', 'row_units', 'unit_columns', 'column_units', 'most_k', 'scattered')
INTS = GENERAL + tuple(f'{name}_{d}' for name in DIMENSION for d in 'dhw')
POINTERS = ('source', 'target', 'filter')
PHASE = ('count', 'start', 'extent', 'first')           # of a phase and dimension: its taps, where its first window begins, its pixels, its first tap
SCATTERED_COLUMNS = 256                                  # at most, where a unit's results are gathered before they are written


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
    at, n = Integers(f, f.args[0], PHASE_NAMES), Integers(f, f.args[1], INTS)
    numbers = split(f, f.args[2], n['phases_h'], n['phases_w'])
    for d, number in zip('dhw', numbers):
        phases, skip, taps = n[f'phases_{d}'], n[f'tap_skip_{d}'], n[f'taps_{d}']
        first = Var(f, f.const(0))
        begin = lambda: number + n[f'shift_{d}'] - first.get() * n[f'dilation_{d}']
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
def panel_function(module, dtype):
    """Pack the windows of two vectors of pixels from `pixel` on: element (k, lane) at k * width + lane."""
    elem, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
    f = Internal(module, 'window_panel', [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'k0'), ('i64', 'k_count'),
                                          ('i64', 'pixel')])
    source, room, phase, n, k0, k_count, pixel = f.args
    phase, n = Integers(f, phase, PHASE_NAMES), Integers(f, n, INTS)
    extents = [phase[f'extent_{d}'] for d in 'dhw']
    last = extents[0] * extents[1] * extents[2] - 1
    places = {d: f.array('i32', width) for d in 'dhw'}      # of each lane in the source, for the first tap
    offsets = f.array('i32', width)
    narrow = lambda v: f.convert('trunc', v, 'i32')
    cut = [f.const(lanes) for _ in range(2)]                # lanes before a vector's row ends
    cut = [Var(f, c) for c in cut]
    counter = Counter(f, split(f, pixel, extents[1], extents[2]), [None, *extents[1:]])
    room_left = extents[2] - counter.get()[2]
    starts = [f.min(room_left, f.const(lanes))]
    for lane in range(width):
        where = [x * n[f'advance_{d}'] + phase[f'start_{d}'] for d, x in zip('dhw', counter.get())]
        for d, x in zip('dhw', where):
            f.store(narrow(x), element(f, places[d], lane, 'i32'))
        f.store(narrow(sum_of([x * n[f'source_step_{d}'] for d, x in zip('dhw', where)])), element(f, offsets, lane, 'i32'))
        if lane == lanes:
            starts.append(f.min(extents[2] - counter.get()[2], f.const(lanes)))
        if lane + 1 < width:
            with f.when(pixel + lane < last):               # lanes beyond the last pixel repeat it
                counter.step()
    for c, start in zip(cut, starts):
        c.set(start)
    # Lanes follow each other in the source, but for one place where a row of pixels ends
    smooth, spacing = extents[2] > lanes - 2, n['advance_w'] * n['source_step_w']

    def tap(taps, channel, run, done):
        move = [x * n[f'tap_move_{d}'] for d, x in zip('dhw', taps)]
        distance = sum_of([x * n[f'source_step_{d}'] for d, x in zip('dhw', move)]) + channel * n['source_channel']
        to = element(f, room, done * width, elem)
        moved = element(f, source, distance, elem)
        valid = []
        for v in range(2):
            masks = None
            for d, x in zip('dhw', move):
                place = f.load(element(f, places[d], v * lanes, 'i32'), 'i32', lanes) + f.splat(narrow(x), lanes)
                inside = place.ult(f.splat(narrow(n[f'source_{d}']), lanes))
                masks = inside if masks is None else masks & inside
            valid.append(masks)

        def scattered():
            lane_by_lane(f, elem, size, width, lanes, moved, offsets, valid, to, run, n['source_channel'])
        if size < 4:
            scattered()
            return

        def in_vectors(every):
            vectors_of_pixels(f, elem, width, lanes, moved, offsets, valid, [c.get() for c in cut], to, run, n['source_channel'], every)
        f.branch(smooth & spacing.eq(1), lambda: in_vectors(1), lambda: f.branch(smooth & spacing.eq(2), lambda: in_vectors(2), scattered))
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
    for v in range(2):
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
            for v in range(2):
                parts = [spaced_load(f, elem, lanes, element(f, b, c * channel_step, elem), m, every) for b, m in zip(bases[v], masks[v])]
                f.store(f.select(masks[v][0], parts[0], parts[1]), element(f, to, c * width + v * lanes, elem))

    def fully():
        with f.loop(f.const(0), run) as c:
            for v in range(2):
                value = spaced_load(f, elem, lanes, element(f, bases[v][0], c * channel_step, elem), None, every)
                f.store(value, element(f, to, c * width + v * lanes, elem))
    f.branch(partial, partly, fully)


def lane_by_lane(f, elem, size, width, lanes, source, offsets, valid, to, run, channel_step):
    """Any strides: an address for each lane, that of a zero where the window is outside."""
    zero = f.array(elem, 1)
    f.store(f.const(0, elem), zero)
    addresses, steps = f.array('i64', width), f.array('i64', width)
    for v in range(2):
        for lane in range(lanes):
            inside = f.extract(valid[v], lane)
            at = f.convert('sext', f.load(element(f, offsets, v * lanes + lane, 'i32'), 'i32'), 'i64')
            address = f.select(inside, element(f, source, at, elem), zero)
            f.store(address, element(f, addresses, v * lanes + lane, 'i64'))
            f.store(f.select(inside, channel_step, f.const(0)), element(f, steps, v * lanes + lane, 'i64'))
    with f.loop(f.const(0), run) as c:
        for lane in range(width):
            at = f.load(element(f, addresses, lane, 'i64'), 'ptr')
            step = f.load(element(f, steps, lane, 'i64'), 'i64')
            f.store(f.load(element(f, at, c * step, elem), elem), element(f, to, c * width + lane, elem))


# --------------------------------------------------------------------------------------------- rows of pixels, vectors along channels
def rows_function(module, dtype):
    """Copy the windows of `count` pixels from `pixel` on: element (pixel, k) at pixel * k_count + k. The room has a vector to spare at its end."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'window_rows', [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'k0'), ('i64', 'k_count'),
                                         ('i64', 'pixel'), ('i64', 'count')])
    source, room, phase, n, k0, k_count, pixel, count = f.args
    phase = {name: Integers(f, phase, PHASE_NAMES)[name] for name in PHASE_NAMES}
    n = {name: Integers(f, n, INTS)[name] for name in INTS}
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
        with f.loop_while(lambda: done.get() < k_count):
            begin = at.get()
            end = f.min(length, begin + (k_count - done.get()))
            d, h = (w + x * n[f'tap_move_{k}'] for k, w, x in zip('dh', where, tap_rows.get()))
            inside = d.ult(n['source_d']) & h.ult(n['source_h'])
            to = element(f, line, done.get() - begin, elem)
            low = f.select(inside, f.min(f.max(before, begin), end), end)
            high = f.select(inside, f.max(f.min(behind, end), low), end)
            from_ = element(f, source, d * n['source_step_d'] + h * n['source_step_h'] + where[2] * n['source_step_w'], elem)
            with f.when(begin < low):
                spill_zeros(f, elem, lanes, element(f, to, begin, elem), low - begin)
            spill_run(f, elem, lanes, element(f, from_, low, elem), element(f, to, low, elem), high - low)
            with f.when(high < end):
                spill_zeros(f, elem, lanes, element(f, to, high, elem), end - high)
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


def spill_run(f, elem, lanes, source, target, count):
    """count adjacent elements, and zeros up to a whole vector: what is there is written after this."""
    if SIZE[elem] < 4:                              # no masked loads of such elements
        return copy_run(f, elem, lanes, source, f.const(1), target, count)
    whole = count & -lanes
    with f.loop(f.const(0), whole, lanes) as i:
        f.store(f.load(element(f, source, i, elem), elem, lanes), element(f, target, i, elem))
    with f.when(whole < count):
        f.store(f.load(element(f, source, whole, elem), elem, lanes, lane_mask(f, count - whole, lanes)), element(f, target, whole, elem))


def spill_zeros(f, elem, lanes, target, count):
    """count zeros and more, up to a whole vector."""
    with f.loop(f.const(0), count, lanes) as i:
        f.store(f.const(0, elem, lanes), element(f, target, i, elem))


def zero_run(f, elem, lanes, target, count):
    whole = count & -lanes
    with f.loop(f.const(0), whole, lanes) as i:
        f.store(f.const(0, elem, lanes), element(f, target, i, elem))
    with f.loop(whole, count) as i:
        f.store(f.const(0, elem), element(f, target, i, elem))


# -------------------------------------------------------------------------------------------------------------------- the kernels
def block_of(f, k, size):
    """(blocks, elements of each): as even as multiples of 8 allow."""
    blocks = f.max((k + (K_BLOCK[size] - 1)) // K_BLOCK[size], f.const(1))
    each = ((k + blocks - 1) // blocks + 7) & -8
    return blocks, each


def kernel_text(dtype, channels_last, epilogue=None):
    """The module with the kernel `convolve`. Units: (image, group, phase, block of columns, block of row panels) of the product.
    channels_last: its rows are pixels and its columns channels; otherwise the other way round."""
    elem, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
    module = Module()
    f = Kernel(module, 'convolve')
    n = Integers(f, f.integers, INTS)
    source, target, filters = (f.p(i) for i in range(len(POINTERS)))
    storage = f.array('i64', len(PHASE_NAMES))
    phase = Integers(f, storage, PHASE_NAMES)
    room = None if channels_last else f.array(elem, K_BLOCK[size] * width)
    phases = n['phases_d'] * n['phases_h'] * n['phases_w']
    with f.loop(f.lo, f.hi) as unit:
        image, group, number, column_unit, row_unit = split(f, unit, n['groups'], phases, n['column_units'], n['row_units'])
        invoke(f, 'phase', storage, f.integers, number)
        pixels = phase['extent_d'] * phase['extent_h'] * phase['extent_w']
        k = k_of(phase, n)
        blocks, each = block_of(f, k, size)
        source_at = element(f, source, image * n['source_image'] + group * n['source_group'], elem)
        target_at = element(f, target, image * n['target_image'] + group * n['target_group'], elem)
        filter_at = element(f, filters, (group * phases + number) * n['most_k'], elem)      # most_k: of all panels together
        panels = Var(f, n['panels'])
        panel_rows, tall = Var(f, n['panel_rows']), Var(f, n['tall_panels'])
        columns_end = Var(f, pixels)
        if channels_last:                        # panels are of pixels, which differ from phase to phase
            panels.set((pixels + (ROWS - 1)) // ROWS)
            some = f.max(panels.get(), f.const(1))
            panel_rows.set(pixels // some)
            tall.set(pixels % some)
            columns_end.set(n['rows'])
        first_panel = row_unit * n['unit_panels']
        last_panel = f.min(first_panel + n['unit_panels'], panels.get())
        first_column = column_unit * n['unit_columns']
        last_column = f.min(first_column + n['unit_columns'], columns_end.get())
        row_of = lambda panel: panel * panel_rows.get() + f.min(panel, tall.get())
        first_row, last_row = row_of(first_panel), row_of(last_panel)
        # Where C is: the target itself, or a block of its own that is written out when it is complete
        scattered = n['scattered'].ne(0)
        c_step = n['target_step_w'] if channels_last else n['target_channel']
        c_row = f.select(scattered, n['unit_columns'], c_step)
        own = f.scratch
        direct = element(f, target_at, first_row * c_step + first_column, elem)
        c_base = f.select(scattered, own, direct)
        if channels_last:
            # the scratch: C's block if it is written later, then the windows
            block_size = f.select(scattered, n['unit_panels'] * (ROWS + 1) * n['unit_columns'], f.const(0))
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
                        row = row_of(panel)
                        rows = panel_rows.get() + f.select(panel < tall.get(), f.const(1), f.const(0))
                        c_at = element(f, c_base, (row - first_row) * c_row + (j - first_column), elem)
                        if channels_last:
                            a_at, a_row, a_k = element(f, room_at, (row - first_row) * depth, elem), depth, f.const(1)
                        else:
                            a_at, a_row, a_k = element(f, filter_at, panel * k * ROWS + k0 * ROWS, elem), f.const(1), f.const(ROWS)
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
    gemm.block_function(module, 'tiles', dtype)
    for r in range(1, ROWS + 1):
        gemm.tile_function(module, f'tile_{r}x2', dtype, r, 2)
        gemm.tile_function(module, f'tile_{r}x1', dtype, r, 1)
    if epilogue:
        gemm.epilogue_function(module, 'finish', dtype, epilogue, len(POINTERS), len(INTS))
    return module.text()


def write_function(module, dtype, channels_last):
    """Write a finished block of one phase to its places in the target."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'write_phase', [('ptr', 'block'), ('ptr', 'target'), ('ptr', 'phase'), ('ptr', 'n'), ('i64', 'number'), ('i64', 'row'),
                                         ('i64', 'rows'), ('i64', 'column'), ('i64', 'columns')])
    block, target, phase, n, number, row, rows, column, columns = f.args
    phase, n = Integers(f, phase, PHASE_NAMES), Integers(f, n, INTS)
    numbers = split(f, number, n['phases_h'], n['phases_w'])
    extents = [phase[f'extent_{d}'] for d in 'dhw']
    pixel, pixels = (row, rows) if channels_last else (column, columns)
    counter = Counter(f, split(f, pixel, extents[1], extents[2]), [None, *extents[1:]])
    pitch = n['unit_columns']
    with f.loop(f.const(0), pixels) as i:
        at = sum_of([(x * n[f'phases_{d}'] + p) * n[f'target_step_{d}'] for d, x, p in zip('dhw', counter.get(), numbers)])
        if channels_last:
            copy_run(f, elem, lanes, element(f, block, i * pitch, elem), f.const(1), element(f, target, at + column, elem), columns)
        else:
            base = element(f, target, at + row * n['target_channel'], elem)
            with f.loop(f.const(0), rows) as r:
                f.store(f.load(element(f, block, r * pitch + i, elem), elem), element(f, base, r * n['target_channel'], elem))
        counter.step()
    return f


FILTER_INTS = ('images', 'groups', 'panels', 'panel_lines', 'tall_panels', 'lines', 'image_step', 'group_step', 'line_step', 'k_step',
               'tap_step_d', 'tap_step_h', 'tap_step_w')


def filter_text(dtype, pitch):
    """The module with the kernel `pack_filter`: for each (image, group, phase, panel) the panel's lines in the order (tap, channel) of k. Its
    integers are those of the convolution, then FILTER_INTS."""
    elem, _, lanes = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'pack_filter')
    names = INTS + FILTER_INTS
    n = Integers(f, f.integers, names)
    # the two lists share `groups` and the panels' names: the later one is meant, and is the same or of this kernel
    source, target = f.p(0), f.p(1)
    storage = f.array('i64', len(PHASE_NAMES))
    phase = Integers(f, storage, PHASE_NAMES)
    phases = n['phases_d'] * n['phases_h'] * n['phases_w']
    with f.loop(f.lo, f.hi) as unit:
        image, group, number, panel = split(f, unit, n['groups'], phases, n['panels'])
        invoke(f, 'phase', storage, f.integers, number)
        line = panel * n['panel_lines'] + f.min(panel, n['tall_panels'])
        count = f.min(n['lines'] - line, n['panel_lines'] + f.select(panel < n['tall_panels'], f.const(1), f.const(0)))
        at = element(f, source, image * n['image_step'] + group * n['group_step'] + line * n['line_step'], elem)
        k = k_of(phase, n)
        start = ((image * n['groups'] + group) * phases + number) * n['most_k'] + panel * k * pitch
        to = element(f, target, start, elem)
        counter = Counter(f, [f.const(0)] * 3, [None, phase['count_h'], phase['count_w']])
        with f.loop(f.const(0), phase['count_d'] * phase['count_h'] * phase['count_w']) as tap:
            taps = [phase[f'first_{d}'] + x * n[f'tap_skip_{d}'] for d, x in zip('dhw', counter.get())]
            away = sum_of([x * n[f'tap_step_{d}'] for d, x in zip('dhw', taps)])
            pack.panel_of(f, element(f, at, away, elem), element(f, to, tap * n['depth'] * pitch, elem), n['depth'], count, n['line_step'], n['k_step'])
            counter.step()
    phase_function(module)
    pack.functions(module, elem, pitch, lanes)
    return module.text()


# ------------------------------------------------------------------------------------------------------------------ the weight
WEIGHT_INTS = ('groups', 'images', 'channels', 'filters', 'lines', 'source_image', 'source_group', 'source_channel', 'unit_panels', 'row_units',
               'unit_columns', 'column_units', 'panels', 'panel_rows', 'tall_panels', 'gradient_image', 'gradient_group', 'gradient_filter', 'gradient_pixel') + tuple(
    f'{name}_{d}' for name in ('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step') for d in 'dhw')


def weight_text(dtype):
    """The module with the kernel `convolve_weight`. Rows of the product are lines (channel, tap), columns filters, k is (image, pixel). Units:
    (group, block of columns, block of row panels). Lines and a panel of the gradient are packed block by block of k."""
    elem, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
    module = Module()
    f = Kernel(module, 'convolve_weight')
    n = Integers(f, f.integers, WEIGHT_INTS)
    source, target, gradient = (f.p(i) for i in range(3))
    pixels = n['pixels_d'] * n['pixels_h'] * n['pixels_w']
    blocks, each = block_of(f, pixels, size)
    room = f.array(elem, K_BLOCK[size] * width)
    with f.loop(f.lo, f.hi) as unit:
        group, column_unit, row_unit = split(f, unit, n['column_units'], n['row_units'])
        first_panel = row_unit * n['unit_panels']
        last_panel = f.min(first_panel + n['unit_panels'], n['panels'])
        first_column = column_unit * n['unit_columns']
        last_column = f.min(first_column + n['unit_columns'], n['filters'])
        row_of = lambda panel: panel * n['panel_rows'] + f.min(panel, n['tall_panels'])
        first_row, last_row = row_of(first_panel), row_of(last_panel)
        target_at = element(f, target, group * n['lines'] * n['filters'], elem)
        with f.when(n['images'].eq(0)):          # nothing to sum
            with f.loop(first_row, last_row) as row:
                zero_run(f, elem, lanes, element(f, target_at, row * n['filters'] + first_column, elem), last_column - first_column)
        with f.loop(f.const(0), n['images']) as image:
            source_at = element(f, source, image * n['source_image'] + group * n['source_group'], elem)
            gradient_at = element(f, gradient, image * n['gradient_image'] + group * n['gradient_group'], elem)
            with f.loop(f.const(0), blocks) as block:
                k0 = block * each
                depth = f.min(pixels - k0, each)
                invoke(f, 'window_lines', source_at, f.scratch, f.integers, first_row, last_row - first_row, k0, depth)
                with f.loop(first_column, last_column, width) as j:
                    columns = f.min(last_column - j, f.const(width))
                    from_ = element(f, gradient_at, j * n['gradient_filter'] + k0 * n['gradient_pixel'], elem)
                    pack.panel_of(f, from_, room, depth, columns, n['gradient_filter'], n['gradient_pixel'])
                    with f.loop(first_panel, last_panel) as panel:
                        row = row_of(panel)
                        rows = n['panel_rows'] + f.select(panel < n['tall_panels'], f.const(1), f.const(0))
                        invoke(f, 'tiles', element(f, f.scratch, (row - first_row) * depth, elem), room,
                               element(f, target_at, row * n['filters'] + j, elem), depth, depth, f.const(1), f.const(width), n['filters'],
                               image + block, columns, rows)
    lines_function(module, dtype)
    pack.functions(module, elem, width, lanes)
    gemm.block_function(module, 'tiles', dtype)
    for r in range(1, ROWS + 1):
        gemm.tile_function(module, f'tile_{r}x2', dtype, r, 2)
        gemm.tile_function(module, f'tile_{r}x1', dtype, r, 1)
    return module.text()


LINES_ARGUMENTS = [('ptr', 'source'), ('ptr', 'room'), ('ptr', 'n'), ('i64', 'line'), ('i64', 'count'), ('i64', 'k0'), ('i64', 'depth')]


def for_runs(f, n, shift, first, depth, body):
    """The pixels [k0, k0 + depth), which start at `first` (d, h, w), cut at rows: body(done before, low, high, run, source offset of pixel low): pixels
    [low, high) of the run are inside the source."""
    at, row, done = Var(f, first[2]), Counter(f, first[:2], [None, n['pixels_h']]), Var(f, f.const(0))
    advance = n['advance_w']
    with f.loop_while(lambda: done.get() < depth):
        run = f.min(n['pixels_w'] - at.get(), depth - done.get())
        place = {d: x * n[f'advance_{d}'] + shift[d] for d, x in zip('dhw', [*row.get(), at.get()])}
        inside = place['d'].ult(n['source_d']) & place['h'].ult(n['source_h'])
        low, high = Var(f, f.const(0)), Var(f, run)
        with f.when(place['w'] < 0):
            low.set(f.min((f.const(0) - place['w'] + advance - 1) // advance, run))
        with f.when(place['w'] + (run - 1) * advance > n['source_w'] - 1):
            beyond = n['source_w'] - place['w']
            high.set(f.max(f.select(beyond > 0, f.min((beyond + advance - 1) // advance, run), f.const(0)), low.get()))
        low, high = f.select(inside, low.get(), f.const(0)), f.select(inside, high.get(), f.const(0))
        body(done.get(), low, high, run, sum_of([place[d] * n[f'source_step_{d}'] for d in 'dhw']) + low * advance * n['source_step_w'])
        done.set(done.get() + run)
        at.set(f.const(0))
        row.step()


def lines_function(module, dtype):
    """What `count` lines (channel, tap) from `line` on read at the pixels [k0, k0 + depth): element (line, pixel) at line * depth + pixel."""
    elem, _, lanes = ELEMENT[dtype]
    f = Internal(module, 'window_lines', LINES_ARGUMENTS)
    source, room, n, line, count, k0, depth = f.args
    n = {name: Integers(f, n, WEIGHT_INTS)[name] for name in WEIGHT_INTS}
    taps = [n[f'taps_{d}'] for d in 'dhw']
    first = split(f, k0, n['pixels_h'], n['pixels_w'])
    step = n['advance_w'] * n['source_step_w']
    shift = lambda tap: {d: x * n[f'tap_move_{d}'] + n[f'shift_{d}'] for d, x in zip('dhw', tap)}

    def line_by_line():
        lines = Counter(f, split(f, line, *taps), [None, *taps])
        with f.loop(f.const(0), count) as i:
            channel, *tap = lines.get()
            base = element(f, source, channel * n['source_channel'], elem)
            to = element(f, room, i * depth, elem)

            def run(done, low, high, length, away):
                here = element(f, to, done, elem)
                zero_run(f, elem, lanes, here, low)
                copy_run(f, elem, lanes, element(f, base, away, elem), step, element(f, here, low, elem), high - low)
                zero_run(f, elem, lanes, element(f, here, high, elem), length - high)
            for_runs(f, n, shift(tap), first, depth, run)
            lines.step()

    def channels_together():
        """Channels are adjacent in the source: squares of pixels and channels are transposed in registers."""
        total = taps[0] * taps[1] * taps[2]
        numbers = Counter(f, [f.const(0)] * 3, [None, *taps[1:]])
        with f.loop(f.const(0), total) as tap:
            begin = (line - tap + total - 1) // total            # channels whose line of this tap is among ours
            end = (line + count - tap + total - 1) // total
            row = lambda channel: element(f, room, (channel * total + tap - line) * depth, elem)

            def run(done, low, high, length, away):
                with f.loop(begin, end) as channel:
                    with f.when((high - low) < length):
                        here = element(f, row(channel), done, elem)
                        zero_run(f, elem, lanes, here, low)
                        zero_run(f, elem, lanes, element(f, here, high, elem), length - high)
                from_ = element(f, source, away, elem)
                together = end - ((end - begin) % 8)
                whole = (high - low) & -8
                with f.loop(begin, together, 8) as channel:
                    with f.loop(f.const(0), whole, 8) as p:
                        square = [f.load(element(f, from_, (p + i) * step + channel, elem), elem, 8) for i in range(8)]
                        for i, values in enumerate(transpose(f, square)):
                            f.store(values, element(f, row(channel + i), done + low + p, elem))
                    with f.loop(whole, high - low) as p:
                        for i in range(8):
                            f.store(f.load(element(f, from_, p * step + channel + i, elem), elem), element(f, row(channel + i), done + low + p, elem))
                with f.loop(together, end) as channel:
                    copy_run(f, elem, lanes, element(f, from_, channel, elem), step, element(f, row(channel), done + low, elem), high - low)
            for_runs(f, n, shift(numbers.get()), first, depth, run)
            numbers.step()
    f.branch(n['source_channel'].eq(1) & step.ne(1), channels_together, line_by_line)
    return f


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


UNITS, UNIT_PANELS, UNIT_COLUMNS = gemm.UNITS, gemm.UNIT_PANELS, gemm.UNIT_COLUMNS


def cut(pr, batch, row_panels, columns, width, most=None):
    """(unit_panels, row_units, unit_columns, column_units): blocks of at most 20 panels, cut along columns until there are about 16."""
    row_units = pr.max(pr.ceildiv(row_panels, UNIT_PANELS), 1)
    unit_panels = pr.ceildiv(row_panels, row_units)
    column_units = pr.ceildiv(UNITS, pr.max(row_units * batch, 1))
    unit_columns = pr.max(pr.ceildiv(pr.ceildiv(columns, column_units), width) * width, UNIT_COLUMNS)
    if most is not None:
        unit_columns = pr.min(unit_columns, most)
    return unit_panels, row_units, unit_columns, pr.max(pr.ceildiv(columns, unit_columns), 1)


def product(values):
    out = 1
    for v in values:
        out = out * v
    return out


def depthwise(shape):
    """One channel and one filter to a group, and more than one group."""
    one = lambda x: isinstance(x, int) and x == 1
    return one(shape.channels) and not one(shape.groups) and bool(shape.filters == 1)


def lower_windows(program, dtype, shape, backward, source, filters, target, channels_last, epilogue=None):
    """Forward, or with `backward` the input's gradient: (bytes of each temporary, steps). Strides: of source and target (image, channel, d, h, w),
    of the filters (filter, channel, d, h, w)."""
    pr = program
    elem, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
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
    scattered = pr.lt(1, product(phases))
    most_columns = pr.select(scattered, SCATTERED_COLUMNS, 1 << 40)
    batch = shape.batch * shape.groups * product(phases)
    if channels_last:
        unit_panels, row_units, unit_columns, column_units = cut(pr, batch, pr.ceildiv(most_pixels, ROWS), rows, width, most_columns)
        panels, lines, tall, pitch = pr.ceildiv(rows, width), width, 0, width
    else:
        panels = pr.max(pr.ceildiv(rows, ROWS), 1)
        lines, tall, pitch = pr.floordiv(rows, panels), pr.mod(rows, panels), ROWS
        unit_panels, row_units, unit_columns, column_units = cut(pr, batch, panels, most_pixels, width, most_columns)
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
    more = {'images': 1, 'groups': shape.groups, 'panels': panels, 'panel_lines': lines, 'tall_panels': tall, 'lines': rows, 'image_step': 0,
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
    scratch = pr.select(scattered, unit_panels * ((ROWS + 1) * size) * unit_columns, 0)
    if channels_last:
        scratch = scratch + unit_panels * (ROWS + 1) * pr.min(K_BLOCK[size] + 8, most_k + 8) * size + lanes * size
    units = pr.select(pr.eq(most_pixels * rows, 0), 0, per_batch * batch)
    product_step = Step(kernel_text(dtype, channels_last, epilogue), 'convolve',
                        [(*source.pointer, source.offset), (*target.pointer, target.offset), ('temporary', 0, 0), *extra.pointers],
                        ordered + list(extra.ints), list(extra.scalars), units, grain, batch * work, scratch)
    return [shape.groups * product(phases) * panel_size * size], [packing, product_step]


def lower_weight(program, dtype, shape, source, gradient, target):
    """The weight's gradient, [groups, channels, taps, filters] and dense. source: (image, channel, d, h, w), gradient: (image, filter, pixel)."""
    pr = program
    if depthwise(shape):
        from rushlight.compiler.templates import depthwise as direct
        last = bool(source.strides[1] == 1) and bool(gradient.strides[1] == 1)
        return direct.lower_weight(pr, dtype, shape, source, gradient, target, last)
    elem, size, lanes = ELEMENT[dtype]
    width = 2 * lanes
    lines = shape.channels * product(shape.taps)
    pixels = product(shape.result)
    panels = pr.max(pr.ceildiv(lines, ROWS), 1)
    unit_panels, row_units, unit_columns, column_units = cut(pr, shape.groups, panels, shape.filters, width)
    # few filters and many lines: more blocks of lines, but not so small that packing a panel of the gradient for each shows
    row_units = pr.max(row_units, pr.min(pr.ceildiv(UNITS // 2, pr.max(column_units * shape.groups, 1)), pr.ceildiv(panels, UNIT_PANELS // 2)))
    unit_panels = pr.ceildiv(panels, row_units)
    row_units = pr.ceildiv(panels, unit_panels)
    ints = {'groups': shape.groups, 'images': shape.batch, 'channels': shape.channels, 'filters': shape.filters, 'lines': lines,
            'source_image': source.strides[0], 'source_group': source.strides[1] * shape.channels, 'source_channel': source.strides[1],
            'unit_panels': unit_panels, 'row_units': row_units, 'unit_columns': unit_columns, 'column_units': column_units, 'panels': panels,
            'panel_rows': pr.floordiv(lines, panels), 'tall_panels': pr.mod(lines, panels), 'gradient_image': gradient.strides[0],
            'gradient_group': gradient.strides[1] * shape.filters, 'gradient_filter': gradient.strides[1], 'gradient_pixel': gradient.strides[2]}
    for i, d in enumerate('dhw'):
        values = (shape.result[i], shape.image[i], shape.taps[i], shape.stride[i], shape.dilation[i], 0 - shape.padding[i], source.strides[2 + i])
        ints.update({f'{name}_{d}': v for name, v in zip(('pixels', 'source', 'taps', 'advance', 'tap_move', 'shift', 'source_step'), values)})
    work = pr.max(pr.floordiv(shape.batch * pixels * lines * shape.filters, 6), lines * shape.filters * size)
    units = shape.groups * row_units * column_units
    grain = pr.max(pr.floordiv(1 << 15, pr.max(pr.floordiv(work, row_units * column_units), 1)), 1)
    scratch = unit_panels * (ROWS + 1) * pr.min(K_BLOCK[size] + 8, pixels + 8) * size
    product_step = Step(weight_text(dtype), 'convolve_weight',
                        [(*source.pointer, source.offset), (*target.pointer, target.offset), (*gradient.pointer, gradient.offset)],
                        [ints[name] for name in WEIGHT_INTS], [], pr.select(pr.eq(lines * shape.filters, 0), 0, units), grain,
                        shape.groups * work, scratch)
    return [], [product_step]

