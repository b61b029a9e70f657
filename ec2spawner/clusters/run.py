"""A script that torchrun runs on the cluster, as its notebook sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from ..wire import CancelOrder, ClusterStatus, RunOrder, RunStatus, WorkerStatus
from .errors import ClusterError
from .run_outcome import Outcome, outcome, takes_workers
from .worker_calls import WorkerRefused, WorkerSilent, call, each_of, ready

POLL_SECONDS: Final = 3.0
"""Between two polls of the hub and the workers."""

TAIL: Final = 3000
"""Characters of a worker's log in an error."""


class Run:
    """A run of a script. While the kernel runs, workers that join later are given it as well."""

    def __init__(
        self, order: RunOrder, first: Iterable[int], token: str, status: Callable[[], ClusterStatus]
    ) -> None:
        self._order = order
        self._first = frozenset(first)
        self._token = token
        self._status = status
        self._seen: dict[int, RunStatus] = {}
        self._messages: list[str] = []
        self._shown = 0
        self._outcome: Outcome | None = None
        self._problem = ""
        self._is_cancelled = False
        self._ended = threading.Event()
        self._watching = threading.Thread(
            target=self._watch, name=f"run {order.run_id[:8]}", daemon=True
        )
        self._watching.start()

    @property
    def id(self) -> str:
        """Of torchrun's rendezvous."""
        return self._order.run_id

    @property
    def status(self) -> str:
        """`running`, `succeeded`, `failed` or `cancelled`."""
        return self._outcome.state if self._outcome is not None else "running"

    @property
    def exit_code(self) -> int | None:
        """Of torchrun: 0, or that of the worker on which it failed; None while it runs, and if it
        did not end by itself."""
        return self._outcome.exit_code if self._outcome is not None else None

    @property
    def workers(self) -> list[int]:
        """The numbers of the workers on which it runs now, a few seconds old."""
        return sorted(x for x, each in self._seen.copy().items() if each.exit_code is None)

    def wait(self, timeout: float | None = None) -> int:
        """Return 0 once the run has succeeded, and show what happens until then.

        Raises `ClusterError` if it fails or is cancelled, and after `timeout` seconds, and
        `KeyboardInterrupt`: then it continues.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._ended.wait(0.2):
                self._show()
                if deadline is not None and time.monotonic() >= deadline:
                    raise ClusterError(f"{self._name} has not ended within {timeout:.0f} s.")
        except KeyboardInterrupt:
            _say("The run continues on its workers: run.wait() waits again, run.cancel() ends it.")
            raise
        self._show()
        if self.status != "succeeded":
            raise ClusterError(self._problem or f"{self._name} was cancelled.")
        return 0

    def logs(self, worker: int | None = None) -> str:
        """The end of what the script has printed on a worker, or on each that answers. Raises
        `ClusterError` if that worker does not."""
        there = self._status().workers
        if worker is not None:
            found = [each for each in there if each.number == worker]
            if not found:
                raise ClusterError(f"There is no worker {worker} now, and its log ended with it.")
            return call(found[0], self._token, "/log")
        logs = each_of(lambda each: call(each, self._token, "/log"), ready(there))
        return "\n".join(
            f"--- worker {number}\n{text}" for number, text in logs.items() if isinstance(text, str)
        )

    def cancel(self) -> None:
        """End the run on all workers: the script gets SIGTERM, and SIGKILL after 30 s. Returns at
        once. Raises `ClusterError` while the hub does not answer."""
        self._is_cancelled = True
        self._end_on(ready(self._status().workers))

    def __repr__(self) -> str:
        where = f" on workers {', '.join(map(str, self.workers))}" if self.workers else ""
        return f"{self._name}: {self.status}{where}"

    @property
    def _name(self) -> str:
        return f"Run {self.id[:8]} of {self._order.file_name}"

    def _watch(self) -> None:
        while True:
            status = None
            try:
                status = self._status()
                self._poll(status)
            except ClusterError as error:  # of the hub: what runs does not need it
                self._note(str(error))
            except Exception as error:
                self._note(f"{self._name} could not be followed: {error!r}")
            if self._has_ended(status):
                self._ended.set()
                return
            time.sleep(POLL_SECONDS)

    def _poll(self, status: ClusterStatus) -> None:
        """Read how the run stands on each worker, and give it to those that do not have it."""
        answers = each_of(self._on_worker, ready(status.workers))
        there = {each.number for each in status.workers}
        for number in [x for x, each in self._seen.items() if each.exit_code is None]:
            if number not in there:
                del self._seen[number]
                self._note(f"Worker {number} has left the run")
        for number, answer in answers.items():
            if isinstance(answer, RunStatus) and answer.run_id == self.id:
                self._take(number, answer)
        if self._is_cancelled:
            self._end_on(x for x in ready(status.workers) if x.number in self.workers)
        elif takes_workers(self._seen):
            self._give(status)
            if not self.workers:
                self._note("No worker runs it now: it continues once one has joined")

    def _give(self, status: ClusterStatus) -> None:
        """To workers that have joined since, as many as the run may have."""
        free = self._order.max_nodes - len(self.workers)
        new = [x for x in ready(status.workers) if x.number not in self._seen]
        body = self._order.model_dump_json()
        for worker in [x for x in new if x.interruption_at is None][: max(free, 0)]:
            try:
                answer = call(worker, self._token, "/run", body)
            except WorkerRefused as error:
                self._note(str(error))
            except WorkerSilent:
                continue
            else:
                self._take(worker.number, RunStatus.model_validate_json(answer))

    def _end_on(self, workers: Iterable[WorkerStatus]) -> None:
        body = CancelOrder(run_id=self.id).model_dump_json()
        each_of(lambda each: call(each, self._token, "/cancel", body), workers)

    def _on_worker(self, worker: WorkerStatus) -> RunStatus:
        return RunStatus.model_validate_json(call(worker, self._token, "/run"))

    def _take(self, number: int, status: RunStatus) -> None:
        before, self._seen[number] = self._seen.get(number), status
        if before is None:
            self._note(f"Worker {number} runs {self._order.file_name}")
        if status.stopped == "drained" and (before is None or not before.stopped):
            self._note(f"Worker {number} leaves the run: AWS is reclaiming its instance")

    def _has_ended(self, status: ClusterStatus | None) -> bool:
        found = outcome(self._seen, self._first, self._is_cancelled)
        if found is None and status is not None and not self.workers and _is_over(status):
            found = Outcome("failed")
            self._problem = f"{self._name} has ended with the cluster's workers."
        if found is not None and found.worker:
            self._problem = self._failure(found)
        self._outcome = found
        return found is not None

    def _failure(self, found: Outcome) -> str:
        words = f"{self._name} failed on worker {found.worker} with exit code {found.exit_code}."
        try:
            log = self.logs(found.worker)
        except ClusterError:
            return words
        return f"{words} It printed last:\n{log[-TAIL:]}"

    def _note(self, text: str) -> None:
        if not self._messages or self._messages[-1] != text:
            self._messages.append(text)

    def _show(self) -> None:
        while self._shown < len(self._messages):
            _say(self._messages[self._shown])
            self._shown += 1


def _is_over(status: ClusterStatus) -> bool:
    """Whether no worker is there and none will come."""
    return not status.wanted or (status.has_given_up and not ready(status.workers))


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the output of the user's own call
