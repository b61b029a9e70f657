"""A hub with shared data: a data set, buckets, and fast disks for temporary files.

Choose how users log in as in `../small-team/jupyterhub_config.py`. The image needs mount-s3:
`debs` of the recipe in `../ami`. Replace what is marked with `<-`.
"""

c = get_config()

c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False

c.EC2Spawner.hub_name = "shared-data"
c.EC2Spawner.region = "us-east-1"  # <-
c.EC2Spawner.subnets = [  # <- one for each zone: more zones find spot more often
    "subnet-0a1b2c3d4e5f60001",
    "subnet-0a1b2c3d4e5f60002",
    "subnet-0a1b2c3d4e5f60003",
]
c.EC2Spawner.security_groups = ["sg-0a1b2c3d4e5f60718"]  # <- lets the hub reach port 8888
c.EC2Spawner.image = "ami-0a1b2c3d4e5f60718"  # <-
c.EC2Spawner.instance_profile = "notebooks"  # <- its role may read the buckets, see how-to/data

# --- homes, and idle servers ---

# Of each user alone. What users share is below: on a shared file system, root on one instance reads
# the homes of all.
c.EC2Spawner.home = {"kind": "ebs", "size_gib": 50}
c.EC2Spawner.idle = {"server": "1h", "warn": "10m", "user_may_extend": "4h", "max_age": "3d"}

# --- shared files ---

c.EC2Spawner.data_volumes = [
    {"snapshot": "snap-0a1b2c3d4e5f60718", "path": "/data/imagenet"},  # <-
]
c.EC2Spawner.buckets = [  # <-
    {"bucket": "my-data", "prefix": "images/2026/", "path": "/data/images"},
    {"bucket": "results", "path": "/data/results", "read_only": False},
]

# --- fast temporary files, on instance types with local disks ---

c.EC2Spawner.scratch = "/scratch"

c.EC2Spawner.profile_list = [
    {"display_name": "T4, 16 GB", "gpu": "T4", "default": True},
    {
        "display_name": "8 × A100, 320 GB",
        "instance_types": ["p4d.24xlarge"],
        "data_volumes": [  # <- in addition to the hub's
            {"snapshot": "snap-0a1b2c3d4e5f60719", "path": "/data/laion"},
        ],
    },
]
c.EC2Spawner.store_url = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"

# --- the hub itself, on a machine that `../aws` has set up ---

c.JupyterHub.bind_url = "https://:443"
c.JupyterHub.hub_bind_url = "http://:8081"  # its proxy on this machine, and the instances
c.JupyterHub.hub_connect_url = "http://10.0.0.5:8081"  # <- this machine's private address
c.ConfigurableHTTPProxy.should_start = False  # it is a unit of its own
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8001"

c.Authenticator.allowed_users = {"ann", "bob"}  # <-
