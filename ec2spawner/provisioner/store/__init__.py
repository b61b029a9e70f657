"""What outlives the process: the hub's database, its tables, queries and migrations."""
