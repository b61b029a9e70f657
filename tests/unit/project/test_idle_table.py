"""Each line of the tables in docs/explanation/idle.md runs as a case; the page agrees with them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from ec2spawner.config import IdleConfig
from ec2spawner.core.idle.activity import in_english
from ec2spawner.core.idle.policy import in_force
from ec2spawner.core.idle.stop_decision import assess, stop_at
from ec2spawner.wire import Idleness
from tests.idle_cases import NOW, WHAT_COUNTS, WHEN_IT_STOPS, Case, Stop

DOCS = Path(__file__).resolve().parents[3] / "docs"


def run(case: Case) -> Idleness:
    """The signals, assessed once a minute for as long as they last."""
    step, past, at = timedelta(minutes=1), None, NOW - case.lasting
    while True:
        seen = case.signals
        if case.lasting and seen.kernels:
            kernels = [each.model_copy(update={"last_activity": at}) for each in seen.kernels]
            moved = [type(x)(x.at - (NOW - at), x.percent) for x in seen.gpu]
            seen = type(seen)(seen.started_at, kernels, gpu=moved, workers=seen.workers)
        found, past = assess(seen, case.policy, at, past, step.total_seconds() if past else None)
        if at >= NOW:
            return found
        at += step


CASES = [
    pytest.param(case, id=f"{row.situation[:50]} {number}")
    for row in WHAT_COUNTS
    for number, case in enumerate(row.cases)
]


@pytest.mark.parametrize("case", CASES)
def test_what_counts(case: Case) -> None:
    found = run(case)
    assert found.busy_because == case.because
    assert found.idle_since == (None if case.because else case.idle_since)
    assert found.busy_kernel_id == case.kernel_id
    named = {each.id: each.path for each in case.signals.kernels}
    assert found.busy_path == named.get(case.kernel_id, "")
    if case.because:
        assert (found.stop_at, found.warn_at) == (None, None)
        assert found.busy is not None
        assert in_english(found.busy) == case.because
    else:
        assert case.idle_since is not None
        assert found.stop_at == case.idle_since + timedelta(hours=1)
        assert found.warn_at == case.idle_since + timedelta(minutes=50)


@pytest.mark.parametrize("line", [pytest.param(each, id=each.situation) for each in WHEN_IT_STOPS])
def test_when_it_stops(line: Stop) -> None:
    words = IdleConfig.model_validate(line.idle)
    policy = words.policy().model_copy(update={"user_server_seconds": line.chosen})
    found = stop_at(in_force(policy), line.started_at, line.idle_since, line.extended_until)
    assert found == line.stops_at


# --- the pages -------------------------------------------------------------------------------


def table(heading: str, name: str = "explanation/idle.md") -> list[list[str]]:
    """The cells of the first table below a heading of a page, without its first two lines."""
    page = (DOCS / name).read_text(encoding="utf-8")
    below = page.split(f"\n## {heading}\n", 1)[1]
    found = re.search(r"(^\|.*\n)+", below, flags=re.M)
    assert found is not None
    lines = found.group(0).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_page_says_what_counts() -> None:
    said = table("What counts")
    assert said[:-1] == [[row.situation, row.is_it_work] for row in WHAT_COUNTS]
    assert "`last_activity`" in said[-1][0], "the last line is about what is not used"


def test_the_page_says_when_it_stops() -> None:
    assert table("When it stops") == [
        [f"`{json.dumps(line.idle)}`", line.situation, line.stop] for line in WHEN_IT_STOPS
    ]


def test_the_page_has_every_option_with_its_default() -> None:
    said = {cells[0].strip("`"): cells[1] for cells in table("Options", "how-to/idle.md")}
    for name, field in IdleConfig.model_fields.items():
        default = said.pop(name).split(":")[0].split(" %")[0]
        if field.default is None:
            assert default == "none"
        elif isinstance(field.default, float):
            assert float(default) == field.default
        else:
            assert default == {"0s": "0"}.get(field.default, f'"{field.default}"')
    assert not said
