"""The spawn page: what its user can start, what that costs, and why the last server stopped."""
