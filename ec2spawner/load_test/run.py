"""The child that locust runs in, from its start to its end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..parent_death import end_with_parent
from . import LOCUSTFILE
from .arrival import Arrival
from .settings import PASSWORD, SETTINGS, TOKEN, Settings

LOG: Final = "locust.log"

POLL: Final = 0.5
"""Seconds between two looks at the child."""

END_TIMEOUT: Final = 60.0
"""Seconds beyond `stop_timeout` for the child's users to stop their servers."""

INTERRUPTED: Final = "it was stopped"
"""Why a test ended at Ctrl-C or SIGTERM."""

EXPECTED: Final = (0, 1)
"""Locust's own exit statuses: all is well, some requests failed."""


def run(
    settings: Settings,
    secret: str,
    arrival: Arrival,
    html: str,
    why_end: Callable[[], str],
) -> str:
    """Run the child until its users have left, or `why_end` says why they have to.

    Returns why the test ended early, or nothing. Ctrl-C ends it, too.
    """
    log_path = Path(settings.folder, LOG)
    with log_path.open("wb") as log:
        child = subprocess.Popen(
            command(arrival, html),
            env=_environment(settings, secret),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C in the terminal is for the command, which ends the child.
            start_new_session=True,
            preexec_fn=end_with_parent(),
        )
    reason = ""
    try:
        while child.poll() is None and not reason:
            time.sleep(POLL)
            reason = why_end()
    except KeyboardInterrupt:
        reason = INTERRUPTED
    finally:
        end(child, settings.stop_timeout + END_TIMEOUT)
    if not reason and child.returncode not in EXPECTED:
        tail = log_path.read_text("utf-8", "replace").splitlines()[-5:]
        reason = " / ".join([f"locust ended with status {child.returncode}", *tail])
    return reason


def command(arrival: Arrival, html: str) -> Sequence[str]:
    """The child's arguments: nothing secret."""
    report = [f"--html={html}"] if html else []
    return [
        *(sys.executable, "-m", "locust", "-f", LOCUSTFILE, "--headless", "--only-summary"),
        *(f"--users={arrival.users}", f"--spawn-rate={arrival.per_second:g}"),
        *("--loglevel=WARNING", *report),
    ]


def _environment(settings: Settings, secret: str) -> dict[str, str]:
    name = TOKEN if settings.login == "token" else PASSWORD
    # Locust reads options from its own variables, which are not meant for this run.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("LOCUST_")}
    return {**inherited, SETTINGS: settings.model_dump_json(), name: secret}


def end(child: subprocess.Popen[bytes], timeout: float) -> None:
    """SIGTERM: the users stop their servers and leave. A second Ctrl-C does not wait for them."""
    if child.poll() is not None:
        return
    child.terminate()
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        child.wait(timeout)
    if child.poll() is None:
        child.kill()
        child.wait()
