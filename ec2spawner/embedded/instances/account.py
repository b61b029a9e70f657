"""The account's plan, and whether AWS has verified it."""

from __future__ import annotations

from typing import Final, Literal

from ..api.protocol import EC2Error
from ..market.type_facts import instance_type_facts

Plan = Literal["free", "paid"]

NOT_ELIGIBLE: Final = (
    "The specified instance type is not eligible for Free Tier. For a list of Free Tier instance "
    "types, run 'describe-instance-types' with the filter 'free-tier-eligible=true'."
)
"""Seen with `InvalidParameterCombination` in 2025 and 2026, such as in
LinkedInLearning/learning-terraform-3087701#345."""

BEING_VALIDATED: Final = (
    "Your request for accessing resources in this region is being validated, and you will not be "
    "able to launch additional resources in this region until the validation is complete. We will "
    "notify you by email once your request has been validated. While normally resolved within "
    "minutes, please allow up to 4 hours for this process to complete. If the issue still "
    "persists, please let us know by writing to aws-verification@amazon.com for further assistance."
)
"""Seen with `PendingVerification`, such as in skyplane-project/skyplane#799."""


class Account:
    """The modes of the account, which a control call sets.

    Verification also refuses new volumes, as EC2's older message says ("launch additional instances
    or create additional volumes", galaxyproject/cloudlaunch#150). A dry run notices neither: of the
    plan that has been seen, of a verification it is our assumption.
    """

    def __init__(self, region: str) -> None:
        self.plan: Plan | None = "paid"
        """None for an account without one: one of an organization, or an older one."""
        self.is_verified = True
        self._region = region

    def check_verified(self) -> None:
        """Raises EC2's error while AWS verifies the account."""
        if not self.is_verified:
            raise EC2Error("PendingVerification", BEING_VALIDATED)

    def check_launch(self, instance_type: str) -> None:
        """Raises EC2's error for an instance of this type; CreateFleet has it for each offer."""
        self.check_verified()
        if self.plan != "free":
            return
        if not instance_type_facts(instance_type, self._region).in_free_tier:
            raise EC2Error("InvalidParameterCombination", NOT_ELIGIBLE)
