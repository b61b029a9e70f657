"""The legs of every life: start, stop, reap, clusters and runs, as users and admins meet them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from uuid import uuid4

from ec2spawner.wire import ClusterJoin
from tests.bench.kill.life import WITHIN, Leg, Life
from tests.harness import until

ANN, BOB = "ann", "bob"
"""Ann's server is there from the first leg on; what happens, happens to Bob."""

WORKERS, SCALED = 3, 5
"""Of Bob's cluster, and once it was scaled."""

JOIN = ClusterJoin(
    engine="ray",
    address="127.0.0.1:6379",
    token="t" * 32,
    python=sys.executable,
    python_version="3.11.0",
    engine_version="2.52.0",
).model_dump(mode="json")
"""The workers of this bench join nothing: the stub of `Embedded` is what they run."""


SCRIPT = "import time; print('begun', flush=True); time.sleep(3)"
"""What a run executes: long enough to lose its instance meanwhile."""


async def nothing(_: Life) -> None:
    pass


async def first_start(life: Life) -> None:
    """Of a new hub: its launch template and a home are made."""
    await life.hub.start_server(ANN, options={"profile": "plain"})


async def ann_is_ready(life: Life) -> None:
    await life.ensure_ready(ANN)
    life.bystanders.add(ANN)


async def bob_is_ready(life: Life) -> None:
    await ann_is_ready(life)
    await life.ensure_ready(BOB)


async def stop_of_user(life: Life) -> None:
    await life.hub.stop_server(BOB)


async def bob_is_gone(life: Life) -> None:
    await life.ensure_gone(BOB)


async def bob_has_a_home(life: Life) -> None:
    await bob_is_ready(life)
    await life.ensure_gone(BOB)


async def start_again(life: Life) -> None:
    await life.hub.start_server(BOB, options={"profile": "plain"})


async def end_by_hand(life: Life) -> None:
    """Somebody terminates the instance in the AWS console."""
    instance_id = life.instance_of(BOB)
    await life.account.run(lambda ec2: ec2.terminate_instances(InstanceIds=[instance_id]))


async def launch_stray(life: Life) -> None:
    """An instance of ours that no lease has asked for."""
    described = life.hub.embedded.described
    await asyncio.to_thread(
        life.account.launch_stray, described["image_id"], described["subnets"][0]
    )


async def stray_is_gone(life: Life) -> None:
    async def nobodys_is_gone() -> bool:
        return not await life.account.problems([])

    await until(nobodys_is_gone, WITHIN, "the stray instance to be gone")


async def bob_is_brief(life: Life) -> None:
    """Nothing works on his server, and its profile allows that for seconds only."""
    await ann_is_ready(life)
    await life.ensure_gone(BOB)
    await life.ensure_ready(BOB, "brief")


async def bob_ends(life: Life) -> None:
    await life.hub.wait_gone(BOB, timeout=WITHIN)


async def silence(life: Life) -> None:
    """The agent stops answering, on an instance that runs on."""
    instance_id = life.instance_of(BOB)
    for instance in await life.hub.embedded.instances():
        if instance["instance_id"] == instance_id:
            for process in instance["processes"]:
                with suppress(ProcessLookupError):
                    os.kill(process["pid"], signal.SIGSTOP)


async def bob_has_no_cluster(life: Life) -> None:
    await ann_is_ready(life)
    await life.ensure_gone(BOB)
    await life.ensure_ready(BOB)


async def begin_cluster(life: Life) -> None:
    await life.ask_cluster(BOB, action="start", workers=WORKERS, join=JOIN)
    await life.wait_workers(BOB, WORKERS)


async def bob_has_a_cluster(life: Life) -> None:
    await bob_is_ready(life)
    if len(life.workers_of(BOB)) != WORKERS:
        await bob_has_no_cluster(life)
        await begin_cluster(life)


async def end_a_worker_by_hand(life: Life) -> None:
    life.victim = str(life.workers_of(BOB)[0].instance_id)
    await end_victim_by_hand(life)


async def worker_is_replaced(life: Life) -> None:
    await life.wait_workers(BOB, WORKERS, without=life.victim)


async def scale_cluster(life: Life) -> None:
    """To more workers, and back."""
    for number in (SCALED, WORKERS):
        await life.ask_cluster(BOB, action="scale", workers=number)
        await life.wait_workers(BOB, number)


