"""The compile hook: keys, stored recipes, and that a warm cache needs no compiler."""
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import plans, registry


def tensor(shape, strides, code=8): return (code, 0, tuple(shape), tuple(strides), 0)


def add(shape, strides): return ('op', 'add', 0, 0, 0, [tensor(shape, strides), tensor(shape, strides)], None, 'f32')


def test_keys_forget_sizes_but_not_classes():
    key = lambda *a: plans.generic_key(add(*a))
    assert key((3, 4), (4, 1)) == key((30, 7), (7, 1))
    assert key((3, 4), (4, 1)) != key((3, 4), (1, 3))          # another order in memory
    assert key((3, 4), (4, 1)) != key((3, 1), (1, 1))          # a size of 1
    assert key((3, 4), (4, 1)) != key((3, 4), (8, 2))          # no unit stride


def test_entries_come_in_the_runtimes_order():
    assert plans.entry_values(add((3, 4), (4, 1))) == [3, 4, 4, 1, 3, 4, 4, 1]


@pytest.mark.parametrize('name, params, expected', [
    ('add', [tensor((2,), (1,)), 'f'], 0), ('add', [tensor((2,), (1,)), 'f', 'i'], 1),
    ('var', [tensor((2,), (1,)), True], 0), ('var', [tensor((2,), (1,)), (0,), False, False], 1), ('var', [tensor((2,), (1,)), (0,), 'i',
        False], 2),
    ('clamp', [tensor((2,), (1,)), None, 'f'], 0), ('clamp', [tensor((2,), (1,)), None, tensor((2,), (1,))], 1)])
def test_the_schema_is_told_by_the_arguments(name, params, expected):
    assert plans.chosen_signature(registry.find(name), params) == expected


def test_a_sliced_tensor_reuses_the_recipe_of_another_width():
    x = rl.ones(6, 40)
    (x[:, :5] + x[:, 5:10]).sum()
    before = plans.counters['compiled']
    for width in range(6, 20): (x[:, :width] + x[:, 20:20 + width]).sum()
    assert plans.counters['compiled'] == before


def test_growing_prefixes_enter_the_compiler_twice(monkeypatch):
    """A product over a prefix, then softmax, from a prefix of one element on: one recipe for each operator."""
    from rushlight.compiler import cache
    monkeypatch.setattr(cache, 'get', lambda kind, key, found=cache.get: None if kind == 'recipe' else found(kind, key))
    monkeypatch.setattr(cache, 'put', lambda kind, key, data, store=cache.put: None if kind == 'recipe' else store(kind, key, data))
    monkeypatch.setattr(plans, 'MEMORY', {})
    x, w = rl.rand(7, 60), rl.rand(60, 9)
    rl._C.clear_plans()
    before = plans.counters['compiled']
    for t in range(1, 61): (x[:, :t] @ w[:t]).softmax(-1)
    assert plans.counters['compiled'] == before + 2


@pytest.mark.parametrize('left, right', [((5, 1), (1, 4)), ((5, 1), (4, 1)), ((1, 1), (1, 4)), ((1, 1), (1, 1)), ((5, 1), (1, 1)), ((3, 5, 1), (1, 4)),
                                         ((3, 5, 1), (3, 1, 4)), ((1,), (1,)), ((5, 1), (1,)), ((1,), (1, 4))])
@pytest.mark.parametrize('sliced', [False, True])
def test_a_product_over_one_element(left, right, sliced):
    """Size 1 shares the recipe of longer sums where it can, whatever the strides; the product is the plain one."""
    transposed = right == (4, 1)
    make = lambda shape: (rl.rand(*[s + 3 for s in shape])[tuple(slice(0, s) for s in shape)] if sliced else rl.rand(*shape))
    a, b = make(left), make(right)
    if transposed: b = b.t()
    for _ in range(2):
        out = a @ b
        wide_a = a if a.ndim > 1 else a[None]
        wide_b = b if b.ndim > 1 else b[:, None]
        expected = (wide_a * wide_b).reshape(out.shape)          # one product each: nothing is rounded twice
        assert rl.equal(out, expected), (out, expected)
        plans.MEMORY.clear()
        rl._C.clear_plans()
    assert rl.equal((a.clone().requires_grad_() @ b).detach(), a @ b)


PROGRAM = """
import sys
import rushlight as rl
x = rl.ones(3, 4, requires_grad=True)
rl.softmax(x * 2, 1).sum().backward()
print([m for m in ('llvmlite', 'rushlight.compiler.request', 'rushlight.compiler.trace', 'rushlight.compiler.backend') if m in sys.modules])
"""


def test_a_warm_cache_imports_no_compiler(tmp_path):
    import os
    env = dict(os.environ, RUSHLIGHT_CACHE_DIR=str(tmp_path), PYTHONPATH=os.pathsep.join(sys.path))
    run = lambda: subprocess.run([sys.executable, '-c', PROGRAM], env=env, capture_output=True, text=True, check=True).stdout.strip()
    run()
    assert run() == '[]'


def test_damaged_recipes_are_compiled_again(tmp_path, monkeypatch):
    from rushlight.compiler import cache
    request = add((3, 5), (5, 1))
    monkeypatch.setenv('RUSHLIGHT_CACHE_DIR', str(tmp_path))
    monkeypatch.setattr(plans, 'MEMORY', {})
    cache.put('recipe', f'{plans.source_stamp()} {plans.generic_key(request)[1]}', b'not a recipe')
    assert plans.recipe_for(request)['outputs'] == [('buffer', 0)]
