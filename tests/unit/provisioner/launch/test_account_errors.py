"""Accounts of which EC2 launches nothing: on AWS's free plan, or not verified yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.offers.spot_wait import Wait
from ec2spawner.hub.failure.diagnosis import Diagnosis
from ec2spawner.hub.pages.progress.attempt_text import response_text
from ec2spawner.hub.pages.progress.spot_wait_status import spot_wait_status
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.leases.lease import AttemptOutcome, Lease, LeaseState
from ec2spawner.wire import Market
from tests.unit.provisioner.world import SPEC, World, until

FREE_PLAN = "InvalidParameterCombination.FreeTier"
NOT_ELIGIBLE = "The specified instance type is not eligible for Free Tier."
PENDING = "PendingVerification"
VALIDATED = "Your request for accessing resources in this region is being validated"
WHOLE = pytest.mark.parametrize("whole", [False, True], ids=["entry", "call"])


def refuse(world: World, code: str, message: str, *, whole: bool, times: int = 1) -> None:
    """Let EC2 answer so: to `times` calls as a whole, or in entries until `errors` is cleared."""
    if whole:
        error = CloudError(code, message, retryable=code == PENDING)
        world.cloud.fail("launch", error, times)
    else:
        world.cloud.refuse(code, message=message)


def later(world: World, seconds: float) -> None:
    """A pass comes every few seconds; this one need not be waited for."""
    world.clock.advance(seconds)
    world.provisioner._state.wake()


async def waits(world: World, lease: Lease) -> None:
    await until(lambda: world.provisioner.spot_waits.is_waiting(world.now(lease)), "the wait")
    await world.complete_passes(3)
    assert world.now(lease).state is LeaseState.WAITING


async def asked(world: World, calls: int) -> None:
    await until(lambda: len(world.cloud.requests()) == calls, f"{calls} calls")


# --- the free plan ---------------------------------------------------------------------------


@WHOLE
async def test_a_type_that_the_plan_lacks_fails_with_the_fix_and_is_not_asked_for_again(
    world: World, caplog: pytest.LogCaptureFixture, whole: bool
) -> None:
    refuse(world, FREE_PLAN, NOT_ELIGIBLE, whole=whole)
    lease = await world.request("first")
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert "not in the AWS account's plan" in stop.message
    assert "paid plan" in stop.message
    assert "sold out" not in stop.message
    attempt = world.now(lease).attempts[-1]
    assert attempt.outcome is AttemptOutcome.REFUSED
    assert NOT_ELIGIBLE in attempt.answer
    assert "paid plan" in caplog.text
    calls = len(world.cloud.requests())
    assert calls == 1, "no zone or market would help"

    again = await world.stop_of(await world.request("second"))
    assert "paid plan" in again.message
    assert len(world.cloud.requests()) == calls

    world.cloud.errors.clear()
    world.clock.advance(601)
    third = await world.request("third")
    await asked(world, calls + 1)
    await world.settle()
    assert world.now(third).attempts[-1].outcome is AttemptOutcome.FOUND


async def test_a_type_of_the_plan_is_launched_beside_one_that_is_not(world: World) -> None:
    world.cloud.refuse(FREE_PLAN, instance_type="g4dn.xlarge", message=NOT_ELIGIBLE)
    await world.stop_of(await world.request("first"))
    small = replace(SPEC, instance_types=("g4dn.xlarge", "m5.large"))
    await world.request("second", spec=small)
    await asked(world, 2)
    assert {name for name, _ in world.cloud.requests()[-1].offers} == {"m5.large"}


# --- the verification ------------------------------------------------------------------------


@WHOLE
async def test_a_start_waits_until_aws_has_verified_the_account(
    world: World, caplog: pytest.LogCaptureFixture, whole: bool
) -> None:
    refuse(world, PENDING, VALIDATED, whole=whole, times=4)
    lease = await world.request("first")
    await waits(world, lease)
    assert "still verifying the account" in caplog.text
    for calls in range(2, 5):
        later(world, 61)
        await asked(world, calls)
        await waits(world, lease)
    [attempt] = world.now(lease).attempts
    assert attempt.outcome is AttemptOutcome.UNVERIFIED
    assert response_text(attempt) == "AWS is still verifying the account; trying again"
    shown = spot_wait_status(world.provisioner, world.now(lease))
    assert shown is not None
    assert "AWS is still verifying this hub's account" in shown["message"]
    assert (shown["until"], shown["instead"]) == (None, None), "it lasts as long as the start"
    assert shown["again_at"] == (world.clock() + timedelta(minutes=1)).isoformat()

    world.cloud.errors.clear()
    later(world, 61)
    await until(lambda: world.cloud.running(), "an instance")
    await world.settle()
    assert world.now(lease).attempts[-1].outcome is AttemptOutcome.FOUND


async def test_a_start_that_is_not_ready_in_time_names_the_verification(world: World) -> None:
    refuse(world, PENDING, VALIDATED, whole=False)
    lease = await world.request("first")
    await waits(world, lease)
    server: Any = None  # of which a timeout says nothing
    diagnosis = Diagnosis(server, server, world.provisioner)
    failure = await diagnosis.of_timeout(lease.lease_id, 900)
    assert failure.message.startswith("Your server was not ready within 15 min")
    assert "AWS is still verifying the account" in failure.message


async def test_others_wait_without_a_call_of_their_own(world: World) -> None:
    refuse(world, PENDING, VALIDATED, whole=False)
    await waits(world, await world.request("first"))
    other = replace(SPEC, instance_types=("m5.large",))
    second = await world.request("second", spec=other)
    await waits(world, second)
    await asked(world, 1)
    assert world.now(second).attempts == ()


async def test_a_wait_for_spot_ends_in_time_and_names_the_verification(world: World) -> None:
    refuse(world, PENDING, VALIDATED, whole=False)
    spot = replace(SPEC, markets=(Market.SPOT,))
    wait = Wait(until=world.clock() + timedelta(minutes=5))
    lease = await world.request("first", spec=spot, wait=wait)
    await waits(world, lease)
    later(world, 240)
    await asked(world, 2)
    later(world, 61)
    stop = await world.stop_of(lease)
    assert stop.reason == "failed"
    assert "still verifying the account" in stop.message
