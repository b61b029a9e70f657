"""AWS Free Tier: the account's plan."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..api.protocol import EC2Error
from ..instances.account import Account

CREDITS_USD: Final = 100.0
"""Credits of a new account, from "AWS Free Tier" in the Billing user guide, November 2026."""

LASTS: Final = timedelta(days=183)
"""A free plan ends after six months."""


class FreeTier:
    """Answers GetAccountPlanState.

    An account without a plan gets the error that a member of an organization was seen to get, and a
    paid one no expiration date, as was seen in November 2026.
    """

    def __init__(self, account: Account, number: str) -> None:
        self._account = account
        self._number = number
        self._since = datetime.now(UTC)

    async def answer(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """The plan; raises `ResourceNotFoundException` for an account without one."""
        if action != "GetAccountPlanState":
            raise EC2Error("UnknownOperationException", f"The embedded EC2 has no {action}.")
        if (plan := self._account.plan) is None:
            said = f"Missing data for account: {self._number}"
            raise EC2Error("ResourceNotFoundException", said)
        is_free = plan == "free"
        ends = (self._since + LASTS).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "accountId": self._number,
            "accountPlanType": plan.upper(),
            "accountPlanStatus": "ACTIVE",
            "accountPlanRemainingCredits": {
                "amount": CREDITS_USD if is_free else 0.0,
                "unit": "USD",
            },
            **({"accountPlanExpirationDate": ends} if is_free else {}),
        }
