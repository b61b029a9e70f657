"""The embedded EC2 as a process of its own, for tests of the boto3 side."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

SMALL = "t3.micro"


@dataclass(frozen=True)
class Embedded:
    endpoint: str
    region: str
    subnets: tuple[str, ...]
    zones: tuple[str, ...]
    image_id: str

    def control(self, call: str, **body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.endpoint}/embedded/{call}", json.dumps(body).encode() if body else None
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def calls(self, action: str) -> list[str]:
        """Outcomes of the calls of this action, oldest first."""
        return [call["outcome"] for call in self.control("calls") if call["action"] == action]

    def fault(self, action: str, kind: str, times: int = 1) -> None:
        self.control("faults", action=action, kind=kind, times=times)

    def clear_faults(self) -> None:
        request = urllib.request.Request(f"{self.endpoint}/embedded/faults", method="DELETE")
        urllib.request.urlopen(request, timeout=20).close()

    def capacity(self, market: str, zone: str, available: int | None) -> None:
        self.control("capacity", market=market, instance_type=SMALL, zone=zone, available=available)


@contextmanager
def running_embedded() -> Iterator[Embedded]:
    command = [sys.executable, "-m", "ec2spawner.embedded", "--json", "--boot-seconds", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            facts = json.loads(process.stdout.readline())
            yield Embedded(
                endpoint=facts["ec2_endpoint"],
                region=facts["region"],
                subnets=tuple(facts["subnets"]),
                zones=tuple(facts["zones"]),
                image_id=facts["image_id"],
            )
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()