async def bob_scales(life: Life) -> None:
    """What he has asked for is there by now, and he can still ask for more."""
    await life.ask_cluster(BOB, action="scale", workers=WORKERS)
    await life.wait_workers(BOB, WORKERS)


async def stop_with_workers(life: Life) -> None:
    await stop_of_user(life)
    await life.wait_workers(BOB, 0)


async def interrupt_server(life: Life) -> None:
    """EC2 reclaims its instance, after a notice."""
    life.victim = life.instance_of(BOB)
    await life.interrupt(life.victim)


async def continues_without_workers(life: Life) -> None:
    """On another instance."""

    async def has_moved() -> bool:
        ready = [
            x for x in life.hub.leases() if x.user == BOB and x.state == "ready" and not x.head
        ]
        return any(x.instance_id != life.victim for x in ready)

    await until(has_moved, WITHIN, "the server to continue on another instance")
    await life.wait_workers(BOB, 0)


async def bob_is_idle_with_workers(life: Life) -> None:
    await life.ask_cluster(BOB, action="start", workers=WORKERS, profile="plain", join=JOIN)
    await bob_ends(life)
    await life.wait_workers(BOB, 0)


async def bob_has_no_run(life: Life) -> None:
    await bob_is_ready(life)
    life.request_id = uuid4().hex


async def run_completes(life: Life) -> None:
    """The same request after a death finds the run, or makes it if it was not stored."""
    await life.complete_run(BOB, await life.submit_run(BOB, SCRIPT))


async def bob_has_a_run(life: Life) -> None:
    await bob_has_no_run(life)
    life.victim = await life.instance_of_run(BOB, await life.submit_run(BOB, SCRIPT))


async def end_victim_by_hand(life: Life) -> None:
    """EC2 takes it without a notice."""
    await life.account.run(lambda ec2: ec2.terminate_instances(InstanceIds=[life.victim]))


LEGS = (
    Leg("first start", nothing, first_start, ann_is_ready, user=ANN),
    Leg("stop", bob_is_ready, stop_of_user, bob_is_gone, user=BOB),
    Leg("start again", bob_has_a_home, start_again, bob_is_ready, user=BOB),
    Leg(
        "reap: ended by hand",
        bob_is_ready,
        bob_ends,
        nothing,
        user=BOB,
        must_be_gone=True,
        happens=end_by_hand,
    ),
    Leg("reap: unowned", ann_is_ready, stray_is_gone, nothing, happens=launch_stray),
    Leg("reap: idle", bob_is_brief, bob_ends, nothing, user=BOB, must_be_gone=True),
    Leg("cluster: begin", bob_has_no_cluster, begin_cluster, nothing, user=BOB),
    Leg(
        "cluster: worker lost",
        bob_has_a_cluster,
        worker_is_replaced,
        bob_scales,
        user=BOB,
        happens=end_a_worker_by_hand,
    ),
    Leg("cluster: scale", bob_has_a_cluster, scale_cluster, bob_scales, user=BOB),
    Leg("cluster: stop of its server", bob_has_a_cluster, stop_with_workers, bob_is_gone, user=BOB),
    Leg(
        "cluster: its server ended by hand",
        bob_has_a_cluster,
        bob_ends,
        nothing,
        user=BOB,
        must_be_gone=True,
        happens=end_by_hand,
    ),
    Leg(
        "cluster: its server interrupted",
        bob_has_a_cluster,
        continues_without_workers,
        bob_is_ready,
        user=BOB,
        happens=interrupt_server,
    ),
    Leg(
        "cluster: its server idle",
        bob_is_brief,
        bob_is_idle_with_workers,
        nothing,
        user=BOB,
        must_be_gone=True,
    ),
    Leg("run: completes", bob_has_no_run, run_completes, run_completes, user=BOB),
    Leg(
        "run: instance lost",
        bob_has_a_run,
        run_completes,
        run_completes,
        user=BOB,
        happens=end_victim_by_hand,
    ),
    Leg(
        "reap: silent",
        bob_is_ready,
        bob_ends,
        nothing,
        user=BOB,
        must_be_gone=True,
        happens=silence,
    ),
)

SHORT_LEGS = tuple(leg for leg in LEGS if not leg.must_be_gone)
"""Without those that wait for a time to pass."""
