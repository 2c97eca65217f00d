"""A pure-Python stand-in for the runtime, for tests of the compiler: it calls operators on numpy arrays, replays recipes (integer program,
buffers, kernels through ctypes) and runs their backward; and it can evaluate a graph node by node, without any kernel.

    call('add', x, y)                       -> arrays, through the whole compiler
    call('add', x, y, grad=[0, 1])          -> (arrays, tape): tape.backward([g]) gives the gradients
    interpret(roots, inputs)                -> arrays, straight from the graph: the meaning of a graph, slow and simple

Arrays may have any strides. Numbers go where the schema says Scalar. f16 is numpy's; bf16 is not covered here.
"""
import ctypes
import math

import numpy as np

from rushlight import plans, registry
from rushlight.compiler import symbolic
from rushlight.compiler.graph import DTYPE_OF_CODE, DTYPES, closure

NUMPY = {'b1': np.bool_, 'u8': np.uint8, 'i8': np.int8, 'i16': np.int16, 'i32': np.int32, 'i64': np.int64, 'f16': np.float16,
    'f32': np.float32,
         'f64': np.float64, 'c64': np.complex64, 'c128': np.complex128}
CODE = {np.dtype(t): DTYPES[name][0] for name, t in NUMPY.items()}


def describe(a):
    if a is None: return None
    return (CODE[a.dtype], 0, tuple(a.shape), tuple(s // a.itemsize for s in a.strides), 0)


def number_kind(v): return 'b' if isinstance(v, bool) else 'i' if isinstance(v, int) else 'f' if isinstance(v, float) else 'c'


class Call:
    """Arguments of one call, sorted as the runtime does."""

    def __init__(self): self.tensors, self.scalars = [], []

    def value(self, p, v):
        if p.kind == 'Tensor[]':
            self.tensors.extend(v)
            return [describe(a) for a in v]
        if p.is_tensor and (v is None or isinstance(v, np.ndarray)):
            self.tensors.append(v)
            return describe(v)
        if p.kind == 'Tensor|Scalar': self.tensors.append(None)
        if p.kind in ('Scalar', 'float', 'Tensor|Scalar'):
            if v is None: return None
            self.scalars.append(v)
            return number_kind(v)
        if p.kind in ('int[]', 'SymInt[]') and v is not None: return tuple(v) if isinstance(v, (list, tuple)) else (v,)
        return v


def make_request(name, args, kwargs, grad=(), form=0, out=None):
    definition = registry.find(name)
    error = None
    for index, s in enumerate(definition.signatures):
        try: values = bind(s, args, kwargs)
        except TypeError as e:
            error = e
            continue
        call = Call()
        params = [call.value(p, values[p.name]) for p in s.params]
        if not all(map(plans._possible, s.params, params)): continue
        mask = sum(1 << i for i in grad)
        dests = None if form == 0 and out is None else [describe(o) for o in (out or call.tensors[:1])]
        return ('op', name, index, 2 if out is not None else form, mask, params, dests, 'f32'), call
    raise error or TypeError(f'{name}: no schema fits')


def bind(signature, args, kwargs):
    values = dict(zip((p.name for p in signature.params if not p.keyword_only), args))
    if len(values) < len(args): raise TypeError('too many arguments')
    for k, v in kwargs.items():
        if k not in signature.by_name: raise TypeError(f'no parameter {k}')
        values[k] = v
    for p in signature.params:
        if p.name in values: continue
        if p.default is registry.REQUIRED: raise TypeError(f'missing {p.name}')
        values[p.name] = p.default
    return values


# ------------------------------------------------------------------------------------------------------------------ replay
class Scalar(ctypes.Structure):
    _fields_ = [('first', ctypes.c_int64), ('second', ctypes.c_double)]


def scalar_slot(v):
    s = Scalar()
    if isinstance(v, (bool, int)): s.first = int(v)
    else:
        ctypes.memmove(ctypes.byref(s), ctypes.byref(ctypes.c_double(complex(v).real)), 8)
        s.second = complex(v).imag
    return s


KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
    ctypes.c_int64)
_loaded, _engine = {}, None


def kernel_function(sha, symbol):
    """The kernel of an object, linked by LLVM's ORC (the runtime has its own loader)."""
    global _engine
    if (sha, symbol) not in _loaded:
        import llvmlite.binding as llvm

        from rushlight.compiler import cache, jit
        if _engine is None:
            jit.machine(jit.tier())
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            _engine = llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(jit=True))
        builder = llvm.JITLibraryBuilder().add_object_img(cache.get('object', sha)).add_current_process().export_symbol(symbol)
        library = builder.link(_engine, f'{sha}.{symbol}')
        _loaded[sha, symbol] = (KERNEL(library[symbol]), library)
    return _loaded[sha, symbol][0]


