"""`ec2spawner prices`: exit status 0, 1 where a region did not answer, 2 for a wrong request."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from ..check.hub_config import ConfigurationBroken, load
from ..config import Profile
from ..config.entries.profile import DEFAULT_PROFILES
from ..config.options import REGION
from ..terminal import complain
from .region import read_regions
from .report import print_csv, print_json, print_table
from .rows import Row, rows_of

HUBS_FILE = "jupyterhub_config.py"
"""Where JupyterHub, `check` and `reap` find a hub's configuration if none is named."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is looked at."""

    regions: tuple[str, ...]
    profiles: tuple[Profile, ...]
    architecture: str = "x86_64"
    endpoint_url: str | None = None
    volumes_of: Callable[[Profile], int] = lambda profile: 1 + len(profile.data_volumes)
    """The EBS volumes of a profile's server: without a hub, its home and its data."""


class WrongRequest(Exception):
    """The request cannot be answered; the message says why, and what to do."""


def run_prices(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> int:
    """`ec2spawner prices`; returns 1 if a region could not be read, 2 for an invalid request."""
    try:
        request = _request(arguments, for_the_hub)
    except WrongRequest as error:
        complain("prices", str(error))
        return 2
    rows = asyncio.run(_rows(request, measure_latency=arguments.latency))
    if arguments.json:
        print_json(rows)
    elif arguments.csv:
        print_csv(rows)
    else:
        print_table(rows, Console())
    return 1 if any(row.error for row in rows) else 0


async def _rows(request: Request, *, measure_latency: bool) -> list[Row]:
    now = datetime.now(UTC)
    waiting = list(request.regions)

    def ask() -> str:
        return f"Asking {', '.join(waiting)}"

    with Console(stderr=True).status(ask()) as status:

        def answered(name: str) -> None:
            waiting.remove(name)
            status.update(ask())

        found = await read_regions(
            request.regions,
            request.profiles,
            architecture=request.architecture,
            volumes_of=request.volumes_of,
            endpoint_url=request.endpoint_url,
            measure_latency=measure_latency,
            now=now,
            answered=answered,
        )
    return [
        row
        for region in found
        for row in rows_of(region, request.profiles, request.architecture, now, request.volumes_of)
    ]


def _request(arguments: argparse.Namespace, for_the_hub: Sequence[str]) -> Request:
    """Raises `WrongRequest`."""
    allowed = tuple(dict.fromkeys(arguments.allow_region))
    named = tuple(dict.fromkeys(arguments.region)) or allowed
    config = _config(arguments)
    if for_the_hub and config is None:
        raise WrongRequest(
            f"{for_the_hub[0]} is an option of a hub. Fix: leave it out, or add --config"
        )
    if config is None:
        request = _of_nobody()
    else:
        request = _of_the_hub(config, for_the_hub, needs_region=not named)
    wanted = named or request.regions
    if not wanted:
        raise WrongRequest("no region is given. Fix: --region=us-east-1, or set AWS_REGION")
    for region in (*wanted, *allowed):
        if not REGION.fullmatch(region):
            raise WrongRequest(f'"{region}" is no region. Fix: a name such as us-east-1')
    forbidden = [region for region in wanted if allowed and region not in allowed]
    if forbidden:
        raise WrongRequest(
            f"{', '.join(forbidden)} is not allowed. Fix: leave it out, or add "
            f"--allow-region={forbidden[0]}"
        )
    return Request(wanted, request.profiles, request.architecture, request.endpoint_url)


def _config(arguments: argparse.Namespace) -> Path | None:
    """The hub's file: the one that was named, or the one that is here; None for no hub's."""
    if arguments.config:
        return Path(arguments.config)
    here = Path(HUBS_FILE)
    if arguments.defaults or not here.is_file():
        return None
    complain("prices", f"profiles and region of ./{here}; --defaults for the built-in ones")
    return here


def _of_nobody() -> Request:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    profiles = tuple(map(Profile.model_validate, DEFAULT_PROFILES))
    return Request((region,) if region else (), profiles)


def _of_the_hub(path: Path, for_the_hub: Sequence[str], *, needs_region: bool) -> Request:
    read = ("profile_list", "architecture", "endpoint_url", "home", "data_volumes")
    needed = (*read, *(["region"] if needs_region else []))
    try:
        with Console(stderr=True).status("Reading the hub's configuration"):
            options = load(path, for_the_hub).require(*needed)
    except ConfigurationBroken as error:
        said = [f"{f.name}: {f.said}. Fix: {f.fix}" for f in error.findings]
        raise WrongRequest("; ".join(said)) from error
    if not options.profiles:
        raise WrongRequest(
            "c.EC2Spawner.profile_list is a function of the user. Fix: --defaults, for the "
            "built-in profiles"
        )
    return Request(
        (options.region,) if options.region else (),
        options.profiles,
        options.architecture,
        options.endpoint_url or None,
        options.volumes_of,
    )
