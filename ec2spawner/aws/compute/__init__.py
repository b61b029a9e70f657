"""Instances, what they are launched from and with, and what the account allows."""
