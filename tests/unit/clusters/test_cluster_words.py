"""A cluster in words: its price before it is bought, its workers, and the magic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ec2spawner.clusters import magics, table
from ec2spawner.wire import ClusterPrice, ClusterStatus, Market, WorkerStatus

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def worker(number: int = 1, **changes: Any) -> WorkerStatus:
    given: dict[str, Any] = {
        "number": number,
        "state": "ready",
        "message": "It has joined the cluster",
        "instance_type": "g5.xlarge",
        "zone": "us-east-1a",
        "market": Market.SPOT,
        "since": NOON,
        "gpu_percent": 87.4,
        "usd_per_hour": 0.403,
        "usd": 0.1234,
    }
    return WorkerStatus(**given | changes)


def price(**changes: Any) -> ClusterPrice:
    given: dict[str, Any] = {
        "profile_name": "A10G, 24 GB",
        "workers": 4,
        "instance_type": "g5.xlarge",
        "market": Market.SPOT,
        "usd_per_hour": 1.612,
        "max_usd_per_hour": 4.024,
    }
    return ClusterPrice(**given | changes)


def test_the_price_is_of_all_workers_and_an_estimate() -> None:
    words = table.price_words(price())
    assert "4 workers (A10G, 24 GB): about $1.61 per hour together as spot g5.xlarge" in words
    assert "at most $4.02" in words
    assert "estimate" in words


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"workers": 1}, "1 worker ("),
        ({"usd_per_hour": None}, "price unknown"),
        ({"max_usd_per_hour": None}, "no known price"),
        ({"instance_type": "", "market": None}, "EC2 offers none"),
    ],
)
def test_what_is_unknown_of_a_price_is_said(changes: dict[str, Any], says: str) -> None:
    assert says in table.price_words(price(**changes))


def test_each_step_of_a_worker_is_said_once() -> None:
    said: list[str] = []
    progress = table.Progress(said.append)
    looking = worker(state="waiting", message="Looking for a machine")
    for status in (
        ClusterStatus(wanted=1, workers=[looking]),
        ClusterStatus(wanted=1, workers=[looking]),
        ClusterStatus(wanted=1, workers=[worker()], problem="EC2 has no g5.xlarge"),
        ClusterStatus(wanted=1, workers=[worker()], problem="EC2 has no g5.xlarge"),
    ):
        progress.show(status)
    assert said == [
        "Worker 1: Looking for a machine",
        "Worker 1: It has joined the cluster",
        "Not all workers are there: EC2 has no g5.xlarge",
    ]


def test_the_table_has_state_price_and_use_of_each_worker() -> None:
    status = ClusterStatus(
        wanted=3,
        workers=[
            worker(1),
            worker(2, idle_since=NOON),
            worker(3, interruption_at=NOON, gpu_percent=None, usd=None),
        ],
    )
    summary, _, busy, idle, leaving = table.as_text(status).splitlines()
    assert summary == "3 of 3 workers have joined, $1.21 per hour"
    assert ("busy" in busy, "87 %" in busy, "0.4030" in busy) == (True, True, True)
    assert "idle" in idle
    assert "is being reclaimed" in leaving


def test_nothing_of_a_worker_is_markup() -> None:
    status = ClusterStatus(wanted=1, workers=[worker(state="starting", message="<script>x")])
    html = table.as_html(status)
    assert "<script>" not in html
    assert "&lt;script&gt;x" in html


@pytest.mark.parametrize("line", ["scale many", "four", "1 a10g more", "stop now"])
def test_the_magic_says_how_it_is_used(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert magics.ClusterMagics().cluster(line) is None
    assert magics.USAGE in capsys.readouterr().out
