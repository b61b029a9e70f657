"""The steps of a check: each reads facts, and `verdicts` says what they mean."""
