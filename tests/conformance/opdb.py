"""torch's operator database seen from here: which entries rushlight has, how each is called, and what one sample says about it.

Every check returns a list of findings, `(kind, words)`; an empty list is agreement. Kinds: call, warning, value, strides, gradient, gradgrad, tangent, inplace, out, error (bad
input that raises nothing, or another type than torch's), words (torch's type, other words).
"""
from __future__ import annotations

import functools
import itertools
import types
import warnings

import torch
from bridge import difference, flatten, parts_of, to_rl, to_torch
from closeness import Exact, derivative_tolerances, like, settled, stated_tolerances, widened
from tangents import check_tangents
from torch.testing._internal import common_methods_invocations as invocations

import rushlight as rl
from rushlight import registry

for module in (torch, rl): module.set_warn_always(True)            # what is said once a process is otherwise heard by the first test only

# In half precision torch's gradients round every intermediate value. They are compared with its float32 gradients instead: rtol, and atol beside the
# largest of them.
HALF = {torch.bfloat16: 2.0 ** -6, torch.float16: 2.0 ** -9}
SINGLE = {torch.bfloat16: torch.float32, torch.float16: torch.float32}
# Samples with more elements than this say nothing that smaller ones do not, and take torch itself seconds.
TOO_BIG = 20_000
# Entries whose values are not defined (uninitialised memory): only shapes, dtypes and strides are compared.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}


# Where torch's choice among equal elements is arbitrary: the place of `dim` among the arguments after the input. The values chosen must be the same.
ARBITRARY_CHOICE = {"sort": 0, "argsort": 0, "msort": None, "topk": 1, "kthvalue": 1, "mode": 0, "median": 0, "nanmedian": 0}


# Factors that are unique only up to signs or phases: compared by what op_db makes of them for this purpose (sample.output_process_fn_grad).
UP_TO_PHASES = {"linalg.svd", "svd", "linalg.eig", "linalg.eigh", "svd_lowrank", "pca_lowrank"}


def full_name(info) -> str:
    return info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")


def offered(name: str):
    """What rushlight has under an op_db name: a function of a namespace, or a method of Tensor. None: nothing."""
    target = rl
    for part in name.split("."):
        target = getattr(target, part, None)
        if target is None: return getattr(rl.Tensor, name, None) if "." not in name else None
    return target


def _with_fixed_seed(function, *args, **kwargs):
    """op_db's `wrapper_set_seed`, for rushlight's generator."""
    rl.manual_seed(42)
    return function(*args, **kwargs)


def counterpart(info):
    """The rushlight callable that does what `info.op` does in torch, or None."""
    found = offered(info.name)
    if found is None and translated(info.op) is not None: found = getattr(rl.Tensor, info.name + "_", None)      # op_db's `uniform` calls uniform_
    if found is None and isinstance(info.op, torch._ops.OpOverload):                                           # aten's own, without a public name
        found = next((d.op.function for d in registry.all() if d.name == info.name), None)
    if found is not None and not callable(found): found = getattr(rl.Tensor, info.name, None)      # rl.cfloat is a dtype, Tensor.cfloat a method
    return translated(info.op) or found if found is not None else None


def translated(function):
    """A lambda of op_db over torch's names: the same code over ours. None for anything else."""
    if isinstance(function, functools.partial):             # F.mish with inplace=True
        ours = offered("nn.functional." + function.func.__name__)
        return functools.partial(ours, *function.args, **function.keywords) if ours is not None else None
    if not isinstance(function, types.FunctionType) or not function.__module__.startswith("torch.testing._internal."): return None
    names = {**function.__globals__, "torch": rl, "F": rl.nn.functional, "wrapper_set_seed": _with_fixed_seed}
    out = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    out.__kwdefaults__ = function.__kwdefaults__
    return out


def entries():
    """(name, info, our callable) for every op_db entry that rushlight has."""
    out = []
    for info in invocations.op_db:
        ours = counterpart(info)
        if ours is not None: out.append((full_name(info), info, ours))
    return out


def _elements(sample) -> int:
    return sum(t.numel() for t in flatten([sample.input, sample.args, sample.kwargs]) if isinstance(t, torch.Tensor))


