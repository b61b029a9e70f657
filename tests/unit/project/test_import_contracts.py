"""The import contracts of `pyproject.toml` hold, and a violation of them is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

VIOLATIONS = {
    "core/ledger/segments.py": "import boto3",
    "core/text/durations.py": "from ...data import instance_types",
    "core/homes/zone_migration.py": "from ..idle import policy",
    "wire/message.py": "from ..core import names",
    "agent/claim.py": "from ..aws.calls import client",
    "agent/hub/client.py": "from ..lease_run import LeaseRun",
    "notebook/api/handlers.py": "from ...agent import claim",
    "cost/magics.py": "import IPython",
    "gpu_check/measure.py": "from ..telemetry import gpus",
    "sleep/kernel.py": "import IPython",
    "hub/pages/spawn_page/spawn_form.py": "import botocore",
    "hub/security/signed_link.py": "from ..pages import cards",
    "hub/startup.py": "from ..embedded import server",
    "provisioner/model/cloud/cloud.py": "import jupyterhub",
    "provisioner/store/queries.py": "from ..launch import launcher",
    "aws/tags.py": "from .storage import volumes",
    "aws/calls/client.py": "from ...provisioner.model import lease",
    "embedded/api/protocol.py": "from ..gateway import gateway",
    "load_test/user/session.py": "import locust",
}
"""Module -> an import that it must not have."""

BROKEN = (
    "no cycles",
    "packages",
    "packages of provisioner",
    "packages of hub",
    "packages of aws",
    "packages of agent",
    "packages of core",
    "packages of embedded",
    "core and wire do no I/O",
    "an instance needs no AWS library",
    "checkpoint, cost, gpu_check and sleep run in any Python",
    "the hub's side does not import",
    "provisioner and aws hold no objects",
    "aws knows of the provisioner",
    "only aws imports boto3",
    "only the locustfile imports locust",
)
"""How the names of the contracts begin: together, the imports above violate all of them."""


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts of `pyproject.toml` against the package in `root`."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_contracts_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_violations_are_found(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "ec2spawner",
        tmp_path / "ec2spawner",
        ignore=shutil.ignore_patterns("labextension", "__pycache__", "*.csv", "*.pem"),
    )
    for module, statement in VIOLATIONS.items():
        with (tmp_path / "ec2spawner" / module).open("a") as source:
            source.write(f"\n{statement}\n")
    result = lint_imports(tmp_path)
    assert result.returncode != 0
    lines = [line for line in result.stdout.splitlines() if " KEPT" in line or " BROKEN" in line]
    assert len(lines) == len(BROKEN), result.stdout
    for line, beginning in zip(lines, BROKEN, strict=True):
        assert line.startswith(beginning), result.stdout
        assert " BROKEN" in line, line
