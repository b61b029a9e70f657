"""Why a bill cannot be read."""

from __future__ import annotations


class BillError(Exception):
    """The bill cannot be read; the message says what is wrong and how to fix it."""
