"""What a person should be told now. Pure: status + time -> the notices that hold.

The one place where notices come from: the status carries them, and whenever the list changes the
event websocket does. A notice that holds no more is in the list no more; its id tells the browser
which it has shown already.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..core.idle.detection import idle_stop_at
from ..core.instances import xids
from ..core.text.durations import in_words
from ..wire import (
    Cost,
    GpuSample,
    History,
    Idleness,
    NotebookStatus,
    Notice,
)

BUDGET_PERCENT = (80, 100)
"""Shares of the month's budget at which the user is told."""

UNUSED_PERCENT = 1.0
"""A GPU that was never used more than this was not needed."""

UNUSED_SECONDS = 55 * 60.0
"""Without any use for this long of the last hour, a smaller profile would do."""

MOST_OF_A_REASON = 400
"""Letters: the reason of a failed start has a log's last lines, and a notice has room for 500."""

ANOTHER_MACHINE = "start a new server to get another machine"
TELL = "tell whoever looks after this machine"
"""The same where nobody knows how servers come by their machines."""


def notices(status: NotebookStatus, history: History | None = None) -> list[Notice]:
    """All that hold at `status.now`, the gravest first."""
    now = status.now
    found = [
        *_stopping(status),
        *_interruption(status),
        *_gpu_errors(status),
        *_idle(status, now),
        *_disk_full(status),
        *_budget(status.cost, now),
        *_smaller_profile(status, history),
    ]
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(found, key=lambda notice: order[notice.level])


def _stopping(status: NotebookStatus) -> Iterator[Notice]:
    if status.stop is None:
        return
    interrupted = status.stop.reason == "interruption"
    since = _idle_since(status) if status.stop.reason == "idle" else None
    why = "" if since else status.stop.message[:MOST_OF_A_REASON]
    yield Notice(
        id=f"stopping-{status.stop.reason}",
        kind="interruption" if interrupted else "stopping",
        level="error" if interrupted else "warning",
        title="This server is being stopped by an admin"
        if status.stop.reason == "admin"
        else "This server is being stopped",
        message=_sentences(_at_stop(status), why),
        since=since,
    )


def _interruption(status: NotebookStatus) -> Iterator[Notice]:
    at = status.interruption_at
    if at is not None and status.stop is None:
        yield Notice(
            id=f"interruption-{at.timestamp():.0f}",
            kind="interruption",
            level="error",
            title="AWS takes this machine back",
            message=f"Save your work now. {_kept(status)}",
            until=at,
        )


def _idle(status: NotebookStatus, now: datetime) -> Iterator[Notice]:
    found = status.idleness
    if _ends_anyway(status) or not found or not found.stop_at:
        return
    if not found.warn_at or now < found.warn_at:
        return
    policy = status.idle_policy
    by_age = _ends_by_age(found, status)
    may_keep = any(choice.changes for choice in status.keep)
    since = None if by_age else found.idle_since
    why = ""
    if by_age and policy is not None:
        why = f"Whatever runs, it stops {in_words(policy.max_age_seconds)} after its start"
    yield Notice(
        id=f"idle-{found.stop_at.timestamp():.0f}",
        kind="idle",
        level="warning",
        title="This server stops",
        message=_sentences(why, _kept(status)),
        until=found.stop_at,
        since=since,
        actions=["keep", "stop"] if may_keep else ["stop"],
    )


def _idle_since(status: NotebookStatus) -> datetime | None:
    return status.idleness.idle_since if status.idleness else None


def _ends_by_age(found: Idleness, status: NotebookStatus) -> bool:
    """Whether the server's age ends it: then there is nothing to extend."""
    policy = status.idle_policy
    if found.idle_since is None or policy is None or not policy.max_age_seconds:
        return found.idle_since is None
    by_idleness = idle_stop_at(policy, found.idle_since, status.extended_until)
    return by_idleness is None or (found.stop_at is not None and found.stop_at < by_idleness)


