"""The gateway: EC2's Query protocol over HTTP, in front of moto.

A call without a valid signature is refused. Any other call is logged, may get an injected fault,
takes its tokens, is authorized by the policy of its key, and is then answered: by the gateway where
moto would be wrong, else by moto verbatim.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from .. import faults, read_lag
from ..api import json_service, pagination, protocol
from ..api.access_keys import AccessKeys, Caller, Denial, DeniedError
from ..api.json_service import JsonService
from ..api.moto_backend import Moto, RawResponse
from ..api.protocol import EC2Error
from ..faults import ConnectionCutError, Faults, PlainServerError
from ..images import Images
from ..instances.actions import Instances
from ..instances.capacity_reservations import CapacityReservations
from ..instances.fleet import Fleets
from ..instances.group_actions import SecurityGroups
from ..instances.placement_groups import PlacementGroups
from ..instances.reservations import Reservations
from ..instances.scheduled_events import ScheduledEvents
from ..market import type_listing
from ..market.price_history import price_history
from ..market.prices import SpotPrices
from ..network import Network
from ..read_lag import ReadLag
from ..storage.snapshots import Snapshots
from ..storage.volumes import Volumes
from . import filters, resource_ids, tag_rules
from .authorization import Authorization
from .call_log import Calls
from .dry_run import DryRuns
from .idempotency import ClientTokens
from .missing_resources import References
from .throttle import Throttle

log = logging.getLogger(__name__)

SERVICES = frozenset(("ec2 freetier iam monitoring pricing servicequotas sqs ssm sts").split())
"""AWS services on this one endpoint; the request's signature names the service."""

EC2_DENIALS = {
    Denial.MISSING: ("MissingAuthenticationToken", 403),
    Denial.UNKNOWN_KEY: ("AuthFailure", 401),
    Denial.BAD_SIGNATURE: ("AuthFailure", 401),
    Denial.EXPIRED: ("RequestExpired", 400),
    Denial.NOT_ALLOWED: ("UnauthorizedOperation", 403),
}
"""Code and HTTP status of EC2."""
QUERY_DENIALS = {
    Denial.MISSING: ("MissingAuthenticationToken", 403),
    Denial.UNKNOWN_KEY: ("InvalidClientTokenId", 403),
    Denial.BAD_SIGNATURE: ("SignatureDoesNotMatch", 403),
    Denial.EXPIRED: ("RequestExpired", 400),
    Denial.NOT_ALLOWED: ("AccessDenied", 403),
}
"""Those of IAM and STS."""
JSON_DENIALS = {
    Denial.MISSING: ("MissingAuthenticationTokenException", 400),
    Denial.UNKNOWN_KEY: ("UnrecognizedClientException", 400),
    Denial.BAD_SIGNATURE: ("InvalidSignatureException", 400),
    Denial.EXPIRED: ("RequestExpired", 400),
    Denial.NOT_ALLOWED: ("AccessDeniedException", 400),
}
"""Those of the services that speak JSON."""
DENIALS_OF_POLICY = {False: "AccessDenied", True: "AccessDeniedException"}
"""Code of a call to another service that the policy denies, by whether that speaks JSON."""

CREATED_ID = {
    "CopyVolumes": "VolumeId",
    "CreateSnapshot": "SnapshotId",
    "CreateVolume": "VolumeId",
}
"""Action -> the member that has the id of what it created, in its answer or in `Volumes` there."""

CLOSING_TIMEOUT = 10.0
"""Seconds for current calls to end when the gateway closes."""

Answer = dict[str, Any]
Action = Callable[[Mapping[str, Any]], Awaitable[Answer]]


