"""In the hub of the bench: calls to AWS and writes to the store are reported, and one kills.

What is watched is botocore and SQLAlchemy, not this project: a call or a write that somebody adds
is a point without a word here.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import Pool

from ec2spawner.provisioner.reconciler import Reconciler
from ec2spawner.provisioner.store import tables

ORDERS, TRACE, PASSES = "orders.json", "trace.tsv", "passes"
"""In the hub's directory: what the bench orders, what has happened, a byte for each pass."""

TABLES = frozenset(tables.metadata.tables)

_WRITTEN = "bench_written"
"""In the `info` of a database connection: what its transaction writes, and then has written."""


class Moments:
    """Numbers what happens from the beginning of each leg, writes it down, and dies as ordered."""

    def __init__(self, directory: Path) -> None:
        self._orders = directory / ORDERS
        self._trace = os.open(directory / TRACE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._seen: Counter[str] = Counter()
        self._order = ""
        self._turn = threading.Lock()

    def reach(self, side: str, what: str) -> None:
        with self._turn:
            order = self._orders.read_text()
            if order != self._order:
                self._order = order
                self._seen.clear()
            leg, die_at = json.loads(order)
            if not leg:
                return
            kind = f"{side} {what}"
            self._seen[kind] += 1
            moment = f"{kind} #{self._seen[kind]}"
            os.write(self._trace, f"{leg}\t{moment}\n".encode())
            if moment == die_at:
                os.kill(os.getpid(), signal.SIGKILL)


def watch(directory: Path) -> None:
    """To be called once, before the hub makes its first client or connection."""
    moments = Moments(directory)
    _watch_aws(moments)
    _watch_store(moments)
    _count_passes(directory)


def _watch_aws(moments: Moments) -> None:
    make = boto3.session.Session.client

    def client(self: Any, *arguments: Any, **options: Any) -> Any:
        made = make(self, *arguments, **options)

        def before(model: Any, **_: Any) -> None:
            moments.reach("before", model.name)

        def after(event_name: str, **_: Any) -> None:
            moments.reach("after", event_name.rpartition(".")[2])

        made.meta.events.register("before-call", before)
        made.meta.events.register("after-call", after)
        made.meta.events.register("after-call-error", after)
        return made

    boto3.session.Session.client = client  # type: ignore[method-assign]


def _watch_store(moments: Moments) -> None:
    """A transaction is named by the first row that it writes, and its state where it has one."""

    @event.listens_for(Engine, "before_cursor_execute")
    def note(
        connection: Connection, _cursor: Any, _sql: str, _values: Any, context: Any, _many: bool
    ) -> None:
        if not (context.isinsert or context.isupdate or context.isdelete):
            return
        table = getattr(getattr(context.compiled, "statement", None), "table", None)
        if table is None or table.name not in TABLES or _WRITTEN in connection.info:
            return
        values = context.compiled_parameters[0] if context.compiled_parameters else {}
        state = values.get("state")
        connection.info[_WRITTEN] = f"save {table.name}({state})" if state else f"save {table.name}"

    @event.listens_for(Engine, "commit")
    def before(connection: Connection) -> None:
        if what := connection.info.get(_WRITTEN):
            moments.reach("before", what)

    @event.listens_for(Engine, "rollback")
    def forget(connection: Connection) -> None:
        connection.info.pop(_WRITTEN, None)

    @event.listens_for(Pool, "checkin")
    def after(_connection: Any, record: Any) -> None:
        # Committed, and still in the store's thread: its caller has not been notified yet.
        if what := record.info.pop(_WRITTEN, None):
            moments.reach("after", what)


def _count_passes(directory: Path) -> None:
    passes = os.open(directory / PASSES, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    reconcile = Reconciler.reconcile

    async def counted(self: Reconciler) -> None:
        await reconcile(self)
        os.write(passes, b".")

    Reconciler.reconcile = counted  # type: ignore[method-assign]
