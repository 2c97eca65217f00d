"""How the graph's types live in registers and in memory, and the conversions between them.

    dtype     register            memory
    b1        i1                  i8, 0 or 1
    f16 bf16  float               i16; a value in a register is always exactly representable: `cast` rounds, nothing else does
    f8e4m3 f8e5m2  float          i8; the same
    c32 c64 c128   a pair of float/float/double   two interleaved; the parts of c32 are f16
Conversions follow what torch does on x86: float to integer truncates, out of range and NaN give the smallest i32/i64, narrower types
take the low bits of that; to bool is "not zero" (NaN is true); f64 to half types goes through f32.
"""
REGISTER = {'b1': 'i1', 'u8': 'u8', 'i8': 'i8', 'i16': 'i16', 'u16': 'u16', 'i32': 'i32', 'u32': 'u32', 'i64': 'i64', 'u64': 'u64',
            'f8e4m3': 'float', 'f8e5m2': 'float', 'f16': 'float', 'bf16': 'float', 'f32': 'float', 'f64': 'double', 'c32': 'float', 'c64': 'float', 'c128': 'double'}
MEMORY = {**REGISTER, 'b1': 'i8', 'f8e4m3': 'i8', 'f8e5m2': 'i8', 'f16': 'i16', 'bf16': 'i16', 'c32': 'i16'}
PAIR = {'c32': 'f16', 'c64': 'f32', 'c128': 'f64'}
NARROW = ('f8e4m3', 'f8e5m2', 'f16', 'bf16')        # floats that registers hold as f32
FLOATS = (*NARROW, 'f32', 'f64')
BODY_TYPE = dict.fromkeys(NARROW, 'f32')            # what a primitive's body is told
# 8-bit floats: mantissa bits, exponent bias, the float whose last place is their smallest number, the code of what is too large
SMALL = {'f8e4m3': (3, 7, 2.0 ** 14, 0x7e), 'f8e5m2': (2, 15, 2.0 ** 7, 0x7c)}


def register(dtype):
    try: return REGISTER[dtype]
    except KeyError: raise NotImplementedError(f'kernels for dtype {dtype}') from None


def constant(f, value, dtype, width=1):
    if dtype in PAIR:
        value = complex(value)
        return tuple(constant(f, part, PAIR[dtype], width) for part in (value.real, value.imag))
    if isinstance(value, complex): value = value.real
    if dtype in NARROW: return round_half(f, f.const(value, 'float', width), dtype)
    if dtype not in FLOATS and dtype != 'b1': value = int(value)
    return f.const(value, register(dtype), width)


def splat(f, v, width):
    return tuple(f.splat(x, width) for x in v) if isinstance(v, tuple) else f.splat(v, width)


def select(f, c, a, b):
    if isinstance(a, tuple): return tuple(f.select(c, x, y) for x, y in zip(a, b))
    return f.select(c, a, b)


# ----------------------------------------------------------------------------------------------------------- conversions
def cast(f, v, source, target, from_double=False):
    if source == target: return v
    if source in PAIR:
        if target in PAIR: return tuple(cast(f, x, PAIR[source], PAIR[target]) for x in v)
        if target == 'b1': return v[0].ne(0.0) | v[1].ne(0.0)
        return cast(f, v[0], PAIR[source], target)
    if target in PAIR:
        re = cast(f, v, source, PAIR[target])
        return re, f.const(0.0, re.elem, re.width)
    if target == 'b1': return v.ne(0)
    to = register(target)
    if source in FLOATS:
        if target in FLOATS: return float_to_float(f, v, target, from_double)
        return float_to_integer(f, v, target)
    if target in FLOATS:
        how = 'uitofp' if source == 'b1' or source[0] == 'u' else 'sitofp'
        if target in NARROW: return round_half(f, f.convert(how, v, 'float'), target)
        return f.convert(how, v, to)
    a, b = (1 if t == 'b1' else int(t[1:]) for t in (source, target))
    if a == b: return f.bitcast(v, to)
    if a > b: return f.convert('trunc', v, to)
    return f.convert('zext' if source == 'b1' or source[0] == 'u' else 'sext', v, to)


def float_to_float(f, v, target, from_double=False):
    if target == 'f64': return v if v.elem == 'double' else f.convert('fpext', v, 'double')
    if v.elem == 'double': v, from_double = f.convert('fptrunc', v, 'float'), True
    return round_half(f, v, target, from_double) if target in NARROW else v


