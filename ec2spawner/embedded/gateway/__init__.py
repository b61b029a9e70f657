"""What each EC2 request passes on its way to moto: validation, throttling, dry runs."""
