"""Files that were made to do harm, or that were damaged: an error, and nothing else happens."""
import collections
import io
import pickle
import struct
import zipfile

import pytest

import rushlight as rl


def archive(program: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", program)
        z.writestr("archive/version", "3")
    file.seek(0)
    return file


BUILD = b"N}X\x04\x00\x00\x00evilX\x03\x00\x00\x00bads\x86b."           # set the attribute evil of what lies on the stack


@pytest.mark.parametrize("name", ["collections Counter", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "_codecs encode"])
def test_a_file_changes_no_class_or_function(name):
    before = dict(vars(collections.Counter))
    module, what = name.split()
    with pytest.raises(Exception, match="evil|tried to set attributes|may not change"): rl.load(archive(f"\x80\x02c{module}\n{what}\n".encode("latin1") + BUILD))
    assert dict(vars(collections.Counter)) == before


class Harmless:
    def method(self): return 1


def test_nor_one_that_the_user_allows():
    with rl.serialization.safe_globals([Harmless]):
        program = f"\x80\x02c{Harmless.__module__}\nHarmless\n".encode("latin1")
        with pytest.raises(pickle.UnpicklingError, match="tried to set attributes of Harmless"): rl.load(archive(program + b"N}X\x06\x00\x00\x00methodNs\x86b."))
        assert Harmless().method() == 1
        file = io.BytesIO()
        rl.save(Harmless(), file)
        file.seek(0)
        assert isinstance(rl.load(file), Harmless)


@pytest.mark.parametrize("put", [b"r\xff\xff\xff\x7f", b"p2147483647\n"])
def test_a_few_bytes_do_not_ask_for_gigabytes(put):
    with pytest.raises(pickle.UnpicklingError, match="numbers an object 2147483647"): rl.load(archive(b"\x80\x02N" + put + b"."))
    with pytest.raises(pickle.UnpicklingError, match="numbers an object 2147483647"): rl.load(io.BytesIO(b"\x80\x02N" + put + b"."))


def test_many_objects_are_read():
    file = io.BytesIO()
    given = {f"running_{i}": (i, str(i), [rl.tensor(i)]) for i in range(300)}     # more than 256 numbered objects, and names that look like opcodes
    rl.save(given, file)
    file.seek(0)
    assert rl.load(file) == given


def saved() -> bytes:
    file = io.BytesIO()
    rl.save({"a": rl.arange(100.0)}, file)
    return file.getvalue()


def test_archives_with_impossible_fields(tmp_path):
    data = saved()
    directory = data.rindex(b"PK\x01\x02")
    end = data.rindex(b"PK\x05\x06")
    version = bytearray(data)
    version[directory + 6:directory + 8] = struct.pack("<H", 84)
    name = bytearray(data)
    name[directory + 8:directory + 10] = struct.pack("<H", 0x800)               # its name claims to be UTF-8
    name[directory + 46:directory + 48] = b"\xff\xff"
    moved = bytearray(data)
    moved[end + 16:end + 20] = struct.pack("<I", 2 ** 31)
    for broken in (version, name, moved):
        with pytest.raises(RuntimeError, match="PytorchStreamReader failed"): rl.load(io.BytesIO(bytes(broken)))


def test_a_mapped_record_lies_inside_its_file(tmp_path):
    data = bytearray(saved())
    for entry in range(len(data)):                                                # every record's place in the directory, off the end
        if data[entry:entry + 4] == b"PK\x01\x02": data[entry + 42:entry + 46] = struct.pack("<I", len(data) - 8)
    path = tmp_path / "moved.pt"
    path.write_bytes(bytes(data))
    with pytest.raises(RuntimeError, match="PytorchStreamReader failed"): rl.load(path, mmap=True)
