"""What the command line asks for."""

from __future__ import annotations

import argparse
import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from ..config import Options, Profile
from ..config.values import suggest
from .facts import Wanted

MAX_USERS = 1000
"""As of an entry of `warm_pool`."""

MAX_HOURS = 24.0 * 182
"""The longest Capacity Block."""


class WrongRequest(Exception):
    """The request cannot be answered; the message says why, and what to do."""


def wanted_of(arguments: argparse.Namespace, options: Options, now: datetime) -> Wanted:
    """The class; of a rehearsal without a class, its servers. Raises `WrongRequest`."""
    users = arguments.users if arguments.users is not None else arguments.rehearse
    if not arguments.profile:
        raise WrongRequest("--profile is missing. Fix: the slug of the profile that they start")
    if users is None:
        raise WrongRequest("--users is missing. Fix: how many start at once, such as --users=40")
    if not 1 <= users <= MAX_USERS:
        raise WrongRequest(f"--users={users} is not within 1 to {MAX_USERS}")
    if not 0 < arguments.hours <= MAX_HOURS:
        raise WrongRequest(f"--hours={arguments.hours:g} is not above 0 and up to {MAX_HOURS:g}")
    at = _next(arguments.at, ZoneInfo(options.time_zone), now) if arguments.at else None
    return Wanted(_profile(arguments.profile, options), users, arguments.hours, at)


def _profile(slug: str, options: Options) -> Profile:
    if not options.profiles:
        raise WrongRequest(
            "c.EC2Spawner.profile_list is a function of the user. Fix: run this with a file whose "
            "profile_list is a list"
        )
    by_slug = {each.slug: each for each in options.profiles}
    if slug not in by_slug:
        raise WrongRequest(f'no profile has the slug "{slug}". Fix: {suggest(slug, by_slug)}')
    return by_slug[slug]


def _next(clock: str, place: ZoneInfo, now: datetime) -> datetime:
    """When it is this time of day next, in the hub's time zone."""
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", clock)
    if found is None:
        raise WrongRequest(f'"{clock}" is no time of day. Fix: --at=09:00')
    here = now.astimezone(place)
    at = here.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    # Within one zone, Python adds to the time of day.
    return at if at > here else at + timedelta(days=1)
