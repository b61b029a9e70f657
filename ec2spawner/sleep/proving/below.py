"""What two objects of one type consist of, part by part, for a comparison.

A class's own code is asked only where it says how its objects are pickled: `__eq__` may mean
anything, and so may an iterator.
"""

from __future__ import annotations

import array
import collections
import copyreg
import ctypes
import itertools
import math
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..survey import kinds
from ..values import arrays, classes, definitions, registry, tensors
from ..values.archive import CHUNK
from ..values.classes import is_a

Part = tuple[str, Any, Any]
"""A step to a part, as Python writes it, the original's part and the copy's."""

NOT_OF_CLASS: Final = definitions.NOT_STATE | {"__del__", "__firstlineno__"}
"""Attributes of a class that are compared otherwise, or that a proof does not bring."""
ATOMIC_BASES: Final = (bool, bytes, complex, float, int, str)
WITH_BYTES: Final = (array.array, bytearray)
PROTOCOL_NAMES: Final = frozenset(
    "__getnewargs__ __getnewargs_ex__ __getstate__ __reduce__ __reduce_ex__ __setstate__".split()
)
PROTOCOL: Final = 4
STATE: Final = 2
"""The place of the state in what `__reduce__` returns."""

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Differs(Exception):
    """In what a copy is another one: a clause whose subject is the object."""


class Opaque(Exception):
    """These objects do not show what they consist of."""


def are_same(original: Any, copy: Any) -> bool:
    """Of atomic objects of one type: whether their values are the same, also of zeros and NaN."""
    if type(original) is float:
        is_nan = math.isnan(original) and math.isnan(copy)
        same_sign = math.copysign(1, original) == math.copysign(1, copy)
        return is_nan or (original == copy and same_sign)
    if type(original) is complex:
        parts = zip((original.real, original.imag), (copy.real, copy.imag), strict=True)
        return all(are_same(one, other) for one, other in parts)
    return bool(original == copy)


def are_all_same(original: Sequence[Any], copy: Sequence[Any]) -> bool:
    """The same of many atomic objects, at once. False where it is not known, too."""
    if list(map(type, original)) != list(map(type, copy)):
        return False
    floats = [each for each in original if type(each) is float]
    its_floats = [each for each in copy if type(each) is float]
    if floats and array.array("d", floats).tobytes() != array.array("d", its_floats).tobytes():
        return False
    others = [each for each in original if type(each) is not float]
    return others == [each for each in copy if type(each) is not float]


def parts(original: Any, copy: Any, namespace: Mapping[str, Any]) -> Iterable[Part]:
    """What two objects of one type consist of. Raises Differs, Opaque, and what a class's own code
    for pickling raises."""
    kind = type(original)
    if kind is types.FunctionType:
        return _of_functions(original, copy, namespace)
    if is_a(original, type):
        return _of_classes(original, copy)
    if special := SPECIAL.get(kind):
        return special(original, copy)
    if registry.is_registered(kind):
        raise Opaque
    if arrays.is_array(original):
        return _of_arrays(original, copy)
    if tensors.is_tensor(original):
        return _of_tensors(original, copy)
    if classes.library(kind) in ("polars", "pyarrow") and hasattr(original, "equals"):
        if not original.equals(copy):
            raise Differs("has another value")
        return ()
    base = next((each for each in BUILTIN if is_a(original, each)), None)
    if base is None and is_a(original, WITH_BYTES):
        base = next(each for each in WITH_BYTES if is_a(original, each))
    if kind is not base and _has_protocol(kind, base):
        return _of_protocol(original, copy)
    inside = BUILTIN[base](original, copy) if base in BUILTIN else _of_bytes(original, copy, base)
    return inside if kind is base else [*inside, *_of_attributes(original, copy)]


# --- memory ---


def _of_bytes(original: Any, copy: Any, base: type | None) -> Iterable[Part]:
    if base is not None and bytes(memoryview(original)) != bytes(memoryview(copy)):
        raise Differs("has another value")
    return ()


