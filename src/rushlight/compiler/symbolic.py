"""Symbolic integers: sizes, strides, offsets and bounds that are known only when a recipe is evaluated.

A `SymInt` is a polynomial with integer coefficients over *atoms*. An atom is an entry slot of the recipe (a size, a stride,
a run-time integer argument) or the result of an operation that polynomials do not express (floordiv, min, a comparison ...).
Polynomials have one canonical form, so `(a + b) - b` *is* `a` and equality is mostly structural.

Every value carries the hint of the call that is being compiled. A comparison is decided
  1. by the algebra and the bounds of the atoms (a size that is not 0 or 1 is at least 2: the layout class says so), at no cost;
  2. otherwise by the hint, and the outcome becomes a *guard* of the recipe.
So the recipe holds for every call of the same generic key whose guards hold. An equality that was guarded is used from then on:
one of the two atoms is replaced by the other side.

`Program` owns all that and emits the recipe's integer program (contract, section 3). Slots given out while building are
*handles*; `Program.finish` renumbers them (entries, then constants, then instructions) in a whole recipe.
"""
import operator

INT_OPS = ('add', 'sub', 'mul', 'floordiv', 'mod', 'min', 'max', 'eq', 'ne', 'lt', 'le', 'and', 'or', 'not', 'select', 'neg',
           'ceildiv', 'gcd')
CONST_HANDLE, INSTRUCTION_HANDLE = 1 << 20, 1 << 24      # handles of constants and of instructions start here


def _gcd(a, b):
    while b: a, b = b, a % b
    return abs(a)


