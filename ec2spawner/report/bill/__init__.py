"""AWS's bill: exports in S3 or in a folder, or Cost Explorer."""
