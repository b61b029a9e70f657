"""Every module of the benches loads; `make test-long` runs them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.kill.killable_hub import KillableHub
from tests.harness import TREE, Embedded

BENCH = TREE / "tests" / "bench"
CONFIGURATIONS = sorted(BENCH.rglob("*hub_config.py"))
MODULES = sorted(
    ".".join(path.relative_to(TREE).with_suffix("").parts)
    for path in BENCH.rglob("*.py")
    if path not in CONFIGURATIONS and path.name != "__init__.py"
)

LOAD = """
import asyncio, sys
from traitlets.config.loader import PyFileConfigLoader

async def load():
    for path in sys.argv[1:]:
        assert PyFileConfigLoader(path).load_config().JupyterHub.spawner_class, path

asyncio.run(load())
"""
"""Within a running event loop, as JupyterHub loads them."""


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_benches_can_be_imported(module: str) -> None:
    importlib.import_module(module)


def test_the_configurations_of_the_benches_hubs_load(tmp_path: Path) -> None:
    """They replace parts of the hub by name, so they get a process of their own."""
    embedded = Embedded(tmp_path)
    embedded.described = {
        "region": "us-east-1",
        "subnets": ["subnet-0a1b2c3d"],
        "security_group": "sg-0a1b2c3d",
        "image_id": "ami-0a1b2c3d",
        "ec2_endpoint": "http://127.0.0.1:9",
        "certificate": str(tmp_path / "embedded.pem"),
        "aws_access_key_id": "testing",
        "aws_secret_access_key": "testing",
    }
    assert CONFIGURATIONS
    hub = KillableHub("bench", tmp_path / "hub", embedded, nursery=None)
    result = subprocess.run(
        [sys.executable, "-c", LOAD, *CONFIGURATIONS],
        env={
            **hub.process_environment(),
            "BENCH_LOOP_LOG": str(tmp_path / "loop"),
            "BENCH_SCALE": '{"notebook_port": 8888}',
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
