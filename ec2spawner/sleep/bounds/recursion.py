"""A bound for code that recurses as deeply as the user's data are nested."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

MAX_DEPTH: Final = 10_000
"""Levels of pickling took up to 280 bytes of the stack each, measured with Python 3.11: this many
take a third of the usual 8 MiB."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Within, what is nested too deeply for the stack raises RecursionError.

    Up to Python 3.11, code in C counts its levels by `sys.setrecursionlimit` too. Where a user has
    raised that limit beyond what the stack holds, SIGSEGV would end the kernel. The limit is of the
    whole process: a thread that is deeper itself gets the error.
    """
    before = sys.getrecursionlimit()
    if before <= MAX_DEPTH:
        yield
        return
    sys.setrecursionlimit(MAX_DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
