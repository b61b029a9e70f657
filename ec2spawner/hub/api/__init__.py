"""The HTTP API for agents and users, and how calls to stop a server are handled."""
