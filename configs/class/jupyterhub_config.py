"""A class of 30 on AWS, each with a T4. Replace what is marked with `<-`.

Quotas and costs are in `docs/class-of-30.md`.
"""

c = get_config()

c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False  # restarting the hub must not stop servers

c.EC2Spawner.hub_name = "class"  # <- as in the hub's IAM policy; in the tags of all it creates
c.EC2Spawner.region = "us-east-1"  # <-
c.EC2Spawner.subnets = [  # <- one for each zone: more zones find spot more often
    "subnet-0a1b2c3d4e5f60001",
    "subnet-0a1b2c3d4e5f60002",
    "subnet-0a1b2c3d4e5f60003",
]
c.EC2Spawner.security_groups = ["sg-0a1b2c3d4e5f60718"]  # <- lets the hub reach port 8888
c.EC2Spawner.image = "ami-0a1b2c3d4e5f60718"  # <- has ec2spawner, JupyterLab and the packages

c.EC2Spawner.profile_list = [
    {
        "display_name": "T4, 16 GB",
        "description": "For the exercises",
        "instance_types": ["g4dn.xlarge"],  # 4 vCPUs each: 30 of them are 120
        "default": True,
    },
    {
        "display_name": "No GPU",
        "slug": "cpu",
        "description": "For reading and writing",
        "vcpus": 4,
        "memory_gib": 16,
    },
]

# A volume for each student, which no other instance has: students may become root on theirs. On a
# shared file system, root reads the homes of all.
c.EC2Spawner.home = {"kind": "ebs", "size_gib": 20}
c.EC2Spawner.data_volumes = [
    {"snapshot": "snap-0a1b2c3d4e5f60718", "path": "/data/course"},  # <- or remove it
]

c.EC2Spawner.idle = {
    "server": "30m",
    "kernel": "1h",
    "warn": "10m",
    "user_may_extend": "2h",
    "max_age": "8h",  # forgotten servers stop at the end of the day
}
# An afternoon costs about $2 a student; what runs at night or next week stops at these.
c.EC2Spawner.time_zone = "America/New_York"  # <-
# The first who come need not wait for a boot. Each costs as much as a server in use.
c.EC2Spawner.warm_pool = [
    {"profile": "t4-16-gb", "running": 5, "when": "Tue,Thu 13:45-14:30"},  # <- or remove it
]
c.EC2Spawner.warm_pool_usd_per_hour = 3
# With a capacity reservation there is a GPU for everyone: `ec2spawner plan` prints the command that
# makes one. Its places cost the on-demand price, used or not.
# c.EC2Spawner.capacity_reservations = {"tags": {"course": "ml-101"}}
# A Capacity Block has the price that was paid for it:
# {"blocks": [{"id": "cr-0a1b2c3d4e5f60718", "upfront_usd": 8421.12}]}
c.EC2Spawner.limits = {
    "user": {"usd_per_month": 25, "servers": 1, "max_run": "8h"},
    "hub": {"usd_per_month": 800, "at_limit": "warn"},  # no new servers; those that run continue
}
c.EC2Spawner.store_url = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"
c.EC2Spawner.contact = "teacher@example.org"  # <-

# --- the hub itself, on a machine that `../aws` has set up ---

c.JupyterHub.bind_url = "https://:443"
c.JupyterHub.hub_bind_url = "http://:8081"  # its proxy on this machine, and the instances
c.JupyterHub.hub_connect_url = "http://10.0.0.5:8081"  # <- this machine's private address
c.ConfigurableHTTPProxy.should_start = False  # it is a unit of its own
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:8001"
c.JupyterHub.concurrent_spawn_limit = 40  # the whole class presses Start in the same minute
c.JupyterHub.active_server_limit = 35  # including the teachers' servers: limits the bill

# The accounts of the school. Needs oauthenticator, and OAUTH_CLIENT_SECRET in secrets.env.
c.JupyterHub.authenticator_class = "generic-oauth"
c.OAuthenticator.client_id = "jupyterhub"  # <-
c.OAuthenticator.oauth_callback_url = "https://hub.example.org/hub/oauth_callback"  # <-
c.GenericOAuthenticator.authorize_url = "https://login.example.org/authorize"  # <-
c.GenericOAuthenticator.token_url = "https://login.example.org/token"  # <-
c.GenericOAuthenticator.userdata_url = "https://login.example.org/userinfo"  # <-
c.GenericOAuthenticator.scope = ["openid", "profile"]  # <- what the next line needs
c.GenericOAuthenticator.username_claim = "preferred_username"  # <- the names below are of this kind
c.Authenticator.allowed_users = {f"student{number:02}" for number in range(1, 31)}  # <-
c.Authenticator.admin_users = {"teacher"}  # <-
