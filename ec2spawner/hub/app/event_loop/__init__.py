"""Keeps the hub's event loop free while many servers run and start."""
