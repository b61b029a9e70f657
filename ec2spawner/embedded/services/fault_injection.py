"""Fault Injection Service, for one action: the interruption of spot instances.

Its REST protocol is on the same endpoint as EC2. Refused as on AWS: instances that are not spot or
not running, a notice outside of 2 to 15 minutes, a role that does not exist, and callers whose
policy does not allow it.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from tornado.web import RequestHandler

from ...core.text.strict_json import WrongBody, parsed_object
from ..api.access_keys import AccessKey, AccessKeys, Denial, DeniedError
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..instances.lifecycle import Lifecycles

SERVICE: Final = "fis"
ACTION: Final = "aws:ec2:send-spot-instance-interruptions"
ROLE: Final = "ec2spawner-rehearsal"
PRINCIPAL: Final = "fis.amazonaws.com"
SERVICE_ROLE: Final = "AWSServiceRoleForFIS"
"""The account's role, which FIS creates with the first experiment."""
NOTICE: Final = timedelta(minutes=2)
DURATION: Final = re.compile(r"PT(\d+)M")
MAX_MINUTES: Final = 15

DENIALS: Final = {
    Denial.MISSING: "MissingAuthenticationTokenException",
    Denial.UNKNOWN_KEY: "UnrecognizedClientException",
    Denial.BAD_SIGNATURE: "InvalidSignatureException",
    Denial.EXPIRED: "RequestExpired",
    Denial.NOT_ALLOWED: "AccessDeniedException",
}

Body = Mapping[str, Any]
Allow = Callable[[AccessKey, str, str, Mapping[str, str]], Awaitable[None]]
"""Raises `EC2Error` unless a key may do an action (`fis:StartExperiment`) on a resource (its ARN),
with these condition keys."""


def _random_id(prefix: str) -> str:
    return prefix + secrets.token_hex(8)


@dataclass(slots=True)
class FaultInjection:
    """Templates and experiments; in memory, and each experiment runs once."""

    moto: Moto
    lifecycles: Lifecycles
    allow: Allow
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    """Notices that are not given yet."""
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def create(self, key: AccessKey, body: Body) -> dict[str, Any]:
        """`CreateExperimentTemplate`."""
        tags = _requested(body)
        await self._allow(key, "CreateExperimentTemplate", "experiment-template/*", tags)
        await self._allow(key, "CreateExperimentTemplate", f"action/{ACTION}", tags)
        await self._allow_tags(key, "experiment-template/*", tags)
        role = str(body.get("roleArn", ""))
        await self.allow(key, "iam:PassRole", role, {"iam:passedtoservice": PRINCIPAL})
        if not await self.moto.run(lambda: self._has_role(role)):
            raise EC2Error("ValidationException", f"The role {role} cannot be assumed.", 400)
        _minutes(body)
        _targets(body)
        made = {"id": _random_id("EXT"), **body}
        self.templates[made["id"]] = made
        return {"experimentTemplate": made}

    async def delete(self, key: AccessKey, template: str) -> dict[str, Any]:
        """`DeleteExperimentTemplate`."""
        tags = _own(self.templates.get(template))
        await self._allow(key, "DeleteExperimentTemplate", f"experiment-template/{template}", tags)
        return {"experimentTemplate": self._template(self.templates.pop(template, None))}

    async def templates_of(self, key: AccessKey) -> dict[str, Any]:
        """`ListExperimentTemplates`."""
        await self.allow(key, "fis:ListExperimentTemplates", "*", {})
        return {"experimentTemplates": list(self.templates.values())}

    async def start(self, key: AccessKey, body: Body) -> dict[str, Any]:
        """`StartExperiment`: begins at once; a target that is not found fails it."""
        named = str(body.get("experimentTemplateId", ""))
        tags, found = _requested(body), self.templates.get(named)
        of_template = {**tags, **_own(found)}
        await self._allow(key, "StartExperiment", f"experiment-template/{named}", of_template)
        await self._allow(key, "StartExperiment", "experiment/*", tags)
        await self._allow_tags(key, "experiment/*", tags)
        template = self._template(found)
        await self._make_service_role(key)
        experiment: dict[str, Any] = {"id": _random_id("EXP"), "experimentTemplateId": named}
        experiment["tags"] = body.get("tags", {})
        experiment["state"] = self._run(template)
        self.experiments[experiment["id"]] = experiment
        return {"experiment": {**experiment, "state": {"status": "initiating"}}}

    async def experiment(self, key: AccessKey, named: str) -> dict[str, Any]:
        """`GetExperiment`."""
        tags = _own(self.experiments.get(named))
        await self._allow(key, "GetExperiment", f"experiment/{named}", tags)
        if named not in self.experiments:
            raise EC2Error("ResourceNotFoundException", f"There is no experiment {named}.", 404)
        return {"experiment": self.experiments[named]}

    def _run(self, template: Body) -> dict[str, str]:
        seconds = 60.0 * _minutes(template)
        for instance_id in _targets(template):
            try:
                life = self.lifecycles.get(instance_id)
            except EC2Error:
                return _failed()
            if life.offer.market != "spot" or life.state != "running":
                return _failed()
            self.lifecycles.recommend_rebalance(life)
            notice = seconds - NOTICE.total_seconds()
            interrupt = self.lifecycles.interrupt
            if notice <= 0:
                interrupt(life, NOTICE.total_seconds())
            else:
                later = asyncio.get_running_loop().call_later
                self.timers.append(later(notice, interrupt, life, NOTICE.total_seconds()))
        return {"status": "running"}

    async def _allow(
        self, key: AccessKey, action: str, resource: str, tags: Mapping[str, str]
    ) -> None:
        arn = f"arn:aws:fis:{self.moto.region}:{self.moto.account}:{resource}"
        await self.allow(key, f"fis:{action}", arn, tags)

    async def _allow_tags(self, key: AccessKey, resource: str, tags: Mapping[str, str]) -> None:
        """Require the right to tag what is created."""
        if tags:
            await self._allow(key, "TagResource", resource, tags)

    async def _make_service_role(self, key: AccessKey) -> None:
        path = f"/aws-service-role/{PRINCIPAL}/"
        arn = f"arn:aws:iam::{self.moto.account}:role{path}{SERVICE_ROLE}"
        if await self.moto.run(lambda: self._has_role(arn)):
            return
        context = {"iam:awsservicename": PRINCIPAL}
        await self.allow(key, "iam:CreateServiceLinkedRole", arn, context)
        await _create_role(self.moto, SERVICE_ROLE, path)

    def close(self) -> None:
        """Give no notice any more."""
        for timer in self.timers:
            timer.cancel()

    def _has_role(self, arn: str) -> bool:
        from moto.iam.models import iam_backends

        roles = iam_backends[self.moto.account]["aws"].roles.values()
        return any(role.arn == arn for role in roles)

    @staticmethod
    def _template(found: dict[str, Any] | None) -> dict[str, Any]:
        if found is None:
            raise EC2Error("ResourceNotFoundException", "There is no such template.", 404)
        return found


