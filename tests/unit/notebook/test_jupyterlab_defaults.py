"""What JupyterLab's settings are on an instance, unless a user changes them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyterlab_server.settings_utils import get_settings

from ec2spawner.agent.notebook_server.process import NOTEBOOK_DEFAULTS

PANEL_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "panel.md"


def test_documents_are_saved_as_soon_as_the_docs_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(NOTEBOOK_DEFAULTS))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    found: Any
    found, _ = get_settings(
        str(tmp_path),
        str(Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas"),
        str(tmp_path),
        schema_name="@jupyterlab/docmanager-extension:plugin",
    )
    seconds = found["schema"]["properties"]["autosaveInterval"]["default"]
    said = re.search(r"save a changed document (\d+) seconds", PANEL_PAGE.read_text())
    assert said is not None
    assert seconds == int(said[1])
