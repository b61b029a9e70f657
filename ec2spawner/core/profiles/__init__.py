"""Profiles, and what a user may choose within one. Pure."""
