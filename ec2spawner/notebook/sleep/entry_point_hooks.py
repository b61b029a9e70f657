"""Run as a program: calls all functions of the entry point group, one after another."""

from __future__ import annotations

import sys
import traceback
from importlib.metadata import entry_points

from .hooks import GROUP


def main() -> int:
    """Exit status: how many have failed."""
    failed = 0
    for each in entry_points(group=GROUP):
        try:
            each.load()()
        except Exception:
            traceback.print_exc()
            failed += 1
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
