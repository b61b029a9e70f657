"""`ec2spawner runs [list | show N | cancel N | result N | table N]`: exit status 0, 1 where the hub
refused or does not answer, 2 for a wrong request."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from rich.console import Console

from ...core.runs.documents import DocumentError, unpack
from ...hub_call import token_and_hub
from ...terminal import complain, text
from ...wire import RunsRequest, RunSummary
from .. import words
from ..agent_request import Asking, ask, ask_patiently
from ..errors import RunError, WrongRequest
from ..hub_request import HubOfUser
from . import table
from .command import FAILED, WRONG, print_json


def run_runs(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """`ec2spawner runs`; returns its exit status."""
    asking: Asking = ask
    if arguments.hub:
        found = token_and_hub("runs", arguments.hub, environ)
        if found is None:
            return WRONG
        asking = HubOfUser(*found)
    try:
        _check(arguments)
        _done(arguments, Console(), asking)
    except WrongRequest as error:
        complain("runs", str(error))
        return WRONG
    except RunError as error:
        complain("runs", str(error))
        return FAILED
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raises `WrongRequest` for what is missing or too much."""
    action, number = arguments.action, arguments.number
    if action == "list" and number is not None:
        raise WrongRequest("list: takes no number; write: ec2spawner runs show N")
    if action != "list" and (number is None or number < 1):
        raise WrongRequest(f"{action}: which run? Write: ec2spawner runs {action} N")
    if arguments.to and action != "result":
        raise WrongRequest("--to: is for: ec2spawner runs result N --to FILE")
    if arguments.array and action != "cancel":
        raise WrongRequest("--array: is for: ec2spawner runs cancel N --array")
    if arguments.csv and action != "table":
        raise WrongRequest("--csv: is for: ec2spawner runs table N --csv")


def _done(arguments: argparse.Namespace, console: Console, asking: Asking) -> None:
    now = datetime.now().astimezone()
    if arguments.action == "list":
        runs = asking(RunsRequest()).runs
        if arguments.json:
            print_json(runs)
        else:
            table.print_list(runs, console, now, is_of_server=not arguments.hub)
    elif arguments.action == "show":
        run = _one(arguments.number, asking)
        if arguments.json:
            print_json([run])
        else:
            table.print_run(run, console, now)
    elif arguments.action == "cancel":
        _cancel(arguments, console, asking)
    elif arguments.action == "result":
        _result(arguments, console, asking)
    else:
        _table(arguments, console, asking)


def _one(number: int, asking: Asking) -> RunSummary:
    """Raises `RunError` where there is none."""
    return next(run for run in _array(number, asking) if run.number == number)


def _array(number: int, asking: Asking) -> list[RunSummary]:
    """All runs of the array that this run is of, by number; itself alone where it is of none.

    Raises `RunError` where there is no such run.
    """
    return asking(RunsRequest(number=number)).runs


def _cancel(arguments: argparse.Namespace, console: Console, asking: Asking) -> None:
    request = RunsRequest(action="cancel", number=arguments.number, array=arguments.array)
    runs = asking(request).runs
    if arguments.json:
        print_json(runs)
        return
    for group in words.grouped(runs):
        what = "Runs" if len(group.runs) > 1 else "Run"
        console.print(text(f"{what} {group.number}: {group.state}"), soft_wrap=True)


def _result(arguments: argparse.Namespace, console: Console, asking: Asking) -> None:
    number = arguments.number
    answer = ask_patiently(RunsRequest(action="result", number=number), asking)
    if not answer.result:
        raise RunError(
            f"Run {number} has no result yet: `ec2spawner runs show {number}` shows why."
        )
    try:
        content = unpack(answer.result)
    except DocumentError as error:
        raise RunError(f"The result of run {number} cannot be read: {error}.") from error
    if not arguments.to:
        if arguments.json:
            said = json.dumps({"number": number, "result": content.decode("utf-8", "replace")})
            content = f"{said}\n".encode()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        Path(arguments.to).write_bytes(content)
    except OSError as error:
        raise WrongRequest(f"--to {arguments.to}: cannot be written: {error.strerror}") from error
    if arguments.json:
        print_json(answer.runs)
    else:
        console.print(text(f"Written: {arguments.to}"), soft_wrap=True)


def _table(arguments: argparse.Namespace, console: Console, asking: Asking) -> None:
    runs = _array(arguments.number, asking)
    if arguments.json:
        print_json(runs)
    elif arguments.csv:
        sys.stdout.write(table.array_csv(runs))
    else:
        table.print_array(runs, console)
