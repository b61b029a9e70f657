"""`ec2spawner check`: proves that a hub's configuration will work, without starting anything.

`hub_config` loads the hub's own file. Each of `steps` reads `facts`, concurrently with others where
it needs nothing of them, and `verdicts` says what they mean: pure functions that return findings.
`dry_runs` are the calls with DryRun that prove permissions, and `report` prints it all. Nothing is
changed, but for `repairs`: what `--fix` does after asking.
"""
