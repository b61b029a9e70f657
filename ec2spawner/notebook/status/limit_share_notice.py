"""The notice of a limit of which a share is used. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire import Limit, Notice, Sentence, sentence

AT_ONCE = frozenset({"usd_per_hour", "servers"})
"""Kinds of limits that bound what runs together: no time uses them up."""


def limit_share(limit: Limit) -> Notice:
    """The highest share that is passed."""
    # A part of a window or a credit renews each day: a share of it is news when it is passed again.
    since = limit.passed_on or limit.renews or "never"
    of = f"{limit.scope}-{limit.name}-{limit.kind}-{since}"
    return Notice(
        id=f"limit-{limit.threshold}-{of}",
        kind="budget",
        level="warning" if limit.threshold >= 100 else "info",
        title=_limit_title(limit),
        details=list(_limit_details(limit)),
        actions=["panel"],
    )


def _limit_title(limit: Limit) -> Sentence:
    whose = {"scope": limit.scope, "name": limit.name}
    if limit.kind in AT_ONCE:
        return sentence("limit-exceeded", **whose)
    if limit.threshold >= 100:
        return sentence("limit-used-up", **whose)
    return sentence("limit-share", percent=limit.threshold, **whose)


def _limit_details(limit: Limit) -> Iterator[Sentence]:
    if limit.kind in AT_ONCE:
        if limit.used is not None and limit.limit is not None:
            yield sentence("limit-runs", kind=limit.kind, used=limit.used, limit=limit.limit)
        yield sentence("limit-no-start")
        return
    if limit.used is not None and limit.limit is not None:
        yield sentence(
            "limit-amount",
            kind=limit.kind,
            used=limit.used,
            limit=limit.limit,
            at_least=limit.at_least,
        )
    if limit.reached_at is not None and limit.threshold < 100:
        yield sentence("limit-forecast", at=limit.reached_at.timestamp())
