"""A client on Google's C core, which shares no code with ours: ``grpcio_client.py SOCKET``; prints what it saw."""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc

from trikubelet.cri.v1 import api_pb2 as pb

RUNTIME = "/runtime.v1.RuntimeService/"
channel = grpc.insecure_channel(f"unix:{sys.argv[1]}", options=[("grpc.max_receive_message_length", -1)])
version = channel.unary_unary(RUNTIME + "Version", pb.VersionRequest.SerializeToString, pb.VersionResponse.FromString)
containers = channel.unary_unary(RUNTIME + "ListContainers", pb.ListContainersRequest.SerializeToString, None)
stream = channel.unary_stream(
    RUNTIME + "StreamContainers", pb.StreamContainersRequest.SerializeToString, pb.StreamContainersResponse.FromString
)
events = channel.unary_stream(
    RUNTIME + "GetContainerEvents", pb.GetEventsRequest.SerializeToString, pb.ContainerEventResponse.FromString
)


def failure(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except grpc.RpcError as error:
        return f"{error.code().name} {error.details()}"
    return "none"


print("ready", flush=True)
print("version", version(pb.VersionRequest(version="a")).version)
print("metadata", version(pb.VersionRequest(version="b"), metadata=(("x-trace", "1"), ("y-bin", b"\0"))).version)
with ThreadPoolExecutor(20) as pool:
    print("many", sum(1 for _ in pool.map(lambda n: version(pb.VersionRequest(version=str(n))), range(500))))
print("large", len(containers(pb.ListContainersRequest(filter=pb.ContainerFilter(id="100000000")))))
print("stream", sum(1 for _ in stream(pb.StreamContainersRequest())))
calls = events(pb.GetEventsRequest())
print("events", [next(calls).container_id for _ in range(3)])
calls.cancel()
print("bug", failure(version, pb.VersionRequest(version="bug")))
print("large request", failure(version, pb.VersionRequest(version="x" * 17 * 2**20)))
print("deadline", failure(version, pb.VersionRequest(version="wait"), timeout=0.05))
missing = channel.unary_unary("/no.Such/Method")
print("missing", failure(missing, b""))
nonsense = channel.unary_unary(RUNTIME + "Version")
print("nonsense", failure(nonsense, b"\xff\xff\xff"))
print("alive", version(pb.VersionRequest(version="z")).version, flush=True)
