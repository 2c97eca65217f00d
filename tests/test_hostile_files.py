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


# ---------------------------------------------------------------------------------------------------------- the format before zip files
def legacy(view: bytes = b"N", size: bytes = b"K\x02K\x03\x86", numel: int = 6) -> bytes:
    """A file of one float32 tensor over the storage 0, 1 … 5; `view` is the part of the storage that it sees."""
    program = (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ" + struct.pack("<i", numel) + view
               + b"tQK\x00" + size + b"K\x03K\x01\x86\x89ccollections\nOrderedDict\n)RtR.")
    head = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "protocol_version": 1001})]
    return b"".join(head) + program + pickle.dumps(["0"], 2) + struct.pack("<q6f", 6, *range(6))


def test_a_part_of_a_storage_is_that_part():
    assert rl.load(io.BytesIO(legacy())).tolist() == [[0, 1, 2], [3, 4, 5]]
    part = rl.load(io.BytesIO(legacy(b"(X\x01\x00\x00\x00vK\x02K\x03t", b"K\x01K\x03\x86")))
    assert part.tolist() == [[2, 3, 4]] and part.storage_offset() == 2
    with pytest.raises(pickle.UnpicklingError, match="malformed storage reference"): rl.load(io.BytesIO(legacy(b"(X\x01\x00\x00\x00vK\x02K\x05t")))


def test_a_mapping_function_sees_old_storages_and_keeps_its_errors():
    seen = []
    rl.load(io.BytesIO(legacy()), map_location=lambda storage, location: seen.append((storage.nbytes(), location)))
    assert seen == [(24, "cpu")]
    with pytest.raises(KeyError, match="elsewhere"): rl.load(io.BytesIO(legacy()), map_location=lambda storage, location: {}["elsewhere"])


def test_a_damaged_old_file_is_one_kind_of_error():
    """Cut anywhere, or with any byte changed: UnpicklingError, or RuntimeError where the pickles are whole and the storages are not."""
    data = legacy()
    broken = [data[:n] for n in range(1, len(data))] + [data[:n] + bytes([data[n] ^ flip]) + data[n + 1:] for n in range(len(data)) for flip in (1, 0x80, 0xff)]
    kinds = collections.Counter()
    for attempt in broken:
        try: rl.load(io.BytesIO(attempt))
        except (pickle.UnpicklingError, RuntimeError) as error: kinds[type(error)] += 1
        else: kinds["read"] += 1                                          # a number of the storage, or a letter of a key
    assert kinds[pickle.UnpicklingError] > 300 and kinds[RuntimeError] > 20 and kinds["read"] < 150


def test_an_old_file_does_not_ask_for_more_than_it_has():
    with pytest.raises(RuntimeError, match="unexpected EOF: a storage of 8589934588 bytes"): rl.load(io.BytesIO(legacy(numel=2 ** 31 - 1)))
    data = bytearray(legacy())
    data[-32:-24] = struct.pack("<q", 2 ** 62)                                    # nothing is kept of it, and still it must be there
    with pytest.raises(RuntimeError, match="unexpected EOF: a storage of"): rl.load(io.BytesIO(bytes(data)), map_location="meta")


def old_sparse(index: int) -> bytes:
    """A file of the sparse tensor [0, 0, 5], or of one with another index."""
    def tensor(kind, key, size, stride): return (b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n" + kind + b"\nX\x01\x00\x00\x00" + key
                                                 + b"X\x03\x00\x00\x00cpuK\x01NtQK\x00" + size + stride + b"\x89ccollections\nOrderedDict\n)RtR")
    program = (b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\nX\x10\x00\x00\x00torch.sparse_coo\x85R("
               + tensor(b"LongStorage", b"0", b"K\x01K\x01\x86", b"K\x01K\x01\x86") + tensor(b"FloatStorage", b"1", b"K\x01\x85", b"K\x01\x85") + b"K\x03\x85\x88t\x86R.")
    head = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "protocol_version": 1001})]
    return b"".join(head) + program + pickle.dumps(["0", "1"], 2) + struct.pack("<qq", 1, index) + struct.pack("<qf", 1, 5.0)


def test_sparse_tensors_of_old_files_are_checked_when_their_indices_are_there():
    filling = rl.full((64,), -1, dtype=rl.int64)                                  # the next memory of that size has something in it
    del filling
    for _ in range(3): assert rl.load(io.BytesIO(old_sparse(2))).to_dense().tolist() == [0, 0, 5]
    for index in (3, -1, 2 ** 40):
        with pytest.raises(RuntimeError, match="size is inconsistent with indices|found negative index"): rl.load(io.BytesIO(old_sparse(index)))
