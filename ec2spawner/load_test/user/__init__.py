"""One simulated user: what a browser and a notebook page send, and what comes back.

Nothing here imports locust: the command stops servers with the same code, in threads.
"""
