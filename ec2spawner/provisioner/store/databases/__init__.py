"""The databases that can hold the store: SQLite, PostgreSQL, and the thread that uses them."""
