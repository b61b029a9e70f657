"""moto without the gateway as a judge of the gateway: equal calls get equal answers.

For what moto serves faithfully. Ids, addresses and instants differ, so each is replaced by the
order in which it first appears.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.aws_contract import Step, steps

from .conftest import Laboratory

ID = re.compile(r"\b(?:[a-z]+-)+[0-9a-f]{8,}\b")
ACCOUNT = re.compile(r"\b\d{12}\b")


SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
"""On a port of the kernel's choice, until its standard input is closed."""


@pytest.fixture(scope="module")
def plain() -> Iterator[Any]:
    """Makes clients of plain moto, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env=os.environ | {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())

        def client(service: str) -> Any:
            return boto3.client(
                service,
                endpoint_url=f"http://127.0.0.1:{port}",
                region_name="us-east-1",
                aws_access_key_id="testing",
                aws_secret_access_key="testing",
            )

        try:
            yield client
        finally:
            process.terminate()


def performed(client: Any, todo: list[Step]) -> list[Any]:
    """Each step's answer or error, comparable."""
    made: dict[str, Any] = {}
    names: dict[str, str] = {}
    clients = {service: client(service) for service in {step.service for step in todo}}
    answers = []
    for step in todo:
        try:
            answer = getattr(clients[step.service], step.operation)(**step.parameters(made))
        except ClientError as error:
            answer = {"Error": error.response["Error"]["Code"]}
        for name, read in step.keeps.items():
            made[name] = read(answer)
        answer.pop("ResponseMetadata", None)
        answers.append((step.operation, comparable(answer, names, step.without)))
    return answers


def comparable(value: Any, names: dict[str, str], without: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        found = {k: comparable(v, names, without) for k, v in value.items() if k not in without}
        return {key: each for key, each in found.items() if each not in (None, [], {}, "")}
    if isinstance(value, list):
        return sorted((comparable(each, names, without) for each in value), key=repr)
    if isinstance(value, datetime):
        return "an instant"
    if isinstance(value, str):
        numbered = ID.sub(lambda found: names.setdefault(found[0], f"id {len(names)}"), value)
        return ACCOUNT.sub("an account", numbered)
    return value


def test_calls_that_moto_serves_are_answered_as_by_moto(plain: Any, lab: Laboratory) -> None:
    todo = steps()
    judged, ours = performed(plain, todo), performed(lab.client, todo)
    refused = [(name, answer["Error"]) for name, answer in ours if "Error" in answer]
    assert refused == [
        ("describe_key_pairs", "InvalidKeyPair.NotFound"),
        ("create_launch_template", "InvalidLaunchTemplateName.AlreadyExistsException"),
        ("delete_volume", "InvalidVolume.NotFound"),
        ("get_role", "NoSuchEntity"),
        ("get_instance_profile", "NoSuchEntity"),
    ]
    for expected, answer in zip(judged, ours, strict=True):
        assert answer == expected
