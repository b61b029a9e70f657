"""A Jupyter server extension for tests: answers the status endpoint from a file.

`CANNED_STATUS` names a folder: `status.json` is the answer (without `now`; absent means that
the endpoint is absent too), and each POST becomes a line in `posts.jsonl`.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado import web


def _folder() -> Path:
    return Path(os.environ["CANNED_STATUS"])


class StatusHandler(APIHandler):
    @web.authenticated
    def get(self) -> None:
        file = _folder() / "status.json"
        if not file.exists():
            raise web.HTTPError(404)
        now = datetime.now(UTC).isoformat()
        self.finish(json.dumps({**json.loads(file.read_text()), "now": now}))


class PostHandler(APIHandler):
    @web.authenticated
    def post(self, action: str) -> None:
        line = json.dumps({"action": action, **(self.get_json_body() or {})})
        with (_folder() / "posts.jsonl").open("a") as log:
            log.write(line + "\n")
        self.finish({"ok": True, "message": ""})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "canned_status"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    root = url_path_join(server.web_app.settings["base_url"], "ec2spawner", "api")
    server.web_app.add_handlers(
        ".*$",
        [
            (url_path_join(root, "status"), StatusHandler),
            (url_path_join(root, "(extend|stop|input)"), PostHandler),
        ],
    )
