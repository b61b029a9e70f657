"""The bench `cluster`; `bench` says what it does."""
