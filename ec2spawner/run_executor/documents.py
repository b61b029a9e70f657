"""Documents as they are sent: compressed with zlib, then in base64. Pure."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable
from typing import Final

from ..wire.runs import MAX_DOCUMENT_BYTES, MAX_PLAIN_BYTES

MAX_PACKED_BYTES: Final = MAX_DOCUMENT_BYTES // 4 * 3
"""Compressed, so that base64 of it is no longer than a message may have."""


def unpack(document: str) -> bytes:
    """Raises `ValueError` if it is no document, or longer than `MAX_PLAIN_BYTES`."""
    try:
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(base64.b64decode(document, validate=True), MAX_PLAIN_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the document cannot be unpacked: {error}") from error
    if unpacking.unconsumed_tail:
        raise ValueError(f"the document has more than {MAX_PLAIN_BYTES // 2**20} MiB")
    if not unpacking.eof:
        raise ValueError("the document is incomplete")
    return plain


def pack(parts: Iterable[bytes]) -> str:
    """The parts as one document, of whatever length; empty if that is longer than a message may
    have."""
    packing = zlib.compressobj()
    packed = bytearray()
    plain = 0
    for part in parts:
        plain += len(part)
        packed += packing.compress(part)
        if plain > MAX_PLAIN_BYTES or len(packed) > MAX_PACKED_BYTES:
            return ""
    packed += packing.flush()
    if len(packed) > MAX_PACKED_BYTES:
        return ""
    return base64.b64encode(packed).decode("ascii")


def packed_bytes(part: bytes) -> int:
    """What a part adds to a document, about."""
    return len(zlib.compress(part, 1))
