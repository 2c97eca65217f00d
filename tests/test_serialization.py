"""save and load: round trips, sharing, safety, damage; files exchanged with torch when it is there."""
import io
import os
import pickle
import stat
import struct
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, serialization


def content(t):
    """One of everything a checkpoint holds, made with either library."""
    base = t.arange(6.0).reshape(2, 3)
    t.manual_seed(0)
    return {
        "a": base, "row": base[1], "transposed": base.t(), "state": t.nn.Linear(2, 3).state_dict(), "dtype": t.float32,
        "size": t.Size([1, 2]),
        "device": t.device("cpu"), "empty": t.empty(0), "scalar": t.tensor(2.5), "bf16": t.ones(2, dtype=t.bfloat16),
        "half": t.ones(2, dtype=t.float16),
        "bool": t.tensor([True, False]), "int": t.tensor([1, 2]), "byte": t.tensor([1, 255], dtype=t.uint8),
        "u16": t.zeros(2, dtype=t.uint16),
        "complex": t.ones(2, dtype=t.complex64), "parameter": t.nn.Parameter(t.ones(2)),
        "frozen": t.nn.Parameter(t.ones(2), requires_grad=False),
        "leaf": t.ones(2, requires_grad=True), "meta": t.empty(2, device="meta"),
        "plain": [1, 2.5, "x", None, True, b"bytes", (1, 2), 2 ** 70, 1 + 2j], "set": {1, 2}, "ordered": OrderedDict(b=1, a=2),
    }


def same(a, b, path=""):
    """Equal, across libraries."""
    if hasattr(a, "is_meta") and hasattr(a, "stride"):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype) and a.stride() == b.stride(), path
        assert a.requires_grad == b.requires_grad and type(a).__name__ == type(b).__name__, path
        if not a.is_meta:
            if str(a.dtype) == "torch.bfloat16":
                a, b = a.float(), b.float()
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), err_msg=path)
    elif isinstance(a, dict):
        assert list(a) == list(b) and type(a) is type(b), path
        for key in a:
            same(a[key], b[key], f"{path}/{key}")
        if hasattr(a, "_metadata"):
            assert a._metadata == b._metadata
    elif type(a).__module__ in ("torch", "rushlight", "rushlight._C"):
        assert str(a) == str(b), path
    else:
        assert a == b and type(a) is type(b), path


def saved(obj) -> bytes:
    buffer = io.BytesIO()
    rl.save(obj, buffer)
    return buffer.getvalue()


def test_round_trip_through_a_path(tmp_path):
    path = tmp_path / "x.pt"
    original = content(rl)
    rl.save(original, path)
    loaded = rl.load(path)
    same(original, loaded)
    assert os.listdir(tmp_path) == ["x.pt"]
    loaded["a"][1, 0] = 99.0
    assert loaded["row"][0].item() == 99.0, "views share their storage"


def test_round_trip_through_a_file_object():
    original = content(rl)
    same(original, rl.load(io.BytesIO(saved(original))))


def test_records_are_aligned_and_named_as_torchs(tmp_path):
    path = tmp_path / "name.pt"
    rl.save({"a": rl.ones(5), "b": rl.ones(3)}, path)
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["name/data.pkl", "name/.format_version", "name/.storage_alignment", "name/byteorder", "name/data/0",
                                      "name/data/1", "name/version", "name/.data/serialization_id"]
        assert archive.testzip() is None and archive.read("name/version") == b"3\n"
        for info in archive.infolist():
            name, extra = struct.unpack("<HH", raw[info.header_offset + 26:info.header_offset + 30])
            assert (info.header_offset + 30 + name + extra) % 64 == 0 and info.compress_type == zipfile.ZIP_STORED


def test_equal_content_gives_an_equal_file():
    assert saved(content(rl)) == saved(content(rl))


def test_mmap(tmp_path):
    path = tmp_path / "x.pt"
    rl.save({"a": rl.arange(1000.0)}, path)
    loaded = rl.load(path, mmap=True)["a"]
    assert rl.equal(loaded, rl.arange(1000.0))
    loaded[0] = 5.0
    assert rl.load(path)["a"][0].item() == 0.0, "a mapped file is not written"
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        rl.load(io.BytesIO(path.read_bytes()), mmap=True)


