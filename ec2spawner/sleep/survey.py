"""What the variables of a namespace are made of: sizes, shared objects, whose code saving runs.

The walk follows the references that the garbage collector knows. So it runs no code of the objects
it visits, and cannot hang in one; it is bounded in objects and seconds.
"""

from __future__ import annotations

import copyreg
import enum
import gc
import sys
import time
import types
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .values import arrays, pickling, registry, tensors

MAX_OBJECTS: Final = 300_000
"""Visited for one name: about half a second."""
MIN_OBJECTS: Final = 1000
"""Visited for each name even when the time is over: a millisecond. Without it, a data frame after a
huge list would not be known as one, and a child would save it."""
UNKNOWN_BYTES: Final = 1 << 30
"""Taken for the size of what has more objects: it is saved late, and has time."""
LONG: Final = 1000
"""Items of a list whose types are looked at in one go."""

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
        types.BuiltinFunctionType,
        types.CodeType,
        types.GetSetDescriptorType,
        types.MappingProxyType,
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
    "datetime.date datetime.datetime datetime.time datetime.timedelta datetime.timezone"
    " decimal.Decimal fractions.Fraction logging.Logger logging.RootLogger re.Pattern"
    " torch.Size torch.device torch.dtype uuid.UUID".split()
)
"""Their identity does not matter, and nothing is below them."""

