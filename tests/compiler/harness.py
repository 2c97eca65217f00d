"""Run generated IR without the runtime: text -> object (the compiler's own path) -> LLVM's linker -> ctypes."""
import ctypes
import itertools

import llvmlite.binding as llvm
import numpy as np

from rushlight.compiler import jit
from rushlight.compiler.emit.ir import Fn, Module, Val

_names = itertools.count()
_alive = []                                     # libraries must outlive the functions found in them
_linker = None


def load(text, *symbols):
    """Addresses of the symbols of a module given as text."""
    global _linker
    image = jit.generate(text)                  # refuses calls to anything the runtime does not provide
    if _linker is None:
        _linker = llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(jit=True))
    builder = llvm.JITLibraryBuilder().add_object_img(image)
    for symbol in symbols:
        builder.export_symbol(symbol)
    library = builder.link(_linker, f'library{next(_names)}')
    _alive.append(library)
    return [library[symbol] for symbol in symbols]


NUMPY = {'float': np.float32, 'double': np.float64, 'i32': np.int32, 'i64': np.int64, 'i16': np.int16, 'i8': np.int8}


def pointwise(body, elem, width, arity=1, result=None):
    """A numpy function from a body of `arity` values: `width` elements at a time, the rest one by one."""
    module = Module()
    result = result or elem
    names = [('ptr', f'x{i}') for i in range(arity)] + [('ptr', 'y'), ('i64', 'count')]
    f = Fn(module, 'kernel', names)
    *xs, y, count = f.args
    whole = count - count % width

    def step(i, w):
        values = [f.load(f.at(x, i, elem), elem, w) for x in xs]
        f.store(body(f, *values), f.at(y, i, result))
    with f.loop(f.const(0), whole, width) as i:
        step(i, width)
    if width > 1:
        with f.loop(whole, count) as i:
            step(i, 1)
    address, = load(module.text(), 'kernel')
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(address)

    def call(*arrays):
        arrays = [np.ascontiguousarray(a, NUMPY[elem]) for a in np.broadcast_arrays(*arrays)]
        out = np.empty(arrays[0].shape, NUMPY[result])
        function(*[a.ctypes.data for a in arrays], out.ctypes.data, out.size)
        return out
    return call


def kernel(text, symbol):
    """A kernel of the runtime's ABI: call(pointers, ints, lo, hi, scratch_bytes, scalars)."""
    address, = load(text, symbol)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)(address)

    def call(pointers, ints, lo, hi, scratch_bytes=0, scalars=()):
        p = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        n = (ctypes.c_int64 * max(1, len(ints)))(*ints)
        s = (ctypes.c_double * max(2, 2 * len(scalars)))()
        for i, value in enumerate(scalars):
            s[2 * i] = value
        room = np.empty(scratch_bytes + 64, np.uint8)
        aligned = (room.ctypes.data + 63) // 64 * 64
        return function(ctypes.addressof(p), ctypes.addressof(n), ctypes.addressof(s), aligned, lo, hi)
    return call


__all__ = ['Fn', 'Module', 'Val', 'kernel', 'load', 'pointwise']
