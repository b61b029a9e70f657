"""Enumerations by value: their members are made without the notebook's `__new__` and `__init__`.

What those did is in the members, and their arguments may be gone: a member's value need not be
what it was made of.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterator
from typing import Any, Final

from .classes import attributes, is_a


class Plain(enum.Enum):
    """What `enum` makes of a class, and of a member, by itself."""

    A = 1


class PlainFlag(enum.Flag):
    """The same of flags."""

    A = 1


OF_ENUM: Final = frozenset({*vars(Plain), *vars(PlainFlag), "__new__", "_value_repr_"})
OF_MEMBER: Final = frozenset({*vars(Plain.A), *vars(PlainFlag.A), "_inverted_"})

NEW: Final = ("__new_member__", "_new_member_", "_use_args_")
"""Where `enum` keeps what makes a member, and how."""


def reduce(kind: Any) -> Any:
    """What `__reduce__` would return for an enumeration."""
    members = [
        (name, member._value_, _base(kind, member)) for name, member in kind.__members__.items()
    ]
    own = {
        name: {n: value for n, value in vars(member).items() if n not in OF_MEMBER}
        for name, member in kind.__members__.items()
    }
    state = {name: value for name, value in attributes(kind).items() if _is_kept(name, value, kind)}
    args = (type(kind), kind.__name__, kind.__bases__, kind.__qualname__, members)
    return make_enumeration, args, {"members": own, "class": state}, None, None, fill_enumeration


def make_enumeration(meta: Any, name: str, bases: Any, qualname: str, members: Any) -> Any:
    """An enumeration with its members and nothing else."""
    space = meta.__prepare__(name, bases)
    space["__module__"], space["__qualname__"] = "__main__", qualname
    if members:
        space["__new__"] = _new(iter(members))
        space["__init__"] = lambda self, *_: None
    for each, value, _ in members:
        space[each] = value
    made = meta.__new__(meta, name, bases, space)
    if members:
        for each in ("__init__", *NEW):
            if each in attributes(made):
                type.__delattr__(made, each)
    return made


def _new(members: Iterator[Any]) -> Any:
    def new(kind: Any, *_: Any) -> Any:
        _, value, base = next(members)
        member = kind._member_type_.__new__(kind, *base)
        member._value_ = value
        return member

    return new


def fill_enumeration(kind: Any, state: dict[str, Any]) -> None:
    """Give an enumeration its attributes, and those of its members."""
    for name, value in state["class"].items():
        type.__setattr__(kind, name, value)
    for name, own in state["members"].items():
        vars(kind.__members__[name]).update(own)


def _base(kind: Any, member: Any) -> tuple[Any, ...]:
    """What a member is apart from being one: of `class Unit(str, Enum)`, its text."""
    data = kind._member_type_
    if hasattr(data, "__getnewargs__"):
        return tuple(data.__getnewargs__(member))
    if data is not object and data.__reduce__ is not object.__reduce__:
        return tuple(data.__reduce__(member)[1])
    return ()


def _is_kept(name: str, value: Any, kind: Any) -> bool:
    """Whether `enum` does not make this attribute by itself, or made it of the definition."""
    if name in kind.__members__ or type(value) in (
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
    ):
        return False
    function = value.__func__ if is_a(value, (classmethod, staticmethod)) else value
    is_own = type(function) is types.FunctionType and function.__module__ != "enum"
    return name in NEW or name not in OF_ENUM or is_own or type(value) is str
