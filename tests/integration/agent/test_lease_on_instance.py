"""A lease from the claim to the stop, with real processes: agent, notebook, kernel, terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from ec2spawner.wire import ExtendResponse, HomeMount, IdlePolicy, IdleResponse, Stop
from tests.integration.agent.lease_on_instance import (
    API_TOKEN,
    EVES_TOKEN,
    LEASE_TOKEN,
    SERVICES_TOKEN,
    SMALL_SERVER,
    Machine,
    StubHub,
    until,
)
from tests.jupyter_by_hand import Jupyter

pytestmark = pytest.mark.slow(seconds=40)

VOLUME = "vol-0123456789abcdef0"


async def test_a_lease_from_claim_to_stop(machine: Machine, hub: StubHub) -> None:
    machine.notebook = "jupyterlab"
    volume = machine.volume(VOLUME)
    (volume / "notes.txt").write_text("kept")
    await machine.boot()
    await until(lambda: hub.claims, what="a claim")
    await machine.until_warm()
    grant = machine.lease(home=HomeMount(kind="ebs", volume_id=VOLUME))
    hub.give(grant)
    await until(lambda: hub.event("ready"), what="ready")
    ready_at = next(at for at, event in hub.events if event.step == "ready")
    print(f"grant to ready: {ready_at - hub.granted_at:.3f} s")
    assert hub.steps() == ["home", "notebook", "ready"]
    assert hub.event("ready").port == machine.port
    assert (machine.home / "notes.txt").read_text() == "kept"

    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        assert (await ada.call("GET", "api/contents/notes.txt"))[0] == 200
        assert (await ada.call("GET", "lab/api/settings"))[0] == 200
        assert (await ada.call("POST", "api/contents", json={"type": "file"}))[0] == 201
        await until(lambda: hub.heartbeats, what="a heartbeat")
        assert hub.heartbeats[0][1].idle_since is not None
        server = await machine.notebook_server()
        agent = psutil.Process(machine.agent.pid)
        for process in (server, agent):
            seen_by_others = f"{process.cmdline()} {process.environ()}"
            for secret in (LEASE_TOKEN, API_TOKEN, hub.claims[0].key):
                assert secret not in seen_by_others
        assert hub.claims[0].key not in machine.log()
        assert LEASE_TOKEN not in machine.log()

    hub.stop = Stop(reason="user", message="You stopped it.")
    hub.notify_changed()
    await until(lambda: hub.event("stopped"), what="stopped")
    assert hub.event("stopped").home_released
    assert not machine.home.is_symlink()
    assert machine.processes() == []
    assert not machine.powered_off
    assert not hub.heartbeats[0][1].has_stopped

    def repeats_it() -> bool:
        hub.notify_changed()
        return hub.heartbeats[-1][1].has_stopped

    await until(repeats_it, what="a heartbeat that repeats it")

    hub.lease_status = 410
    hub.notify_changed()
    await until(lambda: machine.powered_off, what="power-off")
    assert await machine.shut_down() == 0
    assert (volume / "notes.txt").read_text() == "kept"


WORK = """
import os, time
while not os.path.exists({file!r}):
    time.sleep(0.05)
