"""What a server of this bench runs: it listens, keeps files in its home, and knows its user.

It answers only whom the hub knows by their token, so an answer through the proxy shows that the
route, the server, the user's token and the server's own are all still good. A worker of a cluster
runs the same, and is asked nothing.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from ec2spawner.clusters.agent_request import ask
from ec2spawner.clusters.errors import ClusterError
from ec2spawner.wire import ClusterRequest

MARKER = "bench-marker-"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if not self.path.rstrip("/").endswith("/bench"):
            self.answer(200, {"version": "stub"})  # JupyterHub looks whether it listens
        elif self.is_allowed():
            self.answer(200, sorted(path.name for path in Path.home().glob(f"{MARKER}*")))

    def do_PUT(self) -> None:
        if self.is_allowed():
            name = self.path.rpartition("/")[2]
            with (Path.home() / name).open("x") as file:
                os.fsync(file.fileno())
            self.answer(201, name)

    def do_POST(self) -> None:
        """A call about the cluster, as a kernel makes it."""
        length = int(self.headers.get("Content-Length", 0))
        request = ClusterRequest.model_validate_json(self.rfile.read(length))
        if self.is_allowed():
            try:
                self.answer(200, ask(request).model_dump(mode="json"))
            except ClusterError as error:
                self.answer(409, str(error))

    def is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("token ")
        for token in (given, os.environ["JUPYTERHUB_API_TOKEN"]):
            if _name_of(token) != os.environ["JUPYTERHUB_USER"]:
                self.answer(403, "the hub does not know this token")
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


if __name__ == "__main__":
    where = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    ThreadingHTTPServer((where.hostname or "", where.port or 0), Handler).serve_forever()