EVALUATE = {
    'add': operator.add, 'sub': operator.sub, 'mul': operator.mul,
    'floordiv': lambda a, b: a // b if b else 0, 'mod': lambda a, b: a % b if b else 0,
    'min': min, 'max': max,
    'eq': lambda a, b: int(a == b), 'ne': lambda a, b: int(a != b), 'lt': lambda a, b: int(a < b), 'le': lambda a, b: int(a <= b),
    'and': lambda a, b: int(bool(a) and bool(b)), 'or': lambda a, b: int(bool(a) or bool(b)), 'not': lambda a: int(not a),
    'select': lambda c, a, b: a if c else b, 'neg': operator.neg, 'ceildiv': lambda a, b: -(-a // b) if b else 0, 'gcd': _gcd,
}
BOOLEAN = {'eq', 'ne', 'lt', 'le', 'and', 'or', 'not'}


class Atom:
    """An unknown: an entry slot, or an operation on SymInts. lo and hi are what is certain about its value (None: nothing)."""
    __slots__ = ('id', 'op', 'args', 'hint', 'lo', 'hi', 'name')

    def __init__(self, id, op, args, hint, lo, hi, name):
        self.id, self.op, self.args, self.hint, self.lo, self.hi, self.name = id, op, args, hint, lo, hi, name

    def __repr__(self):
        if self.op == 'slot': return self.name
        return f'{self.op}({", ".join(map(str, self.args))})'


class SymInt:
    """A polynomial: `terms` is a tuple of (atom ids, coefficient), sorted. Never a constant: those are plain ints.

    Comparisons answer a Python bool and may add a guard; to build a comparison as a value use the program's `lt`, `select` ...
    Hashing is structural. To look values up without guards, use `key(x)`."""
    __slots__ = ('program', 'terms')

    def __init__(self, program, terms): self.program, self.terms = program, terms

    @property
    def hint(self): return self.program.hint(self)
    def __hash__(self): return hash(self.terms)

    def __add__(self, o): return self.program.add(self, o) if _integer(o) else NotImplemented
    __radd__ = __add__
    def __sub__(self, o): return self.program.add(self, o, -1) if _integer(o) else NotImplemented
    def __rsub__(self, o): return self.program.add(o, self, -1) if _integer(o) else NotImplemented
    def __mul__(self, o): return self.program.mul(self, o) if _integer(o) else NotImplemented
    __rmul__ = __mul__
    def __neg__(self): return self.program.mul(self, -1)
    def __pos__(self): return self
    def __abs__(self): return self if self >= 0 else -self
    def __floordiv__(self, o): return self.program.floordiv(self, o) if _integer(o) else NotImplemented
    def __rfloordiv__(self, o): return self.program.floordiv(o, self) if _integer(o) else NotImplemented
    def __mod__(self, o): return self.program.mod(self, o) if _integer(o) else NotImplemented
    def __rmod__(self, o): return self.program.mod(o, self) if _integer(o) else NotImplemented
    def __pow__(self, n):
        out = 1
        for _ in range(n): out = out * self
        return out

    def __eq__(self, o): return self.program.decide('eq', self, o) if _integer(o) else NotImplemented
    def __ne__(self, o): return not self.program.decide('eq', self, o) if _integer(o) else NotImplemented
    def __lt__(self, o): return self.program.decide('lt', self, o) if _integer(o) else NotImplemented
    def __le__(self, o): return self.program.decide('le', self, o) if _integer(o) else NotImplemented
    def __gt__(self, o): return self.program.decide('lt', o, self) if _integer(o) else NotImplemented
    def __ge__(self, o): return self.program.decide('le', o, self) if _integer(o) else NotImplemented
    def __bool__(self): return not self.program.decide('eq', self, 0)
    def __index__(self): raise TypeError(f'{self} is a run-time integer: its value is not known while compiling')
    __int__ = __index__

    def __repr__(self): return self.program.text(self)


def _integer(x): return isinstance(x, (int, SymInt))
def is_static(x): return not isinstance(x, SymInt)
def hint(x): return x.program.hint(x) if isinstance(x, SymInt) else x


def key(x):
    """A hashable stand-in for an int, a SymInt, or any nesting of tuples, lists and dicts of them. Equal keys: equal values."""
    if isinstance(x, SymInt): return ('sym', x.terms)
    if isinstance(x, (tuple, list)): return tuple(key(v) for v in x)
    if isinstance(x, dict): return tuple(sorted((k, key(v)) for k, v in x.items()))
    if isinstance(x, float): return ('float', x.hex())               # 0.0 and -0.0 differ, nan equals itself
    if isinstance(x, complex): return ('complex', x.real.hex(), x.imag.hex())
    return (type(x).__name__, x) if isinstance(x, (bool, int)) else x


def known_equal(a, b):
    """Equal for certain: never adds a guard."""
    if not isinstance(a, SymInt) and not isinstance(b, SymInt): return a == b
    program = a.program if isinstance(a, SymInt) else b.program
    difference = program.simplify(program.add(a, b, -1))
    return isinstance(difference, int) and difference == 0


def product(values):
    out = 1
    for v in values: out = v * out if isinstance(v, SymInt) else out * v
    return out


def dimension_order(shape, operands):
    """The dimensions, innermost first, as torch's TensorIterator sorts them: by the operands' strides, the first operand that tells two
    dimensions apart deciding. operands: (shape, strides) of tensors, broadcast to shape."""
    rank, aligned = len(shape), []
    for oshape, ostrides in operands:
        pad = rank - len(oshape)
        if pad < 0: continue
        aligned.append([0 if i < pad or isinstance(oshape[i - pad], int) and oshape[i - pad] == 1 else ostrides[i - pad] for i in range(rank)])

    def compare(a, b):                      # > 0: dimension a is the outer one
        for strides in aligned:
            x, y = strides[a], strides[b]
            if isinstance(x, int) and x == 0 or isinstance(y, int) and y == 0: continue
            if known_equal(x, y):
                if hint(shape[a]) > hint(shape[b]) and shape[a] > shape[b]: return 1
                continue
            return -1 if x < y else 1
        return 0

    order = list(range(rank - 1, -1, -1))
    for i in range(1, rank):
        at = i
        for j in range(i - 1, -1, -1):
            c = compare(order[j], order[at])
            if c > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif c < 0: break
    return order


def contiguous_strides(shape):
    """Row-major strides; dimensions of size 0 count as 1, as everywhere in torch."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        if not is_static(size) or size != 0: step = step * size
    return tuple(reversed(strides))


class Program:
    def __init__(self):
        self.atoms, self.intern, self.replaced = [], {}, {}
        self.guards, self.decided = [], {}
        self.entries = 0                       # number of entry slots
        self.consts, self.const_at = [], {}
        self.instructions, self.at = [], {}
        self.entry_hints = []

    # ------------------------------------------------------------------------------------------------------ unknowns
    def entry(self, kind, value, name=None):
        """The next entry slot, whose value is `value` in this call. kind: size, stride (classes 0, 1, more), sym (-1, less, 0, 1,
        more), count (1 is not special: at least 1) or free (nothing known). What its class determines is returned as a plain int."""
        slot = self.entries
        self.entries += 1
        self.entry_hints.append(value)
        if kind == 'free': return self._entry_atom(slot, value, None, None, name)
        if value in (0, 1) or kind == 'sym' and value == -1: return value
        lo, hi = (1 if kind == 'count' else 2, None) if value > 1 else (None, -2)
        return self._entry_atom(slot, value, lo, hi, name)

    def _entry_atom(self, slot, value, lo, hi, name):
        return self._symbol(self._atom('slot', (slot,), value, lo, hi, name or f'n{slot}'))

    def _atom(self, op, args, hint_value, lo, hi, name=None):
        k = (op, key(args))
        if k not in self.intern:
            atom = Atom(len(self.atoms), op, args, hint_value, lo, hi, name)
            self.atoms.append(atom)
            self.intern[k] = atom
        return self.intern[k]

    def _symbol(self, atom): return SymInt(self, (((atom.id,), 1),))

    # ------------------------------------------------------------------------------------------------------ algebra
    @staticmethod
    def _terms(x): return x.terms if isinstance(x, SymInt) else ((((), x),) if x else ())

    def _make(self, terms):
        terms = tuple(sorted((m, c) for m, c in terms.items() if c))
        if not terms: return 0
        if len(terms) == 1 and terms[0][0] == (): return terms[0][1]
        return SymInt(self, terms)

    def add(self, a, b, sign=1):
        out = dict(self._terms(a))
        for m, c in self._terms(b): out[m] = out.get(m, 0) + sign * c
        return self._make(out)

    def mul(self, a, b):
        out = {}
        for m, c in self._terms(a):
            for n, d in self._terms(b):
                k = tuple(sorted(m + n))
                out[k] = out.get(k, 0) + c * d
        return self._make(out)

    def _operation(self, op, *args):
        args = tuple(self.simplify(a) for a in args)
        if all(is_static(a) for a in args): return EVALUATE[op](*args)
        lo, hi = (0, 1) if op in BOOLEAN else self._operation_bounds(op, args)
        value = EVALUATE[op](*[hint(a) for a in args])
        return self._symbol(self._atom(op, args, value, lo, hi))

    def _operation_bounds(self, op, args):
        bounds = [self.bounds(a) for a in args]
        if op in ('min', 'max'):
            (al, ah), (bl, bh) = bounds
            pick = min if op == 'min' else max
            sure = lambda x, y: pick(x, y) if x is not None and y is not None else None
            loose = lambda x, y: x if y is None else y if x is None else pick(x, y)
            return (sure(al, bl), loose(ah, bh)) if op == 'min' else (loose(al, bl), sure(ah, bh))
        if op == 'mod' and is_static(args[1]) and args[1] > 0: return 0, args[1] - 1
        if op in ('floordiv', 'ceildiv') and bounds[0][0] is not None and bounds[0][0] >= 0 and (bounds[1][0] or 0) > 0:
            lo, hi = bounds[0]
            fixed = is_static(args[1])
            return (EVALUATE[op](lo, args[1]) if fixed else 0), (EVALUATE[op](hi, args[1]) if fixed and hi is not None else hi)
        if op == 'select':
            (_, _), (al, ah), (bl, bh) = bounds
            return (None if al is None or bl is None else min(al, bl)), (None if ah is None or bh is None else max(ah, bh))
        if op == 'gcd': return 0, None
        return None, None

    def _exact_quotient(self, a, b):
        """a / b when the division is exact as polynomials with b one term, else None."""
        ta, tb = self._terms(a), self._terms(b)
        if len(tb) != 1 or not ta: return None
        (mono, coef), out = tb[0], {}
        for m, c in ta:
            rest = list(m)
            for atom in mono:
                if atom not in rest: return None
                rest.remove(atom)
            if c % coef: return None
            out[tuple(rest)] = c // coef
        return self._make(out)

    def floordiv(self, a, b):
        a, b = self.simplify(a), self.simplify(b)
        if is_static(b) and b == 1: return a
        if is_static(a) and a == 0: return 0
        if not self.may_be_zero(b):
            exact = self._exact_quotient(a, b)
            if exact is not None: return exact
        return self._operation('floordiv', a, b)

    def mod(self, a, b):
        a, b = self.simplify(a), self.simplify(b)
        if is_static(b) and b == 1 or is_static(a) and a == 0: return 0
        if not self.may_be_zero(b) and self._exact_quotient(a, b) is not None: return 0
        return self._operation('mod', a, b)

    def ceildiv(self, a, b):
        a, b = self.simplify(a), self.simplify(b)
        if is_static(b) and b == 1 or is_static(a) and a == 0: return a
        if not self.may_be_zero(b):
            exact = self._exact_quotient(a, b)
            if exact is not None: return exact
        return self._operation('ceildiv', a, b)

    def min(self, a, b): return self._extreme('min', a, b)
    def max(self, a, b): return self._extreme('max', a, b)

    def _extreme(self, op, a, b):
        lo, hi = self.bounds(self.add(a, b, -1))
        if lo is not None and lo >= 0: return b if op == 'min' else a
        if hi is not None and hi <= 0: return a if op == 'min' else b
        return self._operation(op, a, b)

    def gcd(self, a, b): return self._operation('gcd', a, b)
    def eq(self, a, b): return self._truth('eq', a, b)
    def ne(self, a, b): return self.logical_not(self.eq(a, b))
    def lt(self, a, b): return self._truth('lt', a, b)
    def le(self, a, b): return self._truth('le', a, b)
    def logical_and(self, a, b): return b if a is True or is_static(a) and a else 0 if is_static(a) else self._operation('and', a, b)
    def logical_or(self, a, b): return 1 if is_static(a) and a else b if is_static(a) else self._operation('or', a, b)
    def logical_not(self, a): return int(not a) if is_static(a) else self._operation('not', a)

    def select(self, c, a, b):
        if is_static(c): return a if c else b
        if known_equal(a, b): return a
        return self._operation('select', c, a, b)

    def _truth(self, op, a, b):
        """A comparison as a 0/1 value (no guard)."""
        known = self.proven(op, a, b)
        return int(known) if known is not None else self._operation(op, a, b)

    # ------------------------------------------------------------------------------------------------------ facts
    def hint(self, x):
        if not isinstance(x, SymInt): return x
        total = 0
        for mono, coef in x.terms:
            for atom in mono: coef *= self.atoms[atom].hint
            total += coef
        return total

    def simplify(self, x):
        """x with every replaced atom put in terms of what replaces it."""
        if not isinstance(x, SymInt) or not self.replaced: return x
        for _ in range(64):
            if not any(atom in self.replaced for mono, _ in x.terms for atom in mono): return x
            total = 0
            for mono, coef in x.terms:
                term = coef
                for atom in mono:
                    term = self.mul(term, self.replaced.get(atom) if atom in self.replaced else SymInt(self, (((atom,), 1),)))
                total = self.add(total, term)
            x = total
            if not isinstance(x, SymInt): return x
        return x

    def bounds(self, x):
        """(lo, hi), None where nothing is known. Each bounded atom is written as its bound plus something non-negative; if then all
        coefficients have one sign, the constant term is the bound. So a*b - b >= 2 follows from a >= 2 and b >= 2."""
        x = self.simplify(x)
        if not isinstance(x, SymInt): return x, x
        if len(x.terms) == 1 and len(x.terms[0][0]) == 1 and x.terms[0][1] == 1:
            atom = self.atoms[x.terms[0][0][0]]
            return atom.lo, atom.hi
        shifted, used = 0, {}
        for mono, coef in x.terms:
            term = coef
            for atom in mono:
                a = self.atoms[atom]
                if a.lo is not None: part = self.add(SymInt(self, (((atom,), 1),)), a.lo)
                elif a.hi is not None: part = self.add(a.hi, SymInt(self, (((atom,), 1),)), -1)
                else: return None, None
                used[atom] = a
                term = self.mul(term, part)
            shifted = self.add(shifted, term)
        terms = dict(self._terms(shifted))
        constant = terms.pop((), 0)
        if all(c >= 0 for c in terms.values()): return constant, None if terms else constant
        if all(c <= 0 for c in terms.values()): return None, constant
        # the interval of a linear form, when the atoms are bounded on both sides
        lo = hi = constant
        for mono, coef in terms.items():
            if len(mono) != 1: return None, None
            a = used[mono[0]]
            if a.lo is None or a.hi is None:
                if coef > 0: hi = None
                else: lo = None
            else:
                span = coef * (a.hi - a.lo)
                if span > 0: hi = hi + span if hi is not None else None
                else: lo = lo + span if lo is not None else None
            if lo is None and hi is None: break
        return lo, hi

    def may_be_zero(self, x):
        lo, hi = self.bounds(x)
        return not (lo is not None and lo > 0 or hi is not None and hi < 0)

    def proven(self, op, a, b):
        """True or False when certain, None when it depends on the call."""
        if not isinstance(a, SymInt) and not isinstance(b, SymInt): return bool(EVALUATE[op](a, b))
        lo, hi = self.bounds(self.add(a, b, -1))
        if op == 'eq':
            if lo is not None and lo == hi: return lo == 0
            if lo is not None and lo > 0 or hi is not None and hi < 0: return False
        elif op == 'lt':
            if hi is not None and hi < 0: return True
            if lo is not None and lo >= 0: return False
        elif op == 'le':
            if hi is not None and hi <= 0: return True
            if lo is not None and lo > 0: return False
        return None

    def decide(self, op, a, b):
        """The outcome of a comparison in this call; a guard if other calls of the same key may see another."""
        known = self.proven(op, a, b)
        if known is not None: return known
        a, b = self.simplify(a), self.simplify(b)
        k = (op, key(self.simplify(self.add(a, b, -1))))
        if k in self.decided: return self.decided[k]
        outcome = bool(EVALUATE[op](self.hint(a), self.hint(b)))
        truth = self._operation(op, a, b)
        self.guards.append(truth if outcome else self.logical_not(truth))
        self.decided[k] = outcome
        if op == 'eq' and outcome: self._learn_equal(self.simplify(self.add(a, b, -1)))
        return outcome

    def guard(self, truth):
        """Require a 0/1 value that is true in this call."""
        if is_static(truth):
            assert truth, 'a guard that is false in the call being compiled'
            return
        assert self.hint(truth), f'a guard that is false in the call being compiled: {truth}'
        if not any(key(g) == key(truth) for g in self.guards): self.guards.append(truth)

    def _learn_equal(self, difference):
        """difference == 0 holds from now on: replace one atom that occurs once, linearly, by the rest. The newest such atom goes, so
        the sizes of the first argument name everything."""
        if not isinstance(difference, SymInt): return
        common = 0
        for _, coef in difference.terms: common = _gcd(common, coef)
        difference = SymInt(self, tuple((mono, coef // common) for mono, coef in difference.terms))
        count = {}
        for mono, _ in difference.terms:
            for atom in mono: count[atom] = count.get(atom, 0) + 1
        for mono, coef in sorted(difference.terms, reverse=True):
            if len(mono) == 1 and coef in (1, -1) and count[mono[0]] == 1:
                rest = self.add(difference, SymInt(self, ((mono, coef),)), -1)
                self.replaced[mono[0]] = self.mul(rest, -coef)
                return

    # ------------------------------------------------------------------------------------------------------ printing
    def text(self, x):
        if not isinstance(x, SymInt): return str(x)
        parts = []
        for mono, coef in x.terms:
            names = '*'.join(str(self.atoms[a]) for a in mono)
            if not names: parts.append(str(coef))
            elif coef == 1: parts.append(names)
            elif coef == -1: parts.append('-' + names)
            else: parts.append(f'{coef}*{names}')
        return '+'.join(parts).replace('+-', '-')

    # ------------------------------------------------------------------------------------------------------ emission
    def constant(self, value):
        value = int(value)
        if value not in self.const_at:
            self.const_at[value] = CONST_HANDLE + len(self.consts)
            self.consts.append(value)
        return self.const_at[value]

    def instruction(self, op, *operands):
        """Emit one instruction on handles (hash-consed); returns its handle."""
        k = (op, operands)
        if k not in self.at:
            self.at[k] = INSTRUCTION_HANDLE + len(self.instructions)
            self.instructions.append(k)
        return self.at[k]

    def slot(self, x, exact=False):
        """The handle of the slot that holds x when the program has run. exact: without using what the guards say (the guards
        themselves must not)."""
        if not exact: x = self.simplify(x)
        if not isinstance(x, SymInt): return self.constant(x)
        total = None
        for mono, coef in sorted(x.terms, key=lambda t: (t[1] < 0, t)):      # positive terms first: no leading negation
            handle = None
            for atom in mono:
                h = self._atom_slot(self.atoms[atom])
                handle = h if handle is None else self.instruction('mul', handle, h)
            if handle is None: handle, negative = self.constant(abs(coef)), coef < 0
            else:
                negative = coef < 0
                if abs(coef) != 1: handle = self.instruction('mul', handle, self.constant(abs(coef)))
            if total is None: total = self.instruction('neg', handle) if negative else handle
            else: total = self.instruction('sub' if negative else 'add', total, handle)
        return total

    def slots(self, xs): return tuple(self.slot(x) for x in xs)

    def _atom_slot(self, atom):
        """Operands are emitted as they were: an equality may put a size in terms of an operation on it (n == 2 * (n // 2))."""
        if atom.op == 'slot': return atom.args[0]
        return self.instruction(atom.op, *[self.slot(a, exact=True) for a in atom.args])

    def finish(self, recipe):
        """Add consts, program and guards to a recipe built with handles, and turn every handle into a final slot number."""
        guards = [self.slot(g, exact=True) for g in self.guards]
        base_const, base_instruction = self.entries, self.entries + len(self.consts)

        def final(handle):
            if handle >= INSTRUCTION_HANDLE: return handle - INSTRUCTION_HANDLE + base_instruction
            if handle >= CONST_HANDLE: return handle - CONST_HANDLE + base_const
            return handle

        def finals(handles): return tuple(final(h) for h in handles)

        def output(o):
            if o[0] != 'view': return tuple(o)
            _, k, dtype, shape, strides, offset = o
            return ('view', k, dtype, finals(shape), finals(strides), final(offset))

        def step(s):
            kernel, pointers, ints, scalars, units, grain, cost, scratch = s
            return (kernel, [(p[0], p[1], final(p[2])) for p in pointers], list(finals(ints)), list(scalars),
                    final(units), final(grain), final(cost), final(scratch))

        pad = lambda operands: finals(operands) + (0,) * (3 - len(operands))
        out = dict(recipe)
        out['consts'] = list(self.consts)
        out['program'] = [(op, *pad(operands)) for op, operands in self.instructions]
        out['guards'] = [final(g) for g in guards]
        out['buffers'] = [(d, finals(shape), finals(strides), final(size)) for d, shape, strides, size in recipe['buffers']]
        out['outputs'] = [output(o) for o in recipe['outputs']]
        out['steps'] = [step(s) for s in recipe['steps']]
        out['errors'] = [(kind, message, final(size) if size >= 0 else -1) for kind, message, size in recipe.get('errors', ())]
        out['backward_syms'] = [final(s) for s in recipe.get('backward_syms', ())]
        return out


def evaluate(entries, consts, program):
    """Run an integer program: the list of all slots (what the runtime does in C++)."""
    slots = list(entries) + list(consts)
    for op, *operands in program:
        n = 1 if op in ('not', 'neg') else 3 if op == 'select' else 2
        slots.append(EVALUATE[op](*[slots[o] for o in operands[:n]]))
    return slots
