"""Convolutions in the graph: three linear maps of each operand, which are each other's gradients; their batching rule; their lowering.

    conv         x, w     y[n, f, o]                    forward
    conv_input   y, w     x[n, c, i]                    the gradient of x, and the forward of a transposed convolution
    conv_weight  x, y     w[group, c, tap, f]           the gradient of w

x is [n, channels, d, h, w] and w is [filters, channels of a group, d, h, w]; the pixels of a result (o, i) are one dimension. Attributes: stride, padding,
dilation (three each), groups, and size: the three extents that the operands do not tell. They need not be those of a full convolution: windows that
reach beyond the source read zeros, which is also how an asymmetric padding is said.
"""
from . import templates
from . import trace as T
from .evaluate import Indirect, MustStore
from .graph import itemsize
from .loops import Buffer, Store, is_one, is_zero
from .normalise import reshape_strides
from .special import Template, first_computed, is_contiguous, operand, product_tail
from .steps import Step
from .symbolic import product


# ---------------------------------------------------------------------------------------------------------------- gradients
def _pixels(g, shape, spatial): return T.reshape(T.expand(g, shape), (*shape[:2], *spatial))


def _as_weight(v, w_shape):
    """[group, c, tap, f] as [filters, c, d, h, w]."""
    return T.reshape(T.permute(v, (0, 3, 1, 2)), w_shape)


def conv_vjp(g, y, x, w):
    a = y.node.attrs
    g5 = _pixels(g, y.shape, a['size'])
    gx = T.conv_input(g5, w, a['stride'], a['padding'], a['dilation'], a['groups'], x.shape[2:])
    gw = T.conv_weight(x, g5, a['stride'], a['padding'], a['dilation'], a['groups'], w.shape[2:])
    return T.reshape(gx, x.shape), _as_weight(gw, w.shape)


def conv_input_vjp(g, y, source, w):
    a = y.node.attrs
    g5 = _pixels(g, y.shape, a['size'])
    gs = T.conv(g5, w, a['stride'], a['padding'], a['dilation'], a['groups'], source.shape[2:])
    gw = T.conv_weight(g5, source, a['stride'], a['padding'], a['dilation'], a['groups'], w.shape[2:])
    return T.reshape(gs, source.shape), _as_weight(gw, w.shape)


def conv_weight_vjp(g, y, x, source):
    a = y.node.attrs
    g = T.expand(g, y.shape)
    w_shape = (y.shape[0] * y.shape[3], y.shape[1], *a['size'])
    w = _as_weight(g, w_shape)
    gx = T.conv_input(source, w, a['stride'], a['padding'], a['dilation'], a['groups'], x.shape[2:])
    gs = T.conv(x, w, a['stride'], a['padding'], a['dilation'], a['groups'], source.shape[2:])
    return T.reshape(gx, x.shape), T.reshape(gs, source.shape)


VJP = {'conv': conv_vjp, 'conv_input': conv_input_vjp, 'conv_weight': conv_weight_vjp}


# ----------------------------------------------------------------------------------------------------------------- batches
def batched(b, n):
    """A convolution of each example (batching.py): more images where one weight serves all, otherwise more groups."""
    convolve = {'conv': T.conv, 'conv_input': T.conv_input, 'conv_weight': T.conv_weight}[n.op]
    a, (first, second) = n.attrs, n.args
    numbers = a['stride'], a['padding'], a['dilation']
    if n.op != 'conv_weight' and not b.varying(second):
        x = b.known[first]
        y = convolve(T.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])), T.Sym(second), *numbers, a['groups'], a['size'])
        return T.reshape(y, (b.size, *n.shape))
    x, y, groups = b.whole(first), b.whole(second), b.size * a['groups']
    if n.op == 'conv_weight': return T.reshape(convolve(_side_by_side(x), _side_by_side(y), *numbers, groups, a['size']), (b.size, *n.shape))
    out = convolve(_side_by_side(x), T.reshape(y, (y.shape[0] * y.shape[1], *y.shape[2:])), *numbers, groups, a['size'])
    return T.permute(T.reshape(out, (n.shape[0], b.size, *n.shape[1:])), (1, 0, 2, 3))


def _side_by_side(x):
    """[examples, n, channels, ...] as [n, examples * channels, ...]."""
    return T.reshape(T.permute(x, (1, 0, *range(2, x.ndim))), (x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:]))


