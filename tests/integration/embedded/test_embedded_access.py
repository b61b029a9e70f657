"""Access: requests with this start's credentials are served, those of web pages refused."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from botocore.exceptions import ClientError

NEW_BOOT_TIME = {"seconds": 12345}


def send(
    url: str, body: bytes | None = None, method: str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of an answer to exactly this request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return str(refused.value.response["Error"]["Code"])


def client(lab: Any, service: str, key_id: str, secret: str, token: str | None = None) -> Any:
    return boto3.client(
        service,
        endpoint_url=lab.facts.ec2_endpoint,
        region_name=lab.facts.region,
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        aws_session_token=token,
    )


LISTINGS = {
    "ec2": lambda c: c.describe_instances(),
    "iam": lambda c: c.list_roles(),
    "s3": lambda c: c.list_objects_v2(Bucket="any"),
    "ssm": lambda c: c.get_parameter(Name="any"),
    "sts": lambda c: c.get_caller_identity(),
}


@pytest.mark.parametrize(
    ("service", "unknown_key", "wrong_secret"),
    [
        ("ec2", "AuthFailure", "AuthFailure"),
        ("iam", "InvalidClientTokenId", "SignatureDoesNotMatch"),
        ("s3", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
        ("ssm", "UnrecognizedClientException", "InvalidSignatureException"),
        ("sts", "InvalidClientTokenId", "SignatureDoesNotMatch"),
    ],
)
def test_wrong_credentials_are_refused_in_the_words_of_the_service(
    lab: Any, service: str, unknown_key: str, wrong_secret: str
) -> None:
    listing = LISTINGS[service]
    stranger = client(lab, service, "AKIAIOSFODNN7EXAMPLE", "test")
    guesser = client(lab, service, lab.facts.aws_access_key_id, "test")
    before = len(lab.control("calls"))

    assert code_of(lambda: listing(stranger)) == unknown_key
    assert code_of(lambda: listing(guesser)) == wrong_secret
    assert len(lab.control("calls")) == before


@pytest.mark.parametrize("minutes", [-6, 6])
@pytest.mark.parametrize(
    ("service", "code"),
    [
        ("ec2", "RequestExpired"),
        ("iam", "RequestExpired"),
        ("s3", "RequestTimeTooSkewed"),
        ("ssm", "RequestExpired"),
    ],
)
def test_a_clock_that_is_five_minutes_off_is_refused(
    lab: Any, monkeypatch: pytest.MonkeyPatch, service: str, code: str, minutes: int
) -> None:
    at = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: at)
    assert code_of(lambda: LISTINGS[service](lab.client(service))) == code


def test_unsigned_requests_are_refused(lab: Any) -> None:
    endpoint = lab.facts.ec2_endpoint
    launch = {"Action": "RunInstances", "ImageId": lab.facts.image_id, "MinCount": 1, "MaxCount": 1}
    before = len(lab.control("instances"))

    status, text, _ = send(f"{endpoint}/", urlencode(launch).encode())
    assert (status, "<Code>MissingAuthenticationToken</Code>" in text) == (403, True)
    status, text, _ = send(f"{endpoint}/", b"{}", X_Amz_Target="AmazonSSM.GetParameter")
    assert (status, json.loads(text)["__type"]) == (400, "MissingAuthenticationTokenException")
    lab.client("s3").create_bucket(Bucket="some-bucket")
    status, text, _ = send(f"{endpoint}/some-bucket/key", b"x", "PUT")
    assert (status, "<Code>AccessDenied</Code>" in text) == (403, True)
    assert len(lab.control("instances")) == before


@pytest.mark.parametrize("said", ["", "token ", "token wrong", "Bearer {token}", "token {token}x"])
def test_control_calls_need_the_token(lab: Any, said: str) -> None:
    said = said.format(token=lab.facts.control_token)
    headers = {"Authorization": said} if said else {"Authorization": ""}

    assert lab.ask("boot", NEW_BOOT_TIME, headers)[0] == 401
    assert lab.ask("instances", headers=headers)[0] == 401
    assert lab.ask("no-such-call", headers=headers)[0] == 401


def test_requests_from_web_pages_are_refused_whatever_they_carry(lab: Any) -> None:
    endpoint, token = lab.facts.ec2_endpoint, f"token {lab.facts.control_token}"
    order = json.dumps(NEW_BOOT_TIME).encode()
    for origin in ("http://evil.example", "null", endpoint):
        for path in ("/", "/embedded/boot", "/some-bucket", "/moto-api/reset", "/nothing/here/"):
            status, _, headers = send(endpoint + path, order, Origin=origin, Authorization=token)
            assert status == 403
            assert not [name for name in headers if name.lower().startswith("access-control")]
    status, _, headers = send(f"{endpoint}/embedded/boot", None, "OPTIONS", Origin=endpoint)
    assert status >= 400
    assert not [name for name in headers if name.lower().startswith("access-control")]


def test_an_unknown_host_name_is_refused(lab: Any) -> None:
    endpoint, token = lab.facts.ec2_endpoint, f"token {lab.facts.control_token}"
    port = endpoint.rpartition(":")[2]
    for host in (f"evil.test:{port}", "127.0.0.1", f"127.0.0.1.evil.test:{port}", "evil.test"):
        assert send(f"{endpoint}/embedded/calls", Host=host, Authorization=token)[0] == 403
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert send(f"{endpoint}/embedded/calls", Host=host, Authorization=token)[0] == 200


def test_motos_own_control_calls_cannot_be_reached(lab: Any) -> None:
    s3 = lab.client("s3")
    s3.create_bucket(Bucket="kept")
    for call in (
        lambda: s3.put_object(Bucket="moto-api", Key="reset", Body=b""),
        lambda: s3.get_object(Bucket="moto-api", Key="data.json"),
    ):
        with pytest.raises(ClientError) as refused:
            call()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
    assert s3.list_objects_v2(Bucket="kept")["KeyCount"] == 0


def test_responses_allow_no_other_origin(lab: Any) -> None:
    lab.client("s3").create_bucket(Bucket="closed")
    shown = lab.client("s3").head_bucket(Bucket="closed")["ResponseMetadata"]["HTTPHeaders"]
    assert not [name for name in shown if name.startswith("access-control")]


def test_credentials_and_image_differ_at_each_start(lab: Any, make_lab: Any) -> None:
    names = ("aws_access_key_id", "aws_secret_access_key", "control_token", "image_id")
    other = make_lab()
    for name in names:
        assert getattr(lab.facts, name) != getattr(other.facts, name)
    assert lab.facts.subnets == other.facts.subnets
    foreign = client(lab, "ec2", other.facts.aws_access_key_id, other.facts.aws_secret_access_key)
    assert code_of(foreign.describe_instances) == "AuthFailure"


def test_the_metadata_service_serves_only_its_secret_path(lab: Any) -> None:
    instance_id = lab.run("echo up; exec sleep 1000")
    lab.console_says(instance_id, "up")
    endpoint = lab.metadata_endpoint(instance_id)
    root = endpoint.rpartition("/")[0]
    ttl = {"X_aws_ec2_metadata_token_ttl_seconds": "60"}

    assert send(f"{root}/latest/api/token", None, "PUT", **ttl)[0] == 404
    assert send(f"{root}/embedded/power/off", None, "PUT")[0] == 404
    assert send(f"{endpoint}/latest/api/token", None, "PUT", Host="evil.test:1338", **ttl)[0] == 403
    assert send(f"{endpoint}/embedded/power/off", None, "PUT", Origin=root)[0] == 403
    assert send(f"{endpoint}/latest/api/token", None, "PUT", **ttl)[0] == 200
    assert lab.state(instance_id) == "running"


def test_credentials_of_an_instance_open_only_s3_and_end_with_it(lab: Any) -> None:
    profiles = lab.client("iam")
    profiles.create_instance_profile(InstanceProfileName="notebooks")
    lab.client("s3").create_bucket(Bucket="shared")
    script = (
        "import json, boto3\n"
        "key = boto3.Session().get_credentials()\n"
        "print('KEY', json.dumps([key.access_key, key.secret_key, key.token]), flush=True)\n"
    )
    instance_id = lab.run(
        f"python - <<'END'\n{script}END\nexec sleep 1000",
        IamInstanceProfile={"Name": "notebooks"},
    )
    console = lab.console_says(instance_id, "KEY ")
    key = json.loads(console.partition("KEY ")[2].splitlines()[0])

    assert client(lab, "s3", *key).list_objects_v2(Bucket="shared")["KeyCount"] == 0
    assert code_of(client(lab, "ec2", *key).describe_instances) == "UnauthorizedOperation"
    assert code_of(client(lab, "iam", *key).list_roles) == "AccessDenied"
    authorization = {"Authorization": f"token {key[1]}"}
    assert lab.ask("instances", headers=authorization)[0] == 401

    lab.ec2.terminate_instances(InstanceIds=[instance_id])
    lab.wait_for(instance_id, "terminated")
    listing = client(lab, "s3", *key).list_objects_v2
    assert code_of(lambda: listing(Bucket="shared")) == "InvalidAccessKeyId"


def test_without_a_profile_an_instance_has_no_credentials(lab: Any) -> None:
    instance_id = lab.run(
        "python -c 'import boto3; print(\"KEY\", boto3.Session().get_credentials(), flush=True)'"
    )
    assert "KEY None" in lab.console_says(instance_id, "KEY ")


def test_an_instance_holds_no_credentials_of_the_account(lab: Any) -> None:
    instance_id = lab.run("env; cat user-data; echo done")
    console = lab.console_says(instance_id, "done")
    secrets = (lab.facts.aws_access_key_id, lab.facts.aws_secret_access_key)
    for secret in (*secrets, lab.facts.control_token):
        assert secret not in console
