"""The agent reports what has changed in its image since the recipe made it."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

import pytest

from ec2spawner.agent.image_drift import report_drift


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def image(tmp_path: Path) -> Path:
    for name in ("same", "changed"):
        (tmp_path / name).write_bytes(b"as baked")
    files = {str(tmp_path / name): sha256(b"as baked") for name in ("same", "changed", "gone")}
    manifest = tmp_path / "image.json"
    manifest.write_text(json.dumps({"recipe": "ab" * 32, "files": files}))
    (tmp_path / "changed").write_bytes(b"patched by hand")
    return manifest


def test_changed_and_missing_files_are_named(image: Path, caplog: pytest.LogCaptureFixture) -> None:
    report_drift(image)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert f"2 of 3 files differ: {image.parent}/changed, {image.parent}/gone" in record.message


def test_an_image_as_it_was_made_is_no_warning(
    image: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("changed", "gone"):
        (image.parent / name).write_bytes(b"as baked")
    with caplog.at_level(logging.INFO):
        report_drift(image)
    assert [record.levelno for record in caplog.records] == [logging.INFO]


@pytest.mark.parametrize("content", ["", "[]", '{"files": {}}', '{"recipe": "a", "files": 3}'])
def test_a_broken_manifest_stops_no_agent(
    content: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = tmp_path / "image.json"
    manifest.write_text(content)
    report_drift(manifest)
    assert "cannot be read" in caplog.text


def test_an_image_without_a_manifest_is_not_mentioned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        report_drift(tmp_path / "image.json")
    assert not caplog.records
