"""Why a retained instance was not started again: for its user, who may lose what is on it. Pure."""

from __future__ import annotations

from typing import Final

from ...core.offers.quotas import quota_words
from ...wire import Market
from ..launch.launch_failure import LARGER_QUOTA
from ..model.cloud import CloudError, InstanceState
from ..model.error_hints import shortened

AFRESH: Final = (
    "Try again later, or begin afresh with a new machine: everything outside your home is then "
    "lost, your home is not"
)

OTHER_HARDWARE: Final = (
    "The GPU of your kept machine is faulty. The machine is being stopped and started again to get "
    "other hardware"
)

NO_ROOM: Final = f"AWS has no capacity for your kept machine right now. {AFRESH}"

NO_ROOM_YET: Final = "AWS has no capacity for your kept machine yet; the hub keeps trying"

NO_QUOTA_YET: Final = (
    "The account's AWS quota leaves no room for your kept machine; the hub keeps trying"
)

BUSY: Final = "AWS refuses to start your kept machine, or does not answer; the hub keeps trying"


def late(state: InstanceState, *, asked: bool) -> str:
    """It was not ready within `boot_timeout`; `asked`: EC2 was asked to start it."""
    if state is InstanceState.STOPPED:
        return f"Your kept machine is stopped, and AWS has not started it. {AFRESH}"
    if not asked or state is InstanceState.STOPPING:
        return f"Your kept machine could not be started: it has not stopped yet. {AFRESH}"
    return f"Your kept machine was started but did not call the hub. {AFRESH}"


def powered_off(boot_log: str) -> str:
    """It was started and powered itself off; `boot_log` is its end, for people."""
    said = (
        "Your kept machine was started and powered itself off before it called the hub, because "
        "its agent failed or reached no hub. Its disk is kept"
    )
    return f"{said}. {AFRESH}. {boot_log}".strip()[:500]


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


def refused(failure: CloudError) -> str:
    """That EC2 refused to start the kept machine, and what the user can do."""
    said = f"{shortened(failure.message)} ({failure.code})"
    return f"Your kept machine cannot be started: {said}. {AFRESH}"


def no_quota(market: Market, instance_type: str) -> str:
    """Beginning afresh does not help: the same quota applies to a new machine of this kind."""
    return (
        f"Your kept machine cannot be started right now: {quota_words(market, instance_type)}. "
        f"Try again when other users have stopped theirs, or ask an admin. {LARGER_QUOTA} Or "
        "choose another profile: everything outside your home is then lost, your home is not"
    )
