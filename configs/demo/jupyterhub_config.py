"""The hub of `ec2spawner demo`: everything real, on this machine, without an AWS account.

`ec2spawner demo` starts the embedded EC2, passes its address in EC2SPAWNER_DEMO, and runs
JupyterHub with this file. One password is valid for every user name: never serve this beyond
127.0.0.1.
"""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

c = get_config()
demo = json.loads(os.environ["EC2SPAWNER_DEMO"])

# --- options of any hub with ec2spawner ---

c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False

c.EC2Spawner.hub_name = "demo"
c.EC2Spawner.region = demo["region"]
c.EC2Spawner.subnets = demo["subnets"]
c.EC2Spawner.security_groups = [demo["security_group"]]
c.EC2Spawner.image = demo["image_id"]
c.EC2Spawner.store_url = f"sqlite:///{demo['data_dir']}/ec2spawner.sqlite"
c.EC2Spawner.rehearsal_role = demo.get("rehearsal_role", "")
c.EC2Spawner.profile_list = [
    {
        "display_name": "T4, 16 GB",
        "description": "For notebooks, small models and inference",
        "gpu": "T4",
        "default": True,
        "profile_options": {  # what users may choose
            "market": ["on-demand"],
            "disk_gib": {"min": 50, "max": 500},
        },
    },
    {
        "display_name": "A10G, 24 GB",
        "description": "For training medium models",
        "gpu": "A10G",
        "profile_options": {"market": ["on-demand"], "disk_gib": {"min": 50, "max": 500}},
    },
    {
        "display_name": "L40S, 48 GB",
        "description": "For fine-tuning larger models; never interrupted",
        "gpu": "L40S",
        "market": "on-demand",
    },
    {
        "display_name": "8 × A100, 320 GB",
        "slug": "a100x8",
        "description": "For large training runs",
        "instance_types": ["p4d.24xlarge"],
        "profile_options": {"market": ["on-demand"], "idle": {"min": "15m", "max": "4h"}},
        "idle": {"server": "20m"},
    },
    {
        "display_name": "No GPU",
        "slug": "cpu",
        "description": "For writing code and looking at data",
        "vcpus": 4,
        "memory_gib": 16,
    },
]
c.EC2Spawner.home = {"kind": "ebs", "size_gib": 100}
c.EC2Spawner.clusters = {"max_workers": 4}
c.EC2Spawner.runs = {"at_once": 4}
c.EC2Spawner.idle = {
    "server": "1h",
    "kernel": "2h",
    "warn": "10m",
    "user_may_extend": "4h",
    "user_may_set": {"server": ["15m", "8h"]},
}

# --- what only the embedded EC2 needs ---

c.EC2Spawner.endpoint_url = demo["ec2_endpoint"]
c.EC2Spawner.identity_certificates = [demo["certificate"]]

# --- the demo's JupyterHub: one machine, one person ---

c.JupyterHub.authenticator_class = "ec2spawner.embedded.demo.authenticator.OnePassword"
c.OnePassword.password = demo["password"]
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {"admin"}
# Hub and notebook servers refuse a `Host` that is another site's name for 127.0.0.1.
c.DemoHub.allowed_hosts = demo["allowed_hosts"]
c.Spawner.args = [
    "--ServerApp.allow_remote_access=False",
    f"--ServerApp.local_hostnames={['localhost', *demo['allowed_hosts']]}",
]
c.JupyterHub.allow_named_servers = True
c.JupyterHub.template_vars = {
    "announcement": "A demo: EC2, its prices and its GPUs are simulated on this machine.",
    "announcement_login": "This is a demo. Log in with any name and the password "
    "that is printed in the terminal where it was started.",
}
c.JupyterHub.bind_url = demo["hub_url"]
c.JupyterHub.hub_bind_url = demo["hub_api_bind_url"]
c.JupyterHub.proxy_class = "ec2spawner.own_proxy.OwnProxy"
c.ConfigurableHTTPProxy.api_url = demo["proxy_api_url"]
database = Path(demo["data_dir"], "jupyterhub.sqlite")
c.JupyterHub.db_url = f"sqlite:///{database}"
# JupyterHub commits about ten times for a start, on its event loop: see docs/how-to/large-hubs.md.
with closing(sqlite3.connect(database)) as connection:
    connection.execute("PRAGMA journal_mode = WAL")
c.JupyterHub.cookie_secret_file = f"{demo['data_dir']}/jupyterhub_cookie_secret"
c.ConfigurableHTTPProxy.pid_file = f"{demo['data_dir']}/jupyterhub-proxy.pid"
c.JupyterHub.services = [{"name": "demo", "api_token": demo["admin_token"]}]
c.JupyterHub.load_roles = [
    {
        "name": "demo",
        "scopes": ["admin:users", "admin:servers", "tokens", "list:users"],
        "services": ["demo"],
    }
]
