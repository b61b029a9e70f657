"""The lease that continues another one on another instance."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from ....core.names import lease_id
from ....core.offers.spot_wait import Wait
from ....core.sleep.continuation import TakenOver, markets_after
from ....wire import Step
from ..launch_key import launch_key_of
from .lease import Lease, LeaseState, StepEvent

RECLAIMED: Final = "AWS is reclaiming your machine; getting another one"
SCHEDULED: Final = "AWS stops or reboots your machine soon; getting another one"
GONE: Final = "AWS reclaimed your machine; getting another one"
UNEXPLAINED: Final = "Your machine ended, and AWS does not say why; getting another one"


def after_interruption(
    lease: Lease, over: TakenOver, subnets: tuple[str, ...], now: datetime, message: str
) -> Lease:
    """A lease for the same server, with the same files, payer, policy and start.

    `message` begins its story, for its user.
    """
    markets = markets_after(lease.sleep.after_interruption, lease.spec.markets)
    spec = replace(lease.spec, markets=markets, subnets=subnets)
    return Lease(
        lease_id=lease_id(),
        user=lease.user,
        server=lease.server,
        profile=lease.profile,
        profile_name=lease.profile_name,
        spec=spec,
        launch_key=launch_key_of(spec),
        home_kind=lease.home_kind,
        home_gib=lease.home_gib,
        idle=lease.idle,
        state=LeaseState.WAITING,
        requested_at=now,
        sealed_start=lease.sealed_start,
        extended_until=lease.extended_until,
        extended_by=lease.extended_by,
        events=(StepEvent(Step.REQUEST, now, message),),
        image=lease.image,
        after_stop=lease.after_stop,
        wait=_as_long(lease, now),
        mounts=lease.mounts,
        payer=lease.payer,
        sleep=lease.sleep,
        continues=lease.lease_id,
        taken_over=over,
    )


def _as_long(lease: Lease, now: datetime) -> Wait | None:
    """A user who waits for spot instead of paying more waits again, for as long as at first."""
    if lease.wait is None:
        return None
    return replace(lease.wait, until=now + max(lease.wait.until - lease.requested_at, timedelta()))
