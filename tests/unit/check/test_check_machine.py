"""What the hub needs on its own machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.check.finding import State
from ec2spawner.check.hub_machine import (
    judge_certificates,
    judge_descriptors,
    judge_openssl,
    judge_store,
)
from tests.postgresql_server import PASSWORD, PostgreSQL, database_of


def test_a_store_that_can_be_made_or_opened(tmp_path: Path) -> None:
    file = tmp_path / "ec2spawner.sqlite"
    assert "made by the first start" in judge_store(f"sqlite:///{file}").said
    file.touch()
    finding = judge_store(f"sqlite:///{file}")
    assert (finding.state, finding.said) == (State.OK, str(file))


def test_a_relative_store_path_is_relative_to_the_hubs_folder(
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
    assert "c.EC2Spawner.store_url" in finding.fix


def test_a_store_of_another_program_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    finding = judge_store(f"sqlite:///{tmp_path}/ec2spawner.sqlite")
    assert finding.state is State.FAILED
    assert "cannot be written" in finding.said


def test_a_store_in_memory_fails() -> None:
    assert judge_store("sqlite:///:memory:").state is State.FAILED


def test_a_database_server_that_responds(postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    finding = judge_store(url)
    assert finding.state is State.OK
    assert "PostgreSQL" in finding.said
    assert "filled by the first start" in finding.said
    name = database_of(url)
    assert not postgresql.sql(name, "SELECT * FROM pg_tables WHERE schemaname = 'public'")


@pytest.mark.parametrize(
    ("wrong", "right", "fix"),
    [
        (PASSWORD, "another", "correct the password"),
        ("/store_", "/no_store_", "createdb"),
        ("127.0.0.1", "127.0.0.77", "start the database server"),
    ],
)
def test_a_database_server_that_refuses_the_login_fails(
    postgresql: PostgreSQL, wrong: str, right: str, fix: str
) -> None:
    finding = judge_store(postgresql.new_database().replace(wrong, right))
    assert finding.state is State.FAILED
    assert fix in finding.fix
    assert "c.EC2Spawner.store_url" in finding.fix
    assert PASSWORD not in f"{finding}"


def test_a_database_role_without_create_fails(postgresql: PostgreSQL) -> None:
    url = postgresql.new_database()
    name = database_of(url)
    postgresql.sql(name, f"CREATE ROLE guest_of_{name} LOGIN PASSWORD '{PASSWORD}'")
    finding = judge_store(url.replace("//hub:", f"//guest_of_{name}:"))
    assert finding.state is State.FAILED
    assert "make it the owner" in finding.fix


def test_a_region_without_a_bundled_certificate_needs_one() -> None:
    assert judge_certificates("us-east-1", ()).state is State.OK
    finding = judge_certificates("xx-nowhere-1", ())
    assert finding.state is State.FAILED
    assert "c.EC2Spawner.identity_certificates" in finding.fix


def test_openssl_is_searched_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge_openssl().state is State.OK
    monkeypatch.setenv("PATH", "/nonexistent")
    assert judge_openssl().state is State.FAILED


@pytest.mark.parametrize(
    ("limit", "max_servers", "state"),
    [
        (1024, 0, State.OK),
        (1024, 200, State.OK),
        (1024, 300, State.WARNING),
        (256, 0, State.WARNING),
        (300, 10, State.OK),
        (64, 10, State.WARNING),
        (65536, 5000, State.OK),
        (None, 100_000, State.OK),
    ],
)
def test_the_open_file_limit_suffices_for_the_allowed_servers(
    limit: int | None, max_servers: int, state: State
) -> None:
    finding = judge_descriptors(limit, max_servers)
    assert finding.state is state
    assert ("LimitNOFILE" in finding.fix) == (state is State.WARNING)
