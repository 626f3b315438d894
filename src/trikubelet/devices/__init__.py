"""Device plugins of this node: which are connected, and the devices that they list."""
