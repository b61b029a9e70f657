"""The ledger in SQL: its lines, their totals, and what is read of them."""
