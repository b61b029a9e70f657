"""The profiles that a job can be run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.agent_socket import SOCKET
from ec2spawner.runs.errors import RunError
from ec2spawner.runs.schedules.hardware import description, offered_profiles
from ec2spawner.wire import HardwareChoice, HardwareChoices, Market

from .agent_socket import agent
from .job_hub import JobHub

T4 = HardwareChoice(
    profile="t4", name="T4", usd_per_hour=0.2, market=Market.SPOT, is_available=True
)
A100 = HardwareChoice(profile="a100", name="A100")


@pytest.mark.parametrize("own", [None, T4])
def test_the_servers_own_profile_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: HardwareChoice | None
) -> None:
    with agent(tmp_path, monkeypatch, JobHub(), HardwareChoices(choices=[A100], own=own)):
        assert offered_profiles() == [T4, A100][own is None :]


def test_without_an_answer_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET, raising=False)
    with pytest.raises(RunError):
        offered_profiles()
    monkeypatch.setenv(SOCKET, str(tmp_path / "gone.sock"))
    with pytest.raises(RunError):
        offered_profiles()
    with agent(tmp_path, monkeypatch, JobHub()), pytest.raises(RunError):
        offered_profiles()


@pytest.mark.parametrize(
    ("choice", "parts", "is_available"),
    [
        (T4, ("T4", "0.2000 USD per hour", "spot"), True),
        (A100, ("A100", "unknown"), False),
        (T4.model_copy(update={"refusal": "no budget"}), ("0.2000", "no budget"), False),
    ],
)
def test_a_description_has_the_price(
    choice: HardwareChoice, parts: tuple[str, ...], is_available: bool
) -> None:
    said = description(choice)
    assert all(part in said for part in parts)
    assert ("unavailable" in said) is not is_available
