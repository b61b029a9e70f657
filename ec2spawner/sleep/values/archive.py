"""A file with one pickle and the large blocks of memory that belong to it.

Blocks are written straight from the memory of arrays and tensors, and read straight into new ones,
so that saving and restoring need no second copy. Both kinds of content come in any order: the end
of the file says where what is.
"""

from __future__ import annotations

import io
import itertools
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from ..bounds import own_json
from ..storage import owned

MAGIC: Final = b"ec2spawner sleep 1\n"
TAIL: Final = struct.Struct("<Q")
CHUNK: Final = 16 << 20
"""Bytes of one call: between two of them a time limit can act."""
SYNC_BYTES: Final = 128 << 20
"""Written between two syncs, so that the last one does not wait for all that the file has."""
SMALL: Final = 1 << 20
MAX_INDEX_BYTES: Final = 64 << 20


class NoSpace(Exception):
    """The bound of disk space is reached."""


class Damaged(Exception):
    """The file is not as it was written."""


class Writer:
    """Writes an archive under a temporary name; `commit` renames it, leaving it removes it."""

    def __init__(self, path: Path, free: Callable[[int], int]) -> None:
        """`free`: how many bytes this file may still write after so many; asked now and then."""
        self._path = path
        self._temporary = path.with_name(path.name + owned.TEMPORARY)
        self._free = free
        self._allowed = free(0)
        self._unsynced = 0
        self._pending = bytearray()
        self._pickle: list[list[int]] = []
        self._blocks: list[list[list[int]]] = []
        self._buffers: list[int] = []
        self._checksum = 0
        self._position = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._number = os.open(self._temporary, flags, 0o600)

    def __enter__(self) -> Writer:
        self._raw(MAGIC)
        return self

    def __exit__(self, *error: object) -> None:
        if self._number >= 0:
            os.close(self._number)
            self._number = -1
            self._temporary.unlink(missing_ok=True)

    def write(self, data: Any) -> int:
        """A piece of the pickle: what `pickle.Pickler` calls."""
        size = memoryview(data).nbytes
        if size >= SMALL:
            self._flush()
            self._add(data, size)
        else:
            self._pending += data
            if len(self._pending) >= SMALL:
                self._flush()
        return size

    def block(self, pieces: Iterator[Any]) -> int:
        """Write a block from these buffers, one after the other; its number."""
        self._flush()
        extents: list[list[int]] = []
        for piece in pieces:
            start = self._position
            self._raw(piece)
            extents.append([start, self._position - start])
        self._blocks.append(extents)
        return len(self._blocks) - 1

    def buffer(self, buffer: Any) -> None:
        """Write a buffer that a pickle has out of band: `pickle.Pickler`'s `buffer_callback`."""
        self._buffers.append(self.block(iter([buffer.raw()])))

    def commit(self) -> int:
        """The file is there, under its name and on the disk; its size in bytes."""
        self._flush()
        index = own_json.dumps(
            {
                "pickle": self._pickle,
                "checksum": self._checksum,
                "blocks": self._blocks,
                "buffers": self._buffers,
            }
        ).encode()
        self._raw(index + TAIL.pack(len(index)) + MAGIC)
        os.fsync(self._number)
        os.close(self._number)
        self._number = -1
        try:
            self._temporary.replace(self._path)
        except BaseException:
            self._temporary.unlink(missing_ok=True)
            raise
        return self._position

    def _flush(self) -> None:
        if self._pending:
            data, self._pending = self._pending, bytearray()
            self._add(data, len(data))

    def _add(self, data: Any, size: int) -> None:
        self._pickle.append([self._position, size])
        self._checksum = zlib.crc32(data, self._checksum)
        self._raw(data)

    def _raw(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        while view:
            piece = view[: min(CHUNK, self._allowed)]
            if not piece:
                self._allowed = self._free(self._position)
                if self._allowed <= 0:
                    raise NoSpace
                continue
            written = os.write(self._number, piece)
            view = view[written:]
            self._position += written
            self._allowed -= written
            self._unsynced += written
            if self._unsynced >= SYNC_BYTES:
                os.fdatasync(self._number)
                self._unsynced = 0
                # Others write to the disk meanwhile.
                self._allowed = self._free(self._position)


class Reader:
    """Reads an archive. Raises Damaged, `owned.NotOurs` and OSError."""

    def __init__(self, path: Path) -> None:
        self._file = open(owned.open_ours(path), "rb", buffering=0)  # noqa: PTH123, SIM115
        try:
            index = self._index()
            self._pickle = _extents(index["pickle"], self._size)
            self._blocks = [_extents(each, self._size) for each in index["blocks"]]
            self._checksum = index["checksum"]
            self._buffers = list(index["buffers"])
            _ = [self._blocks[number] for number in self._buffers]
        except (IndexError, KeyError, TypeError, ValueError, struct.error, RecursionError):
            self._file.close()
            raise Damaged("the file is damaged") from None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def pickle(self) -> IO[bytes]:
        """The pickle, to read from its start. It is a program: a changed bit could do anything."""
        checksum = 0
        whole = io.BufferedReader(_Pieces(self, self._pickle), SMALL)
        while piece := whole.read(SMALL):
            checksum = zlib.crc32(piece, checksum)
        if checksum != self._checksum:
            raise Damaged("the file is damaged")
        return io.BufferedReader(_Pieces(self, self._pickle), SMALL)

    def block_size(self, number: int) -> int:
        """Bytes of a block."""
        return sum(size for _, size in self._blocks[number])

    def mapped(self, number: int) -> memoryview | None:
        """A block as memory that is read as it is used, and private; None for a small one."""
        extents = self._blocks[number]
        start, size = extents[0][0], self.block_size(number)
        is_one = all(one[0] + one[1] == other[0] for one, other in itertools.pairwise(extents))
        if size < SMALL or not is_one:
            return None
        before = start % mmap.ALLOCATIONGRANULARITY
        found = mmap.mmap(
            self._file.fileno(), before + size, access=mmap.ACCESS_COPY, offset=start - before
        )
        return memoryview(found)[before:]

    def into(self, number: int, target: Any, offset: int = 0) -> None:
        """Fill a writable buffer with as much of a block, from this offset in the block."""
        view = memoryview(target).cast("B")
        for start, size in self._blocks[number]:
            if offset >= size:
                offset -= size
                continue
            piece = view[: size - offset]
            self._fill(start + offset, piece)
            view, offset = view[len(piece) :], 0
        if view:
            raise Damaged("a block is too short")

    def buffers(self) -> Iterator[bytearray]:
        """What a pickle has out of band, in its order."""
        for number in self._buffers:
            yield self.block(number)

    def block(self, number: int) -> bytearray:
        """A block in memory."""
        target = bytearray(self.block_size(number))
        self.into(number, target)
        return target

    def _fill(self, position: int, view: memoryview) -> None:
        while view:
            got = os.preadv(self._file.fileno(), [view[:CHUNK]], position)
            if not got:
                raise Damaged("the file is too short")
            view, position = view[got:], position + got

    def _index(self) -> dict[str, Any]:
        self._size = os.fstat(self._file.fileno()).st_size
        end = TAIL.size + len(MAGIC)
        if self._size < len(MAGIC) + end:
            raise ValueError
        head, tail = bytearray(len(MAGIC)), bytearray(end)
        self._fill(0, memoryview(head))
        self._fill(self._size - end, memoryview(tail))
        length = TAIL.unpack_from(tail)[0]
        if head != MAGIC or tail[TAIL.size :] != MAGIC:
            raise ValueError
        if not 0 < length <= min(MAX_INDEX_BYTES, self._size - end):
            raise ValueError
        index = bytearray(length)
        self._fill(self._size - end - length, memoryview(index))
        found = own_json.loads(index)
        if not isinstance(found, dict):
            raise ValueError
        return found


class _Pieces(io.RawIOBase):
    """Pieces of a file as one stream."""

    def __init__(self, reader: Reader, extents: list[tuple[int, int]]) -> None:
        self._reader = reader
        self._extents = extents
        self._at = 0
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while self._at < len(self._extents):
            start, size = self._extents[self._at]
            piece = memoryview(target).cast("B")[: size - self._offset]
            if piece:
                self._reader._fill(start + self._offset, piece)
                self._offset += len(piece)
                return len(piece)
            self._at, self._offset = self._at + 1, 0
        return 0


def _extents(value: Any, file_size: int) -> list[tuple[int, int]]:
    found = [(start, size) for start, size in value]
    for start, size in found:
        if type(start) is not int or type(size) is not int:
            raise ValueError
        if start < 0 or size < 0 or start + size > file_size:
            raise ValueError
    return found
