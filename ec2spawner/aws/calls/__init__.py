"""One client for every AWS service: threads, timeouts, tokens, batches, errors, and a log."""
