"""redis-py, in both versions of the protocol: python redis_client.py HOST PORT TOKEN."""

import sys

import redis

HOST, PORT, TOKEN = sys.argv[1], int(sys.argv[2]), sys.argv[3]

for protocol in (2, 3):
    client = redis.Redis(
        host=HOST, port=PORT, password=TOKEN, protocol=protocol, client_name="stock", socket_timeout=120
    )
    key = f"py{protocol}"
    assert client.ping() is True
    assert client.echo("hello") == b"hello"
    assert client.client_getname() in ("stock", b"stock")
    assert client.execute_command("THROTTLE", key, 10, 100, 60) == [1, 10, 9, 1, 0]
    assert client.execute_command("CL.THROTTLE", key + ":cell", 15, 30, 60) == [0, 16, 15, -1, 2]
    with client.pipeline(transaction=False) as pipe:
        for _ in range(3):
            pipe.execute_command("THROTTLE", key + ":many", 2, 1, 3600)
        assert [five[0] for five in pipe.execute()] == [1, 1, 0]
    # By default a pipeline is a transaction.
    with client.pipeline() as pipe:
        for _ in range(3):
            pipe.execute_command("THROTTLE", key + ":multi", 2, 1, 3600)
        pipe.execute_command("ACQUIRE", key + ":multi", "gold")
        pipe.ping()
        *five, ruled, pong = pipe.execute()
        assert [one[0] for one in five] == [1, 1, 0] and ruled[5] == b"burst" and pong, (five, ruled, pong)
        # The pipeline can be used again; what fails when it is executed does not take the others with it.
        pipe.execute_command("THROTTLE", key + ":multi", 2, 1, "x")
        pipe.execute_command("THROTTLE", key + ":multi", 5, 1, 3600)
        wrong, right = pipe.execute(raise_on_error=False)
        assert isinstance(wrong, redis.ResponseError) and right[0] == 1, (wrong, right)
        pipe.execute_command("NOPE")
        pipe.execute_command("THROTTLE", key + ":multi", 5, 1, 3600)
        try:
            pipe.execute()
        except redis.ResponseError as error:
            assert "unknown command 'NOPE'" in str(error), error
        else:
            raise AssertionError("a command that is unknown aborts the transaction")
        try:
            pipe.watch(key)
        except redis.ResponseError as error:
            assert "WATCH is not supported" in str(error), error
        else:
            raise AssertionError("WATCH is refused")
    assert client.info("server")["redis_mode"] == "standalone"
    told = client.execute_command("ACQUIRE", key, "gold")
    assert told[:3] == [1, 2, 1] and told[5] == b"burst", told
    assert client.execute_command("RESET", key, "gold") == 2
    # A request whose cost is known only afterwards: an estimate, and then the true amount.
    held = client.execute_command("HOLD", key, "llm", "UNIT", "tokens", 58, "LEASE", 600_000, "EACH")
    assert held[0] == 1 and len(held[6]) == 32, held
    assert [(row[2], row[5]) for row in held[7]] == [(b"requests", 59), (b"tokens", 42), (b"concurrent", 1)], held
    second = client.execute_command("HOLD", key, "llm", "UNIT", "tokens", 40)
    refused = client.execute_command("HOLD", key, "llm", "UNIT", "tokens", 1)
    assert (refused[0], refused[3], refused[5], refused[6]) == (0, -1, b"concurrent", None), refused
    assert client.execute_command("EXTEND", key, held[6], 3_600_000)[0] == b"extended"
    settled = client.execute_command("SETTLE", key, held[6], "UNIT", "tokens", 80, "EACH")
    assert settled[:2] == [b"settled", 0] and [row[5] for row in settled[4]] == [58, 0, 1], settled
    cancelled = client.execute_command("CANCEL", key, second[6])
    assert cancelled[0] == b"cancelled" and client.execute_command("CANCEL", key, second[6]) == cancelled
    assert client.execute_command("SETTLE", key, "0" * 32) == [b"gone", 0, -1, 0]
    assert client.execute_command("DEBIT", key, "api", "COST", 5)[:3] == [0, 3, 0]
    with client.pipeline() as pipe:
        pipe.execute_command("HOLD", key, "llm", "UNIT", "tokens", 1)
        pipe.execute_command("SETTLE", key, held[6])
        *_, again = pipe.execute()
        assert again == settled[:4], (again, settled)
    # Keys are bytes.
    assert client.execute_command("THROTTLE", b"\xff\x00\r\n%d" % protocol, 1, 1, 60)[0] == 1
    for command, expected in [
        (("THROTTLE", key), "wrong number of arguments"),
        (("THROTTLE", key, 0, 1, 1), "invalid max_burst: 0"),
        (("NOPE", "\r\n+OK"), "unknown command 'NOPE'"),
        (("ACQUIRE", key, "nope"), "unknown plan 'nope'"),
    ]:
        try:
            client.execute_command(*command)
        except redis.ResponseError as error:
            assert expected in str(error), error
        else:
            raise AssertionError(command)
    client.close()

try:
    redis.Redis(host=HOST, port=PORT, password="guess", socket_timeout=120).ping()
except redis.AuthenticationError:
    print("ok")
