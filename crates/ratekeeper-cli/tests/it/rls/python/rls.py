"""A stock gRPC client of a rate limit service, generated from proto/ as any user would, and a way to write cases down."""

import glob
import importlib
import json
import os
import re
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

import grpc
import grpc_tools
from google.protobuf import json_format
from grpc_tools import protoc

DEADLINE = 120
UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800, "MONTH": 2592000, "YEAR": 31536000}
UNLIMITED = 2**32 - 1
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def generate(proto):
    """Makes Python of the contract, below a folder that ends with the program."""
    folder = tempfile.TemporaryDirectory()
    wells = grpc_tools.__path__[0] + "/_proto"
    files = [path for path in glob.glob(f"{proto}/envoy/**/*.proto", recursive=True) if "/discovery/" not in path]
    args = ["protoc", f"-I{proto}", f"-I{wells}", f"--python_out={folder.name}", f"--grpc_python_out={folder.name}"]
    assert protoc.main(args + files) == 0
    sys.path.insert(0, folder.name)
    return folder


class Service:
    """A server under test: gRPC, its HTTP port, and the port that tells statistics."""

    def __init__(self, grpc_address, http_address, debug_address):
        self.http_address, self.debug_address = http_address, debug_address
        self.channel = grpc.insecure_channel(grpc_address)
        self.messages = importlib.import_module("envoy.service.ratelimit.v3.rls_pb2")
        stubs = importlib.import_module("envoy.service.ratelimit.v3.rls_pb2_grpc")
        self.stub = stubs.RateLimitServiceStub(self.channel)

    def call(self, request):
        """The answer to a request, as it came."""
        return self.stub.ShouldRateLimit(request, timeout=DEADLINE)

    def ask(self, domain, text, hits=0, **more):
        """What is told of `(key=value)(key=value)+(key=value)`: the overall code, and each status as one text."""
        request = self.request(domain, text, hits, **more)
        before = time.time()
        answer = self.call(request)
        told = [status(self.messages, one, before, time.time()) for one in answer.statuses]
        assert len(told) == len(request.descriptors), f"{len(told)} statuses of {len(request.descriptors)}"
        return Told(CODES[answer.overall_code], told, answer)

    def request(self, domain, text, hits=0, own=None, limit=None, gives_back=False):
        """The request that this text is: `own` hits, `limit` and `gives_back` are of every descriptor."""
        request = self.messages.RateLimitRequest(domain=domain, hits_addend=hits)
        for part in text.split("+"):
            descriptor = request.descriptors.add(is_negative_hits=gives_back)
            for key, value in re.findall(r"\(([^=)]*)=([^)]*)\)", part):
                descriptor.entries.add(key=key, value=value)
            if own is not None:
                descriptor.hits_addend.value = own
            if limit is not None:
                descriptor.limit.requests_per_unit, descriptor.limit.unit = limit
        return request

    def error(self, call):
        """The code and the words of the error that a call must end with."""
        try:
            answer = call()
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"answered: {answer}")

    def stats(self):
        """All statistics, by the names that the Go service has."""
        _, _, text = fetch(f"http://{self.debug_address}/stats")
        pairs = (line.rsplit(": ", 1) for line in text.splitlines())
        return {name: int(value) for name, value in pairs if value.isdigit()}

    def stat(self, key, kind):
        """One number of a rule, by its key; 0 before it was asked."""
        return self.stats().get(f"ratelimit.service.rate_limit.{key}.{kind}", 0)

    def http(self, path, body=None, method=None):
        """Status, content type and text of an answer on the HTTP port."""
        return fetch(f"http://{self.http_address}{path}", body, method)


CODES = {1: "OK", 2: "OVER"}


class Told:
    """An answer."""

    def __init__(self, overall, statuses, answer):
        self.overall, self.statuses, self.answer = overall, statuses, answer

    @property
    def headers(self):
        return {header.key: header.value for header in self.answer.response_headers_to_add}

    @property
    def metadata(self):
        """What later filters are told, as plain values; none if nothing is."""
        if not self.answer.HasField("dynamic_metadata"):
            return None
        return json_format.MessageToDict(self.answer.dynamic_metadata)

    def __repr__(self):
        return f"{self.overall}: {', '.join(self.statuses)}"


def status(messages, one, before, after):
    """One status as a text: `-`, `unlimited`, or `OK 4 of 5 SECOND name`. When it resets must be right as well."""
    code = CODES[one.code]
    if not one.HasField("current_limit"):
        assert code == "OK" and not one.HasField("duration_until_reset"), one
        assert one.limit_remaining in (0, UNLIMITED), one
        return "unlimited" if one.limit_remaining == UNLIMITED else "-"
    limit = one.current_limit
    unit = messages.RateLimitResponse.RateLimit.Unit.Name(limit.unit)
    assert one.HasField("duration_until_reset") and one.duration_until_reset.nanos == 0, one
    seconds = one.duration_until_reset.seconds
    assert seconds >= 1 if code == "OVER" else seconds >= 0, one
    text = f"{code} {one.limit_remaining} of {limit.requests_per_unit} {unit}"
    return f"{text} {limit.name}" if limit.name else text


def until_end(unit):
    """Seconds until the fixed window of this unit ends."""
    length = UNITS[unit]
    return length - int(time.time()) % length


def fetch(url, body=None, method=None):
    request = urllib.request.Request(url, data=body, method=method, headers={"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return answer.status, answer.headers.get_content_type(), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get_content_type(), error.read().decode()


def eventually(what, look):
    """Looks until it is so. Every look is a call to the server, which takes its time."""
    deadline = time.monotonic() + DEADLINE
    while not look():
        assert time.monotonic() < deadline, f"never: {what}"


class Cases:
    """Runs every case, and tells which have failed and how."""

    def __init__(self):
        self.failed, self.run = [], 0

    def check(self, number, case, service):
        self.run += 1
        try:
            case(service)
        except Exception as error:  # noqa: BLE001, whatever a case ends with is told, and the next one runs
            where = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == case.__name__]
            line = f"{os.path.basename(where[-1].filename)}:{where[-1].lineno}: {where[-1].line}" if where else ""
            told = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.RpcError) else error
            self.failed.append(f"case {number}: {line}\n  {type(error).__name__}: {told}")

    def end(self):
        for text in self.failed:
            print(text, file=sys.stderr)
        if self.failed:
            names = ", ".join(text.split(":")[0] for text in self.failed)
            sys.exit(f"{len(self.failed)} of {self.run} failed: {names}")
        print(f"{self.run} cases")
        print("ok")


def expect(told, overall, *statuses):
    """Compares an answer."""
    expected = f"{overall}: {', '.join(statuses)}"
    assert repr(told) == expected, f"\n  expected {expected}\n  told     {told}"


def dumps(value):
    return json.dumps(value, sort_keys=True)
