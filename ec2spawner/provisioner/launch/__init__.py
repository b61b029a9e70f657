"""Buying instances: launch calls, what EC2 answered, and why nothing could be bought."""
