"""The registry: one record per operator, made by `@op` from its definition. See the contract, sections 6 and 9.

    @op("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", rule="float!", on="F")
    def softplus(x, beta, threshold): ...

    @softplus.gradient("self")
    def _(grad, self): ...

An `OpDef` can be called: on symbolic tensors (inside another body) it traces, on real tensors it calls the C++ face.
`all()` gives every definition in the order it was read; methods, in-place and out= forms, stubs, docs and tests derive from it.

Decisions
  - A body's parameters bind to schema parameters by name; those whose names are not in the schema take what is left, in order
    (`def exp(x)` for `self`). With several schemas the body has the union of their parameters, and what a call's schema lacks
    is the body's own default, or None.
  - `promote=("self", "other")` names the parameters that take part in type promotion and are cast; by default every tensor
    does, and numbers only where the type is `Tensor|Scalar`.
  - A gradient function may name `grad` (of the first result), `grads` (all, None where undefined), `result`, `results`, any
    parameter, a result by its name in the schema, and `grad_NAME` of it. Tensors arrive in the compute dtype.
  - `refuses="c"` names the kinds of dtype (b i f c, and h for the half types) that torch has no kernel for; the error is torch's, with `kernel` as the name it gives the
    kernel. `refuses={"c": RuntimeError("...")}` states another error.
  - `out="..."` (a text) means that out= must have the result's dtype exactly; the text is torch's error, with {out} and {result};
    a tuple has one entry for each schema. `out=TypeError("...")` is raised where the result cannot be cast to out=, instead of torch's usual error.
    A function of the arguments by name (tensors as the contract's descriptions; `out`: the name of its dtype) answers one of these for the call, or raises.
    `inplace="..."` does the same for the in-place form, with {self} and {result}; a function of the tensor's shape and the result's gives the words of the
    error when they do not fit.
  - `contracts={"self": -1, "other": -2}` names the dimension of each operand that a product sums over. Such a dimension never broadcasts,
    so size 1 is a size like any other and shares its recipe (see `plans.widened`).
  - `native=("name", 0)`: only that signature is implemented in C++; the body serves the others.
  - `separate=True`: in place and with out=, no operand may share memory with what is written (torch's scatters and gathers refuse it).
  - `one_value=True`: every element is written the same, so the written tensor may reach one of them by two indices (an expanded one can be filled).
  - `converts=True`: a number is converted to the tensor's dtype, where others promote with it: one that int64 does not hold is refused, where others take it for a uint64.
  - `numbers=True`: every operand may be a number: torch.add(1, 2) is a tensor, torch.pow(1, 2) an error.
  - `linear="self"`: the tangent is the operator applied to that parameter's tangent. Said where it is not the transpose of torch's gradient (a place written twice
    has one value, but the gradient counts both).
  - Names that live only in a namespace of PREFIXED get it as the prefix of the operator's name: `linalg_vector_norm`.
"""

from _thread import _local

every = all              # the builtin: `all` is this module's list of definitions


class Tracing(_local):
    """The traces under way in this thread, innermost last (compiler/trace.py)."""
    def __init__(self): self.stack = []


tracing = Tracing()
_definitions = {}
PREFIXED = {'linalg', 'special', 'fft', 'masked', 'signal.windows'}
_derived = {}
IGNORED = {'generator', 'layout', 'device', 'pin_memory', 'requires_grad', 'memory_format', 'non_blocking', 'dtype', 'out', 'copy'}


class Required:
    """The default of a parameter that has none."""
    def __repr__(self): return 'REQUIRED'


REQUIRED = Required()


class Param:
    """One schema parameter. `type` is the text of the schema, `kind` its base: optional, value and size marks taken off."""
    __slots__ = ('name', 'type', 'default', 'keyword_only', 'kind', 'optional', 'mutated')

    def __init__(self, name, type, default, keyword_only):
        self.name, self.type, self.default, self.keyword_only = name, type, default, keyword_only
        base = type
        self.mutated = '(' in base
        if self.mutated: base = base[:base.index('(')] + base[base.index(')') + 1:]
        self.optional = base.endswith('?')
        base = base.removesuffix('?').replace('?[', '[')
        if '[' in base: base = base[:base.index('[')] + '[]'
        self.kind = base

    @property
    def is_tensor(self): return self.kind.startswith('Tensor')
    def __repr__(self): return f'{self.type} {self.name}' + ('' if self.default is REQUIRED else f'={self.default!r}')


