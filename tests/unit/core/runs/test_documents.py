"""What is sent and received of a notebook, a script or a log, and its bounds."""

from __future__ import annotations

import base64
import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.runs.documents import MAX_PACKED_BYTES, DocumentError, pack, unpack
from ec2spawner.wire import RunSubmission
from ec2spawner.wire.runs import MAX_DOCUMENT_BYTES, MAX_PLAIN_BYTES


def encoded(packed: bytes) -> str:
    return base64.b64encode(packed).decode()


@given(st.lists(st.binary()))
def test_what_is_packed_can_be_unpacked(parts: list[bytes]) -> None:
    assert unpack(pack(parts)) == b"".join(parts)


@pytest.mark.parametrize("plain", [b"", b"print('x')\n", os.urandom(70_000), "è\n".encode() * 999])
def test_a_document_can_be_submitted(plain: bytes) -> None:
    packed = pack([plain])
    assert packed != ""
    RunSubmission(path="a.py", document=packed, profile="t4")


@pytest.mark.parametrize("parts", [1, 2, 65])
def test_what_is_too_large_is_not_sent(parts: int) -> None:
    with pytest.raises(DocumentError, match="67 MB"):
        pack([bytes(MAX_PLAIN_BYTES // parts + 1)] * parts)
    with pytest.raises(DocumentError, match="compressed"):
        pack(os.urandom(MAX_DOCUMENT_BYTES // parts) for _ in range(parts))


def test_the_largest_document_fits_into_a_message() -> None:
    overhead = 4096  # of zlib, for what it cannot compress
    assert len(pack([os.urandom(MAX_PACKED_BYTES - overhead)])) > MAX_DOCUMENT_BYTES - 8192
    assert len(encoded(bytes(MAX_PACKED_BYTES))) == MAX_DOCUMENT_BYTES


def test_what_would_fill_the_memory_is_not_unpacked() -> None:
    bomb = encoded(zlib.compress(bytes(MAX_PLAIN_BYTES + 1)))
    assert len(bomb) < 200_000
    with pytest.raises(DocumentError, match="more than"):
        unpack(bomb)
    assert len(unpack(pack([bytes(MAX_PLAIN_BYTES)]))) == MAX_PLAIN_BYTES


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "A",
        "é",
        "AAAA",
        "no base64",
        encoded(b"{}"),
        encoded(zlib.compress(b"some text")[:-6]),
        encoded(zlib.compress(b"some text") + b"more"),
        pack([b"x" * 1000])[:-8],
    ],
)
def test_what_is_damaged_is_refused(damaged: str) -> None:
    with pytest.raises(DocumentError, match="damaged"):
        unpack(damaged)
