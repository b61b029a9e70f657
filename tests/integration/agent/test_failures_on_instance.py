"""What goes wrong between instance and hub, with a real agent process and real HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from ec2spawner.agent.agent_lock import FILE
from ec2spawner.agent.claim import claim_lease, new_key
from ec2spawner.agent.hub.client import HubClient, PowerOffError
from ec2spawner.core.text.boot_log import quoted
from ec2spawner.wire import BucketMount, Certificates, Claim, HomeMount, IdlePolicy, Stop
from tests.integration.agent.lease_on_instance import (
    LEASE_TOKEN,
    PYTHON,
    SMALL_SERVER,
    Machine,
    StubHub,
    until,
)

pytestmark = pytest.mark.slow(seconds=50)

ENDS_AT_ONCE = 'raise SystemExit("no such module: torch")'

NOTHING_WORKS = IdlePolicy(server_seconds=20, cpu_busy_percent=0, gpu_busy_percent=0)


async def boot_small(
    machine: Machine, hub: StubHub, code: str = SMALL_SERVER, **changes: object
) -> None:
    """An instance whose lease runs a server that starts at once."""
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server(code), **changes))
    await until(lambda: hub.event("ready"), what="ready")


async def test_a_claim_is_repeated_until_there_is_a_lease(machine: Machine, hub: StubHub) -> None:
    hub.claim_statuses = [503, 500, 403]
    await boot_small(machine, hub)
    assert len(hub.claims) >= 4
    assert len({claim.key for claim in hub.claims}) == 1
    claim = hub.claims[0]
    assert claim.signature == "MIIBase64OfTheSignature"
    assert '"instanceId": "i-0123456789abcdef0"' in claim.document
    assert claim.boot_seconds is None
    running = [claim.agent_seconds or 0.0 for claim in hub.claims]
    assert running == sorted(set(running)), "each says how long the agent has run until then"


async def test_a_surplus_instance_powers_off_when_the_hub_says_so(
    machine: Machine, hub: StubHub
) -> None:
    hub.claim_statuses = [410]
    await machine.boot()
    await until(lambda: machine.powered_off, what="power-off")
    await until(lambda: machine.processes() == [], what="nothing runs")
    assert " ERROR " not in machine.log(), "nothing has failed"


async def test_a_claim_is_abandoned_when_no_hub_responds(hub: StubHub) -> None:
    await hub.close()
    claim = Claim(protocol=1, document="{}", signature="x", key=new_key())

    async def claim_anew() -> Claim:
        raise AssertionError("it was not refused")

    async with aiohttp.ClientSession() as http:
        with pytest.raises(PowerOffError, match="no usable answer"):
            await claim_lease(HubClient(hub.url, http), claim, claim_anew, give_up_after=0.1)


async def test_a_refused_agent_claims_again_with_a_fresh_identity(
    hub: StubHub, machine: Machine
) -> None:
    hub.claim_statuses = [503, 403]
    key, document = new_key(), '{"instanceId": "i-1"}'
    hub.give(machine.lease())

    async def claim_anew() -> Claim:
        return Claim(protocol=1, document=document, signature="whole", key=key)

    first = Claim(protocol=1, document=document, signature="cut", key=key)
    async with aiohttp.ClientSession() as http:
        grant = await claim_lease(HubClient(hub.url, http), first, claim_anew)
    assert grant.lease_id == "lease-1"
    assert [claim.signature for claim in hub.claims] == ["cut", "cut", "whole"]


async def test_a_server_that_does_not_start_says_why(machine: Machine, hub: StubHub) -> None:
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server(ENDS_AT_ONCE)))
    failed = await until(lambda: hub.event("failed"), what="failed")
    assert "no such module: torch" in failed.message
    assert hub.steps() == ["home", "notebook", "failed"]


@pytest.mark.nightly(guard="tests/unit/agent/test_agent_home.py::test_only_a_volume_id_is_searched")
async def test_a_home_that_never_attaches_fails_the_start(machine: Machine, hub: StubHub) -> None:
    await machine.boot()
    hub.give(machine.lease(home=HomeMount(kind="ebs", volume_id="../../etc")))
    failed = await until(lambda: hub.event("failed"), what="failed")
    assert "names no volume" in failed.message


async def test_a_home_that_cannot_be_linked_fails_the_start(machine: Machine, hub: StubHub) -> None:
    machine.volume("vol-1")
    machine.home.write_text("a file is in the way")
    await machine.boot()
    hub.give(machine.lease(home=HomeMount(kind="ebs", volume_id="vol-1")))
    failed = await until(lambda: hub.event("failed"), what="failed")
    assert "the home cannot be used" in failed.message


async def test_a_failing_agent_releases_everything_and_powers_off(
    machine: Machine, hub: StubHub
) -> None:
    """A lease without a command: nothing that anybody thought of."""
    await machine.boot()
    hub.give(machine.lease(command=[]))
    await until(lambda: machine.powered_off, what="power-off")
    await until(lambda: machine.processes() == [], what="nothing runs")
    assert "its log says how" in hub.event("failed").message
    assert "the agent failed: IndexError" in machine.log()


async def test_an_agent_that_has_crashed_after_its_claim_never_claims_again(
    machine: Machine, hub: StubHub
) -> None:
    """The hub would take its new key for an attack."""
    await boot_small(machine, hub)
    first, claims = machine.agent, len(hub.claims)
    await machine.start_agent()
    assert machine.agent is not None
    assert await machine.agent.wait() == 2, "somebody has tried the command"
    assert not machine.powered_off
    machine.agent = first
    await machine.crash_agent()
    await machine.start_agent()
    await until(lambda: machine.powered_off, what="power-off")
    assert len(hub.claims) == claims
    assert "crashed after its claim" in machine.log()


async def test_an_agent_that_has_crashed_before_its_claim_is_restarted(
    machine: Machine, hub: StubHub
) -> None:
    where = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
    machine.environment[where] = "http://127.0.0.1:9"  # without an answer it cannot claim
    await machine.boot()
    await until((machine.root / "run" / FILE).exists, what="it runs")
    await machine.crash_agent()
    assert not hub.claims
    del machine.environment[where]
    await machine.start_agent()
    hub.give(machine.lease(command=machine.small_server()))
    await until(lambda: hub.event("ready"), what="ready")
    assert not machine.powered_off


async def test_a_failed_start_powers_off_without_a_hub_despite_an_extension(
    machine: Machine, hub: StubHub
) -> None:
    hub.extended_until = datetime.now(UTC) + timedelta(hours=4)
    machine.before_agent = (
        "from ec2spawner.agent import lease_run; lease_run.FINAL_REPORT_SECONDS = 3"
    )
    code = "import time; time.sleep(2); " + ENDS_AT_ONCE
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server(code), hub_lost_after_seconds=3))
    await until(
        lambda: hub.heartbeats and hub.heartbeats[-1][1].state_seen == hub.state, what="it is kept"
    )
    await hub.close()
    await until(lambda: machine.powered_off, 60, what="power-off, when telling it has failed too")


async def test_without_a_hub_only_idle_instances_power_off(machine: Machine, hub: StubHub) -> None:
    """Work continues without a hub; when it is over, the instance powers itself off."""
    hub.idle = IdlePolicy(server_seconds=60, cpu_busy_percent=5, gpu_busy_percent=0)
    works = machine.root / "works"
    works.touch()
    code = (
        "import subprocess, sys\n"
        f'work = "import os\\nwhile os.path.exists({str(works)!r}): pass"\n'
        "subprocess.Popen([sys.executable, '-c', work])\n"
    )
    await boot_small(machine, hub, code + SMALL_SERVER, hub_lost_after_seconds=2.0)
    await until(lambda: hub.heartbeats and hub.heartbeats[-1][1].idle_since is None, what="work")
    await hub.close()
    await asyncio.sleep(4)
    assert not machine.powered_off
    works.unlink()
    await until(lambda: machine.powered_off, what="power-off")
    assert "unreachable for too long" in quoted(machine.log()), "its admin sees why"


@pytest.mark.nightly(
    guard="tests/unit/agent/test_agent_retry_after.py::"
    "test_a_hub_that_refuses_a_heartbeat_has_the_next_one"
)
async def test_a_hub_that_returns_finds_the_server_unchanged(
    machine: Machine, hub: StubHub
) -> None:
    hub.idle = NOTHING_WORKS
    await boot_small(machine, hub)
    server = await machine.notebook_server()
    port = int(hub.url.split(":")[2].split("/")[0])
    await until(lambda: hub.heartbeats, what="a heartbeat")
    await hub.close()
    seen = len(hub.heartbeats)
    await asyncio.sleep(0.5)
    await hub.start(port)
    await until(lambda: len(hub.heartbeats) > seen, what="heartbeats again")
    assert server.is_running()
    assert hub.steps() == ["home", "notebook", "ready"]


OTHER_STATUSES = pytest.mark.nightly(
    guard="tests/unit/agent/test_agent_retry_after.py::"
    "test_a_hub_that_refuses_a_heartbeat_has_the_next_one"
)


@pytest.mark.parametrize(
    "status",
    [404, pytest.param(401, marks=OTHER_STATUSES), pytest.param(500, marks=OTHER_STATUSES)],
)
async def test_only_410_ends_a_lease(machine: Machine, hub: StubHub, status: int) -> None:
    hub.idle = NOTHING_WORKS
    await boot_small(machine, hub)
    server = await machine.notebook_server()
    hub.lease_status = status
    hub.notify_changed()
    seen = len(hub.heartbeats)
    await asyncio.sleep(1)
    hub.lease_status = 200
    await until(lambda: len(hub.heartbeats) > seen, what="heartbeats again")
    assert server.is_running()
    hub.lease_status = 410
    hub.notify_changed()
    await until(lambda: machine.powered_off, what="power-off")
    assert not server.is_running()


STUBBORN_SERVER = f"""
import subprocess
subprocess.Popen(["sh", "-c", "trap '' TERM; echo $$ >user.new; mv user.new user; sleep 60"])
{SMALL_SERVER}
"""

MOUNT_WITH_A_DAEMON = """#!/bin/bash
# Like mount.efs and mount-s3: the process behind the mount outlives this command.
setsid bash -c '
    say() { if kill -0 $(<{home}/user); then echo too early; else echo in time; fi >{said}; }
    trap "say; exit" TERM
    while :; do sleep 0.1; done  # which is ended too, maybe first
