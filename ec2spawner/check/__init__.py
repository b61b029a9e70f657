"""`ec2spawner check`: proves that a hub's configuration will work, without starting anything.

`hub_config` loads the hub's own file, `account` asks AWS, `dry_runs` are the calls with DryRun that
prove permissions, `verdicts` says what the responses mean, and `report` prints it. Nothing is
changed.
"""