def spread(items, count):
    """`count` items from first to last: op_db puts one kind of sample after another."""
    if count is None or len(items) <= count: return items
    if count < 2: return items[:count]
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def samples_of(info, dtype, gradients, count=None):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return spread([s for s in info.sample_inputs("cpu", dtype, requires_grad=gradients) if _elements(s) <= TOO_BIG], count)


def words_of(error) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:220]


class Attempt:
    """One call: its result, or the exception it raised; and what it warned of."""

    def __init__(self, function, args, kwargs):
        self.result = self.error = None
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try: self.result = function(*args, **kwargs)
            except Exception as error: self.error = error      # noqa: BLE001 - whatever is raised is compared
        self.warnings = [w for w in said if not any(words in str(w.message) for words in NOT_SO_HERE)]


# torch warns that these are not finished, or slow. Here they are neither.
NOT_SO_HERE = ("is in beta", "in beta state", "support is experimental", "tensor is non-contiguous, this will lower the performance")


def same_warnings(expected, got) -> list:
    """Findings: the categories of what both calls warned of, each once."""
    theirs, ours = ({w.category.__name__ for w in attempt.warnings} for attempt in (expected, got))
    return [] if ours == theirs else [("warning", f"{sorted(ours) or 'none'}, torch has {[str(w.message)[:80] for w in expected.warnings]}")]


def _both(info, ours, sample, **more):
    args, kwargs = (sample.input, *sample.args), {**sample.kwargs, **more}
    storages: dict = {}
    mine, my_kwargs = to_rl(list(args), storages), to_rl(kwargs, storages)
    torch.manual_seed(7)
    expected = Attempt(info.op, args, kwargs)
    rl.manual_seed(7)
    got = Attempt(ours, mine, my_kwargs)
    return expected, got, args, kwargs, mine, my_kwargs


def _same_failure(expected, got, kind):
    """Findings when either side raised; None when neither did. For out= only the type of the exception counts: torch has a dozen ways to say that
    its dtype is wrong."""
    if expected.error is None and got.error is None: return None
    if expected.error is None: return [(kind, words_of(got.error))]
    if got.error is None: return [(kind, f"no error; torch has {words_of(expected.error)}")]
    if same_type(got.error, expected.error):
        if kind == "out" or same_words(got.error, expected.error): return []
        if kind == "error": kind = "words"
    return [(kind, f"{words_of(got.error)} for torch's {words_of(expected.error)}")]


def same_type(ours, theirs) -> bool:
    """torch's own exception classes are subclasses of Python's: any of their bases but the broadest will do."""
    return type(ours) is type(theirs) or type(theirs).__module__.startswith("torch") and isinstance(ours, type(theirs).__mro__[1])


def has_ties(info, sample) -> bool:
    """Whether the answer depends on which of several equal elements is chosen."""
    if info.name not in ARBITRARY_CHOICE: return False
    x = sample.input.detach()
    return x.unique().numel() < x.numel() or x.dtype in HALF and x.isnan().any().item()


def chosen_values(info, sample, result):
    """A result with indices replaced by what they choose from the input. For a sample with ties."""
    place = ARBITRARY_CHOICE[info.name]
    x = sample.input.detach()

    def values(t):
        if t.dtype is not torch.int64 or place is None or t is parts[0] and info.name != "argsort": return t
        dim = sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1)
        if x.dim() == 0: return x
        return x.gather(dim, t) if t.dim() == x.dim() else x.gather(dim, t.unsqueeze(dim))
    parts = [to_torch(t) if isinstance(t, rl.Tensor) else t.detach() for t in flatten([*result] if isinstance(result, tuple) else [result])]
    return [values(t) for t in parts]


def check_sample(info, ours, sample, gradients=True, second=False):
    """One sample: warnings, values, dtypes, shapes, strides, then gradients."""
    expected, got, args, kwargs, mine, my_kwargs = _both(info, ours, sample)
    failure = _same_failure(expected, got, "call")
    if failure is not None: return failure
    return same_warnings(expected, got) + _check_results(info, sample, expected, got, args, kwargs, mine, my_kwargs, gradients, second)


