"""no_grad, enable_grad, set_grad_enabled, inference_mode: contexts, decorators, generators, threads."""
import threading

import pytest

import rushlight as rl


def test_contexts_nest():
    assert rl.is_grad_enabled()
    with rl.no_grad():
        assert not rl.is_grad_enabled()
        with rl.enable_grad():
            assert rl.is_grad_enabled()
        with rl.set_grad_enabled(False):
            assert not rl.is_grad_enabled()
        assert not rl.is_grad_enabled()
    assert rl.is_grad_enabled()


def test_exception_restores():
    with pytest.raises(KeyError), rl.no_grad():
        raise KeyError
    assert rl.is_grad_enabled()


def test_as_a_function():
    rl.set_grad_enabled(False)
    assert not rl.is_grad_enabled()
    rl.set_grad_enabled(True)
    assert rl.is_grad_enabled()


@pytest.mark.parametrize("decorator", [lambda f: rl.no_grad()(f), lambda f: rl.no_grad(f), lambda f: rl.set_grad_enabled(False)(f),
                                       lambda f: rl.inference_mode()(f),
                                       lambda f: rl.inference_mode(f)])
def test_decorators(decorator):
    def f(n):
        """doc"""
        return rl.is_grad_enabled() if n == 0 else g(n - 1)

    g = decorator(f)
    assert g(3) is False and g.__doc__ == "doc" and g.__name__ == "f"
    assert rl.is_grad_enabled() and not rl.is_inference_mode_enabled()


def test_generators_enter_only_while_running():
    @rl.no_grad()
    def numbers():
        try:
            got = yield rl.is_grad_enabled()
            while True:
                got = yield got, rl.is_grad_enabled()
        except ValueError:
            yield "caught", rl.is_grad_enabled()
        return

    g = numbers()
    assert next(g) is False and rl.is_grad_enabled()
    assert g.send(5) == (5, False) and rl.is_grad_enabled()
    assert g.throw(ValueError()) == ("caught", False) and rl.is_grad_enabled()
    assert list(g) == []


def test_class_decoration_warns():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        @rl.no_grad()
        class C:
            def __init__(self):
                self.mode = rl.is_grad_enabled()
    assert C().mode is False


def test_thread_has_its_own_mode():
    seen = []
    with rl.no_grad():
        t = threading.Thread(target=lambda: seen.append(rl.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_inference_mode():
    x = rl.ones(2, requires_grad=True)
    with rl.inference_mode():
        assert rl.is_inference_mode_enabled() and not rl.is_grad_enabled()
        i = x * 2
        assert i.is_inference() and not i.requires_grad
        i.mul_(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        i.mul_(2)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * i
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"):
        i.requires_grad_()
    assert (i * 2).tolist() == [8.0, 8.0]
    with rl.inference_mode(False):
        assert rl.is_grad_enabled()


def test_contexts_of_ones_own():
    """torch.utils._contextlib: any context manager that derives from it decorates functions and generators, as no_grad does."""
    from rushlight.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager
    entered = []

    class noted(_NoParamDecoratorContextManager):
        def __enter__(self): entered.append("in")
        def __exit__(self, *exc): entered.append("out")

    @noted
    def steps():
        try: yield len(entered)
        except KeyError: yield "caught"
    generator = steps()
    assert next(generator) == 1 and entered == ["in", "out"]
    assert generator.throw(KeyError) == "caught" and entered == ["in", "out"] * 2
    assert isinstance(rl.no_grad(), _DecoratorContextManager)
    with pytest.raises(NotImplementedError, match="has no __enter__"), _DecoratorContextManager(): pass
