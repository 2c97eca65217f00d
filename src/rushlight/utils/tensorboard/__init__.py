"""torch.utils.tensorboard: needs the `tensorboard` package, which writes the files."""
try:
    import tensorboard  # noqa: F401
except ImportError:
    raise ModuleNotFoundError("No module named 'tensorboard': install it to write its logs", name="tensorboard") from None
raise NotImplementedError("torch.utils.tensorboard: the writer is not available yet")
