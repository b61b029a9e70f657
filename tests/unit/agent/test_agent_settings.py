"""What the agent takes from its environment, and from the image."""

from __future__ import annotations

import logging
import pwd

import pytest

from ec2spawner.agent import __main__ as program
from ec2spawner.agent import memory_protection
from ec2spawner.agent.settings import Settings, SettingsError, default_user

HUB = "http://hub:8081/hub/api"


def test_the_images_own_user_runs_the_notebook() -> None:
    assert default_user({"root", "ubuntu"}) == "ubuntu"
    assert default_user({"root", "ec2-user"}) == "ec2-user", "Amazon Linux"
    assert default_user({"ec2-user", "ubuntu"}) == "ubuntu"


def test_an_image_without_a_known_user_needs_the_setting() -> None:
    with pytest.raises(SettingsError, match="EC2SPAWNER_NOTEBOOK_USER"):
        default_user({"root", "admin"})


def test_a_configured_user_comes_first() -> None:
    name = pwd.getpwuid(0).pw_name
    assert Settings.from_environment(HUB, {"EC2SPAWNER_NOTEBOOK_USER": name}).user.name == name


def test_invalid_settings_end_the_agent_with_one_line_for_the_console(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory_protection, "close_to_others", lambda: None)
    monkeypatch.setenv("EC2SPAWNER_NOTEBOOK_USER", "nobody-of-this-name")
    with caplog.at_level(logging.ERROR):
        assert program.main(["--hub-api-url", HUB]) == program.MISTAKE
    [line] = caplog.messages
    assert "nobody-of-this-name" in line
