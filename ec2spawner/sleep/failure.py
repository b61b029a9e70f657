"""Why a variable was not saved: codes for programs, and an error in one line for people."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from .bounds import recursion
from .bounds.time_limit import Late, limited
from .storage import manifest as manifests
from .values import classes, pickling
from .values.archive import NoSpace

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TEXT_SECONDS: Final = 1.0
"""For the text of an error: its class may be the user's."""

T = TypeVar("T")


class Failure(NamedTuple):
    """Why a variable was not saved."""

    code: str
    detail: str = ""


def attempt(work: Callable[[], T], seconds: float) -> T | Failure:
    """What `work` returns, or why it failed: one variable must not end the save of the others.

    `seconds`: its limit. Raises KeyboardInterrupt only.
    """
    try:
        return limited(work, seconds)
    except KeyboardInterrupt:
        raise
    except Late:
        return Failure("timed-out")
    except BaseException as error:  # whatever a value's own code raises
        return failure_of(error)


def failure_of(error: BaseException) -> Failure:
    """What an error of a save means for the variable."""
    kind = type(error)
    if issubclass(kind, Late):
        return Failure("deadline")
    is_full = issubclass(kind, OSError) and getattr(error, "errno", 0) in NO_SPACE
    if is_full or issubclass(kind, NoSpace):
        return Failure("no-space")
    if issubclass(kind, pickling.NotStorable):
        return Failure("not-storable", str(error))
    if issubclass(kind, pickling.NoDill):
        return Failure("no-dill")
    if issubclass(kind, MemoryError):
        return Failure("memory")
    if issubclass(kind, RecursionError):
        return Failure("too-deep")
    code = "not-storable" if issubclass(kind, (pickle.PicklingError, TypeError)) else "failed"
    return Failure(code, described(error))


def described(error: BaseException) -> str:
    """An error in one short line; its text may be of a user's class."""
    try:
        with recursion.bounded():
            text = limited(lambda: " ".join(str.split(str(error))), TEXT_SECONDS)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = ""
    name = classes.name(type(error)).rpartition(".")[2]
    return shown(f"{name}: {text}" if text else name)


def shown(text: str) -> str:
    """Text of the user's as a manifest has it: short, and without lone surrogates, which no
    message can have."""
    return text.encode("utf-8", "replace").decode()[: manifests.MAX_TEXT]
