"""Who ended an instance, by the code of EC2's StateReason. Pure.

The codes are those of StateReason in the EC2 API reference; EC2 adds others, such as
`Client.InvalidKMSKey.InvalidState`, with the same two prefixes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_ON_PURPOSE: Final = frozenset(
    {
        "Client.InstanceInitiatedShutdown",
        "Client.InstanceTerminated",
        "Client.UserInitiatedHibernate",
        "Client.UserInitiatedShutdown",
    }
)
"""Its own operating system, or a call of somebody's."""

_SPOT: Final = frozenset({"Server.SpotInstanceShutdown", "Server.SpotInstanceTermination"})

_RECLAIMED: Final = frozenset({"Server.ScheduledStop", *_SPOT})


class Cause(StrEnum):
    """What the end of an instance says of the next one."""

    REFUSED = "refused"
    """The account or the configuration: the next one would end in the same way."""
    CAPACITY = "capacity"
    """EC2 could not run it: another offer may do."""
    OTHER = "other"
    """It says nothing of another one."""


def termination_cause(code: str) -> Cause:
    """The cause, by a StateReason code; an empty or unknown one says nothing."""
    if code.startswith("Client.") and code not in _ON_PURPOSE:
        return Cause.REFUSED
    if code.startswith("Server.") and code not in _RECLAIMED:
        return Cause.CAPACITY
    return Cause.OTHER


def is_spot_interruption(code: str) -> bool:
    """Whether EC2 reclaimed a spot instance for its capacity."""
    return code in _SPOT


def is_unexplained(code: str) -> bool:
    """Whether an instance ended by AWS's fault, or for a reason that EC2 does not give: neither its
    own operating system nor a call of anybody did it, nor the account's configuration."""
    return not code.startswith("Client.") and not is_spot_interruption(code)
