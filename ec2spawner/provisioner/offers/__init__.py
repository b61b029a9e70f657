"""What can be bought now, and what it costs."""
