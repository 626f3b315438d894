"""A well-behaved server process on Google's C core, which shares no code with ours: ``grpcio_server.py SOCKET``."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from trikubelet.cri.v1 import api_pb2 as pb

RUNTIME = "/runtime.v1.RuntimeService/"
entered = threading.Event()
left = threading.Event()


class Service(grpc.GenericRpcHandler):
    def service(self, details):
        method = details.method.removeprefix(RUNTIME)
        if method == "Version":
            return grpc.unary_unary_rpc_method_handler(version, pb.VersionRequest.FromString, serialise)
        if method == "ListContainers":
            return grpc.unary_unary_rpc_method_handler(containers, pb.ListContainersRequest.FromString, None)
        if method == "GetContainerEvents":
            return grpc.unary_stream_rpc_method_handler(events, pb.GetEventsRequest.FromString, serialise)
        return None


def serialise(message):
    return message.SerializeToString()


def version(request, context):
    if request.version == "missing":
        context.abort(grpc.StatusCode.NOT_FOUND, 'container "ü%" in namespace "k8s.io": not found')
    if request.version == "deadline":
        return pb.VersionResponse(version=f"{context.time_remaining():.0f}")
    if request.version == "wait":
        entered.set()
        gone = threading.Event()
        if context.add_callback(gone.set):  # else they have left already
            gone.wait()
        left.set()
    if request.version == "are they in":
        entered.wait()
    if request.version == "have they left":
        left.wait()
    return pb.VersionResponse(version=request.version)


def containers(request, context):
    return bytes(int(request.filter.id))


def events(request, context):
    for number in range(3):
        yield pb.ContainerEventResponse(container_id=f"c{number}")
    while context.is_active():
        time.sleep(0.01)


server = grpc.server(
    ThreadPoolExecutor(32), options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
)
server.add_generic_rpc_handlers((Service(),))
server.add_insecure_port(f"unix:{sys.argv[1]}")
server.start()
print("ready", flush=True)
sys.stdin.read()
