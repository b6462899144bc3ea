#!/usr/bin/env python3
"""Gateways that are killed, and servers under them: no acknowledged event is lost, none is stored twice, every stream
that resumes has seen every event.

  test_kills.py sqlite|postgresql        HOWDAH_KILLS: how often (default 20)
"""
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

import gateway
import raw
from raw import Raw, check_problem, get

STORE = sys.argv[1]
KILLS = int(os.environ.get("HOWDAH_KILLS", "20"))
WRITERS = 6
LISTENERS = 4


class Writer(threading.Thread):
    """Posts events, and repeats each with its Idempotency-Key until it is acknowledged."""

    def __init__(self, load, name):
        super().__init__(daemon=True)
        self.load, self.stream = load, name
        self.acked, self.repeats, self.refused = {}, 0, []

    def run(self):
        connection, n = None, 0
        while not self.load.over.is_set():
            n += 1
            key, answer = str(uuid.uuid4()), None
            body = json.dumps({"stream": self.stream, "type": "load.event", "data": {"n": n}})
            while answer is None and not self.load.broken:
                try:
                    connection = connection or http.client.HTTPConnection("127.0.0.1", self.load.port, timeout=gateway.LONG_S)
                    connection.request("POST", "/v1/events", body, {"Content-Type": "application/json", "Idempotency-Key": key})
                    got = connection.getresponse()
                    said = gateway.Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
                    if said.status in (200, 201):
                        answer = said.json
                    else:
                        check_problem(said, 503, 504)
                        self.refused.append(said.status)
                        time.sleep(0.02)
                    if said.headers.get("connection") == "close":
                        connection.close()
                        connection = None
                except (OSError, http.client.HTTPException):
                    connection.close()
                    connection = None
                    self.repeats += 1
                    time.sleep(0.02)
                except Exception as error:  # a verdict that nobody may give
                    self.load.broken = self.load.broken or repr(error)
            if answer:
                self.acked[key] = (answer["global_sequence"], answer["id"], n)