def test_map_location():
    raw = saved({"a": rl.ones(2)})
    assert rl.load(io.BytesIO(raw), map_location="meta")["a"].is_meta
    assert rl.load(io.BytesIO(raw), map_location=rl.device("cpu"))["a"].tolist() == [1.0, 1.0]
    seen = []
    assert rl.load(io.BytesIO(raw), map_location=lambda storage, where: seen.append(where) or storage)["a"].tolist() == [1.0, 1.0]
    assert seen == ["cpu"]
    elsewhere = raw.replace(b"X\x03\x00\x00\x00cpu", b"X\x03\x00\x00\x00cup")
    elsewhere = _with_good_checksum(elsewhere)
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        rl.load(io.BytesIO(elsewhere))
    assert rl.load(io.BytesIO(elsewhere), map_location={"cup": "cpu"})["a"].tolist() == [1.0, 1.0]


def _with_good_checksum(raw: bytes) -> bytes:
    """The archive with data.pkl's checksum made right after an edit."""
    import zlib
    out = bytearray(raw)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        info = archive.infolist()[0]
        start = info.header_offset + 30 + sum(struct.unpack("<HH", raw[info.header_offset + 26:info.header_offset + 30]))
        fresh = struct.pack("<I", zlib.crc32(raw[start:start + info.file_size]))
        stale = struct.pack("<I", info.CRC)
    return bytes(out.replace(stale, fresh))


# ---------------------------------------------------------------------------------------------------------------- safety
class Dangerous:
    def __reduce__(self):
        return os.system, ("echo executed",)


def test_nothing_is_executed_by_default():
    raw = saved({"x": Dangerous()})
    with pytest.raises(pickle.UnpicklingError, match=r"Weights only load failed[\s\S]*Unsupported global: GLOBAL (posix|nt).system"):
        rl.load(io.BytesIO(raw))


class Config:
    def __init__(self):
        self.width = 3


def test_safe_globals():
    raw = saved(Config())
    with pytest.raises(pickle.UnpicklingError, match="was not an allowed global by default"):
        rl.load(io.BytesIO(raw))
    with serialization.safe_globals([Config]):
        assert rl.load(io.BytesIO(raw)).width == 3
    with pytest.raises(pickle.UnpicklingError):
        rl.load(io.BytesIO(raw))
    assert rl.load(io.BytesIO(raw), weights_only=False).width == 3


def test_a_file_may_not_change_classes():
    program = pickle.PROTO + b"\x02ctorch.nn.parameter\nParameter\n(N}X\x01\x00\x00\x00xK\x01st" + b"b."
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("x/data.pkl", program)
    raw.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="may not change Parameter"):
        rl.load(raw)
    assert not hasattr(nn.Parameter, "x")


def test_a_tensor_stays_inside_its_storage():
    program = (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storage"
               b"ctorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x02tQ"
               b"K\x00K\x64\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR.")
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("x/data.pkl", program)
        archive.writestr("x/data/0", b"\0" * 8)
    raw.seek(0)
    with pytest.raises(RuntimeError, match="are out of bounds for storage of size 8"):
        rl.load(raw)


