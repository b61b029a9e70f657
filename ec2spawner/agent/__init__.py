"""The instance agent: runs on the instance beside the notebook.

`agent.py` covers the time from boot to power-off, `lease_run.py` one lease.
"""
