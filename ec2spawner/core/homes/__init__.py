"""Homes: migration between zones and the schedule of snapshots. Pure."""
