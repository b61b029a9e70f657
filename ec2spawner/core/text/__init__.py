"""Text and durations: made fit to be shown, and read. Pure."""