' &
"""


async def test_the_process_behind_a_mount_outlives_the_users_processes(
    machine: Machine, hub: StubHub
) -> None:
    """A home on EFS is written down through its tunnel, a bucket by its daemon."""
    said, programs = machine.root / "said", machine.root / "bin"
    programs.mkdir()
    (machine.root / "root").mkdir()
    script = MOUNT_WITH_A_DAEMON.replace("{home}", str(machine.home)).replace("{said}", str(said))
    (programs / "mount-s3").write_text(script)
    (programs / "mount-s3").chmod(0o755)
    machine.environment = {
        "PATH": f"{programs}:{PYTHON.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "EC2SPAWNER_ROOT": str(machine.root / "root"),
    }
    bucket = BucketMount(bucket="my-data", path="/data/my-data")
    await boot_small(machine, hub, STUBBORN_SERVER, buckets=[bucket])
    await until(lambda: (machine.home / "user").exists(), what="a process that stays")
    hub.stop = Stop(reason="user")
    hub.notify_changed()
    await until(lambda: hub.event("stopped"), what="stopped")
    assert said.read_text() == "in time\n"
    assert machine.processes() == []


@pytest.fixture
def full_run_dir(machine: Machine) -> Iterator[None]:
    run = machine.root / "run"
    run.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=1", "tmpfs", str(run)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: mounting needs root: {made.stderr}")
    yield
    subprocess.run(["umount", "--lazy", str(run)], check=True)


@pytest.mark.usefixtures("full_run_dir")
async def test_a_lease_continues_when_the_agents_disk_is_full(
    machine: Machine, hub: StubHub
) -> None:
    """Neither the notebook's log nor the agent's socket can be made on a full disk."""
    await boot_small(machine, hub)
    await until(lambda: len(hub.heartbeats) >= 2, what="heartbeats")
    assert "the notebook has no log" in machine.log()
    assert "cannot connect to the agent" in machine.log()
    hub.stop = Stop(reason="user")
    hub.notify_changed()
    await until(lambda: hub.event("stopped"), what="stopped")


async def test_a_server_whose_certificates_cannot_be_written_says_so(
    machine: Machine, hub: StubHub
) -> None:
    (machine.root / "run").mkdir()
    (machine.root / "run" / "certificates").touch()  # which no folder can take the place of
    await machine.boot()
    granted = Certificates(key="", certificate="", ca="")
    hub.give(machine.lease(command=machine.small_server(), certificates=granted))
    failed = await until(lambda: hub.event("failed"), what="failed")
    assert "certificates cannot be written" in failed.message


async def test_heartbeats_are_held_and_answered_at_once(machine: Machine, hub: StubHub) -> None:
    """No news, no call; news of the hub's reach the instance without waiting."""
    hub.idle = NOTHING_WORKS
    await boot_small(machine, hub)
    await until(lambda: len(hub.heartbeats) >= 2, what="the first, and a held one")
    seen = len(hub.heartbeats)
    await asyncio.sleep(1.5)
    assert len(hub.heartbeats) - seen <= 1
    hub.extended_until = datetime.now(UTC) + timedelta(hours=1)
    asked = time.monotonic()
    hub.notify_changed()
    await until(lambda: hub.heartbeats[-1][1].state_seen == hub.state, what="the new state is seen")
    assert time.monotonic() - asked < 40  # the call is held for 50
    heartbeat = hub.heartbeats[-1][1]
    assert 0 < (heartbeat.sent_at - heartbeat.idle_since).total_seconds() < 60
    assert LEASE_TOKEN not in machine.log()
