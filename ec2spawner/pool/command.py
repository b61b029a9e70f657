"""`ec2spawner pool [show | set PROFILE N | clear PROFILE]`: exit status 0 where it was done, 1
where the hub refused, 2 for a wrong request."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.table import Table

from ..hub_call import HubRefused, api_url, call, token_and_hub
from ..terminal import complain, lines, text
from .until import UnknownTime, instant

REFUSED = 1
WRONG = 2


def run_pool(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """`ec2spawner pool`; returns its exit status."""
    found = token_and_hub("pool", arguments.hub, environ)
    if found is None:
        return WRONG
    if wrong := _wrong(arguments):
        complain("pool", wrong)
        return WRONG
    try:
        answer = _done(arguments, *found)
    except UnknownTime as error:
        complain("pool", str(error))
        return WRONG
    except HubRefused as error:
        complain("pool", str(error))
        return REFUSED
    if arguments.json:
        Console().print(text(json.dumps(answer)), soft_wrap=True)
    else:
        show(answer, Console())
    return 0


def _wrong(arguments: argparse.Namespace) -> str:
    """What is missing or too much; empty for a complete request."""
    given = (bool(arguments.profile), arguments.running is not None)
    match arguments.action:
        case "set":
            usage = "" if given == (True, True) else "write: ec2spawner pool set PROFILE N"
        case "clear":
            usage = "" if given == (True, False) else "write: ec2spawner pool clear PROFILE"
        case _:
            usage = "" if given == (False, False) else "write: ec2spawner pool show"
    return usage


def _done(arguments: argparse.Namespace, token: str, hub: str) -> dict[str, Any]:
    """Do what is asked; the pool as it stands then. Raises `HubRefused`, `UnknownTime`."""
    if arguments.action == "set":
        until = _until(arguments.until, token, hub) if arguments.until else None
        body = {"running": arguments.running, "until": until and until.isoformat()}
        if arguments.stopped is not None:
            body["stopped"] = arguments.stopped
        if arguments.market:
            body["market"] = arguments.market
        call("PUT", _url(hub, arguments.profile), token, body)
    if arguments.action == "clear":
        call("DELETE", _url(hub, arguments.profile), token)
    found: dict[str, Any] = call("GET", api_url(hub, "pool"), token)
    return found


def _until(written: str, token: str, hub: str) -> datetime:
    """The instant that is meant, with times of day in the hub's time zone: that of this machine may
    be another, and on a server of the hub is UTC."""
    found = call("GET", api_url(hub, "pool"), token)
    return instant(written, datetime.now(ZoneInfo(found["time_zone"])))


def _url(hub: str, profile: str) -> str:
    return api_url(hub, f"pool/{quote(profile, safe='')}")


def show(pool: Mapping[str, Any], console: Console) -> None:
    """A table of the pool, and why each number is what it is."""
    if not pool["places"]:
        console.print(text("This hub has no warm pool: c.EC2Spawner.warm_pool is empty"))
        return
    table = Table(box=None, pad_edge=False)
    for head in ("Profile", "Market"):
        table.add_column(head)
    for head in ("Target", "Waiting", "Booting", "Stopped", "USD/hour"):
        table.add_column(head, justify="right")
    table.add_column("Why")
    for each in pool["places"]:
        table.add_row(
            text(each["profile"]),
            text(each["market"]),
            text(str(each["target"])),
            text(str(each["waiting"])),
            text(str(each["booting"])),
            text(_stopped(each)),
            text(f"{each['usd_per_hour']:.2f}"),
            lines(*each["why"], *_notes(each)),
        )
    console.print(table)
    console.print(text(f"All together {pool['usd_per_hour']:.2f} USD/hour (estimate)"))


def _stopped(each: Mapping[str, Any]) -> str:
    """How many wait stopped, of how many that shall."""
    asks = each["stopped_target"] or each["stopped"]
    return f"{each['stopped']} of {each['stopped_target']}" if asks else "-"


def _notes(each: Mapping[str, Any]) -> list[str]:
    by_hand, failure = each["by_hand"], each["failure"]
    notes = [f"Set by {by_hand['by']}."] if by_hand else []
    if ahead := each["homes_ahead"]:
        notes.append(f"Kept for users who are expected, with their homes attached: {ahead}.")
    if failure:
        notes.append(f"{failure['message']} Again in {failure['retry_seconds']:.0f} s.")
    return [*notes, *([each["problem"]] if each["problem"] else [])]
