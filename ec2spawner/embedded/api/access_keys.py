"""Access keys of the embedded account, and the check of a request's signature (SigV4).

The keys and the control token are random at every start: without them a client can neither call
EC2 nor control the simulation. A hub's key may do what its policy allows, as on AWS; tests and
people have the administrator's. An instance with an instance profile has a key of its own, valid
only for S3, so that no process on an instance controls the account.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tornado.httputil import HTTPServerRequest

from ..iam.policy import Policy

_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/,\s]+)/(?P<date>\d{8})/(?P<region>[^/,\s]+)"
    r"/(?P<service>[^/,\s]+)/aws4_request,\s*SignedHeaders=(?P<headers>[^,\s]+),"
    r"\s*Signature=(?P<signature>[0-9a-f]{64})"
)


SIGNATURE_VALID: Final = timedelta(minutes=5)
"""From "Elements of an AWS API request signature"; the difference of clocks is within it."""

SERVICES_OF_HUBS: Final = frozenset(
    {"ec2", "fis", "freetier", "iam", "monitoring", "pricing", "servicequotas", "sqs", "ssm", "sts"}
)
"""The policy of a hub has nothing on S3: its instances have a role for that."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """An access key as AWS gives one out; `session_token` is empty where it does not expire."""

    id: str
    secret: str
    session_token: str = ""
    services: frozenset[str] | None = None
    """The AWS services it may call; None for all."""
    policy: Policy | None = None
    """What it may do there; None for everything."""


class Denial(Enum):
    """Why a request is refused; how that is worded depends on the service."""

    MISSING = "The request is not signed."
    UNKNOWN_KEY = "The access key is not one of this embedded EC2: it has a new one at each start."
    BAD_SIGNATURE = "The signature does not match: check the secret access key."
    EXPIRED = "The request was signed more than 5 minutes ago, or in the future: check the clock."
    NOT_ALLOWED = "This access key may not call this service."


@dataclass(frozen=True, slots=True)
class Caller:
    """Who made a validly signed request, and the AWS service that it is for."""

    key: AccessKey
    service: str


class DeniedError(Exception):
    """The request is not answered; `service` is the one it was for, as far as that is known."""

    def __init__(self, denial: Denial, service: str) -> None:
        super().__init__(denial.value)
        self.denial = denial
        self.service = service


class AccessKeys:
    """The keys that are valid now."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._keys: dict[str, AccessKey] = {}
        self.administrator = self._add(_random_key("AKIA"))
        """It may do everything."""

    def issue_for_hub(self, policy: Policy) -> AccessKey:
        """A key that may do what the policy allows, and not call S3."""
        return self._add(_random_key("AKIA", services=SERVICES_OF_HUBS, policy=policy))

    def issue_for_instance(self) -> AccessKey:
        """A key like those of a role, valid until `revoke`: for S3 alone."""
        session_token = secrets.token_urlsafe(32)
        return self._add(_random_key("ASIA", session_token, services=frozenset({"s3"})))

    def revoke(self, key: AccessKey) -> None:
        """From now on the key's signatures are refused; does nothing if it is unknown."""
        self._keys.pop(key.id, None)

    def authenticate(self, request: HTTPServerRequest) -> Caller:
        """Who made a validly signed request. Raises `DeniedError`.

        The whole signature is verified, not the key's id alone: an id is no secret to the clients
        that log it.
        """
        found = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
        if found is None:
            raise DeniedError(Denial.MISSING, "ec2")
        service = found["service"].lower()
        key = self._keys.get(found["key"])
        if key is None:
            raise DeniedError(Denial.UNKNOWN_KEY, service)
        if not hmac.compare_digest(_signature(request, key, found.groupdict()), found["signature"]):
            raise DeniedError(Denial.BAD_SIGNATURE, service)
        if not _is_current(request.headers.get("X-Amz-Date", ""), self._now()):
            raise DeniedError(Denial.EXPIRED, service)
        if key.services is not None and service not in key.services:
            raise DeniedError(Denial.NOT_ALLOWED, service)
        return Caller(key, service)

    def _add(self, key: AccessKey) -> AccessKey:
        self._keys[key.id] = key
        return key


def _is_current(signed_at: str, now: datetime) -> bool:
    try:
        at = datetime.strptime(signed_at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return abs(now - at) <= SIGNATURE_VALID


def _random_key(
    prefix: str,
    session_token: str = "",
    *,
    services: frozenset[str] | None = None,
    policy: Policy | None = None,
) -> AccessKey:
    key_id = prefix + base64.b32encode(secrets.token_bytes(10)).decode()
    return AccessKey(key_id, secrets.token_urlsafe(30), session_token, services, policy)


def _signature(request: HTTPServerRequest, key: AccessKey, scope: Mapping[str, str]) -> str:
    """The signature that this request must have: botocore's own arithmetic, done again."""
    headers = {name: request.headers.get(name, "") for name in scope["headers"].split(";")}
    signed = AWSRequest(
        method=request.method,
        url=f"http://{request.host}{request.uri}",
        headers=headers,
        data=request.body,
    )
    signed.context["timestamp"] = request.headers.get("X-Amz-Date", "")
    kind = S3SigV4Auth if scope["service"] == "s3" else SigV4Auth
    signer = kind(Credentials(key.id, key.secret), scope["service"], scope["region"])
    text = signer.string_to_sign(signed, signer.canonical_request(signed))
    return str(signer.signature(text, signed))
