"""The folders by which a run that was killed is remembered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ec2spawner.first_light.run_folder import FolderUnusable, Run, RunFolder, interrupted

RUN = Run(
    account_id="123456789012",
    region="us-east-1",
    endpoint_url="",
    hub_name="hub",
    store_id="store",
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_a_run_that_ended_without_a_word_is_found_until_nothing_is_left() -> None:
    folder = RunFolder.create()
    folder.write(RUN)
    assert interrupted() == [], "it still runs"
    folder.close(delete=False)
    (found,) = interrupted()
    assert found.read() == RUN
    found.close(delete=True)
    assert interrupted() == []


def test_a_run_that_begins_is_never_taken_for_one_that_was_killed() -> None:
    with ThreadPoolExecutor(2) as threads:
        created = threads.submit(lambda: [RunFolder.create() for _ in range(100)])
        taken: list[RunFolder] = []
        while not created.done():
            taken += interrupted()
    assert taken == []
    for folder in created.result():
        folder.close(delete=True)


def test_a_record_that_cannot_be_read_is_no_empty_run() -> None:
    folder = RunFolder.create()
    (folder.path / "run.json").write_text('{"region": "us-east-1"')
    with pytest.raises(FolderUnusable, match=r"run\.json.*ec2spawner reap"):
        folder.read()


def test_a_state_folder_that_cannot_be_used_is_named_with_the_fix(state: Path) -> None:
    (state / "ec2spawner").write_text("no folder")
    for use in (RunFolder.create, interrupted):
        with pytest.raises(
            FolderUnusable, match=rf"{state}/ec2spawner/first-light.*XDG_STATE_HOME"
        ):
            use()
