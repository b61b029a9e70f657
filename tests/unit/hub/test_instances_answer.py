"""One open lease in the answers of `GET instances` and `GET usage`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from ec2spawner.core.instances.scheduled_events import ScheduledEvent
from ec2spawner.hub.api.instances import ServerModel, server_model
from ec2spawner.provisioner.model.cloud.launch import LaunchSpec
from ec2spawner.provisioner.model.leases.lease import Lease, LeaseState
from ec2spawner.provisioner.model.leases.run import run_server
from ec2spawner.provisioner.overview import ServerNow
from ec2spawner.wire import IdlePolicy, Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

SERVER = Lease(
    lease_id="lease-1",
    user="ada",
    server="lab",
    profile="t4",
    profile_name="T4, 16 GB",
    spec=LaunchSpec(("g4dn.xlarge",), ("subnet-a",), "ami-1", (Market.SPOT,), 100),
    launch_key="key",
    home_kind="none",
    home_gib=0,
    idle=IdlePolicy(),
    state=LeaseState.READY,
    requested_at=NOW,
    ready_at=NOW,
)
RUN = replace(SERVER, server=run_server(12), run=12)


def shown(lease: Lease) -> ServerModel:
    seen = ServerNow(lease, None, NOW, "", None, False, None, None, None)
    return server_model(seen, NOW)


def test_what_aws_has_announced_is_shown_by_its_code_and_time() -> None:
    event = ScheduledEvent("instance-retirement", NOW)
    seen = ServerNow(SERVER, None, None, "", None, False, None, event, None)
    shown = server_model(seen, NOW).scheduled_event
    assert shown is not None
    assert (shown.code, shown.not_before) == ("instance-retirement", NOW)


def test_a_run_has_its_number_and_a_server_has_none() -> None:
    assert (shown(RUN).server, shown(RUN).run, shown(RUN).worker) == ("/run/12", 12, None)
    assert shown(SERVER).run is None


def test_no_run_is_idle_whatever_its_agent_says() -> None:
    assert shown(SERVER).idle_since == NOW
    assert shown(RUN).idle_since is None