def _check_results(info, sample, expected, got, args, kwargs, mine, my_kwargs, gradients, second):
    if any(isinstance(t, torch.Tensor) and t.dtype is torch.complex32 for t in flatten(expected.result)): return []     # numpy has none: nothing to compare by
    half = any(isinstance(t, torch.Tensor) and t.dtype in HALF for t in flatten([args, kwargs]))
    if has_ties(info, sample):
        mine, theirs = chosen_values(info, sample, got.result), chosen_values(info, sample, expected.result)
        word = next((f"other values are chosen: {a} against {b}" for a, b in zip(mine, theirs) if not torch.equal(a.nan_to_num(), b.nan_to_num())), None)
        return [("value", word)] if word else []
    layouts = difference(got.result, expected.result, strides=True, values=False)
    process = sample.output_process_fn_grad if info.name in UP_TO_PHASES else lambda result: result
    theirs, ours_, exact = process(expected.result), process(got.result), Exact(info.op, args, kwargs)
    word = difference(ours_, theirs, tolerance=stated_tolerances(info), values=info.name not in UNDEFINED)
    wide = widened([list(args), kwargs], SINGLE) if half else None
    if word and half:                                    # torch may round inside an operator: its float32 result, rounded once, is as right
        torch.manual_seed(7)
        single = like(process(info.op(*wide[0], **wide[1])), theirs)
        word = difference(ours_, single)
        if word:                                         # a result in single precision of half and single arguments (cov with weights)
            doubles = Exact(info.op, *wide).result
            word = settled(word, ours_, single, None if doubles is None else process(doubles))
    elif word: word = settled(word, ours_, theirs, None if exact.result is None else process(exact.result), stated_tolerances(info))
    if word: return [("value", word)]
    out = [("strides", layouts)] if layouts else []
    expected.result, got.result = theirs, ours_
    if info.name in UP_TO_PHASES: exact = Exact(lambda *a, **k: process(info.op(*a, **k)), args, kwargs)
    if gradients and half: return out + check_half_gradients(info, wide, mine, my_kwargs, got.result, expected.result, [args, kwargs])
    if gradients: out += check_gradients(info, args, mine, kwargs, my_kwargs, expected.result, got.result, second, exact)
    return out


def _differentiable(result, kind):
    return [o for o in flatten(result) if isinstance(o, kind) and o.requires_grad]


def weight_like(result):
    """Random numbers in the shape of a result; for a sparse one, at its places."""
    if result.layout is torch.strided: return torch.randn_like(result)
    *indices, values = parts_of(result.detach())
    if result.is_sparse: return torch.sparse_coo_tensor(*indices, torch.randn_like(values), result.shape, is_coalesced=result.is_coalesced())
    return torch.sparse_compressed_tensor(*indices, torch.randn_like(values), result.shape, layout=result.layout)


def _leaves(args, kwargs, mine, my_kwargs):
    return [(a, b) for a, b in zip(flatten([args, kwargs]), flatten([mine, my_kwargs])) if isinstance(a, torch.Tensor) and a.requires_grad]


def check_half_gradients(info, wide, mine, my_kwargs, got, rounded, narrow):
    """The gradients beside torch's wider ones; `rounded` and `narrow` are torch's own result and arguments in half precision."""
    args, kwargs = wide
    torch.manual_seed(7)
    theirs, ours = _differentiable(info.op(*args, **kwargs), torch.Tensor), _differentiable(got, rl.Tensor)
    if len(theirs) != len(ours): return [("gradient", f"{len(ours)} results require grad, torch has {len(theirs)}")]
    if not theirs: return []
    leaves = _leaves(args, kwargs, mine, my_kwargs)
    torch.manual_seed(0)
    half = next(iter(d for d in HALF if str(d)[6:] == str(leaves[0][1].dtype).rpartition(".")[2]))
    weights = [weight_like(o).to(half) for o in theirs]
    want = Attempt(torch.autograd.grad, (theirs, [a for a, _ in leaves], [w.float() for w in weights]), {"allow_unused": True})
    have = Attempt(rl.autograd.grad, (ours, [b for _, b in leaves], [to_rl(w).to(o.dtype) for w, o in zip(weights, ours)]), {"allow_unused": True})
    if want.error is not None: return []
    if have.error is not None: return [("gradient", words_of(have.error))]
    doubles = None
    for i, (x, y) in enumerate(zip(have.result, want.result)):
        if (x is None) != (y is None): return [("gradient", f"argument {i}: {'None' if x is None else 'a tensor'}, torch has {'None' if y is None else 'a tensor'}")]
        if x is None or not y.numel(): continue
        if str(x.layout) != str(y.layout): return [("gradient", f"argument {i}: layout {x.layout}, torch has {y.layout}")]
        x, y = x.detach().to_dense(), y.detach().to_dense()
        word = _half_gap(x, y, half)
        if word:                                         # where float32 cancels, torch's double gradient is the judge
            if doubles is None: doubles = Exact(info.op, args, kwargs).gradients([w.float() for w in weights]) or ()
            if doubles and doubles[i] is not None and not _half_gap(x, doubles[i], half): continue
            own = Attempt(torch.autograd.grad, (_differentiable(rounded, torch.Tensor), [t for t in flatten(narrow) if isinstance(t, torch.Tensor) and t.requires_grad][i],
                                                [w.to(o.dtype) for w, o in zip(weights, _differentiable(rounded, torch.Tensor))]), {"retain_graph": True})
            # An operator made of several rounds at each: then torch's own gradient is no nearer, to the double one either.
            truths = [y, *(d.detach() for d in (doubles or ())[i:i + 1] if d is not None)]
            if own.error is None and any((to_torch(x).to(t.dtype) - t).abs().max() <= (own.result[0].to(t.dtype) - t).abs().max()
                                         for t in truths): continue
            return [("gradient", f"argument {i}: {word}")]
    return []


