"""What is wrong, too much or odd: every error lets a request pass, so there must be few."""

import grpc

import rls
from cases import asked, case
from rls import DEADLINE, expect

LONG = 2_000


@case("errors")
def what_is_refused(service):
    request = service.messages.RateLimitRequest
    rows = [
        (request(), "INVALID_ARGUMENT", "rate limit domain must not be empty"),
        (service.request("", "(one=x)"), "INVALID_ARGUMENT", "rate limit domain must not be empty"),
        (request(domain="modes"), "INVALID_ARGUMENT", "rate limit descriptor list must not be empty"),
        (service.request("modes", "+".join(["(one=x)"] * 257)), "INVALID_ARGUMENT", "256"),
        (service.request("modes", "(one=x)" * 65), "INVALID_ARGUMENT", "64"),
        (service.request("modes", f"(one={'x' * (1 << 20)})"), "RESOURCE_EXHAUSTED", "1048576"),
    ]
    for asked_for, code, words in rows:
        told = service.error(lambda: service.call(asked_for))
        assert told[0] == code and words in told[1], f"{str(asked_for)[:80]!r}: {told}"


@case("bytes that are no message")
def broken_messages(service):
    call = service.channel.unary_unary(rls.METHOD, request_serializer=bytes, response_deserializer=bytes)
    for wrong in [b"\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe", b"\x12\xff\xff\xff\xff\x0f"]:
        code, words = service.error(lambda: call(wrong, timeout=DEADLINE))
        assert code == "INVALID_ARGUMENT", (wrong, code, words)
    # What is unknown is passed over, as everywhere in protobuf.
    known = service.request("modes", "(ten=unknown-field)").SerializeToString()
    assert call(known + b"\xa2\x06\x01x", timeout=DEADLINE)


@case("as much as may be")
def the_largest_request(service):
    told = service.ask("modes", "+".join(f"(ten=many-{number})" for number in range(256)))
    expect(told, "OK", *["OK 9 of 10 YEAR"] * 256)
    expect(service.ask("modes", "(a=b)" * 64), "OK", "-")


@case("overrides without a unit")
def overrides_without_a_unit(service):
    for unit in [0, 8, 99, -1]:
        name = f"unit{unit}"
        asked(service, "modes", [(f"(ten={name})", "OK 9 of 10 YEAR")], limit=(3, unit))
        asked(service, "modes", [(f"(nothing={name})", "-")], limit=(3, unit))
    asked(service, "modes", [("(nothing=week)", "OK 2 of 3 WEEK")], limit=(3, 7))


@case("overrides and counters")
def an_override_of_the_same_unit_goes_on_with_the_counter(service):
    year, month = 6, 5
    asked(service, "modes", [("(ten=o)", "OK 9 of 10 YEAR")])
    asked(service, "modes", [("(ten=o)", "OK 98 of 100 YEAR")], limit=(100, year))
    asked(service, "modes", [("(ten=o)", "OK 99 of 100 MONTH")], limit=(100, month))
    asked(service, "modes", [("(ten=o)", "OVER 0 of 1 YEAR")], limit=(1, year))
    asked(service, "modes", [("(ten=o)", "OVER 0 of 0 YEAR")], limit=(0, year))
    most = 2**32 - 1
    asked(service, "modes", [("(ten=most)", f"OK {most - 1} of {most} YEAR")], limit=(most, year))
    # It has no name, is not in shadow and is nobody's quota.
    service.ask("modes", "(shady=o)", limit=(1, year))
    asked(service, "modes", [("(shady=o)", "OVER 0 of 1 YEAR")], limit=(1, year))


@case("very many hits")
def hits_saturate(service):
    for hits in [2**63 - 1, 2**63, 2**64 - 1]:
        text = f"(ten=hits-{hits})"
        asked(service, "modes", [(text, "OVER 0 of 10 YEAR")], own=hits)
        asked(service, "modes", [(text, "OVER 0 of 10 YEAR")], own=hits)
        asked(service, "modes", [(text, "OVER 0 of 10 YEAR")], own=0)
    asked(service, "modes", [("(ten=u32)", "OVER 0 of 10 YEAR")], hits=2**32 - 1)


@case("hits of one's own")
def hits_of_a_descriptor(service):
    asked(service, "modes", [("(ten=own)", "OK 10 of 10 YEAR")], own=0)
    asked(service, "modes", [("(ten=own)", "OK 7 of 10 YEAR")], own=3, hits=5)
    asked(service, "modes", [("(ten=own)", "OK 2 of 10 YEAR")], hits=5)
    asked(service, "modes", [("(ten=own)", "OK 2 of 10 YEAR")], own=0, hits=5)


