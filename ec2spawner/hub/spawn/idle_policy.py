"""The idle policy of one server, from hub, groups, profile and the admin's function."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ...config import ConfigError, IdleConfig, Options, Profile, change_options
from ...core.limits.bounds import Limits
from ...core.limits.scopes import scopes_of
from ...provisioner.model.leases.lease import Lease
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError
from ...wire import IdlePolicy
from ..app.user_account import account_of
from .server_options import HOOK_TIMEOUT, ProfileListError, options_for_page, result_of

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

log = logging.getLogger(__name__)


class HookFailed(Exception):
    """The admin's function failed; the log has the reason."""


async def policy_of(
    options: Options,
    provisioner: Provisioner,
    spawner: Spawner,
    profile: Profile,
    chosen: float | None,
    payer: str = "",
) -> IdlePolicy:
    """The policy with the idle time that the user chose, in seconds; `options` are `options_for`'s.

    Its maximum age is also bounded by the limits of the user, the payer and the hub.
    If the admin's function fails, its changes are left out and the start continues.
    """
    words = options.idle.changed_by(profile.idle)
    with suppress(HookFailed):
        words = await _after_hook(options, spawner, words)
    policy = options.policy_of(words, profile, chosen)
    account = account_of(provisioner.accounts, spawner.user)
    return within_limits(policy, provisioner.settings.limits, account, payer)


def within_limits(policy: IdlePolicy, limits: Limits, user: str, payer: str) -> IdlePolicy:
    """The policy with the maximum age that the limits of the user, the payer and the hub allow."""
    longest = limits.max_run_seconds(scopes_of(user, payer))
    return policy if longest is None else at_most(policy, longest)


def at_most(policy: IdlePolicy, seconds: float) -> IdlePolicy:
    """The policy of a server that ends after so many seconds, or before."""
    age = min(policy.max_age_seconds or seconds, seconds)
    return policy.model_copy(update={"max_age_seconds": age})


async def follow_configuration(
    options: Options, spawner: Spawner, provisioner: Provisioner, lease: Lease
) -> None:
    """Apply the current configuration to a server that was started under an earlier one.

    Its policy stays as it is if the configuration cannot be determined, if its profile no longer
    exists, or if its start has set its end.
    """
    if lease.mounts.temporary_home:
        return
    try:
        of_server = await options_for_page(options, spawner)
        profile = next((p for p in of_server.profiles if p.slug == lease.profile), None)
        if profile is None:
            return
        chosen = lease.idle.user_server_seconds
        words = await _after_hook(of_server, spawner, of_server.idle.changed_by(profile.idle))
        policy = of_server.policy_of(words, profile, chosen)
        policy = within_limits(policy, provisioner.settings.limits, lease.user, lease.payer)
        now = provisioner.lease(lease.lease_id)
        if now is not None:
            # The user may have changed it in the meantime.
            chosen = now.idle.user_server_seconds
            policy = policy.model_copy(update={"user_server_seconds": chosen})
            sleep = replace(of_server.sleep_rules_of(profile), wake=now.sleep.wake)
            await provisioner.set_policy(now, policy, sleep)
    except (ProfileListError, HookFailed):
        log.warning("%s keeps its last idle policy", spawner._log_name)
    except StoreError as error:
        log.warning("The idle policy of %s is not stored yet: %s", spawner._log_name, error)


async def _after_hook(options: Options, spawner: Spawner, words: IdleConfig) -> IdleConfig:
    """Apply the changes of the admin's function. Raises `HookFailed`."""
    if options.idle_hook is None:
        return words
    try:
        async with asyncio.timeout(HOOK_TIMEOUT):
            answer = await result_of(options.idle_hook(spawner, words.model_dump()))
        if answer is None:
            return words
        return words.changed_by(change_options(options, {"idle": answer}).idle)
    except ConfigError as error:
        log.error(
            "c.EC2Spawner.idle_hook returned an invalid policy for %s: %s", spawner._log_name, error
        )
        raise HookFailed from error
    except TimeoutError as error:
        log.error(
            "c.EC2Spawner.idle_hook did not answer within %g s for %s",
            HOOK_TIMEOUT,
            spawner._log_name,
        )
        raise HookFailed from error
    except Exception as error:
        log.exception("c.EC2Spawner.idle_hook failed for %s", spawner._log_name)
        raise HookFailed from error
