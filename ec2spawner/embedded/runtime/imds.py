"""The instance metadata service: one listener on each instance's own address.

Only IMDSv2 is answered: a token by PUT first, then GET with it. Real instances find the service
at 169.254.169.254, which only the instance can reach; these find it by
`AWS_EC2_METADATA_SERVICE_ENDPOINT`. Every user of the laptop can reach a loopback address, so the
endpoint's path is secret. The power button, the page cache and systemd's control groups are here,
too, because this listener knows the instance by its address.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from ..api.access_keys import AccessKey
from ..api.loopback import NoBrowsers
from .identity import IdentitySigner
from .instance import SimulatedInstance, aws_instant

PORT = 1338
"""The port on every instance's address: amazon-ec2-metadata-mock's."""

MAX_TOKEN_SECONDS = 21600
TOKENS_KEPT = 1000

KEY_LIFETIME = timedelta(hours=6)
"""How long a role's credentials say that they are valid, as EC2's; a client asks again then."""

PowerButton = Callable[[Literal["off", "reboot"]], None]

Flush = Callable[[], Awaitable[None]]

KillUnit = Callable[[str, float], Awaitable[None]]
"""Ends all that a unit has started, killing what is left after so many seconds."""

VERSIONS = r"(?:latest|1\.0|\d{4}-\d\d-\d\d)"
"""Each version of the service has a path; clients such as cloud-init ask for one by its date."""


def metadata_application(
    instance: SimulatedInstance, signer: IdentitySigner, role_key: AccessKey | None
) -> Application:
    """EC2's part of the service."""
    tokens = _Tokens()
    paths = _Paths(instance, signer, role_key)
    return Application(
        [
            (r"/latest/api/token", _TokenHandler, {"tokens": tokens}),
            (rf"/{VERSIONS}/(.*)", _MetadataHandler, {"tokens": tokens, "paths": paths}),
        ],
        log_function=lambda handler: None,
    )


class MetadataService:
    """Answers for one instance until `close`."""

    def __init__(
        self,
        instance: SimulatedInstance,
        signer: IdentitySigner,
        power: PowerButton,
        flush: Flush,
        kill_unit: KillUnit,
        role_key: AccessKey | None,
    ) -> None:
        """Listen. Raises OSError when the address and port are taken."""
        host = f"{instance.address}:{PORT}"
        root = f"/{secrets.token_urlsafe(16)}"
        self.endpoint = f"http://{host}{root}"
        application = metadata_application(instance, signer, role_key)
        button = (r"/embedded/power/(off|reboot)", _PowerHandler, {"power": power})
        cache = (r"/embedded/flush", _FlushHandler, {"flush": flush})
        kill = (r"/embedded/units/([\w.-]+)/kill/([\d.]+)", _KillHandler, {"kill_unit": kill_unit})
        application.add_handlers(".*", [button, cache, kill])
        served = NoBrowsers(application, {host}, root)
        self._server = HTTPServer(served, max_body_size=4096)
        self._server.add_sockets(bind_sockets(PORT, instance.address))

    async def close(self) -> None:
        """Close the port: the instance is off."""
        self._server.stop()
        await self._server.close_all_connections()


class _Tokens:
    def __init__(self) -> None:
        self._expiry: dict[str, float] = {}

    def issue(self, seconds: int) -> str:
        if len(self._expiry) >= TOKENS_KEPT:
            del self._expiry[next(iter(self._expiry))]
        token = secrets.token_urlsafe(40)
        self._expiry[token] = time.monotonic() + seconds
        return token

    def valid(self, token: str) -> bool:
        return self._expiry.get(token, 0.0) > time.monotonic()


