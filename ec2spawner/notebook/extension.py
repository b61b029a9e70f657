"""The Jupyter Server extension: reads the environment, registers handlers, runs the service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp

from .api.cluster_handler import ClusterHandler
from .api.handlers import (
    ContinueHandler,
    ExtendHandler,
    HardwareHandler,
    HistoryHandler,
    IdleHandler,
    InputHandler,
    OutputsHandler,
    SavedHandler,
    SleepHandler,
    StatusHandler,
    StopHandler,
)
from .api.runs_handler import RunsHandler
from .cookie_secret import keep_cookie_secret_in_home
from .kernels.home_environment import HomeEnvironment, activate
from .kernels.image_kernels import extend_image_kernels
from .kernels.ipython_folder import ensure_ipython_folder
from .service import NotebookService
from .sleep.renames import follow_renames
from .sleep.session_locks import session_locks
from .terminal_shell import shell_command


class NotebookExtension(ExtensionApp):
    """Reports what the notebook server sees to the agent, and what the agent knows to browsers."""

    name = "ec2spawner"
    load_other_extensions = True

    def _link_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        """Called before the server reads its cookie secret."""
        super()._link_jupyter_server_extension(serverapp)
        if os.environ.get("EC2SPAWNER_AGENT_SOCKET"):
            keep_cookie_secret_in_home(serverapp)

    def initialize_settings(self) -> None:
        """Read the agent's environment; prepare what a page must know before its first request."""
        assert self.serverapp is not None
        environ: Mapping[str, str] = os.environ
        agent_socket = environ.get("EC2SPAWNER_AGENT_SOCKET", "")
        # The page must know before it can ask: it registers a plugin in place of JupyterLab's own.
        page = self.serverapp.web_app.settings.setdefault("page_config_data", {})
        page["ec2spawnerManaged"] = bool(agent_socket)
        if agent_socket:
            self._use_ipython_folder()
        greeting = self._use_home_environment() if agent_socket else ""
        command = shell_command(environ, greeting) if agent_socket else None
        if command is not None:
            # Before the terminals' own extension reads it; the user's configuration wins.
            self.serverapp.terminado_settings.setdefault("shell_command", command)
        self.service = NotebookService(
            self.serverapp,
            self.log,
            agent_socket=agent_socket,
            owner=environ.get("JUPYTERHUB_USER", ""),
            end_url=environ.get("EC2SPAWNER_END_URL", ""),
        )
        self.service.outputs.install(self.settings)
        session_locks(self.serverapp.session_manager)  # before a page asks for a kernel
        follow_renames(self.serverapp)

    def _use_ipython_folder(self) -> None:
        """Have kernels start in a full home, too."""
        assert self.serverapp is not None
        try:
            ensure_ipython_folder(os.environ, self.serverapp.runtime_dir)
        except OSError as error:
            self.log.error("Kernels have no IPython profile in the home: %s", error)

    def _use_home_environment(self) -> str:
        """Have kernels and terminals use the user's own packages; what a user should know of that,
        for the log and for terminals.

        A home in which that is not possible, such as a full one, does not keep the server from
        starting.
        """
        assert self.serverapp is not None
        environment = HomeEnvironment.of(Path.home())
        try:
            is_new = environment.prepare()
            others = ", ".join(environment.others_with_packages()) if is_new else ""
            activate(environment, self.serverapp.kernel_spec_manager)
        except Exception as error:  # whatever a home may hold
            problem = (
                f"The packages in {environment.folder} are not used, and none can be installed "
                f"there: {error}. Free space, or delete the folder, then stop and start this server"
            )
            self.log.error("%s", problem)
            return problem
        for problem in extend_image_kernels(environment):
            self.log.error("%s", problem)
        if not others:
            return ""
        news = (
            f"This machine has {environment.folder.name}. Packages that you installed with "
            f"{others} are not used: install again what you need. {environment.folder} is new"
        )
        self.log.warning("%s", news)
        return news

    def initialize_handlers(self) -> None:
        """The calls below `ec2spawner/api/`, see docs/reference/http.md."""
        assert self.serverapp is not None
        arguments = {"service": self.service}
        root = Path(self.serverapp.root_dir).expanduser()
        folders = {"root": root, "home": Path.home()}
        self.handlers.extend(
            [
                (r"/ec2spawner/api/status", StatusHandler, arguments),
                (r"/ec2spawner/api/history", HistoryHandler, arguments),
                (r"/ec2spawner/api/extend", ExtendHandler, arguments),
                (r"/ec2spawner/api/idle", IdleHandler, arguments),
                (r"/ec2spawner/api/sleep", SleepHandler, arguments),
                (r"/ec2spawner/api/hardware", HardwareHandler, arguments),
                (r"/ec2spawner/api/continue", ContinueHandler, arguments),
                (r"/ec2spawner/api/cluster", ClusterHandler, arguments),
                (r"/ec2spawner/api/runs", RunsHandler, arguments | folders),
                (r"/ec2spawner/api/stop", StopHandler, arguments),
                (r"/ec2spawner/api/input", InputHandler, arguments),
                (r"/ec2spawner/api/saved", SavedHandler, arguments),
                (r"/ec2spawner/api/outputs", OutputsHandler, arguments),
            ]
        )

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        self.service.start()

    async def stop_extension(self) -> None:
        """Cancel the tasks and close sockets and threads."""
        await self.service.stop()
