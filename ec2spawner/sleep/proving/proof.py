"""Loading what was saved in a child, and comparing it with what it was saved of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from .. import plan
from ..bounds import children, isolation, recursion
from ..bounds.isolation import ActsOutside
from ..bounds.memory import memory
from ..failure import Failure, failure_of
from ..outcome import Outcome
from ..plan import Group
from ..values import unpickling
from .comparison import TooMany, compare

ALWAYS_BYTES: Final = 4 << 20
"""Up to this size, what runs the user's code is proved whatever time that takes until the deadline:
it may fail to load, or hang."""

_held: Final[list[Any]] = []
"""What was loaded in this child: it is never thrown away, so no destructor runs."""


class Proofs:
    """Of the files of one save, those that are not proved yet."""

    def __init__(
        self, namespace: dict[str, Any], outcome: Outcome, until: float, deadline: float
    ) -> None:
        """`until`: for what need not be proved; both on the monotonic clock."""
        self._namespace = namespace
        self._outcome = outcome
        self._until = until
        self._deadline = deadline

    def run(self) -> list[tuple[Group, Failure]]:
        """Prove as many as there is time and memory for; those that cannot be loaded, and why."""
        room = memory().available // 2
        unproved = self._outcome.unproved
        order = sorted(unproved, key=self._is_needed, reverse=True)
        now = time.monotonic()
        groups = {
            group: unproved[group]
            for group in order
            if not group.in_process
            and 2 * group.size_bytes < room
            and now < (self._deadline if self._is_needed(group) else self._until)
        }
        if not groups:
            return []
        try:
            with isolation.scratch() as prepare:
                return self._run(groups, prepare)
        except OSError:  # no room for a folder
            return []

    def _run(
        self, groups: Mapping[Group, Path], prepare: Callable[[], None]
    ) -> list[tuple[Group, Failure]]:
        results = children.run(
            [*groups],
            lambda group: self._in_child(group, groups[group]),
            self._limit,
            lambda group: 2 * group.size_bytes,
            prepare,
        )
        found = [(group, self._failure(group, result)) for group, result in results]
        return [(group, failure) for group, failure in found if failure is not None]

    def _is_needed(self, group: Group) -> bool:
        return group.runs_code and self._outcome.size_bytes(group) <= ALWAYS_BYTES

    def _limit(self, group: Group) -> float:
        if self._is_needed(group):
            return plan.limit_seconds(group, self._deadline - time.monotonic(), 0)
        # Half of what is left, so that there is time for the others.
        return max(0.0, self._until - time.monotonic()) / 2

    def _in_child(self, group: Group, path: Path) -> dict[str, Any]:
        # Without the names that the file itself is to bring, and those that are not saved.
        others = {
            name: value
            for name, value in self._namespace.items()
            if name in self._outcome.entries and name not in group.names
        }
        values = {name: self._namespace[name] for name in group.names}
        return prove(values, path, self._namespace, others.__getitem__)

    def _failure(self, group: Group, result: Any) -> Failure | None:
        """Why a group cannot be loaded; what else is known of it is noted."""
        if isinstance(result, children.Died):
            return Failure("crashed", str(result))
        if isinstance(result, children.Hung):
            had_time = time.monotonic() < self._deadline
            return Failure("timed-out") if had_time and self._is_needed(group) else None
        if "failure" in result:
            return Failure(*result["failure"])
        if "unproved" in result:
            self._outcome.leave_unproved(group, result["unproved"])
        else:
            self._outcome.prove(group, result["differs"], result["opaque"])
        return None


def prove(
    names: Mapping[str, Any],
    path: Path,
    namespace: dict[str, Any],
    definition: Callable[[str], Any],
) -> dict[str, Any]:
    """Called in a child: what is known of these names and their archive, as JSON has it.

    `names`: with their values; `definition`: see `unpickling.load`. The answer has one key of:
    `differs`, in what each name came back as another one, and `opaque`, the names of which that
    is not known in all; `failure`, why the archive cannot be loaded; `unproved`, why that is not
    known.
    """
    try:
        with recursion.bounded():
            copies, _ = unpickling.load(
                path,
                namespace=namespace,
                definition=definition,
                bytecode=True,
                may_use_gpu=False,
                is_proof=True,
            )
    except ActsOutside as what:
        return {"unproved": f"restoring it {what}"}
    except (MemoryError, OSError) as why:
        _held.append(why)
        return {"unproved": f"it could not be loaded beside itself: {failure_of(why).detail}"}
    except BaseException as why:  # whatever a value's own code raises
        _held.append(why)
        failure = failure_of(why)
        return {"failure": ["not-restorable", failure.detail or failure.code]}
    _held.append(copies)
    try:
        with recursion.bounded():
            found = compare(names, copies, namespace)
    except ActsOutside as what:
        return {"unproved": f"what says how it is pickled {what}"}
    except TooMany:
        return {"unproved": "it has too many objects"}
    except BaseException as why:  # of a class's own code for pickling
        _held.append(why)
        return {"unproved": f"it could not be compared: {failure_of(why).detail}"}
    return {"differs": found.differing, "opaque": sorted(found.opaque)}
