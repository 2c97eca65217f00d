"""Lists and dictionaries that stand in a graph: to change one, give the node new arguments."""
from __future__ import annotations


def _refuse(self, *args, **kwargs):
    raise NotImplementedError(f"'{type(self).__name__}' object does not support mutation. If you are attempting to modify the kwargs or args of a torch.fx.Node "
                              "object, instead create a new copy of it and assign the copy to the node")


class immutable_list(list):
    append = extend = insert = pop = remove = clear = sort = reverse = __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    def __hash__(self): return hash(tuple(self))
    def __reduce__(self): return immutable_list, (list(self),)


class immutable_dict(dict):
    clear = pop = popitem = update = setdefault = __setitem__ = __delitem__ = _refuse
    def __hash__(self): return hash(tuple(sorted(self.items())))
    def __reduce__(self): return immutable_dict, (dict(self),)
