"""A stock gRPC client, generated from proto/ as any user would: python grpc_client.py PROTO ADDRESS TOKEN [CA]."""

import importlib
import sys
import tempfile

import grpc
from google.protobuf import descriptor_pool, duration_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc
import grpc_tools

PROTO, ADDRESS, TOKEN = sys.argv[1:4]
DEADLINE = 120


def generate(folder):
    wells = grpc_tools.__path__[0] + "/_proto"
    files = [f"{PROTO}/throttlecrab.proto", f"{PROTO}/ratekeeper/v1/ratekeeper.proto"]
    args = ["protoc", f"-I{PROTO}", f"-I{wells}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(args + files) == 0
    sys.path.insert(0, folder)


def code(call, *args, **more):
    """The code and the text of the error that a call must end with."""
    try:
        answer = call(*args, timeout=DEADLINE, **more)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    raise AssertionError(f"answered: {answer}")


def throttles(channel, metadata):
    crab = importlib.import_module("throttlecrab_pb2")
    stub = importlib.import_module("throttlecrab_pb2_grpc").RateLimiterStub(channel)
    request = crab.ThrottleRequest

    def ask(key, burst, count, period, **more):
        asked = request(key=key, max_burst=burst, count_per_period=count, period=period, **more)
        told = stub.Throttle(asked, timeout=DEADLINE, metadata=metadata)
        return told.allowed, told.limit, told.remaining, told.retry_after, told.reset_after

    assert ask("k", 10, 100, 60) == (True, 10, 9, 0, 1)
    assert ask("s", 10, 10, 3600) == (True, 10, 9, 0, 360)
    assert ask("s", 10, 10, 3600, quantity=3)[:4] == (True, 10, 6, 0)
    # Burst 1 is one, not none.
    assert [ask("a", 1, 1, 3600)[0] for _ in range(3)] == [True, False, False]
    # A peek takes nothing, and an absent quantity takes one.
    assert ask("d", 1, 1, 3600, quantity=0)[0] is True
    assert ask("d", 1, 1, 3600) == (True, 1, 0, 0, 3600)
    told = ask("d", 1, 1, 3600)
    assert told[:3] == (False, 1, 0) and 0 < told[3] == told[4] <= 3600, told
    # A denial never says that one may retry at once.
    told = next(told for told in iter(lambda: ask("e", 3, 100, 60), None) if not told[0])
    assert told[:4] == (False, 3, 0, 1), told
    # What can never pass.
    assert ask("n", 2, 1, 60, quantity=3) == (False, 2, 2, -1, 0)
    # Nothing wraps: the longest wait has more seconds than 32 bits.
    most = 2**31 - 1
    told = ask("w", most, 1, 2, quantity=most)
    assert told == (True, most, 0, 0, most), told
    told = ask("w", most, 1, 2, quantity=1000)
    assert told[0] is False and 0 < told[3] <= 2000 and told[4] == most, told
    kind, text = code(stub.Throttle, request(key="c", max_burst=most, count_per_period=1, period=most), metadata=metadata)
    assert kind == "INVALID_ARGUMENT" and "200 years" in text, (kind, text)
    for field, values in [
        ("key", ("", 1, 1, 1, 1)),
        ("key", ("k" * 1025, 1, 1, 1, 1)),
        ("max_burst", ("k", 0, 1, 1, 1)),
        ("max_burst", ("k", -1, 1, 1, 1)),
        ("count_per_period", ("k", 1, 0, 1, 1)),
        ("period", ("k", 1, 1, -1, 1)),
        ("quantity", ("k", 1, 1, 1, -1)),
    ]:
        key, burst, count, period, quantity = values
        asked = request(key=key, max_burst=burst, count_per_period=count, period=period, quantity=quantity)
        kind, text = code(stub.Throttle, asked, metadata=metadata)
        assert kind == "INVALID_ARGUMENT" and text.startswith(field + ":"), (kind, text)
    kind, text = code(stub.Throttle, request(key="k" * 70_000), metadata=metadata)
    assert kind == "RESOURCE_EXHAUSTED" and "65536" in text, (kind, text)
    # Many at once, on one connection.
    asked = request(key="many", max_burst=100, count_per_period=1, period=3600)
    calls = [stub.Throttle.future(asked, timeout=DEADLINE, metadata=metadata) for _ in range(300)]
    assert sum(call.result().allowed for call in calls) == 100


def plans(channel, metadata):
    ours = importlib.import_module("ratekeeper.v1.ratekeeper_pb2")
    stub = importlib.import_module("ratekeeper.v1.ratekeeper_pb2_grpc").RateLimiterStub(channel)

    def acquire(**fields):
        return stub.Acquire(ours.AcquireRequest(**fields), timeout=DEADLINE, metadata=metadata)

    def peek(**fields):
        return stub.Peek(ours.PeekRequest(**fields), timeout=DEADLINE, metadata=metadata)

    def refund(**fields):
        return stub.Refund(ours.RefundRequest(**fields), timeout=DEADLINE, metadata=metadata)

    def reset(**fields):
        return stub.Reset(ours.ResetRequest(**fields), timeout=DEADLINE, metadata=metadata).forgotten

    told = acquire(key="u", plans=["gold"])
    assert (told.allowed, told.limit, told.remaining, told.plan, told.rule) == (True, 2, 1, "gold", "burst"), told
    assert told.retry_after.ToNanoseconds() == 0 and told.HasField("retry_after")
    # 100 a day: one is back after 864 seconds, to the nanosecond.
    assert told.reset_after.ToNanoseconds() == 864_000_000_000, told.reset_after
    assert peek(key="u", plans=["gold"]).remaining == 1
    assert acquire(key="u", plans=["gold", "api"]).allowed
    denied = acquire(key="u", plans=["gold", "api"])
    assert (denied.allowed, denied.rule, denied.reason) == (False, "burst", "quota_exceeded"), denied
    assert denied.retry_after.ToNanoseconds() > 0
    assert peek(key="u", plans=["api"]).remaining == 2, "a denial by one plan costs nothing in the other"
    # One a minute, an hour ago: it has come back by itself, and is not given a second time.
    hour = duration_pb2.Duration(seconds=3600)
    assert refund(key="u", plans=["gold"], charged_ago=hour).remaining == 0
    assert refund(key="u", plans=["gold"]).remaining == 1, "just now, if it is not said when"
    backwards = ours.RefundRequest(key="u", plans=["gold"], charged_ago=duration_pb2.Duration(seconds=-1))
    told = code(stub.Refund, backwards, metadata=metadata)
    assert told[0] == "INVALID_ARGUMENT" and "charged_ago" in told[1], told
    never = acquire(key="u", plans=["gold"], cost=2**63)
    assert not never.allowed and not never.HasField("retry_after") and never.reason == "never_fits", never
    assert acquire(key="q", quota="10/h burst 20", cost=5).remaining == 15
    large = acquire(key="large", quota="1000000000/s burst 6000000000000000000", cost=1)
    assert large.limit == 6_000_000_000_000_000_000, large
    assert reset(key="u", plans=["api"]) == 1
    assert reset(key="q", quota="10/h burst 20") == 1
    assert reset(key="u") == 2
    assert reset(key="u") == 0
    for kind, field, fields in [
        ("NOT_FOUND", "nope", {"key": "u", "plans": ["nope"]}),
        ("INVALID_ARGUMENT", "plans", {"key": "u"}),
        ("INVALID_ARGUMENT", "key", {"plans": ["gold"]}),
        ("INVALID_ARGUMENT", "quota", {"key": "u", "quota": "10/fortnight"}),
        ("INVALID_ARGUMENT", "quota", {"key": "u", "quota": "1/s", "plans": ["gold"]}),
    ]:
        for stubbed, request in [
            (stub.Acquire, ours.AcquireRequest),
            (stub.Peek, ours.PeekRequest),
            (stub.Refund, ours.RefundRequest),
        ]:
            told = code(stubbed, request(**fields), metadata=metadata)
            assert told[0] == kind and field in told[1], (fields, told)
    told = code(stub.Reset, ours.ResetRequest(key="u", plans=["nope"]), metadata=metadata)
    assert told[0] == "NOT_FOUND", told


def holds(channel, metadata):
    """Requests whose cost is known only afterwards: an estimate, and then the true amount."""
    ours = importlib.import_module("ratekeeper.v1.ratekeeper_pb2")
    stub = importlib.import_module("ratekeeper.v1.ratekeeper_pb2_grpc").RateLimiterStub(channel)

    def ask(method, request):
        return getattr(stub, method)(request, timeout=DEADLINE, metadata=metadata)

    def hold(**fields):
        return ask("Hold", ours.HoldRequest(key="h", plans=["llm"], **fields))

    held = hold(costs={"tokens": 58}, each=True)
    assert held.decision.allowed and len(held.id) == 32, held
    rules = [(rule.unit, rule.remaining) for rule in held.decision.rules]
    assert rules == [("requests", 59), ("tokens", 42), ("concurrent", 1)], rules
    second = hold(costs={"tokens": 40}, lease=duration_pb2.Duration(seconds=600))
    refused = hold(costs={"tokens": 1})
    assert (refused.id, refused.decision.rule, refused.decision.reason) == ("", "concurrent", "at_capacity"), refused
    assert not refused.decision.HasField("retry_after"), refused
    longer = duration_pb2.Duration(seconds=3600)
    assert ask("Extend", ours.ExtendRequest(key="h", id=held.id, lease=longer)).state == "extended"
    settled = ask("Settle", ours.SettleRequest(key="h", id=held.id, costs={"tokens": 80}))
    assert (settled.state, settled.remaining) == ("settled", 0), settled
    cancelled = ask("Cancel", ours.CancelRequest(key="h", id=second.id))
    assert cancelled.state == "cancelled", cancelled
    assert ask("Cancel", ours.CancelRequest(key="h", id=second.id)) == cancelled
    assert ask("Settle", ours.SettleRequest(key="other", id=held.id)).state == "gone"
    left = ask("Peek", ours.PeekRequest(key="h", plans=["llm"], costs={"tokens": 0}, each=True))
    assert left.rules[1].remaining == 20, left
    debited = ask("Debit", ours.DebitRequest(key="h", plans=["api"], cost=5))
    assert (debited.allowed, debited.remaining) == (False, 0), debited
    for method, field, request in [
        ("Acquire", "plan", ours.AcquireRequest(key="h", plans=["llm"], costs={"tokens": 1})),
        ("Hold", "tokens", ours.HoldRequest(key="h", plans=["llm"])),
        ("Hold", "bytes", ours.HoldRequest(key="h", plans=["llm"], costs={"tokens": 1, "bytes": 1})),
        ("Hold", "units", ours.HoldRequest(key="h", plans=["llm"], costs={unit: 1 for unit in "abcde"})),
        ("Hold", "tokens", ours.HoldRequest(key="h", plans=["llm"], costs={"tokens": 2**63})),
        ("Hold", "costs", ours.HoldRequest(key="h", plans=["llm"], cost=1, costs={"tokens": 1})),
        ("Hold", "lease", ours.HoldRequest(key="h", plans=["llm"], costs={"tokens": 1}, lease=duration_pb2.Duration())),
        ("Extend", "lease", ours.ExtendRequest(key="h", id=held.id)),
        ("Extend", "lease", ours.ExtendRequest(key="h", id=held.id, lease=duration_pb2.Duration(seconds=86401))),
        ("Settle", "id", ours.SettleRequest(key="h", id="12")),
        ("Settle", "id", ours.SettleRequest(key="h")),
        ("Debit", "requests", ours.DebitRequest(key="h", plans=["api"], cost=2**63)),
    ]:
        told = code(getattr(stub, method), request, metadata=metadata)
        assert told[0] == "INVALID_ARGUMENT" and told[1].startswith(field + ":"), (method, told)


def health(channel):
    """Health checks need no token."""
    stub = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ["", "throttlecrab.RateLimiter", "ratekeeper.v1.RateLimiter"]:
        asked = health_pb2.HealthCheckRequest(service=service)
        assert stub.Check(asked, timeout=DEADLINE).status == serving
    unknown = health_pb2.HealthCheckRequest(service="nope")
    assert code(stub.Check, unknown)[0] == "NOT_FOUND"
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=DEADLINE)
    assert next(watch).status == serving
    watch.cancel()
    watch = stub.Watch(unknown, timeout=DEADLINE)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def reflection(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    assert {"throttlecrab.RateLimiter", "ratekeeper.v1.RateLimiter", "grpc.health.v1.Health"} <= services, services
    pool = descriptor_pool.DescriptorPool(database)
    decision = pool.FindMessageTypeByName("ratekeeper.v1.Decision")
    assert decision.fields_by_name["retry_after"].message_type.full_name == "google.protobuf.Duration"
    ours = pool.FindServiceByName("ratekeeper.v1.RateLimiter")
    assert {"Debit", "Hold", "Settle", "Cancel", "Extend"} <= {method.name for method in ours.methods}
    assert "costs" in pool.FindMessageTypeByName("ratekeeper.v1.SettleRequest").fields_by_name
    method = pool.FindServiceByName("throttlecrab.RateLimiter").FindMethodByName("Throttle")
    assert method.input_type.full_name == "throttlecrab.ThrottleRequest"
    try:
        pool.FindMessageTypeByName("no.such.Message")
    except KeyError:
        return
    raise AssertionError("found")


class Bearer(grpc.StreamStreamClientInterceptor):
    """Adds the token to what other people's code calls."""

    def intercept_stream_stream(self, proceed, details, requests):
        return proceed(details._replace(metadata=[("authorization", f"Bearer {TOKEN}")]), requests)


def mistakes(channel):
    crab = importlib.import_module("throttlecrab_pb2")
    stub = importlib.import_module("throttlecrab_pb2_grpc").RateLimiterStub(channel)
    for metadata in [[], [("authorization", "Bearer guess")]]:
        told = code(stub.Throttle, crab.ThrottleRequest(key="k"), metadata=metadata)
        assert told == ("UNAUTHENTICATED", "send `authorization: Bearer TOKEN`"), told
    bearer = [("authorization", f"Bearer {TOKEN}")]
    raw = lambda name: channel.unary_unary(f"/throttlecrab.RateLimiter/{name}", lambda b: b, lambda b: b)
    assert code(raw("Nope"), b"", metadata=bearer)[0] == "UNIMPLEMENTED"
    # A key that is not UTF-8, and no message at all.
    told = code(raw("Throttle"), b"\x0a\x01\xff", metadata=bearer)
    assert told[0] == "INVALID_ARGUMENT" and "key" in told[1], told
    assert code(raw("Throttle"), b"\xff", metadata=bearer)[0] == "INVALID_ARGUMENT"
    several = channel.stream_unary("/throttlecrab.RateLimiter/Throttle", lambda b: b, lambda b: b)
    assert code(several, iter([]), metadata=bearer)[0] == "INVALID_ARGUMENT"
    assert code(several, iter([b"", b""]), metadata=bearer)[0] == "INVALID_ARGUMENT"
    # Long enough that compressing it is worth while.
    long = crab.ThrottleRequest(key="k" * 1000)
    told = code(stub.Throttle, long, metadata=bearer, compression=grpc.Compression.Gzip)
    assert told[0] == "UNIMPLEMENTED" and "compressed" in told[1], told


def connect():
    if len(sys.argv) < 5:
        return grpc.insecure_channel(ADDRESS)
    with open(sys.argv[4], "rb") as authority:
        return grpc.secure_channel(ADDRESS, grpc.ssl_channel_credentials(authority.read()))


with tempfile.TemporaryDirectory() as folder, connect() as channel:
    generate(folder)
    bearer = [("authorization", f"Bearer {TOKEN}")]
    throttles(channel, bearer)
    plans(channel, bearer)
    holds(channel, bearer)
    health(channel)
    reflection(grpc.intercept_channel(channel, Bearer()))
    mistakes(channel)
print("ok")
