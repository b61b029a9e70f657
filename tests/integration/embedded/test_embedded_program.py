"""`python -m ec2spawner.embedded`: says where it is, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests import polling

SCRIPT = "#!/bin/bash\nsetsid sleep 1000 &\nexec sleep 1000\n"

Start = Callable[..., tuple[subprocess.Popen[str], dict[str, Any]]]


@pytest.fixture
def start() -> Iterator[Start]:
    programs: list[subprocess.Popen[str]] = []

    def _start(*options: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        program = subprocess.Popen(
            [sys.executable, "-m", "ec2spawner.embedded", "--json", "--boot-seconds=0", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        programs.append(program)
        assert program.stdout is not None
        return program, json.loads(program.stdout.readline())

    yield _start
    for program in programs:
        program.terminate()
        program.wait(20)
        assert program.stdout is not None
        program.stdout.close()


def launch(facts: dict[str, Any]) -> str:
    ec2 = boto3.client(
        "ec2",
        endpoint_url=facts["ec2_endpoint"],
        region_name=facts["region"],
        aws_access_key_id=facts["admin_access_key_id"],
        aws_secret_access_key=facts["admin_secret_access_key"],
    )
    return ec2.run_instances(
        ImageId=facts["image_id"],
        InstanceType="t3.micro",
        SubnetId=facts["subnets"][0],
        MinCount=1,
        MaxCount=1,
        UserData=SCRIPT,
    )["Instances"][0]["InstanceId"]


def marked(instance_id: str) -> set[int]:
    """The processes of its script; those of the boot are others."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environment = (process / "environ").read_bytes()
                command = (process / "comm").read_text()
            except OSError:
                continue
            of_instance = f"EMBEDDED_EC2_INSTANCE={instance_id}".encode() in environment
            if of_instance and command == "sleep\n":
                found.add(int(process.name))
    return found


def has_two_processes(instance_id: str) -> None:
    begun = time.monotonic()
    while len(marked(instance_id)) != 2:
        waited = time.monotonic() - begun
        assert waited < 120
        time.sleep(polling.pause(waited))


SAME_AS_SIGTERM = pytest.mark.nightly(
    guard="tests/integration/embedded/test_embedded_program.py::test_a_signal_ends_everything"
)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=SAME_AS_SIGTERM)]
)
def test_a_signal_ends_everything(start: Start, number: signal.Signals) -> None:
    program, facts = start()
    assert facts.keys() >= {"ec2_endpoint", "region", "subnets", "image_id", "certificate"}
    assert facts.keys() >= {"account", "data_dir", "pid"}
    assert facts["pid"] == program.pid
    assert "BEGIN CERTIFICATE" in Path(facts["certificate"]).read_text()
    instance_id = launch(facts)
    has_two_processes(instance_id)

    program.send_signal(number)

    assert program.wait(120) == 0
    assert marked(instance_id) == set()
    assert not Path(facts["data_dir"]).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(facts["ec2_endpoint"].rpartition(":")[2])))


def test_after_a_kill_the_next_start_cleans_up_and_only_one_runs(
    start: Start, tmp_path: Path
) -> None:
    program, facts = start(f"--data-dir={tmp_path}")
    instance_id = launch(facts)
    has_two_processes(instance_id)
    program.send_signal(signal.SIGKILL)
    program.wait(20)
    assert len(marked(instance_id)) == 2

    _, again = start(f"--data-dir={tmp_path}")

    assert marked(instance_id) == set()
    assert again["account"] == facts["account"]
    assert list((tmp_path / "instances").iterdir()) == []

    second = subprocess.run(
        [sys.executable, "-m", "ec2spawner.embedded", f"--data-dir={tmp_path}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert second.returncode == 1
    assert "in use by another embedded EC2" in second.stderr
    assert "Traceback" not in second.stderr
