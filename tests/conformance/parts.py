"""A comparison of many op_db entries as a handful of tests: enough of them to share among processes, few enough to name."""
from __future__ import annotations

import warnings

import pytest
from operators import WHOLE

SIZE = 8


def sampled(table: list, one_in: int = 4) -> list:
    """Every fourth entry, which is what CI has time for; all of them with RUSHLIGHT_WHOLE=1."""
    return table if WHOLE else table[::one_in]


def over_entries(table: list):
    """Makes a test of `check(name, info, ours, ...)`, which gives words for what differs in one entry: it runs over SIZE entries of the sampled table at a time."""
    table = sampled(table)

    def test_of(check):
        @pytest.mark.parametrize("first", range(0, len(table), SIZE))
        def test(first):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = [f"{name}: {words}" for name, info, ours in table[first:first + SIZE] for words in check(name, info, ours)]
            assert not found, "\n".join(found)
        return test
    return test_of
