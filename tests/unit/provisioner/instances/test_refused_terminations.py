"""Since when EC2 refuses to terminate an instance, and why."""

from __future__ import annotations

from ec2spawner.provisioner.model.cloud.cloud import CloudError
from tests.unit.provisioner.world import World


async def test_a_refusal_lasts_from_the_first_with_the_last_error_until_ec2_accepts(
    world: World,
) -> None:
    lease, _ = await world.ready("ada")
    instance_id = world.now(lease).instance_id or ""
    refusals = world.provisioner._state.refused_terminations
    # From here on nothing is awaited: no pass sees this.
    refusals.refused([instance_id], CloudError("Unavailable", "busy", retryable=True))
    world.clock.advance(600)
    protected = CloudError("OperationNotPermitted", "protected", retryable=False)
    refusals.refused([instance_id], protected)
    [(instance, seconds, error)] = refusals.lasting(600)
    assert (instance.instance_id, seconds, error) == (instance_id, 600, protected)
    assert list(refusals.lasting(601)) == []
    refusals.accepted([instance_id])
    assert list(refusals.lasting(0)) == []
    refusals.refused([instance_id], protected)
    assert [seconds for _, seconds, _ in refusals.lasting(0)] == [0], "the time begins anew"
