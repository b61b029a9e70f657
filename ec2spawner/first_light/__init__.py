"""`ec2spawner first-light`: the whole journey of a user on a real account, under a dollar cap.

A temporary JupyterHub with the admin's own configuration, a profile and a store of its own starts,
stops and restarts a server. Whatever happens, what it created is deleted, and a listing proves it.
"""
