"""The steps of a start as the progress page shows them, with actual and usual times. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ....core.pricing.beside import NOTHING, Beside
from ....core.starts.phases import Phase
from ....provisioner.model.leases.lease import (
    FILES_COPIED,
    AttemptOutcome,
    Lease,
    LeaseState,
    StepEvent,
)
from ....provisioner.model.leases.start import phases_of
from ....wire import Step
from .attempt_text import current_attempts, home_note, market_note, price_note, shown
from .migration_progress import Moving
from .waking import Waking

TITLES = {
    Step.REQUEST: "Looking for a machine",
    Step.BOOT: "Booting",
    Step.HOME: "Opening your home",
    Step.NOTEBOOK: "Starting JupyterLab",
}

PHASE_TITLES = {
    Phase.QUEUE: "Waiting for the purchase",
    Phase.BUY: "Buying the machine",
    Phase.PENDING: "Allocating it at AWS",
    Phase.BOOT: "Booting the system",
    Phase.AGENT: "Preparing for your server",
    Phase.CLAIM: "Assigning the machine to you",
    Phase.HOME: "Attaching your home",
    Phase.NOTEBOOK: "Setting up the notebook",
    Phase.LISTEN: "Loading JupyterLab",
    Phase.ROUTE: "Connecting you",
}
"""Of what the page lists as “Where the time goes”; admins know the phases by their names."""

MOVE_SHARE = 60.0
"""Share of a move in the bar, in seconds of a start; within it, the bar follows the percentage
copied."""

SHARE_WHEN_UNKNOWN = {Step.REQUEST: 5.0, Step.BOOT: 30.0, Step.HOME: 3.0, Step.NOTEBOOK: 4.0}
"""Shares of the steps in the bar, in seconds, while no usual times are known; never shown."""


def progress_event(
    lease: Lease,
    usual: Mapping[Step, float],
    now: datetime,
    home_zone: str = "",
    waiting: Mapping[str, Any] | None = None,
    moving: Moving | None = None,
    wakes: Waking | None = None,
    beside: Beside = NOTHING,
) -> dict[str, Any]:
    """One event for JupyterHub's progress stream; `usual` in seconds per step.

    `home_zone` is the only zone in which the home can be used; empty if any can.
    `waiting` is the status of a start that waits for spot (`hub.pages.spot_wait_status`).
    `moving` is the move of the home that the start waits for, `wakes` the session that it brings
    back. `beside` is what comes with the instance, which prices of launch calls are without.
    """
    begun = first_events(lease)
    has_moved = Step.MOVE in begun
    attempts = current_attempts(lease)
    current = _latest(begun)
    ready = lease.state is LeaseState.READY
    steps = [_step(step, begun, current, usual, now) for step in TITLES]
    if has_moved:
        steps.insert(0, _move_step(lease, begun, current, now, moving))
    last = lease.events[-1] if lease.events else None
    said = _line(last) if last else TITLES[Step.REQUEST]
    known = [usual[step] for step in TITLES if step in usual]
    notes = (
        market_note(lease),
        price_note(attempts, beside),
        home_note(attempts, home_zone),
        _copy_note(lease),
    )
    return {
        "progress": 100 if ready else _percent(begun, current, usual, now, moving),
        "message": waiting["message"] if waiting else said,
        "waiting": waiting,
        "waking": {"heading": wakes.heading, "lines": wakes.lines} if wakes else None,
        "steps": steps,
        "attempts": [
            shown(
                attempt,
                is_in_title=Step.BOOT in begun and attempt.outcome is AttemptOutcome.FOUND,
            )
            for attempt in attempts
        ],
        "notes": [note for note in notes if note],
        "phases": [
            {
                "name": each.phase,
                "title": PHASE_TITLES[each.phase],
                "seconds": round(each.seconds, 2),
            }
            for each in phases_of(lease).phases
            if each.is_complete
        ],
        "profile": lease.profile_name,
        "advice": moving.advice if moving and current is Step.MOVE else "",
        "usual_seconds": round(sum(known), 1)
        if len(known) == len(TITLES) and not has_moved
        else None,
        "elapsed_seconds": round(max((now - lease.requested_at).total_seconds(), 0), 1),
    }


def _copy_note(lease: Lease) -> str:
    """Of when the files are that this start has copied from the default server; else empty."""
    said = (each.message for each in lease.events if each.message.startswith(FILES_COPIED))
    return next(
        (f"{message}. Later changes there do not reach this server." for message in said), ""
    )


def current_step(lease: Lease) -> Step:
    """The step that a start has reached."""
    return _latest(first_events(lease))


def _latest(begun: Mapping[Step, StepEvent]) -> Step:
    return max(begun, key=list(Step).index, default=Step.REQUEST)


def first_events(lease: Lease) -> dict[Step, StepEvent]:
    """When each step began, since the instance was last replaced; a move happens only once."""
    begun: dict[Step, StepEvent] = {}
    for event in lease.events:
        is_over = event.step is Step.REQUEST and begun.keys() - {Step.REQUEST}
        if is_over or event.step is Step.MOVE:  # the search begins after the move
            begun = {Step.MOVE: begun[Step.MOVE]} if Step.MOVE in begun else {}
        begun.setdefault(event.step, event)
    return begun


def _step(
    step: Step,
    begun: Mapping[Step, StepEvent],
    current: Step,
    usual: Mapping[Step, float],
    now: datetime,
) -> dict[str, Any]:
    order = list(Step)
    event = begun.get(step)
    later = [begun[other].at for other in order[order.index(step) + 1 :] if other in begun]
    done = order.index(step) < order.index(current)
    seconds = None
    if event is not None:
        seconds = round(max(((later[0] if later else now) - event.at).total_seconds(), 0), 1)
    title, detail = _words(step, begun)
    return {
        "name": step,
        "title": title,
        "state": "done" if done else "now" if step is current else "todo",
        "detail": detail,
        "seconds": seconds,
        "usual_seconds": round(usual[step], 1) if step in usual else None,
    }


def _move_step(
    lease: Lease,
    begun: Mapping[Step, StepEvent],
    current: Step,
    now: datetime,
    moving: Moving | None,
) -> dict[str, Any]:
    """The copy of the home to another zone, before the search for an instance there."""
    is_now = current is Step.MOVE
    last = next(event for event in reversed(lease.events) if event.step is Step.MOVE)
    copied = f"{moving.percent} % copied" if moving and moving.percent else last.detail
    detail = " · ".join(part for part in (copied, moving.takes if moving else "") if part)
    return {
        **_step(Step.MOVE, begun, current, {}, now),
        "title": last.message,
        "detail": detail if is_now else "",
    }


def _line(event: StepEvent) -> str:
    """An event as a line of the log; the detail of a move is its progress."""
    return f"{event.message}: {event.detail}" if event.step is Step.MOVE else event.message


def _words(step: Step, begun: Mapping[Step, StepEvent]) -> tuple[str, str]:
    """Title and detail of a step. The step of the search shows the instance that was found."""
    event, boot = begun.get(step), begun.get(Step.BOOT)
    if event is None or step is Step.MOVE:
        return TITLES.get(step, ""), ""
    if step is Step.BOOT:
        return TITLES[step], event.detail
    title = boot.message if step is Step.REQUEST and boot is not None else TITLES[step]
    if event.message == TITLES[step]:
        return title, event.detail
    return title, " · ".join(part for part in (event.message, event.detail) if part)


def _percent(
    begun: Mapping[Step, StepEvent],
    current: Step,
    usual: Mapping[Step, float],
    now: datetime,
    moving: Moving | None,
) -> int:
    """The bar, 1–99: completed steps by usual length, the current one up to 95 % of its own."""
    length = {step: usual.get(step, SHARE_WHEN_UNKNOWN[step]) for step in TITLES}
    if Step.MOVE in begun:
        length[Step.MOVE] = MOVE_SHARE
    total = sum(length.values()) or 1.0
    order = list(Step)
    done = sum(length[s] for s in length if order.index(s) < order.index(current))
    if current is Step.MOVE:
        done += MOVE_SHARE * min(moving.percent if moving else 0, 95) / 100
    elif current in length and current in begun:
        spent = (now - begun[current].at).total_seconds()
        done += min(max(spent, 0), 0.95 * length[current])
    return max(1, min(99, int(100 * done / total)))
