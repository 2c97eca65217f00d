"""Arguments as programs write them: torch's own names of parameters, Python's types as dtypes, numbers in place of tensors."""
import numpy as np
import pytest

import rushlight as rl


def test_python_types_are_dtypes():
    x = rl.tensor([1.5])
    for given, dtype in ((float, rl.float64), (int, rl.int64), (bool, rl.bool), (complex, rl.complex128)):
        assert x.to(given).dtype is x.to("cpu", given).dtype is x.to(dtype=given).dtype is x.to(given, copy=True).dtype is dtype
    assert x.to(int).tolist() == [1]
    assert rl.arange(3, dtype=float).dtype is rl.linspace(0, 1, 2, dtype=float).dtype is rl.logspace(0, 1, 2, dtype=float).dtype is rl.float64
    assert rl.tril_indices(2, 2, dtype=int).dtype is rl.int64 and rl.triu_indices(2, 2, device="meta").device.type == "meta"
    assert rl.promote_types(float, rl.int32) is rl.float64 and not rl.can_cast(float, rl.int32) and rl.finfo(float).bits == 64 and rl.iinfo(int).bits == 64
    assert rl.nn.Linear(1, 1).to(float).weight.dtype is rl.float64


@pytest.mark.parametrize("call", [
    lambda x: x.to(str), lambda x: x.to(rl.float64, rl.float32), lambda x: x.to(copy=1), lambda x: x.to("cpu", rl.float32, None),
    lambda x: x.to(x, rl.tensor(True)), lambda x: x.to(rl.float64, dtype=rl.float32), lambda x: x.to(foo=1), lambda x: x.to(dtype="float32")])
