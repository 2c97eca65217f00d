"""Which dtype an operation computes in and which it returns: torch's rules.

Operands fall in three classes: tensors with dimensions, 0-dim tensors, Python numbers. A lower class counts only if its *kind*
(bool < int < float < complex) is higher than what the class above gives; a Python float or complex then stands for the default dtype.
"""
from .graph import DTYPES, SCALAR_TYPE_NAME, dtype_kind, is_complex, is_float

DIMENSIONED, ZERO_DIM, NUMBER = 0, 1, 2
FLOAT_ORDER = ('f16', 'f32', 'f64')
COMPLEX_OF = {'f16': 'c32', 'bf16': 'c64', 'f32': 'c64', 'f64': 'c128'}
REAL_OF = {'c32': 'f16', 'c64': 'f32', 'c128': 'f64'}
COMPUTE = {'f16': 'f32', 'bf16': 'f32', 'f8e4m3': 'f32', 'f8e5m2': 'f32', 'c32': 'c64'}
SIGNED_WIDTH = {'i8': 1, 'i16': 2, 'i32': 4, 'i64': 8}


def compute_dtype(dtype): return COMPUTE.get(dtype, dtype)
def real_dtype(dtype): return REAL_OF.get(dtype, dtype)
def complex_dtype(dtype): return COMPLEX_OF.get(dtype, dtype)


def promote_types(a, b):
    """The smallest dtype both convert to (torch.promote_types)."""
    if a is None or a == b: return b
    if b is None: return a
    ka, kb = dtype_kind(a), dtype_kind(b)
    for x, other in ((a, kb), (b, ka)):
        if x in WIDE_UNSIGNED and other in 'bc': _refuse_unsigned(a, b)
    if ka == 'b': return b
    if kb == 'b': return a
    if ka in 'ui' and kb in 'ui': return _promote_integers(a, b)
    if ka in 'ui': return b
    if kb in 'ui': return a
    if ka == 'c' or kb == 'c':
        return complex_dtype(_promote_floats(real_dtype(a), real_dtype(b)))
    return _promote_floats(a, b)


def _promote_floats(a, b):
    if a == b: return a
    if a.startswith('f8') or b.startswith('f8'):
        raise RuntimeError(f'Promotion for Float8 Types is not supported, attempted to promote {SCALAR_TYPE_NAME[a]} '
                           f'and {SCALAR_TYPE_NAME[b]}')
    if 'bf16' in (a, b):
        other = b if a == 'bf16' else a
        return 'f32' if other == 'f16' else other
    return max(a, b, key=FLOAT_ORDER.index)


WIDE_UNSIGNED = ('u16', 'u32', 'u64')


def _refuse_unsigned(a, b):
    raise RuntimeError(f'Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {SCALAR_TYPE_NAME[a]} '
                       f'and {SCALAR_TYPE_NAME[b]}')


def _promote_integers(a, b):
    if a in WIDE_UNSIGNED or b in WIDE_UNSIGNED: _refuse_unsigned(a, b)
    if 'u8' in (a, b):
        other = b if a == 'u8' else a
        return 'i16' if other == 'i8' else other
    return max(a, b, key=SIGNED_WIDTH.__getitem__)


def _combine(higher, lower):
    if higher is None: return lower
    if lower is None or is_complex(higher): return higher
    if is_float(higher): return complex_dtype(higher) if is_complex(lower) else higher
    if higher == 'b1' or is_float(lower) or is_complex(lower): return lower
    return higher


def result_type(operands, default='f32'):
    """operands: pairs (dtype, class). default: the default float dtype."""
    by_class = [None, None, None]
    for dtype, level in operands:
        if level == NUMBER:
            if is_complex(dtype): dtype = complex_dtype(default)
            elif is_float(dtype): dtype = default
        by_class[level] = promote_types(by_class[level], dtype)
    return _combine(by_class[DIMENSIONED], _combine(by_class[ZERO_DIM], by_class[NUMBER]))


def is_arithmetic(dtype): return dtype in DTYPES and not dtype.startswith('f8')


def refuse(dtype, refuses, kernel):
    """Raise torch's error for a dtype whose kind is among those an operator refuses (registry: `refuses`)."""
    kind = {'u': 'i'}.get(dtype_kind(dtype), dtype_kind(dtype))
    half = dtype in ('f16', 'bf16')
    for kinds, error in refuses.items():
        if kind not in kinds and not (half and 'h' in kinds): continue
        if error is not None: raise type(error)(*error.args)
        raise NotImplementedError(f'"{kernel}" not implemented for \'{SCALAR_TYPE_NAME[dtype]}\'')


