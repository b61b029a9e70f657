"""One client for every AWS service: threads, timeouts, retries, errors, the log of calls."""
