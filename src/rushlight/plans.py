"""The compile hook: from a call the runtime has no recipe for to a `_C.Recipe`.

Light on purpose: a recipe that is in memory, in the pack or on disk is found, its kernels loaded and handed over without importing
the compiler. Only a real miss imports `compiler.request`.

A stored entry is a list of recipes for one generic key (op, schema, form, grad mask, by-value arguments, dtypes, size and stride classes,
default dtype, source hash, kind of machine, compiler version). Recipes have guards over the integers of the call; the first whose guards hold is
taken, and a call that none fits adds another.
"""
import marshal
from _thread import RLock
from time import perf_counter

from . import registry
from .compiler import log

MEMORY = {}               # generic key -> list of recipes (data)
ADDRESSES = {}            # (sha, symbol) -> address
counters = {'compiled': 0, 'found': 0}
LOCK = RLock()            # one compilation at a time: Python may switch threads in the middle of one
_C = None
_stamp = None


def install():
    """Tell the runtime. Called once, when the package is imported."""
    global _C
    from . import _C as runtime
    _C = runtime
    _C.set_hooks(compile=compile_call)
    for definition in registry.all(): definition.build()        # made now: the runtime finds operators by name


# ----------------------------------------------------------------------------------------------------------------- request
def request_of(op, form, grad_mask, params, dests, signature=None):
    """What the runtime says, as pure data: see compiler/request.py."""
    default = default_dtype()
    if op.name == 'backward':
        grads, saved, needed, syms, kinds = params
        return ('backward', op.definition, grad_mask, list(grads), list(saved), needed, tuple(syms), list(kinds), default)
    definition = op.definition
    if signature is None: signature = chosen_signature(definition, params)
    plain = [_plain(p, v) for p, v in zip(definition.signatures[signature].params, params)]
    return ('op', definition.name, signature, form, grad_mask, plain, None if dests is None else list(dests), default)


def chosen_signature(definition, params):
    """Which schema the parser took, from what it made of the arguments: the first whose parameters could have given these values."""
    fitting = [i for i, s in enumerate(definition.signatures) if len(s.params) == len(params) and all(map(_possible, s.params, params))]
    if not fitting: raise TypeError(f'{definition.name}: no schema has parameters like {params}')
    return fitting[0]


def _possible(p, value):
    described = isinstance(value, tuple) and len(value) == 5 and isinstance(value[2], tuple)       # a tensor
    kind = p.kind
    if value is None: return p.optional or p.kind in ('Any', 'Generator', 'Layout') or p.default is None or p.name in registry.IGNORED
    if kind == 'Tensor': return described
    if kind == 'Tensor|Scalar': return described or isinstance(value, str)
    if kind == 'Tensor[]': return isinstance(value, list)
    if kind in ('Scalar', 'float'): return isinstance(value, str) and value in 'bifc'
    if kind in ('int', 'SymInt'): return isinstance(value, int) and not isinstance(value, bool)
    if kind == 'bool': return isinstance(value, bool)
    if kind in ('int[]', 'SymInt[]'): return isinstance(value, tuple) and not described
    return True


def _plain(p, value):
    """A by-value argument as data that can be written to a file."""
    if value is None or isinstance(value, (bool, int, float, complex, str, tuple, list)): return value
    if p.kind == 'ScalarType': return dtype_name(value)
    return str(value)


DTYPE_NAMES = {'bool': 'b1', 'uint8': 'u8', 'int8': 'i8', 'int16': 'i16', 'int32': 'i32', 'int64': 'i64', 'float16': 'f16',
    'bfloat16': 'bf16',
               'float32': 'f32', 'float64': 'f64', 'complex64': 'c64', 'complex128': 'c128', 'uint16': 'u16', 'uint32': 'u32',
                   'uint64': 'u64',
               'float8_e4m3fn': 'f8e4m3', 'float8_e5m2': 'f8e5m2', 'complex32': 'c32'}


def dtype_name(dtype): return DTYPE_NAMES[str(dtype).rsplit('.', 1)[-1]]


def default_dtype(): return dtype_name(_C.get_default_dtype()) if _C is not None else 'f32'


# ------------------------------------------------------------------------------------------------------------------- keys
def size_class(n): return n if n < 2 else 2


def tensor_class(t):
    """What a recipe may rely on without a guard: dtype, device, bits, size classes, stride classes and their order."""
    code, device, shape, strides, bits = t
    live = [i for i, s in enumerate(shape) if s > 1]
    order = tuple(sorted(live, key=lambda i: (strides[i], -i)))
    return (code, device, bits, tuple(map(size_class, shape)), tuple(size_class(strides[i]) if i in live else None
        for i in range(len(shape))), order)


def sym_class(n): return -2 if n < -1 else min(n, 2)


def generic_key(request):
    """The request without its particular sizes."""
    if request[0] == 'backward':
        _, forward, mask, grads, saved, needed, syms, kinds, default = request
        parts = (forward, mask, [_described(g) for g in grads], [_described(s) for s in saved], needed, tuple(map(sym_class, syms)), kinds,
            default)
        return 'backward', repr(parts)
    _, name, signature, form, mask, params, dests, default = request
    classes = []
    for p, v in zip(registry.find(name).signatures[signature].params, params):
        if p.is_tensor: v = [_described(t) for t in v] if isinstance(v, list) else _described(v)
        elif p.kind == 'SymInt' and v is not None: v = sym_class(v)
        elif p.kind == 'SymInt[]' and v is not None: v = tuple(map(sym_class, v))
        classes.append(v)
    return name, repr((name, signature, form, mask, classes, None if dests is None else [_described(d) for d in dests], default))


