"""What a class is, without asking it: a metaclass or a property of the user's would answer.

`isinstance(value, X)` reads `value.__class__`, and `kind.__module__` calls the metaclass. In a
proxy or a mock that is the user's code, which may raise or hang in the kernel's own process. The
type of an object, and what `type` itself knows of a class, run nothing.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any, Final

_ATTRIBUTES: Final = type.__dict__["__dict__"]
_BASES: Final = type.__dict__["__mro__"]
_MODULE: Final = type.__dict__["__module__"]
_NAME: Final = type.__dict__["__qualname__"]
_OF_MODULE: Final = vars(types.ModuleType)["__dict__"]


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """`isinstance`, by the value's type alone. The kinds must not be the user's."""
    return issubclass(type(value), kinds)


def attributes(kind: type) -> Mapping[str, Any]:
    """Its own, as `vars` returns them."""
    found: Mapping[str, Any] = _ATTRIBUTES.__get__(kind)
    return found


def with_bases(kind: type) -> tuple[type, ...]:
    """A class and what it inherits from, as in `__mro__`."""
    found: tuple[type, ...] = _BASES.__get__(kind)
    return found


def module(kind: type) -> str:
    """Where it says that it was defined; empty where it does not say it."""
    try:
        found = _MODULE.__get__(kind)
    except AttributeError:
        return ""
    # It may have been set to anything.
    return found if type(found) is str else ""


def library(kind: type) -> str:
    """The first part of its module's name."""
    return module(kind).partition(".")[0]


def name(kind: type) -> str:
    """Its qualified name, without its module."""
    found = _NAME.__get__(kind)
    return found if type(found) is str else ""


def full_name(kind: type) -> str:
    """With its module."""
    return f"{module(kind)}.{name(kind)}"


def is_importable(kind: type) -> bool:
    """Whether its module has it under its name."""
    found: Any = sys.modules.get(module(kind))
    for step in name(kind).split("."):
        found = getattr(found, step, None)
    return found is kind


def module_name(value: types.ModuleType) -> str:
    """The name of a module, which is not loaded for it if it is a lazy one; empty without one."""
    found = (_OF_MODULE.__get__(value) or {}).get("__name__")
    return found if type(found) is str else ""
