"""Values and protocols that the rest of the provisioner shares: leases, the cloud, settings."""
