"""What the parts run on: a hub, an EC2 before it, and instances that cost next to nothing."""
