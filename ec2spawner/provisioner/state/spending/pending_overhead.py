"""Overhead that is not stored yet: it counts from memory until it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from ....core.ledger.amount import Amount, assumed_amount_of
from ....core.ledger.cost_rows import WHOSE, CostRow, CostSum, sum_rows
from ....core.ledger.segments import OverheadKey
from ...model.leases.costs import scopes_of_cost


@dataclass(eq=False, slots=True)
class PendingCosts:
    """Lines of overhead whose write is under way, or has failed and is repeated by each pass."""

    subject: str
    """Key in the write-behind queue: a newer write takes the place of an older one."""
    key: OverheadKey
    costs: Sequence[CostRow]
    replaces: Sequence[CostSum]
    """Sums by `WHOSE` of the lines under that key that are counted as stored."""
    is_repeated: bool = False
    """Whether an earlier write of the key may have landed without an answer: what the store
    replaces may not be counted yet then."""

    def counted_of(self, replaced: Sequence[CostSum]) -> Sequence[CostSum]:
        """What is counted of the lines that this write has `replaced` in the store."""
        return self.replaces if self.is_repeated else replaced


class PendingOverhead:
    """What the store does not have yet, or not for certain; by key, the latest."""

    def __init__(self) -> None:
        self._pending: dict[OverheadKey, PendingCosts] = {}

    def all(self) -> tuple[PendingCosts, ...]:
        """In no order."""
        return tuple(self._pending.values())

    def by_day(self, scope: str) -> Iterator[tuple[date, Amount]]:
        """What the scope has spent beyond what is stored; days may repeat."""
        for pending in self._pending.values():
            for row in pending.costs:
                if scope in scopes_of_cost(row.user, row.payer):
                    yield row.day, assumed_amount_of(row)
            for each in pending.replaces:
                day, user, payer = each.key
                if scope in scopes_of_cost(user, payer):
                    yield date.fromisoformat(day), -assumed_amount_of(each)

    def begin(
        self, subject: str, key: OverheadKey, costs: Sequence[CostRow], stored: Sequence[CostSum]
    ) -> PendingCosts:
        """Count these lines from now on, instead of those `stored` under the key. Where an earlier
        write of the key has no answer, it may have landed, and what was counted before stays."""
        before = self._pending.get(key)
        stored = stored if before is None else before.replaces
        pending = self._pending[key] = PendingCosts(
            subject, key, costs, stored, is_repeated=before is not None
        )
        return pending

    def end(self, pending: PendingCosts) -> None:
        """The store has these lines."""
        latest = self._pending.get(pending.key)
        if latest is pending:
            del self._pending[pending.key]
        elif latest is not None:
            latest.replaces = sum_rows(pending.costs, WHOSE)

    def changed_in_store(self, instance_id: str) -> None:
        """What the instance's lines replace is not what it was: they count again once their write
        has read it."""
        for key in [key for key in self._pending if key[0] == instance_id]:
            self._pending.pop(key).is_repeated = False
