"""Index checks: a kernel that writes nothing and returns code | value << 8 for the first number outside [lo, hi)."""
from . import values
from .llvm import NestEmitter


class CheckEmitter(NestEmitter):
    def __init__(self, kernel, program, lo, hi, code):
        self.bounds = lo, hi, code
        super().__init__(kernel, program)

    def hoist(self):
        super().hoist()
        # In n, not in the code: one kernel checks every size and reports every error.
        self.low, self.high, self.code = (self.parameter(x) for x in self.bounds)

    def prepare_stores(self, p, row): pass

    def outside(self, v):
        f = self.f
        return (v < f.splat(self.low, v.width)) | (v >= f.splat(self.high, v.width))

    def store_row(self, row, s): self.report(values.cast(self.f, row.value(s.expr), s.expr.dtype, 'i64'))

    def report(self, v):
        f = self.f
        with f.when(self.outside(v)): f.line(f'ret i64 {((v << 8) | self.code).name}'); f.label(f.fresh())

    def body(self, p, rows, columns, ats, copy, block_start):
        f, at = self.f, ats[0]
        for s in p.stores:
            v = values.cast(f, rows[0].spread(s.expr, at), s.expr.dtype, 'i64')
            if at.width == 1: self.report(v); continue
            bad = self.outside(v)
            if at.mask is not None: bad = bad & at.mask
            with f.when(f.any(bad)):
                kept, flags = f.array('i64', at.width), f.array('i8', at.width)
                f.store(v, kept); f.store(f.convert('zext', bad, 'i8'), flags)
                with f.loop(f.const(0), f.const(at.width)) as i:
                    with f.when(f.load(f.at(flags, i, 'i8'), 'i8').ne(0)):
                        f.line(f'ret i64 {((f.load(f.at(kept, i, "i64"), "i64") << 8) | self.code).name}'); f.label(f.fresh())
