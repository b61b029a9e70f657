"""Where instances run: each its processes, disks and metadata service, on its own address."""
