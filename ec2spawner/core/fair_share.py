"""How much one user may hold of what all share. Pure."""

from __future__ import annotations

from typing import Final

PART: Final = 5
"""A user holds at most a fifth of what the others leave."""


def share(total: int, of_others: int) -> int:
    """The most that one user may hold of `total`, in its unit, while others hold `of_others`.

    One user alone may hold a fifth of it, the next one a fifth of the rest, and so on: five users
    who take what they can leave a third of it, and twenty a hundredth. Nothing that is held has to
    be taken away from anybody, and as long as anything is left, everybody has a share of it.
    """
    return max(-(-(total - of_others) // PART), 0)
