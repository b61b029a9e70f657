"""What is stored of a checkpoint beside the user's state, and whether it fits a loop. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

VERSION: Final = 1

Changed = Literal["refuse", "continue", "restart"]


class CheckpointError(Exception):
    """A checkpoint cannot be written or read; the message says what to do."""


class LoopLeft(KeyboardInterrupt):
    """The session is being saved: the loop has ended, and continues in a cell that is run again.

    As an interrupt it passes through the user's `except Exception`.
    """


class LoopChanged(CheckpointError):
    """The checkpoint is of another loop."""


@dataclass(frozen=True, slots=True)
class Loop:
    """What distinguishes one loop from another."""

    length: int | None
    """None for an iterable without one."""
    values: str = ""
    """Of a `range`: the same length with another start is another loop."""
    state: str = ""
    """Of a loop without a name: what its `save` is called and uses."""


@dataclass(frozen=True, slots=True)
class Record:
    """`checkpoint.json` of one generation."""

    loop: Loop
    done: int
    """Steps that were completed."""
    saved_at: str
    """ISO 8601, UTC."""
    because: str = "schedule"
    finished: bool = False
    files: dict[str, int] = field(default_factory=dict)
    """Each file of the state with its bytes, to find one that is incomplete."""

    def to_json(self) -> bytes:
        """One JSON document."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1).encode()


def parse(text: bytes) -> Record:
    """A record. Raises `CheckpointError` if it was written by a newer version, and `ValueError`
    if it is none."""
    try:
        found = json.loads(text)
        if found["version"] > VERSION:
            raise CheckpointError("a newer version of ec2spawner wrote this checkpoint")
        record = Record(
            loop=Loop(**found["loop"]),
            **{key: found[key] for key in ("done", "saved_at", "because", "finished", "files")},
        )
    except (KeyError, TypeError) as error:
        raise ValueError("this is no record of a checkpoint") from error
    if type(record.done) is not int or record.done < 0 or not isinstance(record.files, dict):
        raise ValueError("this is no record of a checkpoint")
    return record


def describe(steps: Iterable[Any], save: Callable[..., object] | None, named: bool) -> Loop:
    """The loop over `steps`."""
    return Loop(
        length=length(steps),
        values=repr(steps) if isinstance(steps, range) else "",
        state="" if named or save is None else _identity(save),
    )


def first_step(record: Record, loop: Loop, changed: Changed) -> int:
    """How many steps of `loop` are not run again. Raises `LoopChanged`, with what to do."""
    difference = _difference(record.loop, loop)
    if not difference:
        return record.done
    if changed == "restart":
        return 0
    if changed == "continue" and (loop.length is None or record.done <= loop.length):
        return record.done
    keep = f'`changed="continue"` continues after step {record.done}, ' * (changed == "refuse")
    raise LoopChanged(
        f"the checkpoint of {record.saved_at} is of another loop: {difference}. "
        f'Give this loop a name of its own; or {keep}`changed="restart"` begins again'
    )


def length(steps: Iterable[Any]) -> int | None:
    """None where it has none."""
    try:
        return len(steps)  # type: ignore[arg-type]
    except Exception:  # a user's __len__ may raise anything, as for a streaming dataset
        return None


def _difference(before: Loop, now: Loop) -> str:
    if before.length != now.length:
        return f"it has {_steps(before.length)}, this one {_steps(now.length)}"
    if before.values != now.values:
        return f"it is over {before.values or 'something else'}, this one over {now.values}"
    if before.state != now.state:
        return "its `save` is another function"
    return ""


def _steps(number: int | None) -> str:
    return "an unknown number of steps" if number is None else f"{number} steps"


def _identity(save: Callable[..., object]) -> str:
    code = getattr(save, "__code__", None)
    uses = (*code.co_names, *code.co_freevars) if code is not None else ()
    called = getattr(save, "__qualname__", type(save).__qualname__)
    return " ".join([called, *sorted(set(uses))])[:500]
