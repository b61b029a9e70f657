"""Instances: list, terminate, stop, start, change, tag, read the console."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.instance import Instance, InstanceState
from ...wire import Market
from ..calls.batcher import Batcher
from ..calls.client import Answer, Client
from ..tags import from_ec2, of_hub, to_ec2
from .capacity_reservations import BLOCK

TERMINATE_BATCH: Final = 500
"""Instances in one TerminateInstances call: it also takes one token per
instance from a bucket of 1000."""

TAG_BATCH: Final = 500
"""Resources in one CreateTags; EC2 takes 1000."""

REFUSED_FOR_ONE: Final = frozenset(
    {
        "IncorrectInstanceState",
        "InvalidInstanceID.Malformed",
        "InvalidInstanceID.NotFound",
        "OperationNotPermitted",  # termination protection
        "UnauthorizedOperation",  # an IAM policy may depend on the instance's tags
        "UnsupportedOperation",
    }
)
"""Codes with which TerminateInstances refuses a whole batch because of one instance."""

STOP_ON_POWER_OFF: Final = {"InstanceInitiatedShutdownBehavior": {"Value": "stop"}}
"""For ModifyInstanceAttribute."""

_UNKNOWN: Final = "InvalidInstanceID.NotFound"
_INSTANCE_ID: Final = re.compile(r"\bi-[0-9a-f]+\b")
_TRANSITION_TIME: Final = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")

_NO_LATEST: Final = frozenset({"InvalidParameterCombination", "UnsupportedOperation"})
"""Instances that are not on Nitro, and some terminated ones, have no latest console output."""


Terminations = Batcher[CloudError]
"""By instance id, EC2's refusal to terminate it."""


def terminations(client: Client) -> Terminations:
    """One TerminateInstances for all that end at the same time, such as a class."""

    async def ask(instance_ids: Sequence[str]) -> Mapping[str, CloudError]:
        return await _refusals(client, list(instance_ids))

    return Batcher(ask, TERMINATE_BATCH)


class Instances:
    """The instances of one region."""

    client: Client
    terminations: Terminations

    async def list_instances(self, hub: str, among: Collection[str] = ()) -> list[Instance]:
        """Every instance with the hub's tag, in any state, or those of them with one of these ids.
        Raises `CloudError` unless complete."""
        filters = list(of_hub(hub))
        if among:  # by filter: one that EC2 does not know yet is no error for the others
            filters.append({"Name": "instance-id", "Values": sorted(among)})
        found = await self.client.pages("describe_instances", _instances, Filters=filters)
        # The list can change between two pages and show an instance on both.
        return list({instance.instance_id: instance for instance in found}.values())

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        """Terminate; an id that does not exist is no error. One that EC2 refuses to terminate does
        not keep the others: `CloudError` is raised when all have been tried."""
        asked = [self.terminations.get(each) for each in dict.fromkeys(instance_ids)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for refusal in answers:
            if isinstance(refusal, BaseException):
                raise refusal

    async def stop(self, instance_ids: Sequence[str]) -> None:
        """Stop on-demand instances; one that is stopped is no error."""
        await self.client.do("stop_instances", InstanceIds=list(dict.fromkeys(instance_ids)))

    async def stop_on_power_off(self, instance_id: str) -> None:
        """Let the instance stop when it powers itself off, running or stopped as it is now."""
        await self.client.do(
            "modify_instance_attribute", InstanceId=instance_id, **STOP_ON_POWER_OFF
        )

    async def start(self, instance_ids: Sequence[str]) -> None:
        """Start stopped instances; one that runs is no error."""
        ids = list(dict.fromkeys(instance_ids))
        # One attempt: InsufficientInstanceCapacity comes as an HTTP 500, which botocore repeats.
        await self.client.do("start_instances", attempts=1, InstanceIds=ids)

    async def tag(self, resource_ids: Sequence[str], tags: Mapping[str, str]) -> None:
        """Set tags on resources of any kind; other tags stay."""
        for batch in _batches(list(dict.fromkeys(resource_ids)), TAG_BATCH) if tags else ():
            await self.client.do("create_tags", Resources=batch, Tags=to_ec2(tags))

    async def console_output(self, instance_id: str) -> str:
        """The last 64 KiB of the console, the boot log, as text; empty if there is none yet.

        EC2 keeps it for an hour after the last line, also for a terminated instance.
        """
        try:
            latest = await self.client.call(
                "get_console_output", _text, InstanceId=instance_id, Latest=True, attempts=1
            )
        except CloudError as error:
            if error.code not in _NO_LATEST:
                raise
            latest = ""
        return latest or await self.client.call(
            "get_console_output", _text, InstanceId=instance_id, attempts=1
        )


async def _refusals(client: Client, batch: list[str]) -> dict[str, CloudError]:
    """Terminate a batch, without an instance for which EC2 refuses all of it. Those that it
    refuses, by id. Raises the `CloudError` that is no instance's."""
    try:
        await client.do("terminate_instances", InstanceIds=batch)
    except CloudError as error:
        if error.code not in REFUSED_FOR_ONE:
            raise
        rest = _without_unknown(batch, error)
        if len(rest) < len(batch):
            return await _refusals(client, rest) if rest else {}
        if len(batch) == 1:
            return {} if error.code == _UNKNOWN else {batch[0]: error}
        half = (len(batch) + 1) // 2
        return {
            **await _refusals(client, batch[:half]),
            **await _refusals(client, batch[half:]),
        }
    return {}


def _without_unknown(batch: Sequence[str], error: CloudError) -> list[str]:
    """The instances without those that EC2's error says do not exist."""
    unknown = _INSTANCE_ID.findall(error.message) if error.code == _UNKNOWN else ()
    return [instance_id for instance_id in batch if instance_id not in unknown]


def _batches(ids: list[str], size: int) -> Iterator[list[str]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))


