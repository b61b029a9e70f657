"""`ec2spawner run` and `ec2spawner runs`."""
