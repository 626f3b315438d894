"""The calls to plugins of a node, as protobuf: registration, CSI's node service, device plugins."""