def _text(answer: Answer) -> str:
    """Decoded text; boto3 has already undone the base64."""
    return str(answer.get("Output") or "")


def _instances(answer: Answer) -> Sequence[Instance]:
    return [
        _instance(instance, reservation.get("OwnerId", ""))
        for reservation in answer["Reservations"]
        for instance in reservation["Instances"]
    ]


def _transition_time(reason: str) -> datetime | None:
    """From EC2's words, such as `User initiated (2026-11-20 12:00:00 GMT)`; None without a time."""
    found = _TRANSITION_TIME.search(reason)
    return datetime.fromisoformat(f"{found[1]}+00:00") if found else None


def _instance(instance: Mapping[str, Any], account_id: str) -> Instance:
    return Instance(
        instance_id=instance["InstanceId"],
        state=InstanceState(instance["State"]["Name"]),
        instance_type=instance["InstanceType"],
        zone=instance.get("Placement", {}).get("AvailabilityZone", ""),
        market=Market.SPOT if instance.get("InstanceLifecycle") == "spot" else Market.ON_DEMAND,
        launched_at=instance["LaunchTime"].astimezone(UTC),
        image_id=instance.get("ImageId") or "",
        private_address=instance.get("PrivateIpAddress") or None,
        has_public_address=bool(instance.get("PublicIpAddress")),
        state_reason=instance.get("StateReason", {}).get("Code") or "",
        state_message=instance.get("StateReason", {}).get("Message") or "",
        ended_at=_transition_time(instance.get("StateTransitionReason") or ""),
        account_id=account_id,
        tags=from_ec2(instance),
        volumes={
            mapping["DeviceName"]: mapping["Ebs"]["VolumeId"]
            for mapping in instance.get("BlockDeviceMappings", ())
            if "VolumeId" in mapping.get("Ebs", {})
        },
        deleted_with=tuple(_deleted_with(instance)),
        reservation=instance.get("CapacityReservationId") or "",
        in_block=instance.get("InstanceLifecycle") == BLOCK,
        security_groups=tuple(each["GroupId"] for each in instance.get("SecurityGroups", ())),
    )


def _deleted_with(instance: Mapping[str, Any]) -> Iterator[str]:
    """Ids of its volumes and network interfaces, without what was attached later: EC2 keeps that,
    unless somebody asked for the opposite."""
    for mapping in instance.get("BlockDeviceMappings", ()):
        if mapping.get("Ebs", {}).get("DeleteOnTermination") and "VolumeId" in mapping["Ebs"]:
            yield mapping["Ebs"]["VolumeId"]
    for interface in instance.get("NetworkInterfaces", ()):
        if interface.get("Attachment", {}).get("DeleteOnTermination"):
            yield interface["NetworkInterfaceId"]
