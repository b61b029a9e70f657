"""Whether a server is idle, since when, and when it stops. Pure."""
