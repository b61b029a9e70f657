"""SSM's public parameters that name images, which moto lacks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..network import IMAGE_NAME

PREFIXES = (
    "/aws/service/deeplearning/ami/x86_64/",
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/",
)
"""Public parameters below these name the newest Deep Learning AMI, and Ubuntu: here, both are the
only image."""


class PublicParameters:
    """Answers GetParameter and GetParameters for names below `PREFIXES`; the rest is moto's."""

    def __init__(self, image_id: str) -> None:
        self._image_id = image_id
        self._since = time.time()

    async def answer(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """GetParameter and GetParameters; None where a name is not below `PREFIXES`."""
        if action not in ("GetParameter", "GetParameters"):
            return None
        names = asked.get("Names") or [asked.get("Name") or ""]
        if not all(name.startswith(PREFIXES) for name in names):
            return None
        found = [
            {
                "Name": name,
                "Type": "String",
                "Value": self._image_id if name.endswith("/ami-id") else IMAGE_NAME,
                "Version": 1,
                "LastModifiedDate": self._since,
                "DataType": "aws:ec2:image" if name.endswith("/ami-id") else "text",
            }
            for name in names
        ]
        if action == "GetParameter":
            return {"Parameter": found[0]}
        return {"Parameters": found, "InvalidParameters": []}
