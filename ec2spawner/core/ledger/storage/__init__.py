"""What homes hold in EBS, and what that costs."""
