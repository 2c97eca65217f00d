"""Random calls with a fixed seed: the argument parser must answer anything with a result or an ordinary exception and write nothing before an error;
indexing must agree with numpy. Small on purpose in what is compiled, so that all of it also runs under the sanitizers.
"""
import random

import numpy as np
import pytest

import rushlight as rl
from rushlight import _C, faces, plans, registry


# ------------------------------------------------------------------------------------------------------------- the parser
class NotCompiled(Exception):
    """Raised instead of compiling: by then the arguments have been parsed, checked for overlap and keyed."""


class BadIndex:
    def __index__(self): raise ValueError("no index today")


class Lying:
    """Says it is an integer and is none."""
    def __index__(self): return "7"


class Shrinking(list):
    """Loses an element each time one is looked at."""
    def __getitem__(self, i):
        value = super().__getitem__(i)
        if len(self) > 1: self.pop()
        return value

    def __iter__(self):
        while self: yield self.pop()


class Emptying:
    """As an integer it is 1; becoming one empties the list that holds it."""
    def __init__(self): self.holder = [self, 1, 1]

    def __index__(self):
        self.holder.clear()
        return 1


class Sub(rl.Tensor):
    pass


def tensors():
    """What a call may be given, made anew so that a write can be seen."""
    matrix = rl.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3).copy())
    return [matrix, matrix.t(), matrix[0], matrix[0, 0], matrix[:, :1].expand(2, 3), rl.from_numpy(np.arange(3)), rl.from_numpy(np.array([True, False])),
            rl.from_numpy(np.zeros((0, 3), np.float32)), rl.empty(2, 3, device="meta"), matrix.as_subclass(Sub), rl.from_numpy(np.array(2)),
            rl.from_numpy(np.arange(24, dtype=np.float64).reshape(2, 3, 4).copy()), rl.from_numpy(np.array([1 + 2j])).conj(),
            rl.from_numpy(np.ones(3, np.float32)).requires_grad_(), rl.from_numpy(np.ones((1,) * 9, np.int8))]


def others(pick):
    """Values that are not tensors. Integers are small or beyond any memory: nothing between that would be worth allocating."""
    return pick([None, True, False, 0, 1, 2, -1, -2, 3, 7, 64, 2**31, 2**45, -2**63, 2**63, 2**64, 10**30, 0.0, -0.5, 1.5, float("nan"), float("inf"), 1e308,
                 1 + 2j, "", "sum", "mean", "none", "\0", "\ud800", b"bytes", (), [], (1,), [2, 3], (-1,), (0, -1), [1, "a"], [1.5], [[1], [2]], (2**45, 2**45),
                 [None], {}, {"a": 1}, set(), object(), print, rl.float32, rl.int64, rl.bool, rl.complex64, rl.device("cpu"), rl.device("meta"), "cpu", "meta",
                 "cuda", rl.strided, rl.channels_last, rl.contiguous_format, rl.Size((2, 3)), np.float32(1.5), np.int64(2), np.bool_(True), np.ones(2), np.str_("a"),
                 slice(None), Ellipsis, BadIndex(), Lying(), Shrinking([1, 2, 3]), Emptying().holder, [BadIndex()], (Lying(), 2), type, rl.Tensor, 3.0, range(3),
                 rl.Generator().manual_seed(1)])


def bytes_of(t):
    return None if t.is_meta else bytes(t.untyped_storage())


def names_of(definition):
    return sorted({p.name for s in definition.signatures for p in s.params} | {"out", "dtype", "dim", "axis", "input", "self", "other", "nonsense", "keepdims"})


@pytest.fixture
def without_compiling():
    def refuse(*request): raise NotCompiled
    _C.set_hooks(compile=refuse)
    yield
    plans.install()


@pytest.mark.parametrize("part", range(4))
def test_any_arguments(part, without_compiling):
    rng = random.Random(part)
    faced = [(name, face) for name, face in sorted(faces.functions("torch").items()) + sorted(faces.methods().items())]
    assert len(faced) > 200
    definitions = {d.name: d for d in registry.all()}
    tried = raised = parsed = 0
    for name, face in faced[part::4]:
        keywords = names_of(definitions[name.rstrip("_")]) if name.rstrip("_") in definitions else ["dim", "out"]
        for _ in range(12):
            pool = tensors()
            before = [bytes_of(t) for t in pool]

            def value(depth=0, pool=pool):
                chance = rng.random()
                if chance < 0.45: return rng.choice(pool)
                if chance < 0.52 and depth < 2: return [value(depth + 1) for _ in range(rng.randrange(4))]
                return others(rng.choice)
            args = [rng.choice(pool) if k == 0 and rng.random() < 0.85 else value() for k in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 7]))]
            kwargs = {rng.choice(keywords): value() for _ in range(rng.choice([0, 0, 0, 1, 2]))}
            tried += 1
            try:
                face(*args, **kwargs)
            except NotCompiled:
                parsed += 1
            except Exception as error:
                raised += 1
                assert not isinstance(error, (SystemError, AssertionError, NameError)), (name, args, kwargs, error)
                assert [bytes_of(t) for t in pool] == before, (name, args, kwargs, error)
    assert raised > tried / 3 and parsed > tried / 50, (tried, raised, parsed)       # it gets past the parser, and mostly not


