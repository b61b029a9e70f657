"""EC2's wire protocols, moto behind them, access keys."""
