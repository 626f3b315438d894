"""The memory API server without its connections: the stored objects, their versions, and the effect of requests."""
