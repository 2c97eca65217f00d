"""Schemas, binding of bodies, and the registry's promises."""
import pytest

from rushlight import registry
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
