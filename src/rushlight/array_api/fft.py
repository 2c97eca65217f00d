"""The standard's extension `fft`: torch's transforms with `axis` and `axes` for `dim`."""
from __future__ import annotations

import rushlight as rl


def _along_one(name):
    run = getattr(rl.fft, name)

    def function(x, /, *, n=None, axis=-1, norm="backward"):
        return run(x, n, axis, norm)
    return _named(function, name)


def _along_many(name):
    run = getattr(rl.fft, name)

    def function(x, /, *, s=None, axes=None, norm="backward"):
        return run(x, s, axes, norm)
    return _named(function, name)


def _named(function, name):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(rl.fft, name).__doc__.partition("\n\n")[2]          # after the schema
    return function


fft, ifft, rfft, irfft, hfft, ihfft = map(_along_one, "fft ifft rfft irfft hfft ihfft".split())
fftn, ifftn, rfftn, irfftn = map(_along_many, "fftn ifftn rfftn irfftn".split())


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the results of fft."""
    return rl.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the results of rfft."""
    return rl.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x, /, *, axes=None):
    """The zero frequency moved to the middle."""
    return rl.fft.fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    """The zero frequency moved back to the beginning."""
    return rl.fft.ifftshift(x, axes)


__all__ = sorted("fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fftfreq rfftfreq fftshift ifftshift".split())


def __dir__():
    return __all__
