"""Is a server idle, since when, and when does it stop? Pure."""
