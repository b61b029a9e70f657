"""The tags of everything this hub creates, in the creating call. None of them is a secret."""

from __future__ import annotations

HUB = "ec2spawner:hub"
"""Which hub: an account may hold several."""
STORE = "ec2spawner:store"
"""The store's random id: we never touch what another store launched."""
LAUNCH_KEY = "ec2spawner:launch-key"
INTENT = "ec2spawner:intent"
"""Client token of the launch call."""
LEASE = "ec2spawner:lease"
"""Set when the instance is given to a lease: it is never given to another."""
USER = "ec2spawner:user"
SERVER = "ec2spawner:server"
HOME = "ec2spawner:home"
"""On volumes: id of the home."""
NAME = "Name"
