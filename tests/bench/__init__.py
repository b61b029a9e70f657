"""Benches: `python -m tests.bench NAME`. Figures are computed here and never typed in."""
