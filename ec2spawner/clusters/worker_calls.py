"""Calls from the notebook's kernel to its workers."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from ..wire import WorkerStatus
from .errors import ClusterError

SECONDS: Final = 10.0
"""Timeout of a call."""

AT_ONCE: Final = 16
"""Calls to different workers."""

MAX_REASON: Final = 500
"""Characters of a refusal that are shown."""

Answer = TypeVar("Answer")

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Workers are in the same subnet: no proxy of the environment leads to them."""


class WorkerSilent(ClusterError):
    """The worker did not answer: it has not joined, ends, or is out of reach."""


class WorkerRefused(ClusterError):
    """The worker has answered that it does not do this; why, in words."""


def call(worker: WorkerStatus, token: str, path: str, body: str | None = None) -> str:
    """The answer to a GET, or to a POST of `body`. Raises `WorkerSilent`, `WorkerRefused`."""
    if not worker.url:
        raise WorkerSilent(f"Worker {worker.number} has not joined.")
    request = urllib.request.Request(  # noqa: S310 - the hub's own address of the worker
        f"{worker.url}{path}",
        data=None if body is None else body.encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with _direct.open(request, timeout=SECONDS) as answer:
            text: str = answer.read().decode(errors="replace")
            return text
    except urllib.error.HTTPError as error:
        with error:
            reason = error.read(MAX_REASON).decode(errors="replace").strip()
        raise WorkerRefused(f"Worker {worker.number} refused it: {reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise WorkerSilent(f"Worker {worker.number} does not answer: {error}") from error


def ready(workers: Iterable[WorkerStatus]) -> list[WorkerStatus]:
    """Those that have joined and have not begun to end."""
    return [each for each in workers if each.state == "ready" and each.url]


def each_of(
    ask: Callable[[WorkerStatus], Answer], workers: Iterable[WorkerStatus]
) -> dict[int, Answer | ClusterError]:
    """What each worker has answered, by its number, or why it has not."""

    def answer(worker: WorkerStatus) -> Answer | ClusterError:
        try:
            return ask(worker)
        except ClusterError as error:
            return error

    asked = list(workers)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(answer, asked))
    return {worker.number: found for worker, found in zip(asked, answers, strict=True)}
