"""CloudWatch metrics and SNS topics."""
