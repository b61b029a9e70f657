"""The kernels of a notebook server, and which there are to start."""
