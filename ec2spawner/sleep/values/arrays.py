"""NumPy arrays: their memory as it is, and views of one array as views of one array.

Nothing here imports NumPy before an array is there.
"""

from __future__ import annotations

import array as arrays_of_python
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final, Literal

from . import classes
from .archive import CHUNK, Reader, Writer

Order = Literal["C", "F"]

KINDS: Final = ("matrix", "memmap", "ndarray", "recarray")
"""NumPy's classes of arrays that consist of nothing but memory, a shape and a type."""

BUFFERS: Final = (bytearray, arrays_of_python.array)
"""What `numpy.frombuffer` may have been given, and is saved by itself."""


def is_array(value: Any) -> bool:
    """Also for subclasses; without importing NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and classes.is_a(value, getattr(numpy, "ndarray", ()))


def is_supported(kind: type) -> bool:
    """Whether arrays of this class are saved here, and not by their own pickling."""
    return classes.library(kind) == "numpy" and kind.__name__ in KINDS


def is_masked(kind: type) -> bool:
    """Whether it is NumPy's own class of arrays with a mask."""
    return classes.full_name(kind) in ("numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray")


def owner(array: Any) -> Any:
    """The array whose memory this one uses; itself if it has its own."""
    while is_array(array.base):
        array = array.base
    return array


def buffer(owned: Any) -> Any:
    """The bytes, made by Python, that an owner uses; None if there are none that can change."""
    base = owned.base
    base = base.obj if type(base) is memoryview else base
    return base if type(base) in BUFFERS else None


def has_views(owned: Any) -> bool:
    """Whether views of this owner can be restored as its views."""
    is_whole = owned.flags.c_contiguous or owned.flags.f_contiguous
    return is_supported(type(owned)) and is_whole and _is_plain(owned.dtype)


def memory(array: Any) -> tuple[int, int]:
    """The addresses that an array uses, the last one excluded."""
    start = end = int(array.__array_interface__["data"][0])
    if array.size == 0:
        return start, end
    for length, stride in zip(array.shape, array.strides, strict=True):
        start += min(0, (length - 1) * stride)
        end += max(0, (length - 1) * stride)
    return start, end + int(array.itemsize)


def mapped_file(owned: Any) -> str:
    """The file of the home that an owner is a map of, and will be again; empty if there is none.

    A file elsewhere, such as on the instance's own disk, is gone when the session wakes.
    """
    name = getattr(owned, "filename", None)
    if type(owned).__name__ != "memmap" or name is None or owned.mode == "c":
        return ""
    path = Path(name)
    is_ours = path.is_file() and path.resolve().is_relative_to(Path.home().resolve())
    return str(path) if is_ours else ""


def reduce(array: Any, writer: Writer, whole: Collection[int]) -> Any:
    """What `__reduce__` would return, with the memory as a block of the archive.

    `whole`: the identities of the owners that are saved whole for the sake of their views.
    NotImplemented for what NumPy must pickle itself.
    """
    if not _is_plain(array.dtype):
        return NotImplemented
    owned = owner(array)
    about = (array.shape, array.strides, array.dtype, bool(array.flags.writeable), _name(array))
    if owned is not array and id(owned) in whole:
        if array.dtype.kind == "O":
            first = (_address(array) - _address(owned)) // owned.itemsize
            return object_view, (owned, first, *about)
        return view, (owned, _address(array) - _address(owned), *about)
    if array.dtype.kind == "O":
        return NotImplemented
    found = buffer(owned)
    if found is not None:
        return view, (found, _address(array) - _address(_of_bytes(found)), *about)
    if owned is array and (file := mapped_file(array)):
        array.flush()
        mode = "r" if array.mode == "r" else "r+"
        return map_file, (file, array.dtype, mode, array.offset, array.shape, _order(array))
    start, end = memory(array)
    if end - start < array.nbytes:  # the same memory several times, as of `broadcast_to`
        return view, (_Region(start, end, array).array(), _address(array) - start, *about)
    return reduce_standalone(array, writer)


def reduce_standalone(array: Any, writer: Writer) -> Any:
    """As `reduce`, whatever shares the memory."""
    order = _order(array)
    number = writer.block(_memory(array, order))
    writable = bool(array.flags.writeable)
    return array_block, (number, array.shape, array.dtype, order, writable, _name(array))


def reduce_masked(array: Any) -> Any:
    """As NumPy pickles it, with what NumPy leaves out: whether its mask is hard."""
    make, args, state = array.__reduce__()
    about = {"_hardmask": bool(array._hardmask), "_sharedmask": bool(array._sharedmask)}
    return make, args, (state, about), None, None, fill_masked


