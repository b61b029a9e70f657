"""What the servers of a running test have cost so far, about, and whether it has to end."""

from __future__ import annotations

import time
from pathlib import Path

from .journal import read
from .price import Price


class Budget:
    """Of the test that writes its journal into that folder."""

    def __init__(self, folder: Path, price: Price | None, max_usd: float | None) -> None:
        self._folder = folder
        self._price = price
        self._max_usd = max_usd

    def spent_usd(self) -> float | None:
        """USD so far while servers existed, at the most expensive offer; None without a price.

        Not included: what instances cost before and after their servers, those that were replaced,
        and those of the pool.
        """
        if self._price is None:
            return None
        return round(self._price.of_servers(read(self._folder).server_seconds(time.monotonic())), 4)

    def why_end(self) -> str:
        """Why the test has to end now; empty if it need not."""
        if self._max_usd is None:
            return ""
        spent = self.spent_usd()
        if spent is None or spent < self._max_usd:
            return ""
        return f"its servers have cost about ${spent:.2f}, and --max-usd={self._max_usd:g}"
