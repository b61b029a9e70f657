"""Bounds the bodies of JupyterHub's own requests, which tornado keeps before anybody is identified.

By default each may have 100 MiB, without a time limit.
"""

from __future__ import annotations

from typing import Final

from jupyterhub.app import JupyterHub

MAX_BODY_BYTES: Final = 1024 * 1024
"""A thousand users that an admin adds have 20 KB. Our own handlers have bounds of their own."""

BODY_SECONDS: Final = 60.0
"""The whole body must have arrived by then."""


async def bound_requests(app: JupyterHub) -> None:
    """Hold for all connections from now on; returns once the hub listens."""
    await app._start_future
    parameters = app.http_server.conn_params
    parameters.max_body_size = MAX_BODY_BYTES
    parameters.body_timeout = BODY_SECONDS
