"""A cluster for a notebook: what its user asks for, what its workers join, and how it stands."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from .message import Market, Message, Percent, ShortText

MAX_WORKERS = 64
"""Of one cluster."""

MAX_SHOWN = 2 * MAX_WORKERS
"""Workers of a `ClusterStatus`: each may have a successor while it is being reclaimed or ends."""

Engine = Literal["ray", "torchrun"]
"""What runs the work."""

JOIN = "EC2SPAWNER_CLUSTER_JOIN"
"""Environment variable with the `ClusterJoin` that a worker is started with, as JSON."""

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$")]


class ClusterJoin(Message):
    """What workers join: the engine as the notebook has started it on its own instance."""

    engine: Engine
    address: Name
    """`host:port` on the private address of the notebook's instance."""
    token: Annotated[str, Field(min_length=32, max_length=128, repr=False)]
    """Opens this cluster's engine and its workers, and nothing else."""
    python: Annotated[str, Field(min_length=1, max_length=500)]
    """Path of the Python that the notebook's kernel runs."""
    image_python: Annotated[str, Field(max_length=500)] = ""
    """Path of the image's Python whose packages that one sees beside its own; empty if none."""
    python_version: Name
    """As `3.12.3`."""
    engine_version: Name
    """Of the engine's package."""


class ClusterRequest(Message):
    """`POST leases/{id}/cluster` on the owner's behalf."""

    action: Literal["status", "price", "start", "scale", "stop"] = "status"
    workers: Annotated[int, Field(ge=0, le=MAX_WORKERS)] | None = None
    """Of `price`, `start` and `scale`."""
    profile: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Of `price` and `start`: the workers' slug; None is the profile of the notebook itself."""
    join: ClusterJoin | None = None
    """Of `start`."""


class ClusterPrice(Message):
    """What a cluster would cost, in USD/hour; None is unknown."""

    profile_name: ShortText
    workers: int
    instance_type: ShortText = ""
    """What would be bought first; empty if EC2 offers nothing of the kind now."""
    market: Market | None = None
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """All workers together, bought as that."""
    max_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """The same bought as the dearest that the profile allows."""
    has_home: bool = False
    """Whether the workers see the notebook's home, read-only."""


class WorkerStatus(Message):
    """One worker."""

    number: Annotated[int, Field(ge=1)]
    state: Literal["waiting", "starting", "ready", "ending"]
    message: ShortText = ""
    """The last step of its start, or why it ends, in words."""
    instance_id: ShortText = ""
    """Empty while it has no instance, as are type and zone."""
    instance_type: ShortText = ""
    zone: ShortText = ""
    market: Market | None = None
    url: ShortText = ""
    """Where it answers the notebook, once it has joined."""
    since: AwareDatetime
    """When it was requested."""
    idle_since: AwareDatetime | None = None
    gpu_percent: Percent | None = None
    """Use of its GPUs on average; None if none is measured."""
    interruption_at: AwareDatetime | None = None
    """When EC2 reclaims its instance; None without a notice."""
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    usd: Annotated[float, Field(ge=0)] | None = None
    """Cost so far, an estimate at list prices; None is unknown."""


class ClusterStatus(Message):
    """How a server's cluster stands."""

    wanted: int = 0
    """How many workers its user wants; 0 without a cluster."""
    max_workers: int = 0
    """How many this server's cluster may have; 0 where it may have none."""
    engine: Engine | None = None
    profile: ShortText = ""
    profile_name: ShortText = ""
    address: ShortText = ""
    """Where the engine was when workers were requested: `host:port`."""
    workers: Annotated[list[WorkerStatus], Field(max_length=MAX_SHOWN)] = []
    problem: ShortText = ""
    """Why there are fewer workers than wanted, or why the hub stopped them, in words."""
    has_given_up: bool = False
    """Whether no more workers are started until the user asks again."""
    last_workers: int = 0
    """How many the cluster had before the server's last stop; 0 for none."""
    last_profile: ShortText = ""
    last_profile_name: ShortText = ""
    last_engine: Engine | None = None


class ClusterAnswer(Message):
    """Hub -> agent, to a `ClusterRequest`."""

    status: ClusterStatus
    price: ClusterPrice | None = None
    """Of `price`, and of `start`."""
