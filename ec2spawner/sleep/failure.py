"""Why a variable was not saved: codes for programs, and an error in one line for people."""

from __future__ import annotations

import errno
import pickle
from typing import Final, NamedTuple

from . import manifest as manifests
from .time_limit import Late
from .values import pickling
from .values.archive import NoSpace

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Failure(NamedTuple):
    """Why a variable was not saved."""

    code: str
    detail: str = ""


class NotRestorable(Exception):
    """It was saved, and could not be loaded."""


def failure_of(error: BaseException) -> Failure:
    """What an error of a save means for the variable."""
    if isinstance(error, Late):
        return Failure("deadline")
    if isinstance(error, NoSpace) or (isinstance(error, OSError) and error.errno in NO_SPACE):
        return Failure("no-space")
    if isinstance(error, pickling.NotStorable):
        return Failure("not-storable", str(error))
    if isinstance(error, pickling.NoDill):
        return Failure("no-dill")
    if isinstance(error, NotRestorable):
        return Failure("not-restorable", str(error))
    if isinstance(error, MemoryError):
        return Failure("memory")
    if isinstance(error, RecursionError):
        return Failure("too-deep")
    code = "not-storable" if isinstance(error, (pickle.PicklingError, TypeError)) else "failed"
    return Failure(code, described(error))


def described(error: BaseException) -> str:
    """An error in one short line; its text may be of a user's class."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[: manifests.MAX_TEXT]
