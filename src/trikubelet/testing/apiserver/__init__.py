"""The memory API server without its connections: what is stored, in which version, and what a request does to it."""
