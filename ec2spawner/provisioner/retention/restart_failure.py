"""Why a retained instance was not started again: for its user, who may lose what is on it. Pure."""

from __future__ import annotations

from typing import Final

from ...core.instances.termination_cause import Cause, termination_cause
from ...core.offers.launch_errors import RESERVATION_FULL, RESERVATION_GONE
from ...core.offers.quotas import quota_words
from ...wire import Market
from ..launch.launch_failure import LARGER_QUOTA
from ..model.cloud.cloud import CloudError
from ..model.cloud.instance import POWERED_OFF, Instance, InstanceState
from ..model.error_hints import describe_error, shortened

AFRESH: Final = (
    "Try again later, or begin afresh with a new machine: everything outside your home is then "
    "lost, your home is not"
)

OTHER_HARDWARE: Final = (
    "The GPU of your kept machine is faulty. The machine is being stopped and started again to get "
    "other hardware"
)

NO_ROOM: Final = f"AWS has no capacity for your kept machine right now. {AFRESH}"

IN_RESERVATION: Final = (
    "AWS starts your kept machine only in the capacity reservation that it was launched into"
)

NO_ROOM_YET: Final = "AWS has no capacity for your kept machine yet; the hub keeps trying"

NO_QUOTA_YET: Final = (
    "The account's AWS quota leaves no room for your kept machine; the hub keeps trying"
)

NOT_VERIFIED_YET: Final = (
    "AWS is still verifying the account, and starts no machine before; the hub keeps trying"
)

BUSY: Final = "AWS refuses to start your kept machine, or does not answer; the hub keeps trying"


def late(state: InstanceState, *, asked: bool) -> str:
    """It was not ready within `boot_timeout`; `asked`: EC2 was asked to start it."""
    if state is InstanceState.STOPPED:
        return f"Your kept machine is stopped, and AWS has not started it. {AFRESH}"
    if not asked or state is InstanceState.STOPPING:
        return f"Your kept machine could not be started: it has not stopped yet. {AFRESH}"
    return f"Your kept machine was started but did not call the hub. {AFRESH}"


def stopped_again(instance: Instance | None, boot_log: str = "") -> str:
    """It was started, and stopped before its server was ready; EC2's StateReason says why.

    `instance` is None where only its agent has said so. `boot_log` is the end of that, for people.
    """
    if instance is None or instance.state_reason == POWERED_OFF:
        said = (
            "Your kept machine powered itself off before your server was ready: its agent failed "
            "or reached no hub, or somebody shut it down. Its disk is kept"
        )
        return f"{said}. {AFRESH}. {boot_log}".strip()[:500]
    code, message = instance.state_reason, instance.state_message
    if termination_cause(code) is Cause.REFUSED:
        why = describe_error(CloudError(code, message, retryable=False))
        return f"AWS stopped your kept machine right after its start: {why}. Its disk is kept"[:500]
    why = shortened(message) or code or "AWS gives no reason"
    said = f"Your kept machine was stopped again before your server was ready: {why}"
    return f"{said}. Its disk is kept. {AFRESH}"[:500]


def broken(why: str) -> str:
    """Its agent reports a faulty GPU and `why`."""
    said = (
        "The GPU of your kept machine is faulty. The machine is stopped again, and its disk is kept"
    )
    return f"{said}. AWS usually starts it on other hardware. {AFRESH}. {why}"[:500]


def unfit(why: str) -> str:
    """The agent on its disk is too old or too new for the hub: another boot changes nothing."""
    said = (
        "The software on your kept machine does not work with this hub. It is stopped again, and "
    )
    said += "its disk is kept"
    return f"{said}. {AFRESH}. {why}"[:500]


def busy_to_the_end(failure: CloudError) -> str:
    """EC2 throttled the call or did not answer for the whole start."""
    said = f"{shortened(failure.message)} ({failure.code})"
    return (
        "AWS refused the hub's calls to start your kept machine, or did not answer them: "
        f"{said}. {AFRESH}"
    )


def no_room(failure: CloudError) -> str:
    """EC2 had no room for it, try after try."""
    if failure.code == RESERVATION_FULL:
        return f"{IN_RESERVATION}, and all places of that are in use. {AFRESH}"
    return NO_ROOM


def refused(failure: CloudError) -> str:
    """That EC2 refused to start the kept machine, and what the user can do."""
    if failure.code.startswith(RESERVATION_GONE):
        said = shortened(failure.message)
        return f"{IN_RESERVATION}, and that has ended: {said} ({failure.code}). {AFRESH}"[:500]
    said = f"{shortened(failure.message)} ({failure.code})"
    return f"Your kept machine cannot be started: {said}. {AFRESH}"


def no_quota(market: Market, instance_type: str) -> str:
    """Beginning afresh does not help: the same quota applies to a new machine of this kind."""
    return (
        f"Your kept machine cannot be started right now: {quota_words(market, instance_type)}. "
        f"Try again when other users have stopped theirs, or ask an admin. {LARGER_QUOTA} Or "
        "choose another profile: everything outside your home is then lost, your home is not"
    )