# ---------------------------------------------------------------------------------------------------------------- damage
def test_damaged_files():
    raw = saved({"a": rl.arange(100.0)})
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed reading zip archive: failed finding central directory"):
        rl.load(io.BytesIO(raw[:len(raw) // 2]))
    at = raw.index(rl.arange(100.0).numpy().tobytes())
    flipped = bytearray(raw)
    flipped[at + 10] ^= 1
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed reading file data/0: file read failed"):
        rl.load(io.BytesIO(bytes(flipped)))
    with pytest.raises(EOFError, match="Ran out of input"):
        rl.load(io.BytesIO(b""))
    with pytest.raises(pickle.UnpicklingError, match="invalid load key, 'h'"):
        rl.load(io.BytesIO(b"hello"))
    with pytest.raises(RuntimeError, match="Invalid magic number"):
        rl.load(io.BytesIO(pickle.dumps({"a": 1})))
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme", b"x")
    other.seek(0)
    with pytest.raises(RuntimeError, match="failed locating file data.pkl: file not found"):
        rl.load(other)


@pytest.mark.parametrize("step", [1, 7])
def test_no_cut_is_mistaken_for_a_file(step):
    raw = saved({"a": rl.arange(4.0)})
    for length in range(0, len(raw), 97 * step):
        with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError)):
            rl.load(io.BytesIO(raw[:length]))


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    rl.save({"a": 1}, path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        rl.save({"a": lambda: 1}, path)
    assert rl.load(path) == {"a": 1} and os.listdir(tmp_path) == ["x.pt"]
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist."):
        rl.save(1, tmp_path / "no" / "x.pt")
    with pytest.raises(AttributeError, match="with a 'write' attribute"):
        rl.save(1, 3)


def test_permissions_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    rl.save(1, real)
    os.chmod(real, 0o640)
    link.symlink_to(real)
    rl.save(2, link)
    assert link.is_symlink() and rl.load(real) == 2 and stat.S_IMODE(os.stat(real).st_mode) == 0o640


# -------------------------------------------------------------------------------------------------------- plain pickling
def test_pickle_of_tensors():
    base = rl.arange(6.0)
    first, view = pickle.loads(pickle.dumps((base, base[2:4])))
    first[2] = 50.0
    assert view[0].item() == 50.0, "tensors pickled together go on sharing"
    for tensor in (rl.ones(2, 3).t(), rl.ones(2, dtype=rl.bfloat16), rl.empty(0, 3), rl.ones(2, requires_grad=True),
                   rl.empty(2, device="meta")):
        same(tensor, pickle.loads(pickle.dumps(tensor)))


def test_attributes_survive():
    tensor = rl.ones(2)
    tensor.note = "mine"
    assert pickle.loads(pickle.dumps(tensor)).note == "mine"
    assert rl.load(io.BytesIO(saved(tensor))).note == "mine"
    param = nn.Parameter(rl.ones(1))
    param.note = "kept"
    assert rl.load(io.BytesIO(saved(param))).note == "kept"


def test_whole_model():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    raw = saved(model)
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL torch.nn.modules.container.Sequential"):
        rl.load(io.BytesIO(raw))
    again = rl.load(io.BytesIO(raw), weights_only=False)
    x = rl.randn(3, 2)
    assert rl.equal(again(x), model(x))


# ---------------------------------------------------------------------------------------------------------- beside torch
def test_torch_reads_our_files(tmp_path):
    torch = pytest.importorskip("torch")
    path = str(tmp_path / "x.pt")
    rl.save(content(rl), path)
    loaded = torch.load(path)
    same(content(torch), loaded)
    loaded["a"][1, 0] = 99.0
    assert loaded["row"][0].item() == 99.0
    same(content(torch), torch.load(path, mmap=True))


def test_we_read_torchs_files(tmp_path):
    torch = pytest.importorskip("torch")
    path = str(tmp_path / "x.pt")
    torch.save(content(torch), path)
    same(content(rl), rl.load(path))
    same(content(rl), rl.load(path, mmap=True))


def test_optimizers_and_models_cross_over(tmp_path):
    torch = pytest.importorskip("torch")
    path = str(tmp_path / "x.pt")

    def trained(t):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Linear(4, 2))
        optimizer = t.optim.AdamW(model.parameters())
        for _ in range(2):
            model(t.randn(5, 3)).sum().backward()
            optimizer.step()
        return model, optimizer

    for writer, reader in ((rl, torch), (torch, rl)):
        model, optimizer = trained(writer)
        writer.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        other, other_optimizer = trained(reader)
        state = reader.load(path)
        other.load_state_dict(state["model"])
        other_optimizer.load_state_dict(state["optimizer"])
        x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
        model.eval(), other.eval()
        np.testing.assert_allclose(model(writer.from_numpy(x)).detach().numpy(), other(reader.from_numpy(x)).detach().numpy(), rtol=1e-5,
                                   atol=1e-6)
        assert [int(entry["step"]) for entry in other_optimizer.state.values()] == [2] * 6
        writer.save(model, path)
        whole = reader.load(path, weights_only=False)
        assert type(whole[0]).__module__.split(".")[0] == reader.__name__
        np.testing.assert_allclose(model(writer.from_numpy(x)).detach().numpy(), whole(reader.from_numpy(x)).detach().numpy(), rtol=1e-4,
                                   atol=1e-5)


def test_the_format_before_zip_files():
    torch = pytest.importorskip("torch")
    w = torch.randn(3, 4)
    file = io.BytesIO()
    torch.save({"a": w, "row": w[1], "rest": [torch.arange(3), torch.nn.Parameter(torch.ones(2))], "h": torch.ones(2, dtype=torch.bfloat16)}, file,
               _use_new_zipfile_serialization=False)
    raw = file.getvalue()
    found = rl.load(io.BytesIO(raw))
    assert found["a"].tolist() == w.tolist() and isinstance(found["rest"][1], rl.nn.Parameter) and found["h"].dtype is rl.bfloat16
    found["a"][1] = 7
    assert found["row"].tolist() == [7.0] * 4                 # the memory is shared, as it was
    for cut in range(0, len(raw), 37):
        with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError)): rl.load(io.BytesIO(raw[:cut]))
