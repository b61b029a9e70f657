"""What EC2 would bill, from the embedded EC2's own record, against what the hub says it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.core.tags import HOME
from tests.harness import Embedded, Hub, until

HOUR = timedelta(hours=1)

MINIMUM = timedelta(minutes=1)
"""EC2 bills an instance by the second, but so long at least."""

FREE = timedelta(hours=1)
"""A spot instance that EC2 reclaims before that costs nothing."""

SPOT_TERMINATION = "Server.SpotInstanceTermination"

IN_DOUBT = timedelta(seconds=5)
"""Of each instance: EC2 reports its launch in whole seconds, and its end some time after the hub
has asked for it."""


async def check_ledger(hub: Hub, user: str, instances: Collection[str]) -> None:
    """The ledger has of this user the time of these instances, which have ended, at EC2's price."""
    uptimes = [
        x for x in await hub.embedded.control("uptimes") if x["instance_id"] in set(instances)
    ]
    assert {x["instance_id"] for x in uptimes} == set(instances)
    hours = usd = doubt = 0.0
    for each in uptimes:
        since, ended = map(datetime.fromisoformat, (each["since"], each["until"]))
        price = await spot_price(hub.embedded, each, since)
        is_free = each["reason"] == SPOT_TERMINATION and ended - since < FREE
        hours += (ended - since) / HOUR
        usd += 0.0 if is_free else max(ended - since, MINIMUM) / HOUR * price
        doubt += IN_DOUBT / HOUR * price
    sums = await costs_of_instances(hub, user)
    print(*uptimes, hours, usd, doubt, *sums, sep="\n")
    assert not any(each["unknown"] for each in sums)
    assert sum(each["usd"] for each in sums) == pytest.approx(usd, abs=doubt)
    off = len(uptimes) * IN_DOUBT / HOUR
    assert sum(each["hours"] for each in sums) == pytest.approx(hours, abs=off)


async def costs_of_instances(hub: Hub, user: str) -> list[dict[str, Any]]:
    """Of the user's server and each worker, without disks and homes."""
    today = datetime.now(UTC).date()
    days = {"from": f"{today - timedelta(days=1)}", "to": f"{today}"}
    headers = {"Authorization": f"token {await hub.user_token(user)}"}
    query = {**days, "by": "server,resource"}
    reply = await hub.api.get("/ec2/usage/costs", params=query, headers=headers)
    assert reply.is_success, reply.text
    return [each for each in reply.json()["sums"] if each["key"][1] == "instance"]


async def spot_price(embedded: Embedded, uptime: dict[str, Any], at: datetime) -> float:
    """EC2's price in USD/hour; the tests' profile finds no other market."""
    assert uptime["market"] == "spot"
    listed = await asyncio.to_thread(
        embedded.client().describe_spot_price_history,
        InstanceTypes=[uptime["instance_type"]],
        AvailabilityZone=uptime["zone"],
        ProductDescriptions=["Linux/UNIX"],
        StartTime=at,
        EndTime=at,
    )
    [price] = listed["SpotPriceHistory"]
    return float(price["SpotPrice"])


async def check_nothing_is_left(embedded: Embedded) -> None:
    """No instance, no disk but homes, no interface, no placement group, no security group but that
    of the VPC."""
    ec2 = embedded.client()

    async def is_clean() -> bool:
        placed, groups, volumes, interfaces = [
            await asyncio.to_thread(ask)
            for ask in (
                ec2.describe_placement_groups,
                ec2.describe_security_groups,
                ec2.describe_volumes,
                ec2.describe_network_interfaces,
            )
        ]
        names = {each["GroupName"] for each in groups["SecurityGroups"]}
        disks = [x for x in volumes["Volumes"] if HOME not in {t["Key"] for t in x.get("Tags", ())}]
        own = embedded.described["subnets"]  # the NAT gateway's interface is in another one
        left = [x for x in interfaces["NetworkInterfaces"] if x["SubnetId"] in own]
        print("left:", placed["PlacementGroups"], names, disks, left)
        is_usual = names == {"default", "notebooks"}
        return is_usual and not placed["PlacementGroups"] and not disks and not left

    assert not await embedded.instances()
    await until(is_clean, 60, "all that came with instances to be gone")
