"""torch.utils.model_zoo: an older name of torch.hub's download."""
from ..hub import load_state_dict_from_url as load_url  # noqa: F401

try:
    from tqdm.auto import tqdm  # noqa: F401
except ImportError:
    class tqdm:  # type: ignore[no-redef]
        """A progress bar that shows nothing."""

        def __init__(self, *args, **kwargs): self.n = 0
        def update(self, n): self.n += n
        def close(self): pass
        def __enter__(self): return self
        def __exit__(self, *exc): pass
