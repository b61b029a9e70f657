"""Prices in words. Pure."""

from __future__ import annotations


def digits(usd: float) -> str:
    """`0.083`, `0.19`, `24.48`, `113`: three digits where it is cheap, no cents where dear.

    A price that is not zero never looks like it.
    """
    if usd < 0.1:
        return f"{usd:.3f}"
    return f"{usd:.2f}" if usd < 100 else f"{usd:.0f}"


def price_words(usd_per_hour: float) -> str:
    """`$0.53/h`, `$0.083/h`."""
    return f"${digits(usd_per_hour)}/h"
