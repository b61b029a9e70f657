"""Agent -> hub: the claim, and the lease that it is answered with."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from .idle import IdlePolicy
from .message import PROTOCOL, MeasuredSeconds, Message, ProtocolNumber, Seconds, ShortText


class Spoken(Message):
    """What a claim of any protocol has: enough to refuse it with a reason."""

    protocol: ProtocolNumber = PROTOCOL


class ImageDriver(Message):
    """The NVIDIA driver in the image of an instance on which no GPU works."""

    branch: Annotated[int, Field(ge=0, le=9999)] | None = None
    """First number of its version; None if the image has no driver."""
    modules: Literal["open", "proprietary"] | None = None
    """Flavor of its kernel modules; None where it is not known."""
    grid: bool = False
    """Whether it is NVIDIA's GRID driver, which supports shares of a GPU."""


class Fault(Message):
    """What is broken on an instance, so that it is never assigned a lease."""

    reason: ShortText = ""
    """For people; empty if nothing is."""
    driver: ImageDriver | None = None
    """None for a fault of another kind, and where the image does not say it."""


class Claim(Message):
    """`POST claims`: an instance proves who it is and asks for a lease.

    The claim is answered late on purpose (`wait_seconds`): one waiter per instance.
    """

    protocol: ProtocolNumber
    document: Annotated[str, Field(max_length=8192)]
    """The instance identity document, the exact JSON text that was signed."""
    signature: Annotated[str, Field(max_length=8192)]
    """Its PKCS7 signature from `/rsa2048`, base64 without PEM armour."""
    key: Annotated[str, Field(min_length=43, max_length=128, repr=False)]
    """The agent's key: 32 random bytes, base64url, made at boot, never written to disk."""
    agent_version: ShortText = ""
    boot_seconds: MeasuredSeconds = None
    """Seconds from kernel start to this agent's start, where known; at most a day."""
    agent_seconds: MeasuredSeconds = None
    """Seconds from this agent's start until this claim was sent; None after a day."""
    wait_seconds: Annotated[float, Field(ge=0, le=55)] = 25.0
    fault: Fault = Fault()
    reads_ahead: bool = False
    """Whether it reads files of its image ahead while it waits: it takes a lease at any time, and
    is better not stopped before it is done."""
    read_ahead_bytes: Annotated[int, Field(ge=0, le=2**50)] = 0
    """Bytes that it has read ahead until now."""
    interruption_at: AwareDatetime | None = None
    """When EC2 reclaims this spot instance, if there is a notice: it gets no lease."""


class HomeMount(Message):
    """What the agent mounts as the user's home."""

    kind: Literal["ebs", "efs", "none"]
    volume_id: str | None = None
    """`vol-...`: found on the instance by the volume's serial, not by a device name."""
    file_system: str = ""
    """`fs-...`: the EFS file system of a home of kind `efs`."""
    access_point: str = ""
    """`fsap-...`: EFS enforces its user and folder; empty for none."""
    directory: str = ""
    """Where in the file system, or below the access point's folder, the home is. The agent makes
    it; no part of it is `..`."""
    tls: bool = True
    """Mount over TLS, or not at all."""
    iam: bool = False
    """Mount as the role of the instance profile."""
    read_only: bool = False
    """Of a home on EFS: for a worker, beside the server that writes to it."""


class DataMount(Message):
    """A volume that was made from a snapshot with the instance, mounted read-only for everyone."""

    volume_id: str
    """`vol-...`: found by its serial."""
    path: str
    """Absolute, as the user finds it."""


class BucketMount(Message):
    """An S3 bucket, mounted by Mountpoint for Amazon S3 with the role of the instance profile."""

    bucket: str
    prefix: str = ""
    """Only keys that begin so; ends in `/`, or is empty."""
    path: str
    """Absolute, as the user finds it."""
    read_only: bool = True


class Certificates(Message):
    """For a hub with `internal_ssl`: the notebook's certificate and the authorities it trusts.

    PEM texts. Only the certificates of the hub and its proxy are accepted.
    """

    key: Annotated[str, Field(repr=False)]
    certificate: str
    """Only for the instance's private address."""
    ca: str
    """The authorities of the hub and of its proxy."""


class LeaseGrant(Message):
    """The answer 200 to a claim. The same key always gets the same answer."""

    protocol: int = PROTOCOL
    lease_id: str
    lease_token: Annotated[str, Field(repr=False)]
    """Bearer token for `leases/{id}/...`; derived from the agent's key, see `core.names`."""
    environment: Annotated[dict[str, str], Field(repr=False)]
    command: list[str]
    """Program and arguments of the notebook server."""
    container: str = ""
    """The container image that the command runs in; empty is none."""
    base_url: str
    """`JUPYTERHUB_SERVICE_PREFIX`; readiness is asked at `{base_url}api`."""
    port: int
    home: HomeMount
    data: list[DataMount] = []
    buckets: list[BucketMount] = []
    scratch: str = ""
    """Where the instance store is mounted for the user; empty does not mount it."""
    idle: IdlePolicy
    idle_seconds: Seconds = 0.0
    """How long the server had been idle when it left the instance that it continues from: idle time
    and age count from so long before it is ready."""
    continues: bool = False
    """Whether the hub continues the server on another instance when EC2 reclaims this one."""
    upload_to: ShortText = ""
    """`s3://bucket/prefix/`: where the user's folder is uploaded after a spot notice; or empty."""
    profile: ShortText = ""
    is_worker: bool = False
    """Whether `command` is a worker of a cluster, not a notebook server."""
    hub_lost_after_seconds: Seconds = 900.0
    """Without an answer from the hub for this long, an idle instance powers itself off."""
    certificates: Certificates | None = None
    """The notebook serves TLS with these; since protocol 2."""


class ClaimWait(Message):
    """The answer 202: nothing yet, ask again at once."""

    protocol: int = PROTOCOL
    retry_after_seconds: Seconds = 0.0
    read_ahead: list[str] | None = None
    """Patterns of files that the agent reads while it waits; None is not now, such as while a lease
    is about to come."""


class Refusal(Message):
    """The body of 403, 404, 409 and 410: one sentence for the agent's log."""

    message: str
