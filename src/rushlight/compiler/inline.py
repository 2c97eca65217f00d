"""Operators called from bodies: bind, promote, inline; and the record of a call whose operator states gradients.

Part of `trace`, which gives these names on: bodies and the compiler say `T.invoke`.
"""
from . import promotion
from .graph import SCALAR_TYPE_NAME
from .graph import is_complex as _complex
from .graph import is_float as _float
from .trace import FLOAT8, Sym, _like, as_dtype, cast, current, itself, lift, lose_parts, operand_types, retyped, stop


def apply(definition, args, kwargs):
    """An operator called on Syms from a body: bind, promote, inline."""
    values, types = definition.bind(args, kwargs)
    return invoke(definition, values, types)


def invoke(definition, values, types):
    """values: parameter name -> Sym, number, SymInt, plain value; types: parameter name -> schema type (base name)."""
    state = current()
    values = {name: _prepare(value, types[name]) for name, value in values.items()}
    if definition.gradients and definition.differentiable:
        values = {name: value if name in definition.gradients else _map_tensors(value, _named_apart) for name, value in values.items()}
    raw = dict(values)
    rule = definition.rule
    if callable(rule): rule = rule(*definition.arguments(values))
    _refuse(definition, rule, values, types)
    compute, result = None, None
    if rule is not None:
        operands = [x for name in values for x in _tensors(values[name]) if definition.promotes(name, types[name])]
        if isinstance(rule, tuple): compute, result = rule
        else:
            compute, result = promotion.rule_dtypes(rule, operand_types(operands), definition.kernel, state.default,
                as_dtype(values.get('dtype')))
        for name in values:
            if definition.promotes(name, types[name]) or types[name] in ('Scalar', 'float'):
                values[name] = _map_tensors(values[name], lambda x: _cast_operand(x, compute, rule))
    state.result_dtype.append(result)
    try: out = definition.body(*definition.arguments(values))
    finally: state.result_dtype.pop()
    several = isinstance(out, (tuple, list))
    outs = [lift(o) for o in (out if several else [out])]
    if rule is not None:
        results = result if isinstance(result, (tuple, list)) else None
        for i, o in enumerate(outs):
            want = results[i] if results else result if not several or o.dtype == compute else o.dtype
            if want is not None and o.dtype != want: outs[i] = cast(o, want)
    if not definition.differentiable: outs = [o if o.alias else stop(o) if _float(o.dtype) or _complex(o.dtype) else o for o in outs]
    elif definition.gradients: outs = _grouped(definition, raw, values, compute, outs)
    return type(out)(outs) if several and type(out) in (tuple, list) else outs[0] if not several else tuple(outs)


LOOKED_THROUGH = {'reshape', 'permute', 'expand', 'neg', 'conj'}


def _named_apart(x):
    """An operand whose gradient is derived through the body. What the body makes of it must depend on it by name: a view of a view would be built on
    what this one is a view of, and its gradient would pass the operand by."""
    return _like(itself(x), x) if x.node.op in LOOKED_THROUGH and (_float(x.dtype) or _complex(x.dtype)) else x


ON_FLOAT8 = {'eq', 'ne', 'abs', 'isnan', 'isinf', 'isfinite'}       # 8-bit floats are for storage: torch computes nothing else with them


def _refuse(definition, rule, values, types):
    """torch's error for dtypes the operator has no kernel for: judged on the promoted dtype, or the first tensor's where nothing is promoted."""
    operands = [x for name in values for x in _tensors(values[name]) if definition.promotes(name, types[name])]
    if rule is not None and rule != 'keep' and definition.name not in ON_FLOAT8:
        for x in operands:
            if x.dtype not in FLOAT8: continue
            promotion.result_type(operand_types(operands), current().default)                # refuses mixtures in its own words
            raise NotImplementedError(f'"{definition.kernel}" not implemented for \'{SCALAR_TYPE_NAME[x.dtype]}\'')
    if definition.refuses == {'': None} or not operands: return
    promoted = rule is not None and rule not in ('keep', *promotion.MATCHING)
    dtype = as_dtype(values.get('dtype')) or (promotion.result_type(operand_types(operands), current().default) if promoted else operands[0].dtype)
    promotion.refuse(dtype, definition.refuses, definition.kernel)


def _cast_operand(x, dtype, rule):
    if rule == 'first_float' and x.kind is None and not (_float(x.dtype) or _complex(x.dtype)): return x
    lose_parts(x, dtype)
    return retyped(x, dtype) if x.node.op == 'scalar' else cast(x, dtype)


def _prepare(value, kind):
    if value is None: return None
    if kind in ('Scalar', 'float') or kind == 'Tensor|Scalar': return lift(value)
    if kind == 'ScalarType': return as_dtype(value)
    if kind.startswith('Tensor') and isinstance(value, (list, tuple)): return list(value)
    return value


def _tensors(value):
    if isinstance(value, Sym): return [value]
    return [v for v in value if isinstance(v, Sym)] if isinstance(value, (list, tuple)) else []


def _map_tensors(value, f):
    if isinstance(value, Sym): return f(value)
    if isinstance(value, (list, tuple)): return type(value)(f(v) if isinstance(v, Sym) else v for v in value)
    return value


class Group:
    """One call of an operator that states gradients: what its gradient functions may ask for."""

    def __init__(self, definition, raw, values, compute, operands):
        self.definition, self.raw, self.values, self.compute = definition, raw, values, compute
        self.operands = operands            # (parameter name, place in a list or None, node), in the order of the call node's arguments
        self.results = []                   # call nodes, one per result

    def __hash__(self): return id(self)
    def __eq__(self, other): return self is other
    def __repr__(self): return self.definition.name


def _grouped(definition, raw, values, compute, outs):
    operands = []
    for name, value in raw.items():
        if isinstance(value, Sym): operands.append((name, None, value.node))
        elif isinstance(value, (list, tuple)):
            operands.extend((name, i, v.node) for i, v in enumerate(value) if isinstance(v, Sym))
    group = Group(definition, raw, values, compute, operands)
    wrapped = []
    for i, o in enumerate(outs):
        node = o.node.graph.node('call', [o.node] + [n for _, _, n in operands], {'group': group, 'index': i}, o.shape, o.dtype)
        group.results.append(node)
        new = Sym(node, o.kind)
        new.alias = o.alias
        wrapped.append(new)
    return wrapped
