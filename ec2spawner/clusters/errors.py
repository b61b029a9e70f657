"""Why something cannot be done with a cluster, for its user."""

from __future__ import annotations


class ClusterError(Exception):
    """What happened, what it means, and what can be done, in words."""


class ClusterRefused(ClusterError):
    """The hub has refused it: nothing was changed."""
