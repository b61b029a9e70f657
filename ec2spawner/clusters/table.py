"""A cluster in words: its price before it is bought, what its workers do, a table of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape

from ..wire import ClusterPrice, ClusterStatus, WorkerStatus

COLUMNS = ("worker", "state", "instance", "market", "GPU", "USD/hour", "USD so far")


def price_words(price: ClusterPrice) -> str:
    """What a cluster would cost, as an estimate at list prices."""
    what = f"{price.workers} {'worker' if price.workers == 1 else 'workers'} ({price.profile_name})"
    if not price.instance_type:
        return f"{what}: EC2 offers none now as far as is known"
    first = f"{price.market} {price.instance_type}"
    if price.usd_per_hour is None:
        return f"{what}: {first}, price unknown"
    words = f"{what}: about ${price.usd_per_hour:.2f} per hour together as {first}"
    if price.max_usd_per_hour is None:
        return f"{words}; other offers have no known price"
    if price.max_usd_per_hour > price.usd_per_hour:
        words += f", at most ${price.max_usd_per_hour:.2f}"
    return f"{words} (estimate)"


class Progress:
    """Says each step of each worker once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[int, str] = {}
        self._problem = ""
        self._is_silent = False

    def hub_is_silent(self) -> None:
        """Say so, once for each silence."""
        if not self._is_silent:
            self._say("The hub does not answer now. The workers are not affected; still waiting.")
        self._is_silent = True

    def show(self, status: ClusterStatus) -> None:
        """Say what is new."""
        self._is_silent = False
        for worker in status.workers:
            words = worker.message or worker.state
            if self._said.get(worker.number) != words:
                self._said[worker.number] = words
                self._say(f"Worker {worker.number}: {words}")
        if status.problem and status.problem != self._problem:
            self._say(f"Not all workers are there: {status.problem}")
        self._problem = status.problem


def as_text(status: ClusterStatus) -> str:
    """The workers, one to a line."""
    rows = [COLUMNS, *map(_cells, status.workers)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([_summary(status), *lines]) if status.workers else _summary(status)


def as_html(status: ClusterStatus) -> str:
    """The same for a notebook, in the colours of its theme."""
    if not status.workers:
        return f"<p>{escape(_summary(status))}</p>"
    head = "".join(f"<th>{escape(each)}</th>" for each in COLUMNS)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(each))}</tr>"
        for each in status.workers
    )
    return (
        f"<table><caption>{escape(_summary(status))}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _summary(status: ClusterStatus) -> str:
    joined = sum(each.state == "ready" for each in status.workers)
    prices = [each.usd_per_hour for each in status.workers if each.usd_per_hour is not None]
    words = f"{joined} of {status.wanted} workers have joined"
    if prices:
        words += f", ${sum(prices):.2f} per hour"
    return f"{words}. {status.problem}" if status.problem else words


def _cells(worker: WorkerStatus) -> tuple[str, ...]:
    return tuple(_each(worker))


def _each(worker: WorkerStatus) -> Iterator[str]:
    yield str(worker.number)
    yield "is being reclaimed" if worker.interruption_at is not None else _state(worker)
    yield " ".join(filter(None, (worker.instance_type, worker.zone)))
    yield str(worker.market or "")
    yield "" if worker.gpu_percent is None else f"{worker.gpu_percent:.0f} %"
    yield "" if worker.usd_per_hour is None else f"{worker.usd_per_hour:.4f}"
    yield "" if worker.usd is None else f"{worker.usd:.4f}"


def _state(worker: WorkerStatus) -> str:
    if worker.state != "ready":
        return worker.message or worker.state
    return "busy" if worker.idle_since is None else "idle"
