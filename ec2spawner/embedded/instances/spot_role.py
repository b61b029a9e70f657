"""The service-linked role without which EC2 launches no spot instance."""

from __future__ import annotations

from ..api.moto_backend import Moto
from ..api.protocol import EC2Error

SPOT_ROLE = "AWSServiceRoleForEC2Spot"


async def spot_refusal(moto: Moto) -> EC2Error | None:
    """The error of every spot offer in an account without the role; None where it has it.

    EC2 would create the role for a caller who may: no policy of a hub allows that.
    """
    found = await moto.forward_call("GetRole", {"RoleName": SPOT_ROLE}, service="iam")
    if found.status < 300:
        return None
    return EC2Error(
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "The provided credentials do not have permission to create the service-linked role for "
        "EC2 Spot Instances.",
        status=403,
    )
