"""`ec2spawner.cluster(4)`: workers beside this server, and what can be done with them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Final

from ..wire import ClusterPrice, ClusterRequest, ClusterStatus, WorkerStatus
from . import head, run_folder, runs, table
from .agent_request import ask
from .engines.engine import HeadEngine
from .engines.ray_head import RayHead
from .engines.torchrun_head import TorchrunHead
from .errors import ClusterError, ClusterRefused
from .run import Run
from .run_folder import Record
from .worker_calls import call

POLL_SECONDS: Final = 1.0
"""Between two polls of workers that are on their way."""

WHAT_TO_DO: Final = (
    "cluster = ec2spawner.cluster() takes those that have joined; %cluster stop ends them all."
)
"""Where `cluster(n)` raises, nothing was assigned."""

MAX_RESTARTS: Final = 10
"""Of a run by torchrun: each interruption of a worker counts as one on the others."""


def cluster(
    n: int | None = None,
    profile: str | None = None,
    *,
    engine: str = "ray",
    min: int | None = None,  # noqa: A002 - as it is read at the call
    timeout: float = 900.0,
) -> Cluster:
    """`n` workers beside this server; without `n` the cluster that it has.

    The workers' price is shown before any is bought. `profile` is the slug of their hardware; None
    is that of this server. Returns once `min` workers have joined, all of them by default; the
    others join when EC2 has them. Raises `ClusterError` with the reason if the hub refuses, if no
    Python of the workers' image has this kernel's versions, and if fewer have joined after
    `timeout` seconds: what has joined stays until `stop`.
    """
    if n is None:
        return _present()
    min_joined = _min_joined(n, min)
    if n < 1:
        raise ClusterError(f"A cluster has at least one worker, not {n}.")
    found = _begun(head.engine_named(engine), n, profile)
    found.wait(min_joined, timeout)
    return found


def _begun(engine: HeadEngine, n: int, profile: str | None) -> Cluster:
    """With an engine on this machine, and workers on their way. Raises `ClusterError`: if the hub
    refuses, no new engine is left; if it does not answer, workers may be on their way."""
    version = engine.version()
    status, price = _priced(n, profile)
    head.check_workers_python(engine, has_home=price is not None and price.has_home)
    record, is_new = head.running(engine, status), False
    if record is None:
        _say(f"Starting {engine.name.capitalize()} {version} on this machine")
        record, is_new = head.start(engine), True
    join = head.join_of(record)
    try:
        status = ask(ClusterRequest(action="start", workers=n, profile=profile, join=join)).status
    except ClusterRefused:
        if is_new:
            head.end(record)
        raise
    return Cluster(engine, record, status, price)


class Cluster:
    """The cluster of this server. It ends with the server, also if this object is gone."""

    def __init__(
        self,
        engine: HeadEngine,
        record: Record,
        status: ClusterStatus,
        price: ClusterPrice | None = None,
    ) -> None:
        self._engine = engine
        self._record = record
        self._status = status
        self._run: Run | None = None
        self.price = price
        """What it was to cost when it was started; None for one that was there."""

    @property
    def ray(self) -> Any:
        """The module `ray`, connected to the cluster. Raises `ClusterError` on one of torchrun."""
        if not isinstance(self._engine, RayHead):
            raise ClusterError(
                f"This cluster is one of {self._engine.name}: cluster.run('train.py') runs a "
                "script on it. Ray needs a cluster of its own, ec2spawner.cluster(4, engine='ray')."
            )
        return self._engine.client(self._record)

    def run(
        self,
        script: str | os.PathLike[str],
        *args: object,
        nproc_per_node: int | None = None,
        min_nodes: int = 1,
        max_nodes: int | None = None,
        max_restarts: int = MAX_RESTARTS,
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """Run a script of this instance on the workers that have joined, by torchrun.

        Returns at once. Each worker runs `nproc_per_node` processes, by default one per GPU. The
        run continues while `min_nodes` workers are left, and workers that join later are given it,
        up to `max_nodes`, by default as many as the cluster is to have. `environment` are further
        variables. Raises `ClusterError` during another run, and on a cluster of Ray.
        """
        self._check_torchrun()
        status = self.status
        order = runs.new_order(
            script,
            args,
            nproc_per_node=nproc_per_node,
            min_nodes=min_nodes,
            max_nodes=max_nodes or max(status.wanted, 1),
            max_restarts=max_restarts,
            environment=environment,
        )
        self._run = runs.start(order, self._record, status)
        return self._run

    @property
    def last_run(self) -> Run:
        """The last run, such as after a restart of the kernel. Raises `ClusterError` without one.
        While the kernel runs, workers that join later are given it as well."""
        self._check_torchrun()
        if self._run is None:
            self._run = runs.last(self._record)
        return self._run

    @property
    def status(self) -> ClusterStatus:
        """As the hub knows it now. Raises `ClusterError` while it does not answer."""
        self._status = ask(ClusterRequest()).status
        return self._status

    @property
    def workers(self) -> list[WorkerStatus]:
        """The workers as they are now."""
        return self.status.workers

    def scale(
        self,
        n: int,
        *,
        min: int | None = None,  # noqa: A002 - as it is read at the call
        timeout: float = 900.0,
    ) -> None:
        """Let the cluster have `n` workers, and wait as `cluster` does. The price of more is shown
        before they are bought. Those that are given up first have not joined yet, or are idle."""
        min_joined, status = _min_joined(n, min), self.status
        if n > status.wanted:
            _priced(n, status.profile or None)
        self._status = ask(ClusterRequest(action="scale", workers=n)).status
        self.wait(min_joined, timeout)

    def stop(self) -> None:
        """End all workers, and the engine on this machine. The notebook runs on; what its kernel
        has in Ray is lost."""
        self._status = ask(ClusterRequest(action="stop")).status
        head.end(self._record)

    def logs(self, worker: int) -> str:
        """The end of a worker's log. Raises `ClusterError`."""
        found = next((each for each in self.workers if each.number == worker), None)
        if found is None or not found.url:
            raise ClusterError(f"There is no worker {worker} that has joined.")
        return call(found, self._record.token, "/log")

    def wait(self, n: int, timeout: float = 900.0) -> None:
        """Return once `n` workers have joined, and show what happens until then.

        Raises `ClusterError` after `timeout` seconds, and if the hub has given up;
        `KeyboardInterrupt`: then the workers start nevertheless.
        """
        deadline, shown = time.monotonic() + timeout, table.Progress(_say)
        try:
            while not self._have_joined(n, shown):
                if time.monotonic() >= deadline:
                    raise ClusterError(
                        f"{_joined(self._status)} of {n} workers have joined within "
                        f"{timeout:.0f} s, and others join when EC2 has them. {WHAT_TO_DO}"
                    )
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            _say(f"The workers start nevertheless. {WHAT_TO_DO}")
            raise

    def _have_joined(self, n: int, shown: table.Progress) -> bool:
        """Raises `ClusterError` if not so many will. A hub that does not answer may be starting
        again: the workers are not affected."""
        try:
            status = self.status
        except ClusterRefused:
            raise
        except ClusterError:
            shown.hub_is_silent()
            return False
        shown.show(status)
        joined = _joined(status)
        if joined < n and (status.has_given_up or not status.wanted):
            raise ClusterError(_given_up(status, joined))
        return joined >= n

    def _check_torchrun(self) -> None:
        if not isinstance(self._engine, TorchrunHead):
            raise ClusterError(
                f"This cluster is one of {self._engine.name}: use cluster.{self._engine.name}. "
                "Scripts need one of torchrun, ec2spawner.cluster(4, engine='torchrun')."
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return table.as_text(self._status)

    def _repr_html_(self) -> str:
        return table.as_html(self._status)


def stop() -> None:
    """End the workers of this server, and the engine on this machine, whatever is left of them."""
    ask(ClusterRequest(action="stop"))
    if (record := run_folder.read()) is not None:
        head.end(record)


def _min_joined(n: int, asked: int | None) -> int:
    """How many workers to wait for. Raises `ClusterError`."""
    if asked is not None and not 0 <= asked <= n:
        raise ClusterError(f"min={asked}: wait for 0 to {n} workers, as many as there are to be.")
    return n if asked is None else asked


def _priced(n: int, profile: str | None) -> tuple[ClusterStatus, ClusterPrice | None]:
    """Show what `n` workers cost. Raises `ClusterError` if they are not allowed."""
    answer = ask(ClusterRequest(action="price", workers=n, profile=profile))
    if answer.price is not None:
        _say(table.price_words(answer.price))
    return answer.status, answer.price


def _present() -> Cluster:
    """The cluster that this server has. Raises `ClusterError`."""
    status, record = ask(ClusterRequest()).status, run_folder.read()
    if status.wanted and record is None:
        raise ClusterError(
            "The engine on this machine has ended, and workers cannot do without it. %cluster stop "
            "ends them; then ec2spawner.cluster(n) starts a new cluster."
        )
    if not status.wanted or record is None:
        raise ClusterError(_no_cluster(status))
    return Cluster(head.engine_named(record.engine), record, status)


def _joined(status: ClusterStatus) -> int:
    return sum(each.state == "ready" for each in status.workers)


def _no_cluster(status: ClusterStatus) -> str:
    words = "This server has no cluster."
    if status.problem:
        words += f" {status.problem.rstrip('.')}."
    if status.last_workers:
        engine = "" if status.last_engine in {None, "ray"} else f", engine={status.last_engine!r}"
        last = f"{status.last_workers}, {status.last_profile!r}{engine}"
        words += f" Before its last stop it had one: ec2spawner.cluster({last}) starts it again."
    return words


def _given_up(status: ClusterStatus, joined: int) -> str:
    why = status.problem or "the workers could not join"
    left = f" {joined} have joined and stay." if joined else ""
    return (
        f"No more workers are started: {why.rstrip('.')}.{left} Once that is fixed, "
        f"%cluster scale {status.wanted or 'N'} tries again; %cluster stop ends the cluster."
    )


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the output of the user's own call
