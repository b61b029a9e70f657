"""Instances without a lease: listing, claims, inventory, termination, overhead."""
