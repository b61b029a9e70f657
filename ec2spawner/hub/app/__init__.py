"""What the hub process holds for its handlers and spawners: service, metrics, logs, errors."""