class Gateway:
    """Answers API requests, any number concurrently."""

    def __init__(
        self,
        moto: Moto,
        network: Network,
        instances: Instances,
        fleets: Fleets,
        volumes: Volumes,
        snapshots: Snapshots,
        images: Images,
        authorization: Authorization,
        references: References,
        prices: SpotPrices,
        reservations: Reservations,
        capacity_reservations: CapacityReservations,
        scheduled_events: ScheduledEvents,
        groups: SecurityGroups,
        placement_groups: PlacementGroups,
        dry_runs: DryRuns,
        json_services: Mapping[str, JsonService],
        throttle: Throttle,
        faults: Faults,
        lag: ReadLag,
        calls: Calls,
    ) -> None:
        self._moto = moto
        self._lag = lag
        moto.former_tags = lag.former_tags
        self._instances = instances
        self._volumes = volumes
        self._fleets = fleets
        self._authorization = authorization
        self._references = references
        self._dry_runs = dry_runs
        self._json_services = json_services
        self._throttle = throttle
        self._faults = faults
        self._calls = calls
        self._tokens = ClientTokens()
        self._under_way: set[asyncio.Task[RawResponse]] = set()
        self._actions: dict[str, Action] = {
            "AttachVolume": volumes.attach,
            "CancelCapacityReservation": capacity_reservations.cancel,
            "CreateCapacityReservation": capacity_reservations.create,
            "CopyVolumes": volumes.copy,
            "CreatePlacementGroup": placement_groups.create,
            "CreateSnapshot": snapshots.create,
            "CreateVolume": volumes.create,
            "DeletePlacementGroup": placement_groups.delete,
            "DeleteSecurityGroup": groups.delete,
            "DeleteSnapshot": snapshots.delete,
            "DeleteVolume": volumes.delete,
            "DescribeCapacityReservations": capacity_reservations.describe,
            "DescribeInstanceStatus": scheduled_events.describe,
            "DescribeInstanceTypeOfferings": lambda p: type_listing.offerings(moto, p),
            "DescribePlacementGroups": placement_groups.describe,
            "DescribeReservedInstances": reservations.describe,
            "DescribeSnapshots": lambda p: snapshots.describe(p, lag.hides),
            "DescribeSpotPriceHistory": lambda p: price_history(prices, network, p),
            "DetachVolume": volumes.detach,
            "GetConsoleOutput": instances.console,
            "GetEbsDefaultKmsKeyId": volumes.default_key,
            "ModifyInstanceAttribute": instances.modify_attribute,
            "ModifyVolume": volumes.modify,
            "RebootInstances": instances.reboot,
            "RegisterImage": images.register,
            "RunInstances": instances.run,
            "StartInstances": instances.start,
            "StopInstances": instances.stop,
            "TerminateInstances": instances.terminate,
        }

    async def answer(
        self, caller: Caller, body: bytes, headers: Mapping[str, str], client_gone: asyncio.Event
    ) -> RawResponse:
        """The response, or error response, to a validly signed request.

        Raises `ConnectionCutError` or `PlainServerError` as injected faults. A request that has
        arrived takes effect even if its client disconnects.
        """
        task = asyncio.ensure_future(self._logged_answer(caller, body, headers, client_gone))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for current calls."""
        await self._tokens.close()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSING_TIMEOUT)

    async def _logged_answer(
        self, caller: Caller, body: bytes, headers: Mapping[str, str], client_gone: asyncio.Event
    ) -> RawResponse:
        target = headers.get("X-Amz-Target", "")
        form = protocol.parse_form(body) if not target else {}
        action = target.rpartition(".")[2] or form.get("Action", "")
        call = self._calls.received(action)
        kind = self._faults.next_for(action)
        try:
            if kind is not None and kind != faults.CUT_AFTER:
                call["outcome"] = kind
                await faults.inject(kind, client_gone)
            with read_lag.for_call(headers):
                answer = await self._answer(caller, action, form, body, headers)
            if kind is not None:
                call["outcome"] = kind
                raise ConnectionCutError
            call["outcome"] = "ok" if answer.status < 400 else _error_code(answer)
            return answer
        except EC2Error as error:
            if kind == faults.CUT_AFTER:  # whatever the response was
                call["outcome"] = kind
                raise ConnectionCutError from error
            call["outcome"] = error.code
            return _error_answer(error, as_json=bool(target))
        except (ConnectionCutError, PlainServerError):
            raise
        except Exception as error:
            log.exception("%s failed inside the embedded EC2", action)
            call["outcome"] = "InternalError"
            found = EC2Error("InternalError", f"embedded EC2: {error!r}")
            return _error_answer(found, as_json=bool(target))

    async def _answer(
        self,
        caller: Caller,
        action: str,
        form: Mapping[str, str],
        body: bytes,
        headers: Mapping[str, str],
    ) -> RawResponse:
        service = caller.service
        if service not in SERVICES:
            raise EC2Error("UnsupportedOperation", f"The embedded EC2 has no service {service}.")
        if service != "ec2":
            asked = form if "X-Amz-Target" not in headers else _parse_json(body)
            code = DENIALS_OF_POLICY["X-Amz-Target" in headers]
            await self._authorization.check_service(caller.key, service, action, asked, code)
            return await self._answer_json(service, action, asked) or await self._moto.forward(
                body, headers
            )
        parameters = protocol.parse_request(action, form)
        self._throttle.take(action, parameters)
        filters.check(action, parameters)
        resource_ids.check(parameters)
        tag_rules.check(parameters)
        await self._authorization.check(caller.key, action, parameters)
        await self._references.check(action, parameters)
        self._lag.check(action, parameters)
        if parameters.get("DryRun"):
            raise await self._dry_runs.refuse(action, parameters)
        if action == "DescribeInstances":
            return await self._describe_instances(parameters)
        if action == type_listing.ACTION:
            return await type_listing.describe(self._moto, parameters)
        own = self._actions.get(action)
        if action == "CreateFleet":
            refusal = await self._authorization.refusal_of_launches(caller.key, parameters)
            own = functools.partial(self._fleets.create, refusal=refusal)
        if own is None:
            return await self._answer_of_moto(action, form, parameters, headers)
        result = await self._tokens.once(action, parameters, lambda: own(parameters))
        if (member := CREATED_ID.get(action)) is not None:
            for each in result.get("Volumes", [result]):
                self._lag.created(each[member])
        # Rendering a page of prices takes tens of milliseconds.
        rendered = await asyncio.to_thread(protocol.render, action, result)
        return RawResponse(200, protocol.CONTENT_TYPE, rendered)

    async def _answer_of_moto(
        self,
        action: str,
        form: Mapping[str, str],
        parameters: Mapping[str, Any],
        headers: Mapping[str, str],
    ) -> RawResponse:
        if pagination.listed(action) is None:
            former = await self._tags_to_change(action, parameters)
            answer = await self._moto.forward(urlencode(form).encode(), headers)
            if answer.status < 300:
                await self._changed(action, parameters, answer, former)
            return answer
        page = pagination.asked(action, parameters)
        everything = urlencode(pagination.without_page(form)).encode()
        answer = await self._moto.forward(everything, headers)
        if answer.status >= 300:
            return answer
        cut, hides = pagination.cut, self._lag.hides
        shown = await asyncio.to_thread(cut, action, answer.body, page, hides)
        return RawResponse(answer.status, answer.content_type, shown)

    async def _tags_to_change(
        self, action: str, parameters: Mapping[str, Any]
    ) -> Mapping[str, Mapping[str, str]]:
        """The present tags of the resources whose tags the call changes, by id."""
        if action not in ("CreateTags", "DeleteTags"):
            return {}
        ids = parameters.get("Resources") or ()

        def read() -> dict[str, dict[str, str]]:
            tags = self._moto.backend.tags
            return {each: dict(tags.get(each, {})) for each in ids}

        return await self._moto.run(read)

    async def _changed(
        self,
        action: str,
        parameters: Mapping[str, Any],
        answer: RawResponse,
        former_tags: Mapping[str, Mapping[str, str]],
    ) -> None:
        """After a call of moto's that took effect."""
        if former_tags:
            for resource_id, tags in former_tags.items():
                self._lag.tagged(resource_id, tags)
            await self._volumes.tags_changed(parameters)
        elif action == "CreateSecurityGroup":
            if (found := re.search(rb"<groupId>([^<]+)<", answer.body)) is not None:
                self._lag.created(found[1].decode())
        elif action == "CreateLaunchTemplate":
            found = re.search(rb"<launchTemplateId>([^<]+)<", answer.body)
            if found is not None:
                name = parameters.get("LaunchTemplateName", "")
                self._lag.template_created(found[1].decode(), name)

    async def _answer_json(
        self, service: str, action: str, asked: Mapping[str, Any]
    ) -> RawResponse | None:
        """A JSON service's own response; None if moto answers."""
        if service not in self._json_services:
            return None
        answer = await self._json_services[service].answer(action, asked)
        if answer is None:
            return None
        return RawResponse(200, json_service.CONTENT_TYPE, json.dumps(answer).encode())

    async def _describe_instances(self, parameters: Mapping[str, Any]) -> RawResponse:
        """The gateway selects the page, moto renders it."""
        ids, token = await self._instances.page(parameters, self._lag.hides)
        if not ids:
            empty = protocol.render("DescribeInstances", {"Reservations": []})
            return RawResponse(200, protocol.CONTENT_TYPE, empty)
        fields = {f"Filter.1.Value.{n}": name for n, name in enumerate(ids, 1)}
        answer = await self._moto.forward_call(
            "DescribeInstances",
            {**fields, "Filter.1.Name": "instance-id", "MaxResults": str(len(ids))},
        )
        body = self._instances.with_reservations(ids, answer.body)
        shown = pagination.with_token("DescribeInstances", body, token)
        return RawResponse(answer.status, answer.content_type, shown)


