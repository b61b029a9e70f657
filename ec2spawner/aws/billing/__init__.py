"""What AWS charges: prices, and bills."""
