"""Loading machine code: relocations, constants, jump tables, calls out, and damaged objects."""
import ctypes
import random

import pytest

from rushlight import _C

llvm = pytest.importorskip("llvmlite.binding")

SOURCE = """
@table = private constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@pointer = constant ptr @table
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define internal i64 @triple(i64 %x) noinline { %r = mul i64 %x, 3 ret i64 %r }
define i64 @choose(i64 %x) {
  switch i64 %x, label %none [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e i64 5, label %f ]
a: %r0 = call i64 @triple(i64 7)
  ret i64 %r0
b: %t = getelementptr [4 x i64], ptr @table, i64 0, i64 2
  %v = load volatile i64, ptr %t
  ret i64 %v
c: ret i64 33
d: ret i64 1234567
e: %q = load volatile ptr, ptr @pointer
  %w = load i64, ptr %q
  ret i64 %w
f: ret i64 55
none: ret i64 -1
}
define void @fill(ptr %d, i64 %n) { call void @llvm.memset.p0.i64(ptr %d, i8 65, i64 %n, i1 false) ret void }
define double @line(double %x) { %y = fmul double %x, 0x3FF3333333333333 %z = fadd double %y, 0x400921FB54442D18 ret double %z }
"""


def object_of(source):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(source)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="small")
    return machine.emit_object(module)


def test_code_runs():
    symbols = _C.load_object(object_of(SOURCE))
    assert {"choose", "fill", "line"} <= set(symbols) and "triple" not in symbols
    choose = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(symbols["choose"])
    assert [choose(i) for i in range(-1, 7)] == [-1, 21, 30, 33, 1234567, 10, 55, -1]
    line = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(symbols["line"])
    assert line(2.0) == 2.0 * 1.2 + 3.141592653589793
    room = ctypes.create_string_buffer(8)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(symbols["fill"])(ctypes.addressof(room), 5)
    assert room.value == b"AAAAA"


def test_unknown_symbol_is_named():
    with pytest.raises(RuntimeError, match="undefined symbol 'fmodf'"):
        _C.load_object(object_of("define float @f(float %x, float %y) { %r = frem float %x, %y ret float %r }"))


def test_state_is_refused():
    with pytest.raises(RuntimeError, match="is writable"):
        _C.load_object(object_of("@g = global i64 3\ndefine i64 @f() { %r = load i64, ptr @g store i64 4, ptr @g ret i64 %r }"))


def test_damaged_objects_are_refused_or_harmless():
    good = object_of(SOURCE)
    rng = random.Random(0)
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            bad[rng.randrange(len(bad) if rng.random() < 0.5 else 64)] = rng.randrange(256)
        if rng.random() < 0.3:
            bad = bad[: rng.randrange(len(bad))]
        try:
            _C.load_object(bytes(bad))
        except (RuntimeError, UnicodeDecodeError):
            pass
    for junk in (b"", b"\x7fELF", b"x" * 100):
        with pytest.raises(RuntimeError, match="cannot load the object"):
            _C.load_object(junk)
