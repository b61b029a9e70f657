"""Everything a lease mounts: home, data sets, buckets, the instance store."""
