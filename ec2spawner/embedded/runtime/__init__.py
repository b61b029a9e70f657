"""Runs instances as processes, each with disks and a metadata service on its own address."""
