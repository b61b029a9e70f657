"""An EC2 for thousands of instances: what the hub asks all the time, answered from memory.

The embedded EC2 needs seconds for a list of 2,000 instances, because moto does. This endpoint
stands before it: instances and volumes are answered here, everything else (types, prices, images,
launch templates, quotas) is signed again and passed on. The wire format is that of botocore's
model, and with AWS's token buckets on, `Throttle` of the embedded EC2 decides.

It accepts more than EC2 does: no permissions, no capacity, no read-after-write lag. The part
`starts100` and all tests use the embedded EC2.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from ec2spawner.embedded.api import protocol
from ec2spawner.embedded.api.protocol import EC2Error
from ec2spawner.embedded.gateway.call_log import Calls
from ec2spawner.embedded.gateway.throttle import Throttle
from tests.bench.scale.rig.canned_resources import (
    CannedInstance,
    CannedVolume,
    now,
    page_of,
    selected,
)

HOST = "127.0.0.1"

NETWORK = 127, 200
"""First numbers of the instances' addresses; the embedded EC2 uses 127.64 to 127.126."""

ROOT_DEVICE = "/dev/sda1"

TERMINATED_VISIBLE_SECONDS = 60.0
"""How long a terminated instance stays listed, as the embedded EC2's."""

SHUTDOWN_SECONDS = 1.0

PASSED_HEADERS = ("Content-Type", "X-Amz-Target")
"""All that the services read; each header that is passed on is signed."""


