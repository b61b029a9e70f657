"""Launches: RunInstances and CreateFleet, lifecycle, vCPU quotas, reservations."""
