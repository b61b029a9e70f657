"""What a bundle for a bug report must not show."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.first_light.redaction import Redaction

SECRETS = [
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAQWERTYUIOPASDFGH",
    "10.1.2.3",
    "ip-10-1-2-3",
    "123456789012",
    "ann@example.org",
    "0123456789abcdef0123456789abcdef",
    "hub.example.internal",
]
FRAMES = [
    "{}",
    'arn:aws:iam::{}:role/x and "{}"',
    '{{"key": "{}"}}',
    "before {} after\n{}\n",
    "http://{}:8081/hub/api",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("frame", FRAMES)
def test_secrets_accounts_addresses_and_names_are_replaced(secret: str, frame: str) -> None:
    redact = Redaction({"hub.example.internal": "HOST"})
    found = redact(frame.replace("{}", secret).replace("{{", "{").replace("}}", "}"))
    assert secret.removeprefix("ip-") not in found


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: token abcdefghijklmnopqrstuvwxyz",
        '"api_token": "abcdefghijklmnopqrstuvwxyz"',
        "password=abcdefghijklmnopqrstuvwxyz",
        "AWS_SECRET_ACCESS_KEY=abcdefghijklmnopqrstuvwxyz",
        "X-Amz-Security-Token: abcdefghijklmnopqrstuvwxyz",
        "?key=1&X-Amz-Signature=abcdefghijklmnopqrstuvwxyz&other=1",
        "Set-Cookie: jupyterhub-session-id=abcdefghijklmnopqrstuvwxyz",
    ],
)
def test_values_of_secret_fields_are_replaced(line: str) -> None:
    assert "abcdefghijklmnopqrstuvwxyz" not in Redaction({})(line)


def test_private_keys_are_removed_whole() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\nabc\n-----END PRIVATE KEY-----"
    assert Redaction({})(f"a\n{key}\nb") == "a\n(key or certificate removed)\nb"


@pytest.mark.parametrize(
    "text",
    [
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ",
        "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEF\\n-----END PRIVATE KEY-----",
    ],
)
def test_half_of_a_key_is_removed_too(text: str) -> None:
    assert "MIIE" not in Redaction({})(text)
    assert "BKcw" not in Redaction({})(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("at fd00:1234::5", "1234"),
        ("at [2600:1f18:1234:5600:abcd:ef01:2345:6789]:8888", "1f18"),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com", "123456789012"),
        ("bucket-123456789012-logs", "123456789012"),
        ("https://ann:p%40ss@host/x", "p%40ss"),
        ("x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.dozjgNryP4J3jVmNHl0w5N", "dozjg"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F"),
        ("ABCDEF0123456789ABCDEF0123456789", "ABCDEF"),
        ("tok_0123456789abcdef01234567", "0123456789abcdef"),
        ("Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "bPxRfi"),
    ],
)
def test_other_forms_of_secrets_are_replaced(text: str, secret: str) -> None:
    assert secret not in Redaction({})(text)


def test_json_stays_json_and_loses_the_values_of_secret_keys() -> None:
    call = {
        "action": "CreateFleet",
        "parameters": {"HttpTokens": "required", "Password": 'x"\\y', "Nested": [{"Token": "t"}]},
        "answer": {"NextToken": None, "Text": '{"token": "abc-def"}', "Count": 3},
    }
    (line,) = Redaction({}).json_lines(json.dumps(call)).splitlines()
    found = json.loads(line)
    assert found["parameters"] == {
        "HttpTokens": "required",
        "Password": "SECRET",
        "Nested": [{"Token": "SECRET"}],
    }
    assert found["answer"]["NextToken"] is None
    assert found["answer"]["Count"] == 3
    assert "abc" not in found["answer"]["Text"]


def test_values_of_tags_are_replaced_but_for_ours() -> None:
    tags = [{"Key": "owner", "Value": "ann"}, {"Key": "ec2spawner:hub", "Value": "demo"}]
    found = Redaction({}).value({"Tags": tags})
    assert found == {"Tags": [{"Key": "owner", "Value": "TAG"}, tags[1]]}


@pytest.mark.parametrize(
    "text", ["a-", "-----BEGIN A-----", "token", "a:", "a.", "x\n", "://", 'token="', "A1", "f"]
)
def test_hostile_text_takes_no_longer_than_other_text(text: str) -> None:
    began = time.process_time()
    Redaction({})((text * 200_000)[:200_000])
    assert time.process_time() - began < 10


def test_the_same_value_has_the_same_word_in_all_texts() -> None:
    redact = Redaction({})
    first, second = redact("10.0.0.5 10.0.0.6"), redact("ip-10-0-0-6.ec2.internal 10.0.0.5")
    assert first == "ADDRESS-1 ADDRESS-2"
    assert second == "ip-ADDRESS-2.ec2.internal ADDRESS-1"


def test_what_is_no_secret_stays() -> None:
    line = (
        "i-0a1b2c3d4e5f60718 vol-0a1b2c3d4e5f60718 g4dn.xlarge 169.254.169.254 127.0.0.1 "
        "2026-11-22T15:30:00.123Z us-east-1a ec2spawner 0.1.0 driver 595.91.07 $0.5260/h"
    )
    assert Redaction({})(line) == line


@given(st.text(max_size=300))
def test_any_text_is_redacted_once_and_for_all(text: str) -> None:
    redact = Redaction({"host": "HOST"})
    once = redact(text)
    assert redact(once) == once
