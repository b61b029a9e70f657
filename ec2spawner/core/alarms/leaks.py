"""The alarms of what outlived its use: disks, interfaces, instances that nobody ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..ledger.charges import Rate
from ..text.durations import in_words
from ..text.untrusted import visible
from .alarm import Alarm, Kind

FOREIGN_AFTER: Final = 3600.0
"""Seconds for which an instance that this store did not launch must have been listed: two hubs may
share a name for a moment, while one replaces the other."""

REFUSED_FOR: Final = 600.0
"""Seconds for which EC2 must have refused a termination: throttling and outages pass."""


@dataclass(frozen=True, slots=True)
class LeakedInstance:
    """An instance that costs money for nobody."""

    instance_id: str
    instance_type: str
    zone: str
    rate: Rate

    @property
    def name(self) -> str:
        """Such as `i-0a1b (g5.xlarge, us-east-1a)`; safe to show."""
        return visible(f"{self.instance_id} ({self.instance_type}, {self.zone})")


def leak(what: str, resource_id: str, why: str, now: datetime) -> Alarm:
    """`what` was deleted because nothing needed it; `why` nothing did."""
    return Alarm(
        Kind.LEAK,
        resource_id,
        "",
        f"A {what} was left over: {resource_id}",
        f"The hub has deleted {resource_id}: {why}. It was attached to nothing for several minutes "
        "and cost money meanwhile. If this happens often, EC2 or something else in the account "
        "detaches what the hub made: `ec2spawner reap` lists what is there.",
        now,
    )


def foreign_instance(instance: LeakedInstance, store_id: str, now: datetime) -> Alarm:
    """An instance with this hub's tag that this hub never touches, because `store_id` made it.

    Empty: its tags name no store. Once for each instance.
    """
    whose = (
        f"another store launched it ({visible(store_id)})" if store_id else "its tags name no store"
    )
    fix = (
        "If that store is lost and no other hub uses it, `ec2spawner reap --store "
        f"{visible(store_id)} --yes` ends all that it made, running servers too. Two hubs in one "
        "account need different names: c.EC2Spawner.hub_name."
        if store_id
        else "`ec2spawner reap` only lists it: terminate it in the EC2 console."
    )
    return Alarm(
        Kind.LEAK,
        instance.instance_id,
        "",
        f"An instance of another store runs with this hub's name: {instance.name}",
        f"It carries this hub's tag, but {whose}, so this hub never ends it. It has been listed "
        f"for more than {in_words(FOREIGN_AFTER)}. {_cost(instance.rate)} {fix}",
        now,
    )


def copied_instance(instance: LeakedInstance, now: datetime) -> Alarm:
    """An instance with the tags of one of this store's that no launch call of it made. Once for
    each instance."""
    return Alarm(
        Kind.LEAK,
        instance.instance_id,
        "",
        f"An instance runs with tags copied from this hub's: {instance.name}",
        "It carries the tags of an instance of this hub, but no launch call of this hub made it, "
        'so this hub never ends it. "Launch more like this" in the EC2 console copies tags. It has '
        f"been listed for more than {in_words(FOREIGN_AFTER)}. {_cost(instance.rate)} If nobody "
        "needs it, terminate it in the EC2 console; else remove its tag ec2spawner:hub.",
        now,
    )


def refused_termination(instance: LeakedInstance, seconds: float, why: str, now: datetime) -> Alarm:
    """An instance that EC2 has refused to terminate for so long, with EC2's last error."""
    return Alarm(
        Kind.LEAK,
        instance.instance_id,
        "",
        f"EC2 refuses to terminate an instance: {instance.name}",
        f"No server needs it, and EC2 has refused its termination for {in_words(seconds)}: "
        f"{visible(why)}. {_cost(instance.rate)} The hub repeats the call. Turn off termination "
        "protection if it is on (OperationNotPermitted), or compare the hub's role with "
        "configs/iam-policy.json (UnauthorizedOperation). Then the hub terminates it; `ec2spawner "
        "reap --yes` does so, too.",
        now,
    )


def _cost(rate: Rate) -> str:
    if rate.known_usd_per_hour is None:
        return "What it costs is unknown."
    least = "at least " if rate.unknown_prices_of else ""
    return f"It costs {least}{rate.known_usd_per_hour:.2f} USD/hour (estimate)."
