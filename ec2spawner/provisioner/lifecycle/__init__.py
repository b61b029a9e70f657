"""A lease from its start to its end, and what can go wrong with it in between."""