CONSTRUCTORS = {"tensor": rl.tensor, "as_tensor": rl.as_tensor, "asarray": rl.asarray, "Tensor": rl.Tensor, "Size": rl.Size, "device": rl.device,
                "from_numpy": rl.from_numpy, "frombuffer": rl.frombuffer, "from_dlpack": rl.from_dlpack, "Generator": rl.Generator, "finfo": rl.finfo,
                "set_default_dtype": lambda *a, **k: rl.set_default_dtype(*a, **k), "manual_seed": lambda x=0, *a: rl.Generator().manual_seed(x, *a),
                "set_state": lambda x=0, *a: rl.Generator().set_state(x, *a), "new_tensor": lambda *a, **k: rl.ones(2).new_tensor(*a, **k),
                "set_": lambda *a, **k: rl.empty(2).set_(*a, **k), "resize_": lambda *a, **k: rl.empty(2).resize_(*a, **k),
                "as_strided": lambda *a, **k: rl.empty(6).as_strided(*a, **k), "grad": lambda *a, **k: rl.autograd.grad(*a, **k),
                "backward": lambda *a, **k: rl.autograd.backward(*a, **k), "stride": lambda *a: rl.empty(2, 3).stride(*a), "size": lambda *a: rl.empty(2, 3).size(*a),
                "data": lambda x=0, *a: setattr(rl.empty(2), "data", x), "grad=": lambda x=0, *a: setattr(rl.empty(2), "grad", x),
                "requires_grad": lambda x=0, *a: setattr(rl.empty(2), "requires_grad", x), "is_contiguous": lambda *a, **k: rl.empty(2).is_contiguous(*a, **k)}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_any_data(name):
    rng = random.Random(name)
    default = rl.get_default_dtype()
    for _ in range(250):
        pool = tensors()

        def value(depth=0, pool=pool):
            chance = rng.random()
            if chance < 0.3: return rng.choice(pool)
            if chance < 0.6 and depth < 4: return rng.choice([list, tuple])([value(depth + 1) for _ in range(rng.randrange(4))])
            return others(rng.choice)
        kwargs = {rng.choice(["dtype", "device", "requires_grad", "copy", "count", "offset", "pin_memory"]): value() for _ in range(rng.choice([0, 0, 1]))}
        try:
            CONSTRUCTORS[name](*[value() for _ in range(rng.choice([1, 1, 1, 2, 4]))], **kwargs)
        except Exception as error:
            assert not isinstance(error, (SystemError, AssertionError)) or str(error).startswith("Torch not compiled with CUDA"), error
        finally:
            rl.set_default_dtype(default)


# --------------------------------------------------------------------------------------------------------------- indexing
def basic_item(rng, size):
    """An index for one dimension that numpy and torch read alike."""
    bound = lambda: rng.choice([None, rng.randint(-size - 2, size + 2), rng.choice([2**62, -2**62])])
    return rng.choice([lambda: slice(bound(), bound(), rng.choice([None, 1, 2, 3, 2**62])), lambda: rng.randint(-size - 1, size), lambda: slice(None)])()


def array_item(rng, shape):
    """(an advanced index, dimensions it takes)."""
    size = shape[0]
    if rng.random() < 0.3:
        taken = rng.randint(1, min(2, len(shape)))
        off = rng.random() < 0.15
        return np.array(rng.choices([True, False], k=int(np.prod(shape[:taken])) if not off else size + 1), dtype=bool).reshape(shape[:taken] if not off else (size + 1,)), 1 if off else taken
    wrong = rng.random() < 0.15
    span = (-size - 2, size + 1) if wrong or size == 0 else (-size, size - 1)
    return np.array([[rng.randint(*span) for _ in range(2)] for _ in range(rng.choice([1, 3]))]) if rng.random() < 0.4 else np.array([rng.randint(*span) for _ in range(2)]), 1


def random_index(rng, shape, advanced):
    items, at = [], 0
    while at < len(shape) and rng.random() < 0.85:
        if advanced and rng.random() < 0.5:
            item, taken = array_item(rng, shape[at:])
            at += taken
        else:
            item = basic_item(rng, shape[at])
            at += 1
        items.append(item)
        if rng.random() < 0.1: items.append(None)
    if rng.random() < 0.15: items.insert(rng.randrange(len(items) + 1), Ellipsis)
    if rng.random() < 0.03: items.append(0)                      # one too many
    return tuple(items)