HOOKS: Final = (
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


@dataclass
class Found:
    """What is known of one name."""

    name: str
    size_bytes: int = 0
    """What its objects take in memory, without those that another name had first."""
    runs_code: bool = False
    """Saving it runs code of the notebook's own, or of a library that is not known."""
    plain: bool = True
    """Loading it does not."""
    in_process: bool = False
    """It holds what a forked child cannot use: memory of a GPU, or of Polars, whose threads the
    child does not have."""
    gpu: bool = False
    complete: bool = True
    holds_namespace: bool = False
    libraries: set[str] = field(default_factory=set)


class Survey:
    """The walk over a namespace."""

    def __init__(self, namespace: Mapping[str, Any], seconds: float) -> None:
        self.definitions = pickling.Definitions(namespace)
        self.shared: list[tuple[str, str]] = []
        """Pairs of names that share an object which can change."""
        self._namespace = namespace
        self._owners: dict[int, str] = {}
        self._seen_name = ""
        self._seen: set[int] = set()
        self._views: dict[int, tuple[int, int, bool]] = {}
        """By owner: bytes of its views, its own, and whether itself is reachable."""
        self._held: list[Any] = []
        """Objects that only the walk made: an address is not used twice."""
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def share(self, owner: Any) -> bool:
        """Whether an array is saved as a whole for the sake of its views.

        Not for a small part of a large array: that would save much that no name reaches.
        """
        views, size, reachable = self._views.get(id(owner), (0, 0, False))
        return reachable or size <= 2 * views

    def visit(self, name: str) -> Found:
        """Walk over what a name refers to."""
        found = Found(name)
        value = self._namespace[name]
        waiting = [(value, True)]
        visited = 0
        until = min(self._until, time.monotonic() + self._seconds / 4)
        while waiting:
            visited += 1
            is_late = visited > MIN_OBJECTS and time.monotonic() > until
            if visited > MAX_OBJECTS or is_late:
                found.complete, found.runs_code, found.plain = False, True, False
                found.size_bytes = max(found.size_bytes, UNKNOWN_BYTES)
                found.in_process = tensors.is_gpu_used()
                break
            each, is_root = waiting.pop()
            waiting += ((below, False) for below in self._enter(each, found, is_root))
        return found

    def _enter(self, value: Any, found: Found, is_root: bool) -> Iterable[Any]:
        """Note an object; what is below it and not known yet."""
        kind = type(value)
        if kind in ATOMIC or f"{kind.__module__}.{kind.__qualname__}" in ATOMIC_NAMES:
            if kind in (bytes, str, int):
                found.size_bytes += sys.getsizeof(value)
            return ()
        if pickling.never(kind):  # what is below is its own, not shared
            return ()
        if value is self._namespace:
            found.holds_namespace = True
            return ()
        if value is sys.modules or isinstance(value, enum.Enum):
            return ()
        if isinstance(value, type) or kind is types.FunctionType:
            return self._of_definition(value, found, is_root)
        if kind in (tuple, frozenset) and not (value and gc.is_tracked(value)):
            # Of atomic objects only, and Python has one empty tuple for all.
            found.size_bytes += sys.getsizeof(value)
            found.size_bytes += sum(map(sys.getsizeof, filter(_is_sized, value)))
            return ()
        if not self._claim(id(value), found):
            return ()
        self._classify(kind, found)
        if kind.__module__.partition(".")[0] in ("numpy", "pandas", "polars", "pyarrow", "torch"):
            return self._of_library(value, found)
        if kind is weakref.ref:
            below = value()
            return () if below is None else (below,)
        return self._of_container(value, found)

    def _claim(self, identity: int, found: Found) -> bool:
        """Whether this name is the first that reaches an object."""
        owner = self._owners.setdefault(identity, found.name)
        if owner != found.name:
            self.shared.append((owner, found.name))
            return False
        if identity in self._seen_by(found):
            return False
        self._seen_by(found).add(identity)
        return True

    def _seen_by(self, found: Found) -> set[int]:
        if self._seen_name != found.name:
            self._seen_name, self._seen = found.name, set()
        return self._seen

    def _classify(self, kind: type, found: Found) -> None:
        library = kind.__module__.partition(".")[0]
        if library != "builtins":
            found.libraries.add(library)
        for each in kind.__mro__[:-1]:
            if each.__module__.partition(".")[0] in TRUSTED:
                continue
            found.plain = False
            if each.__module__ != "__main__" or any(hook in vars(each) for hook in HOOKS):
                found.runs_code = True
        reducer = copyreg.dispatch_table.get(kind)
        if reducer is not None and reducer.__module__.partition(".")[0] not in TRUSTED:
            found.runs_code, found.plain = True, False
        if registry.is_registered(kind):
            found.runs_code, found.plain = True, False

    def _of_container(self, value: Any, found: Found) -> Iterable[Any]:
        try:
            found.size_bytes += object.__sizeof__(value)
            if type(value).__module__ == "builtins":
                found.size_bytes += sys.getsizeof(value) - object.__sizeof__(value)
        except TypeError:
            pass
        if type(value) in (list, tuple, set, frozenset, dict) and len(value) > LONG:
            return self._of_long(value, found)
        if type(value) is dict and not gc.is_tracked(value):  # of atomic objects only
            items = [*value, *value.values()]
            found.size_bytes += sum(map(sys.getsizeof, filter(_is_sized, items)))
            return ()
        return [each for each in gc.get_referents(value) if not isinstance(each, type)]

    def _of_long(self, value: Any, found: Found) -> Iterable[Any]:
        """A long container: a million numbers are one object for the bound."""
        parts: list[Any] = [value]
        if isinstance(value, dict):
            parts = [value.keys(), value.values()]
        below: list[Any] = []
        for part in parts:
            kinds = set(map(type, part))
            if kinds <= ATOMIC:
                sample = [each for each, _ in zip(part, range(LONG), strict=False)]
                found.size_bytes += sum(map(sys.getsizeof, sample)) * len(part) // LONG
            else:
                below += part
        return below

    # --- libraries whose memory the garbage collector does not know ---

    def _of_library(self, value: Any, found: Found) -> Iterable[Any]:
        kind = type(value)
        library = kind.__module__.partition(".")[0]
        if library == "numpy":
            if hasattr(kind, "__array_finalize__") and hasattr(value, "strides"):
                return self._of_array(value, found)
        elif tensors.is_tensor(value):
            return self._of_tensor(value, found)
        elif library == "pandas":
            if kind.__name__ in ("DataFrame", "Series") or hasattr(value, "memory_usage"):
                return self._of_frame(value, found)
        elif library == "polars":
            found.in_process = True
            size = getattr(value, "estimated_size", None)
            found.size_bytes += int(size()) if size is not None else 0
            return ()
        elif library == "pyarrow":
            size = getattr(value, "nbytes", 0)
            found.size_bytes += size if isinstance(size, int) else 0
            return ()
        return self._of_container(value, found)

    def _of_array(self, value: Any, found: Found) -> Iterable[Any]:
        owner = arrays.owner(value)
        views, size, reachable = self._views.get(id(owner), (0, int(owner.nbytes), False))
        if owner is not value:
            self._claim(id(owner), found)
            views += int(value.nbytes)
        self._views[id(owner)] = views, size, reachable or owner is value
        found.size_bytes += int(value.nbytes)
        if not value.dtype.hasobject:
            return ()
        below = value.ravel().tolist() if value.dtype == object else [object()]
        self._held.append(below)
        if value.dtype != object:  # a structure with objects
            found.runs_code, found.plain = True, False
            return ()
        return self._of_long(below, found) if len(below) > LONG else below

    def _of_tensor(self, value: Any, found: Found) -> Iterable[Any]:
        if type(value).__module__ == "__main__":
            found.runs_code = True
            return ()
        device = value.device.type
        if device not in ("cpu", "meta"):
            found.gpu = found.in_process = True
        try:
            storage = value.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a sparse one has several
            found.size_bytes += int(value.numel() * value.element_size())
            return ()
        if self._claim(-storage.data_ptr() - 1 if storage.data_ptr() else -id(value), found):
            found.size_bytes += int(storage.nbytes())
        return (value.__dict__,) if getattr(value, "__dict__", None) else ()

    def _of_frame(self, value: Any, found: Found) -> Iterable[Any]:
        """Data frames are values: what they share with others inside is not kept."""
        usage = value.memory_usage()
        found.size_bytes += int(getattr(usage, "sum", lambda: usage)())
        below: list[Any] = []
        columns = value.dtypes if hasattr(value, "columns") else [value.dtype]
        for number, dtype in enumerate(columns):
            if str(dtype) == "object":
                column = value.iloc[:, number] if hasattr(value, "columns") else value
                items = column.to_numpy().tolist()
                self._held.append(items)
                below += self._of_long(items, found) if len(items) > LONG else items
        return below

    # --- functions and classes ---

    def _of_definition(self, value: Any, found: Found, is_root: bool) -> Iterable[Any]:
        if isinstance(value, type):
            if value.__module__ != "__main__":
                if value.__module__.partition(".")[0] not in TRUSTED:
                    found.libraries.add(value.__module__.partition(".")[0])
                return ()
            # Not the insides of dataclasses and abstract classes, some of which all of them share.
            own = {n: each for n, each in vars(value).items() if not n.startswith("__")}
            below = [each for each in own.values() if not _is_descriptor(each)]
        else:
            if value.__globals__ is not self._namespace:
                return ()
            # Cells: functions that share a variable are one group.
            below = [
                *(value.__closure__ or ()),
                value.__defaults__,
                value.__kwdefaults__,
                value.__dict__,
            ]
        if not is_root and self.definitions.name_of(value) is not None:
            return ()
        found.runs_code, found.plain = True, False
        found.size_bytes += 2000
        if not self._claim(id(value), found):
            return ()
        return [each for each in below if each is not None and each is not value]


def _is_sized(value: Any) -> bool:
    return type(value) in (bytes, str, int, float)


def _is_descriptor(value: Any) -> bool:
    descriptors = (types.FunctionType, classmethod, staticmethod, property)
    return isinstance(value, (*descriptors, types.GetSetDescriptorType, types.MemberDescriptorType))
