"""The hub's options as they apply to one server: group overrides, hooks and functions of its user.

An admin's function is called for every page, request and start, in the hub's event loop as all
hooks of JupyterHub are: one that waits for something must be async.
"""

from __future__ import annotations

import asyncio
import logging
from copy import copy, deepcopy
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ...config import ConfigError, Options, change_options

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

log = logging.getLogger(__name__)

HOOK_TIMEOUT = 10.0
"""Seconds that the admin's functions have to answer, all of them for one user together."""

PER_SERVER = (
    "profile_list",
    "disk_gib",
    "idle",
    "sleep",
    "interruption",
    "instance_profile",
)
"""Options that group overrides and hooks may change for one server; all others are hub-wide."""


class ProfileListError(Exception):
    """An admin's function failed or returned an invalid list. The log has the reason; the message
    is for the user."""


def per_server_options(spawner: Spawner) -> dict[str, Any]:
    """A copy of the spawner's `PER_SERVER` options.

    A deep copy, because JupyterHub merges a group's override into a dict in place.
    """
    return {name: deepcopy(getattr(spawner, name)) for name in PER_SERVER}


_configured: dict[str, Any] = {}
"""The newest result of `configured_options`."""


def configured_options(spawner: Spawner) -> dict[str, Any]:
    """The `PER_SERVER` options of a new spawner, before any override. Not to be changed.

    All spawners have them from the same configuration, so a thousand share one copy.
    """
    global _configured
    if any(getattr(spawner, name) != _configured.get(name) for name in PER_SERVER):
        _configured = per_server_options(spawner)
    return _configured


async def options_for(options: Options, spawner: Spawner) -> Options:
    """The options for a server whose group overrides JupyterHub has applied, with `profile_list`
    as a list. Raises `ProfileListError`."""
    now = per_server_options(spawner)
    changed = {name: now[name] for name in PER_SERVER if now[name] != spawner.configured[name]}
    source = now["profile_list"]
    try:
        if callable(source):
            async with asyncio.timeout(HOOK_TIMEOUT):
                changed["profile_list"] = await result_of(source(spawner))
        of_server = change_options(options, changed) if changed else options
        return _with_groups(of_server, spawner)
    except ConfigError as error:
        log.error("Options for %s: %s", spawner._log_name, error)
    except TimeoutError:
        log.error(
            "c.EC2Spawner.profile_list did not answer within %g s for %s",
            HOOK_TIMEOUT,
            spawner._log_name,
        )
    except Exception:
        log.exception("c.EC2Spawner.profile_list failed for %s", spawner._log_name)
    raise _invalid(options)


def _with_groups(options: Options, spawner: Spawner) -> Options:
    """Apply `idle_by_group` for the groups of the server's user."""
    if not options.idle_by_group:
        return options
    groups = {group.name for group in spawner.user.groups}
    changes = [words for name, words in options.idle_by_group.items() if name in groups]
    return options.model_copy(update={"idle": options.idle.changed_by(*changes)})


def _invalid(options: Options) -> ProfileListError:
    return ProfileListError(
        "The hub cannot read its list of profiles, so no server can start. "
        f"Inform {options.contact}; the hub's log has the reason"
    )


async def options_for_page(options: Options, spawner: Spawner) -> Options:
    """The options before a start, when JupyterHub has not applied the overrides of the user's
    groups yet. Raises `ProfileListError`."""
    stand_in = _copy_of(spawner)
    try:
        async with asyncio.timeout(HOOK_TIMEOUT):
            await stand_in.apply_group_overrides()
    except Exception as error:
        log.exception("c.EC2Spawner.group_overrides failed for %s", spawner._log_name)
        raise _invalid(options) from error
    return await options_for(options, stand_in)


def _copy_of(spawner: Spawner) -> Spawner:
    """A copy that can be changed while the spawner itself starts, or waits for a later start.

    Otherwise what a group had on a page would still apply to a user who has left the group.
    """
    stand_in = copy(spawner)
    for name in spawner.trait_names(config=True):
        # JupyterHub merges an override into a dict in place.
        if spawner.trait_has_value(name) and isinstance(getattr(spawner, name), dict):
            setattr(stand_in, name, deepcopy(getattr(spawner, name)))
    return stand_in


async def result_of(returned: Any) -> Any:
    """The result of an admin's function, sync or async."""
    return await returned if isawaitable(returned) else returned
