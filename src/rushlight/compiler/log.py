"""RUSHLIGHT_LOG=plan,graph,loops,llvm,asm,time: each stage printed to stderr as it happens. `all` for everything.

    plan     each question the runtime asks the compiler: the key, whether an answer was found, and the recipe
    graph    what is computed, before fusion          loops   kernels after fusion, with the reason why each value is stored
    llvm     the IR text of each kernel               asm     its machine code
    time     how long each answer took, and where the time went

The variable is read once, when the first module that logs is imported. Unset, a check of an empty set is all it costs, and only where
something is compiled; calls that replay a plan never come here. `rushlight.explain(fn, *args)` shows the same for one call, in order.
"""
import os
import sys

STAGES = ('plan', 'graph', 'loops', 'llvm', 'asm', 'time')


def read(text):
    wanted = frozenset(filter(None, (word.strip() for word in text.split(','))))
    unknown = wanted - set(STAGES) - {'all'}
    if unknown: raise ValueError(f'RUSHLIGHT_LOG={text}: unknown {", ".join(sorted(unknown))}; the stages are {", ".join(STAGES)}, all')
    return frozenset(STAGES) if 'all' in wanted else wanted


WANTED = read(os.environ.get('RUSHLIGHT_LOG', ''))


def write(stage, title, text=''):
    """One block: a heading that says which stage, then its lines, indented."""
    lines = [f'[{stage}] {title}'] + ['    ' + line for line in text.splitlines()]
    print('\n'.join(lines), file=sys.stderr)


def answered(key, recipe, seconds, how):
    """A request was answered: `how` is found or compiled."""
    if 'plan' in WANTED:
        from .explain import recipe_text
        write('plan', f'{how}: {key}', recipe_text(recipe))
    if 'time' in WANTED:
        from . import jit
        spent = ', '.join(f'{name} {jit.times[name] * 1e3:.1f}' for name in ('parse', 'optimise', 'generate'))
        write('time', f'{how} in {seconds * 1e3:.2f} ms: {key[:100]}', f'LLVM so far, ms: {spent}; {jit.times["count"]} kernels')