class CannedEC2:
    """The account, and the endpoint on which the hub calls it."""

    def __init__(
        self, described: Mapping[str, Any], launched: Callable[[CannedInstance], None]
    ) -> None:
        """`described`: of the embedded EC2 behind it. `launched` hears of each new instance."""
        self._described = described
        self._launched = launched
        self._zones = dict(zip(described["subnets"], described["zones"], strict=True))
        self._numbers = itertools.count(1)
        self._fleets: dict[str, dict[str, Any]] = {}
        """By client token, what was answered."""
        self.instances: dict[str, CannedInstance] = {}
        self.volumes: dict[str, CannedVolume] = {}
        self.throttle = Throttle()
        self.calls = Calls()
        self._http = AsyncHTTPClient()
        self.url = ""
        self._actions: dict[str, Callable[[dict[str, Any]], dict[str, Any] | bytes]] = {
            "AttachVolume": self._attach_volume,
            "CreateFleet": self._create_fleet,
            "CreateTags": self._create_tags,
            "CreateVolume": self._create_volume,
            "DeleteVolume": self._delete_volume,
            "DescribeInstances": self._describe_instances,
            "DescribeVolumes": self._describe_volumes,
            "DetachVolume": self._detach_volume,
            "TerminateInstances": self._terminate_instances,
        }

    def listen(self) -> Callable[[], None]:
        """Serve on a free port from now on; call what is returned to end that."""
        sockets = bind_sockets(0, HOST)
        self.url = f"http://{HOST}:{sockets[0].getsockname()[1]}"
        application = Application(
            [(r"/.*", _Handler, {"ec2": self})], log_function=lambda handler: None
        )
        server = HTTPServer(application)
        server.add_sockets(sockets)
        return server.stop

    async def answer(self, request: Any) -> tuple[int, str, bytes]:
        """Status, content type and body of the answer to one request."""
        target = request.headers.get("X-Amz-Target", "")
        form = {} if target else dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        action = target.rpartition(".")[2] or form.get("Action", "")
        call = self.calls.received(action)
        try:
            if action in self._actions:
                parameters = protocol.parse_request(action, form)
                self.throttle.take(action, parameters)
                found = self._actions[action](parameters)
                body = found if isinstance(found, bytes) else protocol.render(action, found)
                status, kind = 200, protocol.CONTENT_TYPE
            else:
                status, kind, body = await self._pass_on(request)
        except EC2Error as error:
            call["outcome"] = error.code
            return error.status, protocol.CONTENT_TYPE, protocol.render_error(error)
        call["outcome"] = "ok" if status < 400 else f"HTTP {status}"
        return status, kind, body

    async def _pass_on(self, request: Any) -> tuple[int, str, bytes]:
        scope = request.headers["Authorization"].partition("Credential=")[2].split("/")
        url = f"{self._described['ec2_endpoint']}{request.uri}"
        kept = {name: request.headers[name] for name in PASSED_HEADERS if name in request.headers}
        passed = AWSRequest(method=request.method, url=url, headers=kept, data=request.body)
        key = Credentials(
            self._described["aws_access_key_id"], self._described["aws_secret_access_key"]
        )
        SigV4Auth(key, scope[3], scope[2]).add_auth(passed)
        response = await self._http.fetch(
            HTTPRequest(
                url,
                method=request.method,
                headers=dict(passed.headers.items()),
                body=request.body if request.method == "POST" else None,
                request_timeout=60,
            ),
            raise_error=False,
        )
        kind = response.headers.get("Content-Type", protocol.CONTENT_TYPE)
        return response.code, kind, response.body

    # --- instances ---

    def run(self, instance: CannedInstance) -> None:
        """The instance has booted."""
        if instance.state == "pending":
            instance.state = "running"
            instance.changed()

    def terminate(self, instance: CannedInstance) -> None:
        """End an instance; what is attached to it becomes free, or is deleted with it."""
        if instance.ended_at is not None:
            return
        instance.state, instance.ended_at = "shutting-down", now()
        instance.changed()
        loop = asyncio.get_running_loop()
        loop.call_later(SHUTDOWN_SECONDS, self._terminated, instance)

    def _terminated(self, instance: CannedInstance) -> None:
        instance.state = "terminated"
        for volume_id in (instance.root_volume, *instance.volumes.values()):
            volume = self.volumes.get(volume_id)
            if volume is None:
                continue  # the home of a run, deleted meanwhile
            if volume.goes_with_it:
                del self.volumes[volume_id]
            else:
                volume.attached_to = ""
                volume.changed()
        instance.volumes.clear()
        instance.changed()
        loop = asyncio.get_running_loop()
        loop.call_later(TERMINATED_VISIBLE_SECONDS, self.instances.pop, instance.instance_id, None)

    def _create_fleet(self, parameters: dict[str, Any]) -> dict[str, Any]:
        token = parameters["ClientToken"]
        if token not in self._fleets:
            self._fleets[token] = self._launch(parameters)
        return self._fleets[token]

    def _launch(self, parameters: dict[str, Any]) -> dict[str, Any]:
        target = parameters["TargetCapacitySpecification"]
        [config] = parameters["LaunchTemplateConfigs"]
        override = config["Overrides"][0]
        market = target["DefaultTargetCapacityType"]
        tags = _tags(parameters, "instance")
        made = [
            self._new_instance(override, market, tags, _tags(parameters, "volume"))
            for _ in range(target["TotalTargetCapacity"])
        ]
        for instance in made:
            self._launched(instance)
        group = {
            "LaunchTemplateAndOverrides": {"Overrides": override},
            "Lifecycle": market,
            "InstanceIds": [instance.instance_id for instance in made],
            "InstanceType": override["InstanceType"],
        }
        return {"FleetId": f"fleet-{next(self._numbers):017x}", "Instances": [group]}

    def _new_instance(
        self,
        override: Mapping[str, Any],
        market: str,
        tags: dict[str, str],
        on_disk: dict[str, str],
    ) -> CannedInstance:
        number = next(self._numbers)
        first, second = NETWORK
        instance = CannedInstance(
            instance_id=f"i-{number:017x}",
            instance_type=override["InstanceType"],
            zone=self._zones[override["SubnetId"]],
            subnet=override["SubnetId"],
            market=market,
            address=f"{first}.{second}.{number // 250}.{number % 250 + 1}",
            image_id=self._described["image_id"],
            account=self._described["account"],
            root_volume=f"vol-{number:017x}",
            launched_at=now(),
            tags=dict(tags),
        )
        self.volumes[instance.root_volume] = CannedVolume(
            instance.root_volume,
            instance.zone,
            100,
            "gp3",
            instance.launched_at,
            dict(on_disk),
            attached_to=instance.instance_id,
            device=ROOT_DEVICE,
            goes_with_it=True,
        )
        self.instances[instance.instance_id] = instance
        return instance

    def _describe_instances(self, parameters: dict[str, Any]) -> bytes:
        found = selected(self.instances.values(), parameters, "InstanceIds")
        return _listing("DescribeInstances", "reservationSet", found, parameters)

    def _terminate_instances(self, parameters: dict[str, Any]) -> dict[str, Any]:
        for instance_id in parameters["InstanceIds"]:
            self.terminate(self._instance(instance_id))
        return {"TerminatingInstances": [{"InstanceId": x} for x in parameters["InstanceIds"]]}

    def _instance(self, instance_id: str) -> CannedInstance:
        if instance_id not in self.instances:
            message = f"The instance ID '{instance_id}' does not exist"
            raise EC2Error("InvalidInstanceID.NotFound", message)
        return self.instances[instance_id]

    # --- tags and volumes ---

    def _create_tags(self, parameters: dict[str, Any]) -> dict[str, Any]:
        tags = {tag["Key"]: tag["Value"] for tag in parameters["Tags"]}
        for resource_id in parameters["Resources"]:
            kind = self.instances if resource_id.startswith("i-") else self.volumes
            if (found := kind.get(resource_id)) is not None:
                found.tags |= tags
                found.changed()
        return {}

    def _create_volume(self, parameters: dict[str, Any]) -> dict[str, Any]:
        volume = CannedVolume(
            f"vol-{next(self._numbers):017x}",
            parameters["AvailabilityZone"],
            parameters["Size"],
            parameters["VolumeType"],
            now(),
            _tags(parameters, "volume"),
        )
        self.volumes[volume.volume_id] = volume
        return volume.described()

    def _attach_volume(self, parameters: dict[str, Any]) -> dict[str, Any]:
        volume = self._volume(parameters["VolumeId"])
        instance = self._instance(parameters["InstanceId"])
        if instance.state != "running":
            message = f"Instance '{instance.instance_id}' is not 'running'."
            raise EC2Error("IncorrectInstanceState", message)
        if volume.attached_to:
            message = f"{volume.volume_id} is already attached to an instance"
            raise EC2Error("VolumeInUse", message)
        volume.attached_to, volume.device = instance.instance_id, parameters["Device"]
        instance.volumes[volume.device] = volume.volume_id
        volume.changed()
        instance.changed()
        return volume.attachment()

    def _detach_volume(self, parameters: dict[str, Any]) -> dict[str, Any]:
        volume = self._volume(parameters["VolumeId"])
        if volume.attached_to in self.instances:
            self.instances[volume.attached_to].volumes.pop(volume.device, None)
            self.instances[volume.attached_to].changed()
        answer = volume.attachment() | {"State": "detached"}
        volume.attached_to = ""
        volume.changed()
        return answer

    def _delete_volume(self, parameters: dict[str, Any]) -> dict[str, Any]:
        self._volume(parameters["VolumeId"])
        del self.volumes[parameters["VolumeId"]]
        return {}

    def _describe_volumes(self, parameters: dict[str, Any]) -> bytes:
        found = selected(self.volumes.values(), parameters, "VolumeIds")
        return _listing("DescribeVolumes", "volumeSet", found, parameters)

    def _volume(self, volume_id: str) -> CannedVolume:
        if volume_id not in self.volumes:
            message = f"The volume '{volume_id}' does not exist."
            raise EC2Error("InvalidVolume.NotFound", message)
        return self.volumes[volume_id]


class _Handler(RequestHandler):
    def initialize(self, ec2: CannedEC2) -> None:
        self._ec2 = ec2

    def check_xsrf_cookie(self) -> None:
        """No cookies here."""

    async def post(self) -> None:
        status, kind, body = await self._ec2.answer(self.request)
        self.set_status(status)
        self.set_header("Content-Type", kind)
        self.finish(body)


def _listing(action: str, member: str, found: Any, parameters: Mapping[str, Any]) -> bytes:
    page, token = page_of(found, parameters)
    items = "".join(each.xml() for each in page)
    following = f"<nextToken>{token}</nextToken>" if token else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{protocol.NAMESPACE}">'
        f"<requestId>0a1b2c3d-0000-0000-0000-000000000000</requestId>"
        f"<{member}>{items}</{member}>{following}</{action}Response>"
    ).encode()


def _tags(parameters: Mapping[str, Any], kind: str) -> dict[str, str]:
    return {
        tag["Key"]: tag["Value"]
        for specification in parameters.get("TagSpecifications", ())
        if specification["ResourceType"] == kind
        for tag in specification["Tags"]
    }
