"""The bench `faults`; `bench` says what it does."""
