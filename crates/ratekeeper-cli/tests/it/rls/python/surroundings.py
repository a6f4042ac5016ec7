"""What is around the decisions: reloads, the layout in Redis, HTTP, the debug port."""

import json
import os
import time

from google.protobuf import json_format

import rls
from cases import asked, case
from rls import UNITS, eventually, expect

RELOADED = "domain: reload\ndescriptors:\n  - key: key1\n    rate_limit: {unit: second, requests_per_unit: 50}\n"


@case(38, "reload")
def a_file_appears_and_goes(service):
    (folder,) = service.more
    path = os.path.join(folder, "reload.yaml")

    def loads(result):
        return service.stats().get(f"ratelimit.service.config_load_{result}", 0)

    def told():
        return service.ask("reload", "(key1=foo)").statuses[0]

    assert told() == "-"
    before, failed = loads("success"), loads("error")
    write(path, RELOADED)
    eventually("the file is read", lambda: told() != "-")
    # Another second, another window.
    eventually("its first hit", lambda: told() == "OK 49 of 50 SECOND")
    assert loads("success") == before + 1
    write(path, RELOADED.replace("second", "eon"))
    eventually("it is seen to be wrong", lambda: loads("error") == failed + 1)
    assert told().startswith("OK"), "the old rules go on"
    assert loads("success") == before + 1
    os.remove(path)
    eventually("the file is gone", lambda: told() == "-")
    assert (loads("success"), loads("error")) == (before + 2, failed + 1)


def write(path, text):
    """A file appears at once, and whole."""
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


@case("39 and 40", "layout")
def counters_of_the_go_service(service):
    import redis

    port, prefix = service.more
    store = redis.Redis(port=int(port), decode_responses=True)
    hour, day = UNITS["HOUR"], UNITS["DAY"]
    day_number = 4
    for text, key, length, more in [
        ("(key=value)", "domain_key_value_", 1, {}),
        ("(key2=value2)(subkey2=subvalue2)", "domain_key2_value2_subkey2_subvalue2_", 60, {}),
        ("(key3=value3)", "domain_key3_value3_", hour, {}),
        ("(key3=value3)", "domain_key3_value3_", day, {"limit": (10, day_number)}),
        ("(files=files/a)", "domain_files_files/*_", 1, {}),
    ]:
        # A counter of one second may expire before it is found, and is asked for again.
        found, deadline = set(), time.monotonic() + 60
        while not found and time.monotonic() < deadline:
            known = set(store.keys("*"))
            before = int(time.time())
            overall = service.ask("domain", text, own=3, **more).overall
            after = int(time.time())
            found = set(store.keys("*")) - known
        expected = {f"{prefix}{key}{window * length}" for window in range(before // length, after // length + 1)}
        assert overall == "OK" and len(found) == 1 and found <= expected, f"{text}: {found}, not {expected}"
        (found,) = found
        assert store.get(found) in (["3"] if length > 1 else ["3", None]), f"{found}: {store.get(found)}"
        assert store.ttl(found) <= length + 300, f"{found}: {store.ttl(found)} s"
        assert length == 1 or store.ttl(found) > 0, f"{found}: {store.ttl(found)} s"
        # In the first hour of a day, the hour's counter has the name of the day's.
        store.delete(found)
    # What an instance of the Go service has counted counts here, and the other way round.
    window = int(time.time()) // UNITS["YEAR"] * UNITS["YEAR"]
    key = f"{prefix}domain_slow_x_{window}"
    store.incrby(key, 4)
    expect(service.ask("domain", "(slow=x)"), "OK", "OK 5 of 10 YEAR")
    assert store.get(key) == "5", store.get(key)
    store.incrby(key, 6)
    expect(service.ask("domain", "(slow=x)"), "OVER", "OVER 0 of 10 YEAR")
    asked(service, "domain", [("(slow=x)", "OVER 0 of 10 YEAR")], own=0)
    # Rules that the Go service does not have are kept as all others are.
    asked(service, "domain", [("(gcra=x)", "OK 9 of 10 YEAR"), ("(gcra=x)", "OK 8 of 10 YEAR")])


def body(value, **more):
    return json.dumps({"domain": "modes", "descriptors": [{"entries": [{"key": "one", "value": value}], **more}]}).encode()


@case(41)
def json_over_http(service):
    for wrong in [b"", b"}", b"[]", b'{"domain":"modes"}', b'{"domain":"","descriptors":[{}]}', b'{"domian":"modes"}',
                  b'{"domain":"modes","descriptors":[{"limit":{"unit":"EON"}}]}', b'{"domain":7}']:
        status, kind, text = service.http("/json", wrong)
        assert (status, kind) == (400, "application/problem+json"), (wrong, status, kind, text)
    for expected in ["OK", "OVER_LIMIT"]:
        status, kind, text = service.http("/json", body("json"))
        assert (status, kind) == (200 if expected == "OK" else 429, "application/json"), (status, kind, text)
        told = json_format.Parse(text, service.messages.RateLimitResponse())
        assert told.overall_code == service.messages.RateLimitResponse.Code.Value(expected), text
        one = json.loads(text)["statuses"][0]
        assert one["code"] == expected and one["currentLimit"] == {"requestsPerUnit": 1, "unit": "YEAR"}, text
        assert one["durationUntilReset"].endswith("s") and "limitRemaining" not in one, text
    # Both spellings, enums by number, numbers as texts.
    snake = body("snake", limit={"requests_per_unit": 7, "unit": 6}, hits_addend="3")
    _, _, text = service.http("/json", snake)
    assert json.loads(text)["statuses"][0]["limitRemaining"] == 4, text
    camel = body("snake", limit={"requestsPerUnit": 7, "unit": "YEAR"}, hitsAddend=2)
    _, _, text = service.http("/json", camel, method="PUT")
    assert json.loads(text)["statuses"][0]["limitRemaining"] == 2, text


@case(42)
def healthcheck(service):
    status, _, text = service.http("/healthcheck")
    assert (status, text) == (200, "OK"), (status, text)


@case("debug port")
def debug_port(service):
    _, _, text = rls.fetch(f"http://{service.debug_address}/rlconfig")
    lines = text.splitlines()
    for line in [
        "test-domain.key2_value2: unit=MINUTE requests_per_unit=30, shadow_mode: false, quota_mode: false",
        "rl.foo.baz_shady: unit=YEAR requests_per_unit=3, shadow_mode: true, quota_mode: false",
        "rl.service_service_1: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: true",
    ]:
        assert line in lines, f"{line} is not in {text}"
    assert service.http("/v1/rls/config")[2] == text


@case("explain and reset")
def explain_and_reset(service):
    asked(service, "modes", [("(one=reset)", "OK 0 of 1 YEAR"), ("(one=reset)", "OVER 0 of 1 YEAR")])
    status, _, text = service.http("/v1/rls/explain", body("reset"))
    assert status == 200 and "one" in text, (status, text)
    asked(service, "modes", [("(one=reset)", "OVER 0 of 1 YEAR")])
    status, _, text = service.http("/v1/rls/reset", body("reset"))
    assert status == 200, (status, text)
    asked(service, "modes", [("(one=reset)", "OK 0 of 1 YEAR")])
