"""The notebook server as a process: prewarmed, started, watched, stopped."""
