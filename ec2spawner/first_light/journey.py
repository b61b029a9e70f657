"""What a user does in a first hour, step by step. Every step that does not hold raises."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from ..core.pricing.money import digits
from ..core.text.durations import in_words
from .hub.server import Server, StepFailed
from .plan import Leg
from .steps import Steps
from .watch import SpendingWatch

FILE: Final = "first-light.txt"

HEARTBEAT_TIMEOUT: Final = 90.0
"""Seconds until the agent must have reported to hub and notebook, as it does each minute."""

IDLE_MARGIN: Final = 240.0
"""Seconds after the idle limit within which the server must be stopped, its home flushed."""

WRITE: Final = """
import pathlib, platform
pathlib.Path.home().joinpath({path!r}).write_text({text!r})
print("Python", platform.python_version(), "on", platform.machine())
"""

DELETE: Final = """
import os, pathlib, shutil
for each in pathlib.Path.home().iterdir():
    if each.is_dir() and not each.is_symlink():
        shutil.rmtree(each, ignore_errors=True)
    else:
        each.unlink(missing_ok=True)
"""

JOURNAL: Final = """
import subprocess
command = ["sudo", "-n", "journalctl", "--unit=ec2spawner-agent", "--no-pager", "--lines=400"]
try:
    found = subprocess.run(command, capture_output=True, text=True, timeout=30)
    print((found.stdout or found.stderr)[-200_000:])
except (OSError, subprocess.SubprocessError) as error:
    print(error)
"""
"""`sudo` for images whose user may; elsewhere the error is what the report has."""


class Journey:
    """The steps, in their order; what they learn stays for the report."""

    def __init__(
        self, server: Server, steps: Steps, watch: SpendingWatch, idle_seconds: float
    ) -> None:
        self.journals: list[str] = []
        self.consoles: dict[str, str] = {}
        self._server = server
        self._steps = steps
        self._watch = watch
        self._idle_seconds = idle_seconds

    async def run(self, cpu: Leg, gpu: Leg | None, home_kind: str) -> None:
        """The whole journey. Raises `StepFailed`, and `CloudError` where EC2 does not answer."""
        text = f"written by first-light {secrets.token_hex(4)}"
        await self._server.create_user()
        await self._start("Start a server without a GPU", cpu)
        await self._run_a_cell(text)
        await self._heartbeat()
        await self._idle_stop()
        if gpu is None:
            await self._start("Start it again", cpu)
        else:
            await self._start("Start it again, with a GPU", gpu)
        if home_kind != "none":
            await self._find_the_file(text)
        if gpu is not None:
            await self._see_the_gpu()
        if home_kind == "efs":
            await self._delete_the_files()
        await self._stop()

    async def _start(self, name: str, leg: Leg) -> None:
        with self._steps.step(name) as step:
            await self._server.request_start(leg.slug)
            last: Mapping[str, Any] = {}
            async for event in self._server.progress():
                last = event if event.get("steps") else last
                self._steps.announce(str(event.get("message", "")))
            running = await self._watch.list()
            if not running:
                raise StepFailed("the hub says that the server is ready, and EC2 lists no instance")
            instance = running[0]
            kind = f"{instance.instance_type}, {instance.market}, {instance.zone}"
            step.said = "\n".join([f"{instance.instance_id}: {kind}", *_times(last)])

    async def _run_a_cell(self, text: str) -> None:
        with self._steps.step("Run a cell that writes a file") as step:
            step.said = (await self._server.run_cell(WRITE.format(path=FILE, text=text))).strip()
        await self._collect()

    async def _heartbeat(self) -> None:
        def arrived(status: Mapping[str, Any]) -> bool:
            cost = status.get("cost") or {}
            seen = status.get("agent_connected") and status.get("hub_reachable")
            return bool(seen and cost.get("usd") is not None)

        with self._steps.step("Agent, hub and notebook report to each other") as step:
            status = await self._until(arrived, "no heartbeat arrived with a cost")
            step.said = f"the notebook shows ${digits(status['cost']['usd'])}"

    async def _idle_stop(self) -> None:
        limit = self._idle_seconds
        with self._steps.step(f"Idle for {in_words(limit)}: the hub stops the server") as step:
            end_url = str((await self._server.status())["end_url"])
            await self._server.until_gone(limit + IDLE_MARGIN)
            reason = await self._server.why_ended(end_url)
            if reason != "idle":
                raise StepFailed(f"the server was stopped for another reason: {reason or 'none'}")
            await self._until_no_instance()
            step.said = "its instance shuts down"

    async def _find_the_file(self, text: str) -> None:
        with self._steps.step("Find the file on the new instance") as step:
            found = await self._server.read(FILE)
            if found != text:
                raise StepFailed(f"{FILE} has another text than the one that was written")
            step.said = f"{FILE} is there"

    async def _see_the_gpu(self) -> None:
        def measured(status: Mapping[str, Any]) -> bool:
            return bool((status.get("telemetry") or {}).get("gpus"))

        with self._steps.step("See the GPU in the notebook") as step:
            status = await self._until(measured, "the notebook shows no GPU")
            step.said = ", ".join(str(gpu.get("name", "")) for gpu in status["telemetry"]["gpus"])
        await self._collect()

    async def _delete_the_files(self) -> None:
        """A volume is deleted as a whole; a folder on a file system is not EC2's to delete."""
        with self._steps.step("Delete the files of the home on EFS"):
            await self._server.run_cell(DELETE)

    async def _stop(self) -> None:
        with self._steps.step("Stop the server") as step:
            await self._server.stop()
            await self._until_no_instance()
            step.said = "its instance shuts down"

    async def _collect(self) -> None:
        """Console and journal for the report. The journey holds without them."""
        self.consoles |= await self._watch.consoles()
        with suppress(StepFailed):
            self.journals.append(await self._server.run_cell(JOURNAL))

    async def _until(
        self, check: Callable[[Mapping[str, Any]], bool], otherwise: str
    ) -> Mapping[str, Any]:
        """The first status of the notebook for which the check holds. Raises `StepFailed`."""
        try:
            async with asyncio.timeout(HEARTBEAT_TIMEOUT):
                while True:
                    with suppress(StepFailed):  # a proxy may miss a call
                        status = await self._server.status()
                        if check(status):
                            return status
                    await asyncio.sleep(1)
        except TimeoutError:
            raise StepFailed(f"{otherwise} within {HEARTBEAT_TIMEOUT:.0f} s") from None

    async def _until_no_instance(self) -> None:
        try:
            async with asyncio.timeout(IDLE_MARGIN):
                while await self._watch.list():
                    await asyncio.sleep(2)
        except TimeoutError:
            raise StepFailed(f"its instance still runs after {IDLE_MARGIN:.0f} s") from None


def _times(event: Mapping[str, Any]) -> list[str]:
    """How long each step of a start took, a line for each."""
    return [
        f"{each.get('title', '')}: {in_words(each['seconds'])}"
        for each in event.get("steps", ())
        if each.get("seconds")
    ]