def _of_arrays(original: Any, copy: Any) -> Iterable[Part]:
    if original.dtype != copy.dtype:
        raise Differs(f"has another type of items, {copy.dtype}")
    if original.shape != copy.shape:
        raise Differs(f"has another shape, {copy.shape}")
    if arrays.is_masked(type(original)):
        if original._hardmask != copy._hardmask:
            raise Differs("has another kind of mask")
        import numpy

        yield ".data", numpy.ma.getdata(original), numpy.ma.getdata(copy)
        yield ".mask", numpy.ma.getmask(original), numpy.ma.getmask(copy)
        return
    if original.flags.writeable != copy.flags.writeable:
        raise Differs("may be written to" if copy.flags.writeable else "is read-only")
    if original.dtype.hasobject:
        for place, (one, other) in enumerate(
            zip(original.ravel().tolist(), copy.ravel().tolist(), strict=True)
        ):
            yield f".flat[{place}]", one, other
    elif not _same_memory(original, copy):
        raise Differs("has another value")
    yield from _of_attributes(original, copy)


def _same_memory(original: Any, copy: Any) -> bool:
    """Of two arrays of one type and shape, without a copy of both where that is possible."""
    both = (original, copy)
    for order in ("C", "F"):
        if all(getattr(each.flags, f"{order.lower()}_contiguous") for each in both):
            start, other = (each.__array_interface__["data"][0] for each in both)
            return int(_memcmp(start, other, original.nbytes)) == 0
    if original.ndim == 0 or original.nbytes <= CHUNK:
        return bool(original.tobytes() == copy.tobytes())
    return all(map(_same_memory, original, copy))


def _of_tensors(original: Any, copy: Any) -> Iterable[Part]:
    for name in ("dtype", "shape", "layout", "requires_grad"):
        if getattr(original, name) != getattr(copy, name):
            raise Differs(f"has another {name}")
    if original.device.type != "cpu" or str(original.layout) != "torch.strided":
        raise Opaque
    yield "", original.detach().numpy(), copy.detach().numpy()
    yield ".grad", tensors.gradient(original), tensors.gradient(copy)


# --- definitions ---


def _of_functions(original: Any, copy: Any, namespace: Mapping[str, Any]) -> Iterable[Part]:
    if original.__code__ != copy.__code__ or original.__qualname__ != copy.__qualname__:
        raise Differs("is another function")
    yield "'s defaults", original.__defaults__, copy.__defaults__
    yield "'s defaults", original.__kwdefaults__, copy.__kwdefaults__
    yield from _of_mappings(vars(original), vars(copy), "{}")
    cells = zip(original.__closure__ or (), copy.__closure__ or (), strict=True)
    for name, (one, other) in zip(original.__code__.co_freevars, cells, strict=True):
        yield f"'s variable {name}", one, other
    around = original.__globals__
    if around is namespace or definitions.module_of(original):
        if around is not copy.__globals__:
            raise Differs("sees other names")
        return
    there = definitions.own_globals(copy)
    for name, value in definitions.own_globals(original).items():
        if name != "__builtins__":
            yield f"'s global {name}", value, there.get(name)


def _of_classes(original: Any, copy: Any) -> Iterable[Part]:
    if classes.full_name(original) != classes.full_name(copy):
        raise Differs("is another class")
    yield "'s metaclass", type(original), type(copy)
    yield from _of_sequences(original.__bases__, copy.__bases__, "'s base {}")
    own, others = dict(_of_class(original)), dict(_of_class(copy))
    yield from _of_mappings(own, others, ".{}")
    if "_abc_impl" in classes.attributes(original):
        own_subclasses = definitions.virtual_subclasses(original)
        its_subclasses = definitions.virtual_subclasses(copy)
        yield from _of_sequences(own_subclasses, its_subclasses, "'s virtual subclass {}")


