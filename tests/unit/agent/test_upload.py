"""A folder to S3 at a spot notice: what runs, as what, and what became of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ec2spawner.agent.settings import NotebookUser
from ec2spawner.agent.termination.upload import upload

URL = "s3://results/ada/-/"


@pytest.fixture
def user(tmp_path: Path) -> NotebookUser:
    home = tmp_path / "home"
    (home / ".ec2spawner").mkdir(parents=True)
    (home / "results").mkdir()
    return NotebookUser("ada", os.geteuid(), os.getegid(), (), home, "/bin/sh")


@pytest.fixture
def chosen(user: NotebookUser) -> Path:
    """The folder, as its user has chosen it."""
    folder = user.home / "results"
    (user.home / ".ec2spawner/upload").symlink_to(folder)
    return folder


def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """An AWS CLI that does this; what it was asked for is in the file that this returns."""
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    tools.mkdir()
    program = tools / "aws"
    program.write_text(f'#!/bin/sh\nenv >{asked}.env\necho "$@" >{asked}\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return asked


async def test_the_chosen_folder_is_uploaded_with_the_role_of_the_instance(
    user: NotebookUser, chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    asked = aws(tmp_path, monkeypatch, "exit 0")
    result = await upload(user, URL, 10)
    assert result is not None
    assert (result.step, result.outcome, result.detail) == ("upload", "done", "")
    assert asked.read_text().split()[:2] == ["s3", "sync"]
    assert asked.read_text().split()[-2:] == [f"{chosen}/", URL]
    environment = Path(f"{asked}.env").read_text().splitlines()
    assert f"HOME={user.home}" in environment
    assert "AWS_SHARED_CREDENTIALS_FILE=/dev/null" in environment


async def test_without_a_folder_nothing_runs(
    user: NotebookUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = aws(tmp_path, monkeypatch, "exit 0")
    link = user.home / ".ec2spawner/upload"
    assert await upload(user, URL, 10) is None
    link.symlink_to(link)
    assert await upload(user, URL, 10) is None
    link.unlink()
    link.write_text("no folder")
    assert await upload(user, URL, 10) is None
    assert not asked.exists()


async def test_what_went_wrong_is_reported(
    user: NotebookUser, chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws(tmp_path, monkeypatch, "echo upload failed: AccessDenied; exit 1")
    result = await upload(user, URL, 10)
    assert result is not None
    assert (result.outcome, result.detail) == ("failed", "upload failed: AccessDenied")


async def test_an_upload_that_takes_too_long_is_ended(
    user: NotebookUser, chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws(tmp_path, monkeypatch, "exec sleep 600")
    result = await upload(user, URL, 0.2)
    assert result is not None
    assert result.outcome == "late"
    assert result.seconds < 60


async def test_an_image_without_the_aws_cli_says_so(
    user: NotebookUser, chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tools))
    result = await upload(user, URL, 10)
    assert result is not None
    assert (result.outcome, result.detail) == ("failed", "the image has no AWS CLI")
