"""Where compiled things live: a read-only pack inside the package, and a content-addressed directory on disk.

    get(kind, key) -> bytes or None        kind: 'object' (machine code), 'recipe' ...; key: any string, or a hash
    put(kind, key, data)                    atomic; failures to write are harmless

An entry carries a checksum: a torn, truncated or foreign file is treated as absent and removed. Writers write a private file
and rename it, so readers never see half of one and two writers of one key leave either's (equal) content. The directory
(`RUSHLIGHT_CACHE_DIR`, else the user's cache directory) is bounded: when it grows past the bound the oldest entries go.
`RUSHLIGHT_CACHE_DIR=off` keeps everything in memory.

The pack is one file, `kernels-<tier>.pack` in the package: a table of (kind, key) -> (offset, length), then the data.
It is generated when the package is built, from what a list of common calls compiled (`write_pack`).
"""
import hashlib
import os
import struct
import zlib

MAGIC = b'RLC1'
PACK_MAGIC = b'RLPACK1\n'
BOUND = int(os.environ.get('RUSHLIGHT_CACHE_BYTES', 512 << 20))
_memory = {}
_packs = None
_written = 0
counters = {'memory': 0, 'pack': 0, 'disk': 0, 'miss': 0, 'corrupt': 0}


def directory():
    """The cache directory, or None when there is none to be had."""
    name = os.environ.get('RUSHLIGHT_CACHE_DIR')
    if name == 'off': return None
    if name: return name
    base = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(base, 'rushlight')


def entry_path(kind, key):
    root = directory()
    if root is None: return None
    name = hashlib.sha256(f'{kind}\0{key}'.encode()).hexdigest()[:40]
    return os.path.join(root, name[:2], name[2:])


def get(kind, key):
    found = _memory.get((kind, key))
    if found is not None:
        counters['memory'] += 1
        return found
    found = from_pack(kind, key)
    where = 'pack'
    if found is None: found, where = from_disk(kind, key), 'disk'
    if found is None:
        counters['miss'] += 1
        return None
    counters[where] += 1
    _memory[kind, key] = found
    return found


def put(kind, key, data):
    data = bytes(data)
    _memory[kind, key] = data
    path = entry_path(kind, key)
    if path is None: return
    stored = frame(kind, key, data)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        import tempfile  # seldom needed, and dear to import
        handle, private = tempfile.mkstemp(dir=os.path.dirname(path), prefix='.w')
        try:
            with os.fdopen(handle, 'wb') as f: f.write(stored)
            os.replace(private, path)
        except BaseException:
            try: os.unlink(private)
            except OSError: pass
            raise
    except OSError: return                       # a full or read-only disk costs time later, never correctness
    global _written
    _written += len(stored)
    if _written > BOUND // 16: trim()


def frame(kind, key, data):
    """A stored entry: its own name (against hash mistakes and moved files), lengths, checksum, compressed data."""
    name = f'{kind}\0{key}'.encode()
    packed = zlib.compress(data, 1)
    return MAGIC + struct.pack('<IIII', len(name), len(packed), len(data), zlib.crc32(name + packed)) + name + packed


def unframe(kind, key, raw):
    if len(raw) < 20 or raw[:4] != MAGIC: return None
    name_length, packed_length, length, checksum = struct.unpack_from('<IIII', raw, 4)
    name, packed = raw[20:20 + name_length], raw[20 + name_length:]
    if len(packed) != packed_length or zlib.crc32(name + packed) != checksum or name != f'{kind}\0{key}'.encode(): return None
    try: data = zlib.decompress(packed)
    except zlib.error: return None
    return data if len(data) == length else None


def from_disk(kind, key):
    path = entry_path(kind, key)
    if path is None: return None
    try:
        with open(path, 'rb') as f: raw = f.read()
    except OSError: return None
    data = unframe(kind, key, raw)
    if data is None:
        counters['corrupt'] += 1
        try: os.unlink(path)
        except OSError: pass
    return data


def entries():
    """(path, bytes, time of last change) of everything stored."""
    root = directory()
    if root is None: return
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try: info = os.stat(path)
            except OSError: continue
            yield path, info.st_size, info.st_mtime


def size():
    """(number of entries, bytes) on disk."""
    all_ = list(entries())
    return len(all_), sum(e[1] for e in all_)


def trim(bound=None):
    """Remove the oldest entries until the directory is within its bound."""
    global _written
    _written = 0
    bound = BOUND if bound is None else bound
    all_ = sorted(entries(), key=lambda e: e[2])
    total = sum(e[1] for e in all_)
    for path, length, _ in all_:
        if total <= bound: break
        try:
            os.unlink(path)
            total -= length
        except OSError: pass


def clear_memory(): _memory.clear()


# ------------------------------------------------------------------------------------------------------------ the pack
def packs():
    global _packs
    if _packs is None:
        _packs = []
        from . import jit
        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'pack', f'kernels-{jit.tier()}.pack')
        found = open_pack(path)
        if found: _packs.append(found)
    return _packs


def open_pack(path):
    """(path, table) or None. Only the table is read; entries are read when asked for."""
    try:
        with open(path, 'rb') as f:
            if f.read(8) != PACK_MAGIC: return None
            length, checksum = struct.unpack('<II', f.read(8))
            raw = f.read(length)
        if zlib.crc32(raw) != checksum: return None
        import json
        return path, json.loads(zlib.decompress(raw)), 16 + length
    except (OSError, ValueError, EOFError, struct.error, zlib.error): return None


def from_pack(kind, key):
    for path, table, start in packs():
        where = table.get(f'{kind}\0{key}')
        if where is None: continue
        try:
            with open(path, 'rb') as f:
                f.seek(start + where[0])
                data = unframe(kind, key, f.read(where[1]))
        except OSError: data = None
        if data is not None: return data
        counters['corrupt'] += 1
    return None


def write_pack(path, items, limit=8 << 20):
    """items: iterable of (kind, key, data). Entries beyond the limit are left out (they are compiled when needed)."""
    import json
    table, body, at = {}, [], 0
    for kind, key, data in items:
        stored = frame(kind, key, data)
        if at + len(stored) > limit: continue
        table[f'{kind}\0{key}'] = (at, len(stored))
        body.append(stored)
        at += len(stored)
    raw = zlib.compress(json.dumps(table).encode(), 6)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + '.new', 'wb') as f:
        f.write(PACK_MAGIC + struct.pack('<II', len(raw), zlib.crc32(raw)) + raw)
        for b in body: f.write(b)
    os.replace(path + '.new', path)
    return len(table), at
