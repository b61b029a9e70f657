"""The progress of a start is read whatever pieces it arrives in; anything else is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.load_test.user.event_stream import (
    MAX_BYTES,
    MAX_LINE,
    EventStream,
    StreamRefused,
)

EVENTS = [{"progress": 5, "message": "ü"}, {"progress": 100, "ready": True, "url": "/user/ann/"}]


@given(st.lists(st.integers(1, 40), min_size=1))
def test_events_are_the_same_in_any_pieces(sizes: list[int]) -> None:
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n: keep-alive\n" for event in EVENTS]
    rest = "".join(lines).encode()
    stream, found = EventStream(), []
    for size in sizes:
        found += stream.feed(rest[:size])
        rest = rest[size:]
    found += stream.feed(rest)
    assert found == EVENTS


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"data: nothing\n", "not JSON"),
        (b"data: [1]\n", "not an object"),
        (b"data: " + b"[" * 60_000 + b"\n", "not JSON"),
        (b"x" * (MAX_LINE + 1), "larger than 64 KiB"),
        (b"data: " + b"1" * MAX_LINE + b"\n", "larger than 64 KiB"),
    ],
)
def test_what_is_no_event_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(StreamRefused, match=why):
        EventStream().feed(data)


def test_a_stream_does_not_last_indefinitely() -> None:
    stream, piece = EventStream(), b": keep-alive\n" * 5000
    for _ in range(MAX_BYTES // len(piece)):
        stream.feed(piece)
    with pytest.raises(StreamRefused, match="larger than 16 MiB"):
        stream.feed(piece)