def _half_gap(x, y, half):
    """What is wrong with a gradient in half precision beside a wider one, or None."""
    limit = torch.finfo(half).max / 16                   # beyond, the half result may overflow on its way
    known = y.isfinite() & (y.abs() < limit)
    if not known.any(): return None
    near = HALF[half] * (y.abs() + y[known].abs().max() + 1e-3)
    gap = (to_torch(x).to(y.dtype) - y).abs()
    return f"off by up to {gap[known].max().item():.3g} beside {y[known].abs().max().item():.3g}" if bool((known & ~(gap <= near)).any()) else None


def check_gradients(info, args, mine, kwargs, my_kwargs, expected, got, second, exact):
    theirs, ours = _differentiable(expected, torch.Tensor), _differentiable(got, rl.Tensor)
    if len(theirs) != len(ours): return [("gradient", f"{len(ours)} results require grad, torch has {len(theirs)}")]
    if not theirs: return []
    leaves, tolerances = _leaves(args, kwargs, mine, my_kwargs), derivative_tolerances(info, "gradient")
    torch.manual_seed(0)
    weights = [weight_like(o) for o in theirs]
    for w in weights: w.requires_grad_(second)
    my_weights = [to_rl(w) for w in weights]
    word, want, have = _compare_grads(theirs, ours, leaves, weights, my_weights, second, True, tolerances, lambda: exact.gradients(weights))
    if word: return [("gradient", word)]
    if not second or want is None: return []
    # Once more: a weighted sum of the gradients, differentiated with respect to the arguments and the weights.
    places = [i for i, x in enumerate(want) if x is not None and x.requires_grad]
    pairs = [(want[i], have[i]) for i in places if have[i] is not None]
    if not pairs: return []
    if any(not y.requires_grad for _, y in pairs): return [("gradgrad", "a gradient that is differentiable in torch is not")]
    leaves = leaves + list(zip(weights, my_weights))
    again = [weight_like(x) for x, _ in pairs]
    word, _, _ = _compare_grads([x for x, _ in pairs], [y for _, y in pairs], leaves, again, [to_rl(w) for w in again], False, False, derivative_tolerances(info, "gradgrad"),
                                lambda: exact.gradients(weights, (places, again)))
    return [("gradgrad", word)] if word else []


def _compare_grads(theirs, ours, leaves, weights, my_weights, create_graph, strict, tolerances, exact):
    """(words or None, torch's gradients or None when torch has none, ours). Of a derivative that is zero everywhere torch says None or zeros, operator by
    operator, by how its formula happens to be written: `strict` False takes them for the same. `exact` gives them in double precision."""
    expected = Attempt(torch.autograd.grad, (theirs, [a for a, _ in leaves], weights), {"allow_unused": True, "create_graph": create_graph})
    got = Attempt(rl.autograd.grad, (ours, [b for _, b in leaves], my_weights), {"allow_unused": True, "create_graph": create_graph})
    if expected.error is not None: return None, None, None             # torch has no gradient here: nothing to agree with
    if got.error is not None: return words_of(got.error), None, None
    doubles = None
    for i, (x, y) in enumerate(zip(got.result, expected.result)):
        if not strict and (x is None) != (y is None) and not bool((y if x is None else x).any()): continue
        if (x is None) != (y is None): return f"argument {i}: {'None' if x is None else 'a tensor'}, torch has {'None' if y is None else 'a tensor'}", None, None
        word = None if x is None else difference(x, y, tolerance=tolerances)
        if word:
            if doubles is None: doubles = exact() or ()
            word = settled(word, x, y, doubles[i] if doubles else None, tolerances)
        if word: return f"argument {i}: {word}", None, None
    return None, expected.result, got.result