class GatewayHandler(RequestHandler):
    """`POST /` on the endpoint."""

    def initialize(self, gateway: Gateway, keys: AccessKeys) -> None:
        """Called by tornado for each request."""
        self._gateway = gateway
        self._keys = keys
        self._client_gone = asyncio.Event()

    async def post(self) -> None:
        """Authenticate and answer one call; errors have the format of the called service."""
        try:
            caller = self._keys.authenticate(self.request)
            answer = await self._gateway.answer(
                caller, self.request.body, self.request.headers, self._client_gone
            )
        except DeniedError as error:
            answer = _denied_answer(error, as_json="X-Amz-Target" in self.request.headers)
        except ConnectionCutError:
            self._cut()
            return
        except PlainServerError:
            self.set_status(500)
            self.set_header("Content-Type", "text/html")
            self.finish("<html><body><h1>Internal Server Error</h1></body></html>")
            return
        self.set_status(answer.status)
        self.set_header("Content-Type", answer.content_type)
        self.finish(answer.body)

    def on_connection_close(self) -> None:
        """End a call that hangs by an injected fault: its caller has disconnected."""
        self._client_gone.set()

    def log_exception(self, *error: Any) -> None:
        """A client that disconnects is no error of the simulation."""
        if not isinstance(error[1], StreamClosedError):
            super().log_exception(*error)

    def _cut(self) -> None:
        """Close the connection as if the network had."""
        stream = self.detach()
        stream.close()


def _parse_json(body: bytes) -> Mapping[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise EC2Error("SerializationException", f"The body is not JSON: {error}") from error
    if not isinstance(asked, dict):
        raise EC2Error("SerializationException", "The body is not an object.")
    return asked


def _denied_answer(error: DeniedError, as_json: bool) -> RawResponse:
    codes = JSON_DENIALS if as_json else EC2_DENIALS if error.service == "ec2" else QUERY_DENIALS
    code, status = codes[error.denial]
    return _error_answer(EC2Error(code, str(error), status), as_json)


def _error_code(answer: RawResponse) -> str:
    text = answer.body.decode(errors="replace")
    found = re.search(r"<Code>([^<]+)</Code>", text) or re.search(r'"__type": ?"([^"]+)"', text)
    return found[1] if found else f"HTTP {answer.status}"


def _error_answer(error: EC2Error, as_json: bool) -> RawResponse:
    if as_json:
        body = json.dumps({"__type": error.code, "message": error.message}).encode()
        return RawResponse(error.status, json_service.CONTENT_TYPE, body)
    return RawResponse(error.status, protocol.CONTENT_TYPE, protocol.render_error(error))
