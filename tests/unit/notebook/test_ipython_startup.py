"""On an instance of ours the magics are there without `%load_ext`; elsewhere nothing changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTUP = Path(__file__).parents[3] / "jupyter-config" / "ipython-startup" / "50-ec2spawner.py"
ASK = """
shell = get_ipython()
print([bool(shell.find_magic(name)) for name in ("cost", "gpu_check", "sleep")])
print([name for name in shell.user_ns if "ec2spawner" in name])
"""


def ipython(tmp_path: Path, code: str, **environment: str) -> list[str]:
    """What IPython says to the code, after the startup file of a system-wide folder."""
    folder = tmp_path / "ipython" / "profile_default" / "startup"
    folder.mkdir(parents=True)
    (folder / STARTUP.name).write_text(STARTUP.read_text())
    given = {name: value for name, value in os.environ.items() if "EC2SPAWNER" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "-c", code],
        env=given | environment | {"IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("socket", "loaded"), [("/run/agent.sock", True), ("", False)])
def test_magics_are_there_where_an_agent_is(tmp_path: Path, socket: str, loaded: bool) -> None:
    said = ipython(tmp_path, ASK, EC2SPAWNER_AGENT_SOCKET=socket)
    assert said == [f"[{loaded}, {loaded}, {loaded}]", "[]"]


def test_a_kernel_without_the_package_starts_silently(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "ec2spawner.py").write_text("raise ImportError('not here')")
    code = "print('started')"
    assert ipython(
        tmp_path, code, EC2SPAWNER_AGENT_SOCKET="/run/agent.sock", PYTHONPATH=str(hidden)
    ) == ["started"]
