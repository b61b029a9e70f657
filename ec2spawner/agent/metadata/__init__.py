"""The instance metadata service: identity and interruption notices."""
