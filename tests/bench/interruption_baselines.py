"""What interruptions and sleep are compared with: a server that is started again by hand, and a
start that wakes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.bench.interrupted_work import NOTEBOOK, WORKING_TIMEOUT, Worker
from tests.harness import Hub, until
from tests.jupyter_by_hand import Jupyter, Kernel, of_kind, printed

BY_HAND = (
    "c.EC2Spawner.interruption = {'then': 'stop'}",
    "c.EC2Spawner.sleep = {'save': 0}",
    "c.EC2Spawner.idle = {'server': '1h', 'then': 'stop'}",
)
"""The configuration of a hub whose servers neither continue nor sleep."""

IDLE = (
    "c.EC2Spawner.idle = {'server': '1h', 'warn': '1s', 'user_may_set': {'server': ['1s', '1h']}}"
)

FILL = "import os; big = os.urandom({size})"
CHECK = "print(big[-8:].hex(), len(big))"

SAVE_TIMEOUT = 300.0
"""Seconds for an idle server to be gone with its session saved."""


@dataclass(frozen=True, slots=True)
class ByHand:
    """An interruption without sleep. Seconds from the notice until a cell has run."""

    seconds: float
    variables_lost: int


@dataclass(frozen=True, slots=True)
class Waking:
    """An idle stop and the start after it, in seconds."""

    start: float
    """From the click until a cell has run, where nothing is woken."""
    stop: float
    """From the shortest idle limit until the server is gone."""
    wake: float
    """From the click until a cell has run that uses what was saved."""


async def interrupt_by_hand(hub: Hub, user: str, notice_seconds: float) -> ByHand:
    """The fastest of users: who stops the server at the notice, starts it again, and runs all cells
    anew."""
    before = {each["instance_id"] for each in await hub.embedded.instances()}
    await hub.start_server(user)
    async with Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user)) as http:
        worker = Worker(hub, user, http)
        await worker.begin()
        expected = await worker.change(0)
        [taken] = {each["instance_id"] for each in await hub.embedded.instances()} - before
        began = time.perf_counter()
        await hub.embedded.control(f"interrupt/{taken}", {"notice_seconds": notice_seconds})
        await hub.stop_server(user)
    await hub.start_server(user)
    async with Jupyter(f"{hub.url}/user/{user}/", await hub.user_token(user)) as http:
        again = Worker(hub, user, http)
        await again.define()
        found = await again.read()
        seconds = time.perf_counter() - began
    await hub.stop_server(user)
    lost = [x for x in expected.variables if found.get(x) != expected.variables[x]]
    return ByHand(seconds, len(lost))


async def idle_stop_and_wake(hub: Hub, user: str, size: int) -> Waking:
    """With one variable of `size` bytes."""
    base = f"{hub.url}/user/{user}/"
    began = time.perf_counter()
    await hub.start_server(user)
    async with Jupyter(base, await hub.user_token(user)) as http:
        worker = Worker(hub, user, http)
        await worker.define()
        start = time.perf_counter() - began
        kernel = Kernel(http, worker.kernel)
        assert printed(await kernel.run(FILL.format(size=size))) == ""
        expected = printed(await kernel.run(CHECK))
        began = time.perf_counter()
        status, said = await http.call("POST", "ec2spawner/api/idle", json={"server_seconds": 1})
        assert status == 200, said
        await hub.wait_gone(user, timeout=SAVE_TIMEOUT)
    stop = time.perf_counter() - began

    began = time.perf_counter()
    await hub.start_server(user)
    async with Jupyter(base, await hub.user_token(user)) as http:
        assert await _first_cell(http, worker.kernel) == expected
        wake = time.perf_counter() - began
    await hub.stop_server(user)
    return Waking(start, stop, wake)


async def _first_cell(http: Jupyter, kernel: str) -> str:
    """What the check prints in the woken kernel, as soon as there is one."""

    async def is_there() -> bool:
        return (await http.call("GET", f"api/kernels/{kernel}"))[0] == 200

    await until(is_there, WORKING_TIMEOUT, f"the kernel of {NOTEBOOK}")
    said = await Kernel(http, kernel).run(CHECK)
    errors = [each["ename"] for each in of_kind(said, "error")]
    return printed(said) if not errors else f"{errors}"
