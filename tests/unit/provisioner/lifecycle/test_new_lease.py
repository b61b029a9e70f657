"""What a choice becomes: machines that the home's zones have, today's image, or clear words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ec2spawner.config import Options, Profile, validate_options
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.core.profiles.choices import Choice
from ec2spawner.hub.app.spawn_error import SpawnError
from ec2spawner.hub.spawn.home_choice import plan_home
from ec2spawner.hub.spawn.lease_request import Server, new_lease
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.image import Image
from ec2spawner.provisioner.model.leases.home_change import NO_CHANGE
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.wire import Market
from tests.unit.provisioner.world import World, until

ADA = Server("ada", "")


def hub_options(**changed: Any) -> Options:
    profile = {"display_name": "T4", "gpu": "T4", "disk_gib": 80, "idle": {"server": "30m"}}
    raw = {"region": "us-east-1", "subnets": ["subnet-a", "subnet-b"], "profile_list": [profile]}
    return validate_options({**raw, **changed}, cleanup_servers=False, environ={})


async def leased(world: World, profile: dict[str, Any] | None = None, /, **chosen: Any) -> Lease:
    """The lease of a profile without further choice, or with `chosen`."""
    options = hub_options(**({"profile_list": [profile]} if profile else {}))
    [only] = options.profiles
    choice: Choice[Profile] = replace(Choice(only, only.markets), **chosen)
    lease, _ = await new_lease(
        "lease-1",
        ADA,
        choice,
        options=options,
        idle=options.idle_policy(only, choice.server_idle_seconds),
        sleep=options.sleep_rules_of(only),
        provisioner=world.provisioner,
        hub_api_url="http://10.0.0.5:8081/hub/api",
        sealed_start="sealed",
        start_timeout=900,
    )
    return lease


async def refused(world: World, profile: dict[str, Any] | None = None) -> SpawnError:
    with pytest.raises(SpawnError) as error:
        await leased(world, profile)
    return error.value


async def offerings_read(world: World) -> None:
    await world.provisioner.market.catalogue.refresh()


async def test_without_a_choice_the_profile_applies(world: World) -> None:
    lease = await leased(world)
    assert lease.spec.instance_types[0] == "g4dn.xlarge"
    assert lease.spec.markets == (Market.SPOT, Market.ON_DEMAND)
    assert lease.spec.disk_gib == 80
    assert lease.idle.server_seconds == 1800


async def test_a_choice_overrides_only_its_own_fields(world: World) -> None:
    lease = await leased(
        world, markets=(Market.ON_DEMAND,), disk_gib=300, server_idle_seconds=7200.0
    )
    assert lease.spec.markets == (Market.ON_DEMAND,)
    assert lease.spec.disk_gib == 300
    assert lease.idle.user_server_seconds == 7200
    assert lease.idle.kernel_seconds == 7200, "the hub's own"
    assert lease.launch_key != (await leased(world)).launch_key


async def test_a_wait_leaves_time_for_the_boot(world: World) -> None:
    lease = await leased(world)
    assert lease.wait is None
    chosen = {"waits": True, "otherwise": (Market.ON_DEMAND,), "max_usd_per_hour": 0.3}
    waits = await leased(world, **chosen)
    assert waits.spec.max_usd_per_hour == 0.3
    assert waits.wait is not None
    assert waits.wait.otherwise == (Market.ON_DEMAND,)
    seconds = (waits.wait.until - waits.requested_at).total_seconds()
    assert 500 < seconds < 900, "of a start_timeout of 900 s"


async def test_the_image_is_kept_with_the_lease(world: World) -> None:
    world.cloud.images = {"ami-9": Image("ami-9", name="Deep Learning AMI", driver="580.95")}
    lease = await leased(world)
    assert lease.spec.image_id == "ami-9"
    assert lease.image is not None
    assert lease.image.driver == "580.95"


async def test_a_disk_has_at_least_the_size_of_the_image_that_grew(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.cloud.images = {"ami-9": Image("ami-9", root_gib=125)}
    assert (await leased(world)).spec.disk_gib == 125
    assert (await leased(world, disk_gib=80)).spec.disk_gib == 125
    assert (await leased(world, disk_gib=300)).spec.disk_gib == 300
    said = [record.getMessage() for record in caplog.records]
    assert all("ami-9" in line and "125 GiB" in line and "disk_gib" in line for line in said)
    assert len(said) == 2


async def test_a_missing_image_is_reported(world: World) -> None:
    world.cloud.images = {}
    error = await refused(world)
    assert (error.status_code, error.reason) == (503, "image")
    assert "admin" in str(error.message)
    busy = CloudError("RequestLimitExceeded", "slow down", retryable=True)
    world.cloud.fail("find_image", busy)
    error = await refused(world)
    assert "Try again in a minute" in str(error.message)
    assert error.log_message == "RequestLimitExceeded: slow down"


async def test_only_types_that_the_zones_offer_are_requested(world: World) -> None:
    for zone in ("us-east-1a", "us-east-1b"):
        world.cloud.not_offered.add(("g4dn.xlarge", zone))
    world.cloud.not_offered.add(("g4dn.2xlarge", "us-east-1a"))
    await offerings_read(world)
    types = (await leased(world)).spec.instance_types
    assert "g4dn.xlarge" not in types
    assert types[0] == "g4dn.2xlarge", "one zone has it"


async def test_a_gpu_that_no_zone_has_is_named_with_the_zones(world: World) -> None:
    for name, kind in world.cloud.types.items():
        if kind.gpu == "T4":
            world.cloud.not_offered |= {(name, "us-east-1a"), (name, "us-east-1b")}
    await offerings_read(world)
    error = await refused(world)
    assert error.reason == "not-offered"
    message = str(error.message)
    assert "1 × T4 in us-east-1a or us-east-1b" in message
    assert "an admin of this JupyterHub" in message


async def test_a_home_in_a_zone_without_the_gpu_says_where_it_is(world: World) -> None:
    lease, _ = await world.ready("ada", home_kind="ebs")
    instance = world.provisioner._state.instances.instance_of(lease)
    assert instance is not None
    await world.stop(lease)
    for name, kind in world.cloud.types.items():
        if kind.gpu == "T4":
            world.cloud.not_offered.add((name, instance.zone))
    await offerings_read(world)
    message = str((await refused(world)).message)
    assert f"1 × T4 in {instance.zone}, where your files are" in message
    assert "another zone of this hub" in message


async def test_a_type_not_described_yet_is_accepted(world: World) -> None:
    """A function of the admin's may name it for the first time at this start."""
    world.cloud.types["x99.2xlarge"] = replace(world.cloud.types["m7i.2xlarge"], name="x99.2xlarge")
    await offerings_read(world)
    catalogue = world.provisioner.market.catalogue
    assert "x99.2xlarge" not in catalogue.types
    named = ["x99.2xlarge", "g4dn.xlarge"]
    lease = await leased(world, {"display_name": "New", "instance_types": named})
    assert lease.spec.instance_types == tuple(named)
    await until(lambda: "x99.2xlarge" in catalogue.types, "EC2 to be asked about it")


