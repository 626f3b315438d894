"""The memory API server without its connections: what is stored, in which version, and the effect of requests."""
