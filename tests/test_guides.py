"""The guide's programs run as they are written: the blocks of a page in order, in one folder that has the files they speak of."""
import functools
import pathlib
import re
import struct

import pytest

import rushlight as rl
from rushlight import models, safetensors

GUIDE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "guide"
pytestmark = pytest.mark.skipif(not GUIDE.is_dir(), reason="the documentation is not beside the tests")


def blocks(page): return re.findall(r"```python\n(.*?)```", (GUIDE / page).read_text(), re.S)


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


def run(page, wanted):
    space = {"__name__": "guide"}
    found = blocks(page)
    assert len(found) >= wanted
    for block in found: exec(compile(block, page, "exec"), space)
    return space


def photo(path):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (320, 280), (200, 30, 90)).save(path / "photo.png")


def test_data(files):
    photo(files)
    space = run("data.md", 6)
    assert list(space["names"]) == ["Ada\n", "Blaise\n"] and space["image"].shape == (1, 28, 28) and space["label"] == 0
    assert space["batch"].shape == (4, 3, 224, 224) and space["batch"].dtype is rl.float32


def test_models(files, capsys):
    photo(files)
    space = run("models.md", 3)
    assert space["scores"].shape == (1, 10) and space["loss"].item() > 0
    assert re.search(r"tensor\(\[\[ *464, *3280, *318,", capsys.readouterr().out)
