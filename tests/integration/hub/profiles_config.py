"""The demo's hub with profiles of functions, which a test steers by a file."""

import json
import os
from pathlib import Path

DEMO = Path(__file__).parents[3] / "configs/demo/jupyterhub_config.py"

load_subconfig(str(DEMO))  # noqa: F821 - JupyterHub provides it
c = get_config()  # noqa: F821 - JupyterHub provides it

PROFILES = Path(os.environ["PROFILES"])
"""A JSON list of profiles; `groups` may name a function of this file."""


def on_call(spawner):
    return spawner.user.name == "rita"


async def broken(spawner):
    raise LookupError(f"no directory knows {spawner.user.name}")


async def profiles(_spawner):
    found = json.loads(PROFILES.read_text())
    for profile in found:
        if isinstance(profile.get("groups"), str):
            profile["groups"] = {"on_call": on_call, "broken": broken}[profile["groups"]]
    return found


c.EC2Spawner.profile_list = profiles
c.EC2Spawner.contact = "gpu-help@example.org"
c.EC2Spawner.group_overrides = {
    "small disks": {"groups": ["students"], "spawner_override": {"disk_gib": 80}}
}
c.JupyterHub.load_groups = {"research": {"users": ["rita"]}, "students": {"users": ["stu"]}}
c.Authenticator.admin_users = {"observer"}
