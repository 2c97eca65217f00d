"""The command, the demo, the bundled data."""
import os
import struct
import zlib

import rushlight as rl
from rushlight import __main__ as command
from rushlight import demo
from rushlight.datasets import Digits, load_digits
from rushlight.utils.canvas import Canvas


def test_digits_are_all_there():
    images, classes = load_digits()
    assert images.shape == (1797, 8, 8) and images.dtype == rl.uint8 and images.max().item() == 16
    counts = [(classes == digit).sum().item() for digit in range(10)]
    assert counts == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    train, test = Digits(train=True), Digits(train=False)
    assert len(train) == 1437 and len(test) == 360
    assert train.images.max().item() == 1.0


def test_demo_learns_saves_and_draws(tmp_path):
    score = demo.main(str(tmp_path), quiet=True)
    assert score > 0.97
    assert sorted(os.listdir(tmp_path)) == ["rushlight-demo.png", "rushlight-demo.pt"]
    state = rl.load(tmp_path / "rushlight-demo.pt")
    model = demo.Classifier()
    model.load_state_dict(state["model"])
    test = Digits(train=False)
    assert demo.accuracy(model, test.images, test.classes) == score == state["accuracy"]


def test_canvas_is_a_valid_png(tmp_path):
    canvas = Canvas(20, 10)
    canvas.rectangle(-5, 2, 10, 3, (255, 0, 0))
    canvas.line(0, 0, 100, 100, (0, 0, 0), 3)
    canvas.text(2, 1, "Ab9?", (0, 0, 255))
    raw = canvas.png()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    at, kinds, pixels = 8, [], b""
    while at < len(raw):
        (size,), kind = struct.unpack(">I", raw[at:at + 4]), raw[at + 4:at + 8]
        body = raw[at + 8:at + 8 + size]
        assert struct.unpack(">I", raw[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        kinds.append(kind)
        pixels += body if kind == b"IDAT" else b""
        at += 12 + size
    assert kinds == [b"IHDR", b"IDAT", b"IEND"] and len(zlib.decompress(pixels)) == 10 * (1 + 60)


def test_info(capsys):
    assert command.main(["info"]) == 0
    text = capsys.readouterr().out
    for word in ("rushlight", rl.version.__version__, "cpu", "features", "threads", "cache size"):
        assert word in text
