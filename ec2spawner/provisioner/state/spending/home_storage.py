"""The volumes and snapshots of homes as the last scan found them, and up to when they are paid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from ....core.ledger.cost_rows import Resource
from ....core.ledger.storage.held import Stored, billed_now
from ...model.leases.costs import scopes_of_cost

Sizes = Mapping[tuple[Resource, str], int]
"""MiB by resource and volume type."""


class HomeStorage:
    """What exists in EBS for the homes of this store."""

    def __init__(self) -> None:
        self.stored_until: datetime | None = None
        """Up to when the store's ledger has counted it; None if it never has."""
        self.existing: Mapping[str, Stored] = {}
        """By id of the volume or snapshot, as of the last scan of this process."""
        self._of_user: Mapping[str, Sequence[Stored]] = {}
        self._mib: Mapping[str, Sizes] = {}
        """By scope of limits."""
        self.is_known = False
        """Whether this process has scanned."""

    def found(self, existing: Sequence[Stored], mib_by_scope: Mapping[str, Sizes]) -> None:
        """Take over what a complete scan has found, with its sums."""
        of_user: dict[str, list[Stored]] = {}
        for each in existing:
            of_user.setdefault(each.owner.user, []).append(each)
        self.existing = {each.resource_id: each for each in existing}
        self._of_user, self._mib, self.is_known = of_user, mib_by_scope, True

    def of(self, user: str) -> Sequence[Stored]:
        """What exists for the homes of a user."""
        return self._of_user.get(user, ())

    def mib_of(self, scope: str) -> Sizes:
        """What counts in a scope of limits at this moment."""
        return self._mib.get(scope, {})


def mib_by_scope(existing: Iterable[Stored]) -> Mapping[str, Sizes]:
    """What counts in each scope of limits at this moment: of a home's snapshots the largest."""
    found: dict[str, Counter[tuple[Resource, str]]] = {}
    for each in billed_now(existing):
        for scope in scopes_of_cost(each.owner.user, each.owner.payer):
            found.setdefault(scope, Counter())[each.resource, each.volume_type] += each.mib
    return found
