"""Which permissions the check tries, and where it rather does not."""

from __future__ import annotations

import pytest

from ec2spawner.check.dry_runs import DryRun, of_clusters
from ec2spawner.check.facts.network import Subnet
from ec2spawner.check.finding import State
from ec2spawner.check.permissions import _tried
from ec2spawner.provisioner.model.cloud.cloud import CloudError

GRANTED = CloudError("DryRunOperation", "would have succeeded", retryable=False)
DENIED = CloudError("UnauthorizedOperation", "no", retryable=False)


class Endpoint:
    """Answers dry runs, and knows which it was asked."""

    def __init__(self, **answers: CloudError | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def ask(self, dry_run: DryRun) -> CloudError | None:
        self.asked.append(dry_run.action)
        return self.answers[dry_run.action]


@pytest.mark.parametrize(
    ("tagged", "trusted", "asked", "ended"),
    [
        (GRANTED, False, ["tag", "end"], State.OK),
        (DENIED, False, ["tag"], State.UNPROVED),
        (DENIED, True, ["tag", "end"], State.OK),
        (None, True, ["tag"], State.UNPROVED),
    ],
    ids=["honours-dry-run", "nothing-shown", "aws", "does-it-for-real"],
)
async def test_nothing_is_terminated_where_dry_run_may_be_ignored(
    tagged: CloudError | None, trusted: bool, asked: list[str], ended: State
) -> None:
    endpoint = Endpoint(end=GRANTED, tag=tagged)
    dry_runs = [DryRun("end"), DryRun("tag", harmless=True)]
    findings = {f.name: f for f in await _tried(dry_runs, endpoint.ask, trusted=trusted)}
    assert endpoint.asked == asked
    assert findings["permission end"].state is ended


@pytest.mark.parametrize(
    ("are_placed", "actions"),
    [
        (False, ["ec2:CreateSecurityGroup"]),
        (True, ["ec2:CreatePlacementGroup", "ec2:CreateSecurityGroup"]),
    ],
)
async def test_a_hub_with_clusters_that_may_make_no_groups_is_shown_the_policy(
    are_placed: bool, actions: list[str]
) -> None:
    subnet = Subnet("subnet-1", "us-east-1a", "vpc-1", 100)
    dry_runs = of_clusters("research", [subnet], are_placed=are_placed)
    assert [each.action for each in dry_runs] == actions
    for dry_run in dry_runs:
        [finding] = await _tried([dry_run], Endpoint(**{dry_run.action: DENIED}).ask, trusted=True)
        assert finding.state is State.FAILED
        assert "configs/clusters-policy.json" in finding.fix
    assert dry_runs[-1].parameters["VpcId"] == "vpc-1"
