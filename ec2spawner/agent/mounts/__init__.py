"""What a lease mounts: home, data sets, buckets, instance store."""
