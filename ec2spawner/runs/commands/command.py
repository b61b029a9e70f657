"""`ec2spawner run FILE`: exit status 0 where it was submitted (with `--wait`: where all have
succeeded), 1 where the hub refused or a run did not succeed, 2 for a wrong request."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from ...terminal import complain, text
from ...wire import RunSummary
from ..agent_request import submit
from ..errors import RunError, WrongRequest
from ..moment import moment
from ..parameters import combined, named_values, rows_of
from ..submission import RunOptions, result_path, submission_of
from .follow import follow

FAILED = 1
WRONG = 2

MAX_PARAMETERS_FILE = 4 * 1024 * 1024
"""Bytes of the file of `--params`."""


def run_run(arguments: argparse.Namespace) -> int:
    """`ec2spawner run`; returns its exit status."""
    now = datetime.now().astimezone()
    try:
        submission = submission_of(Path(arguments.file), Path.home(), options_of(arguments, now))
        runs = submit(submission).runs
        runs = sorted(runs, key=lambda run: run.number)
        console = Console(stderr=arguments.json)
        if not arguments.json:
            for line in submitted(runs):
                console.print(text(line), soft_wrap=True)
        if arguments.wait:
            runs = follow([run.number for run in runs], console)
    except WrongRequest as error:
        complain("run", str(error))
        return WRONG
    except RunError as error:
        complain("run", str(error))
        return FAILED
    if arguments.json:
        print_json(runs)
    return 0 if not arguments.wait or all(run.outcome == "succeeded" for run in runs) else FAILED


def options_of(arguments: argparse.Namespace, now: datetime) -> RunOptions:
    """How the file is to be run. Raises `WrongRequest`."""
    common = named_values(arguments.parameters, "-p")
    rows = rows_of(_content(arguments.params), arguments.params) if arguments.params else []
    if arguments.at_once is not None and not rows:
        raise WrongRequest("--at-once: is for an array: name its parameters with --params")
    times = {
        option: moment(written, f"--{option}", now) if written else None
        for option, written in (
            ("deadline", arguments.deadline),
            ("wait-until", arguments.wait_until),
        )
    }
    deadline, wait_until = times["deadline"], times["wait-until"]
    if deadline is not None and wait_until is not None and wait_until >= deadline:
        raise WrongRequest("--wait-until: is not before the --deadline: name an earlier time")
    return RunOptions(
        profile=arguments.profile,
        parameters=combined(common, rows) if rows else [common],
        at_once=arguments.at_once,
        retries=arguments.retries,
        max_usd=arguments.max_usd,
        deadline=deadline,
        max_spot_usd_per_hour=arguments.max_spot_price,
        wait_until=wait_until,
        notify=arguments.notify,
    )


def submitted(runs: Sequence[RunSummary]) -> list[str]:
    """What was submitted, where its result will be, and how to follow it."""
    if not runs:
        return ["Submitted. Follow it: ec2spawner runs"]
    first, last = runs[0], runs[-1]
    if len(runs) == 1:
        return [
            f"Run {first.number} of {first.path} is {first.state}"
            + (f": {first.message}" if first.message else ""),
            f"Result: ~/{result_path(first.path, first.number)}, when it has ended",
            f"Follow it: ec2spawner runs show {first.number}",
        ]
    return [
        f"Runs {first.number} to {last.number} of {first.path} are queued",
        f"Results: ~/{result_path(first.path, first.number)} to {last.number}, as they end",
        f"Follow them: ec2spawner runs table {first.number}",
    ]


def print_json(runs: Sequence[RunSummary]) -> None:
    """One line, with the place of each result in the home."""
    found = [
        {**run.model_dump(mode="json"), "result_path": result_path(run.path, run.number)}
        for run in runs
    ]
    Console().print(text(json.dumps({"runs": found})), soft_wrap=True)


def _content(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            content = file.read(MAX_PARAMETERS_FILE + 1)
        if len(content) > MAX_PARAMETERS_FILE:
            raise WrongRequest(f"--params {name}: is larger than 4 MB: split it")
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        raise WrongRequest(f"--params {name}: cannot be read: {error}") from error
