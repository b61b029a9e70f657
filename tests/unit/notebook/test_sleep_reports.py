"""What kernels report of their sleep may be anything: it is cut, or reported as damaged."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.notebook.sleep.reports import (
    restoring_kernel,
    saved_kernel,
    unsaved,
    waiting_kernel,
    woken_kernel,
)
from ec2spawner.wire import SavedKernel, WokenKernel

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=600),
    lambda each: (
        st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=8), each, max_size=4)
    ),
    max_leaves=8,
)
KEYS = (
    "variables size_bytes gpu_bytes largest lost lost_count code restored yours later moved"
    " differing unkept proved changed changed_count kind name"
).split()
REPORTS = st.dictionaries(st.sampled_from(KEYS), ANYTHING)

SAVED = saved_kernel("a.ipynb", "python3", {"variables": 3, "size_bytes": 9, "lost_count": 1})


@given(REPORTS)
def test_any_report_gives_a_valid_message(report: dict[str, Any]) -> None:
    assert isinstance(saved_kernel("a.ipynb", "python3", report), SavedKernel)
    assert isinstance(woken_kernel(SAVED, report, {"x"}), WokenKernel)


@given(REPORTS)
def test_progress_is_never_beyond_what_was_saved(report: dict[str, Any]) -> None:
    found = restoring_kernel(waiting_kernel(SAVED), report)
    assert WokenKernel.model_validate(found.model_dump()) == found
    assert 0 <= found.variables <= SAVED.variables
    assert 0 <= found.size_bytes <= SAVED.size_bytes
    assert restoring_kernel(waiting_kernel(SAVED), {"variables": 2}).variables == 2
    with_bytes = restoring_kernel(waiting_kernel(SAVED), {"size_bytes": 7, "variables": 2})
    assert (with_bytes.size_bytes, with_bytes.expected_bytes) == (7, SAVED.size_bytes)


def test_a_summary_is_taken_as_it_is_and_cut_where_it_is_long() -> None:
    largest = [{"name": "n" * 999, "type": "t", "size_bytes": 5, "gpu": True}] * 9
    lost = [{"name": "g", "type": "generator", "code": "not-storable", "detail": "d" * 999}] * 20
    report = {
        "variables": 12,
        "size_bytes": 77,
        "gpu_bytes": 55,
        "largest": largest,
        "lost": lost,
        "lost_count": 20,
        "code": "",
    }
    found = saved_kernel("a.ipynb", "python3", report)
    assert (found.variables, found.size_bytes, found.lost_count) == (12, 77, 20)
    assert found.gpu_bytes == 55
    assert (len(found.largest), len(found.lost)) == (5, 10)
    assert found.largest[0].gpu
    assert len(found.largest[0].name) == 200
    assert found.lost[0].code == "not-storable"


def test_modules_are_no_variables() -> None:
    report = {
        "restored": ["numpy", "x"],
        "yours": ["y"],
        "later": ["z", "pandas"],
        "lost": [{"name": "m", "type": "Model", "code": "library-version", "detail": ""}],
        "differing": [{"name": "x", "type": "numpy.ndarray", "code": "copied"}],
    }
    found = woken_kernel(SAVED, report, {"x", "y", "z", "m"})
    assert (found.state, found.variables, found.later, found.expected) == ("done", 2, 1, 3)
    assert (found.lost_count, [each.name for each in found.lost]) == (1, ["m"])
    assert [(each.name, each.code) for each in found.differing] == [("x", "copied")]


def test_a_kernel_that_was_not_saved_keeps_its_reason() -> None:
    saved = unsaved("a.ipynb", "python3", "busy")
    assert waiting_kernel(saved).code == "busy"
    assert woken_kernel(saved, {}, set()).code == "busy"


def test_an_earlier_value_has_its_time() -> None:
    report = {"variables": 1, "lost": [{"name": "x", "code": "deadline", "kept_of": 1_800_000_000}]}
    [lost] = saved_kernel("a.ipynb", "python3", report).lost
    assert lost.kept_of is not None
    assert lost.kept_of.timestamp() == 1_800_000_000


def test_a_variable_that_cannot_be_listed_is_counted_and_the_others_are_listed() -> None:
    lost = [
        {"name": "a", "code": "failed", "detail": "\udcff"},
        {"name": "b", "code": "failed", "kept_of": "never"},
        {"name": "c", "code": "failed"},
    ]
    saved = saved_kernel("a.ipynb", "python3", {"variables": 5, "lost": lost, "lost_count": 3})
    woken = woken_kernel(SAVED, {"restored": ["x"], "lost": lost}, {"x"})
    assert (saved.variables, woken.state, woken.variables) == (5, "done", 1)
    for found in (saved, woken):
        assert found.lost_count == 3
        assert [(each.name, each.detail) for each in found.lost] == [("a", "?"), ("c", "")]
