"""The check and the hub's log name options that are impossible or without effect together,
read from a file."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.app import JupyterHub

from ec2spawner.check.finding import Finding, State
from ec2spawner.check.hub_config import load
from ec2spawner.config import bundled_prices, priced
from ec2spawner.hub.app.service import utc_now
from ec2spawner.hub.configuration import validate
from tests.unit.project.test_sample_security import DEMO, HUB_SETTINGS, SAMPLES

NEEDED: dict[str, Any] = {
    "JupyterHub.spawner_class": "ec2",
    "JupyterHub.cleanup_servers": False,
    "JupyterHub.hub_bind_url": "http://10.0.0.5:8081",
    "EC2Spawner.region": "us-east-1",
    "EC2Spawner.subnets": ["subnet-0a1b2c3d"],
    "EC2Spawner.image": "ami-0a1b2c3d",
}

SPOT_ONLY = [{"display_name": "T4", "gpu": "T4", "market": "spot-only"}]


def file_with(folder: Path, **changed: Any) -> Path:
    """A `jupyterhub_config.py`; a name without a class is the spawner's."""
    said = NEEDED | {
        name.replace("__", ".") if "__" in name else f"EC2Spawner.{name}": value
        for name, value in changed.items()
    }
    file = folder / "jupyterhub_config.py"
    file.write_text("".join(f"c.{name} = {value!r}\n" for name, value in said.items()))
    return file


def warnings(file: Path) -> dict[str, Finding]:
    found = load(file).findings
    assert [each for each in found if each.state is not State.WARNING] == []
    return {each.name.removeprefix("c.EC2Spawner."): each for each in found}