async def test_a_named_type_that_no_zone_offers_is_reported_by_name(world: World) -> None:
    await offerings_read(world)
    error = await refused(world, {"display_name": "No", "instance_types": ["g98.2xlarge"]})
    assert "g98.2xlarge in us-east-1a or" in str(error.message)


async def test_prices_of_requested_types_stay_fresh(world: World) -> None:
    world.cloud.prices["g6e.xlarge", "us-east-1a"] = 0.71
    assert "g6e.xlarge" not in world.settings.want_types
    await world.provisioner.request(await leased(world, {"display_name": "L40S", "gpu": "L40S"}))
    prices = world.provisioner.market.prices
    await until(lambda: prices.price(Market.SPOT, "g6e.xlarge", "us-east-1a"), "its price")


async def test_a_home_in_a_zone_without_a_subnet(world: World) -> None:
    lease, _ = await world.ready("ada", home_kind="ebs")
    instance = world.provisioner._state.instances.instance_of(lease)
    assert instance is not None
    await world.stop(lease)
    left = tuple(s for s, zone in world.cloud.subnets.items() if zone != instance.zone)
    await world.restart(subnets=left)
    error = await refused(world)
    assert error.reason == "home"
    assert "no subnet there any more" in str(error.message)


async def test_nothing_of_a_temporary_server_stays(world: World) -> None:
    linger = {"display_name": "T4", "gpu": "T4", "after_stop": {"stop": "7d"}}
    lease = await leased(world, linger, temporary_seconds=900.0)
    assert lease.mounts.temporary_home
    assert lease.home_kind == "ebs"
    assert lease.idle.max_age_seconds == 900
    assert lease.after_stop == AfterStop()
    assert lease.sleep.save_seconds == 0
    kept = await leased(world, linger)
    assert not kept.mounts.temporary_home
    assert kept.after_stop != AfterStop()


async def test_a_temporary_home_hides_no_files(world: World) -> None:
    await world.ready("ada", home_kind="ebs")
    with pytest.raises(SpawnError, match="has a home with files"):
        await leased(world, temporary_seconds=900.0)


async def test_a_configured_age_that_is_shorter_holds_for_a_temporary_server(world: World) -> None:
    short = {"display_name": "T4", "gpu": "T4", "idle": {"max_age": "10m"}}
    assert (await leased(world, short, temporary_seconds=900.0)).idle.max_age_seconds == 600


async def test_an_empty_home_can_be_chosen_where_the_first_one_would_be_a_copy(
    world: World,
) -> None:
    await world.ready("ada", home_kind="ebs")
    options = hub_options(home={"named_servers": "copy"})
    [only] = options.profiles
    empty = replace(Choice(only, only.markets), replace_home="empty")
    change = await plan_home(world.provisioner, "ada", "gpu", empty, options)
    assert change == NO_CHANGE
    with pytest.raises(SpawnError, match="this server has none"):
        await plan_home(world.provisioner, "ada", "gpu", empty, hub_options())
    ordinary: Choice[Profile] = Choice(only, only.markets)
    copied = (await plan_home(world.provisioner, "ada", "gpu", ordinary, options)).after
    assert copied is not None
    assert copied.is_being_copied
