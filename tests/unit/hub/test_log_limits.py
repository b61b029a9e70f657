"""Lines that a stranger can have written fill no log."""

from __future__ import annotations

import errno
import logging

import pytest

from ec2spawner.hub.app.reporting.log_limits import (
    LINES,
    REFUSED_CLAIM,
    UNPROVED_CLAIM,
    LogLimit,
    WithoutTraceback,
    is_cut_off,
    is_out_of_descriptors,
    is_refused_call,
    is_refused_claim,
    is_unproved_claim,
)
from ec2spawner.hub.app.spawn_error import SpawnError
from ec2spawner.hub.security.signed_link import NotByThisLink


def line(
    text: str, level: int = logging.WARNING, error: Exception | None = None
) -> logging.LogRecord:
    said = (type(error), error, None) if error else None
    return logging.LogRecord("any", level, __file__, 1, text, ("1.2.3.4",), said)


def test_a_flood_of_records_is_suppressed_and_counted() -> None:
    clock = [0.0]
    limit = LogLimit(is_cut_off, lambda: clock[0])
    flood = [line("Timeout reading body from %s", logging.INFO) for _ in range(1000)]
    assert sum(map(limit.filter, flood)) == LINES.burst
    assert limit.filter(line("something else, of %s"))
    clock[0] = 1 / LINES.per_second
    last = line("Timeout reading body from %s", logging.INFO)
    assert limit.filter(last)
    assert last.getMessage() == (
        f"Timeout reading body from 1.2.3.4 [{1000 - LINES.burst} more such lines left out]"
    )


@pytest.mark.parametrize(
    ("text", "level", "limited"),
    [
        ("429 POST /hub/api/ec2/claims (@%s) 1ms", logging.WARNING, True),
        ("503 POST /base/hub/api/ec2/leases/a/beat (@%s) 1ms", logging.ERROR, True),
        ("200 POST /hub/api/ec2/claims (@%s) 1ms", logging.INFO, False),
        ("500 POST /hub/api/ec2/claims (@%s) 1ms", logging.ERROR, False),
        ("403 POST /hub/login (@%s) 1ms", logging.WARNING, False),
        ("403 POST /hub/login?next=/hub/api/ec2/ (@%s) 1ms", logging.WARNING, False),
    ],
)
def test_calls_of_agents_that_are_refused_are_limited_and_no_others(
    text: str, level: int, limited: bool
) -> None:
    assert is_refused_call(line(text, level)) is limited


def test_a_flood_of_unproved_claims_hides_no_verified_claim() -> None:
    assert is_unproved_claim(line(UNPROVED_CLAIM))
    assert is_refused_claim(line(REFUSED_CLAIM))
    assert not is_unproved_claim(line(REFUSED_CLAIM))
    assert not is_refused_claim(line(UNPROVED_CLAIM))


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (SpawnError("disk_gib: 501 is out of bounds", reason="options"), False),
        (NotByThisLink("not signed"), False),
        (RuntimeError("a defect"), True),
    ],
)
def test_a_refused_start_is_one_line_without_a_traceback(error: Exception, kept: bool) -> None:
    record = line("Failed to spawn for %s", logging.ERROR, error)
    assert WithoutTraceback().filter(record)
    assert (record.exc_info is not None) is kept
    if not kept:
        assert record.getMessage() == f"Failed to spawn for 1.2.3.4: {error}"
        assert record.levelname == "WARNING"


def test_of_the_loops_errors_only_missing_descriptors_are_limited() -> None:
    said = "Exception in callback %s"
    assert is_out_of_descriptors(line(said, error=OSError(errno.EMFILE, "Too many open files")))
    assert not is_out_of_descriptors(line(said, error=OSError(errno.ENOSPC, "No space left")))
    assert not is_out_of_descriptors(line(said))
