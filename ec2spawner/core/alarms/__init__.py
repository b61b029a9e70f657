"""What an admin is notified of, and when: rules as functions of plain values. Pure."""
