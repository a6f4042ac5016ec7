"""Takes two holds by redis-py and never ends them: python holder.py HOST PORT KEY PLAN LEASE_MS. Prints for each when it was
requested, in milliseconds since the epoch, and its id; then waits to be killed."""

import sys
import time

import redis

HOST, PORT, KEY, PLAN, LEASE = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
client = redis.Redis(host=HOST, port=PORT, socket_timeout=120)
for _ in range(2):
    asked = int(time.time() * 1000)
    told = client.execute_command("HOLD", KEY, PLAN, "UNIT", "tokens", 30, "LEASE", LEASE)
    assert told[0] == 1, told
    print(asked, told[6].decode(), flush=True)
sys.stdin.read()
