"""The only package that imports boto3: `provisioner.model.cloud.cloud.Cloud` for EC2."""

from .ec2 import EC2Cloud

__all__ = ["EC2Cloud"]