class _Paths:
    """What is at which path below `/latest/`; None where AWS answers 404."""

    def __init__(
        self, instance: SimulatedInstance, signer: IdentitySigner, role_key: AccessKey | None
    ) -> None:
        self._instance = instance
        self._role_key = role_key
        self._document = instance.identity_document()
        self._signature = signer.sign(self._document.encode())

    def get(self, path: str) -> str | bytes | None:
        match path:
            case "dynamic/instance-identity":
                return "document\nrsa2048"
            case "dynamic/instance-identity/document":
                return self._document
            case "dynamic/instance-identity/rsa2048":
                return self._signature
            case "user-data":
                return self._instance.user_data or None
        if path == "meta-data" or path.startswith("meta-data/"):
            return self._metadata(path.removeprefix("meta-data").strip("/"))
        return None

    def _metadata(self, path: str) -> str | None:
        values = self._values()
        if path in values:
            return values[path]
        prefix = f"{path}/" if path else ""
        below = [name.removeprefix(prefix) for name in values if name.startswith(prefix)]
        listing = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in below})
        return "\n".join(listing) or None

    def _values(self) -> dict[str, str]:
        instance = self._instance
        host = f"ip-{instance.address.replace('.', '-')}.ec2.internal"
        values = {
            "ami-id": instance.image_id,
            "hostname": host,
            "instance-id": instance.instance_id,
            "instance-life-cycle": instance.market,
            "instance-type": instance.instance_type,
            "local-hostname": host,
            "local-ipv4": instance.address,
            "placement/availability-zone": instance.zone,
            "placement/region": instance.region,
            "services/domain": "amazonaws.com",
            "services/partition": "aws",
        }
        if self._role_key is not None:
            name = instance.instance_profile
            values[f"iam/security-credentials/{name}"] = _role_credentials(self._role_key)
        if instance.interruption_at is not None:
            at = aws_instant(instance.interruption_at)
            values["spot/instance-action"] = json.dumps({"action": "terminate", "time": at})
            values["spot/termination-time"] = at
        if instance.rebalance_at is not None:
            values["events/recommendations/rebalance"] = json.dumps(
                {"noticeTime": aws_instant(instance.rebalance_at)}
            )
        active = [each.in_metadata() for each in instance.events if each.state == "active"]
        over = [each.in_metadata() for each in instance.events if each.state != "active"]
        values["events/maintenance/scheduled"] = json.dumps(active)
        values["events/maintenance/history"] = json.dumps(over)
        return values


def _role_credentials(key: AccessKey) -> str:
    now = datetime.now(UTC)
    return json.dumps(
        {
            "Code": "Success",
            "LastUpdated": aws_instant(now),
            "Type": "AWS-HMAC",
            "AccessKeyId": key.id,
            "SecretAccessKey": key.secret,
            "Token": key.session_token,
            "Expiration": aws_instant(now + KEY_LIFETIME),
        }
    )


class _TokenHandler(RequestHandler):
    def initialize(self, tokens: _Tokens) -> None:
        self._tokens = tokens

    def put(self) -> None:
        if "X-Forwarded-For" in self.request.headers:
            raise HTTPError(403)
        asked = self.request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if not asked.isdigit() or not 1 <= int(asked) <= MAX_TOKEN_SECONDS:
            raise HTTPError(400)
        self.set_header("Content-Type", "text/plain")
        self.set_header("X-aws-ec2-metadata-token-ttl-seconds", asked)
        self.finish(self._tokens.issue(int(asked)))


class _MetadataHandler(RequestHandler):
    def initialize(self, tokens: _Tokens, paths: _Paths) -> None:
        self._tokens = tokens
        self._paths = paths

    def get(self, path: str) -> None:
        if not self._tokens.valid(self.request.headers.get("X-aws-ec2-metadata-token", "")):
            raise HTTPError(401)
        found = self._paths.get(path.rstrip("/"))
        if found is None:
            raise HTTPError(404)
        self.set_header("Content-Type", "text/plain")
        self.finish(found)


class _PowerHandler(RequestHandler):
    def initialize(self, power: PowerButton) -> None:
        self._power = power

    def put(self, what: Literal["off", "reboot"]) -> None:
        self.set_status(204)
        self.finish()
        self._power(what)


class _FlushHandler(RequestHandler):
    def initialize(self, flush: Flush) -> None:
        self._flush = flush

    async def put(self) -> None:
        await self._flush()
        self.set_status(204)


class _KillHandler(RequestHandler):
    def initialize(self, kill_unit: KillUnit) -> None:
        self._kill_unit = kill_unit

    async def put(self, unit: str, grace: str) -> None:
        await self._kill_unit(unit, float(grace))
        self.set_status(204)
