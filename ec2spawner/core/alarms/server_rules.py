"""Alarms about one server: an idle GPU, and a GPU that works for nobody. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..text.durations import in_words
from ..text.untrusted import visible
from .alarm import Alarm, AlarmRules, Kind

_RUN = "/run/"


@dataclass(frozen=True, slots=True)
class GpuServer:
    """A ready server on an instance with GPUs, as its agent last described it."""

    lease_id: str
    user: str
    server: str
    """Empty for the default server, `lab/2` for worker 2 of `lab`, `/run/12` for run 12."""
    instance: str
    """Id and type, such as `i-0a1b (g5.xlarge)`."""
    usd_per_hour: float | None
    idle_since: datetime | None
    """UTC; None while it is in use."""

    @property
    def name(self) -> str:
        """See `server_name`."""
        return server_name(self.user, self.server)

    @property
    def kind(self) -> str:
        """`server`, `run`, or `worker` of a cluster: no server has a slash in its name."""
        if self.server.startswith(_RUN):
            return "run"
        return "worker" if "/" in self.server else "server"


def server_name(user: str, server: str) -> str:
    """The user, with the name of the server where it has one; safe to show."""
    if run := server.removeprefix(_RUN) if server.startswith(_RUN) else "":
        return visible(f"{user}, run {run}")
    server, _, worker = server.partition("/")
    named = f"{user}/{server}" if server else user
    return visible(f"{named}, worker {worker}" if worker else named)


def idle_gpu(server: GpuServer, rules: AlarmRules, now: datetime) -> Alarm | None:
    """A GPU server that has been idle for long; once a day."""
    if server.idle_since is None or (now - server.idle_since).total_seconds() < rules.idle_gpu:
        return None
    idle = in_words((now - server.idle_since).total_seconds())
    return Alarm(
        Kind.IDLE_GPU,
        server.lease_id,
        now.date().isoformat(),
        f"The GPU {server.kind} of {server.name} has been idle for {idle}",
        f"{_described(server)} {_WHY_IT_RUNS[server.kind]}",
        now,
        server.user,
    )


_WHY_IT_RUNS = {
    "server": "No idle rule has stopped it: its idle limit is off or longer, or its user extended "
    "it. Stop it on the admin page, or set a shorter `idle`.",
    "worker": "A cluster is stopped once all of its workers are idle for as long as the server's "
    "`idle` allows. Ask the user to make the cluster smaller, or stop the server on the admin "
    "page.",
    "run": "A run ends with its notebook or script, and no idle rule stops it. It may load data, "
    "or not use the GPU at all. Ask its user, who can cancel it on the page of runs.",
}


def unattended_gpu(server: GpuServer, seconds: float, now: datetime) -> Alarm:
    """A GPU that has been busy for so many seconds without a kernel or terminal; once a day."""
    return Alarm(
        Kind.UNATTENDED_GPU,
        server.lease_id,
        now.date().isoformat(),
        f"A GPU of {server.name} works without a kernel or terminal",
        f"{_described(server)} A program has used a GPU for {in_words(seconds)} that belongs to no "
        "running kernel and no open terminal. It may be a detached job or an application of the "
        "user, or a program that somebody else planted, such as a cryptocurrency miner. Ask the "
        "user what it is.",
        now,
        server.user,
    )


def _described(server: GpuServer) -> str:
    price = (
        "at an unknown price"
        if server.usd_per_hour is None
        else f"at {server.usd_per_hour:.2f} USD/hour (estimate)"
    )
    return f"Instance {visible(server.instance)} {price}."
