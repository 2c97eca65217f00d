"""Images of few adjacent channels, plane by plane: convolutions copy their windows by vectors of pixels then, not one pixel at a time."""
from dataclasses import replace

from rushlight.compiler.templates.gemm import Step
from rushlight.compiler.templates.pieces import ELEMENT, Kernel, Module, element
from rushlight.compiler.templates.windows import Known, copy_run, remembered, split

FEW_CHANNELS = 8              # fewer of a group than this
INTS = ('channels', 'd', 'h', 'w', 'step_image', 'step_d', 'step_h', 'step_w')


@remembered
def planes_text(dtype):
    """The module with the kernel `planes`. Units: rows of all images."""
    elem, _, lanes = ELEMENT[dtype]
    module = Module()
    f = Kernel(module, 'planes')
    n = Known(f, f.integers, INTS)
    source, target = f.p(0), f.p(1)
    plane = n['d'] * n['h'] * n['w']
    with f.loop(f.lo, f.hi) as unit:
        image, d, h = split(f, unit, n['d'], n['h'])
        from_ = element(f, source, image * n['step_image'] + d * n['step_d'] + h * n['step_h'], elem)
        to = element(f, target, image * n['channels'] * plane + (d * n['h'] + h) * n['w'], elem)
        with f.loop(f.const(0), n['channels']) as channel:
            copy_run(f, elem, lanes, element(f, from_, channel, elem), n['step_w'], element(f, to, channel * plane, elem), n['w'])
    return module.text()


def in_planes(pr, dtype, tensor, counts, extents, target):
    """(the tensor to read, bytes of temporaries, steps): the planes of a tensor that is such an image, or itself. counts: images, groups, channels of a group; target: the temporary."""
    (batch, groups, some), (d, h, w) = counts, extents
    if not (adjacent_channels(tensor) and bool(some < FEW_CHANNELS)) or bool(tensor.strides[4] == 1): return tensor, [], []
    channels, rows = some * groups, batch * d * h
    size = rows * channels * w * ELEMENT[dtype][1]
    step = Step(planes_text(dtype), 'planes', [(*tensor.pointer, tensor.offset), (*target, 0)], [channels, d, h, w, tensor.strides[0], *tensor.strides[2:]], [],
                rows, pr.max(pr.floordiv(16384, pr.max(channels * w, 1)), 1), size * 2)
    return replace(tensor, pointer=target, offset=0, strides=(channels * d * h * w, d * h * w, h * w, w, 1)), [size], [step]


def adjacent_channels(tensor): return isinstance(tensor.strides[1], int) and tensor.strides[1] == 1
