"""The notices that hold now. Pure: status + time -> notices.

All notices come from here: the status carries them, and the event websocket sends the list whenever
it changes. A notice that no longer holds leaves the list; by its id the browser knows which it has
shown already.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from ...core.idle.stop_decision import idle_stop_at
from ...core.instances.scheduled_events import ENDS, REBOOTS
from ...wire import (
    History,
    Idleness,
    Limit,
    NotebookStatus,
    Notice,
    Sentence,
    Stop,
    Trigger,
    sentence,
)
from ...wire.sentences import Code
from .disk_notices import disk_notices
from .gpu_notices import gpu_notices
from .limit_share_notice import limit_share
from .price_notices import price_notices

UNUSED_PERCENT = 1.0
"""A GPU that was never used more than this was not needed."""

UNUSED_SECONDS = 55 * 60.0
"""Without any use for this long of the last hour, a smaller profile would do."""

CONTINUES: frozenset[Trigger] = frozenset({"interruption", "hardware"})
"""Why a session is saved that continues at once on another instance."""

CHOSEN: frozenset[Trigger] = frozenset({"user", "hardware"})
"""Why a session is saved that its user may have asked for."""

MAX_NAME = 18
"""Characters of a notebook's name in a notice. Its end distinguishes it, too."""


def notices(status: NotebookStatus, history: History | None = None) -> list[Notice]:
    """All that hold at `status.now`, the gravest first."""
    now = status.now
    found = [
        *_stopping(status),
        *_interruption(status),
        *_message(status),
        *gpu_notices(status),
        *_idle(status, now),
        *disk_notices(status),
        *_limits(status),
        *price_notices(status),
        *_smaller_profile(status, history),
        *_rebalance(status),
        *_scheduled_event(status),
        *_session(status),
    ]
    order = {"error": 0, "warning": 1, "info": 2, "success": 2}
    return sorted(found, key=lambda notice: order[notice.level])


def _stopping(status: NotebookStatus) -> Iterator[Notice]:
    stop = status.stop
    if stop is None:
        return
    interrupted = stop.reason == "interruption"
    since = _idle_since(status) if stop.reason == "idle" else None
    # An admin and a service put a session to sleep, too: `sleep` is the same then.
    is_chosen = stop.reason == "user" and stop.sleep in CHOSEN
    yield Notice(
        id=f"stopping-{stop.reason}",
        kind="interruption" if interrupted else "stopping",
        level="error" if interrupted else "success" if is_chosen else "warning",
        title=sentence(_stopping_title(stop, status)),
        # Short: JupyterLab cuts a toast after 140 characters, and the reason follows.
        details=[sentence(_kept_by(stop, status)), *_workers(status)],
        stop=None if since else stop,
        since=since,
    )


def _stopping_title(stop: Stop, status: NotebookStatus) -> Code:
    if stop.sleep is not None:
        return "session-moving" if stop.sleep in CONTINUES else "session-saving"
    if _continues_unsaved(stop, status):
        return "server-moving"
    return "stopping-by-admin" if stop.reason == "admin" else "stopping"


def _kept_by(stop: Stop, status: NotebookStatus) -> Code:
    if stop.sleep is not None:
        return "session-continues" if stop.sleep in CONTINUES else "session-kept"
    if _continues_unsaved(stop, status):
        return "server-continues"
    return "documents-saved" if status.files_kept else "files-not-kept"


def _continues_unsaved(stop: Stop, status: NotebookStatus) -> bool:
    """The notice has left no time to save the session, or there is none to save."""
    return stop.reason == "interruption" and status.continues and status.files_kept


def _interruption(status: NotebookStatus) -> Iterator[Notice]:
    at = status.interruption_at
    if at is not None and status.stop is None:
        yield Notice(
            id=f"interruption-{at.timestamp():.0f}",
            kind="interruption",
            level="error",
            title=sentence("spot-reclaim"),
            details=_after_reclaim(status),
            until=at,
        )


def _after_reclaim(status: NotebookStatus) -> list[Sentence]:
    moves = status.continues and status.files_kept
    saves = status.can_sleep if moves else _sleeps(status)
    name = _running_notebook(status)
    if name and (status.files_kept or saves):
        # Both in 140 characters, of which a toast of JupyterLab consists.
        short: Code = "save-now"
        if moves:
            short = "session-moves-soon" if saves else "server-moves-soon"
        elif saves:
            short = "session-kept"
        return [sentence("cell-interrupted-soon", name=name), sentence(short)]
    if moves:
        return [sentence("session-continues-soon" if saves else "server-continues-soon")]
    return [_files(status)] if saves else [sentence("save-now"), _files(status)]


def _running_notebook(status: NotebookStatus) -> str:
    """Name of a notebook of which a cell is running; empty where none is."""
    busy = status.idleness.busy if status.idleness else None
    is_kernel = busy is not None and busy.code == "kernel-running"
    return _short(str(busy.params.get("name", ""))) if busy is not None and is_kernel else ""


def _rebalance(status: NotebookStatus) -> Iterator[Notice]:
    """An early warning, which may come to nothing: the notice says when it does not."""
    at = status.rebalance_at
    if at is not None and not _ends_anyway(status):
        yield Notice(
            id=f"rebalance-{at.timestamp():.0f}",
            kind="rebalance",
            level="info",
            title=sentence("rebalance"),
            details=[sentence("spot-may-end")],
        )


