"""Notebooks, scripts and logs as they are sent: base64 of what zlib has compressed. Pure."""

from __future__ import annotations

import base64
import zlib
from typing import Final

from ..core.text import sizes
from ..wire.runs import MAX_DOCUMENT_BYTES, MAX_PLAIN_BYTES

LEVEL: Final = 6
"""Of zlib. A notebook of 64 MB takes a second; level 9 takes three times as long for a hundredth
less."""


class DocumentError(ValueError):
    """It is too large, or not what `pack` has made; the message says which."""


def pack(plain: bytes) -> str:
    """The document to send. Raises `DocumentError` for one that is too large."""
    if len(plain) > MAX_PLAIN_BYTES:
        raise DocumentError(
            f"it has {sizes.in_words(len(plain))}, and at most "
            f"{sizes.in_words(MAX_PLAIN_BYTES)} can be sent"
        )
    packed = base64.b64encode(zlib.compress(plain, LEVEL)).decode("ascii")
    if len(packed) > MAX_DOCUMENT_BYTES:
        raise DocumentError(
            f"it has {sizes.in_words(len(packed))} compressed, and at most "
            f"{sizes.in_words(MAX_DOCUMENT_BYTES)} can be sent"
        )
    return packed


def unpack(document: str) -> bytes:
    """What was packed, `MAX_PLAIN_BYTES` at most. Raises `DocumentError`."""
    try:
        compressed = base64.b64decode(document, validate=True)
        inflater = zlib.decompressobj()
        # Never more in memory than the limit, whatever it claims to be.
        plain = inflater.decompress(compressed, MAX_PLAIN_BYTES + 1)
    except (ValueError, zlib.error) as error:
        raise DocumentError(f"it is damaged ({error})") from error
    if len(plain) > MAX_PLAIN_BYTES:
        raise DocumentError(f"it has more than {sizes.in_words(MAX_PLAIN_BYTES)}")
    if not inflater.eof:
        raise DocumentError("it is damaged (its end is missing)")
    return plain
