"""Bad input is refused as torch refuses it: the same type, the same first words, and nothing written before the error."""
import json

import pytest
import refused

import rushlight as rl

STORED = json.loads(refused.FILE.read_text())

# Where our words are better than torch's, on purpose: program -> how ours begin.
OURS: dict[str, str] = {
    "m.empty_strided((2,), (-1,))": "Storage size calculation overflowed with a negative stride: stride[0] is -1",
    "m.sum(x, 'a')": "sum(): argument 'dim' (position 2) must be tuple of ints, not str",
    "x.shape = (3, 2)": "attribute 'shape' of 'Tensor' objects is not writable",
    "m.load(io.BytesIO(b'nonsense'))": "invalid load key, 'n': this is not a file written by save",
}


def test_every_program_is_stored():
    assert list(STORED) == refused.programs() and set(OURS) <= set(STORED)


@pytest.mark.parametrize("program", STORED)
def test_refused_alike(program):
    found = refused.refusal(rl, program)
    assert found is not None, f"accepted; torch says {STORED[program]}"
    kind, words, written = found
    assert kind == STORED[program][0], (kind, words, STORED[program])
    assert words.startswith(OURS.get(program, STORED[program][1])), words
    assert not written, f"written before the error: {written}"


def test_a_write_before_an_error_would_be_seen():
    assert refused.refusal(rl, "x.zero_() + m.ones(7)")[2] == ["x"]
    assert refused.refusal(rl, "x.resize_(1, 1) + 'a'")[2] == ["x"]
    assert refused.refusal(rl, "x + 1") is None
