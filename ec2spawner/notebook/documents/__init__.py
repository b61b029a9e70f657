"""Outputs of cells whose page was closed, which JupyterLab would lose."""
