"""Which options are ours, and which are JupyterHub's."""

from __future__ import annotations

import pytest

from ec2spawner import __version__
from ec2spawner.cli import parse


def test_other_arguments_are_passed_to_jupyterhub() -> None:
    foreign = ["--da=x", "--por", "9", "--js", "--debug", "--EC2Spawner.idle={}"]
    arguments, for_the_hub = parse(["demo", "--data-dir=d", *foreign, "--port=7"])
    assert for_the_hub == foreign
    assert (arguments.data_dir, arguments.port, arguments.json) == ("d", 7, False)


def test_the_version_is_asked_for_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"ec2spawner {__version__}\n"


@pytest.mark.parametrize("command", ["check", "prices"])
def test_a_file_without_its_option_is_refused(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse([command, "my_config.py"])
    assert ended.value.code == 2
    assert "--config=my_config.py" in capsys.readouterr().err
    arguments, for_the_hub = parse([command, "-f", "my_config.py", "--debug"])
    assert (arguments.config, for_the_hub) == ("my_config.py", ["--debug"])
