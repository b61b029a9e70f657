"""The test that was asked for, from the command's options and its environment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from .arrival import Arrival, ArrivalRefused, arrival
from .settings import PASSWORD, TOKEN, Settings


class PlanRefused(Exception):
    """The options make no sense; the message names one, and the fix."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A test that can run."""

    settings: Settings
    secret: str = field(repr=False)
    arrival: Arrival
    max_usd: float | None
    html: str


def plan_of(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Plan:
    """Raises `PlanRefused`."""
    is_token, secret = _secret(arguments, environ)
    try:
        arrivals = arrival(
            arguments.users,
            arguments.max_users,
            arguments.spawn_rate,
            arguments.over,
            arguments.at_once,
        )
        settings = Settings(
            url=arguments.url,
            login="token" if is_token else "password",
            users=arguments.users,
            prefix=arguments.prefix,
            choices=_choices(arguments),
            cells=arguments.cells,
            cell_every=arguments.cell_every,
            idle=arguments.idle,
            start_timeout=arguments.start_timeout,
        )
    except ArrivalRefused as refused:
        raise PlanRefused(str(refused)) from refused
    except ValidationError as error:
        raise PlanRefused(_first(error)) from error
    if arguments.max_usd is not None and not arguments.max_usd > 0:
        raise PlanRefused("--max-usd must be more than 0")
    return Plan(settings, secret, arrivals, arguments.max_usd, arguments.html)


def _choices(arguments: argparse.Namespace) -> dict[str, str]:
    choices = {"profile": arguments.profile} if arguments.profile else {}
    for each in arguments.field:
        name, is_given, value = each.partition("=")
        if not (name and is_given):
            raise PlanRefused(f"--field={each} must be NAME=VALUE")
        choices[name] = value
    return choices


def _secret(arguments: argparse.Namespace, environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether it is a token, and it; what an option names comes first."""
    for is_token, path in ((False, arguments.password_file), (True, arguments.token_file)):
        if path is not None:
            return is_token, _first_line(Path(path))
    for is_token, name in ((False, PASSWORD), (True, TOKEN)):
        if environ.get(name):
            return is_token, environ[name]
    raise PlanRefused(
        f"give the users' password, --password-file=FILE or ${PASSWORD}, or an admin's token, "
        f"--token-file=FILE or ${TOKEN}"
    )


def _first_line(path: Path) -> str:
    try:
        secret = path.read_text("utf-8").partition("\n")[0].strip()
    except (OSError, ValueError) as error:
        raise PlanRefused(f"{path} cannot be read: {error}") from error
    if not secret:
        raise PlanRefused(f"{path} is empty: its first line must be the secret")
    return secret


def _first(error: ValidationError) -> str:
    found = error.errors()[0]
    name = str(found["loc"][0]) if found["loc"] else ""
    option = "URL" if name == "url" else f"--{name.replace('_', '-')}"
    return f"{option}: {found['msg'].removeprefix('Value error, ')}"
