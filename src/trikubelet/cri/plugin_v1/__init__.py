"""What plugins of a node are asked, as protobuf: how they register (registration.proto), and CSI's node service."""
