"""What a kernel reports of its save does not decide which files of it stay."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.notebook.sleep import session_record
from ec2spawner.notebook.sleep.committing import KernelSave, commit
from ec2spawner.notebook.sleep.lineage import Lineage
from ec2spawner.notebook.sleep.running_kernels import RunningKernel
from ec2spawner.sleep.storage import folder, manifest
from ec2spawner.sleep.storage.manifest import Entry, Manifest
from ec2spawner.wire import SavedKernel, SleepOrder
from tests.small_disk import mounted, use_up_bytes

KEY = "a-key"
ORDER = SleepOrder(
    id="s", trigger="idle", until=datetime.now(UTC), interrupt_busy=False, max_bytes=1
)
SURROGATE = "\udcff"
"""Of a file's name that is not UTF-8, for example."""


def generation(root: Path, *entries: Entry) -> Path:
    made = folder.new_generation(root / "kernels" / KEY)
    (made / "1.sleep").write_bytes(b"x" * 10)
    manifest.write(made, Manifest(entries, saved_at=1_800_000_000.0))
    return made


def committed(root: Path, before: Path, now: Path, report: dict[str, Any]) -> SavedKernel:
    kernel = RunningKernel("k", "python3", True, "s", "a.ipynb", "a.ipynb", "notebook")
    save = KernelSave(kernel, KEY, has_begun=True, generation=now, last=before)
    save.hear({"kind": "saved"} | report)
    session = commit(root, ORDER, [save], [], Lineage(), 1.0)
    assert session is not None
    [saved] = session.kernels
    return saved


SAVED = Entry("x", saved=True, file="1.sleep", size_bytes=10)


@pytest.mark.parametrize("reported", [None, {"variables": -1}, {"variables": 0, "code": "failed"}])
def test_a_complete_save_stays_whatever_is_reported(
    tmp_path: Path, reported: dict[str, Any] | None
) -> None:
    lost = Entry("y", type="Loader", code="failed", detail=f"no file {SURROGATE}")
    before, now = generation(tmp_path, SAVED), generation(tmp_path, SAVED, lost)
    report = reported or manifest.summary(manifest.read(now))
    saved = committed(tmp_path, before, now, report)
    assert (saved.variables, saved.lost_count, saved.code) == (1, 1, "")
    assert [(each.name, each.detail) for each in saved.lost] == [("y", "no file ?")]
    assert saved.values_of is None
    assert folder.is_complete(now)
    assert folder.is_complete(before), "until what is not needed is removed"


def test_a_save_without_variables_leaves_the_one_before(tmp_path: Path) -> None:
    lost = Entry("x", code="no-space")
    before, now = generation(tmp_path, SAVED), generation(tmp_path, lost)
    saved = committed(tmp_path, before, now, {"variables": 0, "code": "no-space"})
    assert (saved.variables, saved.code) == (1, "no-space")
    assert saved.values_of is not None
    assert not now.exists()
    assert folder.is_complete(before)


def test_a_full_disk_leaves_the_session_before_and_says_so(tmp_path: Path) -> None:
    with mounted(tmp_path) as root:
        committed(root, generation(root, SAVED), generation(root, SAVED), {"variables": 1})
        before = session_record.read(root)
        use_up_bytes(root)
        with pytest.raises(OSError, match="No space"):
            commit(root, ORDER, [], [], Lineage(), 1.0)
        assert session_record.read(root) == before


def test_progress_of_a_large_save() -> None:
    kernel = RunningKernel("k", "python3", True)
    save = KernelSave(kernel, KEY)
    save.hear({"kind": "progress", "done": 3, "size_bytes": 40 * 10**9})
    save.hear({"kind": "progress", "done": "x", "size_bytes": -1})
    assert (save.variables, save.size_bytes) == (3, 40 * 10**9)