def aligned(nbytes):
    raw = np.zeros(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + nbytes]


def strided(memory, dtype, shape, strides):
    size = np.dtype(NUMPY[dtype]).itemsize
    return np.lib.stride_tricks.as_strided(memory.view(NUMPY[dtype]) if memory.size else memory[:0].view(NUMPY[dtype]), shape,
        [s * size for s in strides])


def run(recipe, entries, tensors, scalars, dests=(), threads=1):
    """Results (arrays, or None), hidden arrays, and the value of every slot."""
    slots = symbolic.evaluate(entries, recipe['consts'], recipe['program'])
    assert all(slots[g] for g in recipe['guards']), 'a guard of the recipe fails for this call'
    buffers = []
    for dtype, shape, strides, size in recipe['buffers']:
        dtype = DTYPE_OF_CODE[dtype] if isinstance(dtype, int) else dtype
        shape, strides = [slots[s] for s in shape], [slots[s] for s in strides]
        extent = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        memory = aligned(max(slots[size] if size >= 0 else 0, extent * DTYPES[dtype][1]))
        buffers.append((strided(memory, dtype, shape, strides), memory))
    for kernel, pointers, ints, picks, units, grain, _, scratch in recipe['steps']:
        places = []
        for kind, k, offset in pointers:
            base = tensors[k].ctypes.data if kind == 'arg' else dests[k].ctypes.data if kind == 'dest' else buffers[k][1].ctypes.data
            places.append(base + (slots[offset] if offset >= 0 else 0))
        p = (ctypes.c_void_p * max(1, len(places)))(*places)
        n = (ctypes.c_int64 * max(1, len(ints)))(*[slots[i] for i in ints])
        s = (Scalar * max(1, len(picks)))(*[scalar_slot(scalars[i]) for i in picks])
        space = aligned(slots[scratch] if scratch >= 0 else 0)
        function, total = kernel_function(kernel[1], kernel[2]), slots[units]
        step = max(1, slots[grain]) if grain >= 0 else max(1, total)
        chunks = range(0, total, step) if threads == 1 else reversed(range(0, total, step))      # any order must give the same bits
        for lo in chunks if total else [0]:
            status = function(p, n, s, space.ctypes.data, lo, min(total, lo + step))
            if status:
                kind, message, _ = recipe['errors'][(status & 255) - 1]
                raise getattr(__import__('builtins'), kind, RuntimeError)(message.replace('{value}', str(status >> 8)))
    results = []
    for o in recipe['outputs']:
        if o[0] == 'view':
            base, (_, _, _, shape, strides, offset) = tensors[o[1]], o
            assert slots[offset] == 0
            results.append(np.lib.stride_tricks.as_strided(base, [slots[s] for s in shape], [slots[s] * base.itemsize for s in strides]))
            continue
        results.append(None if o[0] == 'none' else buffers[o[1]][0] if o[0] == 'buffer' else tensors[o[1]] if o[0] == 'arg'
            else dests[o[1]])
    return results, [buffers[h][0] for h in recipe['hidden']], slots


