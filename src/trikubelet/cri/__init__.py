"""CRI, the Container Runtime Interface: gRPC over a Unix socket on Trio, and the only adapter that sees protobuf.

v1/            api.proto and the modules generated from it
methods        the base of the generated stubs
channel        the client: one connection at a time, re-established when lost; callers wait for it
connection     one HTTP/2 connection of the client, and its calls
server         the server: serves the generated ``…Base`` classes on a Unix socket
wire           the bytes of one HTTP/2 connection, for both ends
errors         gRPC statuses to and from the errors of ``model.runtime_errors``
"""
