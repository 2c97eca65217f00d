"""AdamW under the module name torch gives it."""
from .adam import AdamW

__all__ = ["AdamW"]
