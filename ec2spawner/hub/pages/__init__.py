"""What people see: the spawn page, the progress page, and why a start failed."""
