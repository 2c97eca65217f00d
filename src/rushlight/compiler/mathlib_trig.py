"""Circular functions and their inverses: bodies in IR for float and double, any width. Kinds as in mathlib_exp.py.

Arguments are reduced by pi/2 in three fused steps up to a limit; the few beyond it (and infinities) go lane by lane to a scalar
function that multiplies by enough bits of 2/pi in integers (Payne and Hanek), so sin(1e300) is as right as sin(1).
"""
from rushlight.compiler import mathlib_tables as tables
from rushlight.compiler.emit.ir import Val, Var
from rushlight.compiler.mathlib_exp import (
    INT,
    KIND,
    MANTISSA,
    NAN,
    ROUND,
    absolute,
    any_lane,
    bits,
    const,
    from_bits,
    integer,
    negate,
    polynomial,
)

PI_2 = {'float': (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        'double': (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)}
REDUCE_LIMIT = {'float': 2.0**15, 'double': 2.0**30}
TWO_OVER_PI = 0.6366197723675814
SIGN = {'float': -2**31, 'double': -2**63}


class Verbatim:
    """A function given as text, standing in a module's list beside the built ones."""

    def __init__(self, name, text):
        self.name, self._text = name, text

    def text(self):
        return self._text


def big_reduction(module):
    """Make sure the module has the scalar reduction `void (double x, ptr out)`: out[0] + out[1] = x - q pi/2, out[2] = q mod 4 (as i64)."""
    name = 'rl_reduce_pi_2'
    if not any(getattr(g, 'name', None) == name for g in module.functions):
        words = ', '.join(f'i64 {w - 2**64 if w >= 2**63 else w}' for w in tables.TWO_OVER_PI)
        size = len(tables.TWO_OVER_PI)
        module.functions.append(Verbatim(name, BIG_REDUCTION.format(name=name, words=words, size=size)))
        for t in ('i64 @llvm.fshl.i64(i64, i64, i64)', 'i128 @llvm.ctlz.i128(i128, i1)', 'double @llvm.copysign.f64(double, double)'):
            module.declares.add('declare ' + t)
    return name


# With x = m 2^e (m an integer of 53 bits), only the bits of 2/pi with weights from 2^(1-e) down matter modulo 4: 192 of them, in three
# words, give x * 2/pi modulo 4 as a 128-bit fixed-point number with 126 bits after the point. Rounded off to the nearest integer q,
# the rest is normalised and multiplied by pi/2 in two doubles.
BIG_REDUCTION = '''
@{name}_bits = internal constant [{size} x i64] [{words}]
define internal void @{name}(double %x, ptr %out) nounwind {{
entry:
  %b = bitcast double %x to i64
  %eb0 = lshr i64 %b, 52
  %eb = and i64 %eb0, 2047
  %special = icmp eq i64 %eb, 2047
  br i1 %special, label %invalid, label %finite
invalid:
  store double 0x7FF8000000000000, ptr %out
  %i1 = getelementptr double, ptr %out, i64 1
  store double 0.0, ptr %i1
  %i2 = getelementptr i64, ptr %out, i64 2
  store i64 0, ptr %i2
  ret void
finite:
  %m0 = and i64 %b, 4503599627370495
  %m = or i64 %m0, 4503599627370496
  %e = sub i64 %eb, 1075
  %first = add i64 %e, 62
  %w = lshr i64 %first, 6
  %sh = and i64 %first, 63
  %p0 = getelementptr i64, ptr @{name}_bits, i64 %w
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %t0 = load i64, ptr %p0
  %t1 = load i64, ptr %p1
  %t2 = load i64, ptr %p2
  %t3 = load i64, ptr %p3
  %w0 = call i64 @llvm.fshl.i64(i64 %t0, i64 %t1, i64 %sh)
  %w1 = call i64 @llvm.fshl.i64(i64 %t1, i64 %t2, i64 %sh)
  %w2 = call i64 @llvm.fshl.i64(i64 %t2, i64 %t3, i64 %sh)
  %a0 = mul i64 %m, %w0
  %a1 = zext i64 %a0 to i128
  %a = shl i128 %a1, 64
  %mw = zext i64 %m to i128
  %w1w = zext i64 %w1 to i128
  %w2w = zext i64 %w2 to i128
  %bb = mul i128 %mw, %w1w
  %c0 = mul i128 %mw, %w2w
  %c = lshr i128 %c0, 64
  %s0 = add i128 %a, %bb
  %sum = add i128 %s0, %c
  %half = shl i128 1, 125
  %up = add i128 %sum, %half
  %q0 = lshr i128 %up, 126
  %q1 = trunc i128 %q0 to i64
  %q2 = shl i128 %q0, 126
  %frac = sub i128 %sum, %q2
  %neg = icmp slt i128 %frac, 0
  %nfrac = sub i128 0, %frac
  %mag = select i1 %neg, i128 %nfrac, i128 %frac
  %lz = call i128 @llvm.ctlz.i128(i128 %mag, i1 false)
  %norm = shl i128 %mag, %lz
  %top0 = lshr i128 %norm, 75
  %top = trunc i128 %top0 to i64
  %low0 = lshr i128 %norm, 22
  %low1 = trunc i128 %low0 to i64
  %low = and i64 %low1, 9007199254740991
  %htop = sitofp i64 %top to double
  %hlow0 = sitofp i64 %low to double
  %hlow = fmul double %hlow0, 0x3CA0000000000000
  %lz64 = trunc i128 %lz to i64
  %ex = sub i64 972, %lz64
  %exb = shl i64 %ex, 52
  %sc = bitcast i64 %exb to double
  %h = fmul double %htop, %sc
  %l = fmul double %hlow, %sc
  %r0 = fmul double %h, 0x3FF921FB54442D18
  %nr0 = fneg double %r0
  %rl0 = call double @llvm.fma.f64(double %h, double 0x3FF921FB54442D18, double %nr0)
  %rl1 = call double @llvm.fma.f64(double %h, double 0x3C91A62633145C07, double %rl0)
  %rl = call double @llvm.fma.f64(double %l, double 0x3FF921FB54442D18, double %rl1)
  %r = fadd double %r0, %rl
  %d = fsub double %r0, %r
  %rlow = fadd double %d, %rl
  %xneg = icmp slt i64 %b, 0
  %flip = xor i1 %neg, %xneg
  %nr = fneg double %r
  %nrl = fneg double %rlow
  %rs = select i1 %flip, double %nr, double %r
  %rls = select i1 %flip, double %nrl, double %rlow
  %nq = sub i64 0, %q1
  %qs0 = select i1 %xneg, i64 %nq, i64 %q1
  %qs = and i64 %qs0, 3
  store double %rs, ptr %out
  %o1 = getelementptr double, ptr %out, i64 1
  store double %rls, ptr %o1
  %o2 = getelementptr i64, ptr %out, i64 2
  store i64 %qs, ptr %o2
  ret void
}}
'''


def reduce(f, x):
    """x = r + low + q pi/2, |r| <= pi/4: r, low (None for float) and an integer whose two low bits are q's."""
    c1, c2, c3 = PI_2[x.elem]
    t = f.fma(x, TWO_OVER_PI, ROUND[x.elem])
    n = t - ROUND[x.elem]
    r1 = f.fma(n, -c1, x)                                # exact
    r = f.fma(n, -c2, r1)
    if x.elem == 'float':
        r, low = f.fma(n, -c3, r), None
    else:
        low = f.fma(n, -c3, f.fma(n, -c2, r1 - r))
    large = absolute(f, x).compare('', 'uge', REDUCE_LIMIT[x.elem])
    r, q = Var(f, r), Var(f, bits(f, t))
    low = low and Var(f, low)
    with f.when(any_lane(f, large)):
        reduce_lanes(f, x, large, r, low, q)
    return r.get(), low and low.get(), q.get()


def reduce_lanes(f, x, large, r, low, q):
    """The rare path: each large lane by itself, through memory."""
    name = big_reduction(f.module)
    f.module.declares.add('declare double @llvm.fma.f64(double, double, double)')
    f.module.declares.add('declare i64 @llvm.fshl.i64(i64, i64, i64)')
    slots = {}
    for key, elem in (('x', x.elem), ('r', x.elem), ('low', x.elem), ('q', INT[x.elem])):
        slots[key] = f.fresh()
        f.allocas.append(f'  {slots[key]} = alloca [{x.width} x {elem}]')
    out = f.fresh()
    f.allocas.append(f'  {out} = alloca [3 x i64]')
    slots = {key: Val(f, slot, 'ptr') for key, slot in slots.items()}
    f.store(x, slots['x'])
    f.store(r.get(), slots['r'])
    f.store(q.get(), slots['q'])
    if low:
        f.store(low.get(), slots['low'])
    with f.loop(f.const(0), f.const(x.width)) as i:
        one = f.load(f.at(slots['x'], i, x.elem), x.elem)
        with f.when(absolute(f, one).compare('', 'uge', REDUCE_LIMIT[x.elem])):
            wide = one if x.elem == 'double' else f.convert('fpext', one, 'double')
            f.line(f'call void @{name}(double {wide.name}, ptr {out})')
            parts = [f.load(f.at(Val(f, out, 'ptr'), f.const(k), 'double'), 'double') for k in range(2)]
            quadrant = f.load(f.at(Val(f, out, 'ptr'), f.const(2), 'i64'), 'i64')
            if x.elem == 'float':
                parts = [f.convert('fptrunc', parts[0], 'float')]
                quadrant = f.convert('trunc', quadrant, 'i32')
            else:
                f.store(parts[1], f.at(slots['low'], i, 'double'))
            f.store(parts[0], f.at(slots['r'], i, x.elem))
            f.store(quadrant, f.at(slots['q'], i, INT[x.elem]))
    r.set(f.load(slots['r'], x.elem, x.width))
    q.set(f.load(slots['q'], INT[x.elem], x.width))
    if low:
        low.set(f.load(slots['low'], x.elem, x.width))


def sine(f, r, low, kind):
    """sin(r + low) for |r| <= pi/4."""
    s = r * r
    p = polynomial(f, s, tables.SIN[kind], kind)
    if low is None:
        return f.fma(r * s, p, r)
    return r + f.fma(r * s, p, f.fma(s * -0.5, low, low))


def cosine(f, r, low, kind):
    s = r * r
    p = polynomial(f, s, tables.COS[kind], kind)
    if low is None:
        return f.fma(s * s, p, f.fma(s, -0.5, 1.0))
    h = s * 0.5
    w = 1.0 - h
    return w + (((1.0 - w) - h) + f.fma(s * s, p, negate(f, r * low)))


def choose(f, q, odd, even):
    one = f.emit(f'and {q.type} {q.name}, {f.const(1, q.elem, q.width).name}', q.elem, q.width)
    return f.select(one.ne(0), odd, even)


def flip_sign(f, y, q):
    """Negate y where bit 1 of q is set."""
    sign = (q & 2) << (MANTISSA[y.elem] + {'float': 7, 'double': 10}[y.elem])
    b = bits(f, y)
    return from_bits(f, f.emit(f'xor {b.type} {b.name}, {sign.name}', b.elem, b.width), y.elem)


def sin(f, x, kind=None):
    kind = kind or KIND[x.elem]
    r, low, q = reduce(f, x)
    y = flip_sign(f, choose(f, q, cosine(f, r, low, kind), sine(f, r, low, kind)), q)
    return f.select(absolute(f, x) < 2.0**-27, x, y)             # -0


def cos(f, x, kind=None):
    kind = kind or KIND[x.elem]
    r, low, q = reduce(f, x)
    return flip_sign(f, choose(f, q, sine(f, r, low, kind), cosine(f, r, low, kind)), q + integer(f, x, 1))


def tan(f, x, kind=None):
    kind = kind or KIND[x.elem]
    r, low, q = reduce(f, x)
    s, c = sine(f, r, low, kind), cosine(f, r, low, kind)
    y = choose(f, q, negate(f, c), s) / choose(f, q, s, c)
    return f.select(absolute(f, x) < 2.0**-27, x, y)


# --------------------------------------------------------------------------------------------------------- inverses
PI_D = (3.141592653589793, 1.2246467991473532e-16)
PI_2D = (1.5707963267948966, 6.123233995736766e-17)
PI_4D = (0.7853981633974483, 3.061616997868383e-17)


def arc_parts(f, x, kind):
    """For |x| <= 1/2: x and asin(x) - x. Beyond: s and asin(s) - s with s = sqrt((1 - |x|)/2), so that asin|x| = pi/2 - 2 asin(s)."""
    a = absolute(f, x)
    big = a > 0.5
    z = f.select(big, (1.0 - a) * 0.5, x * x)
    root = f.call('sqrt', z)
    s = f.select(big, root, x)
    tail = polynomial(f, z, tables.ASIN[kind], kind) * z * s
    if kind == 'f64':                                            # the square root's own rounding
        lost = f.fma(negate(f, root), root, z) / (root + root)
        tail = tail + f.select(big, f.select(root.eq(0.0), 0.0, lost), 0.0)
    return big, s, tail


def asin(f, x, kind=None):
    big, s, tail = arc_parts(f, x, kind or KIND[x.elem])
    high, low = PI_2D
    # the large result is at least pi/6: pi/2 - 2s is split so that the big parts cancel exactly
    d = f.fma(s, -2.0, high)
    lost = (high - d) - s * 2.0
    y = f.call('copysign', d + (lost + f.fma(tail, -2.0, low)), x)
    small = f.select(absolute(f, x) < 2.0**-28, x, s + tail)
    return f.select(big, y, small)


def acos(f, x, kind=None):
    big, s, tail = arc_parts(f, x, kind or KIND[x.elem])
    near_one = (s + tail) * 2.0
    high, low = PI_D
    d = f.fma(s, -2.0, high)
    near_minus_one = d + (((high - d) - s * 2.0) + f.fma(tail, -2.0, low))
    high, low = PI_2D
    d = high - s
    middle = d + (((high - d) - s) + (low - tail))
    return f.select(big, f.select(x > 0.0, near_one, near_minus_one), middle)


def atan_ratio(f, y, x, kind):
    """atan(y / x) for 0 <= y, 0 <= x, not both 0 or both infinite: value high and low parts before quadrants."""
    steep = y > x
    num, den = f.select(steep, x, y), f.select(steep, y, x)      # num <= den
    middle = num > den * 0.41421356237309503
    base = f.select(middle, PI_4D[0], const(f, y, 0.0))
    base_low = f.select(middle, PI_4D[1], const(f, y, 0.0))
    top, bottom = f.select(middle, num - den, num), f.select(middle, num + den, den)
    t = top / bottom
    s = t * t
    tail = polynomial(f, s, tables.ATAN[kind], kind) * s * t
    if kind == 'f64':                                            # the quotient's rounding; exact for finite, not tiny, operands
        lost = f.fma(negate(f, t), bottom, top) / bottom
        usable = absolute(f, top).compare('', 'oge', 1e-270)
        tail = tail + f.select(usable, lost, 0.0)
    if kind == 'mid':
        h = base + (t + tail)
        return f.select(steep, PI_2D[0] - h, h), const(f, y, 0.0)
    h = base + t
    low = (base - h) + t + (tail + base_low)
    # where the ratio was turned over: pi/2 - (h + low)
    turned = PI_2D[0] - h
    turned_low = (PI_2D[0] - turned) - h + (PI_2D[1] - low)
    return f.select(steep, turned, h), f.select(steep, turned_low, low)


def atan(f, x, kind=None):
    kind = kind or KIND[x.elem]
    a = absolute(f, x)
    far = a > 1e30
    h, low = atan_ratio(f, f.select(far, 1e30, a), const(f, x, 1.0), kind)
    y = f.select(a < 2.0**-28, a, h + low)
    return f.call('copysign', f.select(x.eq(x), y, x), x)


def atan2(f, y, x, kind=None):
    kind = kind or KIND[x.elem]
    ax, ay = absolute(f, x), absolute(f, y)
    inf = float('inf')
    # Both infinite: as (1, 1). Both zero: as (0, 1). Near the ends of the range: scaled, so that neither sums nor quotients leave it.
    x_inf, y_inf = ax.eq(inf), ay.eq(inf)
    both_inf, one_inf = x_inf & y_inf, x_inf | y_inf
    u, v = ax, ay
    if kind == 'f64':
        huge = f.select(ax > 1e300, f.const(1, 'i1', x.width), ay > 1e300)
        u, v = f.select(huge, ax * 2.0**-60, ax), f.select(huge, ay * 2.0**-60, ay)
        small = f.select(u < 1e-250, v < 1e-250, f.const(0, 'i1', x.width))
        u, v = f.select(small, u * 2.0**200, u), f.select(small, v * 2.0**200, v)
    u = f.select(one_inf, f.select(x_inf, 1.0, const(f, x, 0.0)), u)
    v = f.select(one_inf, f.select(y_inf, 1.0, const(f, x, 0.0)), v)
    u = f.select(both_inf, 1.0, u)
    v = f.select(both_inf, 1.0, v)
    u = f.select(f.select(u.eq(0.0), v.eq(0.0), f.const(0, 'i1', x.width)), 1.0, u)
    h, low = atan_ratio(f, v, u, kind)
    negative = bits(f, x) < 0                                    # -0 counts
    d = PI_D[0] - h
    back = d + (((PI_D[0] - d) - h) + (PI_D[1] - low))
    r = f.call('copysign', f.select(negative, back, h + low), y)
    return f.select(x.eq(x), f.select(y.eq(y), r, NAN), NAN)
