"""Which arrays, tensors and frames use the same memory, and which of them will not any more. Pure.

Each use of memory is a range of addresses. Uses that are restored into one block share it again;
ranges that overlap and are restored into different ones are copies, which the report says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple


class Use(NamedTuple):
    """The part of the memory that one object uses."""

    name: str
    """The variable that has the object."""
    start: int
    end: int
    """Addresses, the last one excluded; equal for what is empty."""
    block: int
    """What it is a part of. Those of one block share it again, if that is restored as one."""
    can_write: bool = True
    is_value: bool = False
    """It is never seen to share memory: pandas copies what is shared before writing to it."""


class Views(NamedTuple):
    """The views of one owner of memory."""

    owner: int
    size_bytes: int
    """Of the owner."""
    used_bytes: int
    """Of its views, one by one."""
    is_reachable: bool
    """A variable has the owner itself."""


def whole(views: Iterable[Views]) -> set[int]:
    """The owners to save as a whole, for the sake of their views.

    Not for a small part of a large array: that would save much that no name reaches.
    """
    return {
        each.owner for each in views if each.is_reachable or each.size_bytes <= 2 * each.used_bytes
    }


def copies(uses: Iterable[Use], restored: Collection[int]) -> set[str]:
    """The variables that share memory, and will have copies of it.

    `restored`: the blocks that are restored as one.
    """
    found: set[str] = set()
    for together in _overlapping(uses):
        blocks = {
            ("block", each.block) if each.block in restored else ("copy", number)
            for number, each in enumerate(together)
        }
        is_seen = any(each.can_write for each in together) and not all(
            each.is_value for each in together
        )
        if len(blocks) > 1 and is_seen:
            found.update(each.name for each in together)
    return found


def _overlapping(uses: Iterable[Use]) -> Iterator[list[Use]]:
    """The uses, those whose ranges are connected together."""
    together: list[Use] = []
    end = 0
    for each in sorted(uses, key=lambda use: (use.start, use.end)):
        if each.start == each.end:
            continue
        if together and each.start >= end:
            yield together
            together = []
        together.append(each)
        end = max(end, each.end) if len(together) > 1 else each.end
    if together:
        yield together
