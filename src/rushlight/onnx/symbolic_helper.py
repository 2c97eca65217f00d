"""torch.onnx.symbolic_helper: decorators for the exporter's translations, which nobody calls here."""


def parse_args(*kinds):
    """Decorator: how a translation's arguments are read. Without effect."""
    return lambda function: function


def quantized_args(*flags, **kwargs):
    return lambda function: function


def _unavailable(*args, **kwargs):
    raise NotImplementedError("torch.onnx: there is no exporter yet")


_get_tensor_sizes = _maybe_get_const = _unimplemented = _is_none = _unavailable
