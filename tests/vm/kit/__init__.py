"""Virtual machines for tests: an emulated computer that boots Debian with systemd, and the agent or a kubelet on it."""
