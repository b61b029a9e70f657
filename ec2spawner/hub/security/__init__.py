"""Rate limits, sealed values, certificates and signed links."""
