"""What sleeps of a server, for its owner's pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from jupyterhub.user import User

from ....config import Options
from ....core.sleep.cost import usd_per_day
from ....provisioner.model.sleeping_session import SleepingSession
from ....provisioner.provisioner import Provisioner
from ....wire import SavedSession
from ...app.user_account import account_of


@dataclass(frozen=True, slots=True)
class SessionAsleep:
    """A session that the next start can wake. Names of notebooks and variables are its user's own
    text."""

    session: SavedSession
    """As its agent reported it; `slept_at` by the hub's clock."""
    reason: str
    """Why its server stopped, in words; empty if that is no longer known."""
    profile: str
    """The slug of the profile that it ran on; empty if that is no longer known."""
    expires_at: datetime
    """UTC."""
    usd_per_day: float | None
    """What it costs to keep, an estimate: its share of the home. None is unknown."""

    @property
    def variables(self) -> int:
        """How many were saved, of all kernels that are listed."""
        return sum(kernel.variables for kernel in self.session.kernels)

    def without_names(self) -> SessionAsleep:
        """The same for the page of another user, such as an admin: nothing of what is in it."""
        nothing = self.session.model_copy(update={"kernels": [], "kernel_count": 0})
        return replace(self, session=nothing)


def session_asleep(
    provisioner: Provisioner, options: Options, user: User, server: str
) -> SessionAsleep | None:
    """What the next start of the server can wake; None for nothing."""
    found, account = last_session(provisioner, options, user, server), _account(provisioner, user)
    if found is None or provisioner.sleeping.of(account, server) is None:
        return None
    price = None
    if options.home.kind == "ebs":
        prices = provisioner.market.prices.resources
        price = prices.volume_usd_per_gib_month(options.home.volume_type)
    lease = provisioner.remembered(found.lease_id)
    return SessionAsleep(
        session=found.session,
        reason=lease.stop.message.rstrip(". ") if lease and lease.stop else "",
        profile=lease.profile if lease else "",
        expires_at=found.expires_at,
        usd_per_day=usd_per_day(found.session.size_bytes, price),
    )


def last_session(
    provisioner: Provisioner, options: Options, user: User, server: str
) -> SleepingSession | None:
    """What was saved last of the server, in whatever state; None for nothing, and where the home is
    gone."""
    account = _account(provisioner, user)
    last = provisioner.sleeping.last(account, server)
    return last if _has_home(provisioner, options, account, server) else None


def _account(provisioner: Provisioner, user: User) -> str:
    return account_of(provisioner.accounts, user)


def _has_home(provisioner: Provisioner, options: Options, user: str, server: str) -> bool:
    if options.home.kind != "ebs":
        return options.home.kind == "efs"
    home = provisioner.homes.of(user, server)
    return home is not None and not provisioner.homes.is_gone(home)
