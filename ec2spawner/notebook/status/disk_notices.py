"""What a person should know of the disks of a server: which are full, and which soon are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.alarms.disk_rules import is_nearly_full
from ...wire import NotebookStatus, Notice, Sentence, sentence
from ...wire.sentences import Code, is_of_home

_NEARLY_FULL: Mapping[str, Code] = {
    "home": "home-nearly-full",
    "system": "system-disk-nearly-full",
    "scratch": "scratch-nearly-full",
}


def disk_notices(status: NotebookStatus) -> Iterator[Notice]:
    """One of full disks, or else one of those that are nearly full."""
    yield from _disk_full(status) if status.full_disks else _disk_nearly_full(status)


def _disk_full(status: NotebookStatus) -> Iterator[Notice]:
    yield Notice(
        id="disk-full",
        kind="disk-full",
        level="warning",
        title=sentence("disk-full"),
        # The folders to look at are in the panel: JupyterLab cuts a long notice short.
        details=[
            *(each for each in status.full_disks if not each.code.startswith("folder-")),
            *_results_that_wait(status),
        ],
        actions=["panel"],
    )


def _disk_nearly_full(status: NotebookStatus) -> Iterator[Notice]:
    """Before it is too late; once until each of these disks has room again."""
    found = filter(is_nearly_full, status.disks)
    codes = {each.kind: _NEARLY_FULL[each.kind] for each in found if each.kind in _NEARLY_FULL}
    if codes:
        yield Notice(
            id=f"disk-nearly-full-{'-'.join(sorted(codes))}",
            kind="disk-full",
            level="warning",
            title=sentence("disk-nearly-full"),
            details=[sentence(code) for code in codes.values()],
            actions=["panel"],
        )


def _results_that_wait(status: NotebookStatus) -> list[Sentence]:
    if status.undelivered_runs and any(map(is_of_home, status.full_disks)):
        return [sentence("results-wait")]
    return []