def _scheduled_event(status: NotebookStatus) -> Iterator[Notice]:
    """Notify of what AWS has announced days in advance; what the hub does is in its order."""
    event = status.scheduled_event
    if event is None or _ends_anyway(status):
        return
    is_end = event.code in ENDS
    title: Code = "aws-maintains"
    if is_end:
        title = "aws-reboots" if event.code in REBOOTS else "aws-stops"
    at = event.not_before.timestamp()
    yield Notice(
        id=f"{event.code}-{at:.0f}",
        kind="scheduled-event",
        level="warning" if is_end else "info",
        title=sentence(title, at=at),
        details=[sentence(_before_it(status) if is_end else "unreachable-briefly")],
        actions=["continue"] if is_end and status.can_sleep else [],
    )


def _before_it(status: NotebookStatus) -> Code:
    if status.continues and status.files_kept:
        return "continues-before"
    return "sleeps-before" if status.can_sleep else "stops-before"


def _session(status: NotebookStatus) -> Iterator[Notice]:
    """What came back of the session that slept, once it has woken."""
    wake = status.wake
    if wake is None or wake.state != "done" or not wake.kernels or _ends_anyway(status):
        return
    back = [each for each in wake.kernels if each.state == "done"]
    count, later = sum(each.variables for each in back), sum(each.later for each in back)
    lost = sum(each.lost_count for each in wake.kernels)
    lost += sum(each.expected for each in wake.kernels if each.state == "failed")
    old = [each.values_of for each in back if each.values_of is not None]
    old += [wake.slept_at] if wake.again and back else []
    is_whole = not lost and not old and len(back) == wake.kernel_count
    interrupted = [e for e in back if e.interrupted_cell is not None and e.path]
    details = [*([sentence("session-lost", count=lost)] if lost else [])]
    if interrupted:
        is_cell = bool(interrupted[0].interrupted_cell)
        code: Code = "session-cell-interrupted" if is_cell else "session-work-interrupted"
        title = sentence(code, name=_short(interrupted[0].path))
        details = [sentence("session-values-older")] if old else details
    elif back:
        title = sentence("session-back", count=count + later, kernels=len(back))
        if old:
            details.insert(0, sentence("session-older", at=min(old).timestamp()))
        elif later:
            details.insert(0, sentence("session-later", count=later))
    else:
        title = sentence("session-not-back")
    yield Notice(
        id=f"session-{wake.id}{'-again' if wake.again else ''}",
        kind="session",
        level="info" if is_whole and not interrupted else "warning",
        title=title,
        details=details,
        actions=["cell", "panel"] if interrupted else ["panel"],
    )


def _short(path: str) -> str:
    """Name of a notebook, short enough for a notice."""
    name = path.rsplit("/", 1)[-1]
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME // 2]}…{name[1 - MAX_NAME // 2 :]}"


def _message(status: NotebookStatus) -> Iterator[Notice]:
    if status.message is not None:
        yield Notice(
            id=f"message-{status.message.id}",
            kind="message",
            level="warning",
            title=sentence("admin-message"),
            details=[sentence("message-text", text=status.message.text)],
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
    why = [sentence("max-age", seconds=policy.max_age_seconds)] if by_age and policy else []
    yield Notice(
        id=f"idle-{found.stop_at.timestamp():.0f}",
        kind="idle",
        level="warning",
        title=_ends_soon(status),
        details=[*why, (_files_at_limit if by_age else _files)(status), *_workers(status)],
        until=found.stop_at,
        since=None if by_age else found.idle_since,
        actions=["keep", _end_action(status)] if may_keep else [_end_action(status)],
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


def _limits(status: NotebookStatus) -> Iterator[Notice]:
    """The announced stop that comes first; of each other limit the highest share that is passed,
    once until it is passed again, or the limit's month is over."""
    limits = status.cost.limits if status.cost and status.stop is None else []
    for limit in limits:
        if limit.stop_at is not None:
            yield _limit_stop(limit, limit.stop_at, status)
            break
    for limit in limits:
        if limit.stop_at is None and limit.threshold:
            yield limit_share(limit)


def _limit_stop(limit: Limit, at: datetime, status: NotebookStatus) -> Notice:
    return Notice(
        id=f"limit-stop-{at.timestamp():.0f}",
        kind="budget",
        level="warning",
        title=_ends_soon(status),
        details=[
            sentence("limit-stops", scope=limit.scope, name=limit.name),
            _files_at_limit(status),
            *_workers(status),
        ],
        until=at,
        actions=["panel", _end_action(status)],
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
            title=sentence("gpu-unused", count=len(gpus)),
            details=[sentence("profile-without-gpu", files_kept=status.files_kept)],
            actions=["panel"],
        )


def _ends_anyway(status: NotebookStatus) -> bool:
    return status.stop is not None or status.interruption_at is not None


def _sleeps(status: NotebookStatus) -> bool:
    """Whether the session is saved before a stop that nobody has requested yet."""
    policy = status.idle_policy
    return policy is not None and policy.then == "sleep" and status.files_kept


def _ends_soon(status: NotebookStatus) -> Sentence:
    return sentence("sleeps" if _sleeps(status) else "stops")


def _files(status: NotebookStatus) -> Sentence:
    if _sleeps(status):
        return sentence("session-kept")
    return sentence("files-kept" if status.files_kept else "files-lost")


def _files_at_limit(status: NotebookStatus) -> Sentence:
    """The same of a stop that waits for no cell: one that cannot be interrupted is lost.

    In full in the panel; here in as few words as a toast of JupyterLab has room for.
    """
    if _sleeps(status) and _running_notebook(status):
        return sentence("cell-may-lose-variables")
    return _files(status)


def _end_action(status: NotebookStatus) -> Literal["sleep", "stop"]:
    """What ends the server now and loses least; the panel has the other."""
    return "sleep" if status.can_sleep else "stop"


def _workers(status: NotebookStatus) -> Iterator[Sentence]:
    """That those of its cluster end with the server."""
    workers = status.cost.workers if status.cost else None
    if workers is not None and workers.count:
        yield sentence("workers-end", count=workers.count)