class Signature:
    __slots__ = ('name', 'params', 'returns', 'text', 'by_name')

    def __init__(self, name, params, returns, text):
        self.name, self.params, self.returns, self.text = name, params, returns, text     # returns: [(type, name or None)]
        self.by_name = {p.name: p for p in params}

    def __repr__(self): return self.text


def _split(text):
    """Split at commas outside brackets and quotes."""
    parts, whole = [], None
    for part in text.split(','):
        whole = part if whole is None else f'{whole},{part}'
        if ('[' in whole or '(' in whole or '"' in whole or "'" in whole) and not _closed(whole): continue
        part, whole = whole.strip(), None
        if part: parts.append(part)
    return parts


def _closed(text):
    """Do the brackets and quotes of a piece end within it?"""
    depth, quote = 0, None
    for c in text:
        if quote: quote = None if c == quote else quote
        elif c in '\'"': quote = c
        elif c in '([': depth += 1
        elif c in ')]': depth -= 1
    return not depth and not quote


def _default(text):
    constants = {'None': None, 'True': True, 'False': False}
    if text in constants: return constants[text]
    if text[0] in '\'"': return text[1:-1]
    if text[0] == '[': return [_default(t) for t in _split(text[1:-1])]
    try: return int(text)
    except ValueError: pass
    try: return float(text)
    except ValueError: return text              # a word: contiguous_format ...


_params = {}             # (text, keyword only) -> Param: the same few words in a thousand schemas, and import reads them all


def parse_schema(text):
    """A schema as a Signature. Errors name the schema: they are the definition's author's."""
    head, arrow, tail = text.partition('->')
    head = head.strip()
    if not arrow or not head.endswith(')') or '(' not in head: raise ValueError(f'not a schema: {text!r}')
    name, _, inside = head[:-1].partition('(')
    params, keyword_only = [], False
    for part in _split(inside):
        if part == '*':
            keyword_only = True
            continue
        param = _params.get((part, keyword_only))
        if param is None:
            declared, equals, default = part.partition('=')
            type_, _, pname = declared.strip().rpartition(' ')
            if not type_ or not pname.isidentifier(): raise ValueError(f'{name}: cannot read the parameter {part!r} of {text!r}')
            param = _params[part, keyword_only] = Param(pname, type_.strip(), _default(default.strip()) if equals else REQUIRED, keyword_only)
        params.append(param)
    returns = []
    tail = tail.strip()
    for part in _split(tail[1:-1] if tail.startswith('(') else tail):
        rtype, _, rname = part.partition(' ')
        returns.append((rtype, rname.strip() or None))
    return Signature(name.strip(), params, returns, text)


