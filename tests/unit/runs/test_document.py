"""What is sent and received of a notebook, and its bounds."""

from __future__ import annotations

import base64
import os
import zlib

import pytest

from ec2spawner.runs.document import DocumentError, pack, unpack
from ec2spawner.wire import RunSubmission
from ec2spawner.wire.runs import MAX_DOCUMENT_BYTES, MAX_PLAIN_BYTES


@pytest.mark.parametrize("plain", [b"", b"print('x')\n", os.urandom(70_000), "è\n".encode() * 999])
def test_what_was_packed_is_unpacked(plain: bytes) -> None:
    packed = pack(plain)
    assert packed != ""
    assert unpack(packed) == plain
    RunSubmission(path="a.py", document=packed, profile="t4")


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(DocumentError, match="67 MB"):
        pack(bytes(MAX_PLAIN_BYTES + 1))
    with pytest.raises(DocumentError, match="compressed"):
        pack(os.urandom(MAX_DOCUMENT_BYTES))


def test_what_would_fill_the_memory_is_not_unpacked() -> None:
    bomb = base64.b64encode(zlib.compress(bytes(MAX_PLAIN_BYTES + 1))).decode()
    assert len(bomb) < 200_000
    with pytest.raises(DocumentError, match="more than"):
        unpack(bomb)
    assert len(unpack(pack(bytes(MAX_PLAIN_BYTES)))) == MAX_PLAIN_BYTES


@pytest.mark.parametrize(
    "damaged", ["A", "é", "AAAA", pack(b"x" * 1000)[:-8], base64.b64encode(b"{}").decode()]
)
def test_what_is_damaged_is_refused(damaged: str) -> None:
    with pytest.raises(DocumentError, match="damaged"):
        unpack(damaged)