# ----------------------------------------------------------------------------------------------------------- forms
def inplace_of(info):
    theirs = info.get_inplace()
    if theirs is None: return None, None
    return theirs, translated(theirs) or getattr(rl.Tensor, getattr(theirs, "__name__", ""), None)


def check_inplace(info, sample):
    """The in-place form: the same object, torch's values, or the same refusal with nothing written."""
    theirs, ours = inplace_of(info)
    if theirs is None or not isinstance(sample.input, torch.Tensor): return []
    if ours is None: return [("inplace", f"there is no counterpart of {theirs}")]
    x = sample.input.detach().clone()
    y, before = to_rl(x), x.clone()
    args, kwargs = [_plain(a) for a in sample.args], {k: _plain(v) for k, v in sample.kwargs.items()}
    torch.manual_seed(7)
    expected = Attempt(theirs, (x, *args), kwargs)
    rl.manual_seed(7)
    got = Attempt(ours, (y, *to_rl(args)), to_rl(kwargs))
    failure = _same_failure(expected, got, "inplace")
    if failure is not None:
        if got.error is not None and difference(y, before, 0): return failure + [("inplace", "something was written before the error")]
        return failure
    if got.result is not y: return [("inplace", "the result is not the tensor itself")]
    word = difference(y, x, strides=True, values=info.name not in UNDEFINED, tolerance=stated_tolerances(info))
    if word and not difference(y, x, strides=True, values=False): word = settled(word, y, x, Exact(info.op, (before, *args), kwargs).result, stated_tolerances(info))
    return [("inplace", word)] if word else []


def check_out(info, ours, sample):
    """out=: an empty tensor is resized and filled; a tensor of a kind that cannot hold the result is refused."""
    if not info.supports_out: return []
    sample = _plain_sample(sample)
    first = Attempt(info.op, (sample.input, *sample.args), sample.kwargs)
    if first.error is not None or not all(isinstance(t, torch.Tensor) for t in flatten(first.result)): return []
    many = isinstance(first.result, (tuple, list))
    results = list(first.result) if many else [first.result]
    if any(isinstance(r, (tuple, list)) for r in results): return []               # histogramdd: a list among the results has no out= form
    findings = []
    for dtype_name in (None, "int64", "float64"):           # None: an empty tensor of the result's own dtype
        make = lambda m, r: m.empty(0, dtype=getattr(m, str(r.dtype)[6:])) if dtype_name is None else m.zeros(tuple(r.shape), dtype=getattr(m, dtype_name))  # noqa: B023
        outs, my_outs = tuple(make(torch, r) for r in results), tuple(make(rl, r) for r in results)
        torch.manual_seed(7)
        expected = Attempt(info.op, (sample.input, *sample.args), {**sample.kwargs, "out": outs if many else outs[0]})
        rl.manual_seed(7)
        got = Attempt(ours, to_rl([sample.input, *sample.args]), {**to_rl(sample.kwargs), "out": my_outs if many else my_outs[0]})
        failure = _same_failure(expected, got, "out")
        what = f"out= of {outs[0].dtype}"
        if failure: findings += [(k, f"{what}: {w}") for k, w in failure]
        elif failure is None:
            # A wider out= holds what was computed in the result's own dtype: its tolerance counts.
            stated = stated_tolerances(info)
            own = {o.dtype: stated.get(r.dtype, stated.get(o.dtype)) for o, r in zip(outs, results)}
            process = sample.output_process_fn_grad if info.name in UP_TO_PHASES else lambda result: result
            word = difference(flatten(process(my_outs)), flatten(process(outs)), values=info.name not in UNDEFINED, tolerance={**stated, **own})
            if word and not difference(list(my_outs), list(outs), values=False):         # out= holds the result in its own dtype first
                exact = Exact(info.op, (sample.input, *sample.args), sample.kwargs).result
                rounded = None if exact is None else like(like(exact, first.result), outs if many else outs[0])
                word = word if rounded is None else difference(flatten(process(my_outs)), flatten([process(rounded)]), tolerance={**stated, **own})
            if word: findings.append(("out", f"{what}: {word}"))
    return findings


