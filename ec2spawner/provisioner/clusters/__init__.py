"""Clusters: the workers of a server, as leases of their own that end with it."""
