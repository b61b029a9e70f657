"""What the variables of a namespace are made of: sizes, shared objects, whose code saving runs.

The walk follows the references that the garbage collector knows, and knows an object by its type.
So it runs none of the notebook's own code, but for subclasses of arrays. It is bounded in objects
and seconds, and so is what it asks of these and of libraries.
"""

from __future__ import annotations

import enum
import gc
import sys
import time
import types
import weakref
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ..failure import Failure, attempt, shown
from ..storage.manifest import (
    COPIED,
    MAX_TEXT,
    MODULE,
    NO_CACHE,
    NO_GRAPH,
    NO_TRACEBACK,
    NOT_SHARED,
    RELEASED,
    Entry,
    python_version,
)
from ..values import arrays, classes, definitions, pickling, tensors
from ..values.classes import is_a
from . import frames, kinds, memory
from .found import Found
from .kinds import TRUSTED, Kind

MAX_OBJECTS: Final = 300_000
"""Visited for one name: about half a second."""
MIN_OBJECTS: Final = 1000
"""Visited for each name even when the time is over: a millisecond. Without it, a data frame after a
huge list would not be known as one, and a child would save it."""
UNKNOWN_BYTES: Final = 1 << 30
"""Taken for the size of what has more objects: it is saved late, and has time."""
MIN_SHARE: Final = 0.02
"""Of the time of a survey: for each name even when that is over."""
LARGE: Final = 1 << 16
"""Bytes of text that is not saved twice."""
MAX_SUBMODULES: Final = 10_000
"""Of one package: PyTorch has two thousand."""
_traceback_of: Final = vars(BaseException)["__traceback__"].__get__
SIZED: Final = (bytes, float, int, str)
LONG: Final = 1000
"""Items of a list whose types are looked at in one go."""


class Surveyed(NamedTuple):
    """What is known of a namespace."""

    found: list[Found]
    shared: list[tuple[str, str]]
    """Pairs of names that share an object which can change."""
    definitions: pickling.Definitions
    whole: frozenset[int]
    """The identities of the arrays that are saved as a whole for the sake of their views."""
    held: list[Any]
    """Objects that only the walk made: while they are there, an identity is not used twice."""


def survey(namespace: Mapping[str, Any], names: Iterable[str], seconds: float) -> Surveyed:
    """Walk over what these names refer to."""
    names = [*names]
    walk = Survey(namespace, names, seconds)
    found = [walk.visit(name) for name in names]
    return walk.surveyed(found)


def entry_of(name: str, value: Any) -> Entry:
    """What is known of a name before the walk; of a module, all."""
    kind = type(value)
    is_bare = classes.module(kind) in ("builtins", "__main__")
    text = classes.name(kind) if is_bare else classes.full_name(kind)
    entry = Entry(name, type=shown(text), python=python_version())
    if not issubclass(kind, types.ModuleType):
        return entry
    target = classes.module_name(value)
    if sys.modules.get(target) is value:
        below = tuple(_submodules(target))
        return replace(entry, kind=MODULE, target=target, submodules=below, saved=True)
    why = "a module that cannot be imported by its name"
    return replace(entry, kind=MODULE, code="not-storable", detail=why)


def _submodules(package: str) -> Iterable[str]:
    """What was imported of a package, without what is its own: after `import a.b`, `a` is all that
    the namespace has, and importing `a` need not bring `a.b`."""
    begin = f"{package}."
    below = sorted(name for name in list(sys.modules) if name.startswith(begin))
    for name in below[:MAX_SUBMODULES]:
        spec = getattr(sys.modules[name], "__spec__", None)
        if "._" not in name and getattr(spec, "name", "") == name:
            yield name


