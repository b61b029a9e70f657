"""Why a start got no machine: one plain sentence or two for its user, and who can mend it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from ..core.launch_errors import ErrorClass, LaunchError, error_class
from ..core.offers import Offer
from ..core.quotas import quota_of
from ..core.sold_out import Mark
from ..wire import Stop
from .attempts import MARKS, error_words, zones_words
from .launcher import Outcome

LONGEST = 500
"""Characters: what `Stop.message` holds."""

MENDS = (
    ("UnauthorizedOperation", "the hub's role needs the rights in configs/iam-policy.json"),
    ("AuthFailure", "the hub's AWS credentials are not valid"),
    ("ExpiredToken", "the hub's AWS credentials have expired"),
    ("NoCredentials", "the hub needs an instance role or AWS credentials"),
    ("InvalidAMIID", "c.EC2Spawner.image must mean an image of this region"),
    ("InvalidSubnetID", "c.EC2Spawner.subnets must name subnets of this region"),
    ("InvalidGroup", "c.EC2Spawner.security_groups must name groups of the subnets' VPC"),
    ("InvalidSecurityGroup", "c.EC2Spawner.security_groups must name groups of the subnets' VPC"),
    ("InvalidIamInstanceProfile", "c.EC2Spawner.instance_profile must name one of this account"),
    ("InvalidKeyPair", "c.EC2Spawner.key_name must name a key pair of this region"),
    ("IdempotentParameterMismatch", "another hub may use this one's store; a new start may work"),
)
"""The beginning of a code, and what to do about it."""

MEND = "`ec2spawner check` tells what is wrong"

_SOON = timedelta(hours=12)


def why_not(
    outcome: Outcome, offers: Sequence[tuple[Offer, Mark | None]], home_zone: str, now: datetime
) -> Stop:
    """For a round that left somebody without a machine.

    `offers` are all that the start could have had, `home_zone` the only zone that its home
    allows, or empty.
    """
    if outcome.ended_by is ErrorClass.REFUSED:
        return _stop("failed", _refused(outcome.errors))
    if outcome.ended_by is ErrorClass.BUSY:
        return _stop("failed", _busy(outcome.errors))
    marked = [(offer, mark) for offer, mark in offers if mark is not None]
    quotas = _quotas(offer for offer, mark in marked if mark.error_class is ErrorClass.QUOTA)
    said = [*_sold_out(offers), *quotas] or ["no zone of this hub has a type that fits"]
    sentences = [f"EC2 has no machine of this kind for you right now: {'; '.join(said)}."]
    if quotas:
        sentences.append("An admin can ask AWS for a larger quota, in Service Quotas.")
    if home_zone:
        sentences.append(f"Your home is in {home_zone}, so only machines there can be used.")
    if marked:
        again = min(mark.until for _, mark in marked)
        sentences.append(f"It is not worth asking again before {_at(again, now)}.")
    return _stop("quota" if quotas else "capacity", " ".join(sentences))


def _sold_out(offers: Iterable[tuple[Offer, Mark | None]]) -> list[str]:
    """`spot and on-demand are sold out in us-east-1a and b`: quotas are said apart."""
    zones: dict[tuple[str, str], set[str]] = {}
    for offer, mark in offers:
        found = mark.error_class if mark is not None else ErrorClass.OFFER
        if found is not ErrorClass.QUOTA:
            zones.setdefault((offer.market, MARKS[found]), set()).add(offer.zone)
    markets: dict[tuple[str, str], list[str]] = {}
    for (market, why), where in zones.items():
        markets.setdefault((why, zones_words(where)), []).append(market)
    return [
        f"{' and '.join(sorted(names, reverse=True))} {'are' if len(names) > 1 else 'is'} {why} "
        f"in {where}"
        for (why, where), names in markets.items()
    ]


def _quotas(offers: Iterable[Offer]) -> list[str]:
    names: dict[str, None] = {}
    for offer in offers:
        quota = quota_of(offer.market, offer.instance_type)
        names[quota.name if quota else f"{offer.market} {offer.instance_type}"] = None
    return [f"the account's quota “{name}” is used up" for name in names]


def _refused(errors: Sequence[LaunchError]) -> str:
    refused = [error for error in errors if error_class(error.code) is ErrorClass.REFUSED]
    said = "; ".join(dict.fromkeys(error_words(error) for error in refused[:3]))
    code = refused[0].code
    mend = next((mend for start, mend in MENDS if code.startswith(start)), MEND)
    return f"EC2 refused to start a machine; please tell an admin: {mend} ({said})"


def _busy(errors: Sequence[LaunchError]) -> str:
    last = errors[-1]
    return (
        "EC2 is busy and has not started a machine in time. Nothing is known to be sold out: try "
        f"again in a few minutes ({error_words(last)})"
    )


def _at(instant: datetime, now: datetime) -> str:
    far = instant - now > _SOON
    return f"{instant:%d %B, %H:%M} UTC" if far else f"{instant:%H:%M} UTC"


def _stop(reason: Literal["capacity", "quota", "failed"], message: str) -> Stop:
    short = message if len(message) <= LONGEST else f"{message[: LONGEST - 1]}…"
    return Stop(reason=reason, message=short)
