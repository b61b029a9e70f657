"""Notebooks, scripts and logs of runs as they are sent: base64 of what zlib has compressed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from ...wire.runs import MAX_DOCUMENT_BYTES, MAX_PLAIN_BYTES
from ..text import sizes

MAX_PACKED_BYTES: Final = MAX_DOCUMENT_BYTES // 4 * 3
"""Compressed, so that base64 of it is no longer than a message may have."""

PIECE_BYTES: Final = 256 * 1024
"""So much of a document is unpacked at a time."""

LEVEL: Final = 6
"""Of zlib. A notebook of 64 MB takes a second; level 9 takes three times as long for a hundredth
less."""


class DocumentError(ValueError):
    """It is too large, or not what `pack` has made; the message says which."""


def pack(parts: Iterable[bytes]) -> str:
    """The parts as one document. Raises `DocumentError` if it is too large."""
    packing = zlib.compressobj(LEVEL)
    packed = bytearray()
    plain = 0
    for part in parts:
        plain += len(part)
        if plain > MAX_PLAIN_BYTES:
            raise DocumentError(
                f"it has {sizes.in_words(plain)}, and at most "
                f"{sizes.in_words(MAX_PLAIN_BYTES)} can be sent"
            )
        packed += packing.compress(part)
        _require_sendable(packed)
    packed += packing.flush()
    _require_sendable(packed)
    return base64.b64encode(packed).decode("ascii")


def _require_sendable(packed: bytearray) -> None:
    if len(packed) > MAX_PACKED_BYTES:
        raise DocumentError(
            f"it has {sizes.in_words(len(packed))} compressed, and at most "
            f"{sizes.in_words(MAX_PACKED_BYTES)} can be sent"
        )


def unpack(document: str) -> bytes:
    """What was packed, `MAX_PLAIN_BYTES` at most. Raises `DocumentError`."""
    return b"".join(parts(document))


def parts(document: str) -> Iterator[bytes]:
    """What was packed, in pieces of up to `PIECE_BYTES`: 87 KB may stand for 64 MiB, of which only
    a piece is in memory. Raises `DocumentError`, also after some pieces."""
    try:
        packed = memoryview(base64.b64decode(document, validate=True))
    except ValueError as error:
        raise DocumentError(f"it is damaged ({error})") from error
    unpacking = zlib.decompressobj()
    plain = 0
    for begin in range(0, len(packed), PIECE_BYTES):
        for part in _pieces(unpacking, packed[begin : begin + PIECE_BYTES]):
            plain += len(part)
            if plain > MAX_PLAIN_BYTES:
                raise DocumentError(f"it has more than {sizes.in_words(MAX_PLAIN_BYTES)}")
            yield part
        if unpacking.eof:
            if unpacking.unused_data or begin + PIECE_BYTES < len(packed):
                raise DocumentError("it is damaged (something follows its end)")
            return
    raise DocumentError("it is damaged (its end is missing)")


def _pieces(unpacking: zlib._Decompress, packed: bytes | memoryview) -> Iterator[bytes]:
    """What so much of the packed bytes stands for. Raises `DocumentError`."""
    while True:
        try:
            part = unpacking.decompress(packed, PIECE_BYTES)
        except zlib.error as error:
            raise DocumentError(f"it is damaged ({error})") from error
        if part:
            yield part
        packed = unpacking.unconsumed_tail
        # A full piece may leave something in zlib's own buffer although all bytes are consumed.
        if unpacking.eof or (not packed and len(part) < PIECE_BYTES):
            return


def plain_size(document: str) -> int:
    """Bytes of what was packed. Raises `DocumentError`."""
    return sum(map(len, parts(document)))


def is_notebook(document: str) -> bool:
    """Whether what was packed looks like a notebook of nbformat 4, all of which is unpacked. Raises
    `DocumentError`.

    It is not parsed, which would hold up the event loop from another thread as well.
    """
    missing, begin, end = {b'"cells"', b'"nbformat"'}, b"", b""
    for part in parts(document):
        begin = begin or part.lstrip()[:1]
        seen = end + part
        missing = {word for word in missing if word not in seen}
        end = seen[-len(b'"nbformat"') :]
    return begin == b"{" and not missing
