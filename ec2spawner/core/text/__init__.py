"""Text of others made safe to show, and durations parsed and worded. Pure."""
