"""The rate at which AWS reclaims spot instances, in words. Pure."""

from __future__ import annotations

RISKS = ("rarely", "sometimes", "sometimes", "often", "often")
"""The Spot Instance Advisor's five bands, of a month: under 5 %, up to 15 %, and above."""


def risk_words(band: int | None) -> str:
    """`rarely`, `sometimes` or `often`; empty where it is unknown."""
    return "" if band is None else RISKS[band]
