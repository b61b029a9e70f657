"""The instance agent: what runs on the instance beside the notebook.

`agent.py` tells the story from boot to power-off; each other module is one thing it does.
"""
