"""Messages between a loader and its workers: pickled objects over a socket, with the memory of their tensors passed as file descriptors.

A tensor's storage is shared memory (moved there if it is not yet); what travels is its descriptor, in the same message. Nothing is copied, and
nothing is left behind when a process dies. Batches are made in memory that comes back when the loop is done with them (`Lender`). A message is a header (length of the pickle, number of descriptors), the pickle, the descriptors.
"""
from __future__ import annotations

import array
import io
import os
import pickle
import socket
import struct
from multiprocessing.reduction import ForkingPickler

from ... import _C
from ...multiprocessing import reductions

HEADER = struct.Struct("<QI")
AT_ONCE = 200                    # descriptors in one packet: systems take about 250


class Closed(EOFError):
    """The other end is gone."""


class _Pickler(ForkingPickler):
    """Storages become places in a list of descriptors."""

    def __init__(self, file):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.storages: list = []         # kept until they are sent
        self.handles: list[int] = []
        self.places: list[tuple] = []    # what the message says of each: its number, bytes, and whether it is lent

    def persistent_id(self, value):
        if not isinstance(value, _C.UntypedStorage) or value.device.type != "cpu": return None
        for i, known in enumerate(self.storages):
            if known is value: return self.places[i]
        fd, nbytes, lent = _C._lend(value)
        self.places.append((len(self.storages), nbytes, lent))
        self.storages.append(value)
        self.handles.append(fd)
        return self.places[-1]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, handles):
        super().__init__(file)
        self.handles, self.storages = handles, {}

    def persistent_load(self, place):
        i, nbytes, lent = place
        if i not in self.storages:
            fd, self.handles[i] = self.handles[i], -1
            self.storages[i] = _C._storage_from_fd(fd, nbytes, lent)
        return self.storages[i]


class Channel:
    """One end of a connection. Objects come out in the order in which they were sent."""

    def __init__(self, connection):
        self.connection = connection                                       # keeps the descriptor; picklable for spawn
        self._socket = None

    @property
    def socket(self):
        if self._socket is None: self._socket = socket.socket(fileno=os.dup(self.connection.fileno()))
        return self._socket

    def __getstate__(self): return self.connection
    def __setstate__(self, connection): self.connection, self._socket = connection, None
    def fileno(self): return self.connection.fileno()

    def close(self):
        if self._socket is not None: self._socket.close()
        self.connection.close()

    def send(self, value):
        file = io.BytesIO()
        pickler = _Pickler(file)
        pickler.dump(value)
        data, handles = file.getbuffer(), pickler.handles
        try:
            self.socket.sendall(HEADER.pack(len(data), len(handles)))
            for at in range(0, len(handles), AT_ONCE):
                part = array.array("i", handles[at:at + AT_ONCE])
                self.socket.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, part)])
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error: raise Closed("the other process is gone") from error

    def receive(self):
        length, count = HEADER.unpack(self._exactly(HEADER.size))
        handles: list[int] = []
        try:
            while len(handles) < count: handles += self._handles(count - len(handles))
            return _Unpickler(io.BytesIO(self._exactly(length)), handles).load()
        finally:
            for fd in handles:
                if fd >= 0: os.close(fd)

    def _handles(self, wanted):
        room = min(wanted, AT_ONCE)
        data, extra, flags, _ = self.socket.recvmsg(1, socket.CMSG_SPACE(room * 4))
        if not data: raise Closed("the other process is gone")
        found = array.array("i")
        for level, kind, part in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS: found.frombytes(part[:len(part) - len(part) % 4])
        if flags & socket.MSG_CTRUNC or len(found) < room:       # the system dropped what this process has no room for: waiting for it would never end
            for fd in found: os.close(fd)
            raise RuntimeError(f"Too many open files: of {room} tensors in shared memory only {len(found)} could be received. Raise the limit (ulimit -n), hold fewer batches, "
                               "or send fewer tensors in one batch")
        return found.tolist()

    def _exactly(self, count):
        room, at = bytearray(count), 0
        view = memoryview(room)
        while at < count:
            try: got = self.socket.recv_into(view[at:])
            except ConnectionResetError as error: raise Closed("the other process is gone") from error
            if not got: raise Closed("the other process is gone")
            at += got
        return room


class Lender:
    """Shared memory for the batches of a worker. What was sent comes back when the receiver's tensors are gone (csrc/shared.cpp), and is written to again: pages
    that exist already are several times cheaper than fresh ones."""

    SIZES, EACH = 8, 8                   # how many sizes, and how many pieces of each, are remembered; the rest is let go when it was sent

    def __init__(self): self.pieces: dict[int, list] = {}

    def storage(self, nbytes):
        pieces = self.pieces.pop(nbytes, [])
        self.pieces[nbytes] = pieces                                       # the latest size last
        found = _C._take_back(pieces)
        if found is not None: return found
        found = _C._new_shared_storage(nbytes, True)
        pieces.append(found)
        if len(pieces) > self.EACH: del pieces[0]
        if len(self.pieces) > self.SIZES: del self.pieces[next(iter(self.pieces))]
        return found


def shared_empty(shape, dtype, lender=None):
    """A tensor in shared memory: fresh, or a lender's."""
    count = 1
    for s in shape: count *= s
    strides, step = [], 1
    for s in reversed(shape):
        strides.append(step)
        step *= max(s, 1)
    nbytes = count * dtype.itemsize
    storage = _C._new_shared_storage(nbytes) if lender is None or not nbytes else lender.storage(nbytes)
    return _C.tensor_over(storage, dtype, 0, tuple(shape), tuple(reversed(strides)))


__all__ = ["Channel", "Closed", "Lender", "shared_empty", "reductions"]
