"""Runs: notebooks and scripts that are executed to completion, and their instances."""
