"""Restoring a generation, also where a module or a value would end the kernel."""
