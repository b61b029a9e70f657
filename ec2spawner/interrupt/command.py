"""`ec2spawner interrupt SERVER`: exit status 0 where the interruption is under way, 1 where it was
refused, 2 for a wrong request, 3 where it would be and `--yes` was not given."""

from __future__ import annotations

import argparse
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from rich.console import Console

from ..core.text.untrusted import visible
from ..terminal import complain, text

TOKEN: Final = "JUPYTERHUB_API_TOKEN"  # noqa: S105 - a variable
API_URL: Final = "JUPYTERHUB_API_URL"
"""In the environment of each server, with the address of the hub's API."""

TIMEOUT: Final = 90.0
"""Seconds for the hub's answer: AWS takes up to half a minute to begin."""

REFUSED = 1
WRONG = 2
WOULD_INTERRUPT = 3


def run_interrupt(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """`ec2spawner interrupt`; returns its exit status."""
    token, hub = environ.get(TOKEN, ""), arguments.hub or environ.get(API_URL, "")
    if not token:
        complain("interrupt", f"set {TOKEN} to a token of yours: the hub's page Token makes one")
        return WRONG
    if urlsplit(hub).scheme not in ("http", "https"):
        complain("interrupt", "name the hub: --hub=https://hub.example.org")
        return WRONG
    body = {"notice_seconds": arguments.notice_seconds, "dry_run": not arguments.yes}
    try:
        answer = _post(url_of(hub, arguments.server), token, body)
    except urllib.error.HTTPError as error:
        complain("interrupt", _reason(error))
        return REFUSED
    except (OSError, ValueError) as error:
        complain("interrupt", f"{visible(hub)} does not answer: {error}")
        return REFUSED
    words = in_words(arguments.server, answer, arguments.notice_seconds)
    Console().print(text(json.dumps(answer) if arguments.json else words), soft_wrap=True)
    return 0 if arguments.yes else WOULD_INTERRUPT


def url_of(hub: str, server: str) -> str:
    """The address of the call, for a hub's own address or that of its pages or API."""
    base = hub.rstrip("/").removesuffix("/api").removesuffix("/hub")
    user, _, name = server.partition("/")
    place = f"servers/{quote(name, safe='')}" if name else "server"
    return f"{base}/hub/api/ec2/users/{quote(user, safe='')}/{place}/interrupt"


def in_words(server: str, answer: Mapping[str, Any], seconds: float) -> str:
    """One sentence on what happens, or would."""
    which = f"{answer['instance_id']} ({answer['instance_type']}, {answer['zone']}) of {server}"
    if answer["ends_at"]:
        return f"AWS interrupts {which}: it ends at about {answer['ends_at']}"
    return (
        f"This would interrupt {which} in {seconds:g} seconds, as AWS reclaims a spot instance. "
        "What is running there is lost unless it is saved. Add --yes to do it"
    )


def _post(url: str, token: str, body: Mapping[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - http or https, see above
        url,
        json.dumps(body).encode(),
        {"Authorization": f"token {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
        return found


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        said = str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        said = "the hub does not know this call: is it ec2spawner's, and of this version?"
    return visible(f"{said} (HTTP {error.code})")
