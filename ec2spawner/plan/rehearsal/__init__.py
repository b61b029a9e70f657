"""`ec2spawner plan --rehearse N`: starts N servers of the profile for real, and stops them.

Everything goes through the hub's API, with an admin's token: `run` is the course of a rehearsal,
`hub` its calls, `users` whose servers they are. What it took and cost is read from the hub's store:
`result` is what that means, `report` prints it.
"""