"""
"""A cell that runs until its test makes a file."""


async def test_user_input_is_activity_and_an_open_tab_is_not(
    machine: Machine, hub: StubHub
) -> None:
    machine.notebook = "jupyterlab"
    hub.idle = IdlePolicy(
        server_seconds=60, warn_seconds=20, cpu_busy_percent=0, gpu_busy_percent=0
    )
    await machine.boot()
    hub.give(machine.lease())
    await until(lambda: hub.event("ready"), what="ready")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:

        async def idleness(busy_because: str) -> Any:
            """What is shown as soon as this is what keeps the server; empty for nothing."""
            found = None
            try:
                async with asyncio.timeout(90):
                    while not found or found["busy_because"] != busy_because:
                        found = (await ada.status())["idleness"]
                        await asyncio.sleep(0.05)
            except TimeoutError:
                raise AssertionError(f"not {busy_because!r}, but {found}") from None
            assert (found["idle_since"] is None) == bool(busy_because)
            return found

        async def idle_since() -> datetime:
            return datetime.fromisoformat((await idleness(""))["idle_since"])

        kernel = await ada.start_notebook("train.ipynb")
        finished = machine.home / "finished"
        channels = await ada.execute(kernel, WORK.format(file="finished"))
        busy = await idleness("train.ipynb is running")
        assert busy["busy"] == {"code": "kernel-running", "params": {"name": "train.ipynb"}}
        assert busy["stop_at"] is None

        end = datetime.now(UTC)
        finished.touch()
        since = await idle_since()
        assert since > end - timedelta(seconds=1)
        await until(lambda: hub.heartbeats[-1][1].idle_since == since, what="the hub knows")

        # A second tab connects, greets the kernel and its debugger, and looks around.
        second = await ada.http.ws_connect(f"{ada.base_url}api/kernels/{kernel}/channels")
        for path in ("api/kernels", "api/sessions", "api/terminals", "api/contents"):
            assert (await ada.call("GET", path))[0] == 200
        await asyncio.sleep(0.5)
        assert await idle_since() == since

        # The idle kernel is shut down; the tabs that look at it do not keep it.
        hub.idle = hub.idle.model_copy(update={"kernel_seconds": 1})
        hub.notify_changed()
        async with asyncio.timeout(90):
            while (await ada.call("GET", "api/kernels"))[1]:
                await asyncio.sleep(0.05)
        await channels.close()
        await second.close()

        # A silent job in a terminal works; its end is the beginning of the idle time.
        _, terminal = await ada.call("POST", "api/terminals")
        url = f"{ada.base_url}terminals/websocket/{terminal['name']}"
        socket = await ada.http.ws_connect(url)
        await socket.send_str(json.dumps(["stdin", "sleep 900\r"]))
        await idleness("sleep runs in a terminal")
        await socket.send_str(json.dumps(["stdin", "\x03"]))
        before = await idle_since()
        await socket.close()

        assert (await ada.call("POST", "ec2spawner/api/input", json={}))[0] == 200
        async with asyncio.timeout(90):
            while await idle_since() <= before:
                await asyncio.sleep(0.05)


async def test_requests_of_the_buttons_reach_the_hub(machine: Machine, hub: StubHub) -> None:
    machine.notebook = "jupyterlab"
    hub.idle = IdlePolicy(server_seconds=300, cpu_busy_percent=0, gpu_busy_percent=0)
    await machine.boot()
    hub.give(machine.lease())
    await until(lambda: hub.event("ready"), what="ready")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:

        async def until_status(condition: Any) -> Any:
            async with asyncio.timeout(90):
                while not condition(status := await ada.status()):
                    await asyncio.sleep(0.05)
            return status

        status = await until_status(lambda each: each["cost"])
        assert (status["managed"], status["agent_connected"]) == (True, True)
        assert status["profile"] == "T4, 16 GB"
        assert status["instance_type"] == "g4dn.xlarge"
        assert status["cost"]["usd_per_hour"] == 0.5
        status = await until_status(lambda each: each["telemetry"])
        assert status["telemetry"]["gpu_source"] == "simulated"

        code, said = await ada.call("POST", "ec2spawner/api/extend", json={"seconds": 60})
        assert (code, said["sentence"]["params"]) == (409, {"detail": "no more extensions"})
        code, said = await ada.call("POST", "ec2spawner/api/extend", json={"seconds": -1})
        assert code == 400
        until_then = datetime.now(UTC) + timedelta(hours=1)
        hub.extend_answer = ExtendResponse(extended_until=until_then)
        code, said = await ada.call("POST", "ec2spawner/api/extend", json={"seconds": 3600})
        assert (code, said["ok"]) == (200, True)
        status = await until_status(lambda each: each["extended_until"])
        assert datetime.fromisoformat(status["idleness"]["stop_at"]) == until_then

        chosen = {"server_seconds": 1800}
        code, said = await ada.call("POST", "ec2spawner/api/idle", json=chosen)
        assert (code, said["sentence"]["params"]) == (409, {"detail": "no choice of it"})
        code, said = await ada.call("POST", "ec2spawner/api/idle", json={"server_seconds": 0})
        assert code == 400
        got = {"server_seconds": 900, "user_server_seconds": 900, "user_server_max_seconds": 900}
        hub.idle_answer = IdleResponse(idle=hub.idle.model_copy(update=got), bounded=True)
        code, said = await ada.call("POST", "ec2spawner/api/idle", json=chosen)
        assert code == 200
        allowed = {"min_seconds": 0, "max_seconds": 900, "seconds": 900}
        assert said["sentence"] == {"code": "idle-time-bounded", "params": allowed}
        status = await until_status(lambda each: each["idle_policy"]["server_seconds"] == 900)

        status = await ada.status()
        assert status["can_control"]
        assert (status["cost"]["today_usd"], status["cost"]["month_usd"]) == (1.25, 20.5)
        assert "budget" in {notice["kind"] for notice in status["notices"]}
        for token in (EVES_TOKEN, SERVICES_TOKEN):
            async with Jupyter(machine.base_url, token) as other:
                status = await other.status()
                assert (status["managed"], status["can_control"]) == (True, False)
                assert status["cost"]["usd_per_hour"] == 0.5, "what this server costs"
                in_all = {status["cost"][f"{name}_usd"] for name in ("today", "month", "budget")}
                assert in_all == {None}, "what its owner spends"
                assert "budget" not in {notice["kind"] for notice in status["notices"]}
                pressed = {"seconds": 60, "server_seconds": 60}
                for button in ("stop", "sleep", "extend", "idle", "continue"):
                    code, said = await other.call("POST", f"ec2spawner/api/{button}", json=pressed)
                    assert (code, said["sentence"]["code"]) == (403, "owner-only")
                assert (await other.call("GET", "ec2spawner/api/hardware"))[0] == 403
        assert (await ada.call("GET", "ec2spawner/api/hardware"))[1]["choices"][0]["name"] == "A10G"
        moves = [{}, {"profile": "a10g"}, {"profile": "sold-out"}, {"profile": ""}]
        replies = [await ada.call("POST", "ec2spawner/api/continue", json=each) for each in moves]
        assert [code for code, _ in replies] == [200, 200, 409, 400]
        assert [said["state"] for _, said in replies[:2]] == ["none", "looking"]
        assert replies[2][1]["sentence"]["params"] == {"detail": "not now"}
        assert hub.stop_asked == 0
        assert (await ada.call("POST", "ec2spawner/api/stop", json={}))[0] == 200
        assert hub.stop_asked == 1
        assert (await ada.call("POST", "ec2spawner/api/sleep", json={}))[0] == 200
        assert (hub.stop_asked, hub.sleep_asked) == (2, 1)
        url = f"{machine.base_url}ec2spawner/api/status"
        async with aiohttp.ClientSession() as nobody, nobody.get(url) as answer:
            assert answer.status == 403


WITH_A_DAEMON = f"""
import subprocess
subprocess.Popen(["setsid", "sleep", "300"], start_new_session=True)
{SMALL_SERVER}
"""


async def test_a_killed_server_leaves_nothing_behind(machine: Machine, hub: StubHub) -> None:
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server(WITH_A_DAEMON)))
    await until(lambda: hub.event("ready"), what="ready")
    server = await machine.notebook_server()
    assert len(machine.processes()) >= 2
    server.kill()
    stopped = await until(lambda: hub.event("stopped"), what="stopped")
    assert "was killed by SIGKILL" in stopped.message
    assert machine.processes() == []


REPORTS_LATE = "from ec2spawner.agent import lease_run; lease_run.SHUTDOWN_REPORT_SECONDS = 60"
"""The report of a shutdown has three seconds, which are over soon on a busy machine."""


async def test_an_instance_shutdown_ends_everything_in_order(
    machine: Machine, hub: StubHub
) -> None:
    machine.before_agent = REPORTS_LATE
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server()))
    await until(lambda: hub.event("ready"), what="ready")
    left = machine.processes()
    assert left
    assert await machine.shut_down() == 0
    assert [each for each in left if each.is_running() and each.status() != "zombie"] == []
    assert hub.event("stopped").message == "The machine was shut down."
    assert not machine.powered_off


async def test_a_second_signal_does_not_cut_the_shutdown_short(
    machine: Machine, hub: StubHub
) -> None:
    machine.before_agent = REPORTS_LATE
    stubborn = (
        "import signal; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n"
    )
    await machine.boot()
    hub.give(machine.lease(command=machine.small_server(stubborn + SMALL_SERVER)))
    await until(lambda: hub.event("ready"), what="ready")
    machine.agent.send_signal(signal.SIGTERM)
    log = machine.root / "run" / "notebook.log"
    await until(lambda: "asked" in log.read_text(), what="the server is asked to end")
    assert await machine.shut_down() == 0
    assert machine.log().count("already stopping") == 1
    assert hub.event("stopped").message == "The machine was shut down."


async def test_a_custom_command_of_the_admin_is_executed(machine: Machine, hub: StubHub) -> None:
    await machine.boot()
    grant = machine.lease(command=machine.small_server())
    hub.give(grant)
    await until(lambda: hub.event("ready"), what="ready")
    server = await machine.notebook_server()
    assert "small_server.py" in server.cmdline()[-1]
    assert server.environ()["MARKER_OF_THE_LEASE"] == "here"
    assert not [name for name in server.environ() if name.startswith("EC2SPAWNER_N")]
    assert Path(server.cwd()) == machine.home
    assert psutil.Process(machine.agent.pid).uids().real == os.getuid()


SYSTEM_PYTHON = Path("/usr/bin/python3")


@pytest.mark.skipif(
    os.geteuid() != 0 or not SYSTEM_PYTHON.exists(),
    reason="NOT TESTED: another notebook user needs root and a Python that they may run",
)
async def test_the_notebook_runs_as_the_notebook_user(machine: Machine, hub: StubHub) -> None:
    machine.root.chmod(0o755)
    machine.environment["EC2SPAWNER_NOTEBOOK_USER"] = "65534:65534"
    machine.volume(VOLUME)
    await machine.boot()
    command = [str(SYSTEM_PYTHON), *machine.small_server()[1:]]
    hub.give(machine.lease(command=command, home=HomeMount(kind="ebs", volume_id=VOLUME)))
    await until(lambda: hub.event("ready"), what="ready")
    server = await machine.notebook_server()
    assert set(server.uids()) == {65534}
    assert set(server.gids()) == {65534}
    status = await asyncio.to_thread(Path(f"/proc/{server.pid}/status").read_text)
    (groups,) = [line.split()[1:] for line in status.splitlines() if line.startswith("Groups:")]
    assert set(groups) <= {"65534"}
    home = machine.home.resolve()
    assert (home.stat().st_uid, Path(server.cwd())) == (65534, home)
    assert not [each for each in (machine.root / "run").iterdir() if each.stat().st_mode & 0o077]
    await machine.shut_down()
    assert hub.event("stopped")
    assert not server.is_running()
