"""What an admin may write for one option, or for one entry of its list: a module for each."""
