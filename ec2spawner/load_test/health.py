"""How long the hub takes for `/hub/health` while the test runs, from a process of its own.

A thread of the command measures it, not locust: the simulated users would delay it.
"""

from __future__ import annotations

import threading
import time
from http import HTTPStatus
from typing import Final

import requests

INTERVAL: Final = 0.2
"""Seconds between two requests."""

TIMEOUT: Final = 10.0


class HealthWatch:
    """Asks from its entry to its exit."""

    def __init__(self, hub: str) -> None:
        self.seconds: list[float] = []
        self.failures = 0
        self._url = f"{hub}hub/health"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="health", daemon=True)

    def __enter__(self) -> HealthWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(TIMEOUT)

    def _watch(self) -> None:
        with requests.Session() as http:
            while not self._stopped.wait(INTERVAL):
                began = time.perf_counter()
                try:
                    answer = http.get(self._url, timeout=TIMEOUT, allow_redirects=False)
                    is_well = answer.status_code == HTTPStatus.OK
                except (requests.RequestException, OSError):
                    is_well = False
                if is_well:
                    self.seconds.append(time.perf_counter() - began)
                else:
                    self.failures += 1
