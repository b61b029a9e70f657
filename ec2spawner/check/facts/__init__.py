"""What the check reads: of the account, the network, AWS's clock and S3. Changes nothing."""
