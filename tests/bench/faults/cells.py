"""Every action x every kind of fault: which cells there are, and what a message must say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.aws_actions import Action

ENTRY: Final = "entry:"


class Scene(StrEnum):
    """A part of the journey. Each has the actions that were seen while it was recorded."""

    BEGIN = "hub start"
    START = "start"
    STOP = "stop"
    KEEP = "keep"
    """A stop after which the machine is stopped and kept."""
    WAKE = "wake"
    """The start of a machine that was kept."""
    GROW = "grow"
    """A start whose home shall be larger."""
    MOVE = "move"
    """A start whose home shall be in another zone."""
    MUTE = "mute"
    """A start whose machine ends before its agent has called."""
    REAP = "reap"
    """A disk and a network interface are left over."""
    CHECK = "check"
    PRICES = "prices"


ROAD: Final = frozenset({Scene.BEGIN, Scene.START, Scene.STOP})
"""What every server meets. Each scene has a row for each of its actions."""

COMMANDS: Final = frozenset({Scene.CHECK, Scene.PRICES})

DETOURS: Final = frozenset(Scene) - ROAD - COMMANDS
"""They repeat most of the road, and commands most of both: there an action has a row where it is
met first."""

OTHERWISE: Final = frozenset(
    {(Scene.MOVE, "CreateVolume"), (Scene.MOVE, "DescribeSnapshots"), (Scene.REAP, "DeleteVolume")}
)
"""What a detour calls for another reason than the scenes before it."""


class Mode(StrEnum):
    """How long the fault lasts."""

    ONCE = "once"
    ALWAYS = "always"
    """Until it is cleared."""

    @property
    def times(self) -> int:
        return 1 if self is Mode.ONCE else 100_000


CODES: Final[Mapping[str, str]] = {
    "sold out": "InsufficientInstanceCapacity",
    "not in zone": "Unsupported",
    "quota": "VcpuLimitExceeded",
    "no spot role": "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "no address": "InsufficientFreeAddressesInSubnet",
    "throttled": "RequestLimitExceeded",
    "unavailable": "Unavailable",
    "forbidden": "UnauthorizedOperation",
    "unheard of": "NobodyHasHeardOfThis",
}
"""Column -> EC2's code: one of each class of `launch_errors` that has codes, and one in none."""

OTHER_CODES: Final[Mapping[str, Mapping[str, str]]] = {
    "CreateSnapshot": {"quota": "SnapshotLimitExceeded"},
    "CreateVolume": {"sold out": "InsufficientVolumeCapacity", "quota": "VolumeLimitExceeded"},
    "iam": {"throttled": "Throttling", "unavailable": "ServiceUnavailable"},
    "pricing": {"throttled": "ThrottlingException", "unavailable": "InternalErrorException"},
    "service-quotas": {"throttled": "TooManyRequestsException", "unavailable": "ServiceException"},
    "ssm": {"throttled": "ThrottlingException", "unavailable": "InternalServerError"},
    "sts": {"throttled": "Throttling", "unavailable": "ServiceUnavailable"},
}
"""By action or service: what it says in place of EC2's."""

FORBIDDEN: Final[Mapping[str, str]] = {"ec2": "UnauthorizedOperation", "iam": "AccessDenied"}
"""The JSON services and STS say `AccessDeniedException`."""

TRANSPORT: Final = ("http-500", "hang", "cut-before", "cut-after")

COLUMNS: Final = (*CODES, *TRANSPORT)

ENTRIES: Final = tuple(f"{ENTRY}{column}" for column in CODES)
"""The same codes as errors of single offers within CreateFleet's answer."""

KINDS: Final = (*COLUMNS, *ENTRIES)

WANTED: Final[Mapping[str, frozenset[str]]] = {
    "CreateFleet": frozenset({"sold out", "not in zone", "quota", "no address"}),
    "StartInstances": frozenset({"sold out", "not in zone", "quota", "no address"}),
    "CreateSnapshot": frozenset({"quota"}),
    "CreateVolume": frozenset({"sold out", "quota"}),
}
"""What an action can be refused for want of."""

