"""The baseline: a spawner that launches its instance and lets JupyterHub find out the rest.

It does what spawners for EC2 do today, and does it as well as that can be done: one RunInstances
for each start, the notebook's environment in user-data, and JupyterHub's own polling until
something answers at the instance's address. Nothing waits on purpose, the client is made with
the hub, and the address is returned as soon as EC2 returns one.

For benches only. It leaks in all the ways that a spawner of this kind leaks, and its user-data
holds the server's token.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import ClientError
from jupyterhub.spawner import Spawner
from traitlets import Unicode, default

PORT = 8888

DESCRIBE_PAUSE = 0.2
"""Seconds between two DescribeInstances while there is no address yet."""

LAUNCHED: Final[Mapping[str, Any]] = {"State": {"Name": "pending"}}
"""An instance that a read does not show yet: EC2 is eventually consistent."""


class NaiveSpawner(Spawner):
    """RunInstances, environment in user-data, the hub polls."""

    client: Any = None
    """boto3's EC2 client, one for the hub; its configuration file makes it."""

    image = Unicode(help="AMI id").tag(config=True)
    instance_type = Unicode("g4dn.xlarge", help="The type of every instance").tag(config=True)
    subnet = Unicode(help="Subnet id").tag(config=True)

    instance_id = ""

    @default("env_keep")
    def _env_keep_default(self) -> list[str]:
        return []  # the hub's PATH means nothing on an instance

    async def start(self) -> str:
        answer = await self._call(
            "run_instances",
            ImageId=self.image,
            InstanceType=self.instance_type,
            SubnetId=self.subnet,
            MinCount=1,
            MaxCount=1,
            InstanceInitiatedShutdownBehavior="terminate",
            UserData=self._user_data(),
        )
        self.instance_id = answer["Instances"][0]["InstanceId"]
        while not (address := (await self._describe()).get("PrivateIpAddress")):
            await asyncio.sleep(DESCRIBE_PAUSE)
        return f"http://{address}:{PORT}"

    async def poll(self) -> int | None:
        if not self.instance_id:
            return 0
        state = (await self._describe())["State"]["Name"]
        return None if state in {"pending", "running"} else 0

    async def stop(self, now: bool = False) -> None:
        await self._call("terminate_instances", InstanceIds=[self.instance_id])

    def get_state(self) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state()
        return state | {"instance_id": self.instance_id}

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self.instance_id = state.get("instance_id", "")

    def clear_state(self) -> None:
        super().clear_state()
        self.instance_id = ""

    async def _describe(self) -> Mapping[str, Any]:
        try:
            answer = await self._call("describe_instances", InstanceIds=[self.instance_id])
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidInstanceID.NotFound":
                raise
            return LAUNCHED
        found = [each for group in answer["Reservations"] for each in group["Instances"]]
        return found[0] if found else LAUNCHED

    async def _call(self, name: str, **arguments: Any) -> Any:
        return await asyncio.to_thread(getattr(self.client, name), **arguments)

    def _user_data(self) -> str:
        """The whole environment, and the server in place of the shell.

        The machines of the embedded EC2 share a network, so the server must know its own
        address: the metadata service of each listens there, and its name reveals it without a call.
        """
        environment = self.get_env()
        prefix = environment["JUPYTERHUB_SERVICE_PREFIX"]
        exports = [f"export {name}={shlex.quote(v)}" for name, v in environment.items()]
        command = shlex.join([*self.cmd, *self.get_args(), "--allow-root"])
        return "\n".join(
            [
                "#!/bin/bash",
                *exports,
                "address=${AWS_EC2_METADATA_SERVICE_ENDPOINT#http://}",
                f"export JUPYTERHUB_SERVICE_URL=http://${{address%%:*}}:{PORT}{prefix}",
                "export HOME=$EC2SPAWNER_NOTEBOOK_HOME",
                'cd "$HOME"',
                "user=${EC2SPAWNER_NOTEBOOK_USER%:*} group=${EC2SPAWNER_NOTEBOOK_USER#*:}",
                f'[ "$user" = "$EUID" ] && exec {command}',
                f'exec setpriv --reuid "$user" --regid "$group" --clear-groups {command}',
                "",
            ]
        )
