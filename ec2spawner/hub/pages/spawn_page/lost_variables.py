"""Why a variable or a kernel of a sleeping session does not come back, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ....core.sleep.unsavable import cannot_be_saved
from ....wire import LostVariable

VARIABLES: Final[Mapping[str, str]] = {
    "busy": "the kernel was busy",
    "crashed": "its process crashed",
    "damaged": "its file is damaged",
    "deadline": "the time was over",
    "failed": "saving or loading it failed",
    "import-failed": "it cannot be imported here",
    "library-version": "its library has another version here",
    "memory": "it needs more memory than there is",
    "needs": "it needs something that could not be restored",
    "no-dill": "its environment has no dill",
    "no-space": "the disk has no room for it",
    "not-restored": "it was not restored since it was saved",
    "not-restorable": "it could not be loaded again",
    "not-storable": "it cannot be saved",
    "python-version": "another version of Python saved it",
    "timed-out": "it took too long",
    "too-deep": "it is nested too deeply",
}
"""`wire.LostVariable.code` -> words in brackets behind the name."""

KERNELS: Final[Mapping[str, str]] = {
    "busy": "a cell was running",
    "no-extension": "this kernel cannot save its variables",
    "not-python": "only Python kernels can save their variables",
    "timed-out": "there was not enough time to save all",
    "no-space": "there was not enough space in your home",
    "deadline": "there was not enough time to save all",
    "no-dill": "its environment has no dill",
    "died": "its kernel ended while it was saved",
}
"""`wire.SavedKernel.code` -> why nothing or not all of it was saved."""


def why_lost(lost: LostVariable) -> str:
    """Why a variable was not saved; a later agent may know more codes."""
    why = cannot_be_saved(lost.code, lost.detail)
    why = why or VARIABLES.get(lost.code, "it could not be saved")
    return f"{why}; an older value is kept" if lost.kept_of else why


def why_incomplete(code: str) -> str:
    """Why a kernel was not saved, or not all of it; empty where it was."""
    return KERNELS.get(code, "it could not be saved") if code else ""
