"""What an admin is notified of: rules on the state, and the alarms on their way."""
