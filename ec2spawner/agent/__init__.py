"""The instance agent: what runs on the instance beside the notebook.

`agent.py` is the sequence from boot to power-off, `lease_run.py` that of the lease in it; each
other module is one thing they do.
"""
