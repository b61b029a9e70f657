"""The exception that explains to a user why there is no server.

Where JupyterHub 6.1 shows what of a `SpawnException`: REST returns `jupyterhub_message`; the
progress stream, the spawn page and the page of a failed start (`not_running.html`) also get
`jupyterhub_html_message`, as HTML. So the message must be complete without the HTML, which says
the same with links.
"""

from __future__ import annotations

from jupyterhub.spawner import SpawnException

HUB_STARTING = (
    "The hub is still starting; try again in a minute. If this message stays, an admin must set "
    'c.JupyterHub.spawner_class = "ec2" instead of the name of the class'
)
"""Only the short name lets ec2spawner notice that a hub starts, see `hub.startup.arrange`."""


DATABASE_FAILS = (
    "The hub cannot write to its database, so no server can start. Tell an admin; the "
    "hub's log has the reason"
)


class SpawnError(SpawnException):
    """A start that ended without a server; every page shows the message to its user.

    `reason` is a label for metrics. `html` is put on pages as it is: its content must be escaped.
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
