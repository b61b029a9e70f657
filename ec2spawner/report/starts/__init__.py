"""`ec2spawner report --starts`: how long starts take, and in which phase."""
