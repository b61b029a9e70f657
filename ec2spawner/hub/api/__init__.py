"""The HTTP API for users, and below it that for agents; how calls to stop a server are handled."""
