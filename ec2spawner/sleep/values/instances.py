"""Objects whose classes leave out a part of them when they are pickled, or act when it is loaded.

pickle makes an object of a class of the notebook by that class's `__new__` or `__init__`, and fills
a list or a dict by its `append` or `__setitem__`: these may count, scale, or need what is not there
yet. Here it is made and filled by the class of Python's that it inherits from, and its own is not
asked. What is made here is found by the unpickler under these names, so their signatures are part
of the format.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, Final

from .classes import attributes, library, module, with_bases

Reduced = Any
"""What `__reduce__` may return, or NotImplemented."""
Reduce = Callable[[Any], Reduced]

HOOKS: Final = frozenset(
    "__getnewargs__ __getnewargs_ex__ __getstate__ __reduce__ __reduce_ex__ __setstate__".split()
)
"""With one of them, a class says itself what its objects consist of."""
ASKED: Final = frozenset(
    "__getattr__ __getattribute__ __init__ __new__ __setattr__ __setitem__ append extend".split()
)
"""What loading calls of a class."""
PYTHON: Final = ("builtins", "collections")
PROTOCOL: Final = 4
STATE: Final = 2
"""The place of the state in what `__reduce__` returns."""
VALUES: Final = (str, bytes, int, float, complex, tuple)
"""Bases whose objects are made with their content."""
FILLED: Final[dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]]] = {
    dict: (lambda value: dict(dict.items(value)), dict.update),
    list: (lambda value: list(list.__iter__(value)), list.extend),
    set: (lambda value: list(set.__iter__(value)), set.update),
}
"""Bases whose objects are filled: what with, and by what."""


def way(kind: type) -> Reduce | None:
    """How objects of a class are reduced, unless as pickle does it."""
    bases = with_bases(kind)
    own = [each for each in bases if module(each) == "__main__"]
    if _hooks(own) or enum.Enum in bases:
        return None
    base = next(each for each in bases if module(each) != "__main__")
    is_asked = any(not ASKED.isdisjoint(attributes(each)) for each in own)
    others = [each for each in bases if each not in (*own, *VALUES, *FILLED, object)]
    remakes = is_asked and all(library(each) in PYTHON for each in others)
    if BaseException in bases:
        return lambda value: _with_causes(value, _by_base(value, base, remakes))
    if not own and library(kind) != "collections":
        return None
    if hooks := _hooks(others):
        is_known = "__setstate__" in hooks
        return None if is_known else lambda value: _by_base(value, base, remakes)
    is_made = any("__new__" in attributes(each) for each in others)
    base = next(each for each in bases if each in (*VALUES, *FILLED, object))
    return (lambda value: _by_content(value, base)) if is_asked and not is_made else None


def _hooks(kinds: Iterable[type]) -> set[str]:
    return {name for each in kinds for name in attributes(each)} & HOOKS


# --- objects, values and containers of Python's own kind ---


def _by_content(value: Any, base: type) -> Reduced:
    content = vars(base)["__getnewargs__"](value) if base in VALUES else ()
    items = FILLED[base][0](value) if base in FILLED else None
    state = (object.__getstate__(value), items)
    return make, (base, type(value), *content), (base, *state), None, None, fill


def make(base: type, kind: type, *content: Any) -> Any:
    """An object of a class by a base of it."""
    return base.__new__(kind, *content)


def fill(value: Any, state: tuple[type, Any, Any]) -> None:
    """Give an object its attributes, and its items."""
    base, both, items = state
    _set(value, both)
    if base in FILLED:
        FILLED[base][1](value, items)


def _set(value: Any, state: Any) -> None:
    """The attributes that `object.__getstate__` returns."""
    named, slots = state if type(state) is tuple else (state, None)
    if named:
        object.__getattribute__(value, "__dict__").update(named)
    for name, each in (slots or {}).items():
        object.__setattr__(value, name, each)


# --- what a class of the library says, and what it leaves out ---


def _by_base(value: Any, base: type, remakes: bool) -> Reduced:
    """What the base gives to pickle, with the attributes if it gives no state; made by the base
    where `remakes` says so."""
    reduced = value.__reduce_ex__(PROTOCOL)
    if type(reduced) is not tuple:
        return reduced
    function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    if state is None:
        state = getattr(value, "__dict__", None) or None
    if not remakes or function is not type(value):
        return function, arguments, state, items, pairs
    filled = (base, state, [*(items or ())], [*(pairs or ())])
    return remake, (base, function, *arguments), filled, None, None, refill


def remake(base: type, kind: type, *arguments: Any) -> Any:
    """An object of a class as its base makes one of its own."""
    value = base.__new__(kind, *arguments)
    base.__init__(value, *arguments)  # type: ignore[misc]
    return value


def refill(value: Any, state: tuple[Any, Any, list[Any], list[tuple[Any, Any]]]) -> None:
    """Give an object its attributes and its items by the methods of its base."""
    base, named, items, pairs = state
    if named and hasattr(base, "__setstate__"):
        base.__setstate__(value, named)
    else:
        _set(value, named)
    if items:
        base.extend(value, items)
    for key, each in pairs:
        base.__setitem__(value, key, each)


# --- exceptions ---


def _with_causes(value: BaseException, reduced: Reduced) -> Reduced:
    """What pickle leaves out of an exception: its cause and its context."""
    around = (value.__cause__, value.__context__, value.__suppress_context__)
    if not any(around) or type(reduced) is not tuple:
        return reduced
    function, arguments, state, *_, setter = (*reduced, None, None, None, None)[:6]
    return function, arguments, (setter, state, *around), None, None, set_causes


def set_causes(value: BaseException, state: tuple[Any, ...]) -> None:
    """Give an exception its attributes, cause and context."""
    setter, attributes, cause, context, is_suppressed = state
    if setter is not None:
        setter(value, attributes)
    elif attributes is not None:
        value.__setstate__(attributes)
    value.__cause__, value.__context__ = cause, context
    value.__suppress_context__ = is_suppressed
