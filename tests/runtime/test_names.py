"""Names of functions: an alias has its own, and each is found again under the module and name it states."""
import importlib
import io
import pickle

import pytest

import rushlight as torch
from rushlight import _C, faces, serialization

SPACES = {"torch": "rushlight", "F": "rushlight.nn.functional", "linalg": "rushlight.linalg", "special": "rushlight.special", "fft": "rushlight.fft",
          "masked": "rushlight.masked", "signal.windows": "rushlight.signal.windows"}


@pytest.mark.parametrize("space", SPACES)
def test_functions_pickle_as_themselves(space):
    module = importlib.import_module(SPACES[space])
    public = {name: f for name, f in faces.functions(space).items() if getattr(module, name) is f}      # the others lie behind a Python function
    assert public
    for name, function in public.items():
        assert isinstance(function, _C.OpFunction)
        assert pickle.loads(pickle.dumps(function)) is function, name


def test_an_alias_is_a_function_of_its_own_name():
    x = torch.tensor([-0.5, 0.25])
    assert torch.arctan.__name__ == "arctan" and torch.Tensor.arctan.__qualname__ == "Tensor.arctan" and torch.Tensor.clip_.__name__ == "clip_"
    assert torch.arctan is not torch.atan and torch.equal(torch.arctan(x), torch.atan(x))
    assert torch.special.expit is not torch.sigmoid and torch.equal(torch.special.expit(x), torch.sigmoid(x))
    assert torch.concat.__name__ == "concat" and torch.concatenate.__name__ == "concatenate"
    assert torch.special.erf is torch.erf
    y = x.clone()
    assert torch.arctan_(y) is y and torch.equal(y, x.atan()) and torch.equal(x.clone().negative_(), -x)
    with pytest.raises(TypeError, match=r"^arctan\(\)"):
        torch.arctan("x")


def test_overrides_see_the_name_that_was_called():
    seen = []

    class Recording(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Recording)
    torch.multiply(x, x), x.multiply(x), torch.mul(x, x)
    assert seen == [torch.multiply, torch.Tensor.multiply, torch.mul]


def test_a_traced_graph_names_what_was_called():
    class Model(torch.nn.Module):
        def forward(self, x): return torch.linalg.inv(torch.arctan(x) + torch.special.expit(x))

    code = torch.fx.symbolic_trace(Model()).code
    assert "torch.arctan(x)" in code and "torch.special.expit(x)" in code and "torch.linalg.inv(" in code


@pytest.mark.parametrize("function", [torch.nn.functional.gelu, torch.linalg.inv, torch.special.expit, torch.clip], ids=lambda f: f.__name__)
def test_a_saved_object_may_hold_a_function(function):
    file = io.BytesIO()
    torch.save({"activation": function}, file)
    file.seek(0)
    assert torch.load(file, weights_only=False)["activation"] is function
    file.seek(0)
    assert b"rushlight" not in file.read()           # torch can read it too


def test_functions_in_a_file_of_torch():
    names = ["torch._C._nn gelu", "torch._C._linalg linalg_inv", "torch._C._special special_expit", "torch._C._fft fft_fft"]
    program = b"\x80\x02(" + b"".join(f"c{n.replace(' ', chr(10))}\n".encode() for n in names)
    program += b"c__builtin__\ngetattr\n(ctorch._C\n_VariableFunctionsClass\nX\x06\x00\x00\x00arctantRl."
    unpickler = serialization._Unpickler(io.BytesIO(program), None, False)
    assert unpickler.load() == [torch.nn.functional.gelu, torch.linalg.inv, torch.special.expit, torch.fft.fft, torch.arctan]


class Foreign:
    """Not a tensor, but it wants to see the calls."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return func, args


@pytest.mark.parametrize("name, args", [("broadcast_tensors", lambda a, b: (a, b)), ("atleast_2d", lambda a, b: (a, b)), ("meshgrid", lambda a, b: (a, b)),
    ("hstack", lambda a, b: ([a, b],)), ("tensordot", lambda a, b: (a, b)), ("rot90", lambda a, b: (b,)), ("repeat_interleave", lambda a, b: (b, 2))])
def test_functions_written_in_python_take_part_in_overrides(name, args):
    function, given = getattr(torch, name), args(torch.ones(2), Foreign())
    assert function(*given) == (function, given)


def test_overrides_see_one_spelling_of_einsum():
    plain, foreign = torch.ones(2, 2), Foreign()
    for call in (("ij,jk", plain, foreign), ("ij,jk", [plain, foreign])):
        assert torch.einsum(*call) == (torch.einsum, ("ij,jk", plain, foreign))
    assert torch.einsum(plain, [0, 1], foreign, [1, 2], [0, 2]) == (torch.einsum, ("AB,BC->AC", plain, foreign))
