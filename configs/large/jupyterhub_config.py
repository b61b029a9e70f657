"""A hub for an institute: hundreds of users in groups, PostgreSQL, limits, metrics
and events.

Replace what is marked with `<-`. The hub's machine needs the package with the extra `postgresql`,
and oauthenticator. See `docs/how-to/large-hubs.md` and `docs/how-to/monitoring.md`.
"""

import logging.handlers
import os

c = get_config()

# --- machines ---

c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False  # restarting the hub must not stop servers

c.EC2Spawner.hub_name = "institute"  # in the tags of everything it creates, and in the IAM policy
c.EC2Spawner.region = "us-east-1"  # <-
c.EC2Spawner.subnets = [  # <- as many zones as the region has: a GPU is often in few of them
    "subnet-0a1b2c3d4e5f60001",
    "subnet-0a1b2c3d4e5f60002",
    "subnet-0a1b2c3d4e5f60003",
    "subnet-0a1b2c3d4e5f60004",
]
c.EC2Spawner.security_groups = ["sg-0a1b2c3d4e5f60718"]  # <- lets the hub reach port 8888
c.EC2Spawner.image = {"name": "notebooks-*", "owners": ["self"]}  # the newest of `../ami`

# Without groups, a profile is for everyone. Order and groups are what users see on the spawn page.
c.EC2Spawner.profile_list = [
    {
        "display_name": "No GPU",
        "slug": "cpu",
        "description": "For writing code and looking at data",
        "vcpus": 4,
        "memory_gib": 16,
        "default": True,
        "profile_options": {"disk_gib": {"min": 100, "max": 500}},
    },
    {
        "display_name": "Much memory",
        "slug": "memory",
        "description": "For tables that do not fit elsewhere",
        "vcpus": 16,
        "memory_gib": 128,
        "groups": ["staff"],
    },
    {
        "display_name": "T4, 16 GB",
        "description": "For courses, small models and inference",
        "gpu": "T4",
        "profile_options": {"market": ["on-demand"]},
    },
    {
        "display_name": "A10G, 24 GB",
        "description": "For training medium models",
        "gpu": "A10G",
        "groups": ["students", "staff"],
        "profile_options": {"market": ["on-demand"], "idle": {"min": "15m", "max": "4h"}},
    },
    {
        "display_name": "L40S, 48 GB",
        "description": "For fine-tuning and larger inference",
        "gpu": "L40S",
        "groups": ["staff"],
        "after_stop": {"linger": "10m"},  # a restart within ten minutes is immediate
    },
    {
        "display_name": "4 × A10G, 96 GB",
        "description": "For training on several GPUs",
        "gpu": "A10G",
        "gpu_count": 4,
        "groups": ["staff"],
        "idle": {"server": "30m"},
    },
    {
        "display_name": "8 × A100, 320 GB",
        "slug": "a100x8",
        "description": "Ask before a run of more than a day",
        "instance_types": ["p4d.24xlarge"],
        "groups": ["large-training"],
        "idle": {"server": "20m", "warn": "10m", "user_may_extend": "1h", "max_age": "2d"},
    },
]
c.EC2Spawner.home = {"kind": "ebs", "size_gib": 100}

# --- idle servers ---

c.EC2Spawner.idle = {
    "server": "1h",
    "kernel": "2h",
    "warn": "10m",
    "user_may_extend": "4h",
    "max_age": "3d",  # stops even a server that is busy
    "busy_without_work": "12h",  # of a kernel that does nothing measurable
    "working_hours": {"when": "Mon-Fri 08:00-18:00 Europe/Berlin", "server": "2h"},
    "user_may_set": {"server": ["15m", "8h"]},
}
c.EC2Spawner.idle_by_group = {
    "students": {"server": "30m", "user_may_extend": "2h", "max_age": "10h"},
}

# --- the store ---

# Its password is in ~/.pgpass of the hub's user, or in PGPASSWORD in secrets.env.
c.EC2Spawner.store_url = (  # <-
    "postgresql://ec2spawner@db.example.org/ec2spawner?sslmode=verify-full"
)
c.EC2Spawner.contact = "gpu-help@example.org"  # <-

# --- the hub itself, on a machine that `../aws` has set up ---

c.JupyterHub.bind_url = "https://:443"
c.JupyterHub.hub_bind_url = "http://:8081"  # its proxy on this machine, and the instances
c.JupyterHub.hub_connect_url = "http://10.0.0.5:8081"  # <- this machine's private address
c.ConfigurableHTTPProxy.should_start = False  # it is a unit of its own
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8001"

c.JupyterHub.concurrent_spawn_limit = 200  # a launch call for each profile, zone and market
c.JupyterHub.active_server_limit = 400  # limits the bill; some 1,500 open files of the hub
c.JupyterHub.allow_named_servers = True
c.JupyterHub.named_server_limit_per_user = 2
c.JupyterHub.activity_resolution = 300  # fewer writes to the hub's database

# --- who may log in, and in which groups ---

c.JupyterHub.authenticator_class = "generic-oauth"
c.OAuthenticator.client_id = "jupyterhub"  # <- its secret is OAUTH_CLIENT_SECRET in secrets.env
c.OAuthenticator.oauth_callback_url = "https://hub.example.org/hub/oauth_callback"  # <-
c.GenericOAuthenticator.authorize_url = "https://login.example.org/authorize"  # <-
c.GenericOAuthenticator.token_url = "https://login.example.org/token"  # <-
c.GenericOAuthenticator.userdata_url = "https://login.example.org/userinfo"  # <-
c.Authenticator.manage_groups = True
c.OAuthenticator.auth_state_groups_key = "oauth_user.groups"  # <- the claim with the groups
c.OAuthenticator.allowed_groups = {"staff", "students", "large-training"}
c.OAuthenticator.admin_groups = {"hub-admins"}

# --- Prometheus reads /hub/metrics with this token, see docs/how-to/monitoring.md ---

c.JupyterHub.services = [
    {"name": "prometheus", "api_token": os.environ["PROMETHEUS_TOKEN"]},  # in secrets.env
]
c.JupyterHub.load_roles = [
    {"name": "prometheus", "scopes": ["read:metrics"], "services": ["prometheus"]},
]

# --- each phase of a start and each stop, as a line of JSON: see docs/how-to/monitoring.md ---

# The lines name users. logrotate may rename the file: the next line opens a new one.
c.EventLogger.handlers = [logging.handlers.WatchedFileHandler("events.log", delay=True)]
