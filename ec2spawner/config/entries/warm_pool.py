"""`c.EC2Spawner.warm_pool`: how many prepared instances wait for servers of which profile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ...core.hours_of_week import Hours
from ...core.pool.rules import Auto, PoolRule, PoolRules
from ...wire import Market
from ..values import SpawnerFunction, Words, shown, suggest, wrong
from ..working_hours import hours
from .profile import Profile

MAX_RUNNING: Final = 1000
"""Places of one entry: more is a slip of the pen."""

WHEN: Final = "Mon-Fri 08:30-18:00 Europe/Berlin"

_STOPPED_FIX: Final = f"write a whole number from 0 to {MAX_RUNNING}"
_ON_DEMAND_FIX: Final = (
    'write "market": "on-demand" in this entry, and "running" for spot in an entry of its own'
)
_HOMES_AHEAD_FIX: Final = f"write a whole number from 0 to {MAX_RUNNING}"
_RUNNING_FIX: Final = f'write a whole number from 0 to {MAX_RUNNING}, or "auto"'
_CAP_FIX: Final = "write USD per hour as a number above 0, such as 5; leave it out for no cap"


def _running(value: object) -> object:
    if value == "auto":
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RUNNING:
        wrong(f"{shown(value)} is no number of instances", _RUNNING_FIX)
    return value


def _stopped(value: object) -> object:
    if value == "auto":
        wrong("no forecast is made of stopped instances, which cost their disks only", _STOPPED_FIX)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RUNNING:
        wrong(f"{shown(value)} is no number of instances", _STOPPED_FIX)
    return value


def _homes_ahead(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RUNNING:
        wrong(f"{shown(value)} is no number of homes", _HOMES_AHEAD_FIX)
    return value


def _cap(value: object) -> object:
    """A cap of 0 could be read as none: the words for no pool and for no cap are others."""
    if value is None:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrong(f"{shown(value)} is no amount", _CAP_FIX)
    if not 0 < value < math.inf:
        wrong(f"{shown(value)} caps nothing", _CAP_FIX)
    return value


def _are_hours(text: str) -> str:
    if text:
        hours(text, default_zone="UTC")
    return text


Places = Annotated[int, Field(ge=0, le=MAX_RUNNING)]
UsdPerHour = Annotated[float | None, BeforeValidator(_cap)]


class WarmPoolConfig(Words):
    """Instances that wait for servers of a profile, running or stopped. They belong to no user
    until a server gets one, and are replaced then; an instance never returns to the pool. Of two
    entries for the same profile and market the larger number counts."""

    profile: str = Field(
        description="Slug of a profile of `profile_list`.", min_length=1, examples=["t4"]
    )
    running: Annotated[int | Literal["auto"], BeforeValidator(_running)] = Field(
        default=0,
        description=f"How many wait running, 0 to {MAX_RUNNING}. `auto` takes it from the starts "
        "of the last four weeks at the same weekday and time of day, and needs `max`.",
        examples=[2],
    )
    stopped: Annotated[int, BeforeValidator(_stopped)] = Field(
        default=0,
        description=f"How many wait stopped beside these, 0 to {MAX_RUNNING}. They have booted "
        "once, and cost their disks only; a server that finds none running starts one of them. "
        "On-demand only: AWS cannot stop a spot instance and start it again.",
        examples=[5],
    )
    min: Places | None = Field(
        default=None, description="With `auto`, wait at least so many; 0 by default.", examples=[1]
    )
    max: Places | None = Field(
        default=None, description="With `auto`, wait at most so many.", examples=[20]
    )
    market: Literal["spot", "on-demand"] | None = Field(
        default=None,
        description="Which market they are bought in. By default the profile's first.",
        examples=["spot"],
    )
    when: Annotated[str, AfterValidator(_are_hours)] = Field(
        default="",
        description="Days and times at which they wait, with a time zone unless it is "
        "`time_zone`. Instances are bought earlier by the usual time of a boot, so that they wait "
        "when the hours begin. Times that end before they begin cross midnight. Empty is always.",
        examples=[WHEN],
    )
    attach_homes_ahead: Annotated[int, BeforeValidator(_homes_ahead)] = Field(
        default=0,
        description="How many of the running ones may wait for a user who is expected, with the "
        "user's home attached, so that the start need not wait for EC2: for users who started this "
        "profile at this time of the week in two of the last four weeks. Nobody else ever gets "
        "such an instance: if its user does not come, it is terminated and another takes its "
        "place. Needs homes on EBS. 0 attaches none.",
        examples=[5],
    )
    usd_per_hour: UsdPerHour = Field(
        default=None,
        description="What these instances may cost together, in USD/hour with their disks. With a "
        "cap, nothing is bought at an unknown price. None is no cap.",
        examples=[2.5],
    )

    @model_validator(mode="after")
    def _has_places(self) -> Self:
        if not {"running", "stopped"} & self.model_fields_set:
            wrong("asks for nothing", 'add "running", "stopped" or both, such as "running": 2')
        if self.stopped and self.market == "spot":
            what = "stops spot instances, and AWS cannot start them again"
            wrong(what, _ON_DEMAND_FIX)
        return self

    @model_validator(mode="after")
    def _bounds_of_auto(self) -> Self:
        if self.running != "auto":
            if self.min is not None or self.max is not None:
                wrong(
                    f"has bounds, and its running is {self.running}",
                    'write "running": "auto", or leave out min and max',
                )
        elif self.max is None:
            wrong('has no "max", so "auto" could buy without bounds', 'add one, such as "max": 20')
        elif (self.min or 0) > self.max:
            wrong(f"its min, {self.min}, is above its max, {self.max}", "swap them")
        return self

    @model_validator(mode="after")
    def _attaches_to_running_ones(self) -> Self:
        most = (self.max or 0) if self.running == "auto" else self.running
        if self.attach_homes_ahead > most:
            bound = f'its "max", {most}' if self.running == "auto" else f'its "running", {most}'
            wrong(
                f"attaches homes to {self.attach_homes_ahead} instances, more than {bound}",
                f'write "attach_homes_ahead": {most} or less, or let more wait running',
            )
        return self

    def rule(self, profile: Profile, time_zone: str) -> PoolRule:
        """As the provisioner follows it; hours without a time zone are in `time_zone`."""
        market = Market(self.market) if self.market else profile.markets[0]
        running = Auto(self.min or 0, self.max or 0) if self.running == "auto" else self.running
        return PoolRule(
            self.profile,
            running,
            market,
            self._hours(time_zone),
            self.usd_per_hour,
            stopped=self.stopped,
            homes_ahead=self.attach_homes_ahead,
            profile_name=profile.display_name,
        )

    def _hours(self, time_zone: str) -> Hours | None:
        return hours(self.when, default_zone=time_zone) if self.when else None


def pool_rules(
    entries: Sequence[WarmPoolConfig],
    profiles: Sequence[Profile],
    time_zone: str,
    usd_per_hour: float | None,
) -> PoolRules:
    """All entries for profiles of this list; `usd_per_hour` caps them together."""
    by_slug = {each.slug: each for each in profiles}
    rules = tuple(
        each.rule(by_slug[each.profile], time_zone) for each in entries if each.profile in by_slug
    )
    return PoolRules(rules, usd_per_hour)


def pool_problems(
    entries: Sequence[WarmPoolConfig],
    profiles: Sequence[Profile] | SpawnerFunction,
    home_kind: str,
) -> Iterator[tuple[str, str, str]]:
    """What no entry has alone: (option below `warm_pool`, what is wrong, fix)."""
    for place, entry in enumerate(entries):
        if entry.attach_homes_ahead and home_kind != "ebs":
            what = f"homes of kind {shown(home_kind)} are no volumes, so none can be attached"
            fix = 'leave it out, or write c.EC2Spawner.home = {"kind": "ebs"}'
            yield f"[{place}].attach_homes_ahead", what, fix
    if callable(profiles):
        if entries:
            what = (
                "needs a list of profiles: profile_list is a function of a user's spawner, and an "
                "instance of the pool has no user"
            )
            yield "", what, "write profile_list as a list; `groups` of a profile may be a function"
        return
    known = {each.slug: each for each in profiles}
    for place, entry in enumerate(entries):
        if entry.profile not in known:
            what = f"no profile has the slug {shown(entry.profile)}"
            yield f"[{place}].profile", what, suggest(entry.profile, known)
        elif entry.market and Market(entry.market) not in known[entry.profile].every_market:
            what = f"no server of {shown(entry.profile)} may take {entry.market} instances"
            first = known[entry.profile].markets[0]
            yield f"[{place}].market", what, f'write "{first}", or leave it out'
        elif entry.stopped and not entry.market and known[entry.profile].markets[0] == Market.SPOT:
            what = "without a market the entry is for spot, and AWS cannot stop a spot instance"
            yield f"[{place}].stopped", what, _on_demand_fix(known[entry.profile])


def _on_demand_fix(profile: Profile) -> str:
    if Market.ON_DEMAND in profile.every_market:
        return _ON_DEMAND_FIX
    return 'leave out "stopped": no server of this profile may take on-demand instances'
