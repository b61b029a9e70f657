"""The arrows between the rooms hold, and a broken one is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Checks the contracts of `pyproject.toml` against the package in `root`."""
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


def test_arrows_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        (
            "core/pricing/money.py",
            "from ...provisioner.model import cloud",
            "core and wire import nothing",
        ),
        ("core/pricing/money.py", "import boto3", "core and wire import nothing"),
        ("wire/words.py", "import tornado", "core and wire import nothing"),
        ("agent/claim.py", "from ..aws import client", "what runs on an instance"),
        ("notebook/handlers.py", "from ..hub.app import service", "what runs on an instance"),
        ("notebook/handlers.py", "from ..agent import claim", "agent and notebook"),
        ("cost/block.py", "from ..agent import claim", "cost is for people's own programs"),
        ("cost/magics.py", "import IPython", "cost is for people's own programs"),
        ("gpu_check/measure.py", "from ..telemetry import gpus", "the GPU check runs in any"),
        (
            "core/pricing/money.py",
            "from ...gpu_check import verdict",
            "core and wire import nothing",
        ),
        ("hub/pages/spawn_form.py", "import botocore", "only aws and the embedded EC2"),
        ("provisioner/model/cloud.py", "import jupyterhub", "the provisioner holds no hub objects"),
        ("provisioner/model/cloud.py", "from ...aws import client", "the provisioner holds no hub"),
        ("aws/client.py", "from ..provisioner import lease", "aws knows of the provisioner"),
        (
            "hub/pages/spawn_form.py",
            "from ...embedded.runtime import imds",
            "only the command line",
        ),
    ],
)
def test_a_broken_arrow_is_found(
    tmp_path: Path, module: str, statement: str, contract: str
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "ec2spawner",
        tmp_path / "ec2spawner",
        ignore=shutil.ignore_patterns("labextension", "__pycache__", "*.csv", "*.pem"),
    )
    with (tmp_path / "ec2spawner" / module).open("a") as source:
        source.write(f"\n{statement}\n")
    result = lint_imports(tmp_path)
    assert result.returncode != 0
    broken = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), result.stdout