class Survey:
    """The walk over a namespace."""

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str], seconds: float) -> None:
        self._definitions = pickling.Definitions(namespace, names)
        self._shared: list[tuple[str, str]] = []
        self._namespace = namespace
        self._owners: dict[int, str] = {}
        self._seen_name = ""
        self._seen: set[int] = set()
        self._views: dict[int, memory.Views] = {}
        """By the identity of their owner."""
        self._uses: list[memory.Use] = []
        self._restored: set[int] = set()
        """The blocks of memory that are restored as one."""
        self._held: list[Any] = []
        self._kinds: dict[int, Kind] = {}
        """By their identity."""
        self._versions: dict[str, str] = {}
        """Of libraries; empty for those without one."""
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def surveyed(self, found: list[Found]) -> Surveyed:
        """Everything that was found."""
        whole = memory.whole(self._views.values())
        copied = memory.copies(self._uses, whole | self._restored)
        for each in found:
            if each.name in copied:
                each.differs.add(NOT_SHARED)
        return Surveyed(found, self._shared, self._definitions, frozenset(whole), self._held)

    def visit(self, name: str) -> Found:
        """Walk over what a name refers to."""
        found = Found(name)
        done = attempt(lambda: self._walk(self._namespace[name], found), self._limit())
        if isinstance(done, Failure):  # a library's own code failed, or hangs
            self._stop(found)
        versions = {each: self._version(each) for each in sorted(found.libraries)}
        found.versions = {library: version for library, version in versions.items() if version}
        return found

    def _limit(self) -> float:
        """Seconds for one name, or one library."""
        left = min(self._until - time.monotonic(), self._seconds / 2)
        return max(left, self._seconds * MIN_SHARE)

    def _stop(self, found: Found) -> None:
        """What is not known of a name is taken to be as difficult as it can be."""
        found.complete, found.runs_code, found.plain = False, True, False
        found.in_process = found.in_process or tensors.is_gpu_used()

    def _version(self, library: str) -> str:
        """It may be computed by a function of the module."""
        if library not in self._versions:
            version = attempt(lambda: _version(library), self._limit())
            self._versions[library] = "" if isinstance(version, Failure) else version
        return self._versions[library]

    def _walk(self, value: Any, found: Found) -> None:
        found.is_definition = self._definitions.name_of(value) is not None
        waiting = [(value, True)]
        visited = 0
        until = min(self._until, time.monotonic() + self._seconds / 4)
        while waiting:
            visited += 1
            is_late = visited > MIN_OBJECTS and time.monotonic() > until
            if visited > MAX_OBJECTS or is_late:
                self._stop(found)
                found.size_bytes = max(found.size_bytes, UNKNOWN_BYTES)
                break
            each, is_root = waiting.pop()
            waiting += ((below, False) for below in self._enter(each, found, is_root))

    def _enter(self, value: Any, found: Found, is_root: bool) -> Iterable[Any]:
        """Note an object; what is below it and not known yet."""
        kind = type(value)
        about = self._kinds.get(id(kind)) or self._kinds.setdefault(id(kind), kinds.about(kind))
        if about.is_atomic:
            return self._of_atomic(value, kind, found)
        if kind is types.BuiltinFunctionType:
            return _bound_to(value)
        if about.is_never_saved:  # what is below is its own, not shared
            return ()
        if value is self._namespace:
            found.holds_namespace = True
            return ()
        if value is sys.modules or is_a(value, enum.Enum):
            return ()
        if is_a(value, type) or kind is types.FunctionType:
            return self._of_definition(value, found, is_root)
        if (kind is tuple or kind is frozenset) and kinds.are_atomic(value):
            # Python has one empty tuple for all.
            found.size_bytes += sys.getsizeof(value)
            return _of_atoms(value, found)
        if not self._claim(id(value), found):
            return ()
        _note_kind(about, found)
        if arrays.is_array(value):
            return [*self._of_array(value, found), *self._of_subclass(value, found)]
        if about.library in ("pandas", "polars", "pyarrow", "torch"):
            return self._of_library(value, about.library, found)
        if is_a(value, weakref.ref):
            return [each for each in (value(), value.__callback__) if each is not None]
        if kinds.is_cache(kind):
            if value.cache_info().currsize:
                found.differs.add(NO_CACHE)
            return (value.__wrapped__, value.__dict__)
        if kinds.is_lock(kind):
            if kinds.is_held(value):
                found.differs.add(RELEASED)
            return ()
        if is_a(value, BaseException) and _traceback_of(value) is not None:
            found.differs.add(NO_TRACEBACK)
        if is_a(value, definitions.WEAK_PROXIES):
            below = definitions.behind_weak_proxy(value)
            return () if below is None else (below,)
        if kind is types.MappingProxyType:
            return definitions.mappings_behind(value)
        return self._of_container(value, found)

    def _of_atomic(self, value: Any, kind: type, found: Found) -> Iterable[Any]:
        """Its identity does not matter, but a large one is saved once."""
        if kind in SIZED:
            size = sys.getsizeof(value)
            if size < LARGE or self._claim(id(value), found):
                found.size_bytes += size
        return ()

    def _claim(self, identity: int, found: Found) -> bool:
        """Whether this name is the first that reaches an object."""
        owner = self._owners.setdefault(identity, found.name)
        if owner != found.name:
            self._shared.append((owner, found.name))
            return False
        if identity in self._seen_by(found):
            return False
        self._seen_by(found).add(identity)
        return True

    def _seen_by(self, found: Found) -> set[int]:
        if self._seen_name != found.name:
            self._seen_name, self._seen = found.name, set()
        return self._seen

    def _of_container(self, value: Any, found: Found) -> Iterable[Any]:
        try:
            found.size_bytes += object.__sizeof__(value)
            if classes.module(type(value)) == "builtins":
                found.size_bytes += sys.getsizeof(value) - object.__sizeof__(value)
        except TypeError:
            pass
        if kinds.is_container(type(value)) and len(value) > LONG:
            return self._of_long(value, found)
        if type(value) is dict and kinds.are_atomic(value) and kinds.are_atomic(value.values()):
            return _of_atoms([*value, *value.values()], found)
        below = gc.get_referents(value)
        return [each for each in below if not is_a(each, type) or self._is_by_content(each)]

    def _is_by_content(self, kind: type) -> bool:
        """Whether a class comes with each file that needs it: it is the notebook's, and unnamed."""
        return classes.module(kind) == "__main__" and self._definitions.name_of(kind) is None

    def _of_long(self, value: Any, found: Found) -> Iterable[Any]:
        """A long container: a million numbers are one object for the bound."""
        parts: list[Any] = [value]
        if type(value) is dict:
            parts = [value.keys(), value.values()]
        below: list[Any] = []
        for part in parts:
            if kinds.are_atomic(part):
                sample = [each for each, _ in zip(part, range(LONG), strict=False)]
                found.size_bytes += sum(map(sys.getsizeof, sample)) * len(part) // LONG
            else:
                below += part
        return below

    # --- libraries whose memory the garbage collector does not know ---

    def _of_library(self, value: Any, library: str, found: Found) -> Iterable[Any]:
        if tensors.is_tensor(value):
            return self._of_tensor(value, found)
        if library == "pandas":
            if frames.is_frame(value):
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
        start, end = arrays.memory(value)
        owner = arrays.owner(value)
        source = arrays.buffer(owner) if arrays.is_supported(type(value)) else None
        block, below = 0, list[Any]()
        if source is not None:
            block = id(source)
            self._restored.add(block)
        elif arrays.has_views(owner) and arrays.is_supported(type(value)):
            block = id(owner)
            below += self._note_view(value, owner, end - start, found)
        if type(owner).__name__ == "memmap" and not arrays.mapped_file(owner):
            found.differs.add(COPIED)
        elif type(owner).__name__ != "memmap":
            found.size_bytes += end - start
        can_write = bool(value.flags.writeable)
        self._uses.append(memory.Use(found.name, start, end, block, can_write))
        below += self._of_objects(value, found)
        return below if source is None else [*below, source]

    def _note_view(self, value: Any, owner: Any, used: int, found: Found) -> Iterable[Any]:
        """What is below the owner of a view, which is known from now on."""
        before = self._views.get(id(owner), memory.Views(id(owner), int(owner.nbytes), 0, False))
        is_owner = owner is value
        is_new = not is_owner and self._claim(id(owner), found)
        self._views[id(owner)] = before._replace(
            used_bytes=before.used_bytes + (0 if is_owner else used),
            # A map of a file takes no space.
            is_reachable=before.is_reachable or is_owner or bool(arrays.mapped_file(owner)),
        )
        return self._of_objects(owner, found) if is_new else ()

    def _of_objects(self, value: Any, found: Found) -> Iterable[Any]:
        """What an array refers to."""
        if not value.dtype.hasobject:
            return ()
        if value.dtype != object:  # a structure with objects
            found.runs_code, found.plain = True, False
            return ()
        below = value.ravel().tolist()
        self._held.append(below)
        return self._of_long(below, found) if len(below) > LONG else below

    def _of_subclass(self, value: Any, found: Found) -> Iterable[Any]:
        return (value.__dict__,) if getattr(value, "__dict__", None) else ()

    def _of_tensor(self, value: Any, found: Found) -> Iterable[Any]:
        if classes.module(type(value)) == "__main__":
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
        start, size = storage.data_ptr(), int(storage.nbytes())
        if self._claim(-start - 1 if start else -id(value), found):
            found.size_bytes += size
        self._restored.add(-start - 1)
        self._uses.append(memory.Use(found.name, start, start + size, -start - 1))
        if value.grad_fn is not None:
            found.differs.add(NO_GRAPH)
        below = (getattr(value, "__dict__", None), tensors.gradient(value))
        return [each for each in below if each is not None]

    def _of_frame(self, value: Any, found: Found) -> Iterable[Any]:
        """Data frames are values: what they share with others inside is not kept."""
        are_values = frames.are_values()
        parts = frames.parts(value)
        found.size_bytes += sum(parts.sizes)
        below = parts.others
        for each in parts.memory:
            start, end = arrays.memory(each)
            self._uses.append(memory.Use(found.name, start, end, 0, is_value=are_values))
            below += self._of_objects(each, found)
        return below

    # --- functions and classes ---

    def _of_definition(self, value: Any, found: Found, is_root: bool) -> Iterable[Any]:
        if is_a(value, type):
            if classes.module(value) != "__main__":
                if classes.library(value) not in TRUSTED:
                    found.libraries.add(classes.library(value))
                return ()
            # Not the insides of dataclasses and abstract classes, some of which all of them share.
            named = classes.attributes(value).items()
            below = [
                each
                for name, own in named
                for each in _functions(own)
                if type(each) is types.FunctionType or not _is_inside(name)
            ]
            below += filter(self._is_by_content, (type(value), *value.__bases__))
        else:
            if value.__globals__ is not self._namespace and definitions.is_importable(value):
                return ()
            # Cells: functions that share a variable are one group.
            below = [
                *(value.__closure__ or ()),
                value.__defaults__,
                value.__kwdefaults__,
                value.__dict__,
            ]
            if value.__globals__ is not self._namespace and not definitions.module_of(value):
                self._claim(id(value.__globals__), found)
                below += definitions.own_globals(value).values()
        if not is_root and self._definitions.name_of(value) is not None:
            return ()
        found.runs_code, found.plain = True, False
        found.size_bytes += 2000
        if not self._claim(id(value), found):
            return ()
        return [each for each in below if each is not None and each is not value]


