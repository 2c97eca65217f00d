"""Sequences of different lengths in one batch: padded to the longest, or packed without padding."""
from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import rushlight as rl
from rushlight import Tensor

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence", "unpad_sequence", "pack_sequence",
           "unpack_sequence"]


class PackedSequence_(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def bind(optional, fn):
    return None if optional is None else fn(optional)


class PackedSequence(PackedSequence_):
    """The steps of a batch of sequences, the longest first, one after the other: `batch_sizes[t]` of them at step t. Made by `pack_padded_sequence`."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        return super().__new__(cls, *_packed_parts(data, batch_sizes, sorted_indices, unsorted_indices))

    def to(self, *args, **kwargs) -> PackedSequence:
        """The data in another dtype or on another device; the indices follow the device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        device = data.device
        return type(self)(data, self.batch_sizes, bind(self.sorted_indices, lambda t: t.to(device)), bind(self.unsorted_indices, lambda t: t.to(device)))

    def cuda(self, *args, **kwargs): return self.to(device="cuda")
    def cpu(self, *args, **kwargs): return self.to(device="cpu")
    def double(self): return self.to(dtype=rl.float64)
    def float(self): return self.to(dtype=rl.float32)
    def half(self): return self.to(dtype=rl.float16)
    def long(self): return self.to(dtype=rl.int64)
    def int(self): return self.to(dtype=rl.int32)
    def short(self): return self.to(dtype=rl.int16)
    def char(self): return self.to(dtype=rl.int8)
    def byte(self): return self.to(dtype=rl.uint8)
    def is_pinned(self) -> bool: return self.data.is_pinned()
    def pin_memory(self) -> PackedSequence: return type(self)(self.data.pin_memory(), self.batch_sizes, self.sorted_indices, self.unsorted_indices)
    @property
    def is_cuda(self) -> bool: return False


def _packed_parts(data, batch_sizes, sorted_indices, unsorted_indices) -> tuple:
    if unsorted_indices is None:
        unsorted_indices = invert_permutation(sorted_indices)
    if batch_sizes is None:                          # the pair as one argument
        if not isinstance(data, (list, tuple)) or len(data) != 2:
            raise AssertionError("Expected data to be a list or tuple of length 2")
        data, batch_sizes = data
    elif batch_sizes.device.type != "cpu":
        raise ValueError("batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They should be "
                         "instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                         "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence")
    return data, batch_sizes, sorted_indices, unsorted_indices


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each element of a permutation went."""
    if permutation is None:
        return None
    out = rl.empty_like(permutation, memory_format=rl.contiguous_format)
    return out.scatter_(0, permutation, rl.arange(permutation.numel(), device=permutation.device))


def pack_padded_sequence(input: Tensor, lengths, batch_first: bool = False, enforce_sorted: bool = True) -> PackedSequence:
    """Pack a padded batch. `lengths` must fall unless `enforce_sorted=False`, which sorts and remembers the order."""
    lengths = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    order = None
    if not enforce_sorted:
        order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        lengths = [lengths[i] for i in order]
        input = input.index_select(0 if batch_first else 1, rl.tensor(order))
    if batch_first:
        input = input.transpose(0, 1)
    batch = input.shape[1]
    if len(lengths) != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})")
    if any(n <= 0 for n in lengths):
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if any(a < b for a, b in zip(lengths, lengths[1:])):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
                           "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.")
    longest = min(lengths[0], input.shape[0])
    sizes = [sum(n > t for n in lengths) for t in range(longest)]
    data = rl.cat([input[t, :size] for t, size in enumerate(sizes)])
    return PackedSequence(data, rl.tensor(sizes, dtype=rl.int64), None if order is None else rl.tensor(order), None)


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """(the padded batch, the lengths): what `pack_padded_sequence` took."""
    sizes = sequence.batch_sizes.tolist()
    longest = len(sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                             f"total_length={total_length} and max sequence length being {longest}")
        longest = total_length
    data, batch = sequence.data, sizes[0]
    rows, start = [], 0
    for size in sizes:
        row = data[start:start + size]
        start += size
        if size < batch:
            row = rl.cat([row, row.new_full((batch - size, *row.shape[1:]), padding_value)])
        rows.append(row)
    rows += [data.new_full((batch, *data.shape[1:]), padding_value)] * (longest - len(sizes))
    padded = rl.stack(rows, 1 if batch_first else 0)
    lengths = rl.tensor([sum(size > i for size in sizes) for i in range(batch)], dtype=rl.int64)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return padded, lengths


def pad_sequence(sequences, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right") -> Tensor:
    """Sequences (length, *) of different lengths, padded and stacked."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = tuple(sequences) if not isinstance(sequences, Tensor) else sequences.unbind(0)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(s.shape[0] for s in sequences)
    rows = []
    for s in sequences:
        missing = longest - s.shape[0]
        padding = s.new_full((missing, *s.shape[1:]), padding_value)
        rows.append(s if not missing else rl.cat([s, padding] if padding_side == "right" else [padding, s]))
    return rl.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each with its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[:int(length)] for sequence, length in zip(padded_sequences, lengths.tolist())]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences (length, *)."""
    lengths = rl.tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
