"""CRI, the Container Runtime Interface: gRPC over a Unix socket on Trio, and the only adapter that sees protobuf.

v1/            api.proto and what is generated from it
methods        what the generated stubs are made of
channel        the client's end: one connection at a time, kept up, waited for
connection     one HTTP/2 connection of the client, and its calls
server         the other end: serves the generated ``…Base`` classes on a Unix socket
wire           the bytes of one HTTP/2 connection, for both ends
errors         gRPC statuses to and from the errors of ``model.runtime_errors``
"""
