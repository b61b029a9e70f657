"""The gateway in front of moto: validation, throttling, dry runs, routing of EC2 requests."""
