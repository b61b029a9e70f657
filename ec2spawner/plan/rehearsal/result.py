"""What a rehearsal shows: times, places, failures, and cost against the prediction. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...core.ledger.exact import usd
from ...core.starts.outcome import Outcome
from ...core.starts.phases import Phase
from ...core.starts.summary import MeasuredStart, percentile
from ...provisioner.store.read_only import Starts, UserStart
from .course import Course
from .prediction import Prediction

REFUSED: Final = "refused"
"""Why a start failed of which the store knows nothing: the hub did not accept it."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of several starts."""

    count: int
    median: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Place:
    """Where servers got ready."""

    market: str
    instance_type: str
    zone: str
    count: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason, and how many starts failed for it."""

    outcome: str
    message: str
    """As their users would read it."""
    count: int


@dataclass(frozen=True, slots=True)
class Result:
    """All that is printed."""

    requested: int
    ready: int
    waited: Times | None
    """From the request to the answer that the server is ready, as its user sees it; None where no
    server got ready."""
    total: Times | None
    """The same as the hub measured it: its phases add up to it. None where the store has none."""
    phases: Mapping[Phase, Times]
    on_waiting: int
    """Starts on an instance that was up before: of the warm pool, or another start's."""
    places: Sequence[Place]
    failures: Sequence[Failure]
    usd: float | None
    """From the ledger; None where it has nothing."""
    usd_lacks: str
    """Why that is not all; empty where it is."""
    predicted: Prediction
    stop_seconds: float | None
    """From the first stop until the last instance was gone."""
    left: Mapping[str, str]
    """User or instance -> why it is still there."""

    @property
    def is_clean(self) -> bool:
        """Whether every server got ready, and nothing is left."""
        return self.ready == self.requested and not self.left


def result_of(
    requested: int, course: Course, predicted: Prediction, found: Starts | None
) -> Result:
    """`found` is None where the store could not be read."""
    starts = () if found is None else found.starts
    ready = [each for each in starts if each.start.outcome is Outcome.READY]
    return Result(
        requested=requested,
        ready=len(course.ready),
        waited=times(list(course.ready.values())),
        total=times([each.start.total for each in ready]),
        phases=phase_times([each.start for each in ready]),
        on_waiting=sum(each.start.seconds[list(Phase).index(Phase.BOOT)] is None for each in ready),
        places=places(ready),
        failures=failures(course.failed, starts),
        usd=usd(found.nano_usd) if found is not None and found.starts else None,
        usd_lacks=_lacks(found),
        predicted=predicted,
        stop_seconds=course.stop_seconds,
        left=course.left,
    )


def times(seconds: Sequence[float]) -> Times | None:
    """None without any."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    return Times(len(ordered), percentile(ordered, 0.5), percentile(ordered, 0.95), ordered[-1])


def phase_times(starts: Sequence[MeasuredStart]) -> Mapping[Phase, Times]:
    """Of the phases that at least one of them had, in order."""
    columns = {
        phase: times([each for start in starts if (each := start.seconds[place]) is not None])
        for place, phase in enumerate(Phase)
    }
    return {phase: found for phase, found in columns.items() if found is not None}


def places(ready: Sequence[UserStart]) -> Sequence[Place]:
    """The most frequent first."""
    counted = Counter((each.start.market, each.instance_type, each.zone) for each in ready)
    return [Place(*place, count) for place, count in counted.most_common()]


def failures(failed: Mapping[str, str], starts: Sequence[UserStart]) -> Sequence[Failure]:
    """The most frequent first. What the hub calls a cancelled start was late: we cancelled it."""
    outcomes = {each.user: each.start.outcome.value for each in starts}
    counted = Counter((outcomes.get(user, REFUSED), said) for user, said in failed.items())
    return [Failure(*reason, count) for reason, count in counted.most_common()]


def _lacks(found: Starts | None) -> str:
    if found is None:
        return "the store could not be read"
    if not found.starts:
        return "the store knows none of these starts: is it that of the hub at --hub?"
    lacking = []
    if found.open_leases:
        lacking.append(f"{found.open_leases} of the servers have not ended")
    if found.unknown:
        lacking.append("an instance, a disk or an address has no known price")
    if unserved := sum(not each.instance_type for each in found.starts):
        lacking.append(
            f"{unserved} of the starts got no instance: what may have been launched for them is "
            "overhead of the hub"
        )
    return "; ".join(lacking)
