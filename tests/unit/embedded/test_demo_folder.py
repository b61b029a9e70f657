"""The demo's folder, as root: instance users pass through it, and nothing else of it changes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ec2spawner.embedded.demo import demo


@pytest.mark.parametrize(("before", "after"), [(None, 0o711), (0o700, 0o711), (0o1777, 0o1777)])
def test_the_folder_of_root_is_passable_for_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: int | None, after: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    folder = tmp_path / "demo"
    if before is not None:
        folder.mkdir()
        folder.chmod(before)
    assert demo._data_dir(str(folder)) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == after
