"""explain() and RUSHLIGHT_LOG: every stage is there, and is what the compiler really made."""
import io
import os
import subprocess
import sys

import pytest

import rushlight as rl


def explained(fn, *args, **options):
    out = io.StringIO()
    assert rl.explain(fn, *args, file=out, **options) is None
    return out.getvalue()


def test_all_stages_of_one_call():
    a, b = rl.randn(2, 3).requires_grad_(), rl.randn(3).requires_grad_()
    text = explained(rl.add, a, b, stages='all')
    assert 'call 0: add(self: float32[2, 3], other: float32[3])' in text
    assert 'f32[self0.0, self0.1] = add(%0, %1)' in text                   # graph
    assert "node AddBackward0, keeps nothing" in text and "reduce(%0, kind='sum', dims=(0,))" in text
    assert 'is stored: a result' in text                                    # loops
    assert 'entry slots s0..s5: [2, 3, 3, 1, 3, 1]' in text and 'buffer 0: f32[2, 3], strides [3, 1], 24 bytes' in text
    assert 'fadd <32 x float>' in text and 'define i64 @kernel' in text
    assert 'bytes of object code' in text and 'lines of IR' in text
    assert 'ret' in text.split('machine code of launch 0')[1]


def test_chosen_stages_and_repeated_calls():
    x = rl.randn(4)
    text = explained(lambda x: (x * 2).exp() + (x * 2).exp(), x, stages='graph')
    assert text.count('graph:') == 3 and 'is the same as call 0' in text and 'is the same as call 1' in text
    assert 'loops:' not in text
    with pytest.raises(ValueError, match='unknown stage colour'): rl.explain(rl.exp, x, stages='colour')


def test_a_compiled_function_shows_its_segments():
    def f(x):
        y = x * 2 + 1
        y.add_(1)
        return y.exp().sum()
    text = explained(rl.compile(f), rl.randn(5), stages='graph loops')
    assert 'segment 0: 2 calls' in text and 'mul, add' in text
    assert 'segment 1: add_' in text and 'it writes its operands' in text
    assert 'segment 2: 2 calls' in text and 'exp, sum' in text


def test_explaining_leaves_compile_as_it_was():
    f = rl.compile(lambda x: (x + 1) * 2)
    x = rl.randn(3)
    explained(rl.add, x, x)
    assert rl.equal(f(x), (x + 1) * 2) and rl._C.recording() == []
    with pytest.raises(ZeroDivisionError): explained(lambda x: (x + 1, 1 // 0), x)
    assert not rl._C.get_guard() & rl._C.G_RECORD


def test_log(tmp_path):
    # A kind of call that no pack has: every stage must happen.
    program = "import rushlight as rl; a = rl.ones(2, 3, 4, dtype=rl.float64).permute(2, 0, 1)[::2]; print(rl.logaddexp(a, a - a)[0, 0, 0].item() > 1)"

    def run(value):
        env = {**os.environ, 'RUSHLIGHT_CACHE_DIR': str(tmp_path / value), 'RUSHLIGHT_LOG': value}
        return subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, env=env)
    assert run('').stderr == ''
    done = run('all')
    assert done.stdout == 'True\n'
    for stage in ('plan', 'graph', 'loops', 'llvm', 'asm', 'time'): assert f'[{stage}]' in done.stderr
    assert '[llvm]' not in run('plan').stderr
    assert 'unknown colour' in run('colour').stderr
