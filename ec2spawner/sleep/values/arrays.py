"""NumPy arrays: their memory as it is, and views of one array as views of one array.

Nothing here imports NumPy before an array is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .archive import CHUNK, Reader, Writer


def owner(array: Any) -> Any:
    """The array whose memory this one uses; itself if it has its own."""
    kind = type(array).__mro__[-2]  # numpy.ndarray, also of a subclass
    while isinstance(array.base, kind):
        array = array.base
    return array


def reduce(array: Any, writer: Writer, share: Callable[[Any], bool]) -> Any:
    """What `__reduce__` would return, with the memory as a block of the archive.

    `share`: whether this owner is saved as a whole for the sake of its views. NotImplemented for
    what NumPy must pickle itself.
    """
    if array.dtype.hasobject:
        return NotImplemented
    owned = owner(array)
    is_whole = owned.flags.c_contiguous or owned.flags.f_contiguous
    if owned is not array and is_whole and type(owned) is type(array) and share(owned):
        offset = array.__array_interface__["data"][0] - owned.__array_interface__["data"][0]
        return view, (owned, offset, array.shape, array.strides, array.dtype)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    number = writer.block(_memory(array, order))
    writable = bool(array.flags.writeable)
    return array_block, (number, array.shape, array.dtype, order, writable)


def _memory(array: Any, order: str) -> Iterator[Any]:
    """The bytes of an array in this order, without a copy of more than a chunk."""
    if array.size == 0:
        return
    if array.flags.c_contiguous or array.flags.f_contiguous:
        flat = array.reshape(-1, order=order)  # a view
        yield _bytes(flat)
        return
    if array.nbytes <= CHUNK or array.ndim == 0:
        yield _bytes(array.copy(order="C").reshape(-1))
        return
    rows = max(1, CHUNK * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield from _memory(array[start : start + rows], "C")


def _bytes(flat: Any) -> Any:
    import numpy

    # Not by the buffer protocol, which has no dates.
    return flat.view(numpy.ndarray).view(numpy.uint8).data


def array_block(number: int, shape: Any, dtype: Any, order: str, writable: bool) -> Any:
    """Found by the unpickler under this name, which gives it the archive."""
    raise TypeError("only an archive can be read")


def read(reader: Reader, number: int, shape: Any, dtype: Any, order: str, writable: bool) -> Any:
    """The array of a block, with memory of its own."""
    import numpy

    array = numpy.empty(shape, dtype, order=order)
    if array.size:
        reader.into(number, _bytes(array.reshape(-1, order=order)))
    elif reader.block_size(number):
        raise ValueError("an array is empty, its block is not")
    array.flags.writeable = writable
    return array


def view(owned: Any, offset: int, shape: Any, strides: Any, dtype: Any) -> Any:
    """A view of an array, `offset` bytes behind its first element."""
    import numpy

    found = numpy.ndarray(shape, dtype, buffer=owned, offset=offset, strides=strides)
    found.flags.writeable = owned.flags.writeable
    return found
