#!/usr/bin/env python3
"""The helper itself: a gateway starts, answers and ends, on the store that is named.

  test_gateway.py sqlite|postgresql
"""
import http.client
import json
import sys
import time

import gateway

STORE = sys.argv[1]


def a_gateway_starts_answers_and_ends_in_order():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        assert g.get("/healthz").status == 200
        assert g.get("/readyz").json == {"status": "ready", "store": "ok", "schema": "ok"}
        stored = g.post("/v1/events", {"stream": "order-1", "type": "order.created", "data": {"n": 1}})
        assert stored.status == 201, stored
        assert g.get("/v1/events/" + stored.json["id"]).json["data"] == {"n": 1}


def events_of_a_binding_become_jobs_where_all_workers_speak_http():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        assert g.put("/v1/bindings/mail/order.*", {}).status == 201
        assert g.put("/v1/bindings/mail/order.*", {}).status == 200
        for n in range(3):
            assert g.post("/v1/events", {"stream": "order-%d" % n, "type": "order.paid", "data": {"n": n}}).status == 201
        got = []
        while len(got) < 3:
            jobs = g.post("/v1/queues/mail/claim", {"max": 3, "wait": "20s"}).json["jobs"]
            assert jobs, "%d jobs came" % len(got)
            got += [job["data"]["n"] for job in jobs]
        assert sorted(got) == [0, 1, 2]


def wait_for_line(stream, start):
    """The rest of the next line that begins so."""
    while True:
        line = stream.readline().decode()
        assert line, "the stream ended"
        if line.startswith(start):
            return line[len(start):]


def batches_come_as_a_stream_as_long_as_they_are_acked():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        assert g.put("/v1/subscriptions/s", {"lanes": 1}).status == 201
        for n in range(4):
            assert g.post("/v1/events", {"stream": "a", "type": "t.x", "data": n}).status == 201
        connection = http.client.HTTPConnection(g.url.split("//")[1], timeout=gateway.LONG_S)
        connection.request("GET", "/v1/subscriptions/s/stream?max=2&window=1&lease=1h")
        stream = connection.getresponse()
        assert stream.headers["Content-Type"] == "text/event-stream"
        first = json.loads(wait_for_line(stream, "data: "))
        assert [event["data"] for event in first["events"]] == [0, 1]
        assert g.post("/v1/subscriptions/s/ack", {"token": first["token"]}).json == {"ok": True}
        second = json.loads(wait_for_line(stream, "data: "))
        assert [event["data"] for event in second["events"]] == [2, 3]
        assert g.post("/v1/subscriptions/s/release", {"token": second["token"]}).json == {"ok": True}
        again = json.loads(wait_for_line(stream, "data: "))
        assert ([event["data"] for event in again["events"]], again["attempt"]) == ([2, 3], 1)
        connection.close()


def a_fetch_that_waits_is_answered_when_an_event_comes():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        assert g.put("/v1/subscriptions/w", {"start": "end"}).status == 201
        began = time.monotonic()
        assert g.post("/v1/subscriptions/w/fetch", {"wait": "300ms"}).json == {"token": None, "attempt": None, "events": []}
        assert time.monotonic() - began >= 0.29
        connection = http.client.HTTPConnection(g.url.split("//")[1], timeout=gateway.LONG_S)
        connection.request("POST", "/v1/subscriptions/w/fetch", b'{"wait":"60s"}', {"Content-Type": "application/json"})
        gateway.wait_until(lambda: "howdah_gateway_requests_parked 1\n" in g.get("/metrics").body.decode(), "it to wait")
        assert g.post("/v1/events", {"stream": "a", "type": "t.x"}).status == 201
        assert len(json.loads(connection.getresponse().read())["events"]) == 1


def answers_about_times_say_whether_they_are_final():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        stored = g.post("/v1/events", {"stream": "a", "type": "t.x", "data": 1}).json
        before = g.get("/v1/events/" + stored["id"]).json["recorded_at"]
        assert g.post("/v1/events/%s/corrections" % stored["id"], {"reason": "typo", "data": 2}).status == 201
        gateway.wait_until(lambda: g.get("/v1/events?stream=a&known_at=" + before).json["final"], "the answer to be final")
        answer = g.get("/v1/events?stream=a&known_at=" + before)
        assert ([event["data"] for event in answer.json["events"]], answer.headers["X-Howdah-Final"]) == ([1], "true")
        assert [event["data"] for event in g.get("/v1/events?stream=a&current").json["events"]] == [2]
        changes = g.get("/v1/diff?known_at=" + before).json["changes"]
        assert [(change["change"], change["before"]["data"], change["after"]["data"]) for change in changes] == [("corrected", 1, 2)]


if __name__ == "__main__":
    sys.exit(gateway.run([
        a_gateway_starts_answers_and_ends_in_order,
        events_of_a_binding_become_jobs_where_all_workers_speak_http,
        batches_come_as_a_stream_as_long_as_they_are_acked,
        a_fetch_that_waits_is_answered_when_an_event_comes,
        answers_about_times_say_whether_they_are_final]))
