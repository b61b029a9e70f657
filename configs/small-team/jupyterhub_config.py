"""A hub for a small team on AWS. Replace what is marked with `<-`.

The hub runs on a machine in the same VPC as the instances, with a role that has the policy in
`../iam-policy.json`. See `docs/first-hub-on-aws.md`.
"""

import os

c = get_config()

# --- machines ---

c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False  # restarting the hub must not stop servers

c.EC2Spawner.hub_name = "small-team"  # in the tags of everything it creates, and in the IAM policy
c.EC2Spawner.region = "us-east-1"  # <-
c.EC2Spawner.subnets = [  # <- one for each zone: more zones find spot more often
    "subnet-0a1b2c3d4e5f60001",
    "subnet-0a1b2c3d4e5f60002",
    "subnet-0a1b2c3d4e5f60003",
]
c.EC2Spawner.security_groups = ["sg-0a1b2c3d4e5f60718"]  # <- lets the hub reach port 8888
c.EC2Spawner.image = "ami-0a1b2c3d4e5f60718"  # <- has ec2spawner and JupyterLab
c.EC2Spawner.disk_gib = 100

c.EC2Spawner.profile_list = [
    {
        "display_name": "T4, 16 GB",
        "description": "For notebooks, small models and inference",
        "gpu": "T4",
        "default": True,
        "profile_options": {  # what users may choose
            "market": ["on-demand"],
            "disk_gib": {"min": 50, "max": 500},
            "idle": {"min": "15m", "max": "4h"},
        },
    },
    {
        "display_name": "A10G, 24 GB",
        "description": "For training medium models",
        "gpu": "A10G",
        "profile_options": {"market": ["on-demand"], "idle": {"min": "15m", "max": "4h"}},
    },
    {
        "display_name": "L40S, 48 GB",
        "description": "For fine-tuning; never interrupted",
        "gpu": "L40S",
        "market": "on-demand",
        "idle": {"server": "30m"},
    },
    {
        "display_name": "No GPU",
        "slug": "cpu",
        "description": "For writing code and looking at data",
        "vcpus": 4,
        "memory_gib": 16,
    },
]

# --- files, and idle servers ---

c.EC2Spawner.home = {"kind": "ebs", "size_gib": 100}
c.EC2Spawner.idle = {
    "server": "1h",
    "kernel": "2h",
    "warn": "10m",
    "user_may_extend": "4h",
    "max_age": "3d",  # stops even a server that is busy; 0 is no limit
    # A longer limit during working hours, and what users may choose for their own server.
    "working_hours": {"when": "Mon-Fri 08:00-18:00 Europe/Berlin", "server": "2h"},
    "user_may_set": {"server": ["15m", "8h"]},
}
c.EC2Spawner.time_zone = "Europe/Berlin"  # <- where months of costs and limits begin
c.EC2Spawner.limits = {  # <- USD; docs/how-to/limits.md
    "user": {"usd_per_month": 500, "usd_per_hour": 15},
    "hub": {"usd_per_month": 3000},
}
c.EC2Spawner.store_url = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"
# Or a separate PostgreSQL database, with its password in ~/.pgpass:
# c.EC2Spawner.store_url = "postgresql://ec2spawner@db.example.org/ec2spawner?sslmode=verify-full"
c.EC2Spawner.contact = "gpu-help@example.org"  # <-

# --- alarms: limits, idle GPUs, interruptions, prices, quotas, leaks; see docs/how-to/alarms.md ---

# An Apprise URL, such as mailtos://user:password@mail.example.org?to=ops@example.org, in
# secrets.env. Needs ec2spawner[alarms].
if "ALARMS_TO" in os.environ:
    c.EC2Spawner.alarms = {"to": [os.environ["ALARMS_TO"]], "summary": "Mon 08:00"}

# --- the hub itself, on a machine that `../aws` has set up ---

c.JupyterHub.bind_url = "https://:443"
c.JupyterHub.hub_bind_url = "http://:8081"  # its proxy on this machine, and the instances
c.JupyterHub.hub_connect_url = "http://10.0.0.5:8081"  # <- this machine's private address
c.ConfigurableHTTPProxy.should_start = False  # it is a unit of its own
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8001"

# Needs oauthenticator, and the application's secret as OAUTH_CLIENT_SECRET in secrets.env.
c.JupyterHub.authenticator_class = "github"
c.OAuthenticator.client_id = "0a1b2c3d4e5f60718293"  # <-
c.OAuthenticator.oauth_callback_url = "https://hub.example.org/hub/oauth_callback"  # <-
c.Authenticator.allowed_users = {"ann", "bob"}  # <-
c.Authenticator.admin_users = {"ann"}  # <-
