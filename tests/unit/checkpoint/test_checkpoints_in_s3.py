"""The same loop with its checkpoints in S3, which moto answers for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from ec2spawner import checkpoint
from ec2spawner.checkpoint.s3 import S3Store

TO = "s3://bucket/runs/me"


class Stopped(Exception):
    pass


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="bucket")
        yield client


def keys(s3: Any) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket="bucket").get("Contents", [])]


def run(until: int | None = None, to: str = TO) -> list[int]:
    """The state after a loop of four steps, or until it is stopped in one."""
    state: list[int] = []

    def save(path: Path) -> None:
        (path / "layers").mkdir(parents=True)
        (path / "layers/1").write_text(" ".join(map(str, state)))
        (path / "empty").touch()

    def load(path: Path) -> None:
        assert (path / "empty").exists()
        state[:] = [int(each) for each in (path / "layers/1").read_text().split()]

    loop = checkpoint.resumable(range(4), save=save, load=load, every=0, name="a", to=to)
    for step in loop:
        if step == until:
            raise Stopped
        state.append(step)
    return state


def test_resumes_from_s3_and_keeps_one_generation(s3: Any) -> None:
    with pytest.raises(Stopped):
        run(until=2)
    assert run(to=f"{TO}/") == [0, 1, 2, 3]
    [folder] = {key.rpartition("/state/")[0] for key in keys(s3) if "/state/" in key}
    assert folder.endswith("/00000004")
    assert f"{folder}/checkpoint.json" in keys(s3)
    checkpoint.clear("a", to=TO)
    assert keys(s3) == []


def test_an_interrupted_upload_is_no_checkpoint(s3: Any) -> None:
    with pytest.raises(Stopped):
        run(until=2)
    [record] = [key for key in keys(s3) if key.endswith(".json")]
    place = record.removesuffix("00000002/checkpoint.json")
    s3.put_object(Bucket="bucket", Key=f"{place}00000003/state/layers/1", Body=b"9")
    s3.put_object(Bucket="bucket", Key=f"{place}00000003/state/old", Body=b"9")
    assert run() == [0, 1, 2, 3]
    assert not [key for key in keys(s3) if key.endswith("old")]


def test_an_object_that_is_gone_is_noticed(s3: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Stopped):
        run(until=2)
    [state] = [key for key in keys(s3) if key.endswith("empty")]
    s3.delete_object(Bucket="bucket", Key=state)
    assert run() == [0, 1, 2, 3]
    assert "is incomplete" in capsys.readouterr().out


def test_a_bucket_that_is_not_there(s3: Any) -> None:
    with pytest.raises(checkpoint.CheckpointError, match=r"s3://nowhere/.* cannot be read"):
        run(to="s3://nowhere/x")


def test_without_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(checkpoint.CheckpointError, match="pip install boto3"):
        S3Store(TO)
