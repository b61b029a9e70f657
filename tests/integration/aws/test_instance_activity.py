"""Until when an instance ran is known after EC2 has forgotten it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ec2spawner.aws.ec2 import EC2Cloud

from .embedded_ec2 import Embedded


async def test_an_ended_instance_ran_until_its_end(embedded: Embedded) -> None:
    begun = datetime.now(UTC)
    ec2 = embedded.client("ec2")
    launched = ec2.run_instances(
        ImageId=embedded.image_id, InstanceType="t3.micro", MinCount=2, MaxCount=2
    )
    first, second = (each["InstanceId"] for each in launched["Instances"])
    ec2.terminate_instances(InstanceIds=[first])
    ec2.get_waiter("instance_terminated").wait(
        InstanceIds=[first], WaiterConfig={"Delay": 1, "MaxAttempts": 20}
    )
    cloud = EC2Cloud(embedded.region, embedded.endpoint)
    try:
        later = datetime.now(UTC) + timedelta(days=7)
        ran = await cloud.ran_until([second, first, "i-0123456789abcdef0"], begun, later)
        assert set(ran) == {first}, "the other one runs, and its first value is not there yet"
        assert abs(ran[first] - datetime.now(UTC)) <= timedelta(minutes=5)
        now = datetime.now(UTC)
        assert (await cloud.ran_until([first], begun, now))[first] <= now
    finally:
        await cloud.close()
        ec2.terminate_instances(InstanceIds=[second])
