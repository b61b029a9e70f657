"""An embedded EC2 in a thread of its own, and what tests ask of it over real HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import boto3
import pytest
from botocore.config import Config

from ec2spawner.embedded import EmbeddedEC2, Facts
from tests import polling

T = TypeVar("T")

TIMEOUT = 120.0

USER_DATA_LINE = re.compile(r"^\[ *\d+\.\d{6}\] cloud-init\[(?!612\])\d+\]: (.*)$", re.M)
"""Not of the stage of cloud-init before it, which has the process id 612."""


def until(found: Callable[[], T], seconds: float = TIMEOUT) -> T:
    """What `found` returns, as soon as it is true; fails after `seconds`."""
    begun = time.monotonic()
    while not (result := found()):
        waited = time.monotonic() - begun
        assert waited < seconds, "waited in vain"
        time.sleep(polling.pause(waited))
    return result


class Laboratory:
    """An embedded EC2 that runs, boto3 clients for it, and its control calls."""

    def __init__(self, **options: Any) -> None:
        self._options = {"boot_seconds": 0, "lag_seconds": 0, **options}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server = EmbeddedEC2(**self._options)
        self.facts: Facts

    def __enter__(self) -> Laboratory:
        self._thread.start()
        self.facts = self._run(self._server.start())
        return self

    def stop(self) -> None:
        self._run(self._server.stop())

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def client(self, service: str = "ec2", attempts: int = 1, read_timeout: float = 20) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.facts.ec2_endpoint,
            region_name=self.facts.region,
            aws_access_key_id=self.facts.admin_access_key_id,
            aws_secret_access_key=self.facts.admin_secret_access_key,
            config=Config(retries={"total_max_attempts": attempts}, read_timeout=read_timeout),
        )

    @cached_property
    def ec2(self) -> Any:
        return self.client()

    def control(self, path: str, body: Any = None) -> Any:
        """A control call; the answer's JSON. Fails the test on an error."""
        status, answer = self.ask(path, body)
        assert status == 200, answer
        return answer

    def ask(
        self,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> Any:
        """A control call: HTTP status and JSON. POST with a body, else GET, unless it says."""
        request = urllib.request.Request(
            f"{self.facts.ec2_endpoint}/embedded/{path}",
            data=body if body is None or isinstance(body, bytes) else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.facts.control_token}", **(headers or {})},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def template(self, name: str, script: str | None = None, **data: Any) -> str:
        """A launch template with the image; its id."""
        data = {"ImageId": self.facts.image_id, **data}
        if script is not None:
            text = f"#!/bin/bash\n{script}\n"
            data["UserData"] = base64.b64encode(text.encode()).decode()
        made = self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return made["LaunchTemplate"]["LaunchTemplateId"]

    def fleet(
        self,
        template: str,
        count: int = 1,
        market: str = "spot",
        types: tuple[str, ...] = ("g5.xlarge",),
        subnets: tuple[str, ...] | None = None,
        **more: Any,
    ) -> Any:
        """CreateFleet as the project calls it; by default in four zones that have most types."""
        options = (
            {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
            if market == "spot"
            else {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
        )
        return self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                    "Overrides": [
                        {"InstanceType": name, "SubnetId": subnet}
                        for name in types
                        for subnet in subnets or self.facts.subnets[:4]
                    ],
                }
            ],
            TargetCapacitySpecification={
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": market,
            },
            **{**options, **more},
        )

    def run(self, script: str | None = None, **more: Any) -> str:
        """One on-demand instance by RunInstances; its id."""
        if script is not None:
            more["UserData"] = f"#!/bin/bash\n{script}\n"
        parameters = {
            "ImageId": self.facts.image_id,
            "InstanceType": "t3.micro",
            "SubnetId": self.facts.subnets[0],
            "MinCount": 1,
            "MaxCount": 1,
            **more,
        }
        return self.ec2.run_instances(**parameters)["Instances"][0]["InstanceId"]

    def instance(self, instance_id: str) -> Any:
        found = self.ec2.describe_instances(InstanceIds=[instance_id])
        return found["Reservations"][0]["Instances"][0]

    def state(self, instance_id: str) -> str:
        return self.instance(instance_id)["State"]["Name"]

    def wait_for(self, instance_id: str, state: str) -> Any:
        until(lambda: self.state(instance_id) == state)
        return self.instance(instance_id)

    def whole_console(self, instance_id: str) -> str:
        answer = self.ec2.get_console_output(InstanceId=instance_id, Latest=True)
        return answer.get("Output", "")

    def posted_console(self, instance_id: str) -> str:
        return self.ec2.get_console_output(InstanceId=instance_id).get("Output", "")

    def console(self, instance_id: str) -> str:
        """What user-data has printed on the console."""
        return "\n".join(USER_DATA_LINE.findall(self.whole_console(instance_id)))

    def console_says(self, instance_id: str, words: str) -> str:
        until(lambda: words in self.console(instance_id))
        return self.console(instance_id)

    def metadata_endpoint(self, instance_id: str) -> str:
        """Where the instance finds its metadata service, once it boots."""

        def found() -> str | None:
            endpoints = {
                i["instance_id"]: i["metadata_endpoint"] for i in self.control("instances")
            }
            return endpoints.get(instance_id)

        return until(found)

    def processes(self, instance_id: str) -> list[Any]:
        running = {i["instance_id"]: i["processes"] for i in self.control("instances")}
        return running.get(instance_id, [])


@pytest.fixture(scope="module")
def shared_lab() -> Iterator[Laboratory]:
    """One embedded EC2 for a module: a test must not count on an empty one."""
    with Laboratory() as laboratory:
        laboratory.control("limits", {"token_buckets": False})
        yield laboratory


@pytest.fixture
def lab(shared_lab: Laboratory) -> Iterator[Laboratory]:
    """The module's embedded EC2, with nothing sold out, no quota and no fault afterwards."""
    yield shared_lab
    shared_lab.ask("faults", method="DELETE")
    shared_lab.control("reservations", {"reservations": []})
    for subnet in shared_lab.facts.subnets:
        shared_lab.control("addresses", {"subnet_id": subnet, "available": None})
    shared_lab.control(
        "capacity", {"market": "*", "instance_type": "*", "zone": "*", "available": None}
    )
    shared_lab.control(
        "limits", {"token_buckets": False, "quotas": {"spot": None, "on-demand": None}}
    )
    shared_lab.control("boot", {"seconds": 0})


@pytest.fixture
def make_lab() -> Iterator[Callable[..., Laboratory]]:
    """Starts embedded EC2s of a test's own; they end with it."""
    started: list[Laboratory] = []

    def make(**options: Any) -> Laboratory:
        laboratory = Laboratory(**options)
        started.append(laboratory)
        return laboratory.__enter__()

    yield make
    for laboratory in reversed(started):
        laboratory.__exit__()


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    return until
