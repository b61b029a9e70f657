"""A Jupyter server extension for tests: answers the status endpoint from a file.

`CANNED_STATUS` names a folder: `status.json` is the answer (without `now`; absent means that
the endpoint is absent too), `history.json` the last hour, and each POST becomes a line in
`posts.jsonl`; `end.json` is what the hub says of its end, `cluster.json` its workers, and
`hardware.json` what else the hub says of other hardware. A POST to
`emit` goes out on the event websocket, with the time of this process's clock, which the statuses
have as well.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from tornado import web

from ec2spawner.notebook.status.notice_events import SCHEMA_ID, schema
from ec2spawner.wire import (
    ClusterAnswer,
    ClusterPrice,
    ClusterStatus,
    HardwareChoices,
    History,
    Market,
    RunsAnswer,
    RunSummary,
)


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


class HistoryHandler(APIHandler):
    @web.authenticated
    def get(self) -> None:
        file = _folder() / "history.json"
        if not file.exists():
            raise web.HTTPError(404)
        since = float(self.get_query_argument("since", "0"))
        history = History.model_validate_json(file.read_text())
        first = next((i for i, at in enumerate(history.at) if at > since), len(history.at))

        def cut(part: Any) -> Any:
            lists = {name: value[first:] for name, value in part if isinstance(value, list)}
            return part.model_copy(update={n: v for n, v in lists.items() if n != "gpus"})

        gpus = [cut(gpu) for gpu in history.gpus]
        self.finish(cut(history).model_copy(update={"gpus": gpus}).model_dump_json())


class EndHandler(APIHandler):
    """In the hub's place, at an address of its own."""

    def get(self) -> None:
        file = _folder() / "end.json"
        if not file.exists():
            raise web.HTTPError(404)
        self.finish(file.read_text())


class EmitHandler(APIHandler):
    @web.authenticated
    def post(self) -> None:
        body = self.get_json_body() or {}
        now = datetime.now(UTC) - timedelta(seconds=body["seconds_ago"])
        event = {"now": now.isoformat(), "notices": body["notices"]}
        self.event_logger.emit(schema_id=SCHEMA_ID, data=event)
        self.finish({})


class PostHandler(APIHandler):
    @web.authenticated
    def post(self, action: str) -> None:
        _note(action, self.get_json_body() or {})
        self.finish({"ok": True, "sentence": None})


class HardwareHandler(APIHandler):
    @web.authenticated
    def get(self) -> None:
        names = {"a10g": "A10G, 24 GB", "cpu": "No GPU", "h100": "H100"}
        choices = [
            {
                "profile": slug,
                "name": name,
                "usd_per_hour": 0.31,
                "market": "spot",
                "is_available": slug != "h100",
                "refusal": "beyond your limit" if slug == "h100" else "",
                "memory_bytes": 64 * 2**30,
                "gpu_memory_bytes": 0 if slug == "cpu" else 24 * 2**30,
            }
            for slug, name in names.items()
        ]
        own = choices[1] | {"profile": "t4", "name": "T4, 16 GB", "usd_per_hour": 0.2}
        answer = HardwareChoices.model_validate({"choices": choices, "own": own})
        file = _folder() / "hardware.json"
        more = json.loads(file.read_text()) if file.exists() else {}
        self.finish(answer.model_dump(mode="json") | more)


class ContinueHandler(APIHandler):
    @web.authenticated
    def post(self) -> None:
        body = self.get_json_body() or {}
        if body:
            _note("continue", body)
        state = "looking" if body else "failed"
        message = "" if body else "EC2 has none"
        self.finish({"state": state, "profile_name": "No GPU", "message": message})


class ClusterHandler(APIHandler):
    @web.authenticated
    def get(self) -> None:
        self.finish(_cluster().model_dump_json())

    @web.authenticated
    def post(self) -> None:
        """0.31 USD/hour for each worker; six are too many, and `price-gone` answers nothing."""
        body = self.get_json_body() or {}
        _note("cluster", {"body_action": body["action"], **body, "action": "cluster"})
        if (_folder() / "price-gone").exists():
            raise web.HTTPError(502)
        if body.get("workers", 0) >= 6:
            self.set_status(409)
            detail = "this hub allows at most 5 workers"
            self.finish(
                {"ok": False, "sentence": {"code": "refused", "params": {"detail": detail}}}
            )
            return
        answer = _cluster()
        if body["action"] == "price":
            usd = 0.31 * body["workers"]
            price = ClusterPrice(
                profile_name=body["profile"] or "A10G, 24 GB",
                workers=body["workers"],
                instance_type="g5.xlarge",
                market=Market.SPOT,
                usd_per_hour=usd,
                max_usd_per_hour=3 * usd,
            )
            answer = answer.model_copy(update={"price": price})
        else:
            update: dict[str, Any] = {"wanted": body.get("workers", 0)}
            status = answer.status.model_copy(update=update)
            answer = ClusterAnswer(status=status)
            (_folder() / "cluster.json").write_text(status.model_dump_json())
        self.finish(answer.model_dump_json())


class RunsHandler(APIHandler):
    @web.authenticated
    def post(self) -> None:
        """Run 12; on a CPU there is none."""
        body = self.get_json_body() or {}
        _note("runs", body)
        if body["profile"] == "cpu":
            self.set_status(409)
            detail = "at most 4 <b>runs</b>"
            self.finish(
                {"ok": False, "sentence": {"code": "refused", "params": {"detail": detail}}}
            )
            return
        run = RunSummary(
            number=12,
            path=body["path"],
            profile=body["profile"],
            profile_name="T4",
            state="queued",
            submitted_at=datetime.now(UTC),
        )
        self.finish(RunsAnswer(runs=[run]).model_dump_json())


def _cluster() -> ClusterAnswer:
    file = _folder() / "cluster.json"
    status = ClusterStatus.model_validate_json(file.read_text()) if file.exists() else None
    return ClusterAnswer(status=status or ClusterStatus())


def _note(action: str, body: dict[str, Any]) -> None:
    with (_folder() / "posts.jsonl").open("a") as log:
        log.write(json.dumps({"action": action, **body}) + "\n")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "canned_status"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    server.event_logger.register_event_schema(schema())
    page = server.web_app.settings.setdefault("page_config_data", {})
    page |= {"ec2spawnerManaged": True, "hubPrefix": "/hub/", "hubServerUser": "ann"}
    root = url_path_join(server.web_app.settings["base_url"], "ec2spawner", "api")
    server.web_app.add_handlers(
        ".*$",
        [
            (url_path_join(root, "status"), StatusHandler),
            (url_path_join(root, "history"), HistoryHandler),
            (url_path_join(root, "emit"), EmitHandler),
            ("/hub/end", EndHandler),
            (url_path_join(root, "hardware"), HardwareHandler),
            (url_path_join(root, "continue"), ContinueHandler),
            (url_path_join(root, "cluster"), ClusterHandler),
            (url_path_join(root, "runs"), RunsHandler),
            (url_path_join(root, "(extend|stop|sleep|idle|input|saved)"), PostHandler),
        ],
    )
