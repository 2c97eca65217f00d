"""Kernels that loops do not express well: matrix products, convolutions (conv.py), attention (attention.py; called through trace.native).

The backend calls `lower_matmul` and gets the work as symbolic steps; it compiles each step's text, turns ints into slots, and puts a
buffer of the stated size in the place of each ('temporary', i) pointer. Sizes and strides are ints or SymInts, strides in elements,
offsets in bytes:

    temporaries, steps = lower_matmul(program, 'f32', batch, m, n, k,
                                      Operand(('arg', 0), offset, (batch stride, row stride, k stride)),
                                      Operand(('arg', 1), offset, (batch stride, k stride, column stride)),
                                      Operand(('buffer', 0), offset, (batch stride, row stride, column stride)),
                                      epilogue=None)

- temporaries: bytes of each, 0 when the sizes of this call need none (then every step that uses it has 0 units or does not touch it).
- A step with 0 units is to be skipped. A batch stride of 0 is an expanded operand. For a plain product batch is 1 and its strides 0.
- dtypes: f32 f64 i64 i32 i16 i8 u8. Half types: cast to f32, multiply, cast back. One of C's two matrix strides must be 1.
- An `Epilogue` is applied to each element after its sum is complete (bias, activation).
"""
from rushlight.compiler.templates import attention, conv, conv_weight
from rushlight.compiler.templates.gemm import Epilogue, Operand, Step
from rushlight.compiler.templates.gemm import lower as lower_matmul

TEXTS = attention.TEXT           # kernels made by trace.native(template=...), by name

__all__ = ['TEXTS', 'Epilogue', 'Operand', 'Step', 'conv', 'conv_weight', 'lower_matmul']
