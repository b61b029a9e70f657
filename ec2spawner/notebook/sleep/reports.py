"""What a kernel reports of its sleep and its waking, made safe to pass on. Pure.

The kernel runs its user's code, so a report may hold anything: what does not fit is cut, and what
is no report is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from pydantic import ValidationError

from ...wire import LostVariable, SavedKernel, SavedVariable, WokenKernel
from ...wire.sleep import MAX_LARGEST, MAX_LOST

LONGEST_NAME = 200
LONGEST_DETAIL = 300


def saved_kernel(path: str, kernel_name: str, report: Mapping[str, Any]) -> SavedKernel:
    """Of the summary of a manifest."""
    try:
        return SavedKernel(
            path=path,
            kernel_name=kernel_name,
            variables=report.get("variables", 0),
            size_bytes=report.get("size_bytes", 0),
            gpu_bytes=report.get("gpu_bytes", 0),
            largest=[
                SavedVariable.model_validate(_cut(each))
                for each in _dicts(report.get("largest"))[:MAX_LARGEST]
            ],
            lost=listed_variables(report, "lost"),
            lost_count=report.get("lost_count", 0),
            code=str(report.get("code", ""))[:LONGEST_NAME],
        )
    except (ValidationError, TypeError):
        return unsaved(path, kernel_name, "damaged")


def unsaved(path: str, kernel_name: str, code: str) -> SavedKernel:
    """Of a kernel of which nothing was saved."""
    return SavedKernel(path=path, kernel_name=kernel_name, variables=0, size_bytes=0, code=code)


def listed_variables(report: Mapping[str, Any], key: str) -> list[LostVariable]:
    """Raises `ValidationError` for what is none."""
    found = _dicts(report.get(key))[:MAX_LOST]
    return [LostVariable.model_validate(_cut(each)) for each in found]


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
            lost=listed_variables(report, "lost"),
            lost_count=len(_dicts(report.get("lost"))),
            differing=listed_variables(report, "differing"),
            code=str(report.get("code", "") or saved.code)[:LONGEST_NAME],
            values_of=saved.values_of,
        )
    except (ValidationError, TypeError, ValueError):
        return waking.model_copy(update={"state": "failed", "code": "damaged"})


def restoring_kernel(waking: WokenKernel, report: Mapping[str, Any]) -> WokenKernel:
    """Of how far a kernel has come."""
    count = report.get("variables")
    if not isinstance(count, int):
        return waking
    return waking.model_copy(update={"variables": max(0, min(count, waking.expected))})


def waiting_kernel(saved: SavedKernel) -> WokenKernel:
    """Of a kernel that is not started yet."""
    return WokenKernel(
        path=saved.path,
        kernel_name=saved.kernel_name,
        state="waiting",
        expected=saved.variables,
        lost=saved.lost,
        lost_count=saved.lost_count,
        code=saved.code,
        values_of=saved.values_of,
    )


def _texts(report: Mapping[str, Any], key: str) -> set[str]:
    value = report.get(key)
    return {each for each in value if isinstance(each, str)} if isinstance(value, list) else set()


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _cut(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value[: LONGEST_DETAIL if key == "detail" else LONGEST_NAME]
        if isinstance(value, str)
        else value
        for key, value in report.items()
    }
