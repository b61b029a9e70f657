"""The demo's hub with little patience, an image that is looked up, and machines that are kept."""

from ec2spawner.config.entries.image import DEEP_LEARNING_AMI
from tests.bench.faults.timeout import HURRIED, KEPT, PLAIN, STOP_TIMEOUT, hurry_hub
from tests.harness import CONFIG

load_subconfig(str(CONFIG))  # noqa: F821 - JupyterHub provides it
c = get_config()  # noqa: F821

c.EC2Spawner.image = DEEP_LEARNING_AMI
c.EC2Spawner.home = {"kind": "ebs", "size_gib": 10, "user_may_choose": {"min": 10, "max": 100}}
c.EC2Spawner.profile_list = [
    *c.EC2Spawner.profile_list,
    {"display_name": "Plain", "slug": PLAIN, "gpu": "T4"},
    {
        "display_name": "Kept",
        "slug": KEPT,
        "gpu": "T4",
        "market": "on-demand",
        "after_stop": {"stop": "1h"},
    },
]
c.EC2Spawner.start_timeout = int(HURRIED.start)
c.EC2Spawner.stop_timeout = STOP_TIMEOUT
c.EC2Spawner.boot_timeout = 30

hurry_hub()
