"""Authorization: whether the policy of the caller's key allows a call, as IAM decides it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..api.access_keys import AccessKey
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..iam import denial
from ..iam.accesses import CREATED, EXISTING, Accesses, Tags, Template, type_of
from ..iam.policy import Access, Policy
from ..instances.lifecycle import Lifecycles
from ..instances.placement_groups import PlacementGroups
from .policy_use import PolicyUse

IAM_ACTIONS = {"DeleteMessageBatch": "DeleteMessage"}
"""Name of an action in a request -> in IAM, where they differ."""

OF_RESOURCES = frozenset(
    {*EXISTING, *CREATED, "CreateFleet", "RunInstances", "CreateTags", "DeleteTags"}
)
"""EC2's actions that are authorized on resources."""

PUBLIC_PARAMETERS = "/aws/"
"""What the names of AWS's own SSM parameters begin with: their ARNs have no account."""

IAM_PREFIXES = {"monitoring": "cloudwatch"}
"""Name of a service in a signature -> in IAM's actions, where they differ."""


class Authorization:
    """Decides about calls; raises AWS's errors for those that are denied.

    A key without a policy may do everything.
    """

    def __init__(
        self,
        moto: Moto,
        lifecycles: Lifecycles,
        placement_groups: PlacementGroups,
        default_group: str,
        use: PolicyUse,
    ) -> None:
        self._moto = moto
        self._account = _Account(moto, lifecycles, placement_groups)
        self._accesses = Accesses(moto.region, moto.account, default_group)
        self._use = use

    async def check(self, key: AccessKey, action: str, parameters: Mapping[str, Any]) -> None:
        """Raises `UnauthorizedOperation` for an EC2 call that is denied."""
        if key.policy is None:
            return
        accesses = (
            await self._moto.run(
                lambda: list(self._accesses.of_call(action, parameters, self._account))
            )
            if action in OF_RESOURCES
            else self._accesses.of_call(action, parameters, _Nothing())
        )
        if (error := self._denied_by_ec2(key, key.policy, accesses)) is not None:
            raise error

    async def refusal_of_launches(
        self, key: AccessKey, parameters: Mapping[str, Any]
    ) -> EC2Error | None:
        """The error of each offer of a CreateFleet whose caller must not launch it."""
        if key.policy is None:
            return None
        accesses = await self._moto.run(
            lambda: list(self._accesses.of_fleets_launches(parameters, self._account))
        )
        return self._denied_by_ec2(key, key.policy, accesses)

    async def check_service(
        self, key: AccessKey, service: str, action: str, asked: Mapping[str, Any], code: str
    ) -> None:
        """Raises an error with this code for a denied call to another service than EC2."""
        # Nobody needs a permission to ask who they are.
        if key.policy is None or (service, action) == ("sts", "GetCallerIdentity"):
            return
        for access in await self._of_service(service, action, asked):
            decision = key.policy.decide(access)
            if not decision.allowed:
                message = denial.reason(self._principal, access, decision)
                raise EC2Error(code, message, 400 if code.endswith("Exception") else 403)
            self._use.add(decision, access)

    async def check_access(
        self, key: AccessKey, action: str, resource: str, context: Mapping[str, str]
    ) -> None:
        """Raises `AccessDeniedException` where the policy denies an action on a resource's ARN."""
        if key.policy is None:
            return
        said = {"aws:requestedregion": self._moto.region, **context}
        access = Access(action, resource, {name: (value,) for name, value in said.items()})
        decision = key.policy.decide(access)
        if not decision.allowed:
            message = denial.reason(self._principal, access, decision)
            raise EC2Error("AccessDeniedException", message, 403)
        self._use.add(decision, access)

    def _denied_by_ec2(
        self, key: AccessKey, policy: Policy, accesses: Iterable[Access]
    ) -> EC2Error | None:
        allowed = []
        for access in accesses:
            decision = policy.decide(access)
            if not decision.allowed:
                message = denial.in_words_of_ec2(self._principal, access, decision)
                return EC2Error("UnauthorizedOperation", message)
            allowed.append((decision, access))
        for decision, access in allowed:
            self._use.add(decision, access)
        return None

    @property
    def _principal(self) -> str:
        return f"arn:aws:iam::{self._moto.account}:user/hub"

    async def _of_service(
        self, service: str, action: str, asked: Mapping[str, Any]
    ) -> Sequence[Access]:
        context = {"aws:requestedregion": (self._moto.region,)}
        resources = ["*"]
        if service == "iam" and "InstanceProfileName" in asked:
            name = asked["InstanceProfileName"]
            resources = [f"arn:aws:iam::{self._moto.account}:instance-profile/{name}"]
        elif service == "iam" and "RoleName" in asked:
            name = asked["RoleName"]
            resources = [await self._moto.run(lambda: self._account.role_arn(name))]
        elif service == "ssm":
            names = asked.get("Names") or [asked.get("Name") or ""]
            resources = [self._parameter_arn(str(name)) for name in names]
        elif service == "sqs":
            name = str(asked.get("QueueUrl") or asked.get("QueueName")).rpartition("/")[2]
            resources = [f"arn:aws:sqs:{self._moto.region}:{self._moto.account}:{name}"]
        elif service == "monitoring" and "Namespace" in asked:
            context["cloudwatch:namespace"] = (str(asked["Namespace"]),)
        prefix = IAM_PREFIXES.get(service, service)
        action = IAM_ACTIONS.get(action, action)
        return [Access(f"{prefix}:{action}", resource, context) for resource in resources]

    def _parameter_arn(self, name: str) -> str:
        account = "" if name.startswith(PUBLIC_PARAMETERS) else self._moto.account
        return f"arn:aws:ssm:{self._moto.region}:{account}:parameter/{name.removeprefix('/')}"


