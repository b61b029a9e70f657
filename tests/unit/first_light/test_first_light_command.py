"""What a command line means, and what of it is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.check.hub_config import load
from ec2spawner.cli import main
from ec2spawner.first_light.command import has_own_address


@pytest.mark.parametrize("argument", ["--max-usd=0", "--idle=9", "--output=/nowhere"])
def test_a_wrong_request_starts_nothing(
    argument: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["first-light", argument]) == 2
    said = capsys.readouterr().err
    assert argument in said
    assert "Nothing was started" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (["--JupyterHub.log_level=10"], False),
        (["--JupyterHub.hub_bind_url=http://127.0.0.1:8082"], True),
        (["--EC2Spawner.hub_api_url=http://10.0.0.5:8082/hub/api"], False),
    ],
)
def test_another_port_is_no_address_of_the_hubs_servers(
    arguments: list[str], own: bool, tmp_path: Path
) -> None:
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(
        'c.JupyterHub.spawner_class = "ec2"\nc.JupyterHub.hub_bind_url = "http://127.0.0.1:8081"\n'
    )
    assert has_own_address(load(config, arguments), config) is own
