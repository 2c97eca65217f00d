"""Module: registration, attributes, traversal, state dicts, hooks, copies."""
import copy
import pickle
from collections import OrderedDict

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.modules import hooks as module_hooks


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.register_buffer("kept", rl.ones(3))
        self.register_buffer("left_out", rl.zeros(1), persistent=False)
        self.scale = nn.Parameter(rl.ones(()))

    def forward(self, x, *, shift=0.0):
        return self.inner(x) * self.scale + shift


# ------------------------------------------------------------------------------------------------------ registration
def test_names_come_in_order_of_registration():
    block = Block()
    assert [name for name, _ in block.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert [name for name, _ in block.named_buffers()] == ["kept", "left_out"]
    assert [name for name, _ in block.named_modules()] == ["", "inner"]
    assert list(block.state_dict()) == ["scale", "kept", "inner.weight", "inner.bias"]


def test_shared_parts_appear_once():
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, shared)
    assert len(list(model.parameters())) == 2
    assert len(list(model.named_parameters(remove_duplicate=False))) == 4
    assert len(list(model.modules())) == 2
    assert len(list(model.children())) == 1
    assert len(model.state_dict()) == 4


def test_assigning_changes_the_kind_of_an_attribute():
    block = Block()
    block.kept = None
    assert "kept" in block._buffers and "kept" not in block.state_dict()
    block.plain = rl.ones(2)
    assert "plain" in block.__dict__
    block.plain = nn.Parameter(rl.ones(2))
    assert "plain" not in block.__dict__ and "plain" in block._parameters
    block.extra = nn.Buffer(rl.ones(1), persistent=False)
    assert "extra" in block._buffers and "extra" not in block.state_dict()
    del block.inner
    assert [name for name, _ in block.named_children()] == []
    with pytest.raises(TypeError, match=r"cannot assign 'torch.FloatTensor' as parameter 'scale' \(torch.nn.Parameter or None expected\)"):
        block.scale = rl.ones(())


@pytest.mark.parametrize("make, error, text", [
    (lambda m: m.register_buffer("a.b", None), KeyError, "name can.*t contain"),
    (lambda m: m.register_buffer("", None), KeyError, "name can.*t be empty string"),
    (lambda m: m.register_buffer("inner", None), KeyError, "attribute 'inner' already exists"),
    (lambda m: m.register_buffer("x", 3), TypeError, r"cannot assign 'int' object to buffer 'x' \(torch Tensor or None required\)"),
    (lambda m: m.register_parameter("x", rl.ones(1)), TypeError, "cannot assign 'torch.FloatTensor' object to parameter 'x'"),
    (lambda m: m.add_module("x", 3), TypeError, "int is not a Module subclass"),
    (lambda m: m.add_module("a.b", nn.ReLU()), KeyError, "module name can.*t contain"),
    (lambda m: m.get_submodule("inner.nope"), AttributeError, "Linear has no attribute `nope`"),
    (lambda m: m.get_parameter("kept"), AttributeError, "`kept` is not an nn.Parameter"),
    (lambda m: m.get_buffer("scale"), AttributeError, "`scale` is not a buffer"),
    (lambda m: m.train(1), ValueError, "training mode is expected to be boolean"),
    (lambda m: m.to(rl.int64), TypeError, "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int64"),
    (lambda m: m.nothing, AttributeError, "'Block' object has no attribute 'nothing'"),
    (lambda m: nn.Module()(1), NotImplementedError, 'Module \\[Module\\] is missing the required "forward" function'),
    (lambda m: nn.Module(3), TypeError, r"Module.__init__\(\) takes 1 positional argument but 2 were given"),
])
def test_errors_are_torchs(make, error, text):
    with pytest.raises(error, match=text):
        make(Block())


def test_a_property_reports_its_own_error():
    class Broken(nn.Module):
        @property
        def depth(self):
            return self.missing_part

    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'missing_part'"):
        getattr(Broken(), "depth")  # noqa: B009


def test_use_before_init_is_named():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Early()


# --------------------------------------------------------------------------------------------------------- state dicts
def test_state_dict_round_trip_and_sharing():
    a, b = Block(), Block()
    state = a.state_dict()
    assert not state["inner.weight"].requires_grad
    assert state["inner.weight"].data_ptr() == a.inner.weight.data_ptr()
    assert state._metadata["inner"] == {"version": 1}
    assert repr(b.load_state_dict(state)) == "<All keys matched successfully>"
    assert rl.equal(a.inner.weight, b.inner.weight)
    assert a.inner.weight.data_ptr() != b.inner.weight.data_ptr()
    assert a.state_dict(keep_vars=True)["scale"] is a.scale


