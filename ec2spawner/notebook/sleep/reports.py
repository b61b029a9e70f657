"""What a kernel reports of its sleep and its waking, made safe to pass on. Pure.

The kernel runs its user's code, so a report may hold anything: what does not fit is cut, a variable
that cannot be listed is counted, and what is no report is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Set
from typing import Any, TypeVar

from pydantic import ValidationError

from ...wire import LostVariable, SavedKernel, SavedVariable, WokenKernel
from ...wire.sleep import MAX_LARGEST, MAX_LOST

LONGEST_NAME = 200
LONGEST_DETAIL = 300

M = TypeVar("M", SavedVariable, LostVariable)


def saved_kernel(path: str, kernel_name: str, report: Mapping[str, Any]) -> SavedKernel:
    """Of the summary of a manifest."""
    try:
        return SavedKernel(
            path=path,
            kernel_name=kernel_name,
            variables=report.get("variables", 0),
            proved=report.get("proved", 0),
            size_bytes=report.get("size_bytes", 0),
            gpu_bytes=report.get("gpu_bytes", 0),
            largest=_listed(report.get("largest"), SavedVariable, MAX_LARGEST),
            lost=_listed(report.get("lost"), LostVariable, MAX_LOST),
            lost_count=report.get("lost_count", 0),
            changed=_listed(report.get("changed"), LostVariable, MAX_LOST),
            changed_count=report.get("changed_count", 0),
            code=str(report.get("code", ""))[:LONGEST_NAME],
        )
    except (ValidationError, TypeError):
        return unsaved(path, kernel_name, "damaged")


def unsaved(path: str, kernel_name: str, code: str) -> SavedKernel:
    """Of a kernel of which nothing was saved."""
    return SavedKernel(path=path, kernel_name=kernel_name, variables=0, size_bytes=0, code=code)


def woken_kernel(saved: SavedKernel, report: Mapping[str, Any], names: Set[str]) -> WokenKernel:
    """Of what a kernel restored; it reports what was not saved among what is lost.

    `names`: of its variables, without the modules that it imports.
    """
    waking = waiting_kernel(saved)
    try:
        return WokenKernel(
            path=saved.path,
            kernel_name=saved.kernel_name,
            state="done",
            variables=len((_texts(report, "restored") | _texts(report, "yours")) & names),
            later=len(_texts(report, "later") & names),
            expected=saved.variables,
            expected_bytes=saved.size_bytes,
            lost=_listed(report.get("lost"), LostVariable, MAX_LOST),
            lost_count=len(_dicts(report.get("lost"))),
            differing=_listed(report.get("differing"), LostVariable, MAX_LOST),
            unkept=[_short(each, LONGEST_DETAIL) for each in sorted(_texts(report, "unkept"))][
                :MAX_LOST
            ],
            code=str(report.get("code", "") or saved.code)[:LONGEST_NAME],
            values_of=saved.values_of,
            interrupted_cell=saved.interrupted_cell,
        )
    except (ValidationError, TypeError, ValueError):
        return waking.model_copy(update={"state": "failed", "code": "damaged"})


def restoring_kernel(waking: WokenKernel, report: Mapping[str, Any]) -> WokenKernel:
    """Of how far a kernel has come."""
    count, size = report.get("variables"), report.get("size_bytes")
    changes = {}
    if isinstance(count, int):
        changes["variables"] = max(0, min(count, waking.expected))
    if isinstance(size, int):
        changes["size_bytes"] = max(0, min(size, waking.expected_bytes))
    return waking.model_copy(update=changes)


def waiting_kernel(saved: SavedKernel) -> WokenKernel:
    """Of a kernel that is not started yet."""
    return WokenKernel(
        path=saved.path,
        kernel_name=saved.kernel_name,
        state="waiting",
        expected=saved.variables,
        expected_bytes=saved.size_bytes,
        lost=saved.lost,
        lost_count=saved.lost_count,
        code=saved.code,
        values_of=saved.values_of,
        interrupted_cell=saved.interrupted_cell,
    )


def _texts(report: Mapping[str, Any], key: str) -> set[str]:
    value = report.get(key)
    return {each for each in value if isinstance(each, str)} if isinstance(value, list) else set()


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _listed(value: Any, kind: type[M], most: int) -> list[M]:
    """The variables of a list; without those that no message can hold."""
    found = []
    for each in _dicts(value)[:most]:
        with contextlib.suppress(ValidationError):
            found.append(kind.model_validate(_cut(each)))
    return found


def _cut(report: Mapping[str, Any]) -> dict[str, Any]:
    """Texts of limited length, and of valid Unicode: an error's may be neither."""
    return {
        key: _short(value, LONGEST_DETAIL if key == "detail" else LONGEST_NAME)
        if isinstance(value, str)
        else value
        for key, value in report.items()
    }


def _short(text: str, most: int) -> str:
    return text[:most].encode(errors="replace").decode()
