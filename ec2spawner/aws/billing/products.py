"""Products of the Price List API, whatever they are: filters, and prices in USD."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..calls.client import Answer

log = logging.getLogger(__name__)

PRODUCTS_PAGE: Final = 20
"""A product of the Price List API comes with its reserved prices: some 20 kB of JSON each. An
instance type has one that fits, and a few for capacity blocks and the like."""


def filters(attributes: Mapping[str, str]) -> list[dict[str, str]]:
    """GetProducts' filters for products with all of these attributes."""
    return [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in attributes.items()
    ]


def prices_of(
    answer: Answer, attributes: Mapping[str, str], usage: re.Pattern[str], unit: str
) -> Iterator[float]:
    """On-demand prices by this unit, of the products with these attributes and usage type.

    Other products are ignored, and so is what cannot be read.
    """
    for text in answer["PriceList"]:
        try:
            product = json.loads(text)
            having = product["product"]["attributes"]
            if (
                all(having[field] == value for field, value in attributes.items())
                and having.get("marketoption", "OnDemand") == "OnDemand"
                and usage.fullmatch(having["usagetype"]) is not None
            ):
                yield from _by_unit(product["terms"], unit)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            log.debug("Skipping a product of the price list that is unreadable: %r", error)


def _by_unit(terms: Mapping[str, Any], unit: str) -> list[float]:
    return [
        price
        for offer in terms["OnDemand"].values()
        for dimension in offer["priceDimensions"].values()
        if dimension["unit"] == unit
        and (price := positive_usd(dimension["pricePerUnit"].get("USD"))) is not None
    ]


def positive_usd(value: Any) -> float | None:
    """A price as AWS writes it; None if it is not a positive number: nothing here is free."""
    try:
        price = float(value)
    except (TypeError, ValueError):
        return None
    return price if 0 < price < math.inf else None
