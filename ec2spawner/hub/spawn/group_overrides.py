"""JupyterHub's `group_overrides`, judged before a member of a group starts a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from jupyterhub.spawner import Spawner
from jupyterhub.utils import recursive_update

from ...config import ConfigError, GroupOverride, Options, Problem, change_options
from ...config.values import suggest
from .server_options import PER_SERVER

_BY_FUNCTION: Final[Mapping[str, Any]] = {
    "profile_list": lambda spawner: (),
    "idle_hook": lambda spawner, policy: None,
}
"""Functions in the place of an admin's that may change any profile and any idle policy."""


def group_overrides(probe: Spawner, options: Options) -> Iterator[GroupOverride]:
    """Each entry of the spawner's `group_overrides` beside the hub's options; where that is a
    function, one that may change any profile and any idle policy."""
    written, where = probe.group_overrides, "c.EC2Spawner.group_overrides"
    if callable(written):
        yield GroupOverride(where, options.model_copy(update=_BY_FUNCTION))
        return
    for key, entry in written.items():
        option = f'{where}["{key}"]'
        is_whole = isinstance(entry, Mapping) and "groups" in entry
        if not is_whole or not isinstance(entry.get("spawner_override"), Mapping):
            what = 'has no "groups" or no dict "spawner_override", so JupyterHub fails at starts'
            fix = '{"groups": ["lab"], "spawner_override": {...}}'
            yield GroupOverride(option, problems=(Problem(option, what, fix),))
        else:
            yield _override(option, entry["spawner_override"], probe, options)


def _override(
    option: str, written: Mapping[str, Any], probe: Spawner, options: Options
) -> GroupOverride:
    changed: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in written.items():
        if name not in PER_SERVER:
            problems += _not_of_a_server(f"{option}.{name}", name, probe)
        elif callable(value):
            hook = {"profile_list": "profile_list", "idle": "idle_hook"}.get(name, "")
            functions |= {hook: _BY_FUNCTION[hook]} if hook else {}
        else:
            changed[name] = _merged(getattr(probe, name), value)
    try:
        of_group = change_options(options, changed)
    except ConfigError as error:
        found = (
            replace(each, option=each.option.replace("c.EC2Spawner", option, 1))
            for each in error.problems
        )
        return GroupOverride(option, problems=(*problems, *found))
    return GroupOverride(
        option, of_group.model_copy(update=functions), frozenset(changed), tuple(problems)
    )


def _not_of_a_server(option: str, name: str, probe: Spawner) -> Iterator[Problem]:
    if name in Options.model_fields:
        yield Problem(
            option,
            f"has no effect: {name} holds for the whole hub",
            f"c.EC2Spawner.{name}; groups may change {', '.join(PER_SERVER)}",
        )
    elif not probe.has_trait(name):
        yield Problem(option, "there is no such option", suggest(name, probe.trait_names()))


def _merged(now: Any, value: Any) -> Any:
    """As JupyterHub does it: a dict is merged, everything else replaced."""
    if isinstance(now, dict) and isinstance(value, dict):
        now = deepcopy(now)
        recursive_update(now, value)
        return now
    return value
