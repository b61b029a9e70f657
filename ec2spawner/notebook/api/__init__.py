"""What the browser asks the extension of Jupyter Server."""
