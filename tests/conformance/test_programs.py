"""Ordinary PyTorch programs, run unmodified by torch and by Rushlight: what they print is the same.

A program says `import torch`; for Rushlight only that name is replaced. Two lines agree when they are the same text, or when the same text
surrounds numbers with a fractional part or exponent that agree to RELATIVE (ABSOLUTE near zero: sums that cancel). An error message, on a
line that starts with ERROR, begins with torch's text and may say more.
"""
import contextlib
import io
import pathlib
import re
import sys
import types
import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")

PROGRAMS = sorted((pathlib.Path(__file__).parent / "programs").glob("*.py"))
RELATIVE, ABSOLUTE = 1e-5, 1e-6
ERROR = "error:"
IMPORT = re.compile(r"^(\s*)(import|from) torch\b(\.[\w.]+)?", re.MULTILINE)
FRACTION = re.compile(r"-?\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+)")


def for_library(source: str, library: str) -> str:
    """The program with `torch` meaning another package: `import torch` binds the same name, `torch.x` imports find the other's x."""
    def replaced(match):
        indent, verb, rest = match.group(1), match.group(2), match.group(3) or ""
        return f"{indent}{verb} {library}{rest}" + (" as torch" if verb == "import" and not rest else "")

    return source if library == "torch" else IMPORT.sub(replaced, source)


def printed_by(path: pathlib.Path, library: str) -> list[str]:
    """The lines a program prints. It runs as a module of that name, so that its classes pickle."""
    module = types.ModuleType(f"program_{path.stem}")
    out = io.StringIO()
    sys.modules[module.__name__] = module
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(for_library(path.read_text(), library), f"{path.stem} ({library})", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return out.getvalue().replace("rushlight.", "torch.").splitlines()


def agree(ours: str, theirs: str) -> bool:
    if ours == theirs or theirs.startswith(ERROR) and ours.startswith(theirs): return True
    if FRACTION.sub("#", ours) != FRACTION.sub("#", theirs): return False
    pairs = zip(map(float, FRACTION.findall(ours)), map(float, FRACTION.findall(theirs)))
    return all(abs(a - b) <= RELATIVE * abs(b) + ABSOLUTE for a, b in pairs)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_program_prints_the_same(path):
    theirs, ours = printed_by(path, "torch"), printed_by(path, "rushlight")
    assert theirs, "a program that prints nothing tests nothing"
    differing = [f"line {i + 1}\n  torch:     {b}\n  rushlight: {a}" for i, (a, b) in enumerate(zip(ours, theirs)) if not agree(a, b)]
    assert not differing, "\n".join(differing)
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("writer, reader", [(torch, rushlight), (rushlight, torch)], ids=["from torch", "to torch"])
def test_training_goes_on_in_the_other_library(writer, reader):
    """Three steps, a checkpoint, three more steps by the other library: the losses of six steps by one of them."""
    def build(m):
        m.manual_seed(0)
        model = m.nn.Sequential(m.nn.Linear(4, 8), m.nn.BatchNorm1d(8), m.nn.Tanh(), m.nn.Linear(8, 2))
        return model, m.optim.AdamW(model.parameters(), lr=0.05)

    def train(m, model, optimizer, steps):
        losses = []
        for step in steps:
            x = m.arange(32.0).view(8, 4).mul(0.3 + step).sin()
            loss = m.nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    model, optimizer = build(writer)
    train(writer, model, optimizer, range(3))
    file = io.BytesIO()
    writer.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "half": writer.arange(3, dtype=writer.bfloat16), "epoch": 3}, file)
    file.seek(0)
    found = reader.load(file, weights_only=True)
    other, its_optimizer = build(reader)
    with reader.no_grad():
        for p in other.parameters(): p.zero_()
    other.load_state_dict(found["model"])
    its_optimizer.load_state_dict(found["optimizer"])
    assert found["epoch"] == 3 and str(found["half"].dtype) == "torch.bfloat16" and found["half"].tolist() == [0.0, 1.0, 2.0]
    assert train(reader, other, its_optimizer, range(3, 6)) == pytest.approx(train(writer, model, optimizer, range(3, 6)), rel=RELATIVE)


def test_the_comparison_can_fail():
    assert agree("loss 0.1234567", "loss 0.1234569") and not agree("loss 0.1234", "loss 0.1235")
    assert not agree("tensor([1, 2])", "tensor([1, 3])") and not agree("a 1.0", "b 1.0")
    assert agree("error: bad size. Got -1", "error: bad size.") and not agree("error: bad", "error: bad size.") and not agree("12", "1")
