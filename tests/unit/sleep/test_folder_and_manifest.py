"""Folders and manifests: only the owner's own are read, and damage is reported, not raised."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.sleep.storage import earlier, folder, manifest, owned
from ec2spawner.sleep.storage.manifest import Entry, Manifest, Unreadable

WHOLE = Manifest(
    (
        Entry("a", type="list", size_bytes=3, saved=True, file="1.sleep", libraries={"numpy": "2"}),
        Entry("b", code="not-storable", detail="a thread"),
    ),
    kept=("a",),
)


def generation(tmp_path: Path, entries: Manifest = WHOLE) -> Path:
    made = folder.new_generation(tmp_path / "sleep" / "kernels" / "key")
    assert manifest.write(made, entries)
    return made


def test_a_key_is_the_same_for_a_path_in_the_home_however_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    key = folder.kernel_key("work/My notebook.ipynb", "python3")
    assert key == folder.kernel_key(str(tmp_path / "work/My notebook.ipynb"), "python3")
    assert re.fullmatch(r"My-notebook-[0-9a-f]{16}", key)
    others = [("work/Other.ipynb", "python3"), ("My notebook.ipynb", "python3")]
    others += [("work/My notebook.ipynb", "torch"), ("", ""), ("../..", "x"), ("\0/é\ud800", "")]
    assert len({key, *(folder.kernel_key(*each) for each in others)}) == 7
    for each in others:
        assert re.fullmatch(r"[A-Za-z0-9-]{1,60}", folder.kernel_key(*each))


def test_generations_sort_by_time_and_only_complete_ones_are_the_latest(tmp_path: Path) -> None:
    kernel = tmp_path / "sleep" / "kernels" / "key"
    made = [folder.new_generation(kernel) for _ in range(5)]
    assert folder.generations(kernel) == sorted(made) == made
    assert folder.latest(kernel) is None
    manifest.write(made[1], WHOLE)
    manifest.write(made[3], WHOLE)
    assert folder.latest(kernel) == made[3]
    earlier.remove_older(made[4])
    assert len(folder.generations(kernel)) == 5, "an incomplete generation replaces none"
    earlier.remove_older(made[3])
    assert folder.generations(kernel) == made[3:]
    assert oct(kernel.stat().st_mode & 0o777) == "0o700"


def test_what_others_could_write_is_refused(tmp_path: Path) -> None:
    made = generation(tmp_path)
    owned.check(made)
    for each in (made, made.parent, made.parents[1], made.parents[2]):
        each.chmod(0o770)
        with pytest.raises(owned.NotOurs, match="other users"):
            owned.check(each if each == made else made)
        each.chmod(0o700)
    (made / "manifest.json").chmod(0o666)
    with pytest.raises(Unreadable, match="other users"):
        manifest.read(made)
    (made / "manifest.json").chmod(0o600)
    link = made.parent / "20990101000000000-00000000"
    link.symlink_to(made)
    with pytest.raises(owned.NotOurs, match="not a folder"):
        owned.check(link)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    made = generation(tmp_path)
    (made / "manifest.json").unlink()
    make(made / "manifest.json")
    with pytest.raises(Unreadable):
        manifest.read(made)
    assert folder.latest(made.parent) is None


def test_another_users_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = generation(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(owned.NotOurs, match="another user"):
        owned.check(made)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = generation(tmp_path)
    assert manifest.read(made) == WHOLE
    assert not manifest.write(made, Manifest()), "it is complete"
    assert manifest.read(made) == WHOLE
    assert sorted(each.name for each in made.iterdir()) == ["manifest.json"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": 2}, "newer version"),
        ({"entries": None}, "damaged"),
        ({"entries": [1]}, "damaged"),
        ({"entries": [{}]}, "no name"),
        ({"entries": [{"name": "not valid"}]}, "name"),
        ({"entries": [{"name": "a"}, {"name": "a"}]}, "twice"),
        ({"entries": [{"name": "a", "file": "../../x"}]}, "file name"),
        ({"entries": [{"name": "a", "file": "/etc/passwd"}]}, "file name"),
        ({"entries": [{"name": "a", "size_bytes": -1}]}, "size_bytes"),
        ({"entries": [{"name": "a", "saved": 1}]}, "saved"),
        ({"entries": [{"name": "a", "libraries": {"a": 1}}]}, "libraries"),
        ({"entries": [{"name": "a", "differs": "copied"}]}, "differs"),
        ({"kept": [1]}, "kept"),
        ({"seconds": float("nan")}, "seconds"),
        ({"directory": 5}, "directory"),
    ],
)
def test_a_manifest_that_is_not_valid_is_reported(
    tmp_path: Path, changed: dict[str, object], why: str
) -> None:
    made = generation(tmp_path)
    path = made / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(Unreadable, match=why):
        manifest.read(made)


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["entries", "format", "name", "file", "kept", "seconds", "libraries", "saved"]
                ),
                inner,
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_no_content_raises_another_error(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "manifest.json").write_bytes(content)
        (Path(made) / "journal.jsonl").write_bytes(content)
        with contextlib.suppress(Unreadable):
            manifest.read(Path(made))
        manifest.from_journal(Path(made), "timed-out")


def test_a_truncated_manifest_is_reported(tmp_path: Path) -> None:
    made = generation(tmp_path)
    content = (made / "manifest.json").read_bytes()
    for length in range(len(content)):
        (made / "manifest.json").write_bytes(content[:length])
        with pytest.raises(Unreadable):
            manifest.read(made)


def test_another_process_concludes_from_the_journal(tmp_path: Path) -> None:
    made = folder.new_generation(tmp_path / "sleep" / "kernels" / "key")
    names = [Entry("a"), Entry("b"), Entry("c")]
    journal = manifest.Journal(made, Manifest(tuple(names)))
    (made / "1.sleep").write_bytes(b"x")
    journal.note([Entry("a", saved=True, file="1.sleep")])
    journal.note([Entry("b", code="not-storable")])
    journal.close()
    with (made / "journal.jsonl").open("a") as file:
        file.write('[{"name": "c", "sav')
    assert folder.conclude(made, "timed-out")
    found = manifest.read(made)
    assert [(each.name, each.saved, each.code) for each in found.entries] == [
        ("a", True, ""),
        ("b", False, "not-storable"),
        ("c", False, "timed-out"),
    ]
    assert found.code == "timed-out"
    assert folder.latest(made.parent) == made
    assert not folder.conclude(folder.new_generation(made.parent), "timed-out")
