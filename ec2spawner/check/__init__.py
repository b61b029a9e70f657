"""`ec2spawner check`: proves that a hub's configuration will work, without starting anything.

`hub_config` loads the hub's own file, `account` asks AWS, `judge` says what the answers mean, and
`report` prints it. Nothing is changed: what would change something is asked with DryRun.
"""
