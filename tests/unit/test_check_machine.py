"""What the hub needs on its own machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.check.finding import State
from ec2spawner.check.machine import judge_certificates, judge_openssl, judge_store


def test_a_store_that_can_be_made_or_opened(tmp_path: Path) -> None:
    file = tmp_path / "ec2spawner.sqlite"
    assert "made by the first start" in judge_store(f"sqlite:///{file}").said
    file.touch()
    finding = judge_store(f"sqlite:///{file}")
    assert (finding.state, finding.said) == (State.OK, str(file))


def test_a_relative_store_is_where_the_hub_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "leases.sqlite") in judge_store("sqlite:///leases.sqlite").said


@pytest.mark.parametrize(
    ("place", "said"),
    [("gone/ec2spawner.sqlite", "there is no folder"), ("", "is a folder")],
)
def test_a_store_that_cannot_be_made_fails(tmp_path: Path, place: str, said: str) -> None:
    finding = judge_store(f"sqlite:///{tmp_path / place}")
    assert finding.state is State.FAILED
    assert said in finding.said
    assert "c.EC2Spawner.store_url" in finding.mend


def test_a_store_of_somebody_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    finding = judge_store(f"sqlite:///{tmp_path}/ec2spawner.sqlite")
    assert finding.state is State.FAILED
    assert "cannot be written" in finding.said


def test_a_store_in_memory_fails() -> None:
    assert judge_store("sqlite:///:memory:").state is State.FAILED


def test_a_region_whose_certificate_does_not_come_with_us_needs_one() -> None:
    assert judge_certificates("us-east-1", ()).state is State.OK
    finding = judge_certificates("xx-nowhere-1", ())
    assert finding.state is State.FAILED
    assert "c.EC2Spawner.identity_certificates" in finding.mend


def test_openssl_is_looked_for_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge_openssl().state is State.OK
    monkeypatch.setenv("PATH", "/nonexistent")
    assert judge_openssl().state is State.FAILED
