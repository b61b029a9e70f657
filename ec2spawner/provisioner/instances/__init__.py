"""Instances without a lease: the claims they make, and the supply they are."""
