"""User-data as the hub writes it, run as an instance of the embedded EC2 runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ec2spawner.embedded import shims
from ec2spawner.hub.request import user_data

AGENT = """#!/bin/bash
echo "$$"
printf '%s\\n' "$@"
"""


def test_it_becomes_the_agent(tmp_path: Path) -> None:
    shims.install(tmp_path)
    (tmp_path / "ec2spawner-agent").write_text(AGENT)
    (tmp_path / "ec2spawner-agent").chmod(0o755)
    (tmp_path / "user-data").write_text(user_data("http://hub:8081/it's/hub/api"))
    instance = subprocess.Popen(
        ["/bin/bash", tmp_path / "user-data"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    said, _ = instance.communicate(timeout=20)
    assert said.splitlines() == [str(instance.pid), "--hub-api-url", "http://hub:8081/it's/hub/api"]
