"""`ec2spawner interrupt`: rehearses a spot interruption, through the hub's API."""
