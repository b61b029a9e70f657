"""What an instance starts and holds is known to the runtime, however calls overlap."""

from __future__ import annotations

import asyncio
import os
import subprocess
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from ec2spawner.embedded.api.access_keys import AccessKeys
from ec2spawner.embedded.runtime import processes
from ec2spawner.embedded.runtime.identity import IdentitySigner
from ec2spawner.embedded.runtime.instance_runtime import InstanceRuntime
from ec2spawner.embedded.runtime.processes import INSTANCE_VARIABLE, Mark

MARK = Mark(INSTANCE_VARIABLE, f"i-{uuid4().hex[:17]}")


def started(directory: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {MARK.name: MARK.value}
    return subprocess.Popen(("sleep", "100"), cwd=directory, env=environment)


def test_a_process_that_starts_while_another_is_ended_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the child of a shell that forks between the scan and the signal."""
    first, others = started(tmp_path), [started(Path("/"))]
    scan = processes.find

    def find(*marks: Mark) -> list[int]:
        found = scan(*marks)
        if len(others) == 1:
            others.append(started(tmp_path))
        return found

    monkeypatch.setattr(processes, "find", find)
    elsewhere = others[0]
    try:
        assert processes.end_holders(tmp_path, MARK) == 2
        assert first.poll() is not None
        assert others[1].poll() is not None
        assert elsewhere.poll() is None, "it has nothing open there"
    finally:
        assert processes.end((MARK,), 5.0) == 0
        for each in (first, *others):
            each.wait(5)


async def test_a_volume_that_is_attached_while_the_instance_appears_is_taken_away(
    tmp_path: Path,
) -> None:
    signer = await asyncio.to_thread(IdentitySigner, tmp_path)
    runtime = InstanceRuntime(tmp_path, uuid4().hex, signer, AccessKeys(), lambda *_: None)
    await runtime.open()
    try:
        for volume in ("vol-1", "vol-2"):
            await runtime.create_volume(volume)
        attach = partial(runtime.attach, "i-1", is_nitro=True)
        await asyncio.gather(attach("vol-1"), attach("vol-2"))
        devices = tmp_path / "instances" / "i-1" / "devices"
        assert len(list(devices.iterdir())) == 2
        for volume in ("vol-1", "vol-2"):
            await runtime.detach("i-1", volume)
        assert list(devices.iterdir()) == []
    finally:
        await runtime.close()
