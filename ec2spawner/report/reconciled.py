"""The comparison with the bill, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..core.bills.bill_lines import Charge
from ..core.bills.reconciliation import UNSETTLED, Comparison, Reason, Reconciliation
from .wording import usd

MEANINGS: Final[Mapping[Reason, str]] = {
    Reason.CREDIT: "AWS credits and refunds",
    Reason.TAX: "tax",
    Reason.OTHER_USAGE: "charged to the instances, but not for their time: data transfer and such",
    Reason.LATE_DATA: "the bill does not contain this time yet: compare again in a day or two",
    Reason.ROUNDING: "rounding: whole seconds, and the decimals of the export",
    Reason.TIMING: "EC2 saw instances start or end some seconds before or after the hub",
    Reason.DISCOUNT: "a Reserved Instance, Savings Plan or negotiated rate: state it in "
    "c.EC2Spawner.discounts",
    Reason.SPOT_PRICE: "EC2 billed another spot price than the one that it had listed",
    Reason.INTERRUPTED: "interrupted by EC2 in the first hour, which is free",
    Reason.UNKNOWN_PRICE: "the hub did not know the price",
    Reason.HOURS: "EC2 billed more or less time than recorded: compare CloudTrail's events",
    Reason.NOT_BILLED: "recorded, but not in the bill: is it the bill of this account and region?",
    Reason.UNKNOWN_INSTANCE: "billed with this hub's tag, but not in the store: ec2spawner reap",
    Reason.UNEXPLAINED: "unexplained: the price that was billed is not the one that was recorded",
}
"""What each reason means, and what to do where something can be done."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """A comparison and where the bill is from."""

    result: Reconciliation
    source: str
    """Such as `Cost Explorer` or `s3://bucket/prefix`."""

    @property
    def unsettled(self) -> list[Comparison]:
        """The instances with a difference that nothing explains."""
        return [each for each in self.result.instances if not each.is_settled]


def headline(found: Reconciled) -> str:
    """Both sums, and whether they agree."""
    result = found.result
    if result.bill_ends is None:
        return (
            "The bill has no instance time in this period, so nothing was compared. Fix: another "
            "--from and --to, or another --bill"
        )
    recorded = sum(each.recorded for each in result.instances)
    billed = sum(each.billed for each in result.instances)
    count = len(result.instances)
    return (
        f"Billed {usd(billed)} USD, recorded {usd(recorded)} USD, for {count} "
        f"{'instance' if count == 1 else 'instances'}: a difference of {usd(billed - recorded)} "
        f"USD. The bill ({found.source}) has usage up to {result.bill_ends:%Y-%m-%d %H:%M} UTC."
    )


def reason_lines(found: Reconciled) -> list[tuple[str, str, bool]]:
    """For each reason its amount in USD, what it means, and whether it is settled."""
    return [
        (usd(part.nano_usd), MEANINGS[part.reason], part.reason not in UNSETTLED)
        for part in found.result.parts
    ]


def remarks(found: Reconciled) -> list[str]:
    """What the bill has besides instances."""
    said = []
    if other := found.result.other_resources:
        listed = ", ".join(f"{kind} {usd(nano)}" for kind, nano in other.items())
        said.append(f"Also billed with this hub's tag, in USD: {listed}.")
    account = found.result.account_wide
    said += [
        f"The account has {usd(account[charge])} USD of {name} that name no resource: they are "
        "not compared."
        for charge, name in ((Charge.CREDIT, "credits"), (Charge.TAX, "tax"))
        if account.get(charge)
    ]
    return said


def instance_words(each: Comparison) -> str:
    """One instance: both amounts, both times, and the parts of their difference."""
    parts = ", ".join(f"{part.reason} {usd(part.nano_usd)}" for part in each.parts)
    return (
        f"billed {usd(each.billed)} for {each.billed_microseconds / 3.6e9:.2f} h, recorded "
        f"{usd(each.recorded)} for {each.recorded_microseconds / 3.6e9:.2f} h: {parts}"
    )
