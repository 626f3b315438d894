"""The calls to plugins of a node, as protobuf: their registration (registration.proto), and CSI's node service."""
