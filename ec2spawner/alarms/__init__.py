"""Sends alarms: through Apprise, and to SNS topics with the hub's own role."""
