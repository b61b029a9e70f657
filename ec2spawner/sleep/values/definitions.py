"""Functions and classes by value, and what is in them that Python does not pickle.

A function or class is made empty first and filled afterwards, so that it may refer to itself, as a
recursive closure does, or a class with a list of its instances. What is made here is found by the
unpickler under these names, so their signatures are part of the format.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import gc
import importlib
import marshal
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from . import enumerations
from .classes import attributes, full_name, is_a, module, with_bases
from .classes import name as name_of

Reduced = Any
"""What `__reduce__` may return, or NotImplemented."""

TYPING: Final = (typing.NewType, typing.ParamSpec, typing.TypeVar, typing.TypeVarTuple)
"""Definitions that are no classes, and that Python pickles by their name."""

NOTEBOOK: Final = "__main__"
"""Where a function finds its globals: the notebook, a module of this name, or its own."""

FUNCTION_STATE: Final = (
    "__annotations__",
    "__dict__",
    "__doc__",
    "__kwdefaults__",
    "__module__",
    "__qualname__",
)

MADE_WITH: Final = ("__doc__", "__module__", "__orig_bases__", "__slots__")
"""Of a class: what it has from its beginning."""

NOT_STATE: Final = frozenset(
    {"__annotations_cache__", "__dict__", "__weakref__", "__slotnames__", "_abc_impl", *MADE_WITH}
)
SLOTS: Final = (dict, frozenset, list, set, str, tuple)
"""What `__slots__` may be, to be used again."""
REGISTERED: Final = "_abc_registered"
"""Among the attributes of an abstract class: its virtual subclasses."""

WEAK_PROXIES: Final = (weakref.ProxyType, weakref.CallableProxyType)
PLAIN_TUPLE: Final = frozenset(vars(collections.namedtuple("PLAIN_TUPLE", "a"))) - {"__doc__"}


def is_ours(value: Any, namespace: Mapping[str, Any]) -> bool:
    """Whether the notebook itself defines this function, class or type variable."""
    if type(value) is types.FunctionType:
        return value.__globals__ is namespace
    if is_a(value, TYPING):
        return bool(value.__module__ == "__main__")
    return is_a(value, type) and module(value) == "__main__"


def is_importable(function: types.FunctionType) -> bool:
    """Whether a library has this function under its name."""
    found: Any = sys.modules.get(function.__module__)
    if found is None or function.__module__ == "__main__":
        return False
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


class Around(Protocol):
    """What a definition needs to know of the notebook."""

    namespace: Mapping[str, Any]

    def globals_of(self, function: types.FunctionType) -> Globals:
        """The globals of a function that `exec` made."""


class Globals:
    """Globals that belong to no module. Each function brings the names that it uses, and all of
    them have one dict again."""

    def __init__(self, around: dict[str, Any]) -> None:
        self.around = around

    def __reduce__(self) -> Reduced:
        return dict, ()


def reduce(value: Any, around: Around) -> Reduced:
    """A function, class or type variable of the notebook by its content.

    Also functions of a library that are not importable, such as those that a decorator makes.
    """
    if type(value) is types.FunctionType:
        return _function(value, around)
    if is_a(value, TYPING):
        return _typing(value)
    if is_a(value, enum.EnumMeta):
        return enumerations.reduce(value)
    if value.__bases__ == (tuple,) and hasattr(value, "_field_defaults"):
        return _named_tuple(value)
    return _class(value)


# --- functions ---


def _function(value: Any, around: Around) -> Reduced:
    cells = value.__closure__ or ()
    contents = [(cell, _content(cell)) for cell in cells]
    state = {name: getattr(value, name) for name in FUNCTION_STATE}
    state["__dict__"] = dict(value.__dict__)
    state["cells"] = [(cell, found[0]) for cell, found in contents if found]
    home: Any = NOTEBOOK
    if value.__globals__ is not around.namespace:
        home = module_of(value)
    if not home:
        home = around.globals_of(value)
        state["globals"] = own_globals(value)
    args = (value.__code__, value.__name__, value.__defaults__, cells or None, home)
    return make_function, args, state, None, None, fill_function


def module_of(function: types.FunctionType) -> str:
    """The name of the module whose globals a function has; empty if they are no module's."""
    name = function.__globals__.get("__name__")
    module = sys.modules.get(name) if type(name) is str else None
    return str(name) if getattr(module, "__dict__", None) is function.__globals__ else ""


def own_globals(function: types.FunctionType) -> dict[str, Any]:
    """What a function that `exec` made may use of its globals."""
    there = function.__globals__
    return {
        name: there[name]
        for name in sorted(_names(function.__code__) | {"__name__"})
        if name in there
    }


def _content(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # empty
        return ()


def _names(code: types.CodeType) -> set[str]:
    """The globals that a function may use."""
    nested = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names, nested))


