"""The session's record: whichever step is the last one before a kill, nothing complete is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ec2spawner.notebook.sleep import session_record
from ec2spawner.notebook.sleep.session_record import SessionRecord, SleepingKernel
from ec2spawner.sleep.storage import earlier, folder, manifest
from ec2spawner.sleep.storage.manifest import Entry, Manifest
from ec2spawner.wire import SavedKernel, SavedSession

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def generation(root: Path, kernel: str, at: datetime = NOW, *, complete: bool = True) -> Path:
    made = root / "kernels" / kernel / f"{folder.stamp(at.timestamp())}-00000000"
    made.mkdir(mode=0o700, parents=True)
    (made / "1.sleep").write_bytes(b"x" * 10)
    if complete:
        entry = Entry("x", saved=True, file="1.sleep", size_bytes=10)
        manifest.write(made, Manifest((entry,), saved_at=at.timestamp()))
    return made


def kernel(path: str, made: Path | None) -> SleepingKernel:
    saved = SavedKernel(path=path, kernel_name="python3", variables=1, size_bytes=10)
    name = f"{made.parent.name}/{made.name}" if made else ""
    return SleepingKernel(kernel_id=path, path=path, name=path, generation=name, saved=saved)


def record(*kernels: SleepingKernel, at: datetime = NOW, name: str = "s") -> SessionRecord:
    session = SavedSession(id=name, slept_at=at, trigger="idle", seconds=1, size_bytes=0)
    return SessionRecord(session=session, kernels=list(kernels))


def test_a_wake_that_ends_late_does_not_replace_the_next_session(tmp_path: Path) -> None:
    session_record.write(tmp_path, record(name="first"))
    assert session_record.mark_woken(tmp_path, "first", NOW)
    session_record.write(tmp_path, record(name="second"))
    assert session_record.mark_woken(tmp_path, "first", NOW) is None
    left = session_record.read(tmp_path)
    assert left is not None
    assert (left.session.id, left.woken_at) == ("second", None)


def test_incomplete_generations_of_servers_before_are_removed(tmp_path: Path) -> None:
    whole = generation(tmp_path, "a", NOW - DAY)
    for hours in range(1, 5):
        generation(tmp_path, "a", NOW - timedelta(hours=hours), complete=False)
    under_way = generation(tmp_path, "a", NOW + timedelta(seconds=1), complete=False)
    session_record.remove_incomplete(tmp_path, folder.stamp(NOW.timestamp()))
    assert folder.generations(tmp_path / "kernels" / "a") == [whole, under_way]


def test_an_expired_session_that_is_killed_while_it_is_removed_is_removed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = generation(tmp_path, "a", NOW - 3 * DAY)
    by_magic = generation(tmp_path, "a", NOW - timedelta(hours=1))
    slept = record(kernel("a", made), kernel("b", None), at=NOW - 3 * DAY)
    session_record.write(tmp_path, slept)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            session_record.expire(tmp_path, slept, DAY, NOW)
    assert session_record.read(tmp_path) is not None
    assert session_record.expire(tmp_path, slept, DAY, NOW) is None
    assert session_record.read(tmp_path) is None
    assert not made.exists()
    assert by_magic.exists(), "the user has saved it since"


def test_what_could_not_be_woken_for_long_expires_by_itself(tmp_path: Path) -> None:
    old, new = generation(tmp_path, "old", NOW - 3 * DAY), generation(tmp_path, "new")
    slept = record(kernel("new", new), kernel("old", old))
    left = session_record.expire(tmp_path, slept, DAY, NOW)
    assert left is not None
    assert [each.path for each in left.kernels] == ["new"]
    assert session_record.read(tmp_path) == left
    assert not old.parent.exists()


def test_a_kernel_that_has_moved_to_another_folder_leaves_the_first(tmp_path: Path) -> None:
    old, new = generation(tmp_path, "old"), generation(tmp_path, "new")
    before = record(kernel("b", old), kernel("c", None))
    name = f"old/{old.name}"
    assert session_record.superseded(before, [kernel("b", new)]) == [name]
    assert session_record.superseded(before, [kernel("b", None)]) == []
    assert session_record.superseded(before, [kernel("renamed", old)]) == []
    assert session_record.superseded(before, []) == [name]


def test_two_kernels_of_one_notebook_keep_what_the_record_names(tmp_path: Path) -> None:
    _unused, first, second, by_magic = (
        generation(tmp_path, "a", NOW + timedelta(hours=hours)) for hours in range(4)
    )
    slept = record(kernel("a", first), kernel("a", second))
    session_record.remove_unused(tmp_path, slept)
    assert folder.generations(tmp_path / "kernels" / "a") == [first, second, by_magic]
    named = slept.generations(tmp_path)
    assert earlier.newest(first, named) == by_magic
    earlier.remove(by_magic)
    assert [earlier.newest(each, named) for each in (first, second)] == [first, second]


def test_of_two_kernels_of_one_notebook_the_older_one_expires(tmp_path: Path) -> None:
    old, new = generation(tmp_path, "a", NOW - 3 * DAY), generation(tmp_path, "a")
    slept = record(kernel("a", old), kernel("a", new))
    left = session_record.expire(tmp_path, slept, DAY, NOW)
    assert left is not None
    assert left.generations(tmp_path) == {new}
    assert folder.generations(tmp_path / "kernels" / "a") == [new]
