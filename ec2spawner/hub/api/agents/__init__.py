"""What agents call on the hub: no input is trusted, and no cookie or token of JupyterHub counts."""
