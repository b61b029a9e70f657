"""The local socket of the instance's agent, as the user's processes use it: JSON lines.

It needs the standard library only, because kernels of any Python import it.
"""

from __future__ import annotations

from typing import Final

SOCKET: Final = "EC2SPAWNER_AGENT_SOCKET"
"""Names the socket in the environment of what the agent starts, and so of kernels and terminals."""

MAX_LINE: Final = 8 * 1024 * 1024
"""Bytes; the document of a run, with its parameters, is at most 5 MiB."""