def complex_convolution(graph, n, a, b):
    """The templates know real numbers only: four real convolutions."""
    real = T.real_dtype(n.dtype)
    part = lambda kind, x: graph.node(kind, (x,), {}, x.shape, real)
    once = lambda x, y: graph.node(n.op, (x, y), n.attrs, n.shape, real)
    (ar, ai), (br, bi) = ((part('real', x), part('imag', x)) for x in (a, b))
    re = graph.node('sub', (once(ar, br), once(ai, bi)), {}, n.shape, real)
    im = graph.node('add', (once(ar, bi), once(ai, br)), {}, n.shape, real)
    return graph.node('make_complex', (re, im), {}, n.shape, n.dtype)


# ----------------------------------------------------------------------------------------------------------------- lowering
def channels_adjacent(node, memory):
    """Is the result [n, channels, pixels] of a convolution written channel by channel (channels_last)? Otherwise its pixels are adjacent."""
    return is_one(memory.strides[1]) and not is_one(node.shape[1])


def lower(build, fusion, node, wave):
    why = 'an operand of a convolution must be in memory'
    attrs, pr = node.attrs, build.program
    memories = [operand(fusion, x, wave, why) for x in node.args]
    out = fusion.memory(node)
    shape = geometry(node)
    if node.op == 'conv_weight':
        x, y = (in_memory(m) for m in memories)
        if not is_contiguous(out): raise Indirect(node, 'the gradient of a weight is written densely')
        flat = pixel_stride(node.args[1].shape, memories[1].strides)
        if flat is None: raise MustStore(first_computed(fusion, node.args[1], wave), 'the gradient of a weight reads dense pixels')
        y.strides = (memories[1].strides[0], memories[1].strides[1], flat)
        bounded(memories[0])
        sizes, launches = templates.conv_weight.lower_weight(pr, node.dtype, shape, x, y, in_memory(out))
        reads = []
    else:
        last = channels_adjacent(node, out)
        if not last and not is_one(out.strides[2]) and not is_one(node.shape[2]): raise Indirect(node, 'a convolution writes dense pixels or channels')
        source, filters = (in_memory(m) for m in memories)
        bounded(memories[0])
        step = out.strides[2]
        extents = attrs['size']
        target = in_memory(out)
        target.strides = (out.strides[0], out.strides[1], step * extents[1] * extents[2], step * extents[2], step)
        epilogue, reads = product_tail(build, fusion, node)
        sizes, launches = templates.conv.lower_windows(pr, node.dtype, shape, node.op == 'conv_input', source, filters, target, last, epilogue)
    rooms = [Buffer('temporary', 'u8', (size,), (1,), size) for size in sizes]
    steps = []
    for s in launches:
        step = Step(Template(s, rooms), s.units, s.grain, s.cost, None if is_zero(s.scratch) else s.scratch, symbol=s.symbol)
        step.title = f'{s.symbol} {node!r}'
        step.read, step.write, step.passes = [*memories, *reads], [Store(None, out, {}, 0)], 2
        steps.append(step)
    return steps


def geometry(node):
    a, (first, second) = node.attrs, node.args
    groups = a['groups']
    if node.op == 'conv_weight':
        image, result, taps = first.shape[2:], second.shape[2:], a['size']
        channels, filters = first.shape[1] // groups, second.shape[1] // groups
    else:
        taps, channels, filters = second.shape[2:], second.shape[1], second.shape[0] // groups
        image, result = (a['size'], first.shape[2:]) if node.op == 'conv_input' else (first.shape[2:], a['size'])
    return templates.conv.Shape(first.shape[0], groups, channels, filters, tuple(image), tuple(result), tuple(taps), a['stride'], a['padding'], a['dilation'])


def in_memory(m): return templates.conv.Tensor(m.place, m.offset * itemsize(m.dtype), tuple(m.strides))


def pixel_stride(shape, strides):
    """The step from one pixel to the next through all three dimensions, or None."""
    flat = reshape_strides(shape, strides, (*shape[:2], product(shape[2:])))
    return None if flat is None else flat[2]


def bounded(memory):
    """Offsets within an image are 32-bit integers in the kernels."""
    reach = 0
    for size, step in zip(memory.shape[2:], memory.strides[2:]): reach = reach + size * step
    if not reach < 2 ** 31: raise NotImplementedError('a convolution of an image that spans more than 2**31 elements')

