"""Which instance serves which lease, is retained, or has leaked. Pure."""
