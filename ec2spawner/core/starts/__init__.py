"""What became of a start, and how long each of its phases took."""
