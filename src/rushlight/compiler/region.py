"""The scalar loop: `while test(carry): carry = body(carry)` at every element, for what no fixed number of operations computes.

    total, _, _ = T.loop(test, body, carry=[total, term, k], operands=[x], trips=500)

`test` and `body` are functions of (*carry, *operands) on 0-dim symbolic values; they are traced once, into a graph of their own (the `Region`), which may hold
pointwise operations, constants and further loops only. In the outer graph each result is a node

    %9 f64[n0] = loop(%3, %4, %7, index=0, region=while %6 ...)

whose arguments (first the carry's start, then the operands) spread like those of any pointwise operation, so loops fuse. The lanes of a vector run together
until the test is false in every one of them; a lane whose test is false keeps its values, so its result does not depend on its neighbours.
`trips` bounds the number of trips whatever the values are: a test must be false for NaN, and if it is not, the loop still ends.
A loop has no derivative: the operator that uses one states its gradient, or has none.
"""
from . import trace as T
from .graph import Graph, broadcast_shapes, closure, is_complex, verify


class Region:
    """The inside of a loop: a node for the test, one for each carried value after a trip. Two regions with the same text are the same."""
    __slots__ = ('test', 'results', 'trips', 'text')

    def __init__(self, test, results, trips):
        self.test, self.results, self.trips = test, tuple(results), trips
        lines = [repr(n) for n in closure([test, *results])]
        self.text = f'while %{test.id}, at most {trips} times, carry {", ".join(f"%{r.id}" for r in results)}:' + ''.join(f'\n          {line}' for line in lines)

    def __hash__(self): return hash(self.text)
    def __eq__(self, other): return isinstance(other, Region) and self.text == other.text
    def __repr__(self): return self.text


def loop(test, body, carry, operands=(), trips=None):
    """The values that `carry` has when `test` is first false (or after so many trips): a list of Syms. See the module's description."""
    if not isinstance(trips, int) or trips < 1: raise ValueError(f'a loop must have a bound on its trips, not {trips!r}')
    state = T.current()
    start = [T.lift(x) for x in (*carry, *operands)]
    inside = Graph(state.graph.program)
    with T.tracing(T.Tracing(inside, state.default)):
        parameters = [T.Sym(inside.node('carried', (), {'index': i}, (), x.dtype)) for i, x in enumerate(start)]
        proceed = T.lift(test(*parameters))
        after = [T.lift(x) for x in body(*parameters)]
    if len(after) != len(carry): raise ValueError(f'a trip carries {len(carry)} values in and {len(after)} out')
    region = Region(proceed.node, [x.node for x in after], trips)
    check_region(region, [x.dtype for x in start[:len(carry)]])
    shape = broadcast_shapes([x.shape for x in start])
    graph, args = state.graph, [x.node for x in start]
    return [T.Sym(graph.node('loop', args, {'index': i, 'region': region}, shape, x.dtype)) for i, x in enumerate(start[:len(carry)])]


def branch(condition, body, operands, otherwise):
    """body(*operands) where the condition holds, `otherwise` elsewhere, as `where` gives it; but lanes that all go the other way do not pay for the body. A
    loop of at most one trip. No derivative."""
    otherwise = T.lift(otherwise)
    def once(out, todo, *operands): return T.cast(body(*operands), out.dtype), todo & False
    return loop(lambda out, todo, *operands: todo, once, [otherwise, condition], operands, trips=1)[0]


def check_region(region, dtypes):
    from .primitives import PRIMITIVES
    roots = [region.test, *region.results]
    if len({n.graph for n in closure(roots)}) != 1: raise ValueError('a loop uses a value from outside: pass it as an operand')
    verify(roots)
    for n in closure(roots):
        if n.op not in ('carried', 'const', 'cast', 'bitcast', 'loop') and n.op not in PRIMITIVES: raise ValueError(f'{n.op} inside a loop: only pointwise operations are')
        if is_complex(n.dtype): raise ValueError('complex values inside a loop')
    if region.test.dtype != 'b1': raise ValueError('the test of a loop is boolean')
    for before, after in zip(dtypes, region.results):
        if before != after.dtype: raise ValueError(f'a carried value goes in as {before} and comes out as {after.dtype}')


CHUNK = 8            # lanes that run together: a carry of several doubles still fits the registers, and fewer lanes wait for the slowest of them


def emit(f, region, index, args, mask=None):
    """The loop in IR. args: values of one width, the carry's start first. mask: the lanes that count. Returns the carried value `index` at the end."""
    width = max(a.width for a in args)
    args = [f.splat(a, width) for a in args]
    if width <= CHUNK: return emit_lanes(f, region, index, args, mask)
    rooms = [f.array(_room(a.elem), width) for a in args]
    result = f.array(_room(args[index].elem), width)
    for a, room in zip(args, rooms): f.store(_to_room(f, a), room)
    room_of_mask = None
    if mask is not None:
        room_of_mask = f.array('i8', width)
        f.store(_to_room(f, mask), room_of_mask)
    with f.loop(f.const(0), f.const(width), CHUNK) as i:
        def part(room, elem):
            v = f.load(f.at(room, i, _room(elem)), _room(elem), CHUNK)
            return v.ne(0) if elem == 'i1' else v
        some = None if mask is None else part(room_of_mask, 'i1')
        out = emit_lanes(f, region, index, [part(room, a.elem) for room, a in zip(rooms, args)], some)
        f.store(_to_room(f, out), f.at(result, i, _room(out.elem)))
    whole = f.load(result, _room(args[index].elem), width)
    return whole.ne(0) if args[index].elem == 'i1' else whole


def _room(elem): return 'i8' if elem == 'i1' else elem
def _to_room(f, v): return f.convert('zext', v, 'i8') if v.elem == 'i1' else v


def emit_lanes(f, region, index, args, mask):
    from .emit import values
    from .emit.ir import Var
    from .primitives import PRIMITIVES
    width, count = args[0].width, len(region.results)
    carried, fixed = [Var(f, a) for a in args[:count]], args[count:]
    trips = Var(f, f.const(0))
    memo = {}

    def value(root):
        for n in closure([root], stop=memo):
            if n in memo: continue
            operands = [memo[a] for a in n.args]
            if n.op == 'const': memo[n] = values.constant(f, n.attrs['value'], n.dtype, width)
            elif n.op == 'cast': memo[n] = values.cast(f, operands[0], n.args[0].dtype, n.dtype)
            elif n.op == 'bitcast': memo[n] = values.bitcast(f, operands[0], n.args[0].dtype, n.dtype)
            elif n.op == 'loop': memo[n] = emit_lanes(f, n.attrs['region'], n.attrs['index'], operands, going.live)
            else:
                dtype = n.args[-1].dtype
                memo[n] = PRIMITIVES[n.op].emit(f, values.BODY_TYPE.get(dtype, dtype), *operands)
        return memo[root]

    def going():
        """The test, in the block that every trip begins with: what it computes serves the trip too."""
        memo.clear()
        now, going.live = [v.get() for v in carried], mask
        for n in closure([region.test, *region.results]):
            if n.op == 'carried': memo[n] = (now + fixed)[n.attrs['index']]
        going.now = now
        going.live = value(region.test) if mask is None else value(region.test) & mask
        return f.any(going.live) & (trips.get() < region.trips)

    with f.loop_while(going):
        after = [value(r) for r in region.results]
        for var, new, old in zip(carried, after, going.now): var.set(f.select(going.live, new, old))
        trips.set(trips.get() + 1)
    return carried[index].get()