@pytest.mark.parametrize(
    ("changed", "state", "option", "said"),
    [
        ({"payers": {"user": False}}, State.FAILED, "payers", '"group" or "project"'),
        (
            {"runs": {"at_once": 2}, "image": {"container": "jupyter/base-notebook:1"}},
            State.FAILED,
            "runs.at_once",
            "c.EC2Spawner.image",
        ),
        (
            {
                "clusters": {"max_workers": 2},
                "security_groups": ["sg-0a1b2c3d"],
                "image": {"container": "jupyter/base-notebook:1"},
            },
            State.FAILED,
            "clusters.max_workers",
            "c.EC2Spawner.image",
        ),
        (
            {"runs": {"at_once": 2, "priorities": {"group:lab": 1}}},
            State.WARNING,
            'runs.priorities["group:lab"]',
            "c.EC2Spawner.payers",
        ),
        (
            {"runs": {"at_once": 2, "at_once_per_user": 3}},
            State.WARNING,
            "runs.at_once_per_user",
            '"at_once", 2',
        ),
        ({"sleep": {"max_disk_gib": 51}}, State.WARNING, "sleep", "c.EC2Spawner.home"),
        (
            {"after_stop": "stop", "profile_list": SPOT_ONLY},
            State.WARNING,
            "after_stop.stop",
            '"market"',
        ),
        (
            {"home": {"kind": "efs", "file_system": "fs-0a1b2c3d", "size_gib": 50}},
            State.WARNING,
            "home",
            '"size_gib" is for homes of kind "ebs", and "kind" is "efs"',
        ),
        (
            {
                "discounts": [
                    {
                        "instance_type": "g4dn.xlarge",
                        "usd_per_hour": 0.3,
                        "count": 1,
                        "until": "2020-01-01",
                    }
                ]
            },
            State.WARNING,
            "discounts[0].until",
            "2020-01-01 is over",
        ),
    ],
)
def test_a_pair_that_cannot_work_is_found_in_a_file(
    changed: dict[str, Any], state: State, option: str, said: str, tmp_path: Path
) -> None:
    [finding] = load(file_with(tmp_path, **changed)).findings
    assert finding.name == f"c.EC2Spawner.{option}"
    assert finding.state is state
    assert said in finding.said
    assert finding.fix


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.parent.name)
def test_a_sample_has_no_option_without_effect(
    sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    demo = DEMO | {"data_dir": str(tmp_path), "certificate": str(certificate)}
    monkeypatch.setenv("EC2SPAWNER_DEMO", json.dumps(demo))
    monkeypatch.setenv("PROMETHEUS_TOKEN", "0" * 32)
    monkeypatch.setenv("ALARMS_TO", "arn:aws:sns:us-east-1:123456789012:gpu-hub")
    for name in re.findall(r'environ\["(HUB_\w+)"\]', sample.read_text(encoding="utf-8")):
        monkeypatch.setenv(name, HUB_SETTINGS.get(name, "some-value"))
    config = load(sample)
    assert config.findings == []
    assert priced(config.options, config.beside, bundled_prices(config.options), utc_now()) == ()


def test_a_hub_logs_the_same_at_its_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = file_with(tmp_path, sleep={"max_disk_gib": 51}, limits={"hub": {"usd_per_hour": 0.01}})
    app = JupyterHub(log_level=logging.CRITICAL)
    app.load_config_file(str(file))
    app.init_hub()
    with caplog.at_level(logging.WARNING, logger="ec2spawner"):
        validate(app)
    [finding] = load(file).findings
    logged = [each.getMessage() for each in caplog.records]
    assert logged[0] == f"{finding.name}: {finding.said}. Fix: {finding.fix}"
    assert logged[1].startswith("c.EC2Spawner.limits.hub.usd_per_hour: USD 0.01 refuses every")
    assert len(logged) == 2


# --- what groups override ----------------------------------------------------------------------


def override(**changed: Any) -> dict[str, Any]:
    return {"1-lab": {"groups": ["lab"], "spawner_override": changed}}


IN_LAB = 'group_overrides["1-lab"]'


@pytest.mark.parametrize(
    ("changed", "option", "said"),
    [
        ({"sleep": {"max_disk_gib": 60}}, f"{IN_LAB}.sleep", "c.EC2Spawner.home has 50 GiB"),
        ({"home": {"size_gib": 60}}, f"{IN_LAB}.home", "home holds for the whole hub"),
        ({"slep": {"save": 0}}, f"{IN_LAB}.slep", "there is no such option"),
        ({"idle": {"server": "soon"}}, f"{IN_LAB}.idle.server", '"soon"'),
        ({"environment": {"A": "1"}}, "", ""),
        ({"idle": {"server": "20m"}}, "", ""),
    ],
)
def test_an_override_of_a_group_is_judged_beside_the_hubs_options(
    changed: dict[str, Any], option: str, said: str, tmp_path: Path
) -> None:
    found = warnings(file_with(tmp_path, group_overrides=override(**changed)))
    assert list(found) == ([option] if option else [])
    assert all(said in each.said for each in found.values())


def test_an_override_without_its_groups_fails_each_start(tmp_path: Path) -> None:
    found = warnings(file_with(tmp_path, group_overrides={"1-lab": {"spawner_override": {}}}))
    assert "JupyterHub fails at starts" in found[IN_LAB].said


def test_what_has_an_effect_for_a_group_is_no_finding(tmp_path: Path) -> None:
    on_demand = [{"display_name": "T4", "gpu": "T4", "market": "on-demand"}]
    hub = {"after_stop": "stop", "profile_list": SPOT_ONLY}
    assert list(warnings(file_with(tmp_path, **hub))) == ["after_stop.stop"]
    overrides = override(profile_list=on_demand)
    assert warnings(file_with(tmp_path, **hub, group_overrides=overrides)) == {}
    smaller = override(sleep={"max_disk_gib": 20})
    for_others = warnings(file_with(tmp_path, sleep={"max_disk_gib": 60}, group_overrides=smaller))
    assert list(for_others) == ["sleep"], "it still has no effect for those outside of the group"


def test_what_a_function_decides_for_groups_is_uncertain(tmp_path: Path) -> None:
    file = file_with(
        tmp_path,
        after_stop="stop",
        profile_list=SPOT_ONLY,
        idle={"server": "12h", "max_age": "8h"},
        sleep={"max_disk_gib": 60},
    )
    assert list(warnings(file)) == ["sleep", "idle", "after_stop.stop"]
    with file.open("a") as config:
        config.write("c.EC2Spawner.group_overrides = lambda spawner: {}\n")
    assert list(warnings(file)) == ["sleep"]
