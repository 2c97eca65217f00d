"""Every operator, from its own definition: values, gradients, layouts, forms, threads. No torch needed."""
import numpy as np
import pytest
from operators import WHOLE, arguments, definitions, layouts, results, same_bits

import rushlight as rl

DEFINITIONS = definitions()
ids = [d.name for d in DEFINITIONS]
# Relative to the largest value: f32 bodies against the same formula in f64.
LOOSE = {"prod": 2e-5, "cumprod": 2e-5, "lgamma": 1e-5, "digamma": 1e-5, "tan": 1e-5, "acosh": 2e-6, "var": 2e-6, "std": 2e-6}
DISCONTINUOUS = {"floor", "ceil", "trunc", "round", "sign", "sgn", "frac", "floor_divide", "remainder", "fmod", "argmax", "argmin", "isclose", "hardshrink", "div",
                 # Factors up to signs and order: tests/test_linalg.py multiplies them back.
                 "linalg_eigh", "linalg_eig", "linalg_eigvals", "linalg_svd", "svd"}


# Not those that jump where float32 and float64 differ by one rounding: tests/conformance compares them with torch.
@pytest.mark.parametrize("definition", [d for d in DEFINITIONS if d.name not in DISCONTINUOUS], ids=lambda d: d.name)
def test_float32_agrees_with_float64(definition):
    for sample in definition.samples(0):
        args, kwargs = arguments(sample)
        wide, wide_kwargs = arguments(sample, rl.float64)
        for a, b in zip(results(definition.op.function(*args, **kwargs)), results(definition.op.function(*wide, **wide_kwargs))):
            assert tuple(a.shape) == tuple(b.shape), sample
            double = rl.complex128 if b.is_complex() else rl.float64
            x, y = a.detach().to(double).resolve_conj().numpy(), b.detach().to(double).resolve_conj().numpy()
            scale = np.max(np.abs(y[np.isfinite(y)]), initial=1.0)
            np.testing.assert_allclose(x, y, rtol=LOOSE.get(definition.name, 4e-6), atol=LOOSE.get(definition.name, 1e-6) * scale, err_msg=str(sample))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=ids)
def test_any_strides_same_bits(definition):
    """Each argument of each sample in one of three layouts, in turn: a definition's samples meet them all. Every one with RUSHLIGHT_WHOLE=1, or where the samples are few."""
    samples = definition.samples(0)
    for number, sample in enumerate(samples):
        args, kwargs = arguments(sample)
        expected = results(definition.op.function(*args, **kwargs))
        for k, a in enumerate(args):
            others = list(layouts(a))
            if len(others) > 1 and len(samples) > 3 and not WHOLE: others = [others[(number + k) % len(others)]]
            for other in others:
                got = results(definition.op.function(*args[:k], other, *args[k + 1:], **kwargs))
                for x, y in zip(got, expected):
                    assert same_bits(x, y), f"argument {k} with strides {other.stride()} of {sample}"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=ids)
def test_threads_same_bits(definition):
    before = rl.get_num_threads()
    try:
        for sample in definition.samples(0):
            args, kwargs = arguments(sample)
            rl.set_num_threads(1)
            one = results(definition.op.function(*args, **kwargs))
            rl.set_num_threads(2)
            for x, y in zip(one, results(definition.op.function(*args, **kwargs))):
                assert same_bits(x, y), sample
    finally:
        rl.set_num_threads(before)


@pytest.mark.parametrize("definition", [d for d in DEFINITIONS if d.inplace], ids=lambda d: d.name)
def test_inplace_is_the_same(definition):
    for sample in definition.samples(0):
        args, kwargs = arguments(sample)
        if not isinstance(args[0], rl.Tensor): continue
        expected = definition.op.function(*args, **kwargs)
        if tuple(expected.shape) != tuple(args[0].shape) or expected.dtype is not args[0].dtype: continue
        target = args[0].clone()
        got = definition.op.inplace_function(target, *args[1:], **kwargs)
        assert got is target and same_bits(target, expected), sample