UNPLAYED: Final[Mapping[str, str]] = {
    "GetMetricData": "only a server that ended while no hub ran needs it, and it ends without it",
    "DescribeInstanceStatus": "no start or stop waits for what AWS has announced of instances",
    "PutMetricData": "no hub of the bench publishes metrics, and no start or stop waits for it",
    **dict.fromkeys(
        ("GetCostAndUsageWithResources", "GetObject", "ListObjectsV2"),
        "only `ec2spawner report --reconcile` reads bills, with its caller's credentials",
    ),
    **dict.fromkeys(
        (
            "CreateExperimentTemplate",
            "DeleteExperimentTemplate",
            "GetExperiment",
            "ListExperimentTemplates",
            "StartExperiment",
        ),
        "only `ec2spawner interrupt` calls it, and no start or stop waits for it",
    ),
    **dict.fromkeys(
        ("DeleteMessageBatch", "GetQueueAttributes", "ReceiveMessage"),
        "no hub of the bench has an interruption queue: agents see notices too",
    ),
    "Publish": "no hub of the bench has a topic for alarms, and none waits for one",
}
"""Action -> why no scene plays it yet. The bench counts them and names them: it proves nothing of
them."""

WANT: Final = frozenset({"sold out", "not in zone", "quota", "no address"})


@dataclass(frozen=True, slots=True, order=True)
class Row:
    scene: Scene
    action: Action


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    row: Row
    kind: str
    mode: Mode

    @property
    def fault(self) -> str:
        """The kind as the embedded EC2 expects it."""
        return fault_kind(self.row.action, self.kind)


def fault_kind(action: Action, kind: str) -> str:
    if kind in TRANSPORT:
        return kind
    column = kind.removeprefix(ENTRY)
    prefix = kind.removesuffix(column)
    if column == "forbidden":
        return prefix + FORBIDDEN.get(action.service, "AccessDeniedException")
    other = {**OTHER_CODES.get(action.service, {}), **OTHER_CODES.get(action.name, {})}
    return prefix + other.get(column, CODES[column])


def why_not(row: Row, kind: str) -> str:
    """Why the cell cannot happen; empty where it can."""
    if kind.startswith(ENTRY):
        fleet = row.action.name == "CreateFleet"
        return "" if fleet else "only CreateFleet answers with errors of single offers"
    if kind not in WANT or kind in WANTED.get(row.action.name, ()):
        return ""
    if row.action.name == "RunInstances":
        return "it is only tried, with DryRun, which asks for no machine"
    if row.action.name in WANTED:
        return "it asks for a disk, not for a machine"
    return "it asks for nothing that could be lacking"


def rows_of(recorded: Mapping[Scene, frozenset[Action]]) -> tuple[Row, ...]:
    """A row for each action in each scene of the road, and elsewhere for what is only there."""
    met: set[Action] = set()
    rows: list[Row] = []
    for scene in Scene:
        actions = sorted(recorded.get(scene, ()))
        rows += (
            Row(scene, action)
            for action in actions
            if scene in ROAD or action not in met or (scene, action.name) in OTHERWISE
        )
        met.update(actions)
    return tuple(rows)


def cells_of(row: Row) -> Iterator[Cell]:
    """The cells that can happen."""
    for kind in KINDS:
        if not why_not(row, kind):
            yield from (Cell(row, kind, mode) for mode in Mode)


# --- what a message must say -----------------------------------------------------------------

_NO_WORDS = re.compile(
    r"Traceback|\bNone\b|\bnull\b|Error\(|Exception\(|<class |object at 0x|\{\}|"
    r"Unhandled error"
)
_FIX = re.compile(
    r"\b(?:try again|asked again|again before|again in a|admin|fix|ask for|check\b|choose|pick|"
    r"give|use\b|make it|needs? the|must|can be used)|iam-policy",
    re.I,
)
FEWEST_WORDS = 6


def unclear(message: str) -> str:
    """What a message for a person lacks, the failure or the fix; empty when it has both."""
    if not message.strip():
        return "says nothing"
    if found := _NO_WORDS.search(message):
        return f"shows {found[0]!r}"
    if len(message.split()) < FEWEST_WORDS:
        return "has too few words"
    if not _FIX.search(message):
        return "names no fix"
    return ""


# --- how a cell ended ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a cell."""

    cell: Cell
    seconds: float
    """Until the person had their answer."""
    message: str = ""
    """The message they got; empty when everything worked regardless."""
    hung: bool = False
    unclear: str = ""
    """What the message lacks."""
    leaked: tuple[str, ...] = ()
    broken: str = ""
    """What did not work once the fault was gone."""
    struck: bool = True
    """Whether the call was made at all."""

    @property
    def word(self) -> str:
        if not self.struck:
            return "MISSED"
        if self.hung:
            return "HUNG"
        if self.leaked:
            return "LEAK"
        if self.broken:
            return "BROKEN"
        if self.unclear:
            return "UNCLEAR"
        return "said" if self.message else "ok"

    @property
    def is_well(self) -> bool:
        return self.word in {"ok", "said"}
