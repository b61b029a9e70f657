"""Whether what an archive brings back is what was saved.

Two graphs of objects are walked side by side: types, values, order, and which objects are the same.
"""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..survey import kinds
from ..values import arrays, classes
from ..values.classes import is_a
from .below import HEAP_TYPE, Differs, Opaque, are_same, members, parts

MAX_OBJECTS: Final = 2_000_000
"""Compared for one file."""
MAX_STEPS: Final = 120
"""Characters."""

Steps = tuple[Any, ...]
"""How an object is reached: the steps before the last one, and that one; empty for a variable."""


class Compared(NamedTuple):
    """What is known of the variables of one file."""

    differing: dict[str, str]
    """In what each came back as another one: a clause whose subject is a part of it."""
    opaque: set[str]
    """Those that hold objects which do not show what they consist of."""


class TooMany(Exception):
    """There is more to compare than in `MAX_OBJECTS`."""


def compare(
    originals: Mapping[str, Any], copies: Mapping[str, Any], namespace: Mapping[str, Any]
) -> Compared:
    """Compare the variables of one file. Raises TooMany, and what a class's own code raises."""
    walk = _Walk(namespace)
    for name, original in originals.items():
        walk.visit(name, original, copies[name])
    return walk.compared()


class _Pair(NamedTuple):
    original: Any
    copy: Any
    steps: Steps


class _Walk:
    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._copies: dict[int, Any] = {}
        """By the identity of the original."""
        self._originals: dict[int, Any] = {}
        """By the identity of the copy."""
        self._owners: dict[int, str] = {}
        """The first name that reaches an original."""
        self._held: list[Any] = []
        """All of them: while an object is there, its identity is not used twice."""
        self._shared: list[tuple[str, str]] = []
        """A name, and one before it that has reached the same object."""
        self._differing: dict[str, str] = {}
        self._opaque: set[str] = set()
        self._left = MAX_OBJECTS

    def compared(self) -> Compared:
        """What was found; what is shared is wrong for all that share it."""
        for name, owner in itertools.chain(self._shared, reversed(self._shared)):
            for one, other in ((name, owner), (owner, name)):
                if other in self._differing:
                    self._differing.setdefault(one, self._differing[other])
                if other in self._opaque:
                    self._opaque.add(one)
        return Compared(self._differing, self._opaque)

    def visit(self, name: str, original: Any, copy: Any) -> None:
        """Compare a variable with what came back for it."""
        waiting, sets = [_Pair(original, copy, ())], list[_Pair]()
        while waiting or sets:
            # Sets last: which of their members belong together is known from elsewhere.
            is_set = not waiting
            pair = sets.pop() if is_set else waiting.pop()
            try:
                below = self._of_set(pair) if is_set else self._enter(name, pair, sets)
            except Differs as why:
                self._differing[name] = f"{shown(name, pair.steps)} {why}"
                return
            except Opaque:
                self._opaque.add(name)
            else:
                waiting += reversed(below)

    def _enter(self, name: str, pair: _Pair, sets: list[_Pair]) -> list[_Pair]:
        """What is below two objects that are alike so far. Raises Differs, Opaque."""
        original, copy, steps = pair
        if original is copy:
            return []
        kind, below = type(original), list[_Pair]()
        if not self._is_class_of(kind, copy):
            if not _is_ours(kind) or id(kind) in self._copies:
                raise Differs(f"has another type, {classes.name(type(copy))}")
            below.append(_Pair(kind, type(copy), (steps, ".__class__")))
        if _is_atomic(original, kind):
            if type(copy) is not kind or not are_same(original, copy):
                raise Differs("has another value")
            return below
        owner = self._owners.setdefault(id(original), name)
        if owner != name:
            self._shared.append((name, owner))
        if not self._is_new(original, copy, kind):
            return below
        if is_a(original, enum.Enum) and original._name_ != copy._name_:
            raise Differs("is another member")
        self._left -= 1
        if self._left < 0:
            raise TooMany
        if is_a(original, (set, frozenset)):
            sets.append(pair)
        found = parts(original, copy, self._namespace)
        return below + [_Pair(one, other, (steps, step)) for step, one, other in found]

    def _is_class_of(self, kind: type, copy: Any) -> bool:
        return type(copy) is kind or self._copies.get(id(kind)) is type(copy)

    def _is_new(self, original: Any, copy: Any, kind: type) -> bool:
        """Whether these have not been compared. Raises Differs if one was, with another one."""
        known = id(original) in self._copies
        if known and self._copies[id(original)] is copy:
            return False
        if _has_identity(original, kind):
            if known:
                raise Differs("is not the same object as elsewhere any more")
            if id(copy) in self._originals:
                raise Differs("is the same object as another one now")
        self._copies.setdefault(id(original), copy)
        self._originals.setdefault(id(copy), original)
        self._held += (original, copy)
        return True

    def _of_set(self, pair: _Pair) -> list[_Pair]:
        own, its = members(pair.original), members(pair.copy)
        if len(own) != len(its):
            raise Differs(f"has {len(its)} items, not {len(own)}")
        if set(filter(None, map(_value_key, own))) != set(filter(None, map(_value_key, its))):
            raise Differs("has other items")
        there = {id(each): each for each in its if not _value_key(each)}
        unknown = dict[type, list[Any]]()
        for each in own:
            if _value_key(each):
                continue
            copy = self._copies.get(id(each), each)
            if id(copy) in there:
                del there[id(copy)]
            elif id(each) in self._copies:
                raise Differs("has other items")
            else:
                unknown.setdefault(type(each), []).append(each)
        if any(len(alike) > 1 for alike in unknown.values()) or len(unknown) != len(there):
            raise Opaque
        left = list(there.values())
        below = []
        for kind, [each] in unknown.items():
            copy = next((other for other in left if self._is_class_of(kind, other)), None)
            if copy is None:
                raise Opaque
            below.append(_Pair(each, copy, (pair.steps, "'s item")))
        return below


def shown(name: str, steps: Steps) -> str:
    """How a part of a variable is written in Python, as far as it can be."""
    found: list[str] = []
    while steps:
        steps, step = steps
        found.append(step)
    text = "".join(reversed(found))
    return f"{name}{text}" if len(text) <= MAX_STEPS else f"{name}…{text[-MAX_STEPS:]}"


def _is_atomic(value: Any, kind: type) -> bool:
    if kind is tuple or kind is frozenset:
        return kinds.are_atomic(value)
    return kinds.is_atomic(kind) or classes.full_name(kind) in kinds.ATOMIC_NAMES


def _is_ours(kind: type) -> bool:
    """Whether a class is saved by its content."""
    is_of_python = bool(kind.__flags__ & HEAP_TYPE)
    return is_of_python and not classes.is_importable(kind)


def _has_identity(value: Any, kind: type) -> bool:
    """Whether it matters which object it is: it can change, or its identity is all that it has."""
    return (
        kind is object
        or kind is types.FunctionType
        or is_a(value, (type, list, dict, set, bytearray))
        or _is_ours(kind)
        or arrays.is_array(value)
    )


def _value_key(value: Any) -> Any:
    """What is the same of equal items of sets; None for objects."""
    kind = type(value)
    if kind is tuple or kind is frozenset:
        return (kind, repr(value)) if kinds.are_atomic(value) else None
    if kind is float or kind is complex:
        return kind, repr(value)
    return (kind, value) if kinds.is_atomic(kind) else None
