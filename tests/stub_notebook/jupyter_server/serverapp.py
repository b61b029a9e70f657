"""Nothing: without it, the prewarmed process would start the stub as a new process."""
