"""What to buy and what EC2's errors mean. Pure."""
