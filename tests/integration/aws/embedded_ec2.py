"""The embedded EC2 as a process of its own, for tests of the boto3 side."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from tests import harness, nursery, polling

SMALL = "t3.micro"


@dataclass(frozen=True)
class Embedded:
    endpoint: str
    region: str
    subnets: tuple[str, ...]
    zones: tuple[str, ...]
    image_id: str
    security_group: str
    access_key_id: str
    secret_access_key: str
    admin_access_key_id: str
    admin_secret_access_key: str
    control_token: str

    def client(self, service: str) -> Any:
        """A boto3 client of the account's administrator."""
        return boto3.client(
            service,
            region_name=self.region,
            endpoint_url=self.endpoint,
            aws_access_key_id=self.admin_access_key_id,
            aws_secret_access_key=self.admin_secret_access_key,
        )

    def key_of(self, hub: str, *statements: dict[str, Any]) -> dict[str, str]:
        """Environment variables with a new key of this hub; its admin added the statements."""
        key = self.control("hub-keys", hub_name=hub, statements=statements)
        return {name.upper(): value for name, value in key.items()}

    def control(self, call: str, **body: Any) -> Any:
        return self._ask(call, json.dumps(body).encode() if body else None)

    def _ask(self, call: str, body: bytes | None, method: str | None = None) -> Any:
        headers = {"Authorization": f"token {self.control_token}"}
        request = urllib.request.Request(
            f"{self.endpoint}/embedded/{call}", body, headers, method=method
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def calls(self, action: str) -> list[str]:
        """Outcomes of the calls of this action, oldest first."""
        return [call["outcome"] for call in self.control("calls") if call["action"] == action]

    def fault(self, action: str, kind: str, times: int = 1) -> None:
        self.control("faults", action=action, kind=kind, times=times)

    def clear_faults(self) -> None:
        self._ask("faults", None, "DELETE")

    def capacity(self, market: str, zone: str, available: int | None) -> None:
        self.control("capacity", market=market, instance_type=SMALL, zone=zone, available=available)


def until(condition: Callable[[], bool], seconds: float) -> None:
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        assert waited < seconds, f"waited {seconds:g} s in vain"
        time.sleep(polling.pause(waited))


def has_line(file: Path) -> bool:
    return file.exists() and file.read_text().endswith("\n")


@contextmanager
def running_embedded() -> Iterator[Embedded]:
    # What a call made is read back at once: lags are for whole journeys, and for scripted answers.
    options = ("--json", "--boot-seconds", "0", "--lag-seconds", "0")
    assert nursery.shared is not None
    forks = nursery.shared.of("embedded")
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = forks.fork(options, os.environ, Path.cwd(), output, errors)
        try:
            until(lambda: process.returncode is not None or has_line(output), harness.START_TIMEOUT)
            assert has_line(output), errors.read_text()
            facts = json.loads(output.read_text())
            yield Embedded(
                endpoint=facts["ec2_endpoint"],
                region=facts["region"],
                subnets=tuple(facts["subnets"]),
                zones=tuple(facts["zones"]),
                image_id=facts["image_id"],
                security_group=facts["security_group"],
                access_key_id=facts["aws_access_key_id"],
                secret_access_key=facts["aws_secret_access_key"],
                admin_access_key_id=facts["admin_access_key_id"],
                admin_secret_access_key=facts["admin_secret_access_key"],
                control_token=facts["control_token"],
            )
        finally:
            process.terminate()
            try:
                until(lambda: process.returncode is not None, 30)
            finally:
                process.send_signal(signal.SIGKILL)
