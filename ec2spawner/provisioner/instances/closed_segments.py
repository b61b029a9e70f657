"""What a lease pays for its instance, once that has ended: by EC2's account of the end."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from ...core.ledger.instance_end import InstanceEnd, close_at_end
from ...core.ledger.segments import Segment, close
from ..model.cloud.cloud import Cloud, CloudError
from ..model.leases.lease import Lease
from ..offers.prices import PriceCache
from ..state.state import State

log = logging.getLogger(__name__)

UNMEASURED: Final = timedelta(minutes=10)
"""An instance without a value in CloudWatch ran for less: there is one for each five minutes, some
minutes later."""

MAX_WITHOUT_HUB: Final = timedelta(minutes=30)
"""For which an instance without a lease and without a hub runs at most: `agent.claim` powers it off
after 15 minutes, the timer that user-data installs 30 minutes after its boot."""

METRICS_LAST: Final = timedelta(days=63)
"""For so long CloudWatch keeps values of five minutes."""


async def wait_for_prices(prices: PriceCache, lease: Lease) -> None:
    """Call it before `closed_segments`, and before what that is given is read: a hub that begins
    knows the prices of before it some seconds later."""
    await prices.first_readings.wait({each.instance_type for each in lease.segments})


async def closed_segments(
    state: State, cloud: Cloud, prices: PriceCache, lease: Lease, now: datetime
) -> tuple[Segment, ...]:
    """The segments, ended when EC2 ended their instance, or `now` where it runs.

    EC2 lists an ended instance for about an hour; what ended while no hub ran may be listed no
    more, and then its metrics say until when it ran.
    """
    instance_id, instance = lease.instance_id or "", state.instances.instance_of(lease)
    segments = prices.completed(lease.segments, instance, lease.spec)
    if instance_id not in state.instances.unseen or not state.instances.is_gone(instance_id):
        return close_at_end(segments, now, state.instances.end_of(instance))
    began = [each.start for each in segments if each.instance_id == instance_id]
    if not began or now - began[0] > METRICS_LAST:
        return close(segments, now)
    try:
        ran = await cloud.ran_until([instance_id], began[0], now)
    except CloudError as error:
        log.error(
            "When %s ended is not known, so %s is charged until now. CloudWatch: %s",
            instance_id,
            lease.lease_id,
            error,
        )
        return close(segments, now)
    ended_at = ran.get(instance_id, began[0] + UNMEASURED)
    end = InstanceEnd(instance_id, began[0], ended_at, was_interrupted=False)
    return close_at_end(segments, now, end)
