"""Runs in namespaces of its own: an admin who types what the pages say, command by command.

On their computer they have the AWS CLI, whose EC2, Service Quotas, SSM, IAM and STS are those of
the embedded EC2, and whose CloudFormation and S3 are moto's. Their hub's machine is what
`setup-hub.sh` makes. Prints every command with its exit status as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moto.server import ThreadedMotoServer

from ec2spawner.provisioner.store.store import Store
from tests.harness import Embedded, end
from tests.integration.hub.hub_machine import CONFIG, HUB_ENV, isolate, new_machine, sh
from tests.integration.hub.wheels import AWS
from tests.integration.pages.page_commands import TREE, Command, commands

HUB_NAME = "my-hub"
CLASS = "configs/class/jupyterhub_config.py"
WHEEL = "ec2spawner-0.1.0.dev0-py3-none-any.whl"
SAID_BY_THE_READER = {"MY-WHEELS": "my-wheels", "SHA256": "0" * 64, "-NEW-": "-0.2.0-"}

SYSTEMD_RUN = """#!/bin/bash
[[ -n ${CLEAN-} ]] || exec env -i CLEAN=1 PATH="$PATH" "$0" "$@"
while [[ $1 != -- ]]; do
    case $1 in
        --property=EnvironmentFile=*) set -a; source "${1#*EnvironmentFile=}"; set +a ;;
        --setenv=*) export "${1#--setenv=}" ;;
        --working-directory=*) cd "${1#*=}" ;;
    esac
    shift
done
shift
exec setpriv --reuid=jupyterhub --regid=jupyterhub --clear-groups \\
    --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "$@"
"""
"""The Python of a checkout may be in root's home."""

PROGRAMS = {
    "aws": f'#!/bin/sh\nPYTHONPATH={sys.prefix}/aws exec {sys.executable} -m awscli "$@"\n',
    "sudo": '#!/bin/sh\nexec "$@"\n',
    "systemd-run": SYSTEMD_RUN,
}


