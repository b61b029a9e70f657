"""A lease, what it carries, and what is reported of it."""
