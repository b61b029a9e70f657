"""The agent's calls to the hub."""