class Tape:
    """What a node keeps; `backward` runs it as the runtime would (an op of its own, by key)."""

    def __init__(self, recipe, call, results, hidden, slots):
        self.recipe, self.scalars, self.shapes = recipe, call.scalars, results + hidden
        places = {'arg': call.tensors, 'output': results, 'hidden': hidden}
        self.saved = [places[kind][k] for kind, k in recipe['saves']]
        self.syms = tuple(slots[s] for s in recipe['backward_syms'])

    def backward(self, grads, needed, grad=()):
        grads = list(grads) + [None] * (len(self.shapes) - len(grads))
        request = ('backward', self.recipe['backward'], sum(1 << i for i in grad), [describe(g) for g in grads], [describe(s)
            for s in self.saved],
                   sum(1 << i for i in needed), self.syms, [number_kind(s) for s in self.scalars], 'f32')
        call = Call()
        call.tensors, call.scalars = grads + self.saved, self.scalars
        return execute(request, call, want_tape=bool(grad))


def execute(request, call, want_tape, dests=()):
    recipe = plans.recipe_for(request)
    results, hidden, slots = run(recipe, plans.entry_values(request), call.tensors, call.scalars, dests)
    return (results, Tape(recipe, call, results, hidden, slots)) if want_tape else results


def call(name, *args, grad=(), **kwargs):
    request, sorted_call = make_request(name, args, kwargs, grad)
    return execute(request, sorted_call, bool(grad))


def call_inplace(name, *args, **kwargs):
    request, sorted_call = make_request(name, args, kwargs, form=1)
    return execute(request, sorted_call, False, [sorted_call.tensors[0]])


# --------------------------------------------------------------------------------------------------------------- interpreter
def _erf(x): return np.vectorize(math.erf, otypes=[x.dtype])(x)


POINTWISE = {
    'add': lambda a, b: a | b if a.dtype == bool else a + b, 'sub': np.subtract, 'mul': np.multiply, 'div': np.divide, 'neg': np.negative,
        'abs': np.abs,
    'floor': np.floor, 'ceil': np.ceil, 'trunc': np.trunc, 'round': np.rint, 'fmod': np.fmod, 'pow': np.power, 'maximum': np.maximum,
        'minimum': np.minimum,
    'atan2': np.arctan2, 'hypot': np.hypot, 'fma': lambda a, b, c: a * b + c, 'copysign': np.copysign,
    'idiv': lambda a, b: np.trunc(a / np.where(b == 0, 1, b)).astype(a.dtype),
    'exp': np.exp, 'exp2': np.exp2, 'expm1': np.expm1, 'log': np.log, 'log2': np.log2, 'log10': np.log10, 'log1p': np.log1p, 'sin': np.sin,
        'cos': np.cos,
    'tan': np.tan, 'asin': np.arcsin, 'acos': np.arccos, 'atan': np.arctan, 'sinh': np.sinh, 'cosh': np.cosh, 'tanh': np.tanh,
        'asinh': np.arcsinh,
    'acosh': np.arccosh, 'atanh': np.arctanh, 'sqrt': np.sqrt, 'sigmoid': lambda x: 1 / (1 + np.exp(-x)), 'erf': _erf,
    'erfc': lambda x: np.vectorize(math.erfc, otypes=[x.dtype])(x), 'lgamma': lambda x: np.vectorize(math.lgamma, otypes=[x.dtype])(x),
    'eq': np.equal, 'ne': np.not_equal, 'lt': np.less, 'le': np.less_equal, 'bit_and': np.bitwise_and, 'bit_or': np.bitwise_or,
    'bit_xor': np.bitwise_xor, 'bit_not': np.invert, 'shl': np.left_shift, 'shr': np.right_shift, 'where': np.where, 'conj': np.conj,
        'real': np.real,
    'imag': np.imag, 'make_complex': lambda a, b: a + 1j * b, 'stop': lambda x: x,
}
REDUCE = {'sum': np.sum, 'prod': np.prod, 'amax': np.max, 'amin': np.min, 'any': np.any, 'all': np.all}
COMBINE = {'add': np.add, 'mul': np.multiply, 'max': np.maximum, 'min': np.minimum}


