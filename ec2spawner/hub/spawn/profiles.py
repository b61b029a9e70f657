"""The profiles of one user: what the admin's list or function says, and its groups allow.

A function of the admin's is called for every page, request and start, in the hub's event loop as
all hooks of JupyterHub are: one that waits for something must be async.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from copy import copy, deepcopy
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ...config import (
    ConfigError,
    Options,
    Profile,
    change_options,
)
from ...core.profiles.choices import Choice, apply_user_options

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

log = logging.getLogger(__name__)

TIMEOUT = 10.0
"""Seconds that the admin's functions have to answer, all of them for one user together."""


PER_SERVER = ("profile_list", "disk_gib", "idle", "instance_profile")
"""Options that group overrides and hooks may change for one server; others are the hub's."""


class ProfileListBroken(Exception):
    """The admin's function failed, or what it says cannot work. The log has the reason, the
    message is for the user."""


def per_server_options(spawner: Spawner) -> dict[str, Any]:
    """A copy of them as they are now: JupyterHub merges a group's override into a dict in place."""
    return {name: deepcopy(getattr(spawner, name)) for name in PER_SERVER}


async def options_for(options: Options, spawner: Spawner) -> Options:
    """The hub's options as they are for this server, its list of profiles written out.

    Raises `ProfileListBroken`.
    """
    now = per_server_options(spawner)
    changed = {name: now[name] for name in PER_SERVER if now[name] != spawner.configured[name]}
    source = now["profile_list"]
    try:
        if callable(source):
            async with asyncio.timeout(TIMEOUT):
                changed["profile_list"] = await answer_of(source(spawner))
        of_server = change_options(options, changed) if changed else options
        return _with_groups(of_server, spawner)
    except ConfigError as error:
        log.error("For %s %s", spawner._log_name, error)
    except TimeoutError:
        log.error(
            "For %s c.EC2Spawner.profile_list gave no answer within %g s",
            spawner._log_name,
            TIMEOUT,
        )
    except Exception:
        log.exception("For %s c.EC2Spawner.profile_list failed", spawner._log_name)
    raise _broken(options)


def _with_groups(options: Options, spawner: Spawner) -> Options:
    """With what the groups of its user change of `idle`."""
    if not options.idle_by_group:
        return options
    groups = {group.name for group in spawner.user.groups}
    changes = [words for name, words in options.idle_by_group.items() if name in groups]
    return options.model_copy(update={"idle": options.idle.changed_by(*changes)})


def _broken(options: Options) -> ProfileListBroken:
    return ProfileListBroken(f"The hub's list of profiles is broken; tell {options.contact}")


async def options_for_page(options: Options, spawner: Spawner) -> Options:
    """The same before a start, when JupyterHub has not applied the overrides of the user's groups
    yet. Raises `ProfileListBroken`."""
    stand_in = _copy_of(spawner)
    try:
        async with asyncio.timeout(TIMEOUT):
            await stand_in.apply_group_overrides()
    except Exception as error:
        log.exception("For %s c.EC2Spawner.group_overrides failed", spawner._log_name)
        raise _broken(options) from error
    return await options_for(options, stand_in)


def _copy_of(spawner: Spawner) -> Spawner:
    """One that can be changed while the spawner itself starts, or waits for a later start.

    What a group had on a page would else be there for somebody who has left the group since.
    """
    stand_in = copy(spawner)
    for name in spawner.trait_names(config=True):
        # JupyterHub merges an override into a dict in place.
        if spawner.trait_has_value(name) and isinstance(getattr(spawner, name), dict):
            setattr(stand_in, name, deepcopy(getattr(spawner, name)))
    return stand_in


async def choose(
    options: Options, spawner: Spawner, user_options: Mapping[str, object]
) -> Choice[Profile]:
    """What a user's options mean, sent by form or REST or stored; `options` are `options_for`'s.

    Raises `OptionsRefused`.
    """
    visible = await open_profiles(options, spawner)
    sizes = options.home.user_may_choose if options.home.kind == "ebs" else None
    return apply_user_options(options.profiles, visible, user_options, sizes)


async def open_profiles(options: Options, spawner: Spawner) -> tuple[Profile, ...]:
    """Those of `options_for`'s profiles that this user may use."""
    groups = {group.name for group in spawner.user.groups}
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    return tuple([p for p in options.profiles if await _is_open(p, spawner, groups, deadline)])


async def _is_open(profile: Profile, spawner: Spawner, groups: set[str], deadline: float) -> bool:
    """By a list of groups or a function; a function that fails opens nothing."""
    if not callable(profile.groups):
        return not profile.groups or not groups.isdisjoint(profile.groups)
    try:
        async with asyncio.timeout_at(deadline):
            return bool(await answer_of(profile.groups(spawner)))
    except Exception:
        log.exception(
            "The function `groups` of profile %s failed for %s, so it stays closed",
            profile.slug,
            spawner._log_name,
        )
        return False


async def answer_of(result: Any) -> Any:
    """What a function of the admin's says, sync or async."""
    return await result if isawaitable(result) else result
