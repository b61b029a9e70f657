"""Why a value was not restored: codes for programs, and an error in one line for people."""

from __future__ import annotations

from ..bounds.time_limit import Late
from ..failure import Failure, described
from ..storage import owned
from ..values import source, unpickling
from ..values.archive import Damaged
from .imports import Refused


class Unavailable(Exception):
    """A definition that a value needs could not be restored: its name."""


def why_not_restored(error: BaseException) -> Failure:
    """What an error of loading means for the value."""
    if isinstance(error, Late):
        return Failure("timed-out")
    if isinstance(error, unpickling.OtherPython):
        return Failure("python-version", "it has bytecode of another version of Python")
    if isinstance(error, Unavailable):
        return Failure("needs", f"{error} could not be restored")
    if isinstance(error, Refused):
        return Failure("needs", f"{error} could not be imported")
    if isinstance(error, (Damaged, owned.NotOurs, source.NoSource)):
        return Failure("damaged", str(error))
    if isinstance(error, FileNotFoundError):
        return Failure("damaged", "its file is missing")
    if isinstance(error, ImportError):
        return Failure("import-failed", described(error))
    if isinstance(error, MemoryError):
        return Failure("memory")
    return Failure("failed", described(error))


def why_not_imported(error: BaseException) -> Failure:
    """What an error of a module's own code means for the module."""
    if isinstance(error, (Late, Refused)):
        return why_not_restored(error)
    return Failure("import-failed", described(error))
