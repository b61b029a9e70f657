"""Options of the hub's file that nothing reads, or that traitlets cannot read, are findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.check.finding import State
from ec2spawner.check.hub_config import ConfigurationBroken, load

OURS = """c.JupyterHub.spawner_class = "ec2"
c.EC2Spawner.region = "us-east-1"
c.EC2Spawner.subnets = ["subnet-0123456789abcdef0"]
c.EC2Spawner.security_groups = ["sg-0123456789abcdef0"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "jupyterhub_config.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("line", "name", "state", "meant"),
    [
        ("c.EC2Spwaner.region = 'us-east-1'", "c.EC2Spwaner", State.FAILED, "c.EC2Spawner"),
        ("c.Jupyterhub.port = 1", "c.Jupyterhub", State.FAILED, "c.JupyterHub"),
        ("c.EC2Spawer.region = 'us-east-1'", "c.EC2Spawer", State.FAILED, "c.EC2Spawner"),
        ("c.EC3Spawner.region = 'us-east-1'", "c.EC3Spawner", State.FAILED, "c.EC2Spawner"),
        ("c.Authenticators.x = 1", "c.Authenticators", State.FAILED, "c.Authenticator"),
        ("c.JupyterHub.prot = 1", "c.JupyterHub.prot", State.WARNING, "port"),
        ("c.Spawner.defualt_url = '/lab'", "c.Spawner.defualt_url", State.WARNING, "default_url"),
    ],
)
def test_a_misspelt_name_is_a_finding(
    tmp_path: Path, line: str, name: str, state: State, meant: str
) -> None:
    config = load(written(tmp_path, OURS + line))
    [found] = [each for each in config.findings if each.name == name]
    assert found.state is state
    assert meant in found.fix


@pytest.mark.parametrize(
    "line",
    [
        "c.IdleCuller.timeout = 3",
        "c.KubeSpawner.x = 3",
        "c.DockerSpawner.x = 3",
        "c.SudoSpawner.x = 3",
        "c.LDAPAuthenticator.x = 3",
        "c.NativeAuthenticator.x = 3",
        "c.CASAuthenticator.x = 3",
        "c.LTI11Authenticator.x = 3",
        "c.TmpAuthenticator.x = 3",
        "c.MyOAuthenticator.x = 3",
        "c.TraefikProxy.x = 3",
        "c.Spawner.region = 'us-east-1'",
        "c.Spawner.default_url = '/lab'",
        "c.Application.log_level = 10",
        "c.JupyterHub.load_roles.append({'name': 'x', 'scopes': []})",
    ],
)
def test_what_somebody_reads_or_may_read_is_none(tmp_path: Path, line: str) -> None:
    assert load(written(tmp_path, OURS + line)).unread == ()


def test_each_value_of_a_wrong_kind_is_named(tmp_path: Path) -> None:
    lines = "c.EC2Spawner.region = None\nc.EC2Spawner.subnets = 3\n"
    with pytest.raises(ConfigurationBroken) as broken:
        load(written(tmp_path, OURS + lines))
    said = {each.name: each.said for each in broken.value.findings}
    assert said.keys() == {"c.EC2Spawner.region", "c.EC2Spawner.subnets"}
    assert said["c.EC2Spawner.region"].startswith("is None")
    assert "int" in said["c.EC2Spawner.subnets"]


def test_a_hub_with_another_spawner_hears_of_the_misspelt_option_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationBroken) as broken:
        load(written(tmp_path, 'c.JupyterHub.spawner_clas = "ec2"'))
    assert [each.name for each in broken.value.findings] == [
        "c.JupyterHub.spawner_class",
        "c.JupyterHub.spawner_clas",
    ]


def test_a_misspelt_region_is_named_with_the_one_that_is_meant(tmp_path: Path) -> None:
    config = load(written(tmp_path, OURS.replace("us-east-1", "us-est-1")))
    [found] = [each for each in config.findings if each.name == "c.EC2Spawner.region"]
    assert "no region" in found.said
    assert "us-east-1" in found.fix.partition("?")[0]
