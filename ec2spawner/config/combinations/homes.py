"""Homes, the sessions that sleep in them, and their kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..entries.home import HomeConfig
from ..entries.idle import IdleConfig
from ..entries.sleep import SleepConfig
from ..options import Options
from ..problem import Problem
from .beside import JupyterHubOptions
from .places import listed, numbered, of_profile

_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "ebs": (
        "size_gib",
        "user_may_choose",
        "volume_type",
        "encrypted",
        "kms_key",
        "move",
        "snapshots",
        "delete_forever",
    ),
    "efs": ("root", "tls"),
}
"""Keys of `home` that one kind follows; those of EFS that are left out are refused elsewhere."""

_DEFAULT_SLEEP: Final = SleepConfig.model_validate(Options.model_fields["sleep"].default)
"""Nobody has written it, although each of its keys is set."""


def home_problems(options: Options, hub: JupyterHubOptions) -> Iterator[Problem]:
    """Find options that the kind or the size of homes leaves without effect."""
    yield from _of_another_kind(options.home)
    if options.home.named_servers == "copy" and hub.allow_named_servers is False:
        yield Problem(
            "c.EC2Spawner.home.named_servers",
            "copies homes for named servers, and c.JupyterHub.allow_named_servers is off",
            'c.JupyterHub.allow_named_servers = True, or leave out "named_servers"',
        )
    yield from _sessions_above_the_home(options)
    yield from _unsaved_sleep(options)


def _of_another_kind(home: HomeConfig) -> Iterator[Problem]:
    for kind, names in _OF_KIND.items():
        written = [each for each in names if each in home.model_fields_set]
        if kind != home.kind and written:
            verb = "is" if len(written) == 1 else "are"
            yield Problem(
                "c.EC2Spawner.home",
                f'{listed(written)} {verb} for homes of kind "{kind}", and "kind" is "{home.kind}"',
                f'leave out {listed(written)}, or write "kind": "{kind}"',
            )


def _sessions_above_the_home(options: Options) -> Iterator[Problem]:
    """A default is no mistake beside a small home: some of the disk stays free in any case."""
    home = options.home
    if home.kind != "ebs":
        return
    most = max(home.size_gib, home.user_may_choose.max if home.user_may_choose else 0)
    written = [(of_profile(i, each, "sleep"), each.sleep) for i, each in numbered(options)]
    if _as_written(options.sleep) != _as_written(_DEFAULT_SLEEP):
        written.insert(0, ("c.EC2Spawner.sleep", options.sleep))
    for where, words in written:
        if "max_disk_gib" in words.model_fields_set and words.max_disk_gib > most:
            yield Problem(
                where,
                f'"max_disk_gib" is {words.max_disk_gib}, and a home of c.EC2Spawner.home has '
                f"{most} GiB at most, so a session never takes so much",
                f'write {most} or less, or a larger "size_gib" in c.EC2Spawner.home',
            )


def _as_written(words: SleepConfig) -> dict[str, Any]:
    return words.model_dump(exclude_unset=True)


def _unsaved_sleep(options: Options) -> Iterator[Problem]:
    """Each `"then": "sleep"` that somebody has written and that stops servers like `"stop"`. A
    default is neither wrong nor worth a word."""
    every = [each.sleep for each in options.profiles] or [SleepConfig()]
    written: list[tuple[str, IdleConfig, list[SleepConfig]]] = [
        ("c.EC2Spawner.idle", options.idle, every)
    ]
    for group, words in options.idle_by_group.items():
        written.append((f'c.EC2Spawner.idle_by_group["{group}"]', words, every))
    for index, profile in numbered(options):
        written.append((of_profile(index, profile, "idle"), profile.idle, [profile.sleep]))
    for where, words, overrides in written:
        is_written = "then" in words.model_fields_set and words.then == "sleep"
        reasons = [_why_unsaved(options, each) for each in overrides] if is_written else []
        if reasons and reasons[0] and None not in reasons:
            why, fix = reasons[0]
            yield Problem(
                where,
                f'"sleep" stops servers without their variables: {why}',
                f'{fix}, or write {{"then": "stop"}}',
            )


def _why_unsaved(options: Options, override: SleepConfig) -> tuple[str, str] | None:
    """Why the sessions of a profile are not saved, and how they would be; None where they are."""
    if options.home.kind == "none":
        return 'home is of kind "none", so nothing is kept', 'use a home of kind "ebs" or "efs"'
    if not options.sleep.changed_by(override).save:
        return 'sleep["save"] is 0, so nothing is saved', 'write {"save": "5m"}'
    return None
