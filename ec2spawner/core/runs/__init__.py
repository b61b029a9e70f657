"""Runs: which of the queue start now, what follows an attempt, and when the cost cap is reached."""
