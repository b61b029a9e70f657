"""The messages between instance and hub, and between notebook and agent.

Both sides import these models, so a field has one name and one unit everywhere. An AMI is
older than its hub: the hub speaks `PROTOCOL` and `PROTOCOL - 1`. Models ignore fields they do
not know, so that an addition is no break; a change of meaning is a new protocol number.

Instants are timezone-aware UTC; durations are seconds; prices are USD/hour; memory is MiB;
shares of a whole are percent, 0-100.
"""

from __future__ import annotations

from .claim import (
    BucketMount,
    Certificates,
    Claim,
    ClaimWait,
    DataMount,
    Fault,
    HomeMount,
    ImageDriver,
    LeaseGrant,
    Refusal,
    Spoken,
)
from .idle import Idleness, IdlePolicy, WorkingHours
from .lease import (
    MAX_MESSAGE_LENGTH,
    SAVE_SECONDS,
    AdminMessage,
    AgentEvent,
    Cost,
    ExtendRequest,
    ExtendResponse,
    Heartbeat,
    HeartbeatResponse,
    IdleRequest,
    IdleResponse,
    ServerEnd,
    Step,
    Stop,
    StopRequest,
)
from .message import (
    MAX_BODY_BYTES,
    PROTOCOL,
    Market,
    Message,
    Percent,
    ProtocolNumber,
    Seconds,
    ShortText,
    Then,
)
from .notebook import (
    AgentState,
    DocumentsSaved,
    KeepChoice,
    KernelState,
    NotebookReply,
    NotebookRequest,
    NotebookStatus,
    Notice,
    NoticesEvent,
    Observation,
    ServerState,
    TerminalState,
)
from .sentences import Code, Sentence, sentence
from .telemetry import GpuHistory, GpuSample, History, MigSlice, SlowedBy, Telemetry, Worker

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_MESSAGE_LENGTH",
    "PROTOCOL",
    "SAVE_SECONDS",
    "AdminMessage",
    "AgentEvent",
    "AgentState",
    "BucketMount",
    "Certificates",
    "Claim",
    "ClaimWait",
    "Code",
    "Cost",
    "DataMount",
    "DocumentsSaved",
    "ExtendRequest",
    "ExtendResponse",
    "Fault",
    "GpuHistory",
    "GpuSample",
    "Heartbeat",
    "HeartbeatResponse",
    "History",
    "HomeMount",
    "IdlePolicy",
    "IdleRequest",
    "IdleResponse",
    "Idleness",
    "ImageDriver",
    "KeepChoice",
    "KernelState",
    "LeaseGrant",
    "Market",
    "Message",
    "MigSlice",
    "NotebookReply",
    "NotebookRequest",
    "NotebookStatus",
    "Notice",
    "NoticesEvent",
    "Observation",
    "Percent",
    "ProtocolNumber",
    "Refusal",
    "Seconds",
    "Sentence",
    "ServerEnd",
    "ServerState",
    "ShortText",
    "SlowedBy",
    "Spoken",
    "Step",
    "Stop",
    "StopRequest",
    "Telemetry",
    "TerminalState",
    "Then",
    "Worker",
    "WorkingHours",
    "sentence",
]