def test_load_reports_everything_at_once():
    state = {"inner.weight": rl.ones(3, 2), "scale": rl.ones(()), "stray": rl.ones(1), "kept": 3, "inner.deep.x": rl.ones(1)}
    with pytest.raises(RuntimeError) as caught:
        Block().load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Block:\n"
        '\tMissing key(s) in state_dict: "inner.bias". \n'
        '\tUnexpected key(s) in state_dict: "stray", "inner.deep.x". \n'
        '\tWhile copying the parameter named "kept", expected torch.Tensor or Tensor-like object from checkpoint but received '
        "<class 'int'>\n"
        "\tsize mismatch for inner.weight: copying a param with shape torch.Size([3, 2]) from checkpoint, "
        "the shape in current model is torch.Size([2, 2]).")


def test_load_not_strict_returns_the_keys():
    result = Block().load_state_dict({"stray": rl.ones(1), "scale": rl.ones(())}, strict=False)
    assert result.missing_keys == ["kept", "inner.weight", "inner.bias"]
    assert result.unexpected_keys == ["stray"]


def test_load_assign_takes_the_tensors():
    block = Block()
    state = {name: value.double() for name, value in Block().state_dict().items()}
    block.load_state_dict(state, assign=True)
    assert block.inner.weight.dtype == rl.float64 and isinstance(block.inner.weight, nn.Parameter)
    assert block.inner.weight.data_ptr() == state["inner.weight"].data_ptr()
    assert block.inner.weight.requires_grad


def test_state_dict_hooks():
    block, seen = Block(), []
    block.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append(("pre", prefix, keep_vars)))
    block.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.update({prefix + "more": 1}))
    block.register_load_state_dict_pre_hook(lambda module, state, prefix, *rest: state.pop(prefix + "more"))
    block.register_load_state_dict_post_hook(lambda module, keys: seen.append(("post", list(keys.missing_keys))))
    state = block.state_dict()
    assert state["more"] == 1
    block.load_state_dict(state)
    assert seen == [("pre", "", False), ("post", [])]


def test_extra_state():
    class WithState(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    a, b = nn.Sequential(WithState()), nn.Sequential(WithState())
    a[0].count = 5
    assert list(a.state_dict()) == ["0._extra_state"]
    b.load_state_dict(a.state_dict())
    assert b[0].count == 5


# --------------------------------------------------------------------------------------------------------------- hooks
def test_forward_hooks_in_order_and_with_kwargs():
    block, seen = Block(), []
    block.register_forward_pre_hook(lambda module, args: seen.append("pre") or (args[0] * 0,))
    block.register_forward_pre_hook(lambda module, args, kwargs: (args, {"shift": 3.0}), with_kwargs=True)
    block.register_forward_hook(lambda module, args, result: seen.append("hook"))
    block.register_forward_hook(lambda module, args, kwargs, result: result + kwargs["shift"], with_kwargs=True)
    handle = block.register_forward_hook(lambda module, args, result: seen.append("first"), prepend=True)
    out = block(rl.ones(1, 2))
    rl.testing.assert_close(out, (block.inner.bias + 6).detach().reshape(1, 2), check_stride=False)
    assert seen == ["pre", "first", "hook"]
    handle.remove()
    block(rl.ones(1, 2))
    assert seen == ["pre", "first", "hook", "pre", "hook"]


def test_always_called_hooks_survive_errors():
    seen = []

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    module = Fails()
    module.register_forward_hook(lambda module, args, result: seen.append(result), always_call=True)
    with pytest.raises(ValueError, match="no"):
        module(1)
    assert seen == [None]


def test_pre_hook_with_kwargs_must_return_a_pair():
    block = Block()
    block.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"forward pre-hook must return None or a tuple of \(new_args, new_kwargs\), but got 3."):
        block(rl.ones(1, 2))


def test_full_backward_hooks_see_and_replace_gradients():
    layer, seen = nn.Linear(2, 3), []
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_output[0].clone()) or (grad_input[0] * 10,))
    x = rl.ones(4, 2, requires_grad=True)
    layer(x).sum().backward()
    rl.testing.assert_close(seen[0], rl.full((4, 3), 2.0))
    expected = 2 * layer.weight.detach().sum(0) * 10
    rl.testing.assert_close(x.grad, expected.expand(4, 2), check_stride=False)
    rl.testing.assert_close(layer.bias.grad, rl.full((3,), 8.0))


def test_full_backward_hook_without_input_gradient():
    layer, seen = nn.Linear(2, 3), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output[0].shape)))
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        layer(rl.ones(4, 2)).sum().backward()
    assert seen == [((None,), rl.Size([4, 3]))]


def test_old_and_full_backward_hooks_do_not_mix():
    layer = nn.Linear(2, 2)
    layer.register_backward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks on a single Module"):
        layer.register_full_backward_hook(lambda *args: None)


