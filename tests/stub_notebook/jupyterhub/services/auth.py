"""Nothing: the prewarmed process imports it, and the stub needs none of it."""
