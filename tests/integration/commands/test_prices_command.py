"""`ec2spawner prices`: what each profile costs, as EC2 and the Price List say it now."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ec2spawner.data import INTERRUPTIONS_DATE
from tests.harness import CONFIG, Embedded
from tests.integration.commands.admin import Admin

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_each_profile_of_the_hub_has_a_row(admin: Admin, embedded: Embedded) -> None:
    zone = f"{embedded.described['region']}b"
    price = {"instance_type": "g4dn.xlarge", "zone": zone, "usd_per_hour": 0.0501}
    await embedded.control("prices", price)
    ended = await admin.types("prices", f"--config={CONFIG}", "--json", "--latency")
    assert ended.status == 0, ended.errors
    assert ended.json["currency"] == "USD"
    assert ended.json["interruptions_of"] == INTERRUPTIONS_DATE.isoformat()
    rows = {row["profile"]: row for row in ended.json["rows"]}
    t4 = rows["T4, 16 GB"]
    assert (t4["region"], t4["offered"]) == (embedded.described["region"], True)
    assert t4["instance_type"] == "g4dn.xlarge"
    assert t4["spot_by_zone"][zone] == t4["spot_usd_per_hour"] == 0.0501
    assert t4["on_demand_usd_per_hour"] == 0.526
    assert t4["saving_percent"] == 90
    assert t4["risk"] == "often"
    assert t4["steadiness"]
    assert t4["latency_ms"] > 0
    assert rows.keys() == {
        "T4, 16 GB",
        "A10G, 24 GB",
        "L40S, 48 GB",
        "8 × A100, 320 GB",
        "No GPU",
    }


async def test_an_instance_type_that_a_region_lacks_is_reported(admin: Admin) -> None:
    profiles = (
        "--EC2Spawner.profile_list=[{'display_name': 'Rare', 'instance_types': ['zz9.huge']}]"
    )
    ended = await admin.types("prices", f"--config={CONFIG}", profiles)
    assert ended.status == 0, ended.errors
    assert "not offered" in ended.output


async def test_comma_separated_values_can_be_read_back(admin: Admin) -> None:
    ended = await admin.types("prices", f"--config={CONFIG}", "--csv")
    rows = list(csv.DictReader(io.StringIO(ended.output)))
    assert len(rows) == 5
    zones = dict(part.split("=") for part in rows[0]["spot_by_zone"].split())
    assert min(map(float, zones.values())) == float(rows[0]["spot_usd_per_hour"])


async def test_a_region_that_is_not_enabled_is_not_queried(
    admin: Admin, embedded: Embedded
) -> None:
    before = len(await embedded.control("calls"))
    ended = await admin.types(
        "prices", f"--config={CONFIG}", "--region=eu-west-1", "--allow-region=us-east-1"
    )
    assert ended.status == 2
    assert "eu-west-1 is not allowed" in ended.errors
    assert len(await embedded.control("calls")) == before


async def test_an_unreachable_region_is_reported_with_its_reason(
    admin: Admin, embedded: Embedded
) -> None:
    fault = {"action": "DescribeAvailabilityZones", "kind": "UnauthorizedOperation", "times": 1}
    await embedded.control("faults", fault)
    ended = await admin.types("prices", f"--config={CONFIG}", "--json")
    assert ended.status == 1
    assert all("UnauthorizedOperation" in row["error"] for row in ended.json["rows"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--region=foo bar",), '"foo bar" is no region'),
        (("--regoin=us-east-1",), "--regoin=us-east-1"),
        (("--config=.",), "is a folder"),
    ],
)
async def test_wrong_arguments_are_refused_before_any_call(
    admin: Admin, arguments: tuple[str, ...], said: str
) -> None:
    ended = await admin.types("prices", "--json", *arguments)
    assert (ended.status, ended.output) == (2, "")
    assert said in ended.errors
    assert "Traceback" not in ended.errors


async def test_an_unknown_region_name_is_reported(admin: Admin) -> None:
    ended = await admin.types("prices", "--region=us-esat-1", "--json")
    assert ended.status == 1
    assert all("AWS has no region of this name" in row["error"] for row in ended.json["rows"])


async def test_a_missing_region_is_reported(admin: Admin) -> None:
    nowhere = {"AWS_REGION": None, "AWS_DEFAULT_REGION": None}
    ended = await admin.types("prices", environment=nowhere)
    assert ended.status == 2
    assert "--region=us-east-1" in ended.errors


async def test_the_configuration_in_the_current_folder_is_the_default(
    admin: Admin, tmp_path: Path
) -> None:
    here = Admin(admin.embedded, tmp_path)
    only = (
        f"{CONFIG.read_text()}\nc.EC2Spawner.profile_list = [{{'display_name': 'T', 'gpu': 'T4'}}]"
    )
    (tmp_path / "jupyterhub_config.py").write_text(only)

    ended = await here.types("prices", "--json")

    assert ended.status == 0, ended.errors
    assert {row["profile"] for row in ended.json["rows"]} == {"T"}
    assert "./jupyterhub_config.py" in ended.errors
    nowhere = {"AWS_REGION": None, "AWS_DEFAULT_REGION": None}
    ended = await here.types("prices", "--defaults", environment=nowhere)
    assert ended.status == 2
    assert "no region is given" in ended.errors, "the file's was not read"


async def test_an_unreachable_hub_address_does_not_affect_prices(admin: Admin) -> None:
    wrong = "--EC2Spawner.hub_api_url=http://10.0.0.5:8081"
    ended = await admin.types("prices", f"--config={CONFIG}", "--json", wrong)
    assert ended.status == 0, ended.errors
    region = "--EC2Spawner.region=us-east-1a"
    ended = await admin.types("prices", f"--config={CONFIG}", "--json", region)
    assert ended.status == 2
    assert "c.EC2Spawner.region" in ended.errors
