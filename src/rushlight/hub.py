"""torch.hub: files and models from the network, kept in a folder."""
from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zipfile
from urllib.parse import urlparse

__all__ = ["get_dir", "set_dir", "download_url_to_file", "load_state_dict_from_url", "load", "list", "help"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR = "TORCH_HOME", "XDG_CACHE_HOME", "~/.cache"
READ_DATA_CHUNK = 128 * 1024
_directory: str | None = None


def _get_torch_home() -> str:
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR), "torch")))


def get_dir() -> str:
    """Where downloads are kept."""
    return os.path.join(_get_torch_home(), "hub") if _directory is None else _directory


def set_dir(d: str) -> None:
    """Keep downloads in another folder."""
    global _directory
    _directory = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch a file; nothing is left at `dst` unless it came whole and its SHA-256 begins with `hash_prefix`."""
    from urllib.request import Request, urlopen
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256() if hash_prefix is not None else None
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(dst) or ".", suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file, urlopen(Request(url, headers={"User-Agent": "rushlight.hub"})) as source:
            while chunk := source.read(READ_DATA_CHUNK):
                file.write(chunk)
                if digest is not None:
                    digest.update(chunk)
        if digest is not None and not digest.hexdigest().startswith(hash_prefix or ""):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        os.replace(partial, dst)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location=None, progress: bool = True, check_hash: bool = False,
                             file_name: str | None = None, weights_only: bool = False):
    """Fetch a file unless it is there already, and `load` it."""
    from .serialization import load as load_file
    model_dir = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(model_dir, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found.group(1) if found else None, progress)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) == 1:                        # a file of weights, zipped once more
                archive.extractall(model_dir)
                path = os.path.join(model_dir, members[0].filename)
    return load_file(path, map_location=map_location, weights_only=weights_only)


def _entry_points(folder: str):
    import importlib.util
    import sys
    spec = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} has no hubconf.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _folder(repo: str, source: str) -> str:
    if source != "local":
        raise NotImplementedError("torch.hub: only source='local' is available; clone the repository and give its folder")
    return repo


def load(repo_or_dir: str, model: str, *args, source: str = "github", trust_repo=None, force_reload: bool = False, verbose: bool = True,
         skip_validation: bool = False, **kwargs):
    """A model from a folder with a `hubconf.py` (source='local')."""
    return getattr(_entry_points(_folder(repo_or_dir, source)), model)(*args, **kwargs)


def list(github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo=None, verbose: bool = True, source: str = "github"):
    """The names of the models that a folder with a `hubconf.py` offers."""
    return [name for name, value in vars(_entry_points(_folder(github, source))).items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo=None, source: str = "github"):
    """A model's docstring."""
    return getattr(_entry_points(_folder(github, source)), model).__doc__