def _gpu_errors(status: NotebookStatus) -> Iterator[Notice]:
    mend = ANOTHER_MACHINE if status.managed else TELL
    telemetry = status.telemetry
    if telemetry is None or not telemetry.gpus:
        return
    if telemetry.gpu_problem and not any(gpu.lost for gpu in telemetry.gpus):
        yield _of_gpu(
            "silent",
            "The GPUs cannot be read",
            _sentences(telemetry.gpu_problem[:MOST_OF_A_REASON], f"If it stays so, {mend}"),
            "warning",
        )
    for gpu in telemetry.gpus:
        name = f"GPU {gpu.index}"
        if gpu.lost:
            yield _of_gpu(
                f"lost-{gpu.index}",
                f"{name} does not answer any more",
                f"This machine needs a repair: {mend}.",
                "error",
            )
        elif gpu.xid is not None and not xids.is_history(gpu.xid, gpu.xid_at, status.now):
            yield _xid(gpu, gpu.xid, name, mend)
        if gpu.ecc_uncorrected:
            yield _of_gpu(
                f"ecc-{gpu.index}",
                f"{name} has memory errors that it cannot correct",
                f"Results computed on it may be wrong: {mend}.",
                "error",
            )


def _xid(gpu: GpuSample, number: int, name: str, mend: str) -> Notice:
    xid = xids.meaning(number)
    at = f"-{gpu.xid_at.timestamp():.0f}" if gpu.xid_at else ""
    return _of_gpu(
        f"xid-{gpu.index}-{number}{at}",
        f"{name} reports an error",
        _sentences(f"Xid {number}: {xid.what}", xid.then or f"If it comes again, {mend}"),
        "error" if xid.gravity is xids.Gravity.MACHINE else "warning",
    )


def _of_gpu(notice_id: str, title: str, message: str, level: str) -> Notice:
    return Notice.model_validate(
        {
            "id": f"gpu-{notice_id}",
            "kind": "gpu",
            "level": level,
            "title": title,
            "message": message,
            "actions": ["panel"],
        }
    )


def _disk_full(status: NotebookStatus) -> Iterator[Notice]:
    if status.disk_full:
        yield Notice(
            id="disk-full",
            kind="disk-full",
            level="warning",
            title="A disk is full",
            message=status.disk_full,
        )


def _budget(cost: Cost | None, now: datetime) -> Iterator[Notice]:
    """The highest threshold that is passed; each once a month."""
    if cost is None or not cost.budget_usd or cost.month_usd is None:
        return
    share = 100 * cost.month_usd / cost.budget_usd
    passed = [percent for percent in BUDGET_PERCENT if share >= percent]
    if not passed:
        return
    yield Notice(
        id=f"budget-{passed[-1]}-{now:%Y-%m}",
        kind="budget",
        level="warning" if passed[-1] >= 100 else "info",
        title="Your budget of this month is used up"
        if passed[-1] >= 100
        else f"{passed[-1]} % of your budget of this month are used",
        message=f"It is ${cost.budget_usd:.2f} (USD)"
        f"{', and what you spent is an estimate' if cost.estimate else ''}.",
        actions=["panel"],
    )


def _smaller_profile(status: NotebookStatus, history: History | None) -> Iterator[Notice]:
    """GPUs are paid for and nothing uses them, while something else works here.

    Said once of each server, which is known by when its billing began.
    """
    gpus = status.telemetry.gpus if status.telemetry else []
    if not gpus or history is None or status.cost is None or _ends_anyway(status):
        return
    if status.idleness is None or status.idleness.idle_since is not None:
        return  # an idle server stops: another profile would save nothing
    measured = [use for gpu in history.gpus for use in gpu.use_percent if use is not None]
    unused = len(measured) / max(len(history.gpus), 1) * history.step_seconds >= UNUSED_SECONDS
    if unused and max(measured) <= UNUSED_PERCENT:
        yield Notice(
            id=f"smaller-profile-{status.cost.since.timestamp():.0f}",
            kind="smaller-profile",
            level="info",
            title="The GPU has not been used for an hour"
            if len(gpus) == 1
            else "The GPUs have not been used for an hour",
            message="If your work needs none, a profile without a GPU costs less. "
            f"{'Your files come along.' if status.files_kept else 'Its home is empty.'}",
            actions=["panel"],
        )


def _ends_anyway(status: NotebookStatus) -> bool:
    return status.stop is not None or status.interruption_at is not None


def _sentences(*texts: str) -> str:
    return " ".join(f"{text.rstrip('.')}." for text in texts if text)


def _at_stop(status: NotebookStatus) -> str:
    """Short: JupyterLab cuts a toast after 140 characters, and the reason follows."""
    if status.files_kept:
        return "Documents are saved, files kept; kernel memory is lost"
    return "Files on this machine are not kept"


def _kept(status: NotebookStatus) -> str:
    if status.files_kept:
        return "Files are kept; what kernels hold in memory is not."
    return "Files on this machine are not kept: save elsewhere what you need."
