"""The bench `widget`; `bench` says what it does."""
