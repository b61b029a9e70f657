"""What must hold when a hub that was killed has had its two passes, seen from EC2's side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from ec2spawner.core.tags import HOME, HUB, STORE
from tests.bench.kill.killable_hub import KillableHub, StoredLease

MARKER = "bench-marker-"
"""What the names of files begin with that must stay in a home."""

LEAKED_INSTANCE, LEAKED_VOLUME, LEAKED_INTERFACE = (
    "leaked_instances",
    "leaked_volumes",
    "leaked_interfaces",
)
LOST_HOME, LOST_SERVER, LOST_WORKER, STUCK = "lost_homes", "lost_servers", "lost_workers", "stuck"
KINDS = (
    LEAKED_INSTANCE,
    LEAKED_VOLUME,
    LEAKED_INTERFACE,
    LOST_HOME,
    LOST_SERVER,
    LOST_WORKER,
    STUCK,
)
"""Figures of the bench. `stuck` is a start, stop, cluster or hub that does not come to its end. A
worker that outlives its server is a leaked instance."""


@dataclass(frozen=True, slots=True)
class Problem:
    kind: str
    text: str


@dataclass(slots=True)
class Person:
    """What a user of the bench has, and must keep."""

    name: str
    token: str
    markers: list[str] = field(default_factory=list)
    """Files in their home."""


class Account:
    """The hub's part of the embedded EC2, and the homes' files behind it."""

    def __init__(self, hub: KillableHub) -> None:
        self._hub = hub
        self._ec2 = hub.embedded.client()
        self._volume_files = hub.embedded.data_dir / "ec2/volumes"
        self._ours = [{"Name": f"tag:{HUB}", "Values": [hub.name]}]
        self._of_others = set(self._interfaces())
        """Of the hub's own address, and of what was there before this hub."""

    async def problems(self, people: list[Person]) -> list[Problem]:
        return await asyncio.to_thread(self._problems, people)

    async def run(self, work: Callable[[Any], Any]) -> Any:
        """Something by hand, as in the AWS console."""
        return await asyncio.to_thread(work, self._ec2)

    def launch_stray(self, image_id: str, subnet: str) -> str:
        """An instance with this hub's tags that no start requested."""
        tags = {HUB: self._hub.name, STORE: self._hub.store_id}
        answer = self._ec2.run_instances(
            ImageId=image_id,
            InstanceType="g4dn.xlarge",
            SubnetId=subnet,
            MinCount=1,
            MaxCount=1,
            UserData="#!/bin/bash\n",
            TagSpecifications=[
                {
                    "ResourceType": "instance",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        )
        return str(answer["Instances"][0]["InstanceId"])

    async def alive(self) -> set[str]:
        """Instances of the hub that run, or begin to."""
        return await asyncio.to_thread(self._alive)

    async def joined_workers(self) -> set[str]:
        """Leases of workers that have joined, and whose instances run."""
        alive = await self.alive()
        return {
            x.lease_id
            for x in self._hub.leases()
            if x.head and x.state == "ready" and x.instance_id in alive
        }

    def _problems(self, people: list[Person]) -> list[Problem]:
        alive = self._alive()
        volumes = self._pages("describe_volumes", "Volumes", Filters=self._ours)
        return [
            *leaked_instances(self._hub.leases(), alive),
            *self._leaked_volumes(alive, volumes),
            *self._leaked_interfaces(),
            *self._lost_homes(volumes, people),
        ]

    def _alive(self) -> set[str]:
        pages = self._pages("describe_instances", "Reservations", Filters=self._ours)
        return {
            instance["InstanceId"]
            for reservation in pages
            for instance in reservation["Instances"]
            if instance["State"]["Name"] not in {"shutting-down", "terminated"}
        }

    def _leaked_volumes(self, alive: set[str], volumes: list[Any]) -> list[Problem]:
        recorded = self._hub.recorded_volumes()
        found = []
        for volume in volumes:
            holders = {each["InstanceId"] for each in volume["Attachments"]}
            is_home = any(tag["Key"] == HOME for tag in volume.get("Tags", ()))
            if volume["VolumeId"] in recorded or (not is_home and holders & alive):
                continue
            what = "is no recorded home" if is_home else "belongs to no instance"
            found.append(Problem(LEAKED_VOLUME, f"{volume['VolumeId']} {what}"))
        return found

    def _leaked_interfaces(self) -> list[Problem]:
        """Interfaces of a whole account: the creator of one without a tag is unknown."""
        found = []
        reservations = self._pages("describe_instances", "Reservations")
        alive = {
            instance["InstanceId"]
            for reservation in reservations
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
        }
        for interface_id, holder in self._interfaces().items():
            if holder not in alive and interface_id not in self._of_others:
                text = f"{interface_id} belongs to {holder or 'no instance'}"
                found.append(Problem(LEAKED_INTERFACE, text))
        return found

    def _interfaces(self) -> dict[str, str]:
        """The instance of each, by the interface's id; empty for none."""
        return {
            each["NetworkInterfaceId"]: each.get("Attachment", {}).get("InstanceId", "")
            for each in self._pages("describe_network_interfaces", "NetworkInterfaces")
        }

    def _lost_homes(self, volumes: list[Any], people: list[Person]) -> list[Problem]:
        recorded = self._hub.home_volumes()
        there = {volume["VolumeId"] for volume in volumes}
        found = []
        for person in (each for each in people if each.markers):
            volume_id = recorded.get(person.name)
            if volume_id is None or volume_id not in there:
                text = f"the home of {person.name} is {volume_id}, which EC2 does not have"
                found.append(Problem(LOST_HOME, text))
                continue
            missing = set(person.markers) - self._markers(self._volume_files / volume_id)
            if missing:
                text = f"the home of {person.name}, {volume_id}, has no {', '.join(missing)}"
                found.append(Problem(LOST_HOME, text))
        return found

    def _markers(self, volume: Path) -> set[str]:
        return {path.name for path in volume.rglob(f"{MARKER}*")}

    def _pages(self, operation: str, key: str, **parameters: Any) -> list[Any]:
        pages = self._ec2.get_paginator(operation).paginate(**parameters)
        return [item for page in pages for item in page[key]]


async def server_problems(hub: KillableHub, person: Person) -> list[Problem]:
    """Of a server that must be ready: it answers its user, with all their files."""
    if not await hub.is_ready(person.name):
        return [Problem(LOST_SERVER, f"the server of {person.name} is not ready")]
    try:
        reply = await hub.ask_server("GET", person.name, person.token, "api/contents/")
    except httpx.HTTPError as error:
        return [Problem(LOST_SERVER, f"the server of {person.name} does not answer: {error!r}")]
    if reply.status_code != httpx.codes.OK:
        text = f"the server of {person.name} answers {reply.status_code} {reply.text[:80]}"
        return [Problem(LOST_SERVER, text)]
    if missing := set(person.markers) - {each["name"] for each in reply.json()["content"]}:
        text = f"the server of {person.name} does not see {', '.join(missing)}"
        return [Problem(LOST_HOME, text)]
    return []


def leaked_instances(leases: Sequence[StoredLease], alive: Set[str]) -> list[Problem]:
    """Instances that run for nobody: without a lease, or as a worker of a server that has ended."""
    open_leases = {x.lease_id: x for x in leases if x.state != "ended"}
    leased = {x.instance_id for x in open_leases.values()}
    headless = {x.instance_id for x in open_leases.values() if x.head and x.head not in open_leases}
    why = {
        **dict.fromkeys(sorted(alive - leased), "runs without a lease"),
        **dict.fromkeys(sorted(alive & headless), "is a worker whose server has ended"),
    }
    return [Problem(LEAKED_INSTANCE, f"{instance} {text}") for instance, text in why.items()]


def cluster_problems(leases: Sequence[StoredLease], joined: Set[str]) -> list[Problem]:
    """Of clusters of servers that run: each has the workers that it wants, and of those that had
    `joined` before as many as it can have."""
    found = []
    for server in (x for x in leases if x.state == "ready" and not x.head):
        workers = [x for x in leases if x.head == server.lease_id]
        ready = {x.lease_id for x in workers if x.state == "ready"}
        before = joined & {x.lease_id for x in workers}
        if len(ready) != server.wanted:
            text = f"{server.user} has {len(ready)} of {server.wanted} workers"
            found.append(Problem(STUCK, text))
        elif len(ready & before) < min(len(before), server.wanted):
            text = f"{server.user} keeps {len(ready & before)} of {len(before)} joined workers"
            found.append(Problem(LOST_WORKER, text))
    return found
