#!/usr/bin/env python3
"""Clients that others have written: curl with each line of docs/gateway.md, the CloudEvents SDK, npm's EventSource.

  test_clients.py sqlite|postgresql
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

import gateway
import npm

STORE = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("cloudevents@10", "eventsource@4")


def node(script, *words, **more):
    if not shutil.which("node"):
        raise gateway.Skip("there is no node")
    return subprocess.Popen(["node", os.path.join(HERE, script), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, NODE_PATH=npm.install(*PACKAGES)), **more)


def each_curl_of_the_manual_is_answered():
    with open(os.path.join(gateway.ROOT, "docs", "gateway.md"), encoding="utf-8") as manual:
        blocks = re.findall(r"```sh\n(.*?)```", manual.read(), re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.startswith("curl ")]
    assert len(lines) >= 12, lines
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        for line in lines:
            if "https://bus" in line or "Bearer" in line:
                continue  # of a gateway with tokens and a certificate
            shown = line.replace("curl -s", "curl -s -w '\\n%{http_code}'", 1)
            done = subprocess.run(["bash", "-c", "U=%s; J='Content-Type: application/json'; %s" % (g.url, shown)], text=True,
                                  capture_output=True, timeout=gateway.LONG_S)
            body, _, status = done.stdout.rpartition("\n")
            assert status[:1] == "2", (line, done)
            if "live" in line:
                assert "\ndata: {" in body, (line, body)


def the_cloudevents_sdk_is_understood_in_all_three_modes():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        out, err = node("cloudevents.js", g.url).communicate(timeout=gateway.LONG_S)
        assert out, err
        said = json.loads(out)
        assert [said[mode]["status"] for mode in ("binary", "structured", "again", "batch")] == [201] * 4, said
        assert said["binary"]["sent"]["ce-id"] == "ce-1" and "cloudevents+json" in said["structured"]["sent"]["content-type"]
        assert json.loads(said["again"]["body"]) == json.loads(said["structured"]["body"]), "the same event is stored once"
        events = g.get("/v1/events").json["events"]
        assert [event["data"]["n"] for event in events] == [1, 2, 3, 4]
        assert [event["stream"] for event in events] == ["order-%d" % n for n in (1, 2, 3, 4)]
        assert {event["data"]["text"] for event in events} == {"naïve ☃"}


class Numbers(threading.Thread):
    """What an EventSource has seen, number by number."""

    def __init__(self, g, count):
        super().__init__(daemon=True)
        self.process = node("eventsource.js", g.url + "/v1/events/live?since=0", str(count))
        self.seen = []
        self.start()

    def run(self):
        for line in self.process.stdout:
            self.seen.append(int(line))

    def wait_for(self, n):
        gateway.wait_until(lambda: len(self.seen) >= n, "%d numbers" % n)


def an_eventsource_sees_each_event_once_across_kills_and_late_commits():
    """On PostgreSQL numbers that are drawn early commit after the kill, below those that were seen before it."""
    g = gateway.Gateway(gateway.make_store(STORE))
    numbers = Numbers(g, 30)
    late = []
    for n in range(10):
        g.post("/v1/events", {"stream": "s-%d" % n, "type": "load.early"})
    numbers.wait_for(10)
    if STORE == "postgresql":
        late = [Late(g.store, n) for n in range(5)]
    for n in range(10 if late else 15):
        g.post("/v1/events", {"stream": "s-%d" % n, "type": "load.early"})
    numbers.wait_for(20)
    g.signal(signal.SIGKILL)
    g.kill()
    for one in late[:3]:
        one.commit()
    g = gateway.Gateway(g.store, listen="127.0.0.1:%d" % g.port)
    for n in range(5):
        g.post("/v1/events", {"stream": "s-%d" % n, "type": "load.early"})
    numbers.wait_for(20 + (3 if late else 0))
    for one in late[3:]:
        one.commit()
    numbers.process.wait(gateway.LONG_S)
    numbers.join(gateway.LONG_S)
    stored = sorted(event["global_sequence"] for event in g.get("/v1/events").json["events"])
    assert len(stored) == 30 and sorted(numbers.seen) == stored, (numbers.seen, stored)
    if late:
        assert numbers.seen != stored, "nothing committed late"
    g.stop()


class Late:
    """A transaction that appends at once, and commits when it is told to."""

    def __init__(self, url, n):
        self.process = subprocess.Popen(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdin.write("BEGIN;\nSELECT 'appended' FROM howdah.append('late-%d', 'load.late', '{}');\n" % n)
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "appended\n"

    def commit(self):
        self.process.communicate("COMMIT;\n", timeout=gateway.LONG_S)
        assert self.process.returncode == 0


if __name__ == "__main__":
    sys.exit(gateway.run([each_curl_of_the_manual_is_answered, the_cloudevents_sdk_is_understood_in_all_three_modes,
                          an_eventsource_sees_each_event_once_across_kills_and_late_commits]))