def make_function(code: Any, name: str, defaults: Any, cells: Any, home: Any) -> Any:
    """Found by the unpickler under this name, which gives it the namespace."""
    raise TypeError("only an archive can be read")


def function_in(namespace: dict[str, Any]) -> Callable[..., Any]:
    """`make_function` for a namespace."""

    def make(code: Any, name: str, defaults: Any, cells: Any, home: Any) -> Any:
        around = namespace if home == NOTEBOOK else home
        if type(around) is str:  # empty for what `exec` made in the first format
            around = vars(importlib.import_module(home)) if home else {}
        return types.FunctionType(code, around, name, defaults, cells)

    return make


def fill_function(function: Any, state: dict[str, Any]) -> None:
    """Give a function what it refers to. Functions that shared a variable share its cell again."""
    for cell, content in state.pop("cells"):
        cell.cell_contents = content
    function.__dict__.update(state.pop("__dict__"))
    if "globals" in state:
        function.__globals__.update(state.pop("globals"))
    for name, value in state.items():
        setattr(function, name, value)


def make_code(content: bytes) -> Any:
    """Bytecode, of this version of Python only."""
    return marshal.loads(content)  # noqa: S302 - the owner's own, as all of an archive


def make_cell() -> Any:
    """A cell; its content comes with the functions that have it."""
    return types.CellType()


# --- classes ---


def _class(kind: type) -> Reduced:
    own = attributes(kind)
    begin = {name: own[name] for name in MADE_WITH if name in own}
    begin["__qualname__"] = name_of(kind)
    state = {
        name: value
        for name, value in own.items()
        if name not in NOT_STATE
        and type(value) not in (types.MemberDescriptorType, types.GetSetDescriptorType)
    }
    if type(begin.get("__slots__", ())) not in SLOTS:  # an iterator, which is at its end
        begin["__slots__"] = tuple(n for n, v in own.items() if is_a(v, types.MemberDescriptorType))
    if "_abc_impl" in own:
        state[REGISTERED] = virtual_subclasses(kind)
    args = (type(kind), kind.__name__, kind.__bases__, begin)
    return make_class, args, state, None, None, fill_class


def make_class(meta: Any, name: str, bases: Any, begin: dict[str, Any]) -> Any:
    """A class without its attributes.

    A metaclass of the notebook is not asked: what it did is among the attributes.
    """
    makers = (each for each in meta.__mro__ if each.__module__ != "__main__")
    with _unasked(bases):
        return next(makers).__new__(meta, name, bases, begin)


@contextlib.contextmanager
def _unasked(bases: Iterable[type]) -> Iterator[None]:
    """Within, no base of the notebook's is asked about a class that is empty yet: what its
    `__init_subclass__` did is among the attributes of both."""
    hook = "__init_subclass__"
    ours = {each for base in bases for each in with_bases(base) if module(each) == "__main__"}
    hooks = [(each, attributes(each)[hook]) for each in ours if hook in attributes(each)]
    for each, _ in hooks:
        type.__setattr__(each, hook, classmethod(lambda cls, **_: None))
    try:
        yield
    finally:
        for each, own in hooks:
            type.__setattr__(each, hook, own)


def virtual_subclasses(kind: Any) -> list[type]:
    """The virtual subclasses of an abstract class."""
    references, *_ = abc._get_dump(kind)  # type: ignore[attr-defined]
    found = (each() for each in references)
    return sorted((each for each in found if each is not None), key=full_name)


def fill_class(kind: Any, state: dict[str, Any]) -> None:
    """Give a class its attributes."""
    for each in state.pop(REGISTERED, ()):
        abc.ABCMeta.register(kind, each)
    for name, value in state.items():
        # Python 3.14 keeps it under another name than the one to set it by.
        type.__setattr__(kind, "__annotate__" if name == "__annotate_func__" else name, value)


def _named_tuple(kind: Any) -> Reduced:
    more = {name: value for name, value in vars(kind).items() if name not in PLAIN_TUPLE}
    defaults = getattr(kind.__new__, "__defaults__", None)  # none at all, or an empty tuple
    args = (kind.__name__, kind.__qualname__, kind._fields, defaults)
    return make_named_tuple, args, more, None, None, fill_class


def make_named_tuple(name: str, qualname: str, fields: Any, defaults: Any) -> Any:
    """A named tuple as `collections.namedtuple` makes it."""
    made = collections.namedtuple(name, fields, defaults=defaults, module="__main__")  # type: ignore[misc]
    made.__qualname__ = qualname
    return made


def _typing(value: Any) -> Reduced:
    if isinstance(value, typing.NewType):
        return typing.NewType, (value.__name__, value.__supertype__)
    about = {}
    if isinstance(value, typing.TypeVar):
        about = {"bound": value.__bound__, "covariant": value.__covariant__}
        about["contravariant"] = value.__contravariant__
    return make_typing, (type(value), value.__name__, getattr(value, "__constraints__", ()), about)


