"""The blocks of memory that data frames of pandas consist of.

Frames share a block until one of them writes to it. They know that of each other only as long as
the process lives: a block that two frames still shared after waking would be changed in both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import arrays


class Standalone(NamedTuple):
    """An array that is restored with memory of its own, whatever it shares now."""

    array: Any


def is_block(kind: type) -> bool:
    """Whether frames consist of objects of this class."""
    return kind.__module__ == "pandas.core.internals.blocks"


def reduce(block: Any) -> Any:
    """What `__reduce__` would return."""
    make, (values, *about) = block.__reduce__()
    if arrays.is_array(values):
        values = values.copy() if values.dtype.kind == "O" else Standalone(values)
    elif (references := getattr(block, "refs", None)) is not None and references.has_reference():
        values = values.copy()
    return make, (values, *about)