def interpret(roots, inputs, scalars=()):
    """Evaluate nodes on numpy arrays. inputs: by the index of 'input' nodes. Sizes are the hints."""
    value, hint = {}, symbolic.hint
    shape_of = lambda n: tuple(hint(s) for s in n.shape)
    for n in closure([r for r in roots if r is not None]):
        x, at = [value[a] for a in n.args], n.attrs
        dtype = NUMPY[n.dtype]
        with np.errstate(all='ignore'):
            if n.op == 'input': out = inputs[at['index']]
            elif n.op == 'scalar': out = np.asarray(scalars[at['index']])
            elif n.op == 'const': out = np.asarray(at['value'])
            elif n.op == 'size': out = np.asarray(hint(at['expr']))
            elif n.op == 'iota': out = np.arange(hint(at['size'])).reshape([-1 if i == at['dim'] else 1 for i in range(at['rank'])])
            elif n.op == 'cast': out = x[0].real if np.dtype(dtype).kind != 'c' else x[0]
            elif n.op in ('call', 'check'): out = x[0]
            elif n.op == 'reduce': out = REDUCE[at['kind']](x[0], axis=at['dims'], keepdims=True)
            elif n.op == 'argreduce': out = _argreduce(x[0], at, shape_of(n))
            elif n.op == 'scan': out = _scan(x[0], at)
            elif n.op == 'reshape': out = x[0].reshape(shape_of(n))
            elif n.op == 'permute': out = x[0].transpose(at['dims'])
            elif n.op == 'expand': out = np.broadcast_to(x[0], shape_of(n))
            elif n.op == 'slice':
                start, step = hint(at['start']), hint(at['step'])
                length = shape_of(n)[at['dim']]
                out = np.take(x[0], start + step * np.arange(length), axis=at['dim'])
            elif n.op == 'flip': out = np.flip(x[0], at['dims'])
            elif n.op == 'load': out = _load(x, at, shape_of(n))
            elif n.op == 'scatter':
                out, index = x[0].copy(), tuple(np.broadcast_to(e, x[1].shape) for e in x[2:])
                if at['combine'] == 'set': out[index] = x[1]
                else: COMBINE[at['combine']].at(out, index, x[1])
            elif n.op == 'cat': out = np.concatenate(x, at['dim'])
            elif n.op == 'matmul': out = x[0] @ x[1]
            else: out = np.broadcast_to(POINTWISE[n.op](*x), shape_of(n))
        value[n] = np.asarray(out).astype(dtype)
        assert value[n].shape == shape_of(n), (n, value[n].shape)
    return [None if r is None else value[r] for r in roots]


def _argreduce(x, at, shape):
    dims = at['dims']
    moved = np.moveaxis(x, dims, range(x.ndim - len(dims), x.ndim))
    flat = moved.reshape(moved.shape[:x.ndim - len(dims)] + (-1,))
    return (np.argmax if at['kind'] == 'argmax' else np.argmin)(flat, -1).reshape(shape)


def _scan(x, at):
    d = at['dim']
    if at['reverse']: x = np.flip(x, d)
    kind = at['kind']
    if kind.startswith('arg'):
        run_, out = np.take(x, 0, d), np.zeros(x.shape, np.int64)
        best = np.zeros(run_.shape, np.int64)
        for i in range(x.shape[d]):
            now = np.take(x, i, d)
            better = now >= run_ if kind == 'argmax' else now <= run_
            run_, best = np.where(better, now, run_), np.where(better, i, best)
            np.moveaxis(out, d, 0)[i] = best
        result = out
    else: result = {'sum': np.add, 'prod': np.multiply, 'max': np.maximum, 'min': np.minimum}[kind].accumulate(x, d)
    return np.flip(result, d) if at['reverse'] else result


def _load(x, at, shape):
    rank = x[0].ndim
    index = tuple(np.broadcast_to(e, shape) for e in x[1:1 + rank])
    if not at['guarded']: return x[0][index] if rank else np.broadcast_to(x[0], shape)
    valid = np.broadcast_to(x[1 + rank], shape)
    safe = tuple(np.where(valid, e, 0) for e in index)
    return np.where(valid, x[0][safe] if x[0].size else 0, x[2 + rank])
