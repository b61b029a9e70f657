"""What instances cost, exactly: segments of time at one price -> USD, and what it was for."""