def float_to_integer(f, v, target):
    bits = int(target[1:])
    wide = 64 if bits == 64 or target == 'u32' else 32
    if target == 'u64':                                  # the upper half of the range, then the rest as signed
        big = v >= float(1 << 63)
        low = signed_integer(f, f.select(big, v - float(1 << 63), v), 64)
        return f.bitcast(f.select(big, low ^ (1 << 63), low), 'u64')
    if bits < wide: return f.convert('trunc', signed_integer(f, v, wide, low=True), register(target))
    return f.bitcast(signed_integer(f, v, wide), register(target))


def signed_integer(f, v, bits, low=False):
    """Truncate; what does not fit is the smallest integer. (LLVM leaves that undefined, so it is said here.) low: only lower bits are wanted, and those of the
    smallest integer are those of 0."""
    fits = f.call('fabs', v) < float(1 << (bits - 1))            # the smallest integer itself comes out right either way
    whole = f.convert('fptosi', f.select(fits, v, 0.0), f'i{bits}')
    return whole if low else f.select(fits, whole, -(1 << (bits - 1)))


def round_half(f, v, dtype, from_double=False):
    """f32 rounded to f16 or bf16 (nearest even) and held in f32. Every supported CPU converts f16 in hardware, but LLVM may fuse two
    roundings f64 -> f32 -> f16 into one, which is another number and a library call: after those, integer code."""
    if dtype in SMALL: return from_memory(f, to_memory(f, v, dtype), dtype)
    if dtype == 'f16' and from_double: return f.convert('fpext', f.bitcast(half_bits(f, v), 'half'), 'float')
    if dtype == 'f16': return f.convert('fpext', f.convert('fptrunc', v, 'half'), 'float')
    bits = f.bitcast(v, 'i32')
    rounded = (bits + ((bits.lshr(16) & 1) + 0x7fff)) & -65536
    return f.bitcast(f.select(v.eq(v), rounded, 0x7fc00000), 'float')


def half_bits(f, v):
    """The bits of f32 rounded to f16, by integers: shift and round the normal numbers, let a float addition align the subnormal ones."""
    bits = f.bitcast(v, 'i32')
    sign, size = bits.lshr(16) & 0x8000, bits & 0x7fffffff
    normal = (size + ((size.lshr(13) & 1) + (0xfff - (112 << 23)))).lshr(13)
    tiny = f.bitcast(f.bitcast(size, 'float') + 0.5, 'i32') - 0x3f000000
    out = f.select(size < (113 << 23), tiny, normal)
    out = f.select(size >= (143 << 23), f.select(size > 0x7f800000, f.const(0x7e00, 'i32', v.width), 0x7c00), out)
    return f.convert('trunc', out | sign, 'i16')


def small_bits(f, v, dtype):
    """The bits of f32 rounded to an 8-bit float (nearest even), as half_bits. e4m3 has no infinity: what is too large is its largest number."""
    mantissa, bias, unit, top = SMALL[dtype]
    shift, rebias = 23 - mantissa, (127 - bias) << 23
    bits = f.bitcast(v, 'i32')
    sign, size = bits.lshr(24) & 0x80, bits & 0x7fffffff
    normal = (size + ((size.lshr(shift) & 1) + ((1 << (shift - 1)) - 1 - rebias))).lshr(shift)
    tiny = f.bitcast(f.bitcast(size, 'float') + unit, 'i32') - f.bitcast(f.const(unit, 'float', v.width), 'i32')
    out = f.select(size < rebias + (1 << 23), tiny, normal)
    out = f.select((out > top) | (size >= 0x7f800000), f.const(top, 'i32', v.width), out)
    out = f.select(size > 0x7f800000, f.const(0x7f, 'i32', v.width), out)
    return f.convert('trunc', out | sign, 'i8')


def small_value(f, v, dtype):
    """An 8-bit float from its bits: as a (possibly denormal) float, moved to its exponent by an exact product."""
    mantissa, bias, _, _ = SMALL[dtype]
    bits = f.convert('zext', v, 'i32')
    size = bits & 0x7f
    value = f.bitcast(size << (23 - mantissa), 'float') * 2.0 ** (127 - bias)
    special = size > 0x7b if dtype == 'f8e5m2' else size.eq(0x7f)
    infinite = size.eq(0x7c) if dtype == 'f8e5m2' else None
    nan = f.const(float('nan'), 'float', v.width)
    value = f.select(special, f.select(infinite, float('inf'), nan) if infinite is not None else nan, value)
    return f.bitcast(f.bitcast(value, 'i32') | ((bits & 0x80) << 24), 'float')