@pytest.mark.parametrize("definition", [d for d in DEFINITIONS if d.out], ids=lambda d: d.name)
def test_out_is_the_same(definition):
    for sample in definition.samples(0)[:4]:
        args, kwargs = arguments(sample)
        expected = definition.op.function(*args, **kwargs)
        if isinstance(expected, (tuple, list)):
            out = tuple(rl.empty(0, dtype=e.dtype) for e in expected)
            definition.op.function(*args, **kwargs, out=out)
        else:
            out = rl.empty(0, dtype=expected.dtype)
            definition.op.function(*args, **kwargs, out=out)
        for x, y in zip(results(out), results(expected)):
            assert same_bits(x, y), sample


def direction(rng, like):
    """Random numbers of a tensor's shape, real or complex as it is."""
    x = np.asarray(rng.standard_normal(tuple(like.shape)))
    if like.is_complex(): x = x + 1j * rng.standard_normal(tuple(like.shape))
    return rl.from_numpy(np.asarray(x)).reshape(like.shape)


# Complex vectors whose phase is arbitrary: a loss that sees it is refused, so only the values are weighed (tests/test_linalg_derivatives.py has the vectors).
UP_TO_PHASE = {"linalg_eig"}


def within_its_kind(a, step):
    """A step that leaves a symmetric matrix symmetric and a triangular one triangular: operators that read half of a matrix mean those."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or not a.numel(): return step
    if rl.allclose(a, a.mH): return (step + step.mH) / 2
    if not bool(a.triu(1).any()): return step.tril()
    return step.triu() if not bool(a.tril(-1).any()) else step


def unknown(definition, name):
    """Torch has no derivative there either."""
    return getattr(definition.gradients.get(name), "unknown", False)


def derived(definition): return definition.differentiable and not all(unknown(definition, p.name) for p in definition.params.values() if p.is_tensor)


@pytest.mark.parametrize("definition", [d for d in DEFINITIONS if derived(d)], ids=lambda d: d.name)
def test_gradient_against_differences(definition):
    """Directional derivatives in float64 against central differences."""
    rng = np.random.default_rng(0)
    checked, samples = 0, definition.samples(1)
    for sample in [s for start in range(3) for s in samples[start::3]]:          # neighbours are alike: the first six come from everywhere
        args, kwargs = arguments(sample, rl.float64, requires_grad=True)
        for name, a in zip(definition.params, args):
            if unknown(definition, name): a.requires_grad_(False)
        flat = [x for a in [*args, *kwargs.values()] for x in (a if isinstance(a, list) else [a])]
        leaves = [a for a in flat if isinstance(a, rl.Tensor) and a.requires_grad]
        if not leaves or sum(a.numel() for a in leaves) > 4000 or checked >= (12 if WHOLE else 6): continue
        every = results(definition.op.function(*args, **kwargs))
        live = [i for i, o in enumerate(every) if o.requires_grad and o.numel()]
        outs = [every[i] for i in live]
        if not outs: continue
        if not all(np.isfinite(o.detach().numpy()).all() for o in outs): continue
        weights = [direction(rng, o) for o in outs]
        if definition.name in UP_TO_PHASE: weights[1:] = [rl.zeros_like(w) for w in weights[1:]]
        grads = rl.autograd.grad(outs, leaves, weights, allow_unused=True)
        steps = [within_its_kind(a.detach(), direction(rng, a)) for a in leaves]
        analytic = sum((g.conj() * s).real.sum().item() if g.is_complex() else (g * s).sum().item() for g, s in zip(grads, steps) if g is not None)
        if not np.isfinite(analytic): continue

        def value(h):
            with rl.no_grad():
                moved = {id(a): a.detach() + h * s for a, s in zip(leaves, steps)}
                swap = lambda v: [moved.get(id(x), x) for x in v] if isinstance(v, list) else moved.get(id(v), v)
                every = results(definition.op.function(*map(swap, args), **{k: swap(v) for k, v in kwargs.items()}))
                got = [every[i] for i in live]                # noqa: B023
                return sum((w.conj() * o).real.sum().item() if o.is_complex() else (o * w).sum().item() for o, w in zip(got, weights))
        h = 1e-6
        numeric = (value(h) - value(-h)) / (2 * h)
        scale = max(1.0, abs(analytic))
        if definition.name in DISCONTINUOUS or abs(value(h) - 2 * value(0) + value(-h)) > 1e-7 * scale:
            continue                                  # a kink or a jump inside the step
        assert abs(numeric - analytic) < 2e-4 * scale, f"{sample}: {analytic} against {numeric}"
        checked += 1
    assert checked or definition.name in DISCONTINUOUS, "no sample was differentiated"
