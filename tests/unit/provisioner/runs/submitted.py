"""Runs in a world: submitted, started as the hub starts them, and executed by their agents."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from ec2spawner.core.names import lease_id as new_lease_id
from ec2spawner.core.runs.queue import QueueRules
from ec2spawner.provisioner.model.launch_key import launch_key_of
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.leases.run import Run, as_json
from ec2spawner.provisioner.runs.runs import Owner
from ec2spawner.provisioner.runs.summary import summary
from ec2spawner.wire import IdlePolicy, RunReport, RunSummary, RunWork
from tests.unit.provisioner.world import SPEC, Agent, World, until

RULES = QueueRules(at_once=20)

SOURCE = "c291cmNl"


def allow_runs(world: World, rules: QueueRules = RULES, **settings: Any) -> None:
    """From now on, and after each restart."""
    world.settings = replace(world.settings, runs=rules, **settings)
    world.provisioner._state.settings = world.settings


async def submit(world: World, runs: int = 1, user: str = "ada", **fields: Any) -> list[int]:
    """Numbers of new runs, all of one submission."""
    new = [
        Run(
            **{
                "number": 0,
                "user": user,
                "server": "",
                "path": "train.ipynb",
                "profile": "t4",
                "profile_name": "T4, 16 GB",
                "payer": "",
                "submitted_at": world.clock(),
                "retries": 3,
                "parameters": as_json({"seed": place}),
                **fields,
            }
        )
        for place in range(runs)
    ]
    return [each.number for each in await world.provisioner.runs.submit(Owner(user), new, SOURCE)]


async def start_due(world: World, **changes: Any) -> None:
    """What the hub's `RunStarts` does for what is due now."""
    runs = world.provisioner.runs
    starts = [runs.start(run.number, lease_of(world, run, **changes)) for run in runs.due()]
    await asyncio.gather(*starts)


def lease_of(world: World, run: Run, **changes: Any) -> Lease:
    spec = replace(SPEC, subnets=world.provisioner.homes.subnets_for(run.user, run.home))
    lease = Lease(
        lease_id=new_lease_id(),
        user=run.user,
        server=run.home,
        profile=run.profile,
        profile_name=run.profile_name,
        spec=spec,
        launch_key=launch_key_of(spec),
        home_kind="none",
        home_gib=20,
        idle=IdlePolicy(server_seconds=0.0),
        state=LeaseState.WAITING,
        requested_at=world.clock(),
        sealed_start="sealed",
        payer=run.payer,
    )
    return replace(lease, **changes)


async def executor(world: World, number: int, **changes: Any) -> Agent:
    """The agent of a run's next instance, once the run has begun there."""
    before = set(world.cloud.running())
    await start_due(world, **changes)
    await until(lambda: set(world.cloud.running()) - before, "an instance")
    [instance_id] = set(world.cloud.running()) - before
    agent = Agent(world, instance_id)
    await agent.serve()
    assert agent.lease is not None
    assert agent.lease.server == f"/run/{number}"
    assert await report(agent, "begin") is not None
    return agent


async def report(agent: Agent, action: Any, **fields: Any) -> RunWork | None:
    assert agent.lease is not None
    world = agent.world
    lease = world.provisioner._state.leases.get(agent.lease.lease_id) or agent.lease
    return await world.provisioner.runs.report(lease, RunReport(action=action, **fields))


async def complete(agent: Agent, result: str = "ZG9uZQ==") -> None:
    await report(agent, "end", succeeded=True, result=result, message="It is done")


def run_of(world: World, number: int) -> Run:
    found = world.provisioner._state.runs.get(number)
    assert found is not None
    return found


def seen(world: World, number: int, user: str = "ada") -> RunSummary:
    return summary(world.provisioner._state, world.provisioner.runs.one(Owner(user), number))