def test_to_refuses_what_it_does_not_know(call):
    with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments - got \("): call(rl.tensor([1.5]))


def test_to_another_backend():
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"): rl.ones(1).to("cuda")
    with pytest.raises(ValueError, match="invalid type: 'int'"): rl.ones(1).type(int)


def test_copy_takes_numbers_and_torch_s_name():
    x = rl.zeros(2, 2)
    assert x.copy_(2.5).tolist() == [[2.5, 2.5]] * 2
    assert x.copy_(other=rl.tensor([1, 2])).tolist() == [[1, 2]] * 2
    a, b = rl.ones(2, requires_grad=True), rl.ones((), requires_grad=True)
    y = (a * 1).copy_(3)
    assert y.requires_grad and y.tolist() == [3, 3]
    (a * 1).copy_(b).sum().backward()
    assert b.grad == 2
    with pytest.raises(TypeError, match="argument 'other'"): x.copy_("a")


def test_draws_like_a_tensor_take_a_generator():
    g = rl.Generator()
    for like, plain in ((lambda **k: rl.rand_like(rl.ones(5), **k), lambda **k: rl.rand(5, **k)), (lambda **k: rl.randn_like(rl.ones(5), **k), lambda **k: rl.randn(5, **k)),
                        (lambda **k: rl.randint_like(rl.ones(5), 3, 9, **k), lambda **k: rl.randint(3, 9, (5,), **k))):
        assert rl.equal(like(generator=g.manual_seed(3)), plain(generator=g.manual_seed(3)).float())
        rl.manual_seed(3)
        assert rl.equal(like(generator=None), plain(generator=g.manual_seed(3)).float())


def test_alpha_by_position_and_what_it_may_be():
    x = rl.tensor([1.0])
    assert rl.add(x, 2, 3).item() == 7 and rl.sub(x, 2, 3).item() == -5 and x.clone().add_(2, 3).item() == 7
    with pytest.raises(RuntimeError, match="argument alpha must not be a complex number"): rl.add(x, x, alpha=1j)
    with pytest.raises(RuntimeError, match="argument alpha must not be a floating point number"): rl.rsub(rl.tensor([1]), 2, alpha=1.5)
    for op in (rl.addcmul, rl.addcdiv):
        with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"): op(x, x, x, value=1j)


def test_first_arguments_by_name():
    assert rl.special.legendre_polynomial_p(x=rl.tensor([0.5]), n=1).item() == 0.5
    assert rl.histogram(input=rl.tensor([1.0, 2.0]), bins=2).hist.tolist() == [1, 1]
    assert rl.histogramdd(input=rl.ones(1, 2), bins=[1, 1]).hist.tolist() == [[1]]
    assert len(rl.unsafe_chunk(input=rl.ones(4), chunks=2)) == 2
    assert rl.gradient(rl.tensor([1.0, 2.0, 4.0]), axis=0)[0].tolist() == [1.0, 1.5, 2.0]
    assert rl.result_type(tensor=rl.tensor([1]), other=2.0) is rl.result_type(scalar=2.0, tensor=rl.tensor([1])) is rl.result_type(1, scalar2=2.0) is rl.float32
    with pytest.raises(TypeError, match="received an invalid combination of arguments"): rl.result_type(1)


def test_kron_of_a_tensor_without_dimensions_promotes():
    assert rl.kron(rl.ones(2, 2), rl.tensor(2.0, dtype=rl.float64)).dtype is rl.float64
    assert rl.kron(rl.ones(2).half(), rl.tensor(2.0)).dtype is rl.float32


def test_a_dimension_shifted_twice():
    assert rl.fft.fftshift(rl.arange(5.0), (0, 0)).tolist() == rl.arange(5.0).roll(4).tolist()
    with pytest.raises(RuntimeError, match="fftfreq requires a floating point or complex dtype"): rl.fft.fftfreq(3, dtype=rl.int64)


def test_names_of_nodes_tell_the_signature():
    x = rl.ones(1, requires_grad=True)
    def name(y): return type(y.grad_fn).__name__.replace("Backward", "")

    assert [name(y) for y in (rl.lerp(x, x, 0.5), rl.lerp(x, x, x), rl.copysign(x, x), rl.copysign(x, -1.0))] == ["Lerp0", "Lerp1", "Copysign0", "Copysign1"]
    assert [name(y) for y in (x.clamp(0, 1), x.clamp(max=1), x.clamp(min=x), x.clamp_min(0), x.clamp_min(x), x.clamp_max(x))] == ["Clamp1"] * 2 + ["Clamp0", "ClampMin0", "ClampMin1", "ClampMax1"]
    assert [name(y) for y in (x % 2, x % x, rl.fmod(x, x), x ** 2, x ** x, 2 ** x, rl.float_power(x, 2))] == ["Remainder0", "Remainder1", "Fmod1", "Pow0", "Pow1", "Pow2", "Pow0"]
    assert [name(f(*a)) for f in (rl.xlogy, rl.special.xlog1py) for a in ((x, x), (2, x), (x, 2))] == ["Xlogy0", "Xlogy1", "Xlogy2"] + [f"SpecialXlog1Py{i}" for i in range(3)]


def test_softmax_takes_a_dtype_by_position():
    x = rl.tensor([1.0, 2.0])
    assert rl.softmax(x, 0, rl.float64).dtype is x.log_softmax(0, rl.float64).dtype is rl.float64


def test_targets_of_binary_cross_entropy_are_probabilities():
    with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"): rl.nn.functional.binary_cross_entropy(rl.tensor([0.5]), rl.tensor([1.5]))


def test_a_view_of_an_inference_tensor_is_one():
    with rl.inference_mode(): y = rl.ones(3)
    assert y.view(3, 1).is_inference() and y[0].is_inference() and not y.clone().is_inference()


def test_a_lazy_module_is_converted_to_the_dtype_it_has():
    """`to` asks for the shape only where a memory format is asked for."""
    module = rl.nn.LazyBatchNorm1d().to(rl.float32)
    assert module(rl.randn(4, 3)).shape == (4, 3)


# ------------------------------------------------------------------------------------------------------ what passes for a number
class Index:
    def __index__(self): return 1


def test_dims_and_flags_are_what_they_say():
    x = rl.ones(2, 3)
    for bad in (Index(), np.array(1), rl.tensor([1])):
        with pytest.raises(TypeError): x.softmax(bad)
        with pytest.raises(TypeError): x.transpose(0, bad)
    for good in (np.int64(1), np.uint8(1), rl.tensor(1)): assert x.cumsum(good).shape == (2, 3)
    with pytest.raises(TypeError): x.sum(0, keepdim=np.bool_(True))
    with pytest.raises(TypeError): x.sum(0, keepdim=1)
    with pytest.raises(TypeError): rl.nn.functional.batch_norm(x, None, None, training=1)


def test_sizes_may_be_anything_with_an_index():
    assert rl.zeros(Index()).shape == rl.zeros((Index(),)).shape == rl.zeros(rl.tensor([1])).shape == (1,)
    assert rl.ones(3).repeat(rl.tensor([[2]])).shape == (6,)
    assert rl.ones(2, 3).select(0, Index()).shape == (3,)


def test_ints_that_only_uint64_holds():
    big = 2 ** 63
    assert (rl.ones(2) * big).tolist() == [float(big)] * 2 == (big * rl.ones(2)).tolist()
    assert (rl.arange(2) + big).tolist() == [-big, 1 - big], "whole numbers wrap around, as torch's"
    assert (rl.ones(2, dtype=rl.uint64) * big).tolist() == [big] * 2
    assert rl.ones(2).fill_(big).tolist() == [float(big)] * 2
    for call in (lambda: rl.arange(2).fill_(big), lambda: rl.arange(2).pow(big), lambda: rl.arange(2).clamp_max(big), lambda: rl.full((2,), big)):
        with pytest.raises(RuntimeError, match="value cannot be converted to type"): call()
    for v in (2 ** 64, -2 ** 63 - 1):
        with pytest.raises(OverflowError): rl.arange(2) + v
    assert rl.nn.functional.layer_norm(rl.ones(1, 2), (2,), eps=2 ** 70).tolist() == [[0, 0]]


def test_bounds_and_exponents_fit_the_dtype():
    x = rl.tensor([1, 100], dtype=rl.uint8)
    for call in (lambda: x.clamp(max=300), lambda: x.clamp_min(-1000), lambda: x.pow(256), lambda: rl.nn.functional.hardtanh(x.to(rl.int8), 0, 300)):
        with pytest.raises(RuntimeError, match="value cannot be converted to type"): call()
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"): x.pow(-1)
    assert x.clamp(2, 50).tolist() == [2, 50] and x.clamp(max=255).tolist() == [1, 100] and x.pow(2).tolist() == [1, 16]


def test_orders_of_norms():
    x = rl.tensor([[3.0, 4.0]])
    for p in (rl.tensor(1), rl.tensor(1.0), np.float32(1), np.int64(1), 1): assert x.norm(p).item() == rl.norm(x, p=p).item() == rl.linalg.vector_norm(x, p).item() == 7
    assert rl.linalg.matrix_norm(x, rl.tensor(1)).item() == 4 and rl.linalg.norm(x, np.float32(1)).item() == 4
    assert x.norm() == x.norm("fro") == x.norm(None) == 5
    with pytest.raises(RuntimeError, match="Order 1 not supported"): x.norm("1")
    with pytest.raises(TypeError): x.norm(rl.tensor(1.0, requires_grad=True))


def test_numpy_truth_is_a_float_among_numbers():
    assert (rl.arange(2) + np.bool_(True)).dtype is rl.float32


def test_what_passes_for_an_integer_is_an_index():
    class One:
        def __index__(self): return 1
    x = rl.arange(6).reshape(2, 3)
    assert x[One()].tolist() == [3, 4, 5] and x[0, One()].item() == 1 and x[One():].shape == (1, 3)
    x[One()] = 7
    x[0, One()] = 8
    assert x.tolist() == [[0, 8, 2], [7, 7, 7]]


def test_equality_with_an_array_is_elementwise():
    x = rl.arange(3.0)
    for found in (x == np.array(1.0), np.array([1.0]) == x): assert isinstance(found, rl.Tensor) and found.tolist() == [False, True, False]
    assert (x == np.array(["a"])) is False
    with pytest.raises(RuntimeError, match="must match"): x == np.arange(4.0)      # noqa: B015
