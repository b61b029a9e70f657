"""The tags of everything that a hub creates, in the creating call. None of them is a secret."""

from __future__ import annotations

from typing import Final

HUB: Final = "ec2spawner:hub"
"""Which hub: an account may hold several."""
STORE: Final = "ec2spawner:store"
"""The store's random id: we never touch what another store launched."""
LAUNCH_KEY: Final = "ec2spawner:launch-key"
INTENT: Final = "ec2spawner:intent"
"""Client token of the launch call."""
POOL: Final = "ec2spawner:pool"
"""Set in the launch call of an instance that was bought for the warm pool: the profile's slug."""
LEASE: Final = "ec2spawner:lease"
"""Set when the instance is given to a lease: it is never given to another. On security groups and
placement groups: the lease of the server whose cluster has it."""
USER: Final = "ec2spawner:user"
SERVER: Final = "ec2spawner:server"
"""On volumes of homes. On an instance of the warm pool: it is kept for that user's server, and set
before the home is attached."""
PAYER: Final = "ec2spawner:payer"
"""To whom it is charged, such as `group:research`: on instances with their disks and interfaces
like their lease, on homes like all homes of the user, on snapshots like their home when they were
made. Like `USER` a cost allocation tag, in the words of the ledger."""
PROFILE: Final = "ec2spawner:profile"
"""On instances with their disks and interfaces: the profile's slug."""
HOME: Final = "ec2spawner:home"
"""On volumes and snapshots: id of the home."""
SNAPSHOT: Final = "ec2spawner:snapshot"
"""On snapshots: why it was made, `scheduled`, `move` or `copy`."""
MOVE: Final = "ec2spawner:move"
"""On snapshots and volumes: id of the move of a home that they were made for."""
NAME: Final = "Name"