def _of_class(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in classes.attributes(kind).items():
        is_made = type(value) in (types.MemberDescriptorType, types.GetSetDescriptorType)
        if not is_made and (name not in NOT_OF_CLASS or name in ("__slots__", "__doc__")):
            yield name, value


# --- containers ---


def _of_sequences(
    original: Sequence[Any], copy: Sequence[Any], step: str = "[{}]"
) -> Iterator[Part]:
    if len(original) != len(copy):
        raise Differs(f"has {len(copy)} items, not {len(original)}")
    for place, (one, other) in enumerate(zip(original, copy, strict=True)):
        yield step.format(place), one, other


def _of_mappings(original: Mapping[str, Any], copy: Mapping[str, Any], step: str) -> Iterator[Part]:
    """By name; the order does not matter."""
    for name, value in original.items():
        if name not in copy:
            raise Differs(f"has no {name}")
        yield step.format(name), value, copy[name]
    if more := [str(name) for name in copy if name not in original]:
        raise Differs(f"has {more[0]} besides")


def _of_dicts(original: Any, copy: Any) -> Iterable[Part]:
    kind = collections.OrderedDict if is_a(original, collections.OrderedDict) else dict
    items, others = list(kind.items(original)), list(kind.items(copy))
    if len(items) != len(others):
        raise Differs(f"has {len(others)} items, not {len(items)}")
    if _are_atomic_and_same([*itertools.chain(*items)], [*itertools.chain(*others)]):
        items, others = [], []
    for (key, value), (other_key, other) in zip(items, others, strict=True):
        shown = repr(key)[:40] if kinds.is_atomic(type(key)) else "…"
        yield f"'s key {shown}", key, other_key
        yield f"[{shown}]", value, other
    if is_a(original, collections.defaultdict):
        yield ".default_factory", original.default_factory, copy.default_factory


def _of_lists(original: Any, copy: Any) -> Iterable[Part]:
    kind = list if is_a(original, list) else tuple
    items, others = list(kind.__iter__(original)), list(kind.__iter__(copy))
    return () if _are_atomic_and_same(items, others) else _of_sequences(items, others)


def _are_atomic_and_same(original: Sequence[Any], copy: Sequence[Any]) -> bool:
    is_same_length = len(original) == len(copy)
    return is_same_length and kinds.are_atomic(original) and are_all_same(original, copy)


def _of_values(original: Any, copy: Any) -> Iterable[Part]:
    base = next(each for each in ATOMIC_BASES if is_a(original, each))
    if base.__eq__(original, copy) is not True and not (original != original and copy != copy):
        raise Differs("has another value")
    return ()


def members(value: Any) -> list[Any]:
    """Of a set, also of a subclass."""
    return list((set if is_a(value, set) else frozenset).__iter__(value))


BUILTIN: Final[dict[type, Callable[[Any, Any], Iterable[Part]]]] = {
    dict: _of_dicts,
    list: _of_lists,
    tuple: _of_lists,
    set: lambda original, copy: (),
    frozenset: lambda original, copy: (),
    **dict.fromkeys(ATOMIC_BASES, _of_values),
}
"""Of sets, see `members`: which of them belong together is not known by their order."""


# --- objects ---


def _has_protocol(kind: type, base: type | None) -> bool:
    """Whether a library says how objects of a class are pickled. What the notebook's own classes
    leave out is missing to whoever uses them, whatever they say of it."""
    for each in classes.with_bases(kind)[:-1]:
        if each is base:
            return False
        if classes.module(each) == "__main__":
            continue
        is_of_c = not each.__flags__ & HEAP_TYPE
        if is_of_c or each in copyreg.dispatch_table:
            return True
        if not PROTOCOL_NAMES.isdisjoint(classes.attributes(each)):
            return True
    return False


HEAP_TYPE: Final = 1 << 9
"""`Py_TPFLAGS_HEAPTYPE`: a class that Python code has made, or could have."""


def _of_protocol(original: Any, copy: Any) -> Iterable[Part]:
    try:
        one, other = _reduced(original), _reduced(copy)
    except TypeError:
        raise Opaque from None
    if type(one) is str or type(other) is str:
        if one != other:
            raise Differs("has another value")
        return
    for place, (own, its) in enumerate(zip(one, other, strict=False)):
        if place == STATE and type(own) is type(its) is dict:
            yield from _of_mappings(own, its, ".{}")
        elif place == 1:
            yield from _of_sequences(own, its, "'s argument {}")
        elif place in (3, 4) and own is not None and its is not None:
            yield from _of_sequences(list(own), list(its))
        else:
            yield "'s state", own, its
    is_known = len(one) > STATE and one[STATE] is not None
    if not is_known and classes.library(type(original)) in ("__main__", "collections"):
        yield from _of_attributes(original, copy)
    if is_a(original, BaseException):
        yield from _by("__cause__", "__context__", "__suppress_context__")(original, copy)


def _reduced(value: Any) -> Any:
    reducer = copyreg.dispatch_table.get(type(value))
    return reducer(value) if reducer is not None else value.__reduce_ex__(PROTOCOL)


def _of_attributes(original: Any, copy: Any) -> Iterator[Part]:
    for kind in classes.with_bases(type(original)):
        for name, own in classes.attributes(kind).items():
            if type(own) is types.MemberDescriptorType and kind.__flags__ & HEAP_TYPE:
                yield from _of_slots(name, own, original, copy)
    yield from _of_mappings(_attributes(original), _attributes(copy), ".{}")


def _of_slots(name: str, slot: Any, original: Any, copy: Any) -> Iterator[Part]:
    nothing = object()
    try:
        own = slot.__get__(original)
    except AttributeError:
        own = nothing
    try:
        its = slot.__get__(copy)
    except AttributeError:
        its = nothing
    if (own is nothing) != (its is nothing):
        raise Differs(f"has no {name}" if its is nothing else f"has {name} besides")
    if own is not nothing:
        yield f".{name}", own, its


def _attributes(value: Any) -> Mapping[str, Any]:
    """Those of an object, which is not asked."""
    for kind in classes.with_bases(type(value)):
        slot = classes.attributes(kind).get("__dict__")
        if type(slot) is types.GetSetDescriptorType:
            found: Mapping[str, Any] = slot.__get__(value)
            return found
    return {}


def _of_references(original: Any, copy: Any) -> Iterator[Part]:
    if (original() is None) != (copy() is None):
        raise Differs("refers to nothing")
    yield "()", original(), copy()
    yield "'s callback", original.__callback__, copy.__callback__


def _of_weak_proxies(original: Any, copy: Any) -> Iterator[Part]:
    yield "", definitions.behind_weak_proxy(original), definitions.behind_weak_proxy(copy)


def _of_cells(original: Any, copy: Any) -> Iterator[Part]:
    contents = [each.cell_contents for each in (original, copy) if _is_full(each)]
    if len(contents) == 1:
        raise Differs("has no value" if _is_full(original) else "has a value")
    if contents:
        yield "", *contents


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _of_caches(original: Any, copy: Any) -> Iterator[Part]:
    if original.cache_parameters() != copy.cache_parameters():
        raise Differs("is cached in another way")
    yield "", original.__wrapped__, copy.__wrapped__


def _by(*names: str) -> Callable[[Any, Any], Iterator[Part]]:
    def of_both(original: Any, copy: Any) -> Iterator[Part]:
        for name in names:
            yield f".{name}", getattr(original, name), getattr(copy, name)

    return of_both


def _of_nothing(original: Any, copy: Any) -> Iterable[Part]:
    return ()


SPECIAL: Final[dict[type, Callable[[Any, Any], Iterable[Part]]]] = {
    **dict.fromkeys(definitions.PARTS, _of_nothing),
    types.BuiltinFunctionType: _by("__name__", "__self__"),
    types.CellType: _of_cells,
    types.MappingProxyType: lambda one, other: _of_dicts(dict(one), dict(other)),
    types.MethodType: _by("__func__", "__self__"),
    classmethod: _by("__func__"),
    staticmethod: _by("__func__"),
    property: _by("fget", "fset", "fdel"),
    kinds.CACHE: _of_caches,
    weakref.ref: _of_references,
    weakref.KeyedRef: _of_references,
    weakref.ProxyType: _of_weak_proxies,
    weakref.CallableProxyType: _of_weak_proxies,
}
