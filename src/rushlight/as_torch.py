"""Running programs that say `import torch`, unmodified.

    rushlight.install_as_torch()          # from here on `import torch` and `import torch.nn.functional` find Rushlight
    $ rushlight run script.py --epochs 3  # the same around a script; `rushlight run -m package.module` around a module

A finder at the head of `sys.meta_path` answers for `torch` and everything below it: `torch.a.b` is `rushlight.a.b`, the same module object, so
that nothing is loaded twice and `isinstance` holds across both names. What Rushlight does not have raises ModuleNotFoundError with torch's name,
which is what programs catch to go on without. `importlib.metadata.version("torch")` answers the version that Rushlight follows.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys

__all__ = ["install", "run"]

_PACKAGE = __package__                  # rushlight


def _own_name(name: str) -> str:
    return _PACKAGE + name[len("torch"):]


class _Distribution(importlib.metadata.Distribution):
    """What package metadata says of `torch`, unless the real one is installed."""

    def read_text(self, filename: str) -> str | None:
        from .version import torch
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\nSummary: Rushlight, standing in for PyTorch\n" if filename == "METADATA" else None

    def locate_file(self, path):
        from pathlib import Path
        return Path(__file__).parent / path


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `torch[.x]` as `rushlight[.x]`."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch" and not name.startswith("torch."):
            return None
        own = _own_name(name)
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name and (own == error.name or own.startswith(error.name + ".")):
                raise ModuleNotFoundError(f"No module named '{name}'", name=name) from None
            raise                           # something that our module itself needs is missing
        return importlib.machinery.ModuleSpec(name, self, origin=own, is_package=hasattr(module, "__path__"))

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        # The import system returns what stands in sys.modules after this: the module that is already loaded, not a second one.
        sys.modules[module.__name__] = sys.modules[_own_name(module.__name__)]

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        if context.name is not None and context.name.lower() == "torch":
            yield _Distribution()


def install() -> None:
    """Let `import torch` mean Rushlight from here on, in this process and those that it starts. Calling it again does nothing."""
    if any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        return
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules[_PACKAGE]:
        raise ImportError("torch is already imported in this process: call install_as_torch() before anything imports it")
    sys.meta_path.insert(0, TorchFinder())
    _install_in_children()
    sys.modules[_PACKAGE].__name__ = "torch"            # programs may look at it


class _Installed:
    """Reading this from a pickle installs."""
    def __reduce__(self): return install, ()


def _install_in_children() -> None:
    """A process that is started instead of forked (the default from Python 3.14 on) imports the program anew, its `import torch` too, before it gets anything else
    to run. What it reads first is a pickled dictionary: ours comes with it."""
    from multiprocessing import spawn
    prepare = spawn.get_preparation_data

    def get_preparation_data(name):
        data = prepare(name)
        if name == "ignore": data.pop("init_main_from_path", None)       # for the server of forks itself, which reads no pickle: it must not import the program
        else: data["as_torch"] = _Installed()
        return data
    spawn.get_preparation_data = get_preparation_data


def run(arguments: list[str], module: bool = False) -> None:
    """Run a script (or, with `module`, a module by name) as `__main__`, with `torch` meaning Rushlight and its own arguments."""
    import os
    import runpy
    install()
    name, *rest = arguments
    if module:
        sys.argv = [name, *rest]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        if not os.path.exists(name):
            raise FileNotFoundError(f"can't open file '{name}'")
        sys.argv = [name, *rest]
        sys.path[0] = os.path.dirname(os.path.abspath(name))
        runpy.run_path(name, run_name="__main__")
