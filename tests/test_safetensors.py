"""safetensors: round trips, memory-mapped reading, and files that are not what they say."""
import json
import random
import struct

import pytest

import rushlight as rl
from rushlight import safetensors as st

TENSORS = {"x": rl.arange(12.0).view(3, 4), "empty": rl.empty(0, 3), "half": rl.arange(5).to(rl.bfloat16), "n": rl.arange(3, dtype=rl.int8), "flag": rl.tensor(True),
           "c": rl.tensor([1 + 2j]), "turned": rl.arange(6.0).view(2, 3).t()}


def test_round_trip(tmp_path):
    path = tmp_path / "m.safetensors"
    st.save_file(TENSORS, path, metadata={"format": "pt"})
    for found in (st.load_file(path), st.load(st.save(TENSORS))):
        assert set(found) == set(TENSORS)
        for name, t in TENSORS.items(): assert found[name].dtype is t.dtype and rl.equal(found[name], t), name
    with st.safe_open(path) as file:
        assert file.metadata() == {"format": "pt"} and rl.equal(file.get_slice("x")[1:, :2], TENSORS["x"][1:, :2]) and file.get_slice("x").get_shape() == [3, 4]
        with pytest.raises(st.SafetensorError, match="does not contain"): file.get_tensor("no")


def test_writing_to_a_loaded_tensor_leaves_the_file(tmp_path):
    path = tmp_path / "m.safetensors"
    st.save_file({"x": rl.zeros(4)}, path)
    st.load_file(path)["x"].add_(1)
    assert rl.equal(st.load_file(path)["x"], rl.zeros(4))


def made(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.mark.parametrize("file", [
    b"", b"\0" * 7, made({}, length=10 ** 12), made({}, length=99), made(b"\xff\xfe{}"), made(b"[]"), made(b"{"), made({"a": 1}),
    made({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"\0" * 4), made({"a": {"dtype": "Q9", "shape": [], "data_offsets": [0, 4]}}, b"\0" * 4),
    made({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"\0" * 8), made({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, b"\0" * 4),
    made({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4),
    made({"a": {"dtype": "F32", "shape": [2 ** 40, 2 ** 40], "data_offsets": [0, 4]}}, b"\0" * 4), made({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 5),
    made(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4),
])
def test_a_file_that_lies_is_refused(file, tmp_path):
    with pytest.raises(st.SafetensorError): st.load(file)
    path = tmp_path / "bad"
    path.write_bytes(file)
    with pytest.raises(st.SafetensorError): st.load_file(path)


def test_damaged_files_are_refused_or_read():
    chooser, good = random.Random(0), st.save(TENSORS)
    for _ in range(500):
        data = bytearray(good)
        for _ in range(chooser.randint(1, 3)): data[chooser.randrange(300)] = chooser.randrange(256)
        if chooser.random() < 0.3: del data[chooser.randrange(len(data)):]
        try: st.load(bytes(data))
        except st.SafetensorError: pass


@pytest.mark.parametrize("tensors, error", [({"a": 1}, ValueError), ([1], ValueError), ({1: rl.ones(1)}, ValueError), ({"a": TENSORS["x"], "b": TENSORS["x"][0]}, RuntimeError),
                                            ({"a": rl.ones(1, dtype=rl.complex128)}, st.SafetensorError)])
def test_what_cannot_be_written(tensors, error, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"before")
    with pytest.raises(error): st.save_file(tensors, path)
    assert path.read_bytes() == b"before"
