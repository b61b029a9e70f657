"""Other AWS services as far as they are called: Service Quotas, SSM parameters."""
