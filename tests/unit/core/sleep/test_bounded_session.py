"""What a notebook says of its session fits into a report, whatever it names its variables."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.sleep.bounded_session import MAX_SESSION_BYTES, bounded
from ec2spawner.wire import LostVariable, SavedKernel, SavedSession, SavedVariable

NOW = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)


def session(kernels: int, text: str) -> SavedSession:
    saved = SavedKernel(
        path=text,
        kernel_name="python3",
        variables=7,
        size_bytes=10,
        largest=[SavedVariable(name=text, type=text, size_bytes=1)] * 5,
        lost=[LostVariable(name=text, code="timed-out", detail=text)] * 10,
        lost_count=12,
        changed=[LostVariable(name=text, code="changed", detail=text)] * 10,
        changed_count=11,
    )
    return SavedSession(
        id="a",
        slept_at=NOW,
        trigger="interruption",
        seconds=3,
        size_bytes=10 * kernels,
        kernels=[saved] * kernels,
        kernel_count=kernels,
    )


@given(st.integers(0, 20), st.sampled_from(["x", "ä" * 500, "\U0001f600" * 500, "x" * 500]))
def test_any_session_fits_and_keeps_its_counts(kernels: int, text: str) -> None:
    whole = session(kernels, text)
    found = bounded(whole)
    assert len(found.model_dump_json().encode()) <= MAX_SESSION_BYTES
    assert found.kernel_count == kernels
    assert [(k.variables, k.lost_count) for k in found.kernels] == [(7, 12)] * len(found.kernels)


def test_what_fits_is_left_whole_and_details_go_before_kernels() -> None:
    small = session(2, "x")
    assert bounded(small) == small
    found = bounded(session(20, "x" * 100), 20_000)
    assert len(found.kernels) == 20
    assert found.kernels[0].lost
    assert not found.kernels[-1].lost
    fewer = bounded(session(20, "x" * 100), 2_000)
    assert 0 < len(fewer.kernels) < 20
    assert fewer.kernel_count == 20
