"""Forward-mode derivatives, derived from the reverse ones.

The vjp of an operator is linear in the cotangent u: g = Jᴴu. Differentiating it once more, with respect to u and with the tangents as
cotangents, gives Jt. Since u stands only for itself, it is gone from the result, and what is left is what one would have written by hand:
the tangent of a product is t·b + a·s, of a maximum the mean of the tied tangents, of a sort the tangents in the same order. So no rule is
written twice, and what an operator states about singular points holds for tangents too.

    TangentDef(definition)      the operator `NAME.jvp`: the arguments, then one optional tangent for each tensor
"""
from .. import registry
from . import trace as T
from .differentiate import differentiable, gradients
from .graph import closure


def no_tangent(operator): return NotImplementedError(f'Trying to use forward AD with {operator} that does not support it: its derivative is not implemented')


def push_forward(outputs, inputs, tangents):
    """The tangents of `outputs` (Syms; None: none), given those of `inputs` (nodes)."""
    graph = T.current().graph
    marks = [graph.node('input', (), {'index': None, 'mark': i, 'of': len(graph.nodes)}, o.shape, o.dtype) if differentiable(o.dtype) else None
             for i, o in enumerate(outputs)]
    back = gradients([o.node for o in outputs], [None if m is None else T.Sym(m) for m in marks], inputs)
    back = [None if g is None else T.expand(T.Sym(g), n.shape).node for g, n in zip(back, inputs)]
    for n in closure([g for g in back if g is not None]):
        if n.op == 'check' and n.attrs['underived'] is not None:
            raise no_tangent(n.attrs['underived'])
    tangents = [T.cast(T.expand(t, n.shape), n.dtype) for t, n in zip(tangents, inputs)]
    found = gradients(back, tangents, [m for m in marks if m is not None])
    if any(n in marks for n in closure([f for f in found if f is not None])):
        raise NotImplementedError('its gradient is not linear in the cotangent: it has no forward-mode derivative')
    found = iter(found)
    return [None if m is None else next(found) for m in marks]


class TangentDef(registry.OpDef):
    """The forward derivative of an operator, as an operator. Its tangents are results in the operator's own order."""

    def __init__(self, primal):
        self.primal, self.prefix = primal, 'tangent{}_'.format(primal.name.count('.jvp') or '')      # tangents of tangents have names of their own
        options = dict(on='-', kernel=primal.kernel, node=f'{primal.short_name}JvpBackward0')
        super().__init__(primal.body, [self._extended(s) for s in primal.signatures], options)
        self.name = primal.name + '.jvp'
        self.body = self._trace

    def _extended(self, s):
        params = [registry.Param(p.name, p.type.replace('(a!)', ''), p.default, p.keyword_only) for p in s.params]
        extra = [registry.Param(self.prefix + p.name, 'Tensor?[]' if p.kind == 'Tensor[]' else 'Tensor?', None, True) for p in s.params if p.is_tensor]
        return registry.Signature(s.name, params + extra, [('Tensor', None)] * len(s.returns), f'{s.text} with tangents')

    def _bind_body(self): self.body_binding, self.body_defaults = [], {}
    def arguments(self, values): return [values]

    def _trace(self, values):
        primals = {k: v for k, v in values.items() if not k.startswith(self.prefix)}
        signature = next(s for s in self.primal.signatures if set(s.by_name) == set(primals))
        kinds = {p.name: p.kind for p in signature.params}
        if self.primal.linear is not None: return T.invoke(self.primal, {**primals, self.primal.linear: values[self.prefix + self.primal.linear]}, kinds)
        out = T.invoke(self.primal, primals, kinds)
        outputs = list(out) if isinstance(out, (tuple, list)) else [out]
        inputs, tangents = [], []
        for name, value in primals.items():
            given = values.get(self.prefix + name)
            pairs = zip(value, given) if isinstance(given, list) else [(value, given)]
            for x, t in pairs:
                if t is None: continue
                inputs.append(x.node)
                tangents.append(t)
        found = push_forward(outputs, inputs, tangents)
        of = [self._tangent(o, y) for o, y in zip(found, outputs)]
        return tuple(of) if len(of) > 1 else of[0]

    @staticmethod
    def _tangent(tangent, output):
        """Of one result: zeros where nothing varies it; a result that can have none (indices) gets a 0-dim one that nobody looks at."""
        if not differentiable(output.dtype): return T.const(0.0, 'f32')
        return T.expand(T.const(0.0, output.dtype) if tangent is None else T.Sym(tangent), output.shape)


def derive(name):
    """The definition of `NAME.jvp`, registered when first asked for."""
    return TangentDef(registry.find(name.removesuffix('.jvp')))
