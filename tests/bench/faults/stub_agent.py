#!/usr/bin/env python3
"""An agent and a notebook that cost next to nothing, for benches of what the hub does.

It speaks the agent's part of `wire`: it claims, waits until its home is attached, listens, sends
heartbeats, reports its stop, and claims again if its instance is retained. It mounts nothing,
measures nothing, and its notebook answers any request with an empty page. Standard library only,
because imports are most of what a real agent costs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import secrets
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PROTOCOL = 2
PAUSE = 0.05
HOLD = 20.0

MUTE = Path(__file__).with_name("mute")
"""While this file is there, the machine ends by itself instead of calling the hub."""


class Gone(Exception):
    """410: this instance is not needed."""


def call(method: str, url: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, bytes]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=HOLD + 20)
    try:
        connection.request(method, parts.path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Hub:
    def __init__(self, api_url: str) -> None:
        self.root = f"{api_url.rstrip('/')}/ec2"
        self.lease = ""
        self.token = ""

    def post(self, path: str, message: dict) -> tuple[int, dict]:
        """Until the hub takes it: it may be restarting."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        while True:
            try:
                status, body = call(
                    "POST", f"{self.root}/{path}", headers, json.dumps(message).encode()
                )
            except OSError:
                status, body = 503, b""
            if status == 410:
                raise Gone
            if status < 300:
                return status, json.loads(body or b"{}")
            time.sleep(4 * PAUSE)

    def tell(self, step: str, **more: object) -> None:
        self.post(f"leases/{self.lease}/events", {"step": step, "at": now(), **more})


def now() -> str:
    return datetime.now(UTC).isoformat()


def identity() -> tuple[str, str]:
    endpoint = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"].rstrip("/")
    _, token = call(
        "PUT", f"{endpoint}/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
    )
    root = f"{endpoint}/latest/dynamic/instance-identity"
    headers = {"X-aws-ec2-metadata-token": token.decode()}
    document, signature = (call("GET", f"{root}/{x}", headers)[1] for x in ("document", "rsa2048"))
    return document.decode(), "".join(signature.decode().split())


def claim(hub: Hub, key: str) -> dict:
    document, signature = identity()
    message = {
        "protocol": PROTOCOL,
        "document": document,
        "signature": signature,
        "key": key,
        "wait_seconds": HOLD,
    }
    while True:
        status, answer = hub.post("claims", message)
        if status == 200:
            hub.lease, hub.token = answer["lease_id"], answer["lease_token"]
            return {**answer, "address": json.loads(document)["privateIp"]}


def wait_for_home(volume_id: str) -> None:
    serial = volume_id.replace("-", "")
    devices = Path(os.environ["EC2SPAWNER_DEVICES"])
    while not any(serial in device.name for device in devices.iterdir()):
        time.sleep(PAUSE)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def live(hub: Hub, key: str) -> None:
    """One lease, until its stop. Raises `Gone` where the machine shall end."""
    grant = claim(hub, key)
    home = grant["home"]
    if home["kind"] == "ebs":
        hub.tell("home")
        wait_for_home(home["volume_id"])
    hub.tell("notebook")
    notebook = ThreadingHTTPServer((grant["address"], grant["port"]), Page)
    threading.Thread(target=notebook.serve_forever, daemon=True).start()
    hub.tell("ready", port=grant["port"])
    seen = 0
    while True:
        heartbeat = {
            "protocol": PROTOCOL,
            "hold_seconds": HOLD,
            "state_seen": seen,
            "sent_at": now(),
        }
        _, answer = hub.post(f"leases/{hub.lease}/beat", heartbeat)
        seen = answer["state"]
        if stop := answer.get("stop"):
            notebook.shutdown()
            notebook.server_close()
            hub.tell("stopped")
            if stop["then"] != "terminate":
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hub-api-url", required=True)
    try:
        if MUTE.exists():
            raise Gone
        key = secrets.token_urlsafe(32)
        while True:
            live(Hub(parser.parse_args().hub_api_url), key)
    except Gone:
        os.execvp("poweroff", ["poweroff"])


if __name__ == "__main__":
    main()