def two_steps(index, ndim):
    """numpy treats an integer beside an array as an array; torch takes integers, slices and None first. Do that in two steps: (basic, advanced)."""
    dims = sum(i.ndim if isinstance(i, np.ndarray) and i.dtype == bool else 0 if i is None or i is Ellipsis else 1 for i in index)
    basic, advanced = [], []
    for i in index:
        if isinstance(i, np.ndarray):
            basic += [slice(None)] * (i.ndim if i.dtype == bool else 1)
            advanced.append(i)
        elif i is Ellipsis:
            basic += [slice(None)] * max(0, ndim - dims)
            advanced += [slice(None)] * max(0, ndim - dims)
        else:
            basic.append(i)
            if not isinstance(i, int): advanced.append(slice(None))
    return tuple(basic), tuple(advanced)


def to_ours(index, rng):
    """The same index as ours: arrays as tensors, arrays or lists; a tuple of one sometimes bare."""
    items = tuple(rng.choice([rl.from_numpy, lambda a: a, lambda a: a.tolist() if a.size else rl.from_numpy(a)])(i) if isinstance(i, np.ndarray) else i for i in index)
    return items[0] if len(items) == 1 and not isinstance(items[0], list) and rng.random() < 0.5 else items      # a bare list of lists is read as a tuple


def numpy_view(array, index):
    """The basic part as a view and what is left to index it with; raises IndexError as numpy does."""
    basic, advanced = two_steps(index, array.ndim)
    return array[basic + (Ellipsis,)], advanced


def check_index(rng, advanced):
    shape = tuple(rng.choice([0, 1, 2, 3, 4, 5] if not advanced else [1, 2, 3, 4, 0]) for _ in range(rng.randint(1, 4 if not advanced else 3)))
    array = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    if rng.random() < 0.3: array = array.T                       # any strides
    shape = array.shape
    index = random_index(rng, shape, advanced)
    tensor = rl.from_numpy(array.copy(order="K"))
    try:
        view, rest = numpy_view(array, index)
        expected = view[rest] if rest else view
    except IndexError:
        with pytest.raises(IndexError):
            tensor[to_ours(index, rng)]
        return False
    got = tensor[to_ours(index, rng)]
    assert got.shape == expected.shape and got.numpy().tolist() == expected.tolist(), (shape, index)
    # assignment: a number or a tensor, through the same index
    lengths = rng.choice([None, expected.shape[rng.randrange(expected.ndim + 1):], (1,) * rng.randint(0, 2) + expected.shape])
    value = -7 if lengths is None else -1 - np.arange(int(np.prod(lengths))).reshape(lengths)
    extra = 0 if lengths is None else max(0, len(lengths) - expected.ndim)          # leading ones: numpy does not take them with a mask
    view[rest if rest else Ellipsis] = value if not extra else value.reshape(lengths[extra:])
    tensor[to_ours(index, rng)] = rl.from_numpy(value) if isinstance(value, np.ndarray) else value
    assert tensor.numpy().tolist() == array.tolist(), (shape, index, value)
    return True


def test_basic_indexing_is_numpys():
    rng = random.Random(1)
    good = sum(check_index(rng, advanced=False) for _ in range(3000))
    assert 1000 < good < 2900


def test_advanced_indexing_is_numpys():
    rng = random.Random(2)
    good = sum(check_index(rng, advanced=True) for _ in range(600))
    assert 200 < good < 580


def test_any_index():
    """Things that are no indices at all, read and written: an ordinary exception, and nothing written."""
    rng = random.Random(3)
    refused = 0
    for _ in range(3000):
        x = rl.from_numpy(np.arange(24, dtype=np.float32).reshape(2, 3, 4).copy())
        before = bytes_of(x)

        def value(depth=0):
            chance = rng.random()
            if chance < 0.25: return slice(*[others(rng.choice) for _ in range(rng.choice([1, 2, 3]))])
            if chance < 0.4 and depth < 3: return rng.choice([list, tuple])([value(depth + 1) for _ in range(rng.randrange(4))])
            if chance < 0.5: return rng.choice([rl.from_numpy(np.array([0, 1])), rl.from_numpy(np.array([True, False])), rl.from_numpy(np.array([0.5])),
                                                rl.from_numpy(np.array([5])), rl.empty(2, device="meta"), rl.from_numpy(np.array(1)), np.array([1, 0])])
            return others(rng.choice)
        index = value() if rng.random() < 0.3 else tuple(value(1) for _ in range(rng.randrange(5)))
        try:
            if rng.random() < 0.5: x[index]
            else: x[index] = others(rng.choice) if rng.random() < 0.6 else rl.from_numpy(np.ones(rng.choice([1, 3, 4, 5]), np.float32))
        except Exception as error:
            refused += 1
            assert not isinstance(error, (SystemError, AssertionError)), (index, error)
            assert bytes_of(x) == before, (index, error)
    assert refused > 1000
