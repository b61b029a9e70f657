"""Prices, discounts and the cost of time. Pure."""
