"""Symbolic integers: the algebra, what the classes decide, what becomes a guard, and the emitted program."""
import random

import pytest

from rushlight.compiler.symbolic import Program, SymInt, contiguous_strides, evaluate, known_equal


def make(*sizes):
    p = Program()
    return p, [p.entry('size', n, f'n{i}') for i, n in enumerate(sizes)]


def test_classes_are_plain_ints():
    p, (a, b, c) = make(0, 1, 7)
    assert (a, b) == (0, 1) and isinstance(c, SymInt) and c.hint == 7
    assert p.entry('sym', -1) == -1 and isinstance(p.entry('sym', -5), SymInt) and isinstance(p.entry('free', 1), SymInt)


def test_canonical_form():
    _, (a, b) = make(3, 4)
    assert known_equal(a + b - b, a) and known_equal((a + 1) * (a - 1), a * a - 1)
    assert known_equal(a * b // b, a) and (a * b) % a == 0 and known_equal(2 * a - a, a)


@pytest.mark.parametrize('question', [lambda a, b: a > 1, lambda a, b: a * b > b, lambda a, b: a * b >= 4, lambda a, b: a != 0, lambda a,
    b: a + b != 3,
                                      lambda a, b: not a * b == b, lambda a, b: a * b + a > b])
def test_class_facts_cost_no_guard(question):
    p, (a, b) = make(3, 4)
    assert question(a, b) and not p.guards


def test_other_comparisons_are_guards_and_asked_once():
    p, (a, b) = make(3, 4)
    assert a < b and a < b and b > a
    assert len(p.guards) == 1


def test_an_equality_is_used_from_then_on():
    p, (a, b, c) = make(5, 5, 4)
    assert a == b and len(p.guards) == 1
    assert known_equal(a * c, b * c) and known_equal(contiguous_strides((b, c))[0] * b, a * c)
    recipe = p.finish(dict(buffers=[], outputs=[], steps=[]))
    for entries, holds in (((5, 5, 4), True), ((9, 9, 2), True), ((5, 6, 4), False)):
        slots = evaluate(entries, recipe['consts'], recipe['program'])
        assert bool(slots[recipe['guards'][0]]) is holds


def test_a_size_is_not_a_number():
    _, (a,) = make(3)
    for bad in (lambda: range(a), lambda: [1][a], lambda: int(a)):
        with pytest.raises(TypeError): bad()


def random_expression(rng, p, leaves, depth):
    if depth == 0: return rng.choice(leaves + [rng.randint(-3, 5)])
    x, y = (random_expression(rng, p, leaves, depth - 1) for _ in range(2))
    return rng.choice([lambda: x + y, lambda: x - y, lambda: x * y, lambda: p.floordiv(x, y), lambda: p.mod(x, y), lambda: p.min(x, y),
        lambda: p.max(x, y),
                       lambda: p.ceildiv(x, y), lambda: p.gcd(x, y), lambda: p.select(p.lt(x, y), x, y), lambda: p.le(x, y),
                           lambda: p.eq(x, y)])()


@pytest.mark.parametrize('seed', range(40))
def test_emitted_programs_compute_what_the_hints_say(seed):
    """Whatever was simplified, the program gives the hint at the hinted sizes, and stays consistent at others."""
    rng = random.Random(seed)
    p, leaves = make(*[rng.randint(2, 9) for _ in range(3)])
    e = random_expression(rng, p, leaves, 3)
    want = e.hint if isinstance(e, SymInt) else e
    handle = p.slot(e)
    recipe = p.finish(dict(buffers=[], outputs=[], steps=[], backward_syms=[handle]))
    assert evaluate(p.entry_hints, recipe['consts'], recipe['program'])[recipe['backward_syms'][0]] == want


@pytest.mark.parametrize('seed', range(40))
def test_simplification_holds_for_all_sizes_of_the_class(seed):
    """The same expression built at other sizes of one class has the value the first program computes there."""
    rng = random.Random(seed)
    first, second = [[rng.randint(2, 9) for _ in range(3)] for _ in range(2)]
    values, program = [], None
    for sizes in (first, second):
        p, leaves = make(*sizes)
        e = random_expression(random.Random(seed + 1000), p, leaves, 3)
        if program is None: program, handle = p, p.slot(e)
        values.append(e.hint if isinstance(e, SymInt) else e)
    recipe = program.finish(dict(buffers=[], outputs=[], steps=[], backward_syms=[handle]))
    assert evaluate(second, recipe['consts'], recipe['program'])[recipe['backward_syms'][0]] == values[1]
