"""What the limits of the hub leave for the pool: it buys nothing that a start could not afford."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...core.ledger.cost_rows import HUB
from ...core.limits.admission import Account, Grant, OfferPrice, Refusal, decide
from ...core.limits.words import short_refusal
from ..limits.accounts import Accounts
from ..model.cloud import LaunchSpec
from ..offers.market import MarketData
from ..state.state import State


@dataclass(slots=True)
class Budget:
    """The limits of the hub at one moment. Each place must be able to pay its first hour."""

    state: State
    market: MarketData
    refusal: str = ""
    """Why nothing is bought, for admins."""
    _most: float | None = None
    """USD/hour of each instance, without disk and address."""
    _accounts: tuple[Account, ...] = field(init=False)

    def __post_init__(self) -> None:
        limits = self.state.settings.limits
        accounts = Accounts(self.state, self.market).of((HUB,)) if limits.bind else ()
        # A limit of servers does not bind what is no server.
        self._accounts = tuple(replace(each, servers=0) for each in accounts)

    def count(self, spec: LaunchSpec, wanted: int) -> int:
        """How many of the `wanted` instances it can pay; sets `refusal` where none."""
        self.refusal, self._most = "", None
        if not self._accounts:
            return wanted
        accounts = Accounts(self.state, self.market)
        own = accounts.beside_usd_per_hour(spec)
        prices = accounts.prices_of(self.market.offers.all_for(spec), own)
        for count in range(wanted, 0, -1):
            found = decide(self._accounts, [_times(each, count) for each in prices])
            if isinstance(found, Grant):
                if found.max_usd_per_hour is not None:
                    self._most = found.max_usd_per_hour / count - own
                return count
            if isinstance(found, Refusal):
                self.refusal = f"Nothing is bought for the pool: {short_refusal(found)}"
        return 0

    def within(self, spec: LaunchSpec) -> LaunchSpec:
        """The spec with what one instance may cost by the last answer of `count`."""
        limits = [each for each in (spec.max_usd_per_hour, self._most) if each is not None]
        return replace(spec, max_usd_per_hour=min(limits, default=None))


def _times(price: OfferPrice, count: int) -> OfferPrice:
    usd = price.usd_per_hour
    return OfferPrice(None if usd is None else usd * count, price.gpus * count)
