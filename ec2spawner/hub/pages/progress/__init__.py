"""The progress page: the steps of a start, and why it waits."""
