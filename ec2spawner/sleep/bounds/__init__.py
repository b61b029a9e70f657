"""What saving and restoring may take: time, stack, memory, output, and processes of their own."""
