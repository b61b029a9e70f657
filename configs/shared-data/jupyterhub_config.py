"""A hub whose people share data: homes on EFS in any zone, a data set, and buckets.

What stands in `../small-team/jupyterhub_config.py` and is not here goes for this hub too. The image
has amazon-efs-utils and mount-s3 in it. Replace what is marked with `<-`.
"""

c = get_config()

c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False

c.EC2Spawner.hub_name = "shared-data"
c.EC2Spawner.region = "us-east-1"  # <-
c.EC2Spawner.subnets = [  # <- each zone has a mount target of the file system
    "subnet-0a1b2c3d4e5f60001",
    "subnet-0a1b2c3d4e5f60002",
    "subnet-0a1b2c3d4e5f60003",
]
c.EC2Spawner.security_groups = ["sg-0a1b2c3d4e5f60718"]  # <- may reach the mount targets
c.EC2Spawner.image = "ami-0a1b2c3d4e5f60718"  # <-
c.EC2Spawner.instance_profile = "notebooks"  # <- its role may read the buckets, see how-to/data

# --- files of one's own: people here cannot become root, see docs/security.md ---

c.EC2Spawner.home = {"kind": "efs", "file_system": "fs-0a1b2c3d4e5f60718"}  # <-

# --- files of everybody ---

c.EC2Spawner.data_volumes = [
    {"snapshot": "snap-0a1b2c3d4e5f60718", "path": "/data/imagenet"},  # <-
]
c.EC2Spawner.buckets = [  # <-
    {"bucket": "my-data", "prefix": "images/2026/", "path": "/data/images"},
    {"bucket": "results", "path": "/data/results", "read_only": False},
]

# --- fast files that do not last: where a machine has disks of its own ---

c.EC2Spawner.scratch = "/scratch"

c.EC2Spawner.profile_list = [
    {"display_name": "T4, 16 GB", "gpu": "T4", "default": True},
    {
        "display_name": "8 × A100, 320 GB",
        "instance_types": ["p4d.24xlarge"],
        "data_volumes": [  # <- besides the hub's
            {"snapshot": "snap-0a1b2c3d4e5f60719", "path": "/data/laion"},
        ],
    },
]
c.EC2Spawner.store_url = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"
