"""torch.futures: a value that comes later."""
from __future__ import annotations

import concurrent.futures as _futures

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """`set_result` on one side, `wait` on the other; `then` and `add_done_callback` run when it is there."""

    def __init__(self, *, devices=None) -> None: self._future: _futures.Future = _futures.Future()
    def done(self) -> bool: return self._future.done()
    def wait(self): return self._future.result()
    value = wait
    def set_result(self, result) -> None: self._future.set_result(result)
    def set_exception(self, result) -> None: self._future.set_exception(result)
    def add_done_callback(self, callback) -> None: self._future.add_done_callback(lambda _: callback(self))

    def then(self, callback) -> Future:
        """A future of `callback(this one)`."""
        out = Future()

        def run(_):
            try:
                out.set_result(callback(self))
            except Exception as error:
                out.set_exception(error)
        self._future.add_done_callback(run)
        return out


def collect_all(futures: list[Future]) -> Future:
    """A future of all of them."""
    out = Future()
    for future in futures:
        _futures.wait([future._future])
    out.set_result(futures)
    return out


def wait_all(futures: list[Future]) -> list: return [future.wait() for future in futures]
