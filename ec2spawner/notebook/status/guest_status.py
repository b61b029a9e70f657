"""What a person with whom the server is shared may know of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...wire import ClusterAnswer, NotebookStatus, Notice, Stop


def for_guest(status: NotebookStatus) -> NotebookStatus:
    """The status without what is the owner's alone: what they spend in all, who pays, what an
    admin wrote to them, and what their session holds. What this server costs, and when it stops, a
    guest may know."""
    cost = status.cost
    if cost is not None:
        totals = ("today_usd", "month_usd", "known_today_usd", "known_month_usd")
        hidden = dict.fromkeys((*totals, "budget_usd"))
        cost = cost.model_copy(update={**hidden, "limits": [], "credits": [], "payer": ""})
    changed = {
        "can_control": False,
        "cost": cost,
        "stop": _without_amounts(status.stop),
        "message": None,
        "saving": None,
        "wake": None,
        "notices": notices_for_guest(status.notices),
    }
    return status.model_copy(update=changed)


def cluster_for_guest(answer: ClusterAnswer) -> ClusterAnswer:
    """What its workers do and cost, without where they are reached, and without reasons of the hub,
    which may name a limit and how much of it is spent. A guest may start none."""
    status = answer.status
    workers = [
        each.model_copy(
            update={"url": "", "message": "" if each.state == "ending" else each.message}
        )
        for each in status.workers
    ]
    hidden = {"address": "", "problem": "", "max_workers": 0}
    shown = status.model_copy(update={"workers": workers, **hidden})
    return ClusterAnswer(status=shown)


def notices_for_guest(notices: Sequence[Notice]) -> list[Notice]:
    """Those that are not the owner's alone."""
    return list(_shared(notices))


def _shared(notices: Sequence[Notice]) -> Iterator[Notice]:
    """An announced stop warns guests too, and their documents are saved before it; whose limit
    it is stays the owner's to know. What the server costs is the owner's to change."""
    for notice in notices:
        if notice.kind in ("message", "session", "price", "credit"):
            continue
        if notice.kind != "budget":
            yield notice.model_copy(update={"stop": _without_amounts(notice.stop)})
        elif notice.until is not None:
            details = [each for each in notice.details if each.code != "limit-stops"]
            yield notice.model_copy(update={"details": details})


def _without_amounts(stop: Stop | None) -> Stop | None:
    """The message of a limit's stop says whose it is and how much was spent."""
    if stop is None or stop.reason != "budget":
        return stop
    return stop.model_copy(update={"message": ""})
