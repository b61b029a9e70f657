"""Whether prices can be read. Pure."""

from __future__ import annotations

from ...provisioner.model.cloud.cloud import CloudError
from ...wire import Market
from ..finding import Finding, failed, ok, warning
from ..topics import Topic
from .refusals import DENIED, POLICY


def judge_prices(
    market: Market, known: int, asked: int, *, bundled: bool, error: CloudError | None = None
) -> Finding:
    """Whether the prices of so many instance types can be read; `bundled`: a table stands in."""
    name = f"prices {market}"
    if error is not None:
        action = "ec2:DescribeSpotPriceHistory" if market is Market.SPOT else "pricing:GetProducts"
        fix = f"{POLICY}: {action}" if error.code in DENIED else "try again in a few minutes"
        if market is Market.ON_DEMAND and bundled:
            return warning(
                Topic.PRICES,
                f"{error.code}: the bundled table of list prices is used",
                fix,
                name=name,
            )
        return failed(Topic.PRICES, f"{error.code}: pages would show no price", fix, name=name)
    if known == 0:
        return warning(
            Topic.PRICES, "AWS lists none of these types", "ask for other machines", name=name
        )
    return ok(Topic.PRICES, f"{known} of {asked} instance types", name=name)
