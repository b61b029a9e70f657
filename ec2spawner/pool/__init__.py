"""`ec2spawner pool`: shows the warm pool of a running hub, and sets it by hand."""
