"""Why a kept machine was not started again: for its user, who may lose what is on it. Pure."""

from __future__ import annotations

from typing import Final

from ..core.quotas import quota_words
from ..wire import Market
from .cloud import CloudError
from .refusals import shortened
from .why_not import LARGER_QUOTA

AFRESH: Final = (
    "Try again later, or begin afresh: what is outside your home is lost then, your home is not"
)

NEVER_CAME: Final = f"Your kept machine was started and never got in touch. {AFRESH}"

NO_ROOM: Final = f"AWS has no room for your kept machine right now. {AFRESH}"

NO_ROOM_YET: Final = "AWS has no room for your kept machine yet; asking again"

NO_QUOTA_YET: Final = "The account's AWS quota leaves no room for your kept machine; asking again"

BUSY: Final = "AWS refuses the call that starts your kept machine, or does not answer; asking again"


def busy_to_the_end(failure: CloudError) -> str:
    """It was throttled, or never answered, for as long as a start waits."""
    said = f"{shortened(failure.message)} ({failure.code})"
    return (
        "AWS has refused the hub's calls to start your kept machine, or not answered them: "
        f"{said}. {AFRESH}"
    )


def refused(failure: CloudError) -> str:
    said = f"{shortened(failure.message)} ({failure.code})"
    return f"Your kept machine cannot be started: {said}. {AFRESH}"


def no_quota(market: Market, instance_type: str) -> str:
    """To begin afresh is no help where the same kind of machine is asked for."""
    return (
        f"Your kept machine cannot be started right now: {quota_words(market, instance_type)}. "
        f"Try again when others have stopped theirs, or ask an admin. {LARGER_QUOTA} Or choose "
        "another profile: what is outside your home is lost then, your home is not"
    )
