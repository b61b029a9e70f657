"""Every sample configuration, held against the conditions of `docs/security.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.config import Options, validate_options
from tests.unit.project.test_docs import CONFIGS, DOCS, load_config

SAMPLES = sorted(CONFIGS.glob("*/jupyterhub_config.py"))

Sections = Mapping[str, Mapping[str, Any]]


def ends_every_server(options: Options, _: Sections) -> bool:
    overrides = [*options.idle_by_group.values(), *(each.idle for each in options.profiles)]
    return all(options.idle.changed_by(each).max_age for each in (options.idle, *overrides))


def only_named_users(_: Options, sections: Sections) -> bool:
    authenticators = [each for name, each in sections.items() if "Authenticator" in name]
    given = {key for each in authenticators for key, value in each.items() if value}
    return "allow_all" not in given and bool({"allowed_users", "allowed_groups"} & given)


CONDITIONS: Mapping[str, Callable[[Options, Sections], bool]] = {
    "homes are not on a shared file system": lambda options, _: options.home.kind != "efs",
    "`max_age` ends every server": ends_every_server,
    "clusters have security groups of their own": lambda options, _: (
        not options.clusters.max_workers or bool(options.security_groups)
    ),
    "no instance profile": lambda options, _: not options.instance_profile,
    "stopping the hub stops no server": lambda _, sections: (
        sections["JupyterHub"]["cleanup_servers"] is False
    ),
    "only named users or groups log in": only_named_users,
    "users reach the hub over TLS": lambda _, sections: sections["JupyterHub"][
        "bind_url"
    ].startswith("https://"),
}

ONE_PERSON = "one person tries it on 127.0.0.1, and the instances are processes there"

WAIVED = {
    ("aws", "no instance profile"): "configs/sessions-policy.json, if the stack makes one at all",
    ("shared-data", "no instance profile"): "its users are meant to share the buckets",
    ("demo", "`max_age` ends every server"): ONE_PERSON,
    ("demo", "only named users or groups log in"): ONE_PERSON,
    ("demo", "users reach the hub over TLS"): ONE_PERSON,
}
"""Name of a sample and the condition that it does not meet -> why."""


def test_the_page_lists_these_conditions() -> None:
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    section = page.split("## What your configuration decides")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| .+ \|$", section, flags=re.M)
    assert rows == ["condition", *CONDITIONS]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.parent.name)
def test_a_sample_meets_the_condition(
    sample: Path, condition: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS_TOKEN", "0" * 32)
    monkeypatch.setenv("EC2SPAWNER_DEMO", json.dumps(DEMO | {"data_dir": str(tmp_path)}))
    for name in re.findall(r'environ\["(HUB_\w+)"\]', sample.read_text(encoding="utf-8")):
        monkeypatch.setenv(name, HUB_SETTINGS.get(name, "some-value"))
    sections = load_config(sample)
    sections["EC2Spawner"].pop("identity_certificates", None)  # a file of a running demo
    hub = sections["JupyterHub"]
    options = validate_options(
        sections["EC2Spawner"], cleanup_servers=hub["cleanup_servers"], environ={}
    )
    met = CONDITIONS[condition](options, sections)
    assert met != ((sample.parent.name, condition) in WAIVED)


DEMO = {
    "admin_token": "secret",
    "allowed_hosts": [],
    "certificate": "/nowhere/certificate.pem",
    "ec2_endpoint": "http://127.0.0.1:1",
    "hub_api_bind_url": "http://127.0.0.1:3",
    "hub_url": "http://127.0.0.1:2",
    "image_id": "ami-0a1b2c3d",
    "password": "secret",
    "proxy_api_url": "http://127.0.0.1:4",
    "region": "us-east-1",
    "security_group": "sg-0a1b2c3d",
    "subnets": ["subnet-0a1b2c3d"],
}
"""What `ec2spawner demo` passes to its hub."""

HUB_SETTINGS = {
    "HUB_REGION": "us-east-1",
    "HUB_SUBNETS": "subnet-0a1b2c3d",
    "HUB_SECURITY_GROUPS": "sg-0a1b2c3d",
    "HUB_PACKAGE": "ec2spawner==2",
    "HUB_USERS": "ann",
}
"""Settings of the hub's machine that have a form of their own."""