class _Nothing:
    """For calls that are authorized on no resource."""

    def tags(self, resource_id: str) -> Tags | None:
        return None

    def tags_of_placement_group(self, name: str) -> Tags | None:
        return None

    def template(self, specification: Mapping[str, Any]) -> Template | None:
        return None

    def roles(self, profile: Mapping[str, Any]) -> Sequence[str]:
        return ()


class _Account:
    """The account's resources. Only inside `Moto.run`."""

    def __init__(
        self, moto: Moto, lifecycles: Lifecycles, placement_groups: PlacementGroups
    ) -> None:
        self._moto = moto
        self._lifecycles = lifecycles
        self._placement_groups = placement_groups

    def tags(self, resource_id: str) -> Tags | None:
        if not self._exists(resource_id):
            return None
        found: Tags = self._moto.backend.tags.get(resource_id, {})
        return found

    def tags_of_placement_group(self, name: str) -> Tags | None:
        return self._placement_groups.tags(name)

    def template(self, specification: Mapping[str, Any]) -> Template | None:
        backend = self._moto.backend
        template_id = specification.get("LaunchTemplateId")
        if not template_id:
            name = specification.get("LaunchTemplateName", "")
            template_id = backend.launch_template_name_to_ids.get(name)
        if template_id not in backend.launch_templates:
            return None
        version = str(specification.get("Version") or "$Default")
        try:
            found = self._moto.call_here(
                "DescribeLaunchTemplateVersions", LaunchTemplateId=template_id, Versions=[version]
            )["LaunchTemplateVersions"]
        except EC2Error:
            found = []
        return Template(template_id, found[0]["LaunchTemplateData"] if found else {})

    def roles(self, profile: Mapping[str, Any]) -> Sequence[str]:
        from moto.iam.models import iam_backends

        name = profile.get("Name") or str(profile.get("Arn", "")).rpartition("/")[2]
        known = iam_backends[self._moto.account]["aws"].instance_profiles.values()
        return [role.arn for each in known if each.name == name for role in each.roles]

    def role_arn(self, name: str) -> str:
        """With its path, which a role that does not exist lacks."""
        from moto.iam.models import iam_backends

        roles = iam_backends[self._moto.account]["aws"].roles.values()
        arns = [str(role.arn) for role in roles if role.name == name]
        return arns[0] if arns else f"arn:aws:iam::{self._moto.account}:role/{name}"

    def _exists(self, resource_id: str) -> bool:
        """True also for types whose resources moto holds in several places."""
        backend = self._moto.backend
        match type_of(resource_id):
            case "image":
                return resource_id in backend.amis
            case "instance":
                return self._lifecycles.holds(resource_id)
            case "launch-template":
                return resource_id in backend.launch_templates
            case "network-interface":
                return resource_id in backend.enis
            case "security-group":
                return backend.get_security_group_from_id(resource_id) is not None
            case "snapshot":
                return resource_id in backend.snapshots
            case "volume":
                return resource_id in backend.volumes
            case "vpc":
                return resource_id in backend.vpcs
            case _:
                return True
