"""`ec2spawner interrupt SERVER`: exit status 0 where the interruption is under way, 1 where it was
refused, 2 for a wrong request, 3 where it would be and `--yes` was not given."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from rich.console import Console

from ..hub_call import HubRefused, api_url, call, token_and_hub
from ..terminal import complain, text

REFUSED = 1
WRONG = 2
WOULD_INTERRUPT = 3


def run_interrupt(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """`ec2spawner interrupt`; returns its exit status."""
    found = token_and_hub("interrupt", arguments.hub, environ)
    if found is None:
        return WRONG
    token, hub = found
    body = {"notice_seconds": arguments.notice_seconds, "dry_run": not arguments.yes}
    try:
        answer = call("POST", url_of(hub, arguments.server), token, body)
    except HubRefused as error:
        complain("interrupt", str(error))
        return REFUSED
    words = in_words(arguments.server, answer, arguments.notice_seconds)
    Console().print(text(json.dumps(answer) if arguments.json else words), soft_wrap=True)
    return 0 if arguments.yes else WOULD_INTERRUPT


def url_of(hub: str, server: str) -> str:
    """The address of the call, for a hub's own address or that of its pages or API."""
    user, _, name = server.partition("/")
    place = f"servers/{quote(name, safe='')}" if name else "server"
    return api_url(hub, f"users/{quote(user, safe='')}/{place}/interrupt")


def in_words(server: str, answer: Mapping[str, Any], seconds: float) -> str:
    """Say what happens, or would."""
    which = f"{answer['instance_id']} ({answer['instance_type']}, {answer['zone']}) of {server}"
    cost = f"${answer['usd']:.2f} for the rehearsal, besides the instance"
    if answer["ends_at"]:
        ends = datetime.fromisoformat(answer["ends_at"]).astimezone(UTC)
        return (
            f"EC2 reclaims the spot instance {which}. It ends at about {ends:%H:%M:%S} UTC. "
            f"AWS charges {cost}."
        )
    return (
        f"This would let EC2 reclaim the spot instance {which} {seconds:g} seconds after the call. "
        f"AWS would charge {cost}. Files stay in the home, and variables are saved as at a real "
        "interruption; a cell that is running is cut off. "
        "Nothing has been done: add --yes to do it."
    )
