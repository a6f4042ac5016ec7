"""An xDS control plane over stock gRPC (ADS, state of the world): python control_plane.py PROTO

It writes its port, and then a line of JSON for each line that it reads:

    stream          waits until a node has opened a stream; its first request
    push JSON       pushes {"version": …, "domains": {NAME: {"user": REQUESTS, "unit": UNIT}}}; what the node says to it
    stop            goes away in the middle of whatever it does
    start           comes back, on the same port
"""

import glob
import importlib
import json
import queue
import sys
import tempfile
import threading
from concurrent import futures

import grpc
import grpc_tools
from grpc_tools import protoc

TYPE_URL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
# Far longer than anything in a test takes.
DEADLINE = 120


def generate(proto):
    """Makes Python of the contract, below a folder that ends with the program."""
    folder = tempfile.TemporaryDirectory()
    wells = grpc_tools.__path__[0] + "/_proto"
    files = [path for kind in ("envoy", "ratelimit", "google") for path in glob.glob(f"{proto}/{kind}/**/*.proto", recursive=True)]
    assert protoc.main(["protoc", f"-I{proto}", f"-I{wells}", f"--python_out={folder.name}"] + files) == 0
    sys.path.insert(0, folder.name)
    # It is imported already, from where protobuf is installed.
    importlib.import_module("google").__path__.append(f"{folder.name}/google")
    return folder


class Stream:
    """A stream that a node has opened."""

    def __init__(self, requests):
        self.requests, self.pushes = queue.Queue(), queue.Queue()
        self.nonce = 0
        threading.Thread(target=self.read, args=(requests,), daemon=True).start()

    def read(self, requests):
        try:
            for request in requests:
                self.requests.put(request)
        except grpc.RpcError:
            pass

    def asked(self):
        """The next request of the node."""
        request = self.requests.get(timeout=DEADLINE)
        said = {"version": request.version_info, "nonce": request.response_nonce, "node": request.node.id}
        if request.HasField("error_detail"):
            said["error"] = request.error_detail.message
        return said


class ControlPlane:
    def __init__(self, discovery, config):
        self.discovery, self.config = discovery, config
        self.port = 0
        self.stream = None
        self.start()

    def start(self):
        self.streams = queue.Queue()
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        handler = grpc.stream_stream_rpc_method_handler(
            self.serve,
            request_deserializer=self.discovery.DiscoveryRequest.FromString,
            response_serializer=self.discovery.DiscoveryResponse.SerializeToString,
        )
        methods = {"StreamAggregatedResources": handler}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()

    def stop(self):
        if self.stream:
            self.stream.pushes.put(None)
        self.server.stop(grace=0).wait()

    def serve(self, requests, _):
        stream = Stream(requests)
        self.streams.put(stream)
        yield from iter(stream.pushes.get, None)

    def open(self):
        self.stream = self.streams.get(timeout=DEADLINE)
        return self.stream.asked()

    def push(self, version, domains):
        self.stream.nonce += 1
        response = self.discovery.DiscoveryResponse(version_info=version, nonce=str(self.stream.nonce), type_url=TYPE_URL)
        for name, limit in domains.items():
            config = self.config.RateLimitConfig(name=f"config/{name}", domain=name)
            policy = config.descriptors.add(key="user").rate_limit
            policy.requests_per_unit, policy.unit = limit["user"], self.config.RateLimitUnit.Value(limit["unit"])
            response.resources.add(type_url=TYPE_URL, value=config.SerializeToString())
        self.stream.pushes.put(response)
        said = self.stream.asked()
        assert said["nonce"] == response.nonce, said
        return said


generated = generate(sys.argv[1])
plane = ControlPlane(
    importlib.import_module("envoy.service.discovery.v3.discovery_pb2"),
    importlib.import_module("ratelimit.config.ratelimit.v3.rls_conf_pb2"),
)
print(plane.port, flush=True)
for line in sys.stdin:
    command, _, more = line.strip().partition(" ")
    if command == "stream":
        said = plane.open()
    elif command == "push":
        said = plane.push(**json.loads(more))
    else:
        said = getattr(plane, command)()
    print(json.dumps(said), flush=True)
plane.stop()
