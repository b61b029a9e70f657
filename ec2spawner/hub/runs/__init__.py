"""Runs, from what a user submits to the leases of their attempts."""
