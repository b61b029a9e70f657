"""What passes report of leases and GPUs, to metrics and to the event log; they change nothing."""
