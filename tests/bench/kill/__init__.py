"""The bench `kill`; `bench` says what it does."""
