"""Home volumes: creation, snapshots, migration between zones, placement."""
