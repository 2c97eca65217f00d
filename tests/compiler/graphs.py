"""Graphs written by hand, run through the backend alone: no operator definitions, no runtime.

    g = Graphs()
    x = g.input(array)
    [y] = g.run([x.exp() / x.exp().sum(1)])
"""
import numpy as np
import replay

from rushlight.compiler import backend, symbolic
from rushlight.compiler import graph as G

NAME = {np.dtype(t): name for name, t in replay.NUMPY.items()}


class Graphs:
    def __init__(self):
        self.program = symbolic.Program()
        self.graph = G.Graph(self.program)
        self.inputs, self.arrays, self.entries = [], [], []

    def input(self, a, dtype=None, aliases=()):
        """An argument. Strides that the layout class calls dense are written in terms of the sizes, as a request does."""
        number, steps = len(self.arrays), [s // a.itemsize for s in a.strides]
        shape = [self.program.entry('size', d, f'd{number}{i}') for i, d in enumerate(a.shape)]
        strides = [self.program.entry('stride', s, f's{number}{i}') for i, s in enumerate(steps)]
        self.entries += list(a.shape) + steps
        for i in reversed(range(a.ndim)):
            after = next((j for j in range(i + 1, a.ndim) if a.shape[j] != 1), None)
            if a.shape[i] == 1: strides[i] = 0
            elif after is not None and steps[i] == a.shape[after] * steps[after] and isinstance(strides[i], symbolic.SymInt):
                strides[i] = shape[after] * strides[after]
        node = self.graph.node('input', (), {'index': number}, shape, dtype or NAME[a.dtype])
        self.inputs.append(G.Input(node, strides, number, aliases))
        self.arrays.append(a)
        return Value(self, node)

    def const(self, v, dtype='f32'): return Value(self, self.graph.node('const', (), {'value': v}, (), dtype))
    def scalar(self, index, kind='f', dtype='f32'): return Value(self,
                                                                 self.graph.node('scalar', (), {'index': index, 'kind': kind}, (), dtype))
    def size(self, expr, dtype='f32'): return Value(self, self.graph.node('size', (), {'expr': expr}, (), dtype))
    def iota(self, size, dim, rank):
        return Value(self, self.graph.node('iota', (), {'dim': dim, 'size': size, 'rank': rank},
                                           tuple(size if i == dim else 1 for i in range(rank)), 'i64'))

    def op(self, name, *args, shape=None, dtype=None, **attrs):
        like = next(a for a in args if isinstance(a, Value))
        args = [a if isinstance(a, Value) else self.const(a, like.dtype) for a in args]
        if shape is None: shape = G.broadcast_shapes([a.shape for a in args])
        if dtype is None: dtype = 'b1' if name in ('eq', 'ne', 'lt', 'le') else args[-1].dtype
        return Value(self, self.graph.node(name, [a.node for a in args], attrs, shape, dtype))

    def recipe(self, values, dests=(), strides=None):
        """values[i] is written to dests[i] where there is one."""
        outputs = []
        for i, v in enumerate(values):
            to = i if i < len(dests) and dests[i] is not None else None
            given = strides[i] if strides else tuple(s // dests[i].itemsize for s in dests[i].strides) if to is not None else None
            outputs.append(G.Output(v.node, strides=given, dest=to))
        parts = backend.build(outputs, self.inputs, self.program)
        places, count = [], 0
        for o in outputs:
            if o.dest is None: places.append(('buffer', count)); count += 1
            else: places.append(('dest', o.dest))
        return self.program.finish({**parts, 'outputs': places, 'hidden': []})

    def run(self, values, scalars=(), dests=(), strides=None, threads=1, arrays=None):
        recipe = self.recipe(values, dests, strides)
        return self.replay(recipe, scalars, dests, threads, arrays)

    def replay(self, recipe, scalars=(), dests=(), threads=1, arrays=None):
        entries = list(self.entries)
        if arrays is not None:
            entries = []
            for a in arrays: entries += list(a.shape) + [s // a.itemsize for s in a.strides]
        results, _, _ = replay.run(recipe, entries, arrays or self.arrays, scalars, dests, threads)
        return results


class Value:
    def __init__(self, graphs, node): self.graphs, self.node = graphs, node
    shape = property(lambda self: self.node.shape)
    dtype = property(lambda self: self.node.dtype)

    def op(self, name, *args, **attrs): return self.graphs.op(name, self, *args, **attrs)
    def __add__(self, o): return self.op('add', o)
    def __sub__(self, o): return self.op('sub', o)
    def __mul__(self, o): return self.op('mul', o)
    def __truediv__(self, o): return self.op('div', o)
    def exp(self): return self.op('exp')
    def log(self): return self.op('log')
    def sqrt(self): return self.op('sqrt')
    def cast(self, dtype): return self if dtype == self.dtype else self.op('cast', dtype=dtype)

    def _kept(self, dims): return tuple(1 if i in dims else d for i, d in enumerate(self.shape))
    def reduce(self, kind, *dims): return self.op('reduce', kind=kind, dims=tuple(sorted(dims)), shape=self._kept(dims))
    def sum(self, *dims): return self.reduce('sum', *dims)
    def amax(self, *dims): return self.reduce('amax', *dims)
    def argreduce(self, kind, *dims): return self.op('argreduce', kind=kind, dims=tuple(sorted(dims)), shape=self._kept(dims), dtype='i64')
    def scan(self, kind, dim, reverse=False):
        return self.op('scan', kind=kind, dim=dim, reverse=reverse, dtype='i64' if kind.startswith('arg') else self.dtype)
    def reshape(self, *shape): return self.op('reshape', shape=shape)
    def permute(self, *dims): return self.op('permute', dims=dims, shape=tuple(self.shape[d] for d in dims))
    def expand(self, *shape): return self.op('expand', shape=shape)
    def flip(self, *dims): return self.op('flip', dims=dims, shape=self.shape)
    def slice(self, dim, start, length, step=1):
        return self.op('slice', dim=dim, start=start, step=step, shape=tuple(length if i == dim else d for i, d in enumerate(self.shape)))
