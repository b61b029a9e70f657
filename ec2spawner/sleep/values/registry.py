"""Types with their own way to be saved: those that users register, and Polars.

The most specific registered type of a value wins, in the order of its class's bases.
"""

from __future__ import annotations

import io
import types
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

from . import classes
from .archive import CHUNK, Writer

Save = Callable[[Any, IO[bytes]], None]
Load = Callable[[IO[bytes]], Any]


class Ways(NamedTuple):
    """How values of a type are saved and loaded."""

    save: Save
    load: Load
    registered: type | None = None
    """The type that a user has registered them for."""


_registered: dict[type, Ways] = {}


def register(type: type, save: Save, load: Load) -> None:  # noqa: A002 - the name for callers
    """Save values of this type, and of its subclasses, by `save(value, file)`.

    `file`: binary, to write to. `load(file)` returns the value. Both run in another process than
    the kernel's where that is possible, with a time limit. Both are saved with the value, and
    registered again as it is restored, unless its type is by then. Registering a type again
    replaces its functions.
    """
    if not isinstance(type, __builtins_type):
        raise TypeError("the first argument is a class")
    if not callable(save) or not callable(load):
        raise TypeError("save and load are functions")
    _registered[type] = Ways(save, load, type)


__builtins_type = type


def ways_of(kind: type) -> Ways | None:
    """How a class's values are saved, if by functions of this registry."""
    for each in classes.with_bases(kind):
        if each in _registered:
            return _registered[each]
    if classes.library(kind) == "polars" and classes.name(kind) == "DataFrame":
        return Ways(_save_polars, load_polars)
    return None


def is_registered(kind: type) -> bool:
    """Whether a user's functions save values of this class."""
    return any(each in _registered for each in classes.with_bases(kind))


def reduce(value: Any, ways: Ways, writer: Writer) -> Any:
    """What `__reduce__` would return."""
    number = writer.block(_written(value, ways.save))
    # What a method or a closure holds may be of this machine, as an open file: then the value is
    # saved, and its type has to be registered again.
    is_plain = type(ways.save) is types.FunctionType and ways.save.__closure__ is None
    if ways.registered is None or not is_plain:
        return registered, (number, ways.load)
    return registered, (number, ways.load, ways.registered, ways.save)


def registered(number: int, load: Load, kind: type | None = None, save: Save | None = None) -> Any:
    """Found by the unpickler under this name, which gives it the archive."""
    raise TypeError("only an archive can be read")


def restore(kind: type, save: Save, load: Load) -> None:
    """Register a type as it was when its value was saved: the next sleep needs it, too."""
    if kind not in _registered:
        register(kind, save, load)


def _written(value: Any, save: Save) -> Iterator[Any]:
    """What `save` writes, in pieces. It is in memory once, because it may write as it likes."""
    file = io.BytesIO()
    save(value, file)
    content = file.getbuffer()
    for start in range(0, len(content), CHUNK):
        yield content[start : start + CHUNK]


def _save_polars(frame: Any, file: IO[bytes]) -> None:
    frame.write_ipc(file, compression="uncompressed")


def load_polars(file: IO[bytes]) -> Any:
    """A data frame of Polars from its own format."""
    import polars

    return polars.read_ipc(file)
