"""Helpers around the tensors: data loading, hooks."""
from . import data, hooks
from .names import typename

__all__ = ["data", "hooks", "typename"]
