"""What has been spent: by leases in memory, by overhead, and on homes. No decisions."""
