"""How a job is run follows from its environment and its parameters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner.runs.errors import WrongRequest
from ec2spawner.runs.schedules.job_options import job_options
from ec2spawner.runs.submission import RunOptions

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def test_the_environment_is_the_profile() -> None:
    assert job_options("t4", {}, {}, NOW) == RunOptions("t4", [{}])


def test_parameters_are_read_as_the_command_line_reads_them() -> None:
    written = {"lr": "0.1", "name": '"a b"', "layers": "[1, 2]", "on": "True", "text": "resnet"}
    wanted = {"lr": 0.1, "name": "a b", "layers": [1, 2], "on": True, "text": "resnet"}
    assert job_options("t4", {}, written, NOW).parameters == [wanted]


def test_bounds_are_those_of_a_run() -> None:
    given = {
        "profile": "a10g",
        "retries": 2,
        "max_usd": 5,
        "deadline": "8h",
        "max_spot_usd_per_hour": 0.5,
        "wait_until": "2h",
    }
    assert job_options("t4", given, {}, NOW) == RunOptions(
        "a10g",
        [{}],
        retries=2,
        max_usd=5,
        deadline=NOW + timedelta(hours=8),
        max_spot_usd_per_hour=0.5,
        wait_until=NOW + timedelta(hours=2),
    )


@pytest.mark.parametrize(
    ("environment_parameters", "parameters", "named"),
    [
        ({"colour": "red"}, {}, "colour"),
        ({"parameters": "x"}, {}, "parameters"),
        ({"deadline": "soon"}, {}, "deadline"),
        ({}, {"a-b": "1"}, "a-b"),
        ({}, {"layers": "[1,"}, "layers"),
    ],
)
def test_what_cannot_be_names_the_field(
    environment_parameters: dict[str, object], parameters: dict[str, str], named: str
) -> None:
    with pytest.raises(WrongRequest, match=named):
        job_options("t4", environment_parameters, parameters, NOW)
