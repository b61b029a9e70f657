"""Puts this server's session to sleep when the agent orders it, and wakes it at the next start."""
