"""Notebooks, scripts and logs of runs as they are sent: base64 of what zlib has compressed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import Final

from ...wire.runs import MAX_DOCUMENT_BYTES, MAX_PLAIN_BYTES
from ..text import sizes

MAX_PACKED_BYTES: Final = MAX_DOCUMENT_BYTES // 4 * 3
"""Compressed, so that base64 of it is no longer than a message may have."""

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
    try:
        packed = base64.b64decode(document, validate=True)
        unpacking = zlib.decompressobj()
        # Never more in memory than the limit, whatever it claims to be.
        plain = unpacking.decompress(packed, MAX_PLAIN_BYTES + 1)
    except (ValueError, zlib.error) as error:
        raise DocumentError(f"it is damaged ({error})") from error
    if len(plain) > MAX_PLAIN_BYTES:
        raise DocumentError(f"it has more than {sizes.in_words(MAX_PLAIN_BYTES)}")
    if not unpacking.eof:
        raise DocumentError("it is damaged (its end is missing)")
    if unpacking.unused_data:
        raise DocumentError("it is damaged (something follows its end)")
    return plain
