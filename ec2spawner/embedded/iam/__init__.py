"""IAM: whether a policy allows a call. Pure functions of plain values."""
