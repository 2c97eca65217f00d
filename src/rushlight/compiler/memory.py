"""Memory: where results live, which temporaries share a buffer, and what may alias.

A result bound to a destination (in-place, out=) is written straight there when nothing reads an aliased input after, or at another index
than, the write; otherwise it is computed in a temporary and copied at the end.
"""
from .graph import itemsize
from .loops import Buffer, Memory, is_zero
from .symbolic import contiguous_strides, key, known_equal, product


def elements(shape): return product(shape)


class Allocator:
    """Gives every stored node its memory. outputs: {node: Output}; everything else is a temporary."""

    def __init__(self, program, outputs, layouts):
        # layouts: node -> (shape, strides, elements) for special layouts
        self.program, self.outputs, self.layouts = program, outputs, layouts
        self.result_buffers = {}

    def __call__(self, node):
        out = self.outputs.get(node)
        if out is not None:
            strides = tuple(out.strides) if out.strides is not None else contiguous_strides(node.shape)
            if out.dest is not None: return Memory(('dest', out.dest), node.dtype, node.shape, strides)
            if node not in self.result_buffers:
                self.result_buffers[node] = Buffer(out.kind, node.dtype, node.shape, strides, elements(node.shape) if out.room is None else out.room)
            return Memory(('buffer', self.result_buffers[node]), node.dtype, node.shape, strides)
        special = self.layouts(node)
        shape, strides, count = special if special else (node.shape, contiguous_strides(node.shape), elements(node.shape))
        return Memory(('buffer', Buffer('temporary', node.dtype, shape, strides, count)), node.dtype, shape, strides)


def same_place(load, store):
    """Does a load read exactly the elements that the store of the same iteration writes?"""
    a, b = load.attrs['strides'], store.strides
    axes = set(a) | set(b)
    return not load.args and known_equal(load.attrs['offset'], store.offset) and all(known_equal(a.get(x, 0), b.get(x, 0)) for x in axes)


def hazard(steps, may_alias):
    """The first (store, why) that writes to a destination too early, or None. may_alias(place of an input, dest number)."""
    written = []                                     # destinations written by earlier steps
    for step in steps:
        reads = step.reads()
        for e in reads:
            place = e.attrs['memory'].place if hasattr(e, 'attrs') else e.place
            for dest, store in written:
                if may_alias(place, dest): return store, 'a later step reads an input that may be the same memory'
        for store in step.writes():
            if store.memory.place[0] != 'dest': continue
            dest = store.memory.place[1]
            for e in reads:
                memory = e.attrs['memory'] if hasattr(e, 'attrs') else e
                if not may_alias(memory.place, dest): continue
                if not hasattr(e, 'attrs') or e.op != 'load' or not same_place(e,
                        store): return store, 'an input that may be the same memory is read at another index'
                if not step.single_pass(): return store, 'the row is read again after it is written'
        for store in step.writes():
            if store.memory.place[0] == 'dest': written.append((store.memory.place[1], store))
    return None


def share_temporaries(steps):
    """Give buffers of equal size to temporaries whose lives do not overlap. Returns the buffers to allocate, in order of first use."""
    first, last, order = {}, {}, []
    for i, step in enumerate(steps):
        for b in step.buffers():
            if b.kind != 'temporary': continue
            if b not in first: first[b] = i; order.append(b)
            last[b] = i
    kept = []
    for b in order:
        size = key(b.elements * itemsize(b.dtype))
        host = next((h for h in kept if h.free_after < first[b] and h.size_key == size), None) if not is_zero(b.elements) else None
        if host is None:
            kept.append(Room(b, size, last[b]))
            b.shared = kept[-1]
        else:
            host.free_after = last[b]
            b.shared = host
    return kept


class Room:
    """One allocation that one temporary after another lives in."""
    def __init__(self, buffer, size_key, free_after):
        self.buffer, self.size_key, self.free_after, self.number = buffer, size_key, free_after, None
