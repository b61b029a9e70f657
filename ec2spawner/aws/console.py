"""What an instance wrote to its console: the boot log."""

from __future__ import annotations

from typing import Final

from ..provisioner.model.cloud import CloudError
from .client import Answer, Client

_NOT_LATEST: Final = frozenset({"InvalidParameterCombination", "UnsupportedOperation"})
"""Instances that are not on Nitro, and some terminated ones, have no latest output."""


async def console_output(client: Client, instance_id: str) -> str:
    """The last 64 KiB, as text; empty if there is none yet.

    EC2 keeps it for an hour after the last line, also for a terminated instance.
    """
    try:
        latest = await client.call(
            "get_console_output", _text, InstanceId=instance_id, Latest=True, attempts=1
        )
    except CloudError as error:
        if error.code not in _NOT_LATEST:
            raise
        latest = ""
    if latest:
        return latest
    return await client.call("get_console_output", _text, InstanceId=instance_id, attempts=1)


def _text(answer: Answer) -> str:
    """Decoded text; boto3 has already undone the base64."""
    return str(answer.get("Output") or "")
