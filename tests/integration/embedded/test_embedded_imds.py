"""The metadata service, from the instance's own address."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

TOKEN = "X-aws-ec2-metadata-token"


class Metadata:
    """IMDSv2 as a client on the instance would use it."""

    def __init__(self, lab: Any, instance_id: str) -> None:
        lab.wait_for(instance_id, "running")
        lab.console_says(instance_id, "up")
        self.root = lab.metadata_endpoint(instance_id)
        status, token = self.put({f"{TOKEN}-ttl-seconds": "60"})
        assert status == 200
        self.token = token

    def put(self, headers: dict[str, str]) -> tuple[int, str]:
        return self._ask("/latest/api/token", headers, "PUT")

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        return self._ask(f"/latest/{path}", {TOKEN: self.token if token is None else token})

    def dated(self, version: str, path: str) -> tuple[int, str]:
        return self._ask(f"/{version}/{path}", {TOKEN: self.token})

    def text(self, path: str) -> str:
        status, text = self.get(path)
        assert status == 200
        return text

    def _ask(self, path: str, headers: dict[str, str], method: str = "GET") -> tuple[int, str]:
        request = urllib.request.Request(self.root + path, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def spot(lab: Any) -> tuple[str, Metadata]:
    instance_id = lab.run(
        "echo up; exec sleep 1000",
        InstanceType="g5.xlarge",
        InstanceMarketOptions={"MarketType": "spot"},
    )
    return instance_id, Metadata(lab, instance_id)


def test_without_a_token_metadata_is_refused(spot: tuple[str, Metadata]) -> None:
    _, metadata = spot

    assert metadata.get("meta-data/instance-id", token="")[0] == 401
    assert metadata.get("meta-data/instance-id", token="guessed")[0] == 401
    assert metadata.put({})[0] == 400
    assert metadata.put({f"{TOKEN}-ttl-seconds": "21601"})[0] == 400
    assert metadata.put({f"{TOKEN}-ttl-seconds": "60", "X-Forwarded-For": "1.2.3.4"})[0] == 403


def test_clients_may_ask_by_the_date_of_a_version_and_list_what_is_there(
    spot: tuple[str, Metadata],
) -> None:
    """As cloud-init does, which reads all of it."""
    instance_id, metadata = spot
    for version in ("2009-04-04", "2021-03-23"):
        assert metadata.dated(version, "meta-data/instance-id") == (200, instance_id)
    assert metadata.text("dynamic/instance-identity/").split() == ["document", "rsa2048"]


def test_a_token_expires(spot: tuple[str, Metadata]) -> None:
    _, metadata = spot
    _, short = metadata.put({f"{TOKEN}-ttl-seconds": "1"})
    assert metadata.get("meta-data/instance-id", short)[0] == 200

    deadline = time.monotonic() + 60
    while metadata.get("meta-data/instance-id", short)[0] == 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_metadata_agrees_with_the_listing(lab: Any, spot: tuple[str, Metadata]) -> None:
    instance_id, metadata = spot
    shown = lab.instance(instance_id)

    assert metadata.text("meta-data/instance-id") == instance_id
    assert metadata.text("meta-data/instance-type") == shown["InstanceType"]
    assert metadata.text("meta-data/local-ipv4") == shown["PrivateIpAddress"]
    assert (
        metadata.text("meta-data/placement/availability-zone")
        == (shown["Placement"]["AvailabilityZone"])
    )
    assert metadata.text("meta-data/placement/region") == lab.facts.region
    assert metadata.text("meta-data/ami-id") == lab.facts.image_id
    assert "placement/" in metadata.text("meta-data/").splitlines()
    assert metadata.text("user-data").startswith("#!/bin/bash")
    assert metadata.get("meta-data/no-such-thing")[0] == 404
    assert metadata.get("meta-data/spot/instance-action")[0] == 404


def test_the_identity_document_is_signed_by_the_pinned_key(
    lab: Any, spot: tuple[str, Metadata], tmp_path: Path
) -> None:
    instance_id, metadata = spot
    document = metadata.text("dynamic/instance-identity/document")
    signature = tmp_path / "signature.der"
    signature.write_bytes(base64.b64decode(metadata.text("dynamic/instance-identity/rsa2048")))

    def verify(certificate: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [
                *("openssl", "cms", "-verify", "-noverify", "-nointern", "-binary"),
                *("-certfile", certificate, "-inform", "DER", "-in", str(signature)),
            ],
            capture_output=True,
            timeout=300,
        )

    verified = verify(lab.facts.certificate)
    assert verified.returncode == 0, verified.stderr
    assert verified.stdout.decode() == document
    claims = json.loads(document)
    shown = lab.instance(instance_id)
    assert claims["instanceId"] == instance_id
    assert claims["accountId"] == lab.facts.account
    assert claims["privateIp"] == shown["PrivateIpAddress"]
    assert claims["pendingTime"] == shown["LaunchTime"].strftime("%Y-%m-%dT%H:%M:%SZ")
    assert claims["region"] == lab.facts.region
    assert b"BEGIN CERTIFICATE" not in signature.read_bytes()

    other = tmp_path / "other.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other"),
            *("-keyout", str(tmp_path / "other.key"), "-out", str(other)),
        ],
        check=True,
        capture_output=True,
        timeout=300,
    )
    assert verify(str(other)).returncode != 0


def test_a_rebalance_recommendation_precedes_a_notice(lab: Any, spot: tuple[str, Metadata]) -> None:
    instance_id, metadata = spot
    path = "meta-data/events/recommendations/rebalance"
    assert metadata.get(path)[0] == 404
    lab.control(f"rebalance/{instance_id}", {})

    recommended = json.loads(metadata.text(path))
    assert abs(datetime.fromisoformat(recommended["noticeTime"]).timestamp() - time.time()) < 60
    assert metadata.get("meta-data/spot/instance-action")[0] == 404
    lab.control(f"interrupt/{instance_id}", {"notice_seconds": 1.0})
    assert json.loads(metadata.text(path)) == recommended, "of its own time"
    lab.wait_for(instance_id, "terminated")


def test_a_spot_notice_precedes_the_interruption(lab: Any, spot: tuple[str, Metadata]) -> None:
    instance_id, metadata = spot

    assert metadata.get("meta-data/spot/instance-action")[0] == 404
    asked_at = time.time()
    lab.control(f"interrupt/{instance_id}", {"notice_seconds": 1.0})
    ordered_at = time.time()

    notice = json.loads(metadata.text("meta-data/spot/instance-action"))
    announced = datetime.fromisoformat(notice["time"]).timestamp()
    assert asked_at - 1 < announced - 1 <= ordered_at, "in whole seconds"
    assert notice["action"] == "terminate"
    assert metadata.text("meta-data/spot/termination-time") == notice["time"]
    assert metadata.get("meta-data/events/recommendations/rebalance")[0] == 200
    assert lab.state(instance_id) == "running"
    shown = lab.wait_for(instance_id, "terminated")
    assert shown["StateReason"]["Code"] == "Server.SpotInstanceTermination"


@pytest.mark.parametrize("call", ["interrupt", "rebalance"])
def test_only_running_spot_instances_are_interrupted(lab: Any, call: str) -> None:
    on_demand = lab.run()

    assert lab.ask(f"{call}/{on_demand}", {})[0] == 409
    assert lab.ask(f"{call}/i-0123456789abcdef0", {})[0] == 404


def test_an_interruption_removes_the_capacity(lab: Any) -> None:
    template = lab.template("interrupted")
    lab.control(
        "capacity",
        {"market": "spot", "instance_type": "g6.xlarge", "zone": "*", "available": 1},
    )

    def launch() -> Any:
        return lab.fleet(template, types=("g6.xlarge",), subnets=(lab.facts.subnets[0],))

    instance_id = launch()["Instances"][0]["InstanceIds"][0]
    lab.control(f"interrupt/{instance_id}", {"notice_seconds": 0})
    lab.wait_for(instance_id, "terminated")

    assert launch()["Instances"] == []