def _described(t): return tensor_class(t) if isinstance(t, tuple) else t


def entry_values(request):
    """The values of the entry slots, in the runtime's order."""
    out = []
    def tensor(t):
        if isinstance(t, tuple):
            out.extend(t[2])
            out.extend(t[3])
    if request[0] == 'backward':
        for t in request[3] + request[4]: tensor(t)
        return out + list(request[6])
    _, name, signature, form, _, params, dests, _ = request
    described = list(zip(registry.find(name).signatures[signature].params, params))
    for p, v in described:
        if p.is_tensor:
            for t in v if isinstance(v, list) else [v]: tensor(t)
    if form == 2:
        for d in dests: tensor(d)
    for p, v in described:
        if v is not None and p.kind in ('SymInt', 'SymInt[]'): out.extend([v] if p.kind == 'SymInt' else v)
    return out


def source_stamp():
    """A hash of everything that decides what a recipe says: the definitions, the compiler, its version, the kind of machine."""
    global _stamp
    if _stamp is None:
        import hashlib
        import os

        from .compiler import jit
        digest = hashlib.sha256(f'{jit.SCHEME} {jit.kind_of_machine()} {jit.compiler_version()}'.encode())
        root = os.path.dirname(os.path.abspath(__file__))
        files = [os.path.join(root, 'registry.py')]
        for folder in ('ops', 'compiler', 'compiler/emit', 'compiler/templates'):
            path = os.path.join(root, folder)
            files += [os.path.join(path, f) for f in sorted(os.listdir(path)) if f.endswith('.py')]
        for f in files:
            with open(f, 'rb') as handle: digest.update(handle.read())
        _stamp = digest.hexdigest()[:24]
    return _stamp


# -------------------------------------------------------------------------------------------------------------- the hook
def holds(recipe, entries):
    """Whether the recipe's guards hold for these entry slots."""
    if not recipe['guards']: return True
    from .compiler.symbolic import evaluate
    slots = evaluate(entries, recipe['consts'], recipe['program'])
    return all(slots[g] for g in recipe['guards'])


def widened(request):
    """The request with 2 in place of 1 as the size that a product sums over, or None where that is not its size. A loop over growing
    prefixes then meets one recipe from the first step on. Without gradients only: a backward sees what was saved, with its real sizes."""
    if request[0] != 'op' or request[3] or request[4]: return None
    _, name, signature, form, mask, params, dests, default = request
    definition = registry.find(name)
    if not definition.contracts: return None
    wide = list(params)
    for i, p in enumerate(definition.signatures[signature].params):
        if p.name not in definition.contracts: continue
        code, device, shape, strides, bits = params[i]
        d = len(shape) + definition.contracts[p.name]
        if d < 0 or shape[d] != 1 or any(s == strides[d] for j, s in enumerate(strides) if j != d and shape[j] > 1): return None
        wide[i] = (code, device, shape[:d] + (2,) + shape[d + 1:], strides, bits)
    return ('op', name, signature, form, mask, wide, dests, default)


def recipe_for(request):
    """The recipe (data) for a request: from memory, pack or disk, or compiled."""
    entries, wide = entry_values(request), widened(request)
    recipe = None if wide is None else found_or_compiled(wide, entries)
    return recipe or found_or_compiled(request, entries)


def found_or_compiled(request, entries):
    """The recipe of this request that holds for these entry slots; None if the one compiled does not (a widened request may not fit)."""
    def compile_():
        from .compiler.request import compile_request
        return compile_request(request)
    return kept_or_made(generic_key(request)[1], entries, compile_)


def kept_or_made(text, entries, make):
    """The recipe kept under a key whose guards hold for these entry slots: from memory, pack or disk, else made. None if that does not hold."""
    from .compiler import cache
    known = MEMORY.get(text)
    if known is None:
        known, stored = [], cache.get('recipe', f'{source_stamp()} {text}')
        if stored is not None:
            try: known = marshal.loads(stored)
            except (ValueError, EOFError, TypeError): known = []
        MEMORY[text] = known
    start = perf_counter() if log.WANTED else 0
    for recipe in known:
        if holds(recipe, entries):
            counters['found'] += 1
            if log.WANTED: log.answered(text, recipe, perf_counter() - start, 'found')
            return recipe
    recipe = make()
    counters['compiled'] += 1
    if log.WANTED: log.answered(text, recipe, perf_counter() - start, 'compiled')
    if not holds(recipe, entries): return None
    known.append(recipe)
    cache.put('recipe', f'{source_stamp()} {text}', marshal.dumps(known))
    return recipe


class MissingObject(Exception):
    """A stored recipe names machine code that is no longer in the cache: the request is compiled again."""


def address(sha, symbol):
    """Where a kernel's code is, loading its object when it is first asked for."""
    if (sha, symbol) not in ADDRESSES:
        from .compiler import cache
        image = cache.get('object', sha)
        if image is None: raise MissingObject(f'the object {sha} is not in the cache')
        for name, where in _C.load_object(image).items(): ADDRESSES[sha, name] = where
    return ADDRESSES[sha, symbol]


def compile_call(op, form, grad_mask, params, dests, signature=None):
    """The runtime's `hooks.compile`: a Recipe, or the user's error."""
    request = request_of(op, form, grad_mask, params, dests, signature)
    with LOCK:
        try: return _C.Recipe(recipe_for(request), address)
        except MissingObject:
            from .compiler.request import compile_request
            recipe = compile_request(request)
            MEMORY[generic_key(request)[1]] = [recipe]
            return _C.Recipe(recipe, address)
