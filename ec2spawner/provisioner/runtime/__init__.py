"""Clocks, background tasks and their supervision."""