def _note_kind(about: Kind, found: Found) -> None:
    if about.library != "builtins":
        found.libraries.add(about.library)
    found.runs_code = found.runs_code or about.runs_code
    found.plain = found.plain and about.plain


def _of_atoms(values: Collection[Any], found: Found) -> Iterable[Any]:
    """Counts atomic objects at once; the large ones are left, see `Survey._of_atomic`."""
    sizes = {id(each): sys.getsizeof(each) for each in values if type(each) in SIZED}
    found.size_bytes += sum(size for size in sizes.values() if size < LARGE)
    return [each for each in values if sizes.get(id(each), 0) >= LARGE]


def _version(library: str) -> str:
    """Empty where it has none."""
    version = getattr(sys.modules.get(library), "__version__", None)
    return version[:MAX_TEXT] if isinstance(version, str) else ""


def _bound_to(function: Any) -> Iterable[Any]:
    """The object whose method it is, such as the list of `items.append`."""
    owner = function.__self__
    is_of_module = owner is None or is_a(owner, (types.ModuleType, type))
    return () if is_of_module else (owner,)


def _is_inside(name: str) -> bool:
    return name.startswith("__")


def _functions(own: Any) -> Iterable[Any]:
    """An attribute of a class; of a descriptor, its functions."""
    if is_a(own, (classmethod, staticmethod)):
        return (own.__func__,)
    if type(own) is property:
        return [each for each in (own.fget, own.fset, own.fdel) if each is not None]
    if is_a(own, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        return ()
    return (own,)
