"""Nothing: on a stub's instance the prewarmed process finds this, and imports nothing more."""
