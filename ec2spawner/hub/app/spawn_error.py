"""The exception that tells a user why there is no server.

Where JupyterHub 6.1 shows what of a `SpawnException`: REST tells `jupyterhub_message`; the
progress stream, the spawn page and the page of a failed start (`not_running.html`) are given
`jupyterhub_html_message` too, as HTML. So the message stands by itself, and the HTML says the same
with links.
"""

from __future__ import annotations

from jupyterhub.spawner import SpawnException

HUB_STARTING = (
    "The hub is starting; try again in a minute. If this stays, an admin must write "
    'c.JupyterHub.spawner_class = "ec2", and not the name of the class'
)
"""Only the short name tells ec2spawner that a hub starts, see `hub.startup.arrange`."""


class SpawnError(SpawnException):
    """A start that ended without a server, in words for its user, on every page.

    `reason` is a label for metrics. A `html` is put on pages as it is: escape what is in it.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        html: str = "",
        log_message: str = "",
        status_code: int = 400,
    ) -> None:
        super().__init__(
            message,
            reason=reason,
            log_message=log_message,
            message_html=html,
            status_code=status_code,
        )

    @property
    def jupyterhub_message(self) -> str:
        """Plain text, for REST and logs."""
        return str(self.message)

    @property
    def jupyterhub_html_message(self) -> str | None:
        """HTML for pages; None shows the plain text."""
        return self.message_html or None
