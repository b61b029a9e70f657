"""The simulated users, for locust: `python -m locust -f` this file.

What they do is in the environment: `Settings` as JSON, and the password or token beside it. Locust
itself replaces Python's sockets and threads when it is imported, so nothing else of ec2spawner
imports this file.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import Final

import gevent
from locust import User, constant, events, task
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import WorkerRunner

from ec2spawner.load_test.journal import Journal
from ec2spawner.load_test.samples import Sample, append, note_busy
from ec2spawner.load_test.settings import PASSWORD, SETTINGS, TOKEN, Settings
from ec2spawner.load_test.user.session import StepFailed
from ec2spawner.load_test.user.visitor import Visitor

settings: Final = Settings.model_validate_json(os.environ[SETTINGS])
secret: Final = os.environ[TOKEN if settings.login == "token" else PASSWORD]
journal: Final = Journal(settings.folder)
arrived: Final = itertools.count(1)
left: Final = itertools.count(1)

quits: Final = itertools.count(1)
visiting: Final[set[str]] = set()
"""Names of the users that have not left yet."""

PAUSE: Final = 5.0
"""Seconds between two visits of a user, which also bounds how often one tries that is refused."""

POLL: Final = 0.1


@events.quitting.add_listener
def _wait_for_users(**_: object) -> None:
    """Locust waits for the users that it stops, but ends at once when it is to quit again.

    It gets SIGTERM for each thread of a command that is killed, because its parent is one of them
    until the last has ended.
    """
    if next(quits) == 1:
        return
    deadline = time.monotonic() + settings.stop_timeout
    while visiting and time.monotonic() < deadline:
        gevent.sleep(POLL)


@events.cpu_warning.add_listener
def _note_busy(**_: object) -> None:
    note_busy(settings.folder)


class HubUser(User):
    """Visits under a name of its own: once for the command, again and again for plain locust."""

    wait_time = constant(PAUSE)

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        runner = environment.runner
        worker = runner.worker_index + 1 if isinstance(runner, WorkerRunner) else 0
        self._name = f"{settings.names(worker)}-{next(arrived):04}"

    @task
    def visit(self) -> None:
        """From the login to the logout."""
        visiting.add(self._name)
        try:
            Visitor(settings, self._name, secret, journal, self._record).visit()
        except StepFailed:
            pass  # recorded
        finally:
            visiting.discard(self._name)
            if next(left) == settings.users and self.environment.runner is not None:
                gevent.spawn(self.environment.runner.quit)
        if settings.users:
            raise StopUser

    def _record(self, sample: Sample) -> None:
        append(settings.folder, sample)
        self.environment.events.request.fire(
            request_type="hub",
            name=sample.step,
            response_time=1000 * sample.seconds,
            response_length=0,
            exception=StepFailed(sample.error) if sample.error else None,
            context={},
        )
