"""Why something could not be written, for the user whose home may be full. Pure."""

from __future__ import annotations

import errno
from collections.abc import Collection
from typing import Final

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
"""No free block or inode; and the same within a quota."""

HOME_IS_FULL: Final = (
    "your home is full. Delete files that you no longer need, such as those in ~/.cache"
)


MAX_NAMED: Final = 3
"""Documents; more are counted."""

MAX_NAME_CHARS: Final = 40


def unsaved_sentence(paths: Collection[str], is_full: bool) -> str:
    """Which documents could not be saved, and why if the home is full; empty for none."""
    if not paths:
        return ""
    named = [
        each if len(each) <= MAX_NAME_CHARS else f"…{each[1 - MAX_NAME_CHARS :]}"
        for each in sorted(paths)[:MAX_NAMED]
    ]
    more = len(paths) - len(named)
    names = ", ".join([*named, *([f"and {more} more"] if more else [])])
    return f"Not saved: {names}{f', because {HOME_IS_FULL}' if is_full else ''}."


def is_full(error: BaseException) -> bool:
    """Whether the disk had no room."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


def why_not_written(error: BaseException) -> str:
    """Why a file of the home was not written, and what to do; without a full stop."""
    return HOME_IS_FULL if is_full(error) else str(error) or type(error).__name__
