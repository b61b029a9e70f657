"""The journey's own hub: its configuration, its processes, and its user's requests to it."""
