"""Clocks, background tasks, their supervision, and iteration that yields to the event loop."""