def _plain(value):
    """Without gradients: in-place and out= refuse arguments that require them."""
    if isinstance(value, torch.Tensor): return value.detach()
    if isinstance(value, (list, tuple)): return type(value)(_plain(v) for v in value)
    return value


def _plain_sample(sample):
    return types.SimpleNamespace(input=_plain(sample.input), args=tuple(_plain(a) for a in sample.args), kwargs={k: _plain(v) for k, v in sample.kwargs.items()},
                                 output_process_fn_grad=getattr(sample, "output_process_fn_grad", None))


# ---------------------------------------------------------------------------------------------------------- bad input
def error_inputs(info):
    """op_db's error inputs that torch can make and refuses."""
    if info.error_inputs_func is None: return
    torch.manual_seed(0)
    samples = info.error_inputs("cpu")
    for i in itertools.count():
        try: bad = next(samples, None)
        except RuntimeError: break                      # torch itself refuses to make the sample (more than 64 dimensions)
        if bad is None: break
        if any(isinstance(t, torch.Tensor) and t.dim() > 64 for t in flatten([bad.sample_input.input, bad.sample_input.args])): continue
        yield i, bad.sample_input


def check_errors(info, ours):
    """(error inputs that torch refuses, findings): the same exception type, and words that begin as torch's do."""
    findings, count = [], 0
    for i, sample in error_inputs(info):
        expected, got, *_ = _both(info, ours, sample)
        if expected.error is None: continue
        count += 1
        findings += [(k, f"error input {i}: {w}") for k, w in _same_failure(expected, got, "error") or ()]
    return count, findings


def same_words(ours, theirs, count: int = 4) -> bool:
    """The first words of two exceptions agree; what follows may say more. Of a TypeError only the type is compared: torch's argument parser
    words it by how many overloads it has in C++, and both list what they take."""
    if isinstance(theirs, TypeError): return True
    mine, wanted = str(ours).split()[:count], str(theirs).split()[:count]
    return bool(mine) == bool(wanted) and mine[:len(wanted)] == wanted[:len(mine)]


def check_operator(info, ours, dtypes, limit=None, seconds=1, forms=2, errors=True, firsts=None):
    """(samples run, [(dtype name, sample, kind, words)]): everything about one entry. `firsts`, `seconds`: samples differentiated (None: all), and twice."""
    findings, count = [], 0
    for d, dtype in enumerate(dtypes):
        if not info.supports_dtype(dtype, "cpu"): continue
        name = str(dtype).rpartition(".")[2]
        # A complex number that requires a gradient is not a sample where op_db says that torch has none (to_sparse): it errs in the forward call.
        gradients = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex and dtype in info.supported_backward_dtypes("cpu"))
        try: samples = samples_of(info, dtype, gradients, limit)
        except Exception as error:       # noqa: BLE001
            findings.append((name, None, "call", f"torch's samples cannot be made: {error}"))
            continue
        for i, sample in enumerate(samples):
            count += 1
            try:
                twice = gradients and info.supports_gradgrad and d == 0 and i in spread(range(len(samples)), seconds)
                found = check_sample(info, ours, sample, gradients and i in spread(range(len(samples)), firsts), second=twice)
                if i < forms and d == 0: found = found + check_inplace(info, sample) + check_out(info, ours, sample)
                if twice and info.supports_forward_ad:
                    found = found + check_tangents(info, ours, sample, sample.output_process_fn_grad if info.name in UP_TO_PHASES else None, translated)
            except Exception as error:   # noqa: BLE001
                found = [("call", f"the comparison failed: {words_of(error)}")]
            findings += [(name, i, kind, words) for kind, words in found]
    try: findings += [("", None, kind, words) for kind, words in check_errors(info, ours)[1]] if errors else []
    except Exception as error:           # noqa: BLE001
        findings.append(("", None, "error", f"the comparison failed: {words_of(error)}"))
    return count, findings
