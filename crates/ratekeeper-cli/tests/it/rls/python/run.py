"""Runs one set of cases: python run.py SET PROTO GRPC HTTP DEBUG MORE…"""

import sys

import cases
import errors  # noqa: F401, registers its cases
import ours  # noqa: F401
import rls
import surroundings  # noqa: F401

group, proto, grpc_address, http_address, debug_address, *more = sys.argv[1:]
generated = rls.generate(proto)
server = rls.Service(grpc_address, http_address, debug_address)
server.more = more
run = rls.Cases()
for number, function in cases.CASES[group]:
    run.check(f"{number} {function.__name__}", function, server)
run.end()
