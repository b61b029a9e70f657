"""A lease as the hub grants it, for tests of what an agent does with one."""

from __future__ import annotations

from ec2spawner.wire import HomeMount, IdlePolicy, LeaseGrant


def lease_grant(idle: IdlePolicy) -> LeaseGrant:
    return LeaseGrant(
        lease_id="l",
        lease_token="t",
        environment={},
        command=["jupyterhub-singleuser"],
        base_url="/",
        port=8888,
        home=HomeMount(kind="none"),
        idle=idle,
        profile="T4",
    )
