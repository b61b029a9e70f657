"""What a job of jupyter-scheduler means for its run."""