def test_global_hooks_cover_every_module():
    seen = []
    handles = [module_hooks.register_module_forward_pre_hook(lambda module, args: seen.append(type(module).__name__)),
               module_hooks.register_module_forward_hook(lambda module, args, result: seen.append("done"))]
    try:
        nn.Sequential(nn.ReLU())(rl.ones(1))
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["Sequential", "ReLU", "done", "done"]
    nn.ReLU()(rl.ones(1))
    assert len(seen) == 4


def test_registration_hooks():
    seen = []
    handles = [module_hooks.register_module_parameter_registration_hook(lambda module, name, value: seen.append(("parameter", name))),
               module_hooks.register_module_buffer_registration_hook(lambda module, name, value: seen.append(("buffer", name))),
               module_hooks.register_module_module_registration_hook(lambda module, name, value: seen.append(("module", name)))]
    try:
        Block()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [("parameter", "weight"), ("parameter", "bias"), ("module", "inner"), ("buffer", "kept"), ("buffer", "left_out"),
                    ("parameter", "scale")]


# ------------------------------------------------------------------------------------------------- copies, conversion
def test_deepcopy_and_pickle_keep_values_and_structure():
    block = Block()
    block.inner.weight.grad = rl.ones(2, 2)
    for other in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert rl.equal(other.inner.weight, block.inner.weight)
        assert other.inner.weight.data_ptr() != block.inner.weight.data_ptr()
        assert isinstance(other.scale, nn.Parameter)
        x = rl.randn(3, 2)
        assert rl.equal(other(x), block(x))


def test_copied_hooks_are_removable():
    block = Block()
    block.handle = block.register_forward_hook(lambda module, args, result: result * 0)
    other = copy.deepcopy(block)
    other.handle.remove()
    assert not other._forward_hooks and block._forward_hooks


def test_to_keeps_the_parameter_object():
    block = Block()
    weight = block.inner.weight
    block.double()
    assert block.inner.weight is weight and weight.dtype == rl.float64
    assert block.kept.dtype == rl.float64
    block.to(rl.float32)
    assert weight.dtype == rl.float32
    block.half()
    assert weight.dtype == rl.float16
    meta = Block().to("meta")
    assert meta.inner.weight.is_meta and isinstance(meta.inner.weight, nn.Parameter)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty()"):
        meta.to("cpu")
    assert not meta.to_empty(device="cpu").inner.weight.is_meta


def test_modes_and_gradients():
    block = Block()
    assert block.eval().inner.training is False and block.train().inner.training is True
    block(rl.ones(1, 2)).sum().backward()
    block.zero_grad(set_to_none=False)
    assert rl.equal(block.inner.bias.grad, rl.zeros(2))
    block.zero_grad()
    assert block.inner.bias.grad is None
    assert all(not param.requires_grad for param in block.requires_grad_(False).parameters())


def test_apply_goes_children_first():
    seen = []
    nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())).apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["ReLU", "Tanh", "Sequential", "Sequential"]


def test_set_submodule():
    model = nn.Sequential(OrderedDict(body=nn.Sequential(nn.ReLU())))
    model.set_submodule("body.0", nn.Tanh())
    assert isinstance(model.body[0], nn.Tanh)
    with pytest.raises(AttributeError, match="has no attribute `other`"):
        model.set_submodule("body.other", nn.Tanh(), strict=True)


def test_freed_without_the_cycle_collector():
    import gc
    import weakref
    gc.collect()
    gc.disable()
    try:
        block = Block()
        ref = weakref.ref(block)
        del block
        assert ref() is None
    finally:
        gc.enable()


# ------------------------------------------------------------------------------------------------------------ Parameter
def test_parameter_is_a_tensor_that_remembers():
    param = nn.Parameter(rl.ones(2))
    assert param.requires_grad and param.is_leaf and type(param + 1) is rl.Tensor
    assert repr(param) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert isinstance(param, rl.Tensor) and not isinstance(rl.ones(1), nn.Parameter)
    for other in (copy.deepcopy(param), pickle.loads(pickle.dumps(param))):
        assert type(other) is nn.Parameter and other.requires_grad and rl.equal(other, param)
    frozen = nn.Parameter(rl.ones(2), requires_grad=False)
    assert not copy.deepcopy(frozen).requires_grad


def test_parameter_of_a_subclass_is_marked():
    class Special(rl.Tensor):
        pass

    value = rl.ones(2).as_subclass(Special)
    param = nn.Parameter(value)
    assert type(param) is Special and isinstance(param, nn.Parameter)
    module = nn.Module()
    module.weight = param
    assert list(module._parameters) == ["weight"]
