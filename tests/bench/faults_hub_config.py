"""The demo's hub with little patience, and an image that is looked up."""

from ec2spawner.config.image import DEEP_LEARNING_AMI
from tests.bench.fault_patience import HURRIED, STOP_TIMEOUT, hurry_hub
from tests.harness import CONFIG

load_subconfig(str(CONFIG))  # noqa: F821 - JupyterHub provides it
c = get_config()  # noqa: F821

c.EC2Spawner.image = DEEP_LEARNING_AMI
c.EC2Spawner.start_timeout = int(HURRIED.start)
c.EC2Spawner.stop_timeout = STOP_TIMEOUT
c.EC2Spawner.boot_timeout = 30

hurry_hub()
