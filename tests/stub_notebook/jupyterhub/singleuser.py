"""A small server in place of JupyterLab, for tests in which a notebook server only has to be there.

The instances of `tests.harness.Embedded`, and the machines of the agent's tests, have this folder
first on Python's path. So the process that the agent prewarms, and `jupyterhub-singleuser`, find
this module where JupyterHub's would be: the agent does all that it does for JupyterLab, which takes
a tenth of a second of a core instead of six.

It listens, keeps files in its home, and knows its user. Besides its version it gives something only
to whom the hub knows by their token, so an answer through the proxy shows that the route, the
server, the user's token and the server's own are all still good. It has no page and no login of
browsers, no kernels, and no extension: the agent finds nobody who would save documents or report
what works.
"""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

CONTENTS = "api/contents/"


class Handler(BaseHTTPRequestHandler):
    """Answers as much of Jupyter Server's REST API, and of our extension's, as such tests ask."""

    started = datetime.now(UTC)

    def do_GET(self) -> None:
        if not self.name.startswith(("api/status", CONTENTS, "ec2spawner/")):
            self.answer(200, {"version": "stub"})  # agent and JupyterHub look whether it listens
        elif not self.is_allowed():
            return
        elif self.name == "api/status":
            self.answer(200, {"started": self.started.isoformat(), "kernels": 0})
        elif self.name == "ec2spawner/api/status":
            self.answer(200, state_of_the_agent())
        elif self.name.startswith(CONTENTS):
            self.read_contents()
        else:
            self.answer(404, {"message": "the stub has no such handler"})

    def do_PUT(self) -> None:
        """Write a text file into the home."""
        said = self.body()
        if not self.is_allowed():
            return
        is_new = not self.file.exists()
        try:
            with self.file.open("w") as file:
                file.write(said["content"])
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.answer(500, {"message": str(error)})
        else:
            self.answer(201 if is_new else 200, {"name": self.file.name})

    def do_POST(self) -> None:
        """Ask the hub about the server's cluster, as a kernel does."""
        # Only this takes the time of importing our messages.
        from ec2spawner.clusters.agent_request import ask
        from ec2spawner.clusters.errors import ClusterError
        from ec2spawner.wire import ClusterRequest

        request = ClusterRequest.model_validate(self.body())
        if self.is_allowed():
            try:
                self.answer(200, ask(request).model_dump(mode="json"))
            except ClusterError as error:
                self.answer(409, {"message": str(error)})

    @property
    def name(self) -> str:
        """What is asked for, below the server's own address."""
        path = unquote(urlsplit(self.path).path)
        # A worker of a cluster has no address below JupyterHub's.
        return path.removeprefix(unquote(os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/")))

    @property
    def file(self) -> Path:
        return Path.home() / self.name.removeprefix(CONTENTS)

    def read_contents(self) -> None:
        """Answer with the text of a file, or the names in a folder."""
        if self.file.is_dir():
            self.answer(200, {"content": [{"name": x.name} for x in self.file.iterdir()]})
        elif self.file.exists():
            self.answer(200, {"content": self.file.read_text()})
        else:
            self.answer(404, {"message": "there is no such file"})

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def is_allowed(self) -> bool:
        """Whether the hub knows both tokens as this server's user's; else the answer is 403."""
        given = self.headers.get("Authorization", "").removeprefix("token ")
        for token in (given, os.environ["JUPYTERHUB_API_TOKEN"]):
            if _name_of(token) != os.environ["JUPYTERHUB_USER"]:
                self.answer(403, {"message": "the hub does not know this token"})
                return False
        return True

    def answer(self, status: int, said: object) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _name_of(token: str) -> str:
    """The owner of this token according to the hub; empty when it is unknown."""
    request = urllib.request.Request(
        f"{os.environ['JUPYTERHUB_API_URL']}/user", headers={"Authorization": f"token {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return str(json.load(reply)["name"])
    except (OSError, ValueError, KeyError):
        return ""


def state_of_the_agent() -> Any:
    """What the agent sends to whoever connects to its socket; our extension shows the same."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(10)
        link.connect(os.environ["EC2SPAWNER_AGENT_SOCKET"])
        with link.makefile() as lines:
            return json.loads(lines.readline())


def main() -> None:
    where = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    ThreadingHTTPServer((where.hostname or "", where.port or 0), Handler).serve_forever()


if __name__ == "__main__":
    main()
