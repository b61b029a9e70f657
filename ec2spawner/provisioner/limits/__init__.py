"""Limits on starts, and on servers while they run."""