@case("given back")
def negative_hits(service):
    asked(service, "modes", [("(ten=back)", "OK 6 of 10 YEAR")], own=4)
    asked(service, "modes", [("(ten=back)", "OK 9 of 10 YEAR")], own=3, gives_back=True)
    asked(service, "modes", [("(ten=back)", "OK 10 of 10 YEAR")], own=30, gives_back=True)
    asked(service, "modes", [("(ten=back)", "OVER 0 of 10 YEAR")], own=15)
    told = service.ask("modes", "(ten=back)", own=2, gives_back=True)
    expect(told, "OK", "OK 0 of 10 YEAR")
    asked(service, "modes", [("(ten=back)", "OK 4 of 10 YEAR")], own=7, gives_back=True)


@case("the same twice")
def equal_descriptors_are_charged_once_each(service):
    expect(service.ask("modes", "(ten=same)+(ten=same)"), "OK", "OK 9 of 10 YEAR", "OK 8 of 10 YEAR")
    asked(service, "modes", [("(ten=same)", "OK 7 of 10 YEAR")])


@case("replaced by each other")
def who_replaces_whom(service):
    for _ in range(3):
        expect(service.ask("modes", "(mutual-a=x)+(mutual-b=x)"), "OK", "-", "-")
    expect(service.ask("modes", "(pardoned=x)"), "OVER", "OVER 0 of 0 YEAR pardonable")
    expect(service.ask("modes", "(pardoned=x)+(pardon=x)"), "OK", "-", "unlimited")


@case("bans")
def a_ban_is_one_for_looks_too(service):
    asked(service, "modes", [("(banned=x)", "OVER 0 of 0 YEAR")])
    asked(service, "modes", [("(banned=x)", "OVER 0 of 0 YEAR")], own=0)


@case("odd keys")
def counters_never_collide(service):
    """Keys that are the same once they are joined by anything that may be in them."""
    year = 6
    texts = ["(a=b_c)", "(a_b=c)", "(a=b|c)", "(a=b)(c=d)", "(a=b%7Cc)", "(a=b|c=d)", "(a=)", "(a=%)", "(a=ä)", "(a= b)"]
    for text in texts:
        asked(service, "modes", [(text, "OK 8 of 9 YEAR")], limit=(9, year))
    for text in texts:
        asked(service, "modes", [(text, "OK 7 of 9 YEAR")], limit=(9, year))
    odd = service.request("modes", "(ten=x)")
    for value in ["\0", "\n", "\x7f", "=", ")", "'", '"', "{}", "*", "\U0001f600"]:
        odd.descriptors[0].entries[0].value = value
        told = service.call(odd)
        assert (told.overall_code, told.statuses[0].limit_remaining) == (1, 9), repr(value)


@case("long values")
def long_values_have_counters_of_their_own(service):
    for length in [900, 1000, 1024, LONG, 100_000]:
        long = "x" * length
        for left in (9, 8):
            asked(service, "modes", [(f"(ten={long})", f"OK {left} of 10 YEAR")])
        # Only the last character differs.
        asked(service, "modes", [(f"(ten={long}y)", "OK 9 of 10 YEAR")])


@case("many at once")
def many_calls_on_one_connection(service):
    request = service.request("modes", "(twenty=many)")
    calls = [service.stub.ShouldRateLimit.future(request, timeout=DEADLINE) for _ in range(300)]
    passed = sum(call.result().overall_code == 1 for call in calls)
    assert passed == 20, passed


@case("nothing loaded", "unloaded")
def a_first_configuration_that_is_wrong(service):
    code, words = service.error(lambda: service.call(service.request("modes", "(ten=x)")))
    assert (code, words) == ("FAILED_PRECONDITION", "no rate limit configuration loaded"), (code, words)


@case("a store that is away", "storeless")
def a_store_that_cannot_be_reached(service):
    code, words = service.error(lambda: service.call(service.request("modes", "(ten=x)")))
    assert code == "UNAVAILABLE", (code, words)
    # What needs no store is answered.
    expect(service.ask("modes", "(nothing=x)+(free=x)"), "OK", "-", "unlimited")
    expect(service.ask("modes", "(banned=x)"), "OVER", "OVER 0 of 0 YEAR")
    status, kind, _ = service.http("/json", b'{"domain":"modes","descriptors":[{"entries":[{"key":"ten","value":"x"}]}]}')
    assert (status, kind) == (503, "application/problem+json"), (status, kind)


@case("health and reflection")
def health_and_reflection(service):
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    health = health_pb2_grpc.HealthStub(service.channel)
    for name in ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"]:
        told = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=DEADLINE)
        assert told.status == health_pb2.HealthCheckResponse.SERVING, name
    code, _ = service.error(lambda: health.Check(health_pb2.HealthCheckRequest(service="nope"), timeout=DEADLINE))
    assert code == grpc.StatusCode.NOT_FOUND.name, code
    reflected = ProtoReflectionDescriptorDatabase(service.channel)
    assert "envoy.service.ratelimit.v3.RateLimitService" in reflected.get_services()
    found = reflected.FindFileContainingSymbol("envoy.service.ratelimit.v3.RateLimitService")
    assert [one.name for one in found.service] == ["RateLimitService"], found
