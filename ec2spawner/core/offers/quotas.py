"""AWS's vCPU quotas: which one an instance counts against, and what AWS calls it. Pure.

An account has a quota for each market and class of instance types, in vCPUs that may run at once
in a region. Names and codes: Service Quotas, service `ec2`, November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...wire import Market


@dataclass(frozen=True, slots=True)
class Quota:
    """A vCPU quota of an AWS account and region, as Service Quotas names it."""

    code: str
    """In Service Quotas, such as `L-DB2E81BA`."""
    name: str
    """As AWS's console shows it."""


_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"

QUOTAS: Mapping[tuple[Market, str], Quota] = MappingProxyType(
    {
        (Market.ON_DEMAND, "standard"): Quota(
            "L-1216C47A", f"Running On-Demand {_STANDARD} instances"
        ),
        (Market.ON_DEMAND, "g"): Quota("L-DB2E81BA", "Running On-Demand G and VT instances"),
        (Market.ON_DEMAND, "p"): Quota("L-417A185B", "Running On-Demand P instances"),
        (Market.ON_DEMAND, "f"): Quota("L-74FC7D96", "Running On-Demand F instances"),
        (Market.ON_DEMAND, "inf"): Quota("L-1945791B", "Running On-Demand Inf instances"),
        (Market.ON_DEMAND, "trn"): Quota("L-2C3B7624", "Running On-Demand Trn instances"),
        (Market.ON_DEMAND, "dl"): Quota("L-6E869C2A", "Running On-Demand DL instances"),
        (Market.ON_DEMAND, "x"): Quota("L-7295265B", "Running On-Demand X instances"),
        (Market.SPOT, "standard"): Quota("L-34B43A08", f"All {_STANDARD} Spot Instance Requests"),
        (Market.SPOT, "g"): Quota("L-3819A6DF", "All G and VT Spot Instance Requests"),
        (Market.SPOT, "p"): Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
        (Market.SPOT, "p5"): Quota("L-C4BD4855", "All P5 Spot Instance Requests"),
        (Market.SPOT, "f"): Quota("L-88CF9481", "All F Spot Instance Requests"),
        (Market.SPOT, "inf"): Quota("L-B5D1601B", "All Inf Spot Instance Requests"),
        (Market.SPOT, "trn"): Quota("L-6B0D517C", "All Trn Spot Instance Requests"),
        (Market.SPOT, "dl"): Quota("L-85EED4F7", "All DL Spot Instance Requests"),
        (Market.SPOT, "x"): Quota("L-E3A00192", "All X Spot Instance Requests"),
    }
)
"""By market and class."""

_CLASSES = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), "standard"),
    **dict.fromkeys(("g", "gr", "vt"), "g"),
    **{letters: letters for letters in ("p", "f", "inf", "trn", "dl", "x")},
}
"""Letters that a family begins with -> class."""


def quota_class(market: Market, instance_type: str) -> str:
    """The class whose vCPUs a type counts among; a family AWS gives one of its own has its name.

    Spot alone counts the fifth generation of P by itself.
    """
    family = instance_type.partition(".")[0]
    letters = re.split(r"[^a-z]", family, maxsplit=1)[0]
    found = _CLASSES.get(letters, letters)
    if market is Market.SPOT and family.startswith("p5"):
        return "p5"
    return found


def quota_of(market: Market, instance_type: str) -> Quota | None:
    """The quota that a type counts against; None where this table does not know it."""
    return QUOTAS.get((market, quota_class(market, instance_type)))


def quota_words(market: Market, instance_type: str) -> str:
    """That the quota of a type is used up, with its name where this table knows it."""
    quota = quota_of(market, instance_type)
    name = quota.name if quota else f"{market} {instance_type}"
    return f"the account's quota “{name}” is used up"


def quota_in_log(market: Market, instance_type: str) -> str:
    """The same for the admin, who asks AWS for more of it by its code."""
    quota = quota_of(market, instance_type)
    code = f" (Service Quotas, ec2, {quota.code})" if quota else ""
    return f"{quota_words(market, instance_type)}{code}"


# --- the account's own list ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedQuota:
    """A quota of the account and region, as Service Quotas lists it."""

    code: str
    name: str
    vcpus: float
    """That may run at the same time, for a quota of instances."""


_ON_DEMAND_NAME = re.compile(r"Running On-Demand (.+) instances")
_SPOT_NAME = re.compile(r"All (.+) Spot Instance Requests")
_FAMILY = re.compile(r"([A-Za-z]+)(\d*)")


def listed_quota(
    market: Market, instance_type: str, listed: Iterable[ListedQuota]
) -> ListedQuota | None:
    """The quota that a type counts against, by the names of the account's own list.

    AWS changes what a quota covers and its name with it: spot P5 had a quota of its own, and is
    part of "All P Spot Instance Requests" since 2026. The name without a generation wins.
    """
    pattern = _SPOT_NAME if market is Market.SPOT else _ON_DEMAND_NAME
    family = instance_type.partition(".")[0]
    found = [
        (generation, quota)
        for quota in listed
        if (said := pattern.fullmatch(quota.name))
        for generation in _covers(said[1], family)
    ]
    return min(found, key=lambda each: each[0] != "")[1] if found else None


def listed_quota_of_class(
    market: Market, name: str, listed: Iterable[ListedQuota]
) -> ListedQuota | None:
    """The quota of a class, as `quota_class` names it: that of one of its families."""
    return listed_quota(market, "m" if name == "standard" else name, listed)


def _covers(words: str, family: str) -> list[str]:
    """The generation by which `G and VT` or `P4, P3 and P2` name a family; empty for any."""
    wanted = re.match(r"([a-z]+)(\d*)", family)
    if wanted is None:
        return []
    if words.startswith("Standard"):
        return [""] if _CLASSES.get(wanted[1]) == "standard" else []
    named = [_FAMILY.fullmatch(word) for word in re.split(r", | and ", words)]
    return [
        each[2]
        for each in named
        if each is not None
        and _CLASSES.get(each[1].lower(), each[1].lower()) == _CLASSES.get(wanted[1], wanted[1])
        and each[2] in ("", wanted[2])
    ]
