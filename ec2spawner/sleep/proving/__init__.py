"""Proving that what was saved comes back as it is."""
