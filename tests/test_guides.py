"""The guide's programs run as they are written: the blocks of a page in order, in one folder that has the files they speak of."""
import ast
import contextlib
import doctest
import functools
import io
import multiprocessing
import pathlib
import re
import struct
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import models, safetensors

GUIDE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "guide"
pytestmark = pytest.mark.skipif(not GUIDE.is_dir(), reason="the documentation is not beside the tests")


def blocks(page):
    """(program, what the page says it prints, or None) for each: a block without a language right after a program is its output."""
    return [(code, said) for code, _, said in re.findall(r"```python\n(.*?)```\n(```\n(.*?)```)?", (GUIDE / page).read_text(), re.S)]


def idx(path, shape, data): path.write_bytes(struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + data)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Small stand-ins for what a reader has: names, Fashion-MNIST, a photo, GPT-2's weights."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.txt").write_text("Ada\nBlaise\n")
    data = tmp_path / "data"
    data.mkdir()
    for part in ("train", "t10k"):
        idx(data / f"{part}-images-idx3-ubyte", (5, 28, 28), bytes(range(256)) * 15 + bytes(80))
        idx(data / f"{part}-labels-idx1-ubyte", (5,), bytes([0, 3, 9, 1, 2]))
    small = functools.partial(models.GPT2, vocabulary=4000, context=64, width=32, layers=2, heads=2)
    monkeypatch.setattr(models, "GPT2", small)
    weights = {k.removeprefix("transformer."): v for k, v in small().state_dict().items() if k.startswith("transformer.")}
    safetensors.save_file({**weights, "h.0.attn.bias": rl.ones(1, 1, 64, 64)}, "gpt2.safetensors")
    return tmp_path


def run(page, wanted, **space):
    """The names that a page's programs leave behind. Sessions (>>>) are compared line by line, and so is what programs print."""
    space = {"__name__": "guide", "printed": "", **space}
    found = blocks(page)
    assert len(found) >= wanted
    for number, (code, said) in enumerate(found):
        if code.startswith(">>>"):
            session = doctest.DocTestParser().get_doctest(code, space, f"{page} {number}", page, 0)
            told = io.StringIO()
            failed = doctest.DocTestRunner(verbose=False).run(session, out=told.write, clear_globs=False).failed
            assert not failed, told.getvalue()
            space.update(session.globs)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed): exec(compile(code, page, "exec"), space)
        if said: assert printed.getvalue() == said
        space["printed"] += printed.getvalue()
    return space


def photo(path):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (320, 280), (200, 30, 90)).save(path / "photo.png")


def test_data(files, monkeypatch):
    photo(files)
    contexts = multiprocessing.get_context
    monkeypatch.setattr(multiprocessing, "get_context", lambda method=None: contexts(method or "fork"))      # the page is no file that a worker could import
    space = run("data.md", 6, __name__="__main__")
    assert space["loader"].num_workers == 2
    assert list(space["names"]) == ["Ada\n", "Blaise\n"] and space["image"].shape == (1, 28, 28) and space["label"] == 0
    assert space["batch"].shape == (4, 3, 224, 224) and space["batch"].dtype is rl.float32


def test_models(files):
    photo(files)
    space = run("models.md", 3)
    assert space["scores"].shape == (1, 10) and space["loss"].item() > 0
    assert re.search(r"tensor\(\[\[ *464, *3280, *318,", space["printed"])


def test_readme():
    """The training loop stands for the reader's own loader; the operator shown is the one that there is."""
    loader = [(rl.randn(8, 64), rl.randint(10, (8,)))] * 2
    found = blocks("../../README.md")
    space = {"loader": loader}
    for code, _ in found[:2]: exec(compile(code, "README.md", "exec"), space)
    assert space["loss"].item() > 0 and len(found) == 3
    assert _body(found[2][0]) == _body((GUIDE.parent.parent / "src" / "rushlight" / "ops" / "activation.py").read_text())


def _body(source, name="softplus"):
    """What a function does, without its description."""
    function, = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name]
    return [ast.dump(n) for n in function.body[1:]]


def test_first_page(): assert run("../index.md", 1)["loss"].item() > 0
def test_first_steps(): run("first-steps.md", 3)
def test_sparse(): run("sparse.md", 3)


def test_derivatives():
    space = run("derivatives.md", 2)
    assert space["t"].item() == 3 and space["per_example"].shape == (5, 3, 4) and space["curvature"].shape == (4, 4)


def test_array_api(): run("array-api.md", 1)


def test_torch_programs():
    (code, _), = blocks("run-torch-programs.md")
    done = subprocess.run([sys.executable, "-c", code + "print(torch is rushlight, F is rushlight.nn.functional)"], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True True\n", done.stderr
