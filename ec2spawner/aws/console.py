"""What an instance wrote to its console: the boot log."""

from __future__ import annotations

from typing import Final

from ..provisioner.model.cloud import CloudError
from .client import Answer, Client

_NOT_LATEST: Final = frozenset({"InvalidParameterCombination", "UnsupportedOperation"})
"""Instances that are not on Nitro, and some that have ended, have no latest output."""


async def console_output(client: Client, instance_id: str) -> str:
    """The last 64 KiB, as text; empty where there is none yet.

    EC2 keeps it for an hour after the last line, also of an instance that is terminated.
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
    """boto3 has undone the base64 already."""
    return str(answer.get("Output") or "")
