"""Simulated spot prices, their history, and the Price List API."""
