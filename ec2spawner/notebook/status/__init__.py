"""What the status of a server says to its user."""
