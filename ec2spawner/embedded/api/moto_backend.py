"""moto's EC2 in this process: spoken to in its wire format, touched inside only where it must be.

moto holds the resources (networks, images, templates, volumes, instances) and words the
answers. Calls go through its WSGI application, as a form in and XML out. What cannot be
set over the wire, the state of an instance by another clock than its own, is set on its
objects; `tests/integration/embedded/test_moto_contract.py` holds what we rely on there.

moto's world is one per process and not safe across threads: every call of every embedded EC2
takes one lock, in a thread of its own. Each embedded EC2 is its own AWS account, so that several
in one process do not see each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote, urlencode

from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from . import protocol
from .protocol import EC2Error

T = TypeVar("T")

CALL_TIMEOUT = 60.0
"""Seconds for one call into moto, in the queue included: its slowest listing takes seconds."""

API_VERSIONS = {"ec2": "2016-11-15", "iam": "2010-05-08"}

_CHANGES_NETWORK: Final = re.compile(
    rb"\bAction=(?!Describe)\w*(?:SecurityGroup|NetworkAcl|Subnet|Vpc)"
)
"""A call after which security groups or network ACLs may be others."""

_MOTO_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response of moto to an EC2 call, unparsed."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """A response of moto to a REST call, such as of S3, unparsed."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Moto:
    """One account and region of moto.

    Every call works in moto's thread, one after the other. Errors of moto come as `EC2Error`, also
    those that it would answer as an HTML page.
    """

    def __init__(self, account: str, region: str) -> None:
        self.account = account
        self.region = region
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moto")
        self._application: Any = None
        self.former_tags: Callable[[str], Mapping[str, str] | None] = lambda _: None
        """The tags that a listing shows in place of a resource's own; None for its own."""
        self._network: dict[tuple[str, str], Sequence[Mapping[str, Any]]] = {}
        self._serializer = create_serializer("ec2", include_validation=False)
        self._parser = create_parser("ec2")

    async def start(self) -> None:
        """Import moto and make an empty account: no image, no network."""
        await self.run(self._start)

    async def close(self) -> None:
        """Forget the account and end the thread; other accounts of this process stay."""
        await self.run(self._forget_account)
        self._thread.shutdown(wait=False)

    async def run(self, work: Callable[[], T]) -> T:
        """Do `work` in moto's thread, while nothing else is done there.

        Not `asyncio.wait_for`: before Python 3.12, a cancellation that meets the end of the work
        is lost there.
        """
        async with asyncio.timeout(CALL_TIMEOUT):
            return await self.begin(work)

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Begin `work` as `run` does, without waiting for it.

        It is done before the work of any later call, in the caller's context.
        """

        def locked() -> T:
            with _MOTO_LOCK:
                return work()

        return asyncio.get_running_loop().run_in_executor(self._thread, copy_context().run, locked)

    async def call(self, action: str, **parameters: Any) -> dict[str, Any]:
        """An EC2 action with boto3's parameters; returns boto3's answer."""
        return await self.run(lambda: self.call_here(action, **parameters))

    async def forward(self, body: bytes, headers: Mapping[str, str]) -> RawResponse:
        """A client's own request, answered by moto word for word."""
        return await self.run(lambda: self._request("/", body, headers))

    async def forward_call(
        self, action: str, fields: Mapping[str, str], service: str = "ec2"
    ) -> RawResponse:
        """An action by its form's fields, answered by moto word for word."""
        body = urlencode({"Action": action, "Version": API_VERSIONS[service], **fields}).encode()
        return await self.forward(body, self.headers(service))

    async def instance_profile_arn(self, name: str) -> str | None:
        """The ARN of IAM's instance profile of this name; None where there is none."""
        answer = await self.forward_call(
            "GetInstanceProfile", {"InstanceProfileName": name}, service="iam"
        )
        found = re.search(rb"<InstanceProfile>.*?<Arn>(.*?)</Arn>", answer.body, re.DOTALL)
        return found[1].decode() if answer.status < 300 and found else None

    async def forward_rest(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> RestAnswer:
        """A client's own request to S3, bucket in the path, answered by moto word for word."""
        return await self.run(lambda: self._rest(method, path, body, headers))

    def _rest(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> RestAnswer:
        from werkzeug.test import EnvironBuilder, run_wsgi_app

        path, _, query = path.partition("?")
        own = {"host", "content-length", "connection", "x-moto-account-id"}
        passed_on = {name: value for name, value in headers.items() if name.lower() not in own}
        environ = EnvironBuilder(
            unquote(path),
            method=method,
            query_string=query,
            base_url=f"http://s3.{self.region}.amazonaws.com/",
            data=body,
            headers=[*passed_on.items(), ("x-moto-account-id", self.account)],
        ).get_environ()
        try:
            chunks, status, answered = run_wsgi_app(self._application, environ, buffered=True)
        except Exception as error:
            message = f"The embedded S3 does not do this: {error}"
            raise EC2Error("NotImplemented", message) from error
        return RestAnswer(int(status.split()[0]), list(answered.items()), b"".join(chunks))

    def call_here(self, action: str, **parameters: Any) -> dict[str, Any]:
        """`call` for work that already is in moto's thread."""
        operation = protocol.operation(action)
        form = self._serializer.serialize_to_request(parameters, operation)["body"]
        answer = self._request("/", urlencode(form).encode(), self.headers("ec2"))
        parsed = self._parser.parse(
            {"body": answer.body, "headers": {}, "status_code": answer.status},
            operation.output_shape,  # type: ignore[arg-type]  # None where there is no answer
        )
        if answer.status >= 300:
            error = parsed["Error"]
            raise EC2Error(error["Code"], error["Message"] or "")
        return cast(dict[str, Any], parsed)

    def list_in_vpc(self, kind: str, vpc_id: str) -> Sequence[Mapping[str, Any]]:
        """A VPC's resources of a kind, such as `SecurityGroups`; for work in moto's thread.

        Read again after a call that changes the network, not for each instance that boots.
        """
        if (found := self._network.get((kind, vpc_id))) is None:
            in_vpc = [{"Name": "vpc-id", "Values": [vpc_id]}]
            found = self.call_here(f"Describe{kind}", Filters=in_vpc)[kind]
            self._network[kind, vpc_id] = found
        return found

    def headers(self, service: str) -> dict[str, str]:
        """Headers by which moto knows service, region and account."""
        return {
            "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
            "Authorization": (
                f"AWS4-HMAC-SHA256 Credential=EMBEDDED/20260101/{self.region}/{service}"
                "/aws4_request, SignedHeaders=host, Signature=none"
            ),
        }

    @property
    def backend(self) -> Any:
        """moto's own store of this account's EC2. Only inside `run`."""
        from moto.ec2.models import ec2_backends

        return ec2_backends[self.account][self.region]

    def instance(self, instance_id: str) -> Any:
        """moto's own object of an instance. Only inside `run`."""
        return self.backend.get_instance(instance_id)

    def _start(self) -> None:
        self._application = _application()
        with _no_default_images():
            for subnet in self.call_here("DescribeSubnets")["Subnets"]:
                self.call_here("DeleteSubnet", SubnetId=subnet["SubnetId"])
            for vpc in self.call_here("DescribeVpcs")["Vpcs"]:
                self.call_here("DeleteVpc", VpcId=vpc["VpcId"])
        _find_tags_by_id(self.backend, lambda resource_id: self.former_tags(resource_id))
        _name_the_spot_role()

    @contextlib.contextmanager
    def same_ids(self, seed: int) -> Iterator[None]:
        """moto draws the same ids in here at every start. Only inside `run`."""
        self._request(f"/moto-api/seed?a={seed}", b"", {})
        try:
            yield
        finally:
            self._request(f"/moto-api/seed?a={secrets.randbits(64)}", b"", {})

    def _forget_account(self) -> None:
        if self._application is not None:
            from moto.ec2.models import ec2_backends

            ec2_backends.pop(self.account, None)

    def _request(self, path: str, body: bytes, headers: Mapping[str, str]) -> RawResponse:
        from werkzeug.test import EnvironBuilder, run_wsgi_app

        environ = EnvironBuilder(
            path,
            method="POST",
            base_url=f"http://ec2.{self.region}.amazonaws.com/",
            data=body,
            headers=[*_passed_on(headers), ("x-moto-account-id", self.account)],
        ).get_environ()
        try:
            chunks, status, answered = run_wsgi_app(self._application, environ, buffered=True)
        except Exception as error:
            # moto raises through its own application what a server would answer as HTML.
            raise EC2Error(
                "UnsupportedOperation", f"The embedded EC2 does not do this: {error}"
            ) from error
        if _CHANGES_NETWORK.search(body):
            self._network.clear()
        answer = RawResponse(
            int(status.split()[0]), answered.get("Content-Type", ""), b"".join(chunks)
        )
        if "html" in answer.content_type and not path.startswith("/moto-api"):
            raise EC2Error("UnsupportedOperation", "The embedded EC2 does not do this.")
        return answer


def _application() -> Any:
    """moto's WSGI application, without what it works out anew for each request.

    It lists the folder of its services to find the one of a host name, lists the methods of a
    service to find the action, and parses each form again for a hint that Flask gives developers.
    Together that takes longer than most actions.
    """
    from moto.core import responses
    from moto.core.utils import method_names_from_class
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    def create(service: Any) -> Any:
        flask = create_backend_app(service)
        flask.debug = False
        # As in debug mode: an error is raised here, not answered as a page.
        flask.config["PROPAGATE_EXCEPTIONS"] = True
        return flask

    dispatcher = DomainDispatcherApplication(create)
    in_responses: Any = responses
    in_responses.method_names_from_class = cache(method_names_from_class)
    dispatcher.get_backend_for_host = cache(dispatcher.get_backend_for_host)  # type: ignore[method-assign]
    return dispatcher


def _passed_on(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The headers that say what a request is; the rest is between the client and the gateway."""
    names = ("Content-Type", "Authorization", "X-Amz-Target")
    return [(name, headers[name]) for name in names if name in headers]


def _find_tags_by_id(backend: Any, former_tags: Callable[[str], Mapping[str, str] | None]) -> None:
    """Look the tags of one resource up, where moto searches all tags of all resources.

    It does so for every instance that it lists, which makes a listing of 1000 take seconds.
    """
    from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix

    search = backend.describe_tags

    def describe_tags(filters: dict[str, list[str]] | None = None) -> list[dict[str, str]]:
        ids = (filters or {}).get("resource-id", [])
        if filters is None or len(filters) != 1 or len(ids) != 1 or set("*?") & set(ids[0]):
            return cast(list[dict[str, str]], search(filters))
        kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(ids[0]), "")
        former = former_tags(ids[0])
        return [
            {"resource_id": ids[0], "key": key, "value": value, "resource_type": kind}
            for key, value in (backend.tags.get(ids[0], {}) if former is None else former).items()
        ]

    backend.describe_tags = describe_tags


def _name_the_spot_role() -> None:
    """`AWSServiceRoleForEC2Spot`, where moto makes a name of the service `spot.amazonaws.com`."""
    from moto.iam.models import SERVICE_NAME_CONVERSION

    SERVICE_NAME_CONVERSION["spot"] = "EC2Spot"


@contextlib.contextmanager
def _no_default_images() -> Iterator[None]:
    """moto's table of a thousand images is of no use here and takes a second to load."""
    name = "MOTO_EC2_LOAD_DEFAULT_AMIS"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
