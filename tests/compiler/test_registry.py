"""Schemas, binding of bodies, and the registry's promises."""
import pytest

import rushlight as rl
from rushlight import registry
from rushlight.compiler import trace as T
from rushlight.registry import REQUIRED, parse_schema


def test_schema_types_defaults_and_returns():
    s = parse_schema("f(Tensor self, Tensor|Scalar other, int[2] size=1, str? mode='a,b', *, Scalar! p=0.5, Tensor?[] xs=[]) "
                     "-> (Tensor values, Tensor indices)")
    assert [p.kind for p in s.params] == ['Tensor', 'Tensor|Scalar', 'int[]', 'str', 'Scalar!', 'Tensor[]']
    assert [p.default for p in s.params] == [REQUIRED, REQUIRED, 1, 'a,b', 0.5, []]
    assert [p.keyword_only for p in s.params] == [False] * 4 + [True] * 2
    assert s.returns == [('Tensor', 'values'), ('Tensor', 'indices')]


def test_mutated_parameters():
    s = parse_schema('f_(Tensor(a!) self, Tensor src) -> Tensor')
    assert [p.mutated for p in s.params] == [True, False] and s.params[0].kind == 'Tensor'


@pytest.mark.parametrize('bad', ['f(Tensor self)', 'f Tensor -> Tensor', 'f(Tensor) -> Tensor'])
def test_bad_schemas_say_so(bad):
    with pytest.raises(ValueError): parse_schema(bad)


def define(schema, body, **options):
    """A definition that does not stay in the registry."""
    definition = registry.op(schema, on='-', **options)(body)
    del registry._definitions[definition.name]
    return definition


def test_bodies_bind_by_name_then_in_order():
    d = define('_t(Tensor self, int dim, Scalar beta=1) -> Tensor', lambda x, beta, dim: None)
    assert d.arguments(dict(self='S', dim=3, beta=2)) == ['S', 2, 3]


def test_overloads_share_one_body():
    d = define(['_t(Tensor self) -> Tensor', '_t(Tensor self, int dim, bool keepdim=False) -> Tensor'], lambda self, dim=None,
        keepdim=False: None)
    assert d.arguments(dict(self='S')) == ['S', None, False]
    assert d.arguments(dict(self='S', dim=1, keepdim=True)) == ['S', 1, True]


def test_a_body_that_forgets_a_parameter_fails_at_import():
    with pytest.raises(TypeError): define('_t(Tensor self, int dim) -> Tensor', lambda x: None)
    with pytest.raises(TypeError): define('_t(Tensor self) -> Tensor', lambda x, y: None)


def test_every_definition_is_found_by_name():
    for d in registry.all(): assert registry.find(d.name) is d


def test_a_derived_gradient_is_not_lost_behind_a_view():
    """An operator that states some gradients, called on a view: the others are derived through its body, which views it again."""
    @registry.op("_stated_in_part(Tensor self, Tensor other) -> Tensor", rule=None, on="-", out=False)
    def inner(x, y): return T.reshape(x, (-1,)) * y

    @inner.gradient("other")
    def _(grad, self): return T.reduce_all("sum", grad * T.reshape(self, (-1,)))

    @registry.op("_calls_it_on_a_view(Tensor self, Tensor other) -> Tensor", rule=None, on="-", out=False)
    def outer(x, y): return inner(T.reshape(x, (x.shape[1], x.shape[0])), y)
    x, y = rl.rand(2, 3, requires_grad=True), rl.tensor(2.0, requires_grad=True)
    outer.op.function(x, y).sum().backward()
    assert rl.equal(x.grad, rl.full((2, 3), 2.0))
    rl.testing.assert_close(y.grad, x.detach().sum())
