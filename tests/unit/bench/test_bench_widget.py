"""What the bench `widget` makes of what it measured."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.bench.loop_monitor import Turn
from tests.bench.widget.bench import Measured, compressed_kb, figures_of, stalls_of
from tests.bench.widget.server import NOTHING, OURS

OUR_CODE = "ec2spawner/notebook/api/handlers.py:70 get"
OTHER_CODE = "jupyter_server/services/contents/handlers.py:1 get"


def turn(own: float, *stack: str, queued: float = 0.0) -> Turn:
    return Turn(0.0, own + queued, own, queued, 0.0, stack)


def measured(turns: list[Turn], browser: float | None = None) -> Measured:
    return Measured(1.0, None, None, [1.0, 3.0], turns, None, browser)


def test_a_stall_is_ours_when_our_code_is_on_the_stack_or_no_sample_exists() -> None:
    ours = turn(12, "json/encoder.py:1 iterencode", OUR_CODE)
    unseen, theirs = turn(5), turn(40, OTHER_CODE)
    assert stalls_of(OURS, [ours, unseen, theirs]) == [ours, unseen]
    assert stalls_of(NOTHING, [ours, unseen, theirs]) == [unseen]


def test_the_longest_stall_excludes_the_wait_for_a_core() -> None:
    found = measured([turn(12, OUR_CODE, queued=30), turn(14, OUR_CODE)])
    assert (found.stall_max_ms, found.stall_wall_max_ms) == (14, 42)
    assert measured([]).stall_max_ms == 0


def test_the_share_of_the_page_without_the_widget_is_subtracted() -> None:
    found = {"bare": measured([], browser=0.5), "ours": measured([], browser=1.25)}
    figures = figures_of(found, {"ours": 46.0}, ["other"])
    assert figures["browser_percent"] == 0.75
    assert figures["bare_browser_percent"] == 0.5
    assert figures["bundle_kb"] == 46.0
    assert figures["status_p50_ms"] == 2


def test_unmeasured_figures_are_unknown() -> None:
    found = {"bare": measured([]), "ours": measured([], browser=1.0)}
    figures = figures_of(found, {}, ["other"])
    theirs = {name: figure for name, figure in figures.items() if name.startswith("other_")}
    assert len(theirs) == 8
    assert set(theirs.values()) == {None}
    assert figures["browser_percent"] is None


def test_scripts_and_styles_are_weighed_compressed(tmp_path: Path) -> None:
    assert compressed_kb(tmp_path) is None
    text = b"a" * 5000
    for name in ("a.js", "chunks/b.css", "licenses.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    assert compressed_kb(tmp_path) == pytest.approx(2 * len(gzip.compress(text)) / 1000)
