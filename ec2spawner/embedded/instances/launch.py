"""Launches instances in moto from a launch template, overrides and a call's own parameters."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from ...wire import Market
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..market.capacity import Offer, insufficient
from ..market.reserved_places import ReservedPlaces, exceeded
from ..market.type_facts import InstanceTypeFacts, instance_type_facts
from ..network import Network
from ..read_lag import ReadLag
from ..runtime.instance import SimulatedInstance
from .account import Account
from .blueprint import (
    Blueprint,
    Tags,
    check_placement,
    flatten_interface,
    merged_tags,
    profile_name,
    read_user_data,
    tag_specifications,
)
from .disk_sizes import check_disk_sizes
from .lifecycle import Lifecycle, Lifecycles
from .placement_groups import PlacementGroups
from .quotas import Quotas, counted_by
from .spot_role import spot_refusal

_PASSED_ON = frozenset(
    (
        "BlockDeviceMappings DisableApiTermination EbsOptimized IamInstanceProfile ImageId "
        "InstanceInitiatedShutdownBehavior KeyName MetadataOptions Monitoring SecurityGroupIds "
        "UserData"
    ).split()
)
"""RunInstances' parameters that moto keeps and the project uses."""


class Launcher:
    """Launches instances into moto and begins their lifecycles."""

    def __init__(
        self,
        moto: Moto,
        network: Network,
        lifecycles: Lifecycles,
        places: ReservedPlaces,
        quotas: Quotas,
        placement_groups: PlacementGroups,
        account: Account,
        lag: ReadLag,
    ) -> None:
        self._moto = moto
        self._lag = lag
        self._network = network
        self._lifecycles = lifecycles
        self._places = places
        self._capacity = places.capacity
        self._quotas = quotas
        self._placement_groups = placement_groups
        self._account = account
        self._zones: dict[str, str] = {}
        self._launching: Counter[tuple[Market, str]] = Counter()

    async def template_data(self, specification: Mapping[str, Any]) -> dict[str, Any]:
        """The launch template version that a request names, as DescribeLaunchTemplateVersions
        answers it. Raises EC2's errors for one that does not exist."""
        version = str(specification.get("Version", "$Default"))
        name = (
            {"LaunchTemplateId": specification["LaunchTemplateId"]}
            if specification.get("LaunchTemplateId")
            else {"LaunchTemplateName": specification.get("LaunchTemplateName", "")}
        )
        found = await self._moto.call("DescribeLaunchTemplateVersions", Versions=[version], **name)
        versions = found["LaunchTemplateVersions"]
        if not versions:
            raise EC2Error(
                "InvalidLaunchTemplateId.VersionNotFound", f"Could not find version {version}"
            )
        return dict(versions[0])

    async def blueprint(
        self, call: Mapping[str, Any], template: Mapping[str, Any] | None, tags: Tags
    ) -> Blueprint:
        """A call's parameters over its template's. Raises EC2's errors for what is invalid."""
        data = dict(template["LaunchTemplateData"]) if template else {}
        parameters = {**data, **call}
        parameters.pop("TagSpecifications", None)
        groups, interface = flatten_interface(parameters)
        parameters["SecurityGroupIds"] = groups or [self._network.default_group]
        check_placement(parameters.get("Placement") or {})
        user_data = read_user_data(parameters)
        if not parameters.get("ImageId"):
            raise EC2Error("MissingParameter", "The request must contain the parameter ImageId")
        images = await self._moto.call("DescribeImages", ImageIds=[parameters["ImageId"]])
        if not images["Images"]:
            raise EC2Error(
                "InvalidAMIID.NotFound", f"The image id '[{parameters['ImageId']}]' does not exist"
            )
        parameters.setdefault("SubnetId", interface.get("SubnetId"))
        merged = merged_tags(tag_specifications(data.get("TagSpecifications", ())), tags)
        return Blueprint(
            parameters,
            merged,
            images["Images"][0],
            user_data,
            (template["LaunchTemplateId"], str(template["VersionNumber"])) if template else None,
        )

    async def check_references(self, blueprint: Blueprint) -> None:
        """Raises EC2's error for a security group, placement group, key pair, snapshot or instance
        profile that does not exist, and for a disk that is smaller than its snapshot.

        A fleet lists these errors for each offer in its response's `Errors`; RunInstances fails.
        """
        asked = blueprint.parameters
        await self._moto.call("DescribeSecurityGroups", GroupIds=asked["SecurityGroupIds"])
        if blueprint.placement_group:
            self._placement_groups.check_exists(blueprint.placement_group)
        if key_name := asked.get("KeyName"):
            await self._moto.call("DescribeKeyPairs", KeyNames=[key_name])
        devices = [each.get("Ebs", {}) for each in asked.get("BlockDeviceMappings") or ()]
        sizes = {}
        if snapshots := [each["SnapshotId"] for each in devices if each.get("SnapshotId")]:
            found = await self._moto.call("DescribeSnapshots", SnapshotIds=snapshots)
            sizes = {each["SnapshotId"]: each["VolumeSize"] for each in found["Snapshots"]}
        check_disk_sizes(asked.get("BlockDeviceMappings") or (), blueprint.image, sizes)
        profile = asked.get("IamInstanceProfile") or {}
        for field, value in profile.items():
            arn = await self._moto.instance_profile_arn(profile_name({field: value}))
            if arn is None or (field == "Arn" and arn != value):
                raise EC2Error(
                    "InvalidParameterValue",
                    f"Value ({value}) for parameter iamInstanceProfile.{field.lower()} is "
                    f"invalid. Invalid IAM Instance Profile {'ARN' if field == 'Arn' else 'name'}",
                )

    async def subnet_for(self, subnet_id: str | None, zone: str | None) -> tuple[str, str]:
        """Subnet and zone of a request: by subnet, by zone, or EC2's choice."""
        if subnet_id:
            if subnet_id not in self._zones:
                found = await self._moto.call("DescribeSubnets", SubnetIds=[subnet_id])
                self._zones[subnet_id] = found["Subnets"][0]["AvailabilityZone"]
            return subnet_id, self._zones[subnet_id]
        zone = zone or next(iter(self._network.subnets))
        if zone not in self._network.subnets:
            raise EC2Error("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
        return self._network.subnets[zone], zone

    def available(
        self, blueprint: Blueprint, offer: Offer, wanted: int
    ) -> tuple[int, EC2Error | None]:
        """How many of `wanted` are available, and EC2's error for the rest.

        Raises EC2's error if the offer is invalid, whatever its capacity.
        """
        facts, wish = self._check_offer(blueprint, offer), blueprint.wish(offer)
        self._account.check_launch(offer.instance_type)
        reserved = min(wanted, self._places.left(wish, offer))
        if reserved == wanted or wish.is_only:
            return reserved, None if reserved == wanted else exceeded(wish, offer)
        by_capacity = reserved + self.room_for(offer, wanted - reserved)
        counted = counted_by(offer)
        in_use = self._lifecycles.vcpus_in_use(counted) + self._launching[counted]
        headroom = self._quotas.headroom(offer, in_use, facts.vcpus, wanted - reserved)
        by_quota = reserved + headroom
        count = min(by_capacity, by_quota)
        if count == wanted:
            return count, None
        if by_quota < by_capacity:
            return count, self._quotas.exceeded(offer)
        return count, self._sold_out(offer)

    def _check_offer(self, blueprint: Blueprint, offer: Offer) -> InstanceTypeFacts:
        facts = instance_type_facts(offer.instance_type, self._moto.region)
        if offer.zone not in facts.zones:
            raise EC2Error(
                "Unsupported",
                f"Your requested instance type ({offer.instance_type}) is not supported in your "
                f"requested Availability Zone ({offer.zone}). Please retry your request by not "
                "specifying an Availability Zone or choosing "
                f"{', '.join(sorted(facts.zones))}.",
            )
        if blueprint.architecture not in facts.architectures:
            raise EC2Error(
                "InvalidParameterValue",
                f"The architecture '{','.join(facts.architectures)}' of the specified instance "
                f"type does not match the architecture '{blueprint.architecture}' of the "
                "specified AMI. Specify an instance type and an AMI that have matching "
                "architectures, and try again.",
            )
        if offer.market == "on-demand" and "spot-instances-request" in blueprint.tags:
            raise EC2Error(
                "InvalidParameterCombination",
                "You cannot specify tags for Spot instances requests if there are no Spot "
                "instances requests being created by the request.",
            )
        facts.check_volumes(blueprint.volumes)
        if blueprint.placement_group:
            self._placement_groups.check_offer(blueprint.placement_group, offer)
        return facts

    def zones_with(self, instance_type: str) -> frozenset[str]:
        """Zones that offer the type, sold out or not."""
        return instance_type_facts(instance_type, self._moto.region).zones

    def room_for(self, offer: Offer, wanted: int) -> int:
        """How many of `wanted` this offer has capacity for."""
        left = self._capacity.left(offer)
        return wanted if left is None else min(left, wanted)

    def _sold_out(self, offer: Offer) -> EC2Error:
        """EC2's error for the offer, naming the zones that do have the type."""
        elsewhere = tuple(
            zone
            for zone in self._network.subnets
            if zone != offer.zone
            and zone in self.zones_with(offer.instance_type)
            and self._capacity.left(Offer(offer.market, offer.instance_type, zone)) != 0
        )
        return insufficient(offer, elsewhere)

    async def launch(
        self,
        blueprint: Blueprint,
        offer: Offer,
        subnet_id: str,
        count: int,
        client_token: str | None = None,
        fleet_id: str | None = None,
    ) -> dict[str, Any]:
        """Launch `count` instances; returns RunInstances' response.

        The caller has checked `available`. Capacity and quota are taken first, so that a concurrent
        request sees it, and given back on an error. Raises `InsufficientFreeAddressesInSubnet` if
        the subnet has too few addresses, and `InvalidGroup.NotFound`.
        """
        self._lag.check("RunInstances", {"GroupIds": blueprint.parameters["SecurityGroupIds"]})
        reserved = self._places.take(blueprint.wish(offer), offer, count)
        facts = instance_type_facts(offer.instance_type, self._moto.region)
        vcpus, counted = reserved.count("") * facts.vcpus, counted_by(offer)
        self._launching[counted] += vcpus
        try:
            with self._placement_groups.launching(blueprint.placement_group, offer):
                answer, lifecycles = await self._moto.run(
                    lambda: self._launch(blueprint, offer, subnet_id, count, client_token, fleet_id)
                )
        except BaseException:
            for each in reserved:
                self._places.give_back(each, offer)
            raise
        finally:
            self._launching[counted] -= vcpus
        for life, each in zip(lifecycles, reserved, strict=True):
            life.reservation = each
            volumes = life.moto_instance.block_device_mapping.values()
            self._lag.created(
                life.instance_id,
                *(each.volume_id for each in volumes),
                *(each.id for each in life.moto_instance.nics.values()),
            )
            self._lifecycles.begin(life)
        return answer

    def end_at_once(self, instance_ids: Iterable[str], reason: str) -> None:
        """EC2 terminates launched instances for a reason that it found after its answer, such as
        `Client.InternalError` for an encrypted disk whose key it may not use."""
        for life in self._lifecycles.get_all(instance_ids):
            self._lifecycles.terminate(life, reason)

    async def spot_refusal(self) -> EC2Error | None:
        """The error of every spot offer, if the account cannot use spot."""
        return await spot_refusal(self._moto)

    def _launch(
        self,
        blueprint: Blueprint,
        offer: Offer,
        subnet_id: str,
        count: int,
        client_token: str | None,
        fleet_id: str | None,
    ) -> tuple[dict[str, Any], list[Lifecycle]]:
        self._network.check_free_addresses(self._moto, subnet_id, count)
        parameters = {
            name: value
            for name, value in blueprint.parameters.items()
            if name in _PASSED_ON and value is not None
        }
        if offer.market == "spot":
            parameters["InstanceMarketOptions"] = {"MarketType": "spot"}
        specifications = [
            {
                "ResourceType": kind,
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
            for kind, tags in blueprint.tags.items()
            if kind in ("instance", "volume") and tags
        ]
        if specifications:
            parameters["TagSpecifications"] = specifications
        answer = self._moto.call_here(
            "RunInstances",
            **parameters,
            InstanceType=offer.instance_type,
            SubnetId=subnet_id,
            MinCount=count,
            MaxCount=count,
            ClientToken=client_token or str(uuid.uuid4()),
        )
        lifecycles = [
            self._finish(blueprint, offer, instance["InstanceId"], fleet_id)
            for instance in answer["Instances"]
        ]
        return answer, lifecycles

    def _finish(
        self, blueprint: Blueprint, offer: Offer, instance_id: str, fleet_id: str | None
    ) -> Lifecycle:
        """Complete what moto's RunInstances leaves out, before the instance can be listed."""
        shown = self._moto.instance(instance_id)
        backend = self._moto.backend
        system_tags = {"aws:ec2:fleet-id": fleet_id} if fleet_id else {}
        if blueprint.template is not None:
            template_id, version = blueprint.template
            system_tags["aws:ec2launchtemplate:id"] = template_id
            system_tags["aws:ec2launchtemplate:version"] = version
        if system_tags:
            backend.create_tags([instance_id], system_tags)
        interface_tags = blueprint.tags.get("network-interface")
        for interface in shown.nics.values():
            # EC2's default for an interface that came with its instance.
            interface.delete_on_termination = True
            if interface_tags:
                backend.create_tags([interface.id], dict(interface_tags))
        shown.placement.group_name = blueprint.placement_group
        facts = instance_type_facts(offer.instance_type, self._moto.region)
        instance = SimulatedInstance(
            instance_id=instance_id,
            instance_type=offer.instance_type,
            zone=offer.zone,
            region=self._moto.region,
            market=offer.market,
            address=shown.private_ip,
            image_id=shown.image_id,
            account=self._moto.account,
            architecture=blueprint.architecture,
            pending_since=shown.launch_time.replace(tzinfo=UTC),
            user_data=blueprint.user_data,
            instance_profile=profile_name(blueprint.parameters.get("IamInstanceProfile") or {}),
            data_volumes=self._data_volumes(shown),
        )
        life = Lifecycle(instance, offer, facts.vcpus, shown, blueprint.wish(offer))
        life.show("pending")
        return life

    def _data_volumes(self, shown: Any) -> tuple[tuple[str, str], ...]:
        """Volume and snapshot id of each of its volumes that was created from a snapshot."""
        volumes = self._moto.backend.volumes
        attached = [volumes[each.volume_id] for each in shown.block_device_mapping.values()]
        return tuple((each.id, each.snapshot_id) for each in attached if each.snapshot_id)
