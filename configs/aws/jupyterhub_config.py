"""The hub that `setup-hub.sh` sets up: /etc/jupyterhub/jupyterhub_config.py. Change it as you like.

What belongs to the account comes from /etc/ec2spawner/hub.env, secrets from
/etc/jupyterhub/secrets.env. After a change:

    sudo as-hub ec2spawner check --config=/etc/jupyterhub/jupyterhub_config.py
    sudo systemctl restart jupyterhub
"""

import os
import socket

c = get_config()


def private_address() -> str:
    """Of this machine: where the way to EC2's metadata begins. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("169.254.169.254", 80))
        address: str = probe.getsockname()[0]
        return address


# --- machines ---

c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False  # restarting the hub must not stop servers

c.EC2Spawner.hub_name = os.environ["HUB_NAME"]
c.EC2Spawner.region = os.environ["HUB_REGION"]
c.EC2Spawner.subnets = os.environ["HUB_SUBNETS"].split()
c.EC2Spawner.security_groups = os.environ["HUB_SECURITY_GROUPS"].split()
c.EC2Spawner.instance_profile = os.environ["HUB_INSTANCE_PROFILE"]
# The newest Deep Learning AMI; each instance installs ec2spawner at its boot, which takes minutes.
# With an image of your own starts are faster: c.EC2Spawner.image = {"name": "notebooks-*", ...}
# Extras of the hub, such as ec2spawner[postgresql], are of no use there.
c.EC2Spawner.agent_package = (
    "ec2spawner[notebook]" + os.environ["HUB_PACKAGE"].removeprefix("ec2spawner").split("]")[-1]
)

c.EC2Spawner.profile_list = [
    {
        "display_name": "No GPU",
        "slug": "cpu",
        "description": "For writing code and looking at data",
        "vcpus": 2,
        "memory_gib": 8,
        "default": True,
    },
    {
        "display_name": "T4, 16 GB",
        "description": "For notebooks, small models and inference",
        "gpu": "T4",
        "profile_options": {"market": ["on-demand"]},
    },
    {
        "display_name": "A10G, 24 GB",
        "description": "For training medium models",
        "gpu": "A10G",
        "profile_options": {"market": ["on-demand"]},
    },
]

# --- files, and idle servers ---

c.EC2Spawner.home = {"kind": "ebs", "size_gib": 50}
c.EC2Spawner.idle = {
    "server": "1h",
    "kernel": "2h",
    "warn": "10m",
    "user_may_extend": "4h",
    "max_age": "3d",  # stops even a server that is busy; 0 is no limit
    "then": "sleep",  # saves variables before the stop
}
c.EC2Spawner.sleep = {"save": "5m", "keep": "30d", "max_disk_gib": 20}
c.EC2Spawner.interruption = {"then": "resume"}  # spot, otherwise on-demand
c.EC2Spawner.store_url = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"

# --- the hub itself ---

c.JupyterHub.bind_url = "https://:443"
c.JupyterHub.hub_bind_url = "http://:8081"  # the proxy on this machine, and the instances
c.JupyterHub.hub_connect_url = f"http://{private_address()}:8081"
c.JupyterHub.active_server_limit = 20  # limits the bill

c.ConfigurableHTTPProxy.should_start = False  # it is a unit of its own
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8001"

# One password for all users, so each can log in as any other: for the first days only.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["HUB_USER_PASSWORD"]
c.SharedPasswordAuthenticator.admin_password = os.environ["HUB_ADMIN_PASSWORD"]
c.Authenticator.admin_users = {os.environ["HUB_ADMIN"]}
c.Authenticator.allowed_users = {os.environ["HUB_ADMIN"], *os.environ["HUB_USERS"].split()}