def fill_masked(array: Any, state: Any) -> None:
    """Give an array its values, its mask, and how its mask behaves."""
    values, about = state
    array.__setstate__(values)
    vars(array).update(about)


def _is_plain(dtype: Any) -> bool:
    return not dtype.hasobject or dtype.kind == "O"


def _name(array: Any) -> str:
    """Of its class. What was mapped, and is not any more, is an array in memory."""
    name = type(array).__name__
    return "ndarray" if name == "memmap" and not mapped_file(owner(array)) else name


def _order(array: Any) -> Order:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


class _Region:
    """A range of memory, which belongs to an array, as bytes."""

    def __init__(self, start: int, end: int, array: Any) -> None:
        self._array = array
        about = {"data": (start, True), "shape": (end - start,), "typestr": "|u1", "version": 3}
        self.__array_interface__ = about

    def array(self) -> Any:
        import numpy

        return numpy.asarray(self)


def _memory(array: Any, order: Order) -> Iterator[Any]:
    """The bytes of an array in this order, without a copy of more than a chunk."""
    if array.size == 0:
        return
    if array.flags.c_contiguous or array.flags.f_contiguous:
        yield _bytes(_flat(array, order))
        return
    if array.nbytes <= CHUNK or array.ndim == 0:
        yield _bytes(_flat(array.copy(order="C"), "C"))
        return
    rows = max(1, CHUNK * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield from _memory(array[start : start + rows], "C")


def _flat(array: Any, order: Order) -> Any:
    """A view of one dimension."""
    import numpy

    # Not of a matrix, which always has two.
    return array.view(numpy.ndarray).reshape(-1, order=order)


def _bytes(flat: Any) -> Any:
    import numpy

    # Not by the buffer protocol, which has no dates.
    return flat.view(numpy.uint8).data


def _of_bytes(found: Any) -> Any:
    import numpy

    return numpy.frombuffer(found, numpy.uint8)


# --- what an archive refers to ---


def array_block(
    number: int, shape: Any, dtype: Any, order: Order, writable: bool, kind: str
) -> Any:
    """Found by the unpickler under this name, which gives it the archive."""
    raise TypeError("only an archive can be read")


def read(
    reader: Reader,
    is_mapped: bool,
    number: int,
    shape: tuple[int, ...],
    dtype: Any,
    order: Order,
    writable: bool,
    kind: str,
) -> Any:
    """The array of a block, with memory of its own; mapped, that of the file, until it is written
    to."""
    import numpy

    mapped = reader.mapped(number) if is_mapped else None
    array: Any = numpy.ndarray(shape, dtype, buffer=mapped, order=order)
    if mapped is not None:
        if array.nbytes != len(mapped):
            raise ValueError("an array and its block have different sizes")
    elif array.size:
        reader.into(number, _bytes(_flat(array, order)))
    elif reader.block_size(number):
        raise ValueError("an array is empty, its block is not")
    if kind != "ndarray":
        array = array.view(getattr(numpy, kind))
    array.flags.writeable = writable
    return array


def view(
    owned: Any,
    offset: int,
    shape: Any,
    strides: Any,
    dtype: Any,
    writable: bool,
    kind: str,
) -> Any:
    """A view of an array or of bytes, `offset` bytes behind their first one."""
    import numpy

    own: Any = getattr(numpy, kind)
    made_later = writable and is_array(owned) and not owned.flags.writeable
    if made_later:  # its owner was made read-only after the view
        owned.flags.writeable = True
    found = numpy.ndarray.__new__(own, shape, dtype, buffer=owned, offset=offset, strides=strides)
    if made_later:
        owned.flags.writeable = False
    if kind == "memmap":
        found.__array_finalize__(owned)  # its file
    if found.flags.writeable != writable:
        found.flags.writeable = writable
    return found


def object_view(
    owned: Any,
    first: int,
    shape: Any,
    strides: Any,
    dtype: Any,
    writable: bool,
    kind: str,
) -> Any:
    """A view of an array of objects, from this one of them on; NumPy has no other way to it."""
    import numpy

    rest = _flat(owned, _order(owned))[first:]
    found = numpy.lib.stride_tricks.as_strided(rest, shape, strides, writeable=writable)
    return found if kind == "ndarray" else found.view(getattr(numpy, kind))


def map_file(file: str, dtype: Any, mode: Any, offset: int, shape: Any, order: Order) -> Any:
    """A map of a file."""
    import numpy

    return numpy.memmap(file, dtype, mode, offset, shape, order)
