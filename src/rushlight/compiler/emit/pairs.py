"""Rows that are the pairs of n things (`pdist`): both members of a pair are counted along from row to row instead of found from its number by a root."""
from ..loops import is_one, is_zero
from ..primitives import PRIMITIVES
from .ir import Var

MEMBERS = ('pair_first', 'pair_second')


def pair_counters(k, axes, start):
    """Counters for the members of the pair whose number is the row's own, from row `start` on: one for each n."""
    def counts_rows(e):
        return e.op == 'index' and len(axes) == 1 and e.axes == {axes[0]} and is_one(e.attrs['affine'].terms[axes[0]]) and is_zero(e.attrs['affine'].const)
    members = {}
    for e in k.exprs:
        if e.op in MEMBERS and counts_rows(e.args[0]) and not e.args[1].axes: members.setdefault(e.args[1], []).append(e)
    return [PairCounter(k, k.top.value(n), found, start) for n, found in members.items()]


class PairCounter:
    def __init__(self, k, n, members, start):
        self.f, self.n, self.members = k.f, n, members
        self.at = [Var(k.f, PRIMITIVES[op].emit(k.f, 'i64', start, n)) for op in MEMBERS]

    def enter(self, row):
        for e in self.members: row.memo[e, 1] = self.at[MEMBERS.index(e.op)].get()

    def advance(self):
        first, second = (v.get() for v in self.at)
        over = (second + 1).eq(self.n)
        first = first + self.f.convert('zext', over, 'i64')
        self.at[0].set(first)
        self.at[1].set(self.f.select(over, first, second) + 1)
