"""What is known now, in memory: leases, the last listing, homes, spending. No decisions."""
