"""What a start does about the session that sleeps of its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from ...config import Options, Profile
from ...core.profiles.choices import Choice
from ...core.sleep.rules import SleepRules
from ...provisioner.model.leases.lease import Home
from ...provisioner.provisioner import Provisioner
from ...provisioner.state.home_records import DEFAULT_SERVER
from ...wire.sleep import KEEP_SECONDS, MAX_BYTES, WAKE
from ..app.user_account import account_of
from .home_choice import copies_home

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


def sleep_of(
    options: Options, choice: Choice[Profile], provisioner: Provisioner, spawner: Spawner
) -> SleepRules:
    """How the session of the server is saved, and what its start wakes."""
    rules = options.sleep_rules_of(choice.profile)
    if not choice.wakes or _is_of_default_server(options, provisioner, spawner):
        return replace(rules, wake="no")
    return rules


def _is_of_default_server(options: Options, provisioner: Provisioner, spawner: Spawner) -> bool:
    """Whether what sleeps in this home was copied with it. To wake it would run the loops of the
    default server a second time, beside it."""
    account = account_of(provisioner.accounts, spawner.user)
    home = provisioner.homes.of(account, spawner.name)
    last = provisioner.sleeping.last(account, spawner.name)
    return was_copied(
        home, last.session.slept_at if last else None, begins=copies_home(options, spawner.name)
    )


def was_copied(home: Home | None, slept_at: datetime | None, *, begins: bool) -> bool:
    """Whether a home may have no session but a copied one. `slept_at` is when its own server saved
    one last; `begins`: a new home would be a copy.

    A restored home counts as a copy: its snapshot may be of the time before its own server saved
    one. So does a home whose record was lost where homes are copied: no volume says how it began.
    """
    if home is None:
        return begins
    if home.server == DEFAULT_SERVER:
        return False
    if slept_at is None:
        return begins or home.made_from != ""
    return home.made_from != "" and slept_at < home.created_at


def sleep_environment(rules: SleepRules) -> Mapping[str, str]:
    """What the notebook's environment says of it."""
    return {
        WAKE: rules.wake,
        MAX_BYTES: str(rules.max_bytes if rules.save_seconds else 0),
        KEEP_SECONDS: f"{rules.keep_seconds:.0f}",
    }
