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

import httpx

from tests.aws_actions import Action, called_actions
from tests.bench.faults.cells import ENTRY, Cell, Ended, unclear
from tests.bench.faults.timeout import REAPS, SLOWNESS
from tests.harness import START_TIMEOUT, Embedded, Hub, end, until

HERE = Path(__file__).parent

SETTLE_TIMEOUT = 15.0 * SLOWNESS
"""Seconds that EC2 takes to do what two passes have asked for, on a busy machine."""

PASSES = 2

SOON = 12.0 * SLOWNESS
"""Seconds within which the hub makes a call that no request waits for."""

USUAL = 30.0 * SLOWNESS
"""Seconds that a start or a stop takes without any fault, on a busy machine."""

OF_THE_BENCH = frozenset({"CreateNetworkInterface"})
"""What only `leave_over` calls."""

ENDED = frozenset({"shutting-down", "terminated"})


class Site:
    """One after the other: a fault applies to any caller."""

    def __init__(self, name: str, directory: Path) -> None:
        self.embedded = Embedded(directory / name / "embedded", boot_seconds=0)
        self.hub = Hub(
            directory / name / "hub",
            self.embedded,
            config=HERE / "hub_config.py",
            environment={"PYTHONPATH": str(HERE.parents[2])},
        )
        self.name = name
        self._users = 0
        self._ordered_at = ""
        self._launch_tags: list[dict[str, str]] = []
        self._client: Any = None
        self._of_others: dict[str, str] = {}

    async def open(self) -> Site:
        await self.embedded.start()
        agent = self.embedded.data_dir / "ec2/shims/ec2spawner-agent"
        await asyncio.to_thread(shutil.copy, HERE / "stub_agent.py", agent)
        await asyncio.to_thread(agent.chmod, 0o755)
        self._client = await asyncio.to_thread(self.embedded.client)
        self._of_others = await asyncio.to_thread(self._interfaces)  # of the hub's own address
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
        """Start a server: empty when it is ready, else the message to its user.

        Raises `TimeoutError` after `limit` seconds.
        """
        await self.hub.add_user(user)
        async with asyncio.timeout(limit):
            reply = await self.hub.api.post(
                self.hub.server_path(user), json=options, timeout=limit + 1
            )
            if reply.is_success:
                # JupyterHub looks at the spawner of a failed start, and says 201 for one that is
                # slow after it.
                return "" if await self._is_ready(user) else await self._follow(user)
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

    async def _is_ready(self, user: str) -> bool:
        model = await self.hub.model(user)
        return model is not None and bool(model["ready"])

    async def is_there(self, user: str) -> bool:
        """True while JupyterHub has anything of the user's server."""
        model = await self.hub.model(user)
        return model is not None and bool(model["ready"] or model["pending"])

    async def home_moves_to(self, user: str) -> str:
        """A zone in which the user's home is not."""
        return await asyncio.to_thread(self._other_zone, user)

    def _other_zone(self, user: str) -> str:
        mine = [{"Name": "tag:ec2spawner:user", "Values": [user]}]
        homes = [*mine, {"Name": "tag-key", "Values": ["ec2spawner:home"]}]
        [home] = self._client.describe_volumes(Filters=homes)["Volumes"]
        return str(min({*self.embedded.described["zones"]} - {home["AvailabilityZone"]}))

    @property
    def mute(self) -> Path:
        """A file: see `stub_agent.MUTE`."""
        return self.embedded.data_dir / "ec2/shims/mute"

    def let_reap(self, reaps: bool) -> None:
        """Whether the next hub looks all the time for what is left over."""
        others = {name: value for name, value in self.hub.environment.items() if name != REAPS}
        self.hub.environment = others | ({REAPS: "1"} if reaps else {})

    async def leave_over(self) -> None:
        """A disk and an interface with the tags of an instance that is gone."""
        await asyncio.to_thread(self._leave_over)

    def _leave_over(self) -> None:
        reservations = self._client.describe_instances()["Reservations"]
        carried = [i["Tags"] for r in reservations for i in r["Instances"]]
        if carried:  # EC2 lists what has ended for a while only
            ours = ("ec2spawner:hub", "ec2spawner:store", "ec2spawner:intent")
            self._launch_tags = [tag for tag in carried[0] if tag["Key"] in ours]
        tags = self._launch_tags
        described = self.embedded.described
        self._client.create_volume(
            AvailabilityZone=described["zones"][0],
            Size=1,
            TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
        )
        self._client.create_network_interface(
            SubnetId=described["subnets"][0],
            TagSpecifications=[{"ResourceType": "network-interface", "Tags": tags}],
        )

    async def struck_soon(self, cell: Cell) -> bool:
        """The same for a call that no request waits for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SOON):
                while not await self.struck(cell):
                    await asyncio.sleep(0.1)
        return await self.struck(cell)

    async def struck_by_now(self, cells: Collection[Cell], seconds: float) -> list[bool]:
        """Of each; those that no request waits for have that long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not all([await self.struck(cell) for cell in cells]):
                    await asyncio.sleep(0.1)
        return [await self.struck(cell) for cell in cells]

    async def uptime(self) -> tuple[str, ...]:
        """Instances that still run a while after all servers have stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_TIMEOUT):
                while await self._uptime():
                    await asyncio.sleep(0.2)
        return await self._uptime()

    async def _uptime(self) -> tuple[str, ...]:
        found = await self.embedded.instances()
        return tuple(each["instance_id"] for each in found if each["state"] != "stopped")

    # --- faults ---

    async def order(self, cells: Collection[Cell]) -> None:
        self._ordered_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        await self._order(cells)

    async def leave_only(self, cells: Collection[Cell]) -> None:
        """Let no other fault strike any more. What has struck since the order still counts."""
        await self.clear()
        await self._order(cells)

    async def _order(self, cells: Collection[Cell]) -> None:
        for cell in cells:
            fault = {"action": cell.row.action.name, "kind": cell.fault, "times": cell.mode.times}
            await self.embedded.control("faults", fault)

    async def clear(self) -> None:
        await self.embedded.clear_faults()

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
            if call["time"] >= instant and call["action"] not in OF_THE_BENCH
        )

    # --- what is left ---

    async def settle(self) -> tuple[str, ...]:
        """Two passes; then the resources without an owner."""
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
        """Instances that have not ended, volumes that are nobody's only home, interfaces of nothing
        and snapshots."""
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
        found += [
            interface_id
            for interface_id, holder in self._interfaces().items()
            if holder not in states and interface_id not in self._of_others
        ]
        copies = self._client.describe_snapshots(OwnerIds=["self"])["Snapshots"]
        found += [each["SnapshotId"] for each in copies if each.get("Tags")]
        return tuple(found)

    def _interfaces(self) -> dict[str, str]:
        """The instance of each, by the interface's id; empty for none."""
        listed = self._client.describe_network_interfaces()["NetworkInterfaces"]
        return {
            each["NetworkInterfaceId"]: each.get("Attachment", {}).get("InstanceId", "")
            for each in listed
        }


async def timed(cell: Cell, played: Awaitable[str]) -> Ended:
    """The message the user got, and after how long."""
    began = time.monotonic()
    try:
        message = await played
    except TimeoutError:
        return Ended(cell, time.monotonic() - began, hung=True)
    lacks = unclear(message) if message else ""
    return Ended(cell, time.monotonic() - began, message, unclear=lacks)
