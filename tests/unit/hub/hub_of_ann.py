"""A hub and a spawner of ann, as far as runs and servers of hers need them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ec2spawner.config import Options, validate_options
from ec2spawner.hub.app.call_limits import CallLimits
from ec2spawner.hub.security.sealed_start import Seal
from ec2spawner.spawner import EC2Spawner
from tests.user_accounts import fake_user

PAYERS = {"group": ["lab", "research"]}
URL = "http://hub.test/hub/api"


def spawner_of(*groups: str) -> EC2Spawner:
    """Make the spawner of ann, who is in these groups."""
    return EC2Spawner(
        user=fake_user("ann", *groups),
        profile_list=[{"display_name": "T4", "slug": "t4", "instance_types": ["g4dn.xlarge"]}],
    )


def service(spawner: EC2Spawner, payers: dict[str, Any]) -> Any:
    """Make the service of a hub, as far as runs need it."""
    options: Options = validate_options(
        {
            "region": "us-east-1",
            "subnets": ["subnet-a", "subnet-b"],
            "profile_list": spawner.profile_list,
            "payers": payers,
            "runs": {"at_once": 4},
        },
        cleanup_servers=False,
        environ={},
    )
    return SimpleNamespace(options=options, seal=Seal(b"x" * 32), limits=CallLimits())
