"""`docs/security.md` names tests: they are there, and none of them is given a second chance."""

from __future__ import annotations

import re
from pathlib import Path

from tests import tiers

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def named() -> list[tuple[str, str]]:
    """Each test that the threat model names: its file and its name."""
    return NAMED.findall((ROOT / "docs/security.md").read_text(encoding="utf-8"))


def test_every_test_that_the_threat_model_names_exists() -> None:
    assert len(named()) > 15
    missing = [
        f"{file}::{test}"
        for file, test in named()
        if f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert not missing


def test_no_test_that_the_threat_model_names_runs_again_after_a_failure() -> None:
    assert {file for file, _ in named() if tiers.may_run_again(file)} == set()
