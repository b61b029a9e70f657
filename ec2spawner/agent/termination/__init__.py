"""The orderly end of a lease on its instance: what is saved, and in which time."""
