"""What the notebook's process was never near: the agent's key and the lease token."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.integration.agent.lease_on_instance import LEASE_TOKEN, Machine, StubHub, until

ADDRESSES = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r")


def holds(pid: int, secrets: dict[str, bytes]) -> set[str]:
    """Which of the secrets are anywhere in a process's memory, environment or arguments."""
    found = set()
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for begin, end in ADDRESSES.findall(Path(f"/proc/{pid}/maps").read_text()):
            try:
                memory.seek(int(begin, 16))
                part = memory.read(int(end, 16) - int(begin, 16))
            except (OSError, ValueError, OverflowError):
                continue  # what the kernel hides from every process
            found |= {name for name, secret in secrets.items() if secret in part}
    return found


@pytest.mark.parametrize("warm", [True, False], ids=["waiting", "cold"])
async def test_the_notebooks_memory_never_held_the_agents_secrets(
    machine: Machine, hub: StubHub, warm: bool
) -> None:
    await machine.boot()
    assert machine.agent is not None
    if warm:
        await machine.until_warm()
    changes = {} if warm else {"command": machine.small_server()}
    hub.give(machine.lease(**changes))
    await until(lambda: hub.event("ready"), 60, "the notebook to listen")
    server = await machine.notebook_server()
    secrets = {
        "the agent's key": hub.claims[0].key.encode(),
        "the lease token": LEASE_TOKEN.encode(),
        "what the lease gave it": b"MARKER_OF_THE_LEASE",
    }
    assert holds(server.pid, secrets) == {"what the lease gave it"}
    if os.geteuid() == 0:
        assert holds(machine.agent.pid, secrets) == set(secrets), "they are looked for well"
