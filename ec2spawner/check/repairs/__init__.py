"""What `check --fix` may do: it is safe, costs nothing, and is done after asking."""