def to_memory(f, v, dtype):
    if dtype in SMALL: return small_bits(f, v, dtype)
    if dtype == 'b1': return f.convert('zext', v, 'i8')
    if dtype == 'f16': return f.bitcast(f.convert('fptrunc', v, 'half'), 'i16')
    if dtype == 'bf16': return f.convert('trunc', f.bitcast(v, 'i32').lshr(16), 'i16')
    return v


def from_memory(f, v, dtype):
    if dtype in SMALL: return small_value(f, v, dtype)
    if dtype == 'b1': return v.ne(0)
    if dtype == 'f16': return f.convert('fpext', f.bitcast(v, 'half'), 'float')
    if dtype == 'bf16': return f.bitcast(f.convert('zext', v, 'i32') << 16, 'float')
    return v


def bitcast(f, v, source, target):
    """The same bits as another type of the same size."""
    return from_memory(f, f.bitcast(to_memory(f, v, source), MEMORY[target]), target)


# -------------------------------------------------------------------------------------------------------------- memory
def address(f, base, index, dtype):
    """The address of element `index` (a complex element is two of its parts)."""
    if dtype in PAIR: index = index + index if index.name != '0' else index
    return f.at(base, index, MEMORY[dtype])


LINE = 64             # bytes that memory is fetched by


def prefetch(f, p, count=1, level=1):
    """Calls for `count` bytes that will be wanted, into the cache of a level."""
    f.module.declares.add('declare void @llvm.prefetch.p0(ptr, i32, i32, i32)')
    for at in range(0, count, LINE): f.line(f'call void @llvm.prefetch.p0(ptr {f.at(p, f.const(at), "i8").name}, i32 0, i32 {4 - level}, i32 1)')


def load(f, p, dtype, width=1, mask=None):
    """`width` neighbouring elements from p on."""
    elem = MEMORY[dtype]
    if dtype not in PAIR: return from_memory(f, f.load(p, elem, width, mask), dtype)
    both = f.load(p, elem, 2 * width)
    return tuple(from_memory(f, f.shuffle(both, [2 * i + part for i in range(width)]), PAIR[dtype]) for part in (0, 1))


def store(f, v, p, dtype, mask=None):
    if dtype not in PAIR: return f.store(to_memory(f, v, dtype), p, mask)
    re, im = (to_memory(f, x, PAIR[dtype]) for x in v)
    width = re.width
    if width == 1:
        f.store(re, p); f.store(im, f.at(p, f.const(1), MEMORY[dtype]))
        return None
    return f.store(f.shuffle(re, [i // 2 + (i % 2) * width for i in range(2 * width)], im), p)


def store_some(f, v, p, dtype, count):
    """The first `count` lanes (or all of them): whole, or in pieces of half as many each. A masked store says it in one instruction, of which some machines make
    dozens of operations."""
    v = to_memory(f, v, dtype)
    def pieces():
        done, rest, width = f.const(0), v, v.width
        while width > 1:
            width //= 2
            here = (count & width).ne(0)
            low, high = f.shuffle(rest, range(width)), f.shuffle(rest, range(width, 2 * width))
            with f.when(here): f.store(low, f.at(p, done, v.elem))
            rest, done = f.select(here, high, low), done + (count & width)
    f.branch(count >= v.width, lambda: f.store(v, p), pieces)


def load_lanes(f, addresses, dtype):
    """One element from each address."""
    parts = [load(f, p, dtype) for p in addresses]
    if len(parts) == 1: return parts[0]
    def gather(values):
        out = f.poison(values[0].elem, len(values))
        for i, x in enumerate(values): out = f.insert(out, x, i)
        return out
    if dtype in PAIR: return tuple(gather([p[k] for p in parts]) for k in (0, 1))
    return gather(parts)


def store_lanes(f, v, addresses, dtype):
    for i, p in enumerate(addresses):
        store(f, tuple(f.extract(x, i) for x in v) if isinstance(v, tuple) else f.extract(v, i), p, dtype)
