"""What the hub reports: metrics, events, log lines."""
