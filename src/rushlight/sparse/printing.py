"""How a sparse tensor prints: its parts, then what it is."""
from __future__ import annotations

from .._C import bool as bool_
from .._C import int64
from .._tensor_str import _content, _default_dtypes, _history, _with_suffixes
from .pattern import COO, INDICES

_START = "tensor("
_INDENT = " " * len(_START)


def text(s) -> str:
    parts = [_part(name, tensor) for name, tensor in zip((*INDICES[s.layout], "values"), (*s._pattern.indices, s._stored))]
    suffixes = [f"size={tuple(s.shape)}", f"nnz={s._pattern.nnz}"]
    if s.dtype not in (*_default_dtypes(), int64, bool_): suffixes.append(f"dtype={s.dtype}")
    suffixes += [f"layout={s.layout}", *_history(s)]
    return _with_suffixes(_START + (",\n" + _INDENT).join(parts), suffixes, len(_START), new_line=s.layout is COO)


def _part(name: str, tensor) -> str:
    """`name=tensor(…)` without the dtype, its lines under the first bracket."""
    head = f"{name}=tensor("
    return head + ("[], size=" + str(tuple(tensor.shape)) if tensor.numel() == 0 else _content(tensor, len(_INDENT) + len(head))) + ")"
