"""What data frames of pandas consist of.

Not by its public methods: most of them make a new frame, and copy what users have added to the old
one, by its own code.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..values import arrays


class Parts(NamedTuple):
    """The parts of a frame, a series, an index or an array of pandas."""

    memory: list[Any]
    """Arrays of NumPy."""
    others: list[Any]
    """Arrays of other libraries, and what users have added."""
    sizes: list[int]
    """Bytes, without objects."""


def is_frame(value: Any) -> bool:
    """Also a series, an index, or an array that they consist of."""
    return hasattr(value, "memory_usage") or type(value).__name__ == "DataFrame"


def parts(value: Any) -> Parts:
    """What is in it, in its labels, and in the labels of its categories."""
    found = Parts([], [], [])
    with contextlib.suppress(AttributeError):  # of another version of pandas
        _add(value, found)
    return found


def are_values(pandas: Any = None) -> bool:
    """Whether frames that share memory copy it before they write to it."""
    pandas = pandas or sys.modules["pandas"]
    first = str(pandas.__version__).partition(".")[0]
    return (first.isdigit() and int(first) >= 3) or pandas.options.mode.copy_on_write is True


def _add(value: Any, found: Parts) -> None:
    manager = getattr(value, "_mgr", None)
    if manager is not None:
        _add_arrays(manager.arrays, found)
        for each in value.axes:
            _add(each, found)
        if value.attrs:
            found.others.append(value.attrs)
    elif hasattr(value, "levels"):  # of a MultiIndex
        for each in value.levels:
            _add(each, found)
        found.sizes.extend(int(each.nbytes) for each in value.codes)
    elif type(value).__name__ != "RangeIndex":
        _add_arrays([getattr(value, "_data", value)], found)


def _add_arrays(values: Iterable[Any], found: Parts) -> None:
    for each in values:
        if arrays.is_array(each):
            found.memory.append(each)
        elif type(each).__module__.partition(".")[0] != "pandas":
            found.others.append(each)
            continue
        found.sizes.append(int(each.nbytes))
        inner = getattr(each, "_ndarray", getattr(each, "_data", None))
        if hasattr(each, "categories"):
            _add(each.categories, found)
        elif inner is not each and arrays.is_array(inner):
            found.memory.append(inner)
