"""An embedded EC2 with a hub in a hurry before it: where the cells of `faults` happen."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Awaitable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import httpx

from tests.aws_actions import Action, called_actions
from tests.bench.fault_cells import ENTRY, Cell, Ended, unclear
from tests.harness import START_TIMEOUT, Embedded, Hub, end, until

HERE = Path(__file__).parent

SETTLE_TIMEOUT = 15.0
"""Seconds that EC2 takes to do what two passes have asked for, on a busy machine."""

PASSES = 2

USUAL = 30.0
"""Seconds that a start or a stop takes without any fault, on a busy machine."""

ENDED = frozenset({"shutting-down", "terminated"})


class Site:
    """One after the other: a fault strikes whoever makes the call."""

    def __init__(self, name: str, directory: Path) -> None:
        self.embedded = Embedded(directory / name / "embedded", boot_seconds=0)
        self.hub = Hub(
            directory / name / "hub",
            self.embedded,
            config=HERE / "faults_hub_config.py",
            environment={"PYTHONPATH": str(HERE.parents[1])},
        )
        self.name = name
        self._users = 0
        self._ordered_at = ""
        self._client: Any = None

    async def open(self) -> Site:
        await self.embedded.start()
        agent = self.embedded.data_dir / "ec2/shims/ec2spawner-agent"
        await asyncio.to_thread(shutil.copy, HERE / "stub_agent.py", agent)
        await asyncio.to_thread(agent.chmod, 0o755)
        self._client = await asyncio.to_thread(self._make_client)
        return self

    async def close(self) -> None:
        await self.hub.stop()
        await self.embedded.stop()

    def next_start(self) -> tuple[str, dict[str, Any]]:
        """A user without a home, and options for which there is no launch template yet."""
        self._users += 1
        return f"{self.name}-{self._users}", {"disk_gib": str(50 + self._users % 450)}

    # --- the hub ---

    async def stop_hub(self) -> None:
        if self.hub.process is not None:
            await end(self.hub.process)

    async def begin_hub(self) -> bool:
        """Start it; False where it has ended by itself instead of answering."""
        await self.hub.launch()
        process = self.hub.process
        assert process is not None

        async def answers_or_has_ended() -> bool:
            if process.returncode is not None:
                return True
            try:
                return (await self.hub.api.get("/")).is_success
            except httpx.TransportError:
                return False

        await until(answers_or_has_ended, START_TIMEOUT, f"{self.name} to answer")
        return process.returncode is None

    @property
    def has_ended(self) -> bool:
        """True where no hub runs."""
        return self.hub.process is None or self.hub.process.returncode is not None

    async def hub_ended(self) -> None:
        """Wait until a hub that does not answer has ended."""
        assert self.hub.process is not None
        await asyncio.wait_for(self.hub.process.wait(), START_TIMEOUT)

    async def start(self, user: str, options: Mapping[str, Any], limit: float) -> str:
        """Start a server: empty when it is ready, else what its user is told.

        Raises `TimeoutError` after `limit` seconds.
        """
        await self.hub.add_user(user)
        async with asyncio.timeout(limit):
            reply = await self.hub.api.post(
                self.hub.server_path(user), json=options, timeout=limit + 1
            )
            if reply.status_code == httpx.codes.CREATED:
                return ""
            if reply.status_code == httpx.codes.ACCEPTED:
                return await self._follow(user)
            return str(reply.json()["message"])

    async def _follow(self, user: str) -> str:
        path = f"{self.hub.server_path(user)}/progress"
        async with self.hub.api.stream("GET", path, timeout=None) as events:
            if not events.is_success:
                await events.aread()
                return str(events.json()["message"])
            async for line in events.aiter_lines():
                event = json.loads(line.removeprefix("data: ")) if line.startswith("data:") else {}
                if event.get("ready"):
                    return ""
                if event.get("failed"):
                    return str(event.get("message", ""))
        return ""

    async def stop(self, user: str, limit: float) -> None:
        """Stop a server. Raises `TimeoutError` after `limit` seconds."""
        async with asyncio.timeout(limit):
            reply = await self.hub.api.delete(self.hub.server_path(user), timeout=limit + 1)
            assert reply.status_code in {202, 204}, f"{reply.status_code} {reply.text}"
            while await self.is_there(user):
                await asyncio.sleep(0.1)

    async def is_there(self, user: str) -> bool:
        """True while JupyterHub has anything of the user's server."""
        model = await self.hub.model(user)
        return model is not None and bool(model["ready"] or model["pending"])

    # --- faults ---

    async def order(self, cells: Collection[Cell]) -> None:
        self._ordered_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        for cell in cells:
            fault = {"action": cell.row.action.name, "kind": cell.fault, "times": cell.mode.times}
            await self.embedded.control("faults", fault)

    async def clear(self) -> None:
        url = f"{self.embedded.described['ec2_endpoint']}/embedded/faults"
        async with httpx.AsyncClient() as client:
            (await client.delete(url)).raise_for_status()

    async def struck(self, cell: Cell) -> bool:
        """Whether its fault has befallen a call since it was ordered.

        One of single offers leaves no trace in the call's outcome: there the call counts.
        """
        return any(
            call["time"] >= self._ordered_at
            and (cell.kind.startswith(ENTRY) or call["outcome"] == cell.fault)
            for call in await self.embedded.calls(cell.row.action.name)
        )

    async def actions_since(self, instant: str) -> frozenset[Action]:
        """What has been called: those of `called_actions`, and what is not among them."""
        known = {action.name: action for action in called_actions()}
        return frozenset(
            known.get(call["action"], Action("ec2", call["action"]))
            for call in await self.embedded.control("calls")
            if call["time"] >= instant
        )

    # --- what is left ---

    async def settle(self) -> tuple[str, ...]:
        """Two passes; then what there is that nobody has."""
        await self._passes()
        with suppress(TimeoutError):
            # What a pass has asked for takes a busy machine a moment.
            async with asyncio.timeout(SETTLE_TIMEOUT):
                while await self.leaks():
                    await asyncio.sleep(0.2)
        return await self.leaks()

    async def _passes(self) -> None:
        """Wait for complete listings: each is followed by a pass. The first may be an old one's."""
        if self.has_ended:
            return
        before = await self._listings()

        async def listed() -> bool:
            return await self._listings() > before + PASSES

        await until(listed, SETTLE_TIMEOUT, "the hub to list its instances", pause=0.2)

    async def _listings(self) -> int:
        calls = await self.embedded.calls("DescribeInstances")
        return sum(call["outcome"] == "ok" for call in calls)

    async def leaks(self) -> tuple[str, ...]:
        """Instances that run, volumes that are nobody's only home, interfaces of nothing."""
        return await asyncio.to_thread(self._leaks)

    def _leaks(self) -> tuple[str, ...]:
        reservations = self._client.describe_instances()["Reservations"]
        states = {i["InstanceId"]: i["State"]["Name"] for r in reservations for i in r["Instances"]}
        found = [x for x, state in states.items() if state not in ENDED]
        homes: set[str] = set()
        for volume in self._client.describe_volumes()["Volumes"]:
            tags = {tag["Key"]: tag["Value"] for tag in volume.get("Tags", ())}
            owner = tags.get("ec2spawner:user", "")
            holders = {each["InstanceId"] for each in volume["Attachments"]}
            is_home = "ec2spawner:home" in tags and owner not in homes
            homes.add(owner)
            if not is_home and not any(states.get(each) in ENDED for each in holders):
                found.append(volume["VolumeId"])
        for interface in self._client.describe_network_interfaces()["NetworkInterfaces"]:
            holder = interface.get("Attachment", {}).get("InstanceId", "")
            if holder not in states:
                found.append(interface["NetworkInterfaceId"])
        return tuple(found)

    def _make_client(self) -> Any:
        return boto3.client(
            "ec2",
            region_name=self.embedded.described["region"],
            endpoint_url=self.embedded.described["ec2_endpoint"],
            aws_access_key_id="bench",
            aws_secret_access_key="bench",
        )


async def timed(cell: Cell, played: Awaitable[str]) -> Ended:
    """What the person was told, and after how long."""
    began = time.monotonic()
    try:
        message = await played
    except TimeoutError:
        return Ended(cell, time.monotonic() - began, hung=True)
    lacks = unclear(message) if message else ""
    return Ended(cell, time.monotonic() - began, message, unclear=lacks)