class OpDef:
    """The definition of one operator. See the module's description."""

    # What an operator is unless its definition says otherwise (`op` below explains the options): all that derived definitions need to know of them.
    rule = samples = errors = saves = native = promote = method_of = linear = None
    inplace = out = separate = one_value = converts = once = unreached = numbers = False
    differentiable, layout, aliases, refuses, contracts = True, 'pointwise', (), {'': None}, {}

    def __init__(self, body, signatures, options):
        self.body, self.signatures = body, signatures
        self.short_name = signatures[0].name
        self.on = tuple(options.pop('on').split())
        only = set(self.on) <= PREFIXED
        self.name = f'{self.on[0].replace(".", "_")}_{self.short_name}' if only else self.short_name
        for key, value in options.items(): setattr(self, key, value)
        self.gradients = {}              # parameter name -> function
        self.__name__, self.__module__ = self.short_name, body.__module__
        self.__doc__ = '\n'.join(s.text for s in signatures) + '\n\n' + (body.__doc__ or '').strip()      # help() shows the forms first
        self.params = {}                 # the union of all schemas' parameters, in order of appearance
        for s in signatures:
            for p in s.params: self.params.setdefault(p.name, p)
        if not isinstance(self.native, str): self._bind_body()
        self._op = None

    # ----------------------------------------------------------------------------------------------------- the body
    def _bind_body(self):
        code, defaults = self.body.__code__, self.body.__defaults__ or ()
        names = code.co_varnames[:code.co_argcount]
        self.body_defaults = dict(zip(names[len(names) - len(defaults):], defaults))
        left = [n for n in self.params if n not in names]
        self.body_binding = []
        for n in names:
            if n in self.params: self.body_binding.append((n, n))
            elif left and not (n in self.body_defaults and left[0] in IGNORED): self.body_binding.append((n, left.pop(0)))
            elif n in self.body_defaults: self.body_binding.append((n, None))
            else: raise TypeError(f'{self.name}: no schema parameter for {n!r} of the body')
        left = [n for n in left if n not in IGNORED]
        if left and not code.co_flags & 8: raise TypeError(f'{self.name}: the body does not take {", ".join(left)}')

    def arguments(self, values):
        """The body's positional arguments for bound schema values."""
        return [values[schema] if schema in values else self.body_defaults.get(own) for own, schema in self.body_binding]

    def promotes(self, name, kind):
        """Whether a parameter takes part in type promotion."""
        if self.promote is not None: return name in self.promote
        return kind in ('Tensor', 'Tensor[]', 'Tensor|Scalar')

    def gradient(self, *names):
        """Decorator: the gradient of the named parameters."""
        for n in names:
            if n not in self.params: raise TypeError(f'{self.name} has no parameter {n!r}')
        def attach(function):
            for n in names: self.gradients[n] = function
            return function
        return attach

    # ------------------------------------------------------------------------------------------------------ calling
    def __call__(self, *args, **kwargs):
        if tracing.stack:
            from .compiler.trace import apply
            return apply(self, args, kwargs)
        return self.op.function(*args, **kwargs)

    def bind(self, args, kwargs):
        """(values by name, kinds by name) of a call from a body: the first schema that fits."""
        kwargs = {('self' if k == 'input' and 'input' not in self.params else k): v for k, v in kwargs.items()}
        for s in self.signatures:
            values = _fit(s, args, kwargs)
            if values is not None: return values, {p.name: p.kind for p in s.params}
        raise TypeError(f'{self.name}: no schema takes ({", ".join([type(a).__name__ for a in args] + list(kwargs))}); '
                        f'it has {"; ".join(map(str, self.signatures))}')

    @property
    def op(self):
        """The C++ Op with its faces."""
        return self._op or self.build()

    def build(self):
        """Make the C++ Op, once."""
        if self._op is None:
            from . import _C
            signatures = [([(p.name, p.type, _C.REQUIRED if p.default is REQUIRED else p.default, p.keyword_only) for p in s.params],
                s.returns)
                          for s in self.signatures]
            self._op = _C.Op(self.name, signatures, self, self.forms, self.native)
        return self._op

    @property
    def forms(self):
        """The forms besides the plain one: 'inplace', 'out'."""
        return tuple(form for form, wanted in (('inplace', self.inplace), ('out', self.out)) if wanted)

    @property
    def dtype_from_out(self):
        """Whether an out= tensor stands for an absent `dtype=`: in torch's reductions and factories."""
        return self.rule in ('acc', 'acc_float') or not any(p.is_tensor for p in self.params.values())

    def out_refusal(self, signature, params, castable, names):
        """The exception for an out= tensor of another dtype than the result, or that says the result's dtype; None if it will do. `castable`: whether
        torch.can_cast allows it."""
        stated = self.out
        if isinstance(stated, tuple): stated = stated[signature] if signature < len(stated) else True
        if callable(stated): stated = stated({**dict(zip([p.name for p in self.signatures[signature].params], params)), 'out': names['out']})
        if isinstance(stated, str) and names['out'] != names['result']: return RuntimeError(stated.format(**names))
        if isinstance(stated, Exception) and not castable: return type(stated)(stated.args[0].format(**names))
        return None

    @property
    def mutated(self):
        """Names of the parameters that the operator writes (`Tensor(a!)`)."""
        return [p.name for p in self.signatures[0].params if p.mutated]

    def __repr__(self): return f'<op {self.name}>'
    __str__ = lambda self: self.name


def _tensor_type():
    from . import _C
    return _C.Tensor


