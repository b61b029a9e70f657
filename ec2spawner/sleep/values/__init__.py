"""A few values that share objects, as a file: without time limits and plans."""
