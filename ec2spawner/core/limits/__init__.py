"""Limits of spending and use: what is left, who may start, and when a limit will be reached."""