def rule_dtypes(rule, operands, name, default='f32', dtype=None):
    """(compute dtype, result dtype) of a rule category. operands as for result_type, in argument order; dtype: a `dtype=` argument.
    A result dtype of None means that the body answers for it."""
    if not operands: return (compute_dtype(dtype), dtype) if dtype else (default, default)
    if rule in MATCHING: return _matching(rule, operands, name)
    if rule == 'dtype':                     # `dtype=` casts first; otherwise as promoted
        common = dtype or result_type(operands, default)
        return compute_dtype(common), common
    if rule == 'keep': common = operands[0][0]
    elif rule == 'norm':                    # `dtype=` first, then a real result; integers are refused
        common = dtype or result_type(operands, default)
        _need_float(common, name, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}")
        return compute_dtype(common), real_dtype(common)
    else: common = result_type(operands, default)
    if rule in ('same', 'keep'): return compute_dtype(common), common
    if rule in ('float', 'float!'):
        if not (is_float(common) or is_complex(common)):
            if rule == 'float!': raise NotImplementedError(f'"{name}" not implemented for \'{SCALAR_TYPE_NAME[common]}\'')
            common = default
        return compute_dtype(common), common
    if rule == 'bool': return compute_dtype(common), 'b1'
    if rule == 'real': return compute_dtype(common), real_dtype(common)
    if rule == 'acc':
        common = dtype or ('i64' if dtype_kind(common) in 'bui' else common)
        return compute_dtype(common), common
    if rule == 'acc_float':
        common = dtype or common
        _need_float(common, name, name + '(): could not infer output dtype. Input dtype must be either a floating point or complex '
                    'dtype. Got: {}')
        return compute_dtype(common), common
    if rule == 'index': return compute_dtype(common), 'i64'
    if rule == 'int!':
        if is_float(common) or is_complex(common):
            raise NotImplementedError(f'"{name}" not implemented for \'{SCALAR_TYPE_NAME[common]}\'')
        return common, common
    raise ValueError(f'{name}: unknown dtype rule {rule!r}')


MATCHING = ('match', 'float_match', 'first_float')


def _matching(rule, operands, name):
    """match: all tensors have one dtype. float_match: a floating one; parameters may be f32 beside half inputs. first_float: the first
    decides, the other floats are cast and integers (class indices) arrive as they are."""
    first = operands[0][0]
    if rule != 'match' and not (is_float(first) or is_complex(first)):
        raise NotImplementedError(f'"{name}" not implemented for \'{SCALAR_TYPE_NAME[first]}\'')
    for other, _ in operands[1:] if rule != 'first_float' else ():
        if other == first or rule == 'float_match' and first in ('f16', 'bf16') and other == 'f32': continue
        if rule == 'match':
            raise RuntimeError(f'expected m1 and m2 to have the same dtype, but got: {C_NAME.get(first, first)} != '
                               f'{C_NAME.get(other, other)}')
        raise RuntimeError(f'mixed dtype (CPU): expect parameter to have scalar type of {SCALAR_TYPE_NAME[first]}, but found {SCALAR_TYPE_NAME[other]}')
    return compute_dtype(first), first


C_NAME = {'b1': 'bool', 'u8': 'unsigned char', 'i8': 'signed char', 'i16': 'short', 'i32': 'int', 'i64': 'long long', 'f16': 'c10::Half',
          'bf16': 'c10::BFloat16', 'f32': 'float', 'f64': 'double', 'c64': 'c10::complex<float>', 'c128': 'c10::complex<double>'}


def _need_float(dtype, name, message):
    if not (is_float(dtype) or is_complex(dtype)): raise RuntimeError(message.format(SCALAR_TYPE_NAME[dtype]))


def can_cast(source, target):
    """torch.can_cast: a result may be written to an out= tensor or back in place."""
    rank = {'b': 0, 'u': 1, 'i': 1, 'f': 2, 'c': 3}
    a, b = rank[dtype_kind(source)], rank[dtype_kind(target)]
    if a > b and not (a == 1 and b == 1): return False
    return not (b == 0 and a > 0)
