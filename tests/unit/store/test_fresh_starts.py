"""Fresh starts are read beside the hub: only those that say how long a fresh instance takes."""

from __future__ import annotations

from datetime import timedelta

from ec2spawner.core.offers.spot_wait import Wait
from ec2spawner.provisioner.model.leases.lease import Binding, LeaseState
from ec2spawner.provisioner.store.read_only import FreshStart, read_fresh_starts
from ec2spawner.provisioner.store.store import Store
from tests.stored import NOW, SECOND, lease

READY = {
    "state": LeaseState.READY,
    "assigned_at": NOW + 150 * SECOND,
    "ready_at": NOW + 170 * SECOND,
}
DAY = timedelta(days=1)


async def test_starts_on_fresh_instances_are_read_latest_first(url: str, store: Store) -> None:
    later = {"assigned_at": NOW + DAY + 150 * SECOND, "ready_at": NOW + DAY + 170 * SECOND}
    leases = [
        lease("first", instance_id="i-fresh", **READY),
        lease("second", user="bob", requested_at=NOW + DAY, **(READY | later)),
        lease("other", user="cy", profile="a10g", **READY),
        lease("waits", user="di"),
        lease("replaced", user="ed", replaced=1, **READY),
        lease("kept", user="flo", on_retained=True, **READY),
        lease("moved", user="gus", continues="first", **READY),
        lease("waited", user="hal", wait=Wait(until=NOW + DAY), **READY),
        lease("warm", user="ida", instance_id="i-warm", **READY),
    ]
    await store.save_binding(Binding("i-fresh", "key", NOW + 149 * SECOND))
    await store.save_binding(Binding("i-warm", "key", NOW - SECOND))
    for each in leases:
        await store.save_lease(each)
    found = await read_fresh_starts(url, "t4", NOW - DAY)
    assert found == [
        FreshStart(NOW + DAY, NOW + DAY + 150 * SECOND, NOW + DAY + 170 * SECOND),
        FreshStart(NOW, NOW + 150 * SECOND, NOW + 170 * SECOND),
    ]
    assert len(await read_fresh_starts(url, "t4", NOW + DAY)) == 1
