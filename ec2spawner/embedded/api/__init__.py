"""EC2's Query protocol over HTTP: authentication, validation, throttling, moto behind it."""