def make_typing(kind: Any, name: str, constraints: Any, about: dict[str, Any]) -> Any:
    """A type variable: Python would look for it under its name."""
    made = kind(name, *constraints, **about)
    made.__module__ = "__main__"
    return made


# --- what is in them ---


def make_cached(function: Any, parameters: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """A function with `functools.lru_cache`, empty."""
    made = functools.lru_cache(**parameters)(function)
    made.__dict__.update(attributes)
    return made


def make_cached_property(function: Any, name: str | None, doc: str | None) -> Any:
    """A `functools.cached_property` in its class."""
    made = functools.cached_property(function)
    made.attrname, made.__doc__ = name, doc
    return made


def make_lock(is_locked: bool = False) -> Any:
    """A lock that nobody holds: whoever held it is gone."""
    return threading.Lock()


def make_proxy(mapping: Any) -> Any:
    """A read-only view of a mapping."""
    return types.MappingProxyType(mapping)


def make_reference(target: Any, callback: Any = None) -> Any:
    """A weak reference; to nothing, if it was to nothing."""

    class Gone:
        pass

    return weakref.ref(target, callback) if target is not None else weakref.ref(Gone())


def make_keyed_reference(target: Any, callback: Any, key: Any) -> Any:
    """What a `WeakValueDictionary` consists of."""
    return weakref.KeyedRef(target, callback, key)


def make_weak_proxy(target: Any) -> Any:
    """A weak proxy; of nothing, if it was of nothing."""

    class Gone:
        pass

    return weakref.proxy(target if target is not None else Gone())


def _cached(value: Any) -> Reduced:
    if not hasattr(value, "cache_parameters") or not hasattr(value, "__wrapped__"):
        return NotImplemented
    attributes = {
        n: v for n, v in vars(value).items() if n not in ("__wrapped__", "cache_parameters")
    }
    return make_cached, (value.__wrapped__, value.cache_parameters(), attributes)


def _singleton(value: Any) -> Reduced:
    """dataclasses compares some of its objects by identity."""
    names = (name for name, each in vars(dataclasses).items() if each is value)
    name = next(names, None)
    return NotImplemented if name is None else (getattr, (dataclasses, name))


def _reference(value: Any) -> Reduced:
    return make_reference, (value(), value.__callback__)


def _keyed_reference(value: Any) -> Reduced:
    return make_keyed_reference, (value(), value.__callback__, value.key)


class _Operand:
    def __add__(self, other: Any) -> Any:
        return NotImplemented if is_a(other, WEAK_PROXIES) else other


def behind_weak_proxy(proxy: Any) -> Any:
    """The object of a weak proxy; None if it is gone.

    A proxy answers as its object does, by that object's code. In an operator it puts its object in
    its place, and the left operand is asked first: here, one of our own.
    """
    try:
        return _Operand() + proxy
    except ReferenceError:
        return None


def _weak_proxy(value: Any) -> Reduced:
    return make_weak_proxy, (behind_weak_proxy(value),)


def _proxy(value: Any) -> Reduced:
    (behind,) = mappings_behind(value) or (dict(value),)
    return make_proxy, (behind,)


def mappings_behind(proxy: Any) -> list[Any]:
    """The mapping that a proxy shows; none if that is a class's own."""
    found = gc.get_referents(proxy)
    is_of_class = type(found[0]) is dict and "__module__" in found[0] and "__doc__" in found[0]
    return [] if is_of_class else found


PARTS: Final[dict[type, Callable[[Any], Reduced]]] = {
    types.CellType: lambda value: (make_cell, ()),
    types.CodeType: lambda value: (make_code, (marshal.dumps(value),)),
    types.MappingProxyType: _proxy,
    classmethod: lambda value: (classmethod, (value.__func__,)),
    staticmethod: lambda value: (staticmethod, (value.__func__,)),
    property: lambda value: (property, (value.fget, value.fset, value.fdel, value.__doc__)),
    functools.cached_property: lambda value: (
        make_cached_property,
        (value.func, value.attrname, value.__doc__),
    ),
    type(functools.lru_cache(len)): _cached,
    type(dataclasses.MISSING): _singleton,
    type(dataclasses._FIELD): _singleton,  # type: ignore[attr-defined]
    type(dataclasses._HAS_DEFAULT_FACTORY): _singleton,  # type: ignore[attr-defined]
    type(threading.Lock()): lambda value: (make_lock, ()),
    type(threading.RLock()): lambda value: (threading.RLock, ()),
    weakref.ref: _reference,
    weakref.KeyedRef: _keyed_reference,
    weakref.ProxyType: _weak_proxy,
    weakref.CallableProxyType: _weak_proxy,
}
"""How values of these types reduce; subclasses are not among them."""
