"""Overhead that was stored before the prices of its time were read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from ...core.ledger.instance_end import FREE
from ...core.ledger.segments import OverheadKey
from ...wire import Market
from ..offers.prices import PriceCache
from ..runtime.cooperative_iteration import cooperatively
from ..state.state import State
from .overhead_period import Period, segments_of

LONGEST_UNPRICED: Final = timedelta(hours=1)
"""For so long after its end time is priced again whose prices could not be read."""


@dataclass(slots=True)
class UnpricedOverhead:
    """Spot prices are read later than they change, and a hub that begins knows none: what was
    stored before is compared with each reading, until the prices of its time are read."""

    state: State
    prices: PriceCache
    _periods: dict[OverheadKey, Period] = field(default_factory=dict)
    """As they are stored, by key."""
    _compared: int = 0
    """Number of readings when the periods were compared last."""

    def note(self, period: Period, readings: int) -> None:
        """The store has this period, by the prices of so many readings, and no other one under its
        key any more."""
        self._periods.pop(period.names, None)
        if readings != self.prices.readings:  # while it was written
            self._compared = readings
        elif self._is_priced(period):
            return
        self._periods[period.names] = period
        self.prices.want({each.instance_type for each in period.segments})

    def is_due(self) -> bool:
        """Whether prices were read since the last comparison."""
        return bool(self._periods) and self._compared != self.prices.readings

    async def repriced(self) -> AsyncIterator[Period]:
        """The periods that are stored at other prices than are known by now, at these prices."""
        self._compared = self.prices.readings
        async for period in cooperatively(list(self._periods.values())):
            if self._periods.get(period.names) is not period:
                continue
            again = self._again(period)
            if again.segments != period.segments:
                yield again
            elif self._is_priced(period) or self._is_too_old(period):
                del self._periods[period.names]

    def _is_priced(self, period: Period) -> bool:
        """Whether the prices of all its time have been read."""
        last = period.segments[-1]
        is_read = (
            last.market is not Market.SPOT
            or last.source == FREE
            or self.prices.is_read_since(last.instance_type, last.end or self.state.clock.now())
        )
        return is_read and not any(
            each.usd_per_hour is None or each.disk_usd_per_month is None for each in period.segments
        )

    def _is_too_old(self, period: Period) -> bool:
        end = period.segments[-1].end
        return end is not None and end < self.state.clock.now() - LONGEST_UNPRICED

    def _again(self, period: Period) -> Period:
        """Return the same time at the prices that are known by now."""
        start, end = period.segments[0].start, period.segments[-1].end
        if period.instance is None or end is None:
            return replace(period, segments=self.prices.in_force(period.segments))
        listed = self.state.instances.listed
        instance = listed.get(period.instance.instance_id, period.instance)
        if instance.launched_at != period.instance.launched_at:
            instance = period.instance  # it has been started again
        segments = segments_of(self.state, self.prices, instance, start, end, period.kept)
        runs_on = period.runs_on and segments[-1].end == end
        return replace(period, segments=segments, runs_on=runs_on)
