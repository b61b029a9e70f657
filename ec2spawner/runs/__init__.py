"""Runs, as seen from a user's server: submitted, followed and cancelled through the instance's
agent, and their results written into the home."""
