"""Units of an instance: how systemd ends, restarts and gives up their services."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SERVICE = """
[Unit]
OnFailure=failed.service
StartLimitIntervalSec=600
StartLimitBurst=3

[Service]
ExecStart=/bin/bash -c "{script}"
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=0.1
KillMode=mixed
"""

FAILED = """
[Service]
Type=oneshot
ExecStart=/bin/bash -c "journalctl _SYSTEMD_UNIT=it.service --lines=1 --output=cat >failed"
"""

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)

STARTS = "echo $$$$ >>starts; echo start of $$$$; "


class Service:
    """A service of an instance; `script` writes its process id into a file at each start."""

    def __init__(self, lab: Any, wait_until: Any, script: str, **settings: str) -> None:
        text = SERVICE.format(script=STARTS + script)
        for name, value in settings.items():
            text = text.replace(f"{name}=", f"{name}={value}\n#")
        files = {"it": text, "failed": FAILED}
        written = "".join(
            f"cat >$EC2SPAWNER_UNITS/{name}.service <<'UNIT'\n{unit}UNIT\n"
            for name, unit in files.items()
        )
        self.lab, self.until = lab, wait_until
        self.instance_id = lab.run(f"{written}systemctl enable --now it.service")
        self.folder = Path(lab.facts.data_dir) / "instances" / self.instance_id

    def words(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().split() if file.exists() else []

    def starts(self, number: int) -> list[int]:
        """The main process of each start, once there were so many."""
        self.until(lambda: len(self.words("starts")) >= number)
        return [int(word) for word in self.words("starts")]

    def until_over(self) -> None:
        self.starts(1)
        self.until(lambda: not self.lab.processes(self.instance_id))


NewService = Callable[..., Service]


@pytest.fixture
def new_service(lab: Any, wait_until: Any) -> NewService:
    return lambda script, **settings: Service(lab, wait_until, script, **settings)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_killed_service_starts_again_when_all_that_it_started_is_gone(
    new_service: NewService,
) -> None:
    left = "setsid sleep 600 & echo $$! >>left; "
    check = "grep -s '^State:.[^Z]' /proc/$$(head -n 1 left)/status >alive; "
    service = new_service(f"test -s left && {check} {left} exec sleep 600")
    [first] = service.starts(1)
    [left_behind] = service.until(lambda: service.words("left"))
    os.kill(first, signal.SIGKILL)
    assert service.starts(2)[0] == first
    service.until(lambda: len(service.words("left")) == 2)
    assert not service.words("alive")
    assert not is_running(int(left_behind))
    assert not service.words("failed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_a_signal_that_asks_for_an_end_restarts_nothing(
    new_service: NewService, number: signal.Signals
) -> None:
    service = new_service("setsid sleep 600 & exec sleep 600", RestartSec="0")
    [main] = service.starts(1)
    service.until(lambda: Path(f"/proc/{main}/comm").read_text() == "sleep\n")
    os.kill(main, number)
    service.until_over()
    assert service.words("starts") == [str(main)]
    assert not service.words("failed")


def test_signals_that_end_a_service_are_not_ignored_where_ec2_was_started_so(
    new_service: NewService,
) -> None:
    """As by `nohup`, or by a shell's `&`: what a process ignores, its children do."""
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        service = new_service("exec sleep 600")
        [main] = service.starts(1)
    finally:
        for number, handler in ignored.items():
            signal.signal(number, handler)
    bits = sum(1 << number - 1 for number in ENDING)
    service.until(lambda: Path(f"/proc/{main}/comm").read_text() == "sleep\n")
    status = Path(f"/proc/{main}/status").read_text()
    assert int(status.partition("SigIgn:")[2].split()[0], 16) & bits == 0
    os.kill(main, signal.SIGHUP)
    service.until_over()


def test_an_error_starts_a_service_again_and_success_does_not(new_service: NewService) -> None:
    service = new_service("setsid sleep 600 & test -e once && exit 0; touch once; exit 1")
    service.starts(2)
    service.until_over()
    assert len(service.words("starts")) == 2
    assert not service.words("failed")


def test_an_exit_status_can_prevent_the_restart(new_service: NewService) -> None:
    service = new_service("echo invalid settings; exit 2")
    assert service.until(lambda: service.words("failed")) == ["invalid", "settings"]
    service.until_over()
    assert len(service.words("starts")) == 1


def test_a_service_that_fails_too_often_has_failed(new_service: NewService) -> None:
    service = new_service("sleep 600 & exec bash -c 'kill -9 $$$$'")
    said = service.until(lambda: service.words("failed"))
    service.until_over()
    starts = service.words("starts")
    assert len(starts) == 3
    assert said == ["start", "of", starts[-1]], "nothing about the signal"


def test_a_service_without_a_restart_fails_at_once(new_service: NewService) -> None:
    service = new_service("exit 1", Restart="no")
    service.until(lambda: service.words("failed"))
    service.until_over()
    assert len(service.words("starts")) == 1


def test_what_is_left_of_a_service_may_end_by_itself(new_service: NewService) -> None:
    """SIGTERM first, unless `KillMode` is `mixed`."""
    left = "trap 'echo asked >asked; exit' TERM; touch left; sleep 600 & wait"
    service = new_service(
        f'(bash -c \\"{left}\\") & until test -e left; do sleep 0.1; done; exit 0',
        KillMode="control-group",
    )
    service.until_over()
    assert service.words("asked") == ["asked"]


def test_a_shutdown_restarts_nothing(new_service: NewService, lab: Any) -> None:
    service = new_service("trap 'exit 1' TERM; sleep 600 & wait")
    service.starts(1)
    lab.ec2.stop_instances(InstanceIds=[service.instance_id])
    lab.wait_for(service.instance_id, "stopped")
    assert len(service.words("starts")) == 1
    lab.ec2.start_instances(InstanceIds=[service.instance_id])
    service.starts(2)
