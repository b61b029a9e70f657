"""Files of a user's home, written and read where the embedded EC2 keeps it."""

from __future__ import annotations

import asyncio
from typing import Any

from ec2spawner.core.tags import HOME, USER
from tests.harness import Embedded, until
from tests.integration.hub.agents_on_instances import home_on


class HomeOf:
    """The volume of a user's default server, and the files that must be on it."""

    def __init__(self, embedded: Embedded, user: str) -> None:
        self.embedded = embedded
        self.user = user
        self.files: set[str] = set()
        """Written, so that the home must have them at the end."""

    async def holder(self) -> str | None:
        """Id of the instance that has it; None for none."""
        found = await self._volumes()
        return next((x["InstanceId"] for each in found for x in each["Attachments"]), None)

    async def _volumes(self) -> list[dict[str, Any]]:
        ec2 = self.embedded.client()
        filters = [
            {"Name": f"tag:{USER}", "Values": [self.user]},
            {"Name": "tag-key", "Values": [HOME]},
        ]
        found: list[dict[str, Any]] = (
            await asyncio.to_thread(ec2.describe_volumes, Filters=filters)
        )["Volumes"]
        return found

    async def until_free(self) -> None:
        async def is_free() -> bool:
            return await self.holder() is None

        await until(is_free, 90, f"the home of {self.user} to be free")

    def write(self, instance_id: str, name: str) -> None:
        """Write a file, unless the instance has unmounted the home meanwhile."""
        home = home_on(self.embedded, instance_id)
        if home.is_symlink():
            (home / name).write_text(name)
            self.files.add(name)

    def lost(self) -> set[str]:
        """The files that are on no volume."""
        volumes = self.embedded.data_dir / "ec2" / "volumes"
        found = {file.name for file in volumes.glob("*/*.txt")}
        return {name for name in self.files if name not in found}
