"""`ec2spawner.cluster(4)`: workers beside this server, and what can be done with them."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ..wire import ClusterJoin, ClusterPrice, ClusterRequest, ClusterStatus, WorkerStatus
from . import run_folder, runs, table
from .agent_request import ask
from .engines import engine_process
from .engines.engine import HeadEngine
from .engines.ray_head import RayHead
from .engines.torchrun_head import TorchrunHead
from .errors import ClusterError, ClusterRefused
from .kernel_python import image_python
from .run import Run
from .run_folder import Record
from .worker_calls import call

SERVICE_URL: Final = "JUPYTERHUB_SERVICE_URL"
"""Where this server listens: at the private address of its instance."""

POLL_SECONDS: Final = 1.0
"""Between two looks at workers that are on their way."""

MAX_RESTARTS: Final = 10
"""Of a run by torchrun: each interruption of a worker counts as one on the others."""

ENGINES: Final[dict[str, Callable[[], HeadEngine]]] = {"ray": RayHead, "torchrun": TorchrunHead}


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
    others join when EC2 has them. Raises `ClusterError` with the reason if the hub refuses, and if
    fewer have joined after `timeout` seconds: what has joined stays until `stop`.
    """
    if n is None:
        return _present()
    if n < 1:
        raise ClusterError(f"A cluster has at least one worker, not {n}.")
    kind = ENGINES.get(engine)
    if kind is None:
        raise ClusterError(f"There is no engine {engine!r}; there is: {', '.join(ENGINES)}.")
    head = kind()
    version = head.version()
    answer = ask(ClusterRequest(action="price", workers=n, profile=profile))
    price = answer.price
    if price is not None:
        _say(table.price_words(price))
    record, is_new = _record_of(engine, answer.status), False
    if record is None:
        _say(f"Starting {head.name.capitalize()} {version} on this machine")
        record, is_new = head.start(_own_host()), True
        run_folder.write(record)
    join = ClusterJoin(
        engine=record.engine,
        address=record.address,
        token=record.token,
        python=sys.executable,
        image_python=image_python(),
        python_version=platform.python_version(),
        engine_version=record.version,
    )
    request = ClusterRequest(action="start", workers=n, profile=profile, join=join)
    try:
        status = ask(request).status
    except ClusterRefused:
        if is_new:
            engine_process.stop(record)
        raise
    found = Cluster(head, record, status, price)
    found.wait(n if min is None else min, timeout)
    return found


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
        """Let the cluster have `n` workers, and wait as `cluster` does. Those that are given up
        first have not joined yet, or are idle."""
        request = ClusterRequest(action="scale", workers=n)
        self._status = ask(request).status
        self.wait(n if min is None else min, timeout)

    def stop(self) -> None:
        """End all workers, and the engine on this machine. The notebook runs on."""
        self._status = ask(ClusterRequest(action="stop")).status
        engine_process.stop(self._record)

    def logs(self, worker: int) -> str:
        """The end of a worker's log. Raises `ClusterError`."""
        found = next((each for each in self.workers if each.number == worker), None)
        if found is None or not found.url:
            raise ClusterError(f"There is no worker {worker} that has joined.")
        return call(found, self._record.token, "/log")

    def wait(self, n: int, timeout: float = 900.0) -> None:
        """Return once `n` workers have joined, and show what happens until then.

        Raises `ClusterError` after `timeout` seconds, and if the hub has given up.
        """
        deadline, shown = time.monotonic() + timeout, table.Progress(_say)
        while True:
            status = self.status
            shown.show(status)
            joined = sum(each.state == "ready" for each in status.workers)
            if joined >= n:
                return
            if status.has_given_up or not status.wanted:
                raise ClusterError(_given_up(status, joined))
            if time.monotonic() >= deadline:
                raise ClusterError(
                    f"{joined} of {n} workers have joined within {timeout:.0f} s. They can be "
                    "used, and the others join when EC2 has them; cluster.stop() ends them all."
                )
            time.sleep(POLL_SECONDS)

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
        engine_process.stop(record)


def _present() -> Cluster:
    """The cluster that this server has. Raises `ClusterError`."""
    status, record = ask(ClusterRequest()).status, run_folder.read()
    if status.wanted and record is None:
        raise ClusterError(
            "The engine on this machine has ended, and workers cannot do without it. %cluster stop "
            "ends them; then ec2spawner.cluster(n) starts a new cluster."
        )
    if not status.wanted or record is None:
        again = ""
        if status.last_workers:
            last = f"{status.last_workers}, {status.last_profile!r}"
            again = f" Before its last stop it had one: ec2spawner.cluster({last}) starts it again."
        raise ClusterError(f"This server has no cluster.{again}")
    return Cluster(ENGINES[record.engine](), record, status)


def _record_of(engine: str, status: ClusterStatus) -> Record | None:
    """The engine of this kind that runs here; one of another kind is ended if it has no workers.
    Raises `ClusterError` if it has."""
    record = run_folder.read()
    if record is None or record.engine == engine:
        return record
    if status.wanted:
        raise ClusterError(
            f"This server has a cluster of {record.engine}: cluster.stop() ends it, and then one "
            f"of {engine} can be started."
        )
    engine_process.stop(record)
    return None


def _given_up(status: ClusterStatus, joined: int) -> str:
    why = status.problem or "the workers could not join"
    left = f" {joined} have joined and stay." if joined else ""
    return (
        f"No more workers are started: {why.rstrip('.')}.{left} Once that is fixed, "
        "cluster.scale(n) tries again; cluster.stop() ends the cluster."
    )


def _own_host() -> str:
    """The private address of this instance. Raises `ClusterError`."""
    host = urlsplit(os.environ.get(SERVICE_URL, "")).hostname
    if not host:
        raise ClusterError(
            f"This kernel does not know its machine's address: {SERVICE_URL} is unset."
        )
    return host


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the output of the user's own call