class Listener(threading.Thread):
    """A stream of events that resumes with the last id that it has seen, as a browser does."""

    def __init__(self, load, query=""):
        super().__init__(daemon=True)
        self.load, self.query = load, query
        self.seen, self.twice, self.resumes, self.last = set(), 0, 0, None
        self.ends = []  # the last lines of streams that were ended in order

    def run(self):
        while not self.load.done.is_set():
            try:
                self.listen()
            except (OSError, http.client.HTTPException):
                pass
            self.resumes += 1
            time.sleep(0.02)

    def listen(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.load.port, timeout=gateway.LONG_S)
        headers = {"Last-Event-ID": self.last} if self.last else {}
        connection.request("GET", "/v1/events/live?since=0" + self.query, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            connection.close()
            return
        lines, place, data = [], None, None
        try:
            for line in iter(answer.readline, b""):
                lines = lines[-3:] + [line.rstrip()]
                if line.startswith(b"id: "):
                    place = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    data = line[6:]
                elif line == b"\n":  # only a whole event counts
                    self.last = place or self.last
                    if data is not None:
                        sequence = json.loads(data)["global_sequence"]
                        self.twice += sequence in self.seen
                        self.seen.add(sequence)
                    data = None
            self.ends.append(lines)
        finally:
            connection.close()


class Load:
    def __init__(self, g):
        self.port, self.broken = g.port, None
        self.over, self.done = threading.Event(), threading.Event()
        self.writers = [Writer(self, "w-%d" % n) for n in range(WRITERS)]
        self.listeners = [Listener(self) for _ in range(LISTENERS)]
        for thread in self.writers + self.listeners:
            thread.start()

    def acks(self):
        return sum(len(writer.acked) for writer in self.writers)

    def wait_for_acks(self, n):
        goal = self.acks() + n
        gateway.wait_until(lambda: self.broken or self.acks() >= goal, "%d acks" % n)
        assert not self.broken, self.broken

    def check(self, g):
        """When all is quiet: what is stored is what was acknowledged, once, and everybody has seen it."""
        self.over.set()
        for writer in self.writers:
            writer.join(gateway.LONG_S)
            assert not writer.is_alive()
        assert not self.broken, self.broken
        stored = [json.loads(line) for line in g.get("/v1/events?limit=1000000", headers={
            "Accept": "application/x-ndjson"}).body.splitlines()]
        by_id = {event["id"]: event for event in stored}
        assert len(by_id) == len(stored), "an id is stored twice"
        acked = {key: ack for writer in self.writers for key, ack in writer.acked.items()}
        for key, (sequence, event_id, _) in acked.items():
            assert event_id == key and by_id[key]["global_sequence"] == sequence, (key, sequence, event_id)
        assert len(stored) == len(acked), "%d stored, %d acknowledged" % (len(stored), len(acked))
        for writer in self.writers:
            numbers = [event["data"]["n"] for event in stored if event["stream"] == writer.stream]
            assert numbers == list(range(1, len(numbers) + 1)), "the order of %s" % writer.stream
        sequences = {event["global_sequence"] for event in stored}
        for listener in self.listeners:
            gateway.wait_until(lambda: listener.seen >= sequences, "%d events of a stream that has seen %d" % (
                len(sequences), len(listener.seen)))
            assert listener.seen == sequences
        self.done.set()
        gateway.tap.comment("%d events, %d requests repeated, streams resumed %d times, %d events came twice" % (
            len(stored), sum(w.repeats for w in self.writers), sum(l.resumes for l in self.listeners),
            sum(l.twice for l in self.listeners)))


def restarted(g, *options):
    """Another gateway on the same port."""
    return gateway.Gateway(g.store, "--access-log", "off", *options, listen="127.0.0.1:%d" % g.port)


def a_gateway_that_is_killed_loses_nothing_and_stores_nothing_twice():
    g = gateway.Gateway(gateway.make_store(STORE), "--access-log", "off")
    load, dice = Load(g), random.Random(7)
    for _ in range(KILLS):
        load.wait_for_acks(dice.randrange(1, 60))
        time.sleep(dice.random() * 0.05)
        g.signal(signal.SIGKILL)
        g.kill()
        g = restarted(g)
    load.wait_for_acks(20)
    load.check(g)
    assert sum(writer.repeats for writer in load.writers) >= KILLS, "the kills met nobody"
    g.stop()


def a_gateway_that_is_told_to_end_finishes_what_runs_and_ends_streams_with_a_place():
    g = gateway.Gateway(gateway.make_store(STORE), "--access-log", "off", "--drain", "10s")
    load = Load(g)
    for _ in range(3):
        load.wait_for_acks(50)
        ends = [len(listener.ends) for listener in load.listeners]
        idle = Raw(g).send(get("/healthz"))
        assert idle.answer().status == 200
        begun = time.monotonic()
        g.stop()  # and the exit code is 0
        assert time.monotonic() - begun < 10 + 5, "the drain took %.1f s" % (time.monotonic() - begun)
        assert idle.rest() == b""
        for listener, before in zip(load.listeners, ends):
            gateway.wait_until(lambda: len(listener.ends) > before, "the end of a stream")
            lines = listener.ends[before]
            assert lines[-1] == b"" and lines[-2].startswith(b"id: ") and lines[-3].startswith(b": "), lines
        g = restarted(g, "--drain", "10s")
    load.check(g)
    g.stop()


def an_end_that_is_waited_for_is_bounded():
    """A request that runs longer than the drain is given up, and what waits is told at once."""
    g = gateway.Gateway(gateway.make_store(STORE), "--drain", "2s")
    assert g.put("/v1/subscriptions/g", {"start": 0}).status == 201
    waiting = Raw(g).send(raw.post("/v1/subscriptions/g/fetch", b'{"wait":"60s"}'))
    half = Raw(g).send(raw.post("/v1/events", b'{"stream":"s","type":"a.b"}')[:-1])
    gateway.wait_until(lambda: "\nhowdah_gateway_requests_parked 1\n" in g.get("/metrics").body.decode(), "the fetch to wait")
    begun = time.monotonic()
    g.signal(signal.SIGTERM)
    answer = waiting.answer()
    assert answer.status == 200 and answer.json["events"] == [], answer
    assert time.monotonic() - begun < 1.5
    assert g.process.wait(gateway.LONG_S) == 0, g.log()
    assert 1.5 < time.monotonic() - begun < 9, "%.1f s" % (time.monotonic() - begun)
    half.rest()


def server(*words):
    done = subprocess.run(["sh", os.environ["HOWDAH_TEST_PG_CTL"], *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done


def a_server_that_restarts_under_a_gateway_is_waited_for():
    if STORE != "postgresql":
        raise gateway.Skip("a file has no server")
    g = gateway.Gateway(gateway.make_store(STORE), "--access-log", "off", "--set", "connect_timeout=1s")
    load = Load(g)
    gateway.wait_until(lambda: all(listener.seen for listener in load.listeners), "all streams")
    for _ in range(3):
        load.wait_for_acks(50)
        server("restart", "-m", "immediate")
    load.wait_for_acks(50)
    resumes = [listener.resumes for listener in load.listeners]
    server("stop", "-m", "immediate")
    try:
        begun = time.monotonic()
        problem = check_problem(g.get("/readyz"), 503)
        assert time.monotonic() - begun < 10, "%.1f s" % (time.monotonic() - begun)
        assert problem["code"] == "UNAVAILABLE" and problem["retryable"], problem
        assert g.get("/healthz").status == 200
        for path in ("/v1/events", "/v1/events/live", "/v1/status", "/v1/queues"):
            check_problem(g.get(path), 503)
    finally:
        server("start")
    gateway.wait_until(lambda: g.get("/readyz").status == 200, "the gateway to be ready again")
    load.wait_for_acks(50)
    load.check(g)
    assert resumes == [listener.resumes for listener in load.listeners] == [0] * LISTENERS, "streams stay open"
    assert sum(writer.repeats for writer in load.writers) == 0, "no connection of a client is cut"
    g.stop()


def a_schema_that_is_missing_is_named_by_readyz():
    g = gateway.Gateway(gateway.make_store(STORE))
    assert g.get("/readyz").json == {"status": "ready", "store": "ok", "schema": "ok"}
    if STORE == "postgresql":
        subprocess.run(["psql", "-qX", "-d", g.store, "-c", "DROP SCHEMA howdah CASCADE"], check=True, capture_output=True)
        assert check_problem(g.get("/readyz"), 503)["code"] == "SCHEMA"
        assert "howdah init" in check_problem(g.get("/readyz"), 503)["advice"]
    g.stop()


if __name__ == "__main__":
    socket.setdefaulttimeout(gateway.LONG_S)
    sys.exit(gateway.run([
        a_gateway_that_is_killed_loses_nothing_and_stores_nothing_twice,
        a_gateway_that_is_told_to_end_finishes_what_runs_and_ends_streams_with_a_place,
        an_end_that_is_waited_for_is_bounded,
        a_server_that_restarts_under_a_gateway_is_waited_for,
        a_schema_that_is_missing_is_named_by_readyz,
    ]))
