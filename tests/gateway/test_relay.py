#!/usr/bin/env python3
"""The live end of the log: clients come and go while events come, and while nobody listens.

  test_relay.py sqlite|postgresql
"""
import http.client
import json
import socket
import sys
import threading

import gateway

STORE = sys.argv[1]


class Listener(threading.Thread):
    """What a client of /v1/events/live is sent, until it has had the event with this number."""

    def __init__(self, g, since):
        super().__init__(daemon=True)
        self.connection = g.connect()
        self.connection.request("GET", "/v1/events/live?since=%d" % since)
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.status
        self.had = []
        self.came = threading.Condition()
        self.start()

    def run(self):
        try:
            while line := self.answer.readline():
                if line.startswith(b"data:"):
                    with self.came:
                        self.had.append(json.loads(line[5:])["global_sequence"])
                        self.came.notify_all()
        except (OSError, http.client.HTTPException):
            pass  # it has left in the middle

    def wait_for(self, number):
        with self.came:
            assert self.came.wait_for(lambda: number in self.had, gateway.LONG_S), self.had[-3:]
        return self.had

    def leave(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join(gateway.LONG_S)


def append(g, count):
    """In batches of ten, on one connection; the last number."""
    connection = g.connect()
    last = 0
    for n in range(count):
        answer = g.post("/v1/events", [{"stream": "order-%d" % n, "type": "order.created", "data": {"n": n}}] * 10,
                        connection=connection)
        assert answer.status == 201, answer
        last = answer.json[-1]["global_sequence"]
    connection.close()
    return last


def numbers(g):
    """All that the log has."""
    body = g.get("/v1/events", headers={"Accept": "application/x-ndjson"}).body
    return [json.loads(line)["global_sequence"] for line in body.splitlines()]


def who_comes_while_much_is_appended_misses_nothing_and_gets_nothing_twice():
    with gateway.Gateway(gateway.make_store(STORE, "many")) as g:
        append(g, 20)  # nobody listens
        appender = threading.Thread(target=append, args=(g, 300))
        appender.start()
        listeners = []
        while appender.is_alive():
            listeners.append(Listener(g, 0))
            listeners[-1].wait_for(1)
        appender.join()
        last = append(g, 1)
        expected = numbers(g)
        assert len(expected) == 3210 and expected[-1] == last, len(expected)
        for listener in listeners:
            had = listener.wait_for(last)
            assert sorted(had) == expected, "%d numbers instead of %d" % (len(had), len(expected))
        for listener in listeners:
            listener.leave()


def the_first_listener_after_a_quiet_time_is_sent_the_next_event():
    with gateway.Gateway(gateway.make_store(STORE, "quiet")) as g:
        last = append(g, 5)
        for _ in range(5):
            listener = Listener(g, last)
            last = append(g, 1)
            assert sorted(listener.wait_for(last)) == list(range(last - 9, last + 1)), listener.had
            listener.leave()
            last = append(g, 1)


def a_fetch_that_waits_is_answered_though_nobody_listens():
    with gateway.Gateway(gateway.make_store(STORE, "fetch")) as g:
        assert g.put("/v1/subscriptions/mail", {}).status == 201
        for n in range(5):
            got = []
            waits = threading.Thread(target=lambda: got.append(
                g.post("/v1/subscriptions/mail/fetch", {"wait": "60s"}).json))
            waits.start()
            append(g, 1)
            waits.join(gateway.LONG_S)
            assert got and len(got[0]["events"]) == 10, (n, got)
            assert g.post("/v1/subscriptions/mail/ack", {"token": got[0]["token"]}).status == 200


if __name__ == "__main__":
    sys.exit(gateway.run([who_comes_while_much_is_appended_misses_nothing_and_gets_nothing_twice,
                          the_first_listener_after_a_quiet_time_is_sent_the_next_event,
                          a_fetch_that_waits_is_answered_though_nobody_listens]))
