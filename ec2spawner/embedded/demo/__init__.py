"""`ec2spawner demo`: the embedded EC2 and a JupyterHub in front of it."""
