"""The compiler, in the order things happen: trace, graph, differentiate, decompose, loops, fuse, schedule, memory, emit, jit, cache.

Definitions say `from ..compiler import trace as T`; with a warm cache no body ever runs, so the name stands for the module
without loading it until something is asked of it.
"""


class _Later:
    """A module that is imported when its first attribute is read."""

    def __init__(self, name): self.__dict__['_name'] = name

    def __getattr__(self, attribute):
        from importlib import import_module
        module = import_module(self._name)
        value = getattr(module, attribute)
        if attribute[0] != '_': self.__dict__[attribute] = value
        return value

    def __repr__(self): return f'<module {self._name}, loaded when used>'


trace = _Later(__name__ + '.trace')


def disable(fn=None, recursive=True):
    """Decorator: the function runs eagerly, also inside a compiled one."""
    from .capture import disable as disable_
    return disable_(fn, recursive)


def is_compiling():
    """Whether a compiled function is running, recording its calls."""
    from .capture import is_compiling as is_compiling_
    return is_compiling_()


def reset():
    """Forget the programs of recorded streams."""
    from .capture import reset as reset_
    reset_()


# ------------------------------------------------- torch.compiler's other names: marks for a tracer of bytecode, which recording does not need
def allow_in_graph(fn): return fn
def assume_constant_result(fn): return fn
def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False, is_embedded_type=False): return lambda fn: fn
def wrap_numpy(fn): return fn
def is_exporting(): return False
def is_dynamo_compiling(): return False
def cudagraph_mark_step_begin(): pass
def set_stance(stance='default', **options): return _Stance()
def list_backends(exclude_tags=()): return ['rushlight']


class _Stance:
    """set_stance as a block or a decorator: there is one way to compile."""

    def __enter__(self): return self
    def __exit__(self, *exc): return False
    def __call__(self, fn): return fn


def compile(*args, **kwargs):
    """`rushlight.compile`."""
    from .. import compile as compile_
    return compile_(*args, **kwargs)
