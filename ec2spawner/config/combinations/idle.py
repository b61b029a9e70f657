"""Idle times beside the age at which a server stops anyway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...core.text.durations import in_words
from ..entries.idle import IdleConfig
from ..options import Options
from ..problem import Problem
from .places import numbered, of_profile

FOREVER: Final = float("inf")

_DEFAULT: Final = IdleConfig.model_validate(Options.model_fields["idle"].default)
"""Nobody has written it, so nobody expects an effect."""


@dataclass(frozen=True, slots=True)
class Age:
    """The age at which servers stop, also in use."""

    seconds: float
    option: str
    """By which option."""


def idle_problems(options: Options) -> Iterator[Problem]:
    """Times that are never over, and overrides that are overridden.

    What `idle_hook` changes is known at a start only, so with one nothing is certain.
    """
    if options.idle_hook is not None:
        return
    yield from _overridden_groups(options)
    for where, written, words in _written(options):
        yield from _longer_than_a_server_lives(options, where, written, words)
        if words.server == 0 and "user_may_extend" in written.model_fields_set:
            yield from _extends_nothing(options, where, words)
    for index, profile in numbered(options):
        opened, words = profile.profile_options.idle, options.idle.changed_by(profile.idle)
        age = oldest(options, words)
        if opened and opened.min >= age.seconds:
            where = of_profile(index, profile, "profile_options.idle")
            what = f"its shortest, {in_words(opened.min)},"
            yield _outlives(where, what, age)


def oldest(options: Options, words: IdleConfig) -> Age:
    """The age at which a server of every user stops by these words or by limits."""
    limits = options.limits
    found = [Age(words.max_age or FOREVER, "max_age of its idle policy")]
    found.append(Age(limits.hub.max_run or FOREVER, "c.EC2Spawner.limits.hub.max_run"))
    if not any("max_run" in each.model_fields_set for each in limits.users.values()):
        found.append(Age(limits.user.max_run or FOREVER, "c.EC2Spawner.limits.user.max_run"))
    return min(found, key=lambda age: age.seconds)


def _written(options: Options) -> Iterator[tuple[str, IdleConfig, IdleConfig]]:
    """Each place that has words about idleness, what it writes, and what that means there."""
    if options.idle != _DEFAULT:
        yield "c.EC2Spawner.idle", options.idle, options.idle
    for group, words in options.idle_by_group.items():
        place = f'c.EC2Spawner.idle_by_group["{group}"]'
        yield place, words, options.idle.changed_by(words)
    for index, profile in numbered(options):
        place = of_profile(index, profile, "idle")
        yield place, profile.idle, options.idle.changed_by(profile.idle)


def _longer_than_a_server_lives(
    options: Options, where: str, written: IdleConfig, words: IdleConfig
) -> Iterator[Problem]:
    age = oldest(options, words)
    hours, choice = words.working_hours, words.user_may_set
    times = [("server", words.server, "server")]
    if hours:
        times.append(("working_hours", hours.server, 'server of "working_hours"'))
    if choice:
        times.append(("user_may_set", choice.server[0], "shortest time of user_may_set"))
    for name, seconds, called in times:
        if seconds >= age.seconds and name in written.model_fields_set:
            yield _outlives(where, f'"{called}", {in_words(seconds)},', age)


def _outlives(where: str, what: str, age: Age) -> Problem:
    return Problem(
        where,
        f"{what} is never over: servers stop at {in_words(age.seconds)} by {age.option}",
        "shorten it, or raise the other",
    )


def _extends_nothing(options: Options, where: str, words: IdleConfig) -> Iterator[Problem]:
    opened = any(each.profile_options.idle for each in options.profiles)
    elsewhere = any(x.server for _, x, _ in _written(options) if "server" in x.model_fields_set)
    stops = words.working_hours or words.user_may_set or opened or elsewhere
    if words.user_may_extend and not stops and options.profiles:
        yield Problem(
            where,
            '"user_may_extend" postpones the stop of idle servers, and "server" is 0, so they '
            "never stop",
            'write "server": "1h", or leave out "user_may_extend"',
        )


def _overridden_groups(options: Options) -> Iterator[Problem]:
    """A profile's own words override those of groups, and every profile may have some."""
    for group, words in options.idle_by_group.items():
        for name in IdleConfig.model_fields:
            everywhere = options.profiles and all(
                name in each.idle.model_fields_set for each in options.profiles
            )
            if name in words.model_fields_set and everywhere:
                yield Problem(
                    f'c.EC2Spawner.idle_by_group["{group}"].{name}',
                    f'each profile has a "{name}" in its own "idle", which overrides it',
                    f'leave "{name}" out of the profiles that groups may change',
                )
