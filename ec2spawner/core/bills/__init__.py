"""AWS's bill, and what differs between it and the ledger. Pure."""
