"""EBS volumes and snapshots, EFS file systems, S3 buckets."""