class Admin:
    """Their shell, and what they have seen so far."""

    def __init__(self, scratch: Path, embedded: Embedded, moto: str) -> None:
        self._embedded = embedded
        self._seen: dict[str, str] = {}
        """The newest id of each kind, which a reader inserts for the page's."""
        self._computer = {
            **os.environ,
            **embedded.admin_credentials,
            "AWS_DEFAULT_REGION": embedded.described["region"],
            "AWS_ENDPOINT_URL": embedded.described["ec2_endpoint"],
            "AWS_ENDPOINT_URL_CLOUDFORMATION": moto,
            "AWS_ENDPOINT_URL_S3": moto,
        }
        hub = dict(
            line.split("=", 1)
            for file in (HUB_ENV, CONFIG / "secrets.env")
            for line in file.read_text().splitlines()
        )
        path = f"/opt/jupyterhub/bin:/opt/jupyterhub/proxy/node_modules/.bin:{os.environ['PATH']}"
        self._hub = {name: value.strip('"') for name, value in hub.items()} | {"PATH": path}
        self._clone = self._folder = scratch / "clone"
        self._pwd = scratch / "pwd"
        self._page = ""

    def saw(self, text: str) -> None:
        for found in re.findall(r"\b[a-z]+-[0-9a-f]{17}\b", text):
            self._seen[found.partition("-")[0]] = found

    def insert(self, command: str) -> str:
        for written, own in SAID_BY_THE_READER.items():
            command = command.replace(written, own)
        return re.sub(
            r"\b([a-z]+)-0a1b2c3d4e5f6071\d\b",
            lambda example: self._seen.get(example[1], example[0]),
            command,
        )

    def run(self, command: Command) -> dict[str, Any]:
        if command.page != self._page:
            self._page, self._folder = command.page, self._clone
        # Without sudo, in the hub's own environment: so these pages say.
        on_hub = re.match(r"(cd \S+ && )?ec2spawner ", command.text) is not None
        began = time.monotonic()
        done = subprocess.run(
            [
                "bash",
                "-c",
                f'{self.insert(command.text)}\nstatus=$?\npwd >"{self._pwd}"\nexit $status',
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd="/srv/jupyterhub" if on_hub else self._folder,
            env=self._hub if on_hub else self._computer,
            check=False,
        )
        self._folder = Path(self._pwd.read_text().strip())
        self.saw(done.stdout)
        if CLASS in command.text:
            edit_the_class(self._embedded.described)
        took = round(time.monotonic() - began, 1)
        return {"status": done.returncode, "said": done.stdout, "seconds": took}


def edit_the_class(described: dict[str, Any]) -> None:
    """What the page's table says to replace in the class's configuration."""
    first = (CONFIG / "first_config.py").read_text()
    text = (
        (CONFIG / "jupyterhub_config.py").read_text().partition("# The accounts of the school")[0]
    )
    text += "\n".join(re.findall(r"^c\\..*[sS]hared-?[pP]assword.*$", first, re.M))
    package = re.search(r"^c.EC2Spawner.agent_package = .*?^\)$", first, re.M | re.S)
    assert package
    values = {
        "hub_name": HUB_NAME,
        "subnets": described["subnets"][:3],
        "security_groups": [described["security_group"]],
        "data_volumes": [],
    }
    for name, value in values.items():
        pattern = rf"^c.EC2Spawner.{name} = (\[[^\]]*\]|[^\n]*)"
        text, found = re.subn(pattern, f"c.EC2Spawner.{name} = {value!r}", text, flags=re.M)
        assert found == 1, name
    text = re.sub(r"^c.EC2Spawner.image = .*", package[0], text, flags=re.M)
    (CONFIG / "jupyterhub_config.py").write_text(f"import os\n{text}")


async def prepare(scratch: Path, embedded: Embedded) -> None:
    """The hub's machine, and a clone with the wheel on the admin's computer."""
    for name, program in PROGRAMS.items():
        (scratch / "bin" / name).write_text(program)
        (scratch / "bin" / name).chmod(0o755)
    new_machine(scratch / "machine")
    shutil.copytree(TREE / "configs", "/opt/jupyterhub/share/ec2spawner/configs")
    described = embedded.described
    values = {
        "HUB_PACKAGE": f"ec2spawner @ https://wheels.example.org/{WHEEL}#sha256={'0' * 64}",
        "HUB_NAME": HUB_NAME,
        "HUB_REGION": described["region"],
        "HUB_SUBNETS": " ".join(described["subnets"][:3]),
        "HUB_SECURITY_GROUPS": described["security_group"],
        "HUB_INSTANCE_PROFILE": "",
        "HUB_ADMIN": "admin",
        "HUB_USERS": "ann ben",
        "HUB_DATA_VOLUME": "",
        "AWS_ENDPOINT_URL": described["ec2_endpoint"],
        **embedded.credentials,
    }
    HUB_ENV.write_text("".join(f'{name}="{value}"\n' for name, value in values.items()))
    sh("mount", "-t", "tmpfs", "tmpfs", "/var/log")
    Path("/var/log/cloud-init-output.log").write_text(sh("bash", str(AWS / "setup-hub.sh")))
    store = await Store.open("sqlite:////srv/jupyterhub/ec2spawner.sqlite", now=datetime.now(UTC))
    await store.close()
    for file in Path("/srv/jupyterhub").iterdir():
        shutil.chown(file, "jupyterhub", "jupyterhub")
    # Where the hub is started, `ec2spawner` finds a configuration without being given one.
    shutil.copy(CONFIG / "jupyterhub_config.py", "/srv/jupyterhub")
    clone = scratch / "clone"
    (clone / "dist").mkdir(parents=True)
    (clone / "configs").symlink_to(TREE / "configs")
    (clone / "dist" / WHEEL).touch()


async def new_account(embedded: Embedded) -> str:
    """No GPUs yet, and Ann's home with a snapshot; ids that a reader sees."""
    await embedded.allow(hub_name=HUB_NAME)
    quotas = {"standard": 64, "g": 8}
    limits = {"token_buckets": False, "quotas": {"spot": quotas, "on-demand": quotas}}
    await embedded.control("limits", limits)
    await embedded.control("lag", {"seconds": 0})
    described, ec2 = embedded.described, embedded.client()
    tags = {"ec2spawner:hub": HUB_NAME, "ec2spawner:user": "ann"}
    tagged = [{"Key": key, "Value": value} for key, value in tags.items()]
    home = ec2.create_volume(
        AvailabilityZone=described["zones"][0],
        Size=1,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tagged}],
    )["VolumeId"]
    snapshot = ec2.create_snapshot(
        VolumeId=home, TagSpecifications=[{"ResourceType": "snapshot", "Tags": tagged}]
    )["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot], WaiterConfig={"Delay": 1})
    started = ec2.run_instances(
        ImageId=described["image_id"],
        InstanceType="t3.micro",
        SubnetId=described["subnets"][0],
        MinCount=1,
        MaxCount=1,
    )["Instances"][0]["InstanceId"]
    ec2.get_waiter("instance_running").wait(InstanceIds=[started], WaiterConfig={"Delay": 1})
    embedded.client("iam").delete_role(RoleName="AWSServiceRoleForEC2Spot")
    vpc = ec2.describe_subnets(SubnetIds=described["subnets"][:1])["Subnets"][0]["VpcId"]
    return f"{home} {snapshot} {started} {vpc}"


async def main(scratch: Path) -> None:
    isolate(scratch)
    embedded = await Embedded(scratch / "embedded").start()
    moto = ThreadedMotoServer(port=0, verbose=False)
    moto.start()
    try:
        seen = await new_account(embedded)
        await prepare(scratch, embedded)
        admin = Admin(scratch, embedded, "http://{}:{}".format(*moto.get_host_and_port()))
        admin.saw(seen)
        found = []
        for command in commands():
            known = {"page": command.page, "command": command.text, "reason": command.reason}
            done = {} if command.reason else await asyncio.to_thread(admin.run, command)
            found.append(known | done)
    finally:
        moto.stop()
        await end(embedded.process)
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
