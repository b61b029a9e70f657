"""A sentence for a person, as a code with parameters: the browser words it in its language."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from .message import Message, ShortText

Code = Literal[
    # What keeps a server on.
    "kernel-running",
    "kernel-starting",
    "terminal-running",
    "gpu-in-use",
    "cpu-in-use",
    # Why GPUs that are there cannot be read.
    "gpu-driver-silent",
    "gpu-driver-updated",
    "gpu-driver-forbidden",
    "gpu-driver-not-installed",
    "gpu-driver-not-loaded",
    "gpu-driver-failed",
    # Full disks.
    "home-full",
    "home-without-inodes",
    "system-disk-full",
    "system-disk-without-inodes",
    "folder-bytes",
    "folder-files",
    "results-wait",
    "home-nearly-full",
    "system-disk-nearly-full",
    "scratch-nearly-full",
    # The titles of notices.
    "stopping",
    "stopping-by-admin",
    "stops",
    "sleeps",
    "session-saving",
    "session-moving",
    "server-moving",
    "spot-reclaim",
    "gpus-unreadable",
    "gpu-lost",
    "gpu-memory-errors",
    "gpu-xid",
    "disk-full",
    "disk-nearly-full",
    "limit-share",
    "limit-used-up",
    "limit-exceeded",
    "gpu-unused",
    "admin-message",
    "rebalance",
    "aws-stops",
    "aws-reboots",
    "aws-maintains",
    "session-back",
    "session-cell-interrupted",
    "session-work-interrupted",
    "session-not-back",
    "price-started",
    "price-moved",
    "price-rose",
    "today-is-less",
    # What a notice says below its title.
    "documents-saved",
    "session-continues",
    "session-continues-soon",
    "cell-interrupted-soon",
    "session-moves-soon",
    "server-moves-soon",
    "session-kept",
    "cell-may-lose-variables",
    "workers-end",
    "server-continues",
    "server-continues-soon",
    "files-not-kept",
    "save-now",
    "files-kept",
    "files-lost",
    "max-age",
    "xid",
    "replace-server",
    "contact-admin",
    "results-wrong",
    "replace-server-if-it-persists",
    "contact-admin-if-it-persists",
    "limit-amount",
    "limit-forecast",
    "limit-stops",
    "limit-runs",
    "limit-no-start",
    "profile-without-gpu",
    "message-text",
    "spot-may-end",
    "continues-before",
    "sleeps-before",
    "stops-before",
    "unreachable-briefly",
    "session-later",
    "session-lost",
    "session-older",
    "session-values-older",
    "price-times",
    "price-on-demand",
    "pay-less",
    "not-charged",
    "price-corrected",
    "ended-earlier",
    # Replies to a button.
    "extension-bounded",
    "limit-not-extended",
    "idle-time-bounded",
    "refused",
    "run-invalid",
    "hub-silent",
    "hub-timeout",
    "agent-silent",
    "agent-gone",
    "not-managed",
    "owner-only",
    "not-stopping",
    "invalid-request",
]

PARAMETERS: dict[Code, frozenset[str]] = {code: frozenset() for code in get_args(Code)} | {
    # The kernel's, program's or notebook's own name; empty where it is not known.
    **dict.fromkeys(
        ("kernel-running", "kernel-starting", "terminal-running", "gpu-in-use", "cpu-in-use"),
        frozenset({"name"}),
    ),
    "gpu-driver-failed": frozenset({"detail"}),
    **dict.fromkeys(("home-full", "system-disk-full"), frozenset({"gib"})),
    # Of a full home, as far as it was measured.
    "folder-bytes": frozenset({"folder", "bytes"}),
    "folder-files": frozenset({"folder", "files"}),
    **dict.fromkeys(("gpu-lost", "gpu-memory-errors", "gpu-xid"), frozenset({"index"})),
    "gpu-unused": frozenset({"count"}),
    # Workers of the server's cluster.
    "workers-end": frozenset({"count"}),
    # Of variables; of `session-back` in so many kernels.
    "session-back": frozenset({"count", "kernels"}),
    # The notebook's name.
    **dict.fromkeys(
        ("session-cell-interrupted", "session-work-interrupted", "cell-interrupted-soon"),
        frozenset({"name"}),
    ),
    "session-later": frozenset({"count"}),
    "session-lost": frozenset({"count"}),
    # When it was saved, in seconds since 1970, UTC.
    "session-older": frozenset({"at"}),
    # Whose limit, as in `wire.Limit`: `user`, `group`, `project` or `hub`, and its name.
    "limit-share": frozenset({"percent", "scope", "name"}),
    "limit-used-up": frozenset({"scope", "name"}),
    "limit-exceeded": frozenset({"scope", "name"}),
    "max-age": frozenset({"seconds"}),
    "xid": frozenset({"number"}),
    # Amounts in USD, or in GPU-hours for the kind `gpu_hours_per_month`.
    "limit-amount": frozenset({"kind", "used", "limit", "at_least"}),
    # Servers, or USD per hour for the kind `usd_per_hour`.
    "limit-runs": frozenset({"kind", "used", "limit"}),
    # Seconds since 1970, UTC.
    **dict.fromkeys(
        ("limit-forecast", "aws-stops", "aws-reboots", "aws-maintains"), frozenset({"at"})
    ),
    "limit-stops": frozenset({"scope", "name"}),
    # When the server stops, in seconds since 1970, UTC.
    "limit-not-extended": frozenset({"scope", "name", "at"}),
    "profile-without-gpu": frozenset({"files_kept"}),
    "message-text": frozenset({"text"}),
    # Prices with disks and address, in USD/hour.
    **dict.fromkeys(
        ("price-started", "price-moved", "price-rose"),
        frozenset({"now", "market", "before", "before_market"}),
    ),
    "price-times": frozenset({"times"}),
    "price-on-demand": frozenset({"usd_per_hour"}),
    # By how much, in USD.
    "today-is-less": frozenset({"usd"}),
    "idle-time-bounded": frozenset({"min_seconds", "max_seconds", "seconds"}),
    "refused": frozenset({"detail"}),
    "run-invalid": frozenset({"detail"}),
}


class Sentence(Message):
    """What a person is to read: `labextension/src/text/sentenceText.ts` has the words."""

    code: ShortText
    """One of `Code`; a later version may know more."""
    params: Annotated[dict[ShortText, ShortText | bool | int | float], Field(max_length=8)] = {}
    """By name, as in `PARAMETERS`."""


def is_of_home(found: Sentence) -> bool:
    """Whether it says that the home has no room, also where that is on the system disk."""
    return found.code in ("home-full", "home-without-inodes", "folder-bytes", "folder-files")


def sentence(code: Code, **params: str | bool | int | float) -> Sentence:
    """A sentence with exactly the parameters that its code has.

    Raises `ValueError` where one is missing or too many.
    """
    if params.keys() != PARAMETERS[code]:
        raise ValueError(f"{code} has the parameters {sorted(PARAMETERS[code])}")
    return Sentence(code=code, params=params)
