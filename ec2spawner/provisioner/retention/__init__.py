"""Instances that are retained for their user after a stop, and restarted for them."""
