#!/usr/bin/env python3
"""The helper itself: a gateway starts, answers and ends, on the store that is named.

  test_gateway.py sqlite|postgresql
"""
import sys

import gateway

STORE = sys.argv[1]


def a_gateway_starts_answers_and_ends_in_order():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        assert g.get("/healthz").status == 200
        assert g.get("/readyz").json == {"status": "ready", "store": "ok", "schema": "ok"}
        stored = g.post("/v1/events", {"stream": "order-1", "type": "order.created", "data": {"n": 1}})
        assert stored.status == 201, stored
        assert g.get("/v1/events/" + stored.json["id"]).json["data"] == {"n": 1}


if __name__ == "__main__":
    sys.exit(gateway.run([a_gateway_starts_answers_and_ends_in_order]))
