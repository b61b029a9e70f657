"""The times that `ec2spawner pool --until` takes."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ec2spawner.pool.until import UnknownTime, instant

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 10, 24, 12, tzinfo=BERLIN)
"""The day before summer time ends there."""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("18:00", "2026-10-24T18:00:00+02:00"),
        ("8:30", "2026-10-25T08:30:00+01:00"),
        ("2026-10-26T18:00", "2026-10-26T18:00:00+01:00"),
        ("2026-10-26T18:00+05:30", "2026-10-26T18:00:00+05:30"),
    ],
)
def test_a_time_is_the_next_on_the_clock_of_its_place(written: str, meant: str) -> None:
    assert instant(written, NOON).isoformat() == meant


@pytest.mark.parametrize("written", ["25:00", "18", "six", "2026-13-01"])
def test_another_text_is_refused_with_examples(written: str) -> None:
    with pytest.raises(UnknownTime, match="write 18:00"):
        instant(written, NOON)
