"""Why a kept machine was not started again: for its user, who may lose what is on it. Pure."""

from __future__ import annotations

from typing import Final

from ...core.offers.quotas import quota_words
from ...wire import Market
from ..launch.error_hints import shortened
from ..launch.failure_message import LARGER_QUOTA
from ..model.cloud import CloudError, InstanceState

AFRESH: Final = (
    "Try again later, or begin afresh: what is outside your home is lost then, your home is not"
)

OTHER_HARDWARE: Final = (
    "The GPU of your kept machine is broken; it is stopped and started again, for other hardware"
)

NO_ROOM: Final = f"AWS has no room for your kept machine right now. {AFRESH}"

NO_ROOM_YET: Final = "AWS has no room for your kept machine yet; asking again"

NO_QUOTA_YET: Final = "The account's AWS quota leaves no room for your kept machine; asking again"

BUSY: Final = "AWS refuses the call that starts your kept machine, or does not answer; asking again"


def late(state: InstanceState, *, asked: bool) -> str:
    """It has not come within the time for a boot; `asked`: EC2 was asked to start it."""
    if state is InstanceState.STOPPED:
        return f"Your kept machine is stopped, and AWS has not started it. {AFRESH}"
    if not asked or state is InstanceState.STOPPING:
        return f"Your kept machine could not be started: it has not stopped yet. {AFRESH}"
    return f"Your kept machine was started and never got in touch. {AFRESH}"


def broken(why: str) -> str:
    """Its agent says so, in words of its own."""
    said = "The GPU of your kept machine is broken. It is stopped again, with what is on it"
    return f"{said}. AWS mostly starts it on other hardware. {AFRESH}. {why}"[:500]


def unfit(why: str) -> str:
    """The agent on its disk is too old or too new for the hub: another boot changes nothing."""
    said = "The hub cannot work with your kept machine. It is stopped again, with what is on it"
    return f"{said}. {AFRESH}. {why}"[:500]


def busy_to_the_end(failure: CloudError) -> str:
    """It was throttled, or never answered, for as long as a start waits."""
    said = f"{shortened(failure.message)} ({failure.code})"
    return (
        "AWS has refused the hub's calls to start your kept machine, or not answered them: "
        f"{said}. {AFRESH}"
    )


def refused(failure: CloudError) -> str:
    """That EC2 refused to start the kept machine, and what the user can do."""
    said = f"{shortened(failure.message)} ({failure.code})"
    return f"Your kept machine cannot be started: {said}. {AFRESH}"


def no_quota(market: Market, instance_type: str) -> str:
    """To begin afresh is no help where the same kind of machine is asked for."""
    return (
        f"Your kept machine cannot be started right now: {quota_words(market, instance_type)}. "
        f"Try again when others have stopped theirs, or ask an admin. {LARGER_QUOTA} Or choose "
        "another profile: what is outside your home is lost then, your home is not"
    )
