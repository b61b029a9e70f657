"""When a session is saved before its instance goes, for how long it is kept. Pure."""
