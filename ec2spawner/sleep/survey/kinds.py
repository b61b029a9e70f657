"""Classes whose objects are known: what is below them, and whose code saves them."""

from __future__ import annotations

import copyreg
import functools
import threading
import types
from typing import Any, Final, NamedTuple

from ..values import classes, pickling, registry

TRUSTED: Final = frozenset(
    "_collections _datetime _decimal _functools _io _operator _random _struct _thread _weakref"
    " abc array builtins collections copyreg datetime decimal enum fractions functools ipaddress"
    " itertools matplotlib numbers numpy operator pandas pathlib polars pyarrow pytz random re"
    " scipy sklearn string torch torchvision types typing uuid weakref zoneinfo".split()
)
"""Libraries whose own code for saving and loading is known to end, and not to crash."""

ATOMIC: Final = frozenset(
    {
        bool,
        bytes,
        complex,
        float,
        int,
        range,
        slice,
        str,
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        types.CodeType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        types.MethodDescriptorType,
        types.ModuleType,
        types.WrapperDescriptorType,
        types.FrameType,
        types.GeneratorType,
        types.CoroutineType,
        types.AsyncGeneratorType,
        types.TracebackType,
    }
)
ATOMIC_NAMES: Final = frozenset(
    "dataclasses._FIELD_BASE dataclasses._HAS_DEFAULT_FACTORY_CLASS dataclasses._KW_ONLY_TYPE"
    " dataclasses._MISSING_TYPE"
    " datetime.date datetime.datetime datetime.time datetime.timedelta datetime.timezone"
    " decimal.Decimal fractions.Fraction logging.Logger logging.RootLogger re.Pattern"
    " torch.Size torch.device torch.dtype uuid.UUID".split()
)
"""Their identity does not matter, and nothing is below them."""

HOOKS: Final = (
    "__class__",
    "__getattr__",
    "__getattribute__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__getstate__",
    "__reduce__",
    "__reduce_ex__",
    "__setstate__",
)
"""What saving calls of a class, or loading: what a child saves is loaded there once."""

CACHE: Final = type(functools.lru_cache(len))
_LOCK: Final = type(threading.Lock())
_REENTRANT_LOCK: Final = type(threading.RLock())

_ATOMIC_KINDS: Final = frozenset(map(id, ATOMIC))
_CONTAINERS: Final = frozenset(map(id, (dict, frozenset, list, set, tuple)))
"""Identities: a metaclass of the user's may have `__eq__` and `__hash__`."""


class Kind(NamedTuple):
    """What the walk knows of a class."""

    itself: type
    """Held: while it is there, its identity is not used twice."""
    name: str
    """With its module."""
    library: str
    is_atomic: bool
    is_never_saved: bool
    runs_code: bool
    """Saving its objects runs code of the notebook's own, or of a library that is not known."""
    plain: bool
    """Loading them does not."""


def about(kind: type) -> Kind:
    """What is known of a class; it is not asked."""
    name = classes.full_name(kind)
    unknown = [e for e in classes.with_bases(kind)[:-1] if classes.library(e) not in TRUSTED]
    runs_code = (
        classes.library(type(kind)) not in TRUSTED
        or any(classes.module(each) != "__main__" or _has_hook(each) for each in unknown)
        or _has_reducer(kind)
        or registry.is_registered(kind)
    )
    return Kind(
        kind,
        name,
        classes.library(kind),
        is_atomic=is_atomic(kind) or name in ATOMIC_NAMES,
        is_never_saved=bool(pickling.never(kind)),
        runs_code=runs_code,
        plain=not unknown and not runs_code,
    )


def is_atomic(kind: type) -> bool:
    """Whether it is one of Python's own with nothing below."""
    return id(kind) in _ATOMIC_KINDS


def are_atomic(values: Any) -> bool:
    """Of all of these values."""
    return set(map(id, map(type, values))) <= _ATOMIC_KINDS


def is_container(kind: type) -> bool:
    """Whether it is one of Python's own that may have many items."""
    return id(kind) in _CONTAINERS


def is_cache(kind: type) -> bool:
    """Whether it is `functools.lru_cache`'s."""
    return kind is CACHE


def is_lock(kind: type) -> bool:
    """Whether it is one of Python's own locks."""
    return kind is _LOCK or kind is _REENTRANT_LOCK


def is_held(lock: Any) -> bool:
    """Whether somebody holds a lock of Python's own."""
    if type(lock) is _LOCK:
        return bool(lock.locked())
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return bool(lock._is_owned())


def _has_hook(kind: type) -> bool:
    own = classes.attributes(kind)
    return any(hook in own for hook in HOOKS)


def _has_reducer(kind: type) -> bool:
    """In `copyreg`'s table."""
    reducer = copyreg.dispatch_table.get(kind)
    return reducer is not None and reducer.__module__.partition(".")[0] not in TRUSTED
