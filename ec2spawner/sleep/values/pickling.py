"""Pickling a few names into one archive.

Python's own pickler in C goes first, because it is many times faster; what it cannot save, such as
most of the interpreter's own types, goes to dill. Both reduce arrays, tensors, registered types and
what the notebook defines in the same way.
"""

from __future__ import annotations

import importlib
import pickle
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...core.sleep.unsavable import UNSAVABLE
from . import arrays, blocks, classes, definitions, instances, registry, tensors
from .archive import Writer

PROTOCOL: Final = 5
"""Of every Python that this package runs on."""


def never(kind: type) -> str:
    """What a class is that is never saved; empty for all others."""
    names = map(classes.full_name, classes.with_bases(kind))
    return next((UNSAVABLE[name] for name in names if name in UNSAVABLE), "")


class NotStorable(Exception):
    """This value is of a kind that cannot be saved: which."""


class NoDill(Exception):
    """Only dill can save this value, and the kernel's environment has none."""


class Written(NamedTuple):
    """An archive."""

    size_bytes: int
    needs: list[str]
    """The definitions that it refers to by name, sorted."""


class Definitions:
    """Functions and classes that are saved under a name of the namespace.

    Other values refer to them by that name: so an object is an instance of the class that the
    notebook has after waking. Not by a name that is not saved, such as `_`, which has what a cell
    showed last: that one comes with each value.
    """

    def __init__(self, namespace: Mapping[str, Any], names: Iterable[str] = ()) -> None:
        """`names`: those that are saved, in their order; a thread may remove one meanwhile."""
        self.namespace = namespace
        there = [(name, namespace.get(name)) for name in names]
        self._names = {
            id(value): name
            for name, value in reversed(there)
            if definitions.is_ours(value, namespace)
        }
        self._globals: dict[int, definitions.Globals] = {}

    def globals_of(self, function: types.FunctionType) -> definitions.Globals:
        """The globals of a function that `exec` made: the same for all that have them."""
        around = function.__globals__
        return self._globals.setdefault(id(around), definitions.Globals(around))

    def name_of(self, value: Any) -> str | None:
        """The first name of a definition; None for all else."""
        return self._names.get(id(value))


def save(
    values: Mapping[str, Any],
    path: Path,
    *,
    known: Definitions,
    whole: Collection[int],
    free: Callable[[int], int],
    fast_only: bool,
) -> Written:
    """Write these names to an archive.

    `known`: what values refer to by name; `whole`: see `arrays.reduce`; `free`: see
    `archive.Writer`; `fast_only`: without dill. Raises
    NotStorable, NoDill, archive.NoSpace, OSError and whatever the values' own code raises.
    """
    names = {id(value): name for name, value in values.items()}
    try:
        with Writer(path, free) as writer:
            return _FastPickler(writer, names, known, whole).archive(values)
    except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError) as why:
        if fast_only:
            raise
        fast = why
    slow = _dill_pickler()
    if slow is None:
        raise NoDill(str(fast)) from None
    with Writer(path, free) as writer:
        found: Written = slow(writer, names, known, whole).archive(values)
        return found


class _Kind(NamedTuple):
    """How objects of a class are saved."""

    itself: type
    """Held: its identity is what it is known by, for its metaclass may have `__eq__`."""
    ways: registry.Ways | None
    """By functions of the registry."""
    never: str
    """What it is, if it is never saved."""
    reduce: instances.Reduce | None


class _Reductions:
    """How both picklers reduce what they should not pickle in their own way."""

    def _begin(
        self,
        writer: Writer,
        names: Mapping[int, str],
        known: Definitions,
        whole: Collection[int],
    ) -> None:
        self._writer = writer
        self._of_file = names
        self._definitions = known
        self._whole = whole
        self._storages = tensors.StorageWriter(writer)
        self._kinds: dict[int, _Kind] = {}
        self._needs: set[str] = set()

    def archive(self, values: Mapping[str, Any]) -> Written:
        """Pickle these names, and complete the archive."""
        self.dump(dict(values))  # type: ignore[attr-defined]
        return Written(self._writer.commit(), sorted(self._needs))

    def reducer_override(self, value: Any) -> Any:
        """Called by the pickler for what is not a builtin value, by dill's for all."""
        kind = type(value)
        if definitions.is_ours(value, self._definitions.namespace):
            return self._definition(value)
        if kind is types.FunctionType:
            if definitions.is_importable(value):
                return NotImplemented
            return definitions.reduce(value, self._definitions)
        part = definitions.PARTS.get(kind)
        if part is not None:
            return part(value)
        if kind is dict and value is self._definitions.namespace:
            return namespace, ()
        if kind is types.ModuleType:
            return importlib.import_module, (value.__name__,)
        if arrays.is_supported(kind) and arrays.is_array(value):
            return arrays.reduce(value, self._writer, self._whole)
        if arrays.is_masked(kind):
            return arrays.reduce_masked(value)
        if kind is blocks.Standalone:
            return arrays.reduce_standalone(value.array, self._writer)
        if blocks.is_block(kind):
            return blocks.reduce(value)
        if kind.__module__ == "torch.storage" and kind.__name__.endswith("Storage"):
            return self._storages.reduce(value)
        known = self._known(kind)
        if known.ways is not None:
            return registry.reduce(value, known.ways, self._writer)
        if tensors.is_tensor(value):
            return tensors.reduce(value, PROTOCOL)
        if known.never:
            raise NotStorable(known.never)
        return NotImplemented if known.reduce is None else known.reduce(value)

    def _definition(self, value: Any) -> Any:
        """By its name, unless this file is to bring it or it has none."""
        name = self._definitions.name_of(value)
        if name is not None and id(value) not in self._of_file:
            self._needs.add(name)
            return definition, (name,)
        outer, _, inner = getattr(value, "__qualname__", "").rpartition(".")
        holder: Any = self._definitions.namespace.get(outer)
        name = self._definitions.name_of(holder)
        if (
            name is not None
            and classes.is_a(holder, type)
            and id(holder) not in self._of_file
            and classes.attributes(holder).get(inner) is value
        ):
            self._needs.add(name)
            return getattr, (holder, inner)
        return definitions.reduce(value, self._definitions)

    def _known(self, kind: type) -> _Kind:
        if id(kind) not in self._kinds:
            found = _Kind(kind, registry.ways_of(kind), never(kind), instances.way(kind))
            self._kinds[id(kind)] = found
        return self._kinds[id(kind)]


class _FastPickler(_Reductions, pickle.Pickler):
    def __init__(self, writer: Writer, *about: Any) -> None:
        super().__init__(writer, PROTOCOL, buffer_callback=writer.buffer)
        self._begin(writer, *about)


def _dill_pickler() -> type | None:
    """A pickler of dill, which is imported now: it takes 50 ms. None where it is not installed."""
    try:
        import dill
    except ImportError:
        return None

    class DillPickler(_Reductions, dill.Pickler):
        def __init__(self, writer: Writer, *about: Any) -> None:
            super().__init__(
                writer, PROTOCOL, byref=False, recurse=False, buffer_callback=writer.buffer
            )
            self._begin(writer, *about)

    return DillPickler


# --- what an archive refers to: found by the unpickler under these names ---


def definition(name: str) -> Any:
    """A function or class of the namespace."""
    raise TypeError("only an archive can be read")


def namespace() -> Any:
    """The namespace itself."""
    raise TypeError("only an archive can be read")