def _requested(body: Body) -> dict[str, str]:
    """The condition keys of the tags in a call."""
    return {f"aws:requesttag/{key.lower()}": value for key, value in body.get("tags", {}).items()}


def _own(found: Body | None) -> dict[str, str]:
    """The condition keys of the tags that a template or an experiment has."""
    tags = (found or {}).get("tags", {})
    return {f"aws:resourcetag/{key.lower()}": value for key, value in tags.items()}


async def create_role(moto: Moto) -> str:
    """The ARN of a new role for rehearsals, as `configs/aws/interruptions.yaml` makes it."""
    await _create_role(moto, ROLE, "/")
    return f"arn:aws:iam::{moto.account}:role/{ROLE}"


async def _create_role(moto: Moto, name: str, path: str) -> None:
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": PRINCIPAL},
                "Action": "sts:AssumeRole",
            }
        ],
    }
    fields = {"RoleName": name, "Path": path, "AssumeRolePolicyDocument": json.dumps(trust)}
    await moto.forward_call("CreateRole", fields, service="iam")


def _failed() -> dict[str, str]:
    """As FIS says it of an instance that is no spot instance, and of one that does not run."""
    return {"status": "failed", "reason": "Target resolution returned empty set"}


def _minutes(template: Body) -> int:
    try:
        [action] = template["actions"].values()
        found = DURATION.fullmatch(action["parameters"]["durationBeforeInterruption"])
        known = action["actionId"] == ACTION
    except (KeyError, ValueError, AttributeError, TypeError):
        found, known = None, False
    if not known or found is None or not 2 <= int(found[1]) <= MAX_MINUTES:
        raise EC2Error(
            "ValidationException",
            f"The embedded EC2 has the action {ACTION} alone, with a duration of PT2M to PT15M.",
            400,
        )
    return int(found[1])


def _targets(template: Body) -> list[str]:
    """Ids of the instances."""
    try:
        [target] = template["targets"].values()
        arns = target["resourceArns"]
        if target["resourceType"] != "aws:ec2:spot-instance" or not arns:
            raise ValueError(target)
        return [arn.rpartition("/")[2] for arn in arns]
    except (KeyError, ValueError, AttributeError, TypeError):
        raise EC2Error("ValidationException", "The targets are no spot instances.", 400) from None


class FaultInjectionHandler(RequestHandler):
    """The service's REST protocol."""

    def initialize(self, service: FaultInjection, keys: AccessKeys) -> None:
        """Called by tornado for each request."""
        self._service = service
        self._keys = keys

    def check_xsrf_cookie(self) -> None:
        """Not needed: pages in browsers are refused, see `api.loopback`."""

    async def _answer(self, kind: str, named: str = "") -> None:
        try:
            caller = self._keys.authenticate(self.request)
            if caller.service != SERVICE:
                raise DeniedError(Denial.NOT_ALLOWED, caller.service)
            self.finish(await self._call(caller.key, kind, named))
        except DeniedError as error:
            self._refuse(EC2Error(DENIALS[error.denial], str(error), 403))
        except EC2Error as error:
            self._refuse(error)

    async def _call(self, key: AccessKey, kind: str, named: str) -> dict[str, Any]:
        method, service = self.request.method, self._service
        if method == "GET":
            if kind == "experiments" and named:
                return await service.experiment(key, named)
            if kind == "experimentTemplates" and not named:
                return await service.templates_of(key)
        elif method == "DELETE" and kind == "experimentTemplates" and named:
            return await service.delete(key, named)
        elif method == "POST" and not named:
            start = service.start if kind == "experiments" else service.create
            try:
                return await start(key, parsed_object(self.request.body) or {})
            except WrongBody as error:
                raise EC2Error("SerializationException", str(error), 400) from error
        raise EC2Error("UnsupportedOperation", "The embedded EC2 has no such call of FIS.", 400)

    def _refuse(self, error: EC2Error) -> None:
        self.set_status(error.status)
        self.set_header("x-amzn-ErrorType", error.code)
        self.finish({"message": error.message})

    get = post = delete = _answer


ROUTE: Final = r"/(experimentTemplates|experiments)(?:/([A-Za-z0-9]+))?"
"""Before a bucket's: one named `experiments` cannot be reached here."""