def _fits(p, value):
    from .compiler.symbolic import SymInt
    from .compiler.trace import Sym
    if value is None: return p.optional or p.kind == 'Any' or p.default is None
    symbolic, number = isinstance(value, (Sym, _tensor_type())), isinstance(value, (bool, int, float, complex, SymInt))
    integer = isinstance(value, (int, SymInt)) and not isinstance(value, bool)
    kind = p.kind
    if kind == 'Tensor': return symbolic
    if kind == 'Tensor|Scalar': return symbolic or number
    if kind == 'Tensor[]': return isinstance(value, (list, tuple)) and every(v is None or isinstance(v, (Sym, _tensor_type())) for v in value)
    if kind in ('Scalar', 'float'): return number or symbolic and value.ndim == 0
    if kind in ('Scalar!', 'float!'): return number and not isinstance(value, SymInt)
    if kind == 'int': return isinstance(value, int) and not isinstance(value, bool)
    if kind == 'SymInt': return integer
    if kind in ('int[]', 'SymInt[]'): return integer or isinstance(value, (list, tuple)) and every(isinstance(v, (int, SymInt))
        for v in value)
    if kind == 'bool': return isinstance(value, bool)
    if kind == 'str': return isinstance(value, str)
    return True


def _fit(signature, args, kwargs):
    values, positional = {}, [p for p in signature.params if not p.keyword_only]
    if len(args) > len(positional): return None
    given = dict(zip((p.name for p in positional), args))
    for k, v in kwargs.items():
        if k in given or k not in signature.by_name: return None
        given[k] = v
    for p in signature.params:
        if p.name in given:
            value = given[p.name]
            if not _fits(p, value): return None
            if p.kind in ('int[]', 'SymInt[]') and value is not None: value = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        elif p.default is REQUIRED: return None
        else: value = p.default
        values[p.name] = value
    return values


def op(schema, *, rule=None, on='torch Tensor', inplace=False, out=True, layout='pointwise', saves=None, node=None, samples=None,
       errors=None, differentiable=True, native=None, aliases=(), promote=None, method_of=None, name=None, refuses='', kernel=None, separate=False,
       contracts=None, one_value=False, converts=False, once=False, unreached=False, linear=None, numbers=False):
    """Register an operator; the decorated function is its body. The contract (section 9) explains the options."""
    signatures = [parse_schema(s) for s in ([schema] if isinstance(schema, str) else schema)]
    if len({s.name for s in signatures}) != 1: raise ValueError(f'one operator, one name: {[s.name for s in signatures]}')

    def define(body):
        mutates = any(p.mutated for s in signatures for p in s.params)
        definition = OpDef(body, signatures, dict(
            rule=rule, on=on, inplace=inplace, out=out if not mutates else False, layout=layout, samples=samples, errors=errors,
            refuses=refuses if isinstance(refuses, dict) else {refuses: None}, kernel=kernel or signatures[0].name,
            saves=tuple(saves.split()) if isinstance(saves, str) else saves, node=node or _node_name(signatures[0].name),
            differentiable=differentiable, native=native, aliases=tuple(aliases), promote=promote, method_of=method_of,
            contracts=contracts or {}, separate=separate, one_value=one_value, converts=converts, once=once, unreached=unreached, linear=linear, numbers=numbers))
        if name: definition.name = name          # two definitions of one word: torch.softmax and nn.functional.softmax differ in signature
        if definition.name in _definitions: raise ValueError(f'{definition.name} is defined twice')
        _definitions[definition.name] = definition
        return definition
    return define


def _node_name(name): return ''.join(w.capitalize() for w in name.strip('_').split('_')) + 'Backward0'
def all(): return list(_definitions.values())
def find(name):
    """The definition of an operator. `NAME.jvp`, its forward derivative, and `NAME.vmap`, the operator over a batch, are made when first asked for,
    and are not among `all()`."""
    if name in _definitions: return _definitions[name]
    if name in _derived: return _derived[name]
    if name.endswith('.jvp'):
        from .compiler.tangent import derive
    elif name.endswith('.vmap'):
        from .compiler.batching import derive
    else: raise KeyError(name)
    return _derived.setdefault(name, derive(name))


get = find
