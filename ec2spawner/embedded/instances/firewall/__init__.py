"""Which packets reach an instance: security groups and network ACLs."""
