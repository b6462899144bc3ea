#!/usr/bin/env python3
"""Webhooks: what endpoints get, what their answers mean, and where nothing is sent.

  test_webhooks.py sqlite|postgresql
"""
import base64
import hashlib
import hmac
import http.server
import itertools
import json
import os
import signal
import sys
import threading
import time
import urllib.parse

import gateway

STORE = sys.argv[1]
QUICK = {"retry_delay": "50ms", "max_retry_delay": "50ms"}


class Endpoint:
    """An HTTP server that keeps what it gets.  answer(request) gives a status, or (status, headers, body)."""

    def __init__(self, answer=lambda request: 204):
        self.answer, self.requests, self.lock = answer, [], threading.Lock()
        self.running = self.most = 0
        self.same_time = []  # events that came while they were being handled
        self.in_hand = set()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = gateway.LONG_S

            def do_POST(self):
                endpoint.take(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = "http://127.0.0.1:%d/hook" % self.port
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def take(self, handler):
        request = {"path": handler.path, "headers": dict(handler.headers.items()), "time": time.monotonic(),
                   "body": handler.rfile.read(int(handler.headers["Content-Length"]))}
        request["event"] = json.loads(request["body"])
        n = request["event"]["global_sequence"]
        with self.lock:
            self.requests.append(request)
            if n in self.in_hand:
                self.same_time.append(n)
            self.in_hand.add(n)
        given = self.answer(request)
        with self.lock:
            self.in_hand.discard(n)
        status, headers, body = given if isinstance(given, tuple) else (given, {}, b"")
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        if not isinstance(body, bytes):
            handler.end_headers()
            handler.close_connection = True
            for piece in body:
                handler.wfile.write(piece)
                handler.wfile.flush()
            return
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def got(self, field="global_sequence"):
        with self.lock:
            return [r["event"][field] for r in self.requests]

    def wait_for(self, n):
        gateway.wait_until(lambda: len(self.requests) >= n, "%d requests, there are %d" % (n, len(self.requests)))

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


stores = itertools.count(1)


def make_store():
    return gateway.make_store(STORE, "webhooks_%d" % next(stores))


def serve(store=None, *options):
    return gateway.Gateway(store or make_store(), "--webhooks-private", *options)


def append(g, n=1, stream="s", type="order.created"):
    """The numbers of n events."""
    stored = g.post("/v1/events", [{"stream": stream, "type": type, "data": {"i": i}} for i in range(n)])
    assert stored.status == 201, stored
    return [p["global_sequence"] for p in stored.json]


def hook(g, url, name="a", **more):
    made = g.put("/v1/webhooks/" + name, dict({"url": url}, **more))
    assert made.status == 200, made
    return made.json


def shown(g, name="a"):
    answer = g.get("/v1/webhooks/" + name)
    assert answer.status == 200, answer
    return answer.json


def wait_shown(g, good, name="a"):
    return gateway.wait_until(lambda: (lambda w: good(w) and w)(shown(g, name)), "a webhook's state")


def wait_dead(g, name="a"):
    """Its only event is a dead letter, and what the last request came to is told."""
    return wait_shown(g, lambda w: w["dead_letters"] == 1 and w["last_error"] is not None, name)


def settled(g, name="a"):
    """Nothing is left to be sent."""
    return wait_shown(g, lambda w: w["lag"] == 0, name)


def signature(secret, request):
    head = request["headers"]
    signed = b"%s.%s.%s" % (head["webhook-id"].encode(), head["webhook-timestamp"].encode(), request["body"])
    mac = hmac.new(base64.b64decode(secret[len("whsec_"):]), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(mac).decode()


# ---------------------------------------------------------------- what is sent

def an_event_is_posted_and_signed_as_standard_webhooks_says():
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with serve() as g, Endpoint() as e:
        secret = hook(g, e.url, pattern="order.*", headers={"Authorization": "Bearer abc", "X-Empty": ""})["secret"]
        assert secret.startswith("whsec_") and len(base64.b64decode(secret[6:])) == 32, secret
        append(g, type="mail.sent")
        stored = g.post("/v1/events", '{"stream":"s","type":"order.paid","data":{"sum":12.50}}',
                        headers={"Content-Type": "application/json", "traceparent": parent, "tracestate": "a=1"}).json
        e.wait_for(1)
        sent = e.requests[0]
        head = sent["headers"]
        assert sent["path"] == "/hook" and head["Content-Type"] == "application/json", sent
        assert head["webhook-id"] == stored["id"] and head["User-Agent"] == "howdah/0.1.0", head
        assert abs(int(head["webhook-timestamp"]) - time.time()) < 60, head
        assert head["webhook-signature"] == signature(secret, sent), head
        assert head["Authorization"] == "Bearer abc" and head["X-Empty"] == "", head
        assert head["traceparent"] == parent and head["tracestate"] == "a=1", head
        assert sent["event"] == g.get("/v1/events/" + stored["id"]).json
        assert b'"sum":12.50' in sent["body"], sent
        settled(g)
        assert e.got() == [stored["global_sequence"]]


def a_new_secret_signs_from_then_on_and_is_told_once():
    with serve() as g, Endpoint() as e:
        first = hook(g, e.url)["secret"]
        assert "secret" not in hook(g, e.url)
        second = hook(g, e.url, new_secret=True)["secret"]
        assert second != first
        append(g)
        settled(g)
        assert e.requests[-1]["headers"]["webhook-signature"] == signature(second, e.requests[-1])
        told = [g.get("/v1/webhooks").body, g.get("/v1/webhooks/a").body, g.log().encode(),
                gateway.command("webhook", "ls", store=g.store).encode(), g.get("/v1/status").body,
                gateway.command("webhook", "show", "a", "--json", store=g.store).encode(), g.get("/metrics").body]
        for text in told:
            assert first[6:].encode() not in text and second[6:].encode() not in text, text


def values_of_headers_are_not_shown():
    with serve() as g, Endpoint() as e:
        assert hook(g, e.url, headers={"Authorization": "Bearer abc"})["headers"] == {"Authorization": "***"}
        assert shown(g)["headers"] == {"Authorization": "***"}
        assert b"abc" not in g.get("/v1/webhooks").body


# ----------------------------------------------------------- what answers mean

def a_failed_event_is_retried_becomes_a_dead_letter_and_is_redriven():
    bad = [True]
    with serve() as g, Endpoint(lambda request: 500 if bad[0] else 200) as e:
        hook(g, e.url, max_retries=2, **QUICK)
        numbers = append(g)
        e.wait_for(3)
        w = wait_dead(g)
        assert w["last_status"] == 500 and w["last_error"] == "HTTP 500" and w["enabled"], w
        assert e.got() == numbers * 3
        assert len({r["headers"]["webhook-id"] for r in e.requests}) == 1
        assert e.requests[1]["time"] - e.requests[0]["time"] >= 0.04
        bad[0] = False
        dead = g.get("/v1/dead-letters?subscription=webhook.a").json["dead_letters"]
        assert [d["error"] for d in dead] == ["HTTP 500"], dead
        assert g.post("/v1/dead-letters/redrive", {"ids": [dead[0]["id"]]}).json["count"] == 1
        e.wait_for(4)
        w = wait_shown(g, lambda w: w["dead_letters"] == 0 and w["last_error"] is None)
        assert w["last_status"] == 200, w


def a_stream_waits_for_its_failed_event_and_others_go_on():
    bad = [True]
    with serve() as g, Endpoint(lambda r: 503 if bad[0] and r["event"]["stream"] == "bad" else 200) as e:
        hook(g, e.url, max_retries=1000, **QUICK)
        failing = append(g, 3, "bad")
        others = [n for i in range(20) for n in append(g, 2, "good-%d" % i)]
        gateway.wait_until(lambda: set(others) <= set(e.got()), "the other streams")
        assert set(e.got()) & set(failing) == {failing[0]}
        bad[0] = False
        settled(g)
        done = [n for n in e.got() if n in failing]
        assert sorted(set(done), key=done.index) == failing, done
        for i in range(20):
            mine = [r["event"]["version"] for r in e.requests if r["event"]["stream"] == "good-%d" % i]
            assert mine == [1, 2], mine


def gone_disables_and_enable_goes_on_where_it_was():
    gone = [True]
    with serve() as g, Endpoint(lambda request: 410 if gone[0] else 200) as e:
        hook(g, e.url)
        numbers = append(g)
        w = wait_shown(g, lambda w: not w["enabled"])
        assert w["last_status"] == 410 and "410" in w["reason"] and w["disabled_at"] and w["lag"] == 1, w
        numbers += append(g, 2)
        gone[0] = False
        assert e.got() == numbers[:1]
        assert g.post("/v1/webhooks/a/enable").json["enabled"] is True
        settled(g)
        assert e.got() == numbers[:1] + numbers
        assert wait_shown(g, lambda w: w["last_status"] == 200)["dead_letters"] == 0
        assert "howdah_gateway_webhooks_disabled_total 1" in g.get("/metrics").body.decode()


def a_disabled_webhook_sends_nothing_until_it_is_enabled():
    with serve() as g, Endpoint() as e:
        hook(g, e.url)
        assert g.post("/v1/webhooks/a/disable", {"reason": "maintenance"}).json["reason"] == "maintenance"
        hook(g, e.url, name="b")
        numbers = append(g)
        settled(g, "b")
        assert e.got() == numbers and shown(g)["lag"] == 1
        gateway.command("webhook", "enable", "a", store=g.store)
        settled(g)
        assert e.got() == numbers * 2


def retry_after_is_waited_for():
    with serve() as g, Endpoint(lambda request: (429, {"Retry-After": "1"}, b"") if len(e.requests) == 1 else 200) as e:
        hook(g, e.url, **QUICK)
        append(g)
        e.wait_for(2)
        waited = e.requests[1]["time"] - e.requests[0]["time"]
        assert waited >= 0.9, waited
        settled(g)


def a_late_answer_is_a_failure_and_says_so():
    release = threading.Event()
    with serve() as g, Endpoint(lambda request: 200 if release.wait(gateway.LONG_S) else 500) as e:
        hook(g, e.url, timeout="200ms", max_retries=1, **QUICK)
        append(g)
        w = wait_dead(g)
        release.set()
        assert w["last_status"] is None and w["last_error"] == "no whole answer within 200 ms", w
        assert len(e.requests) == 2


def a_redirect_is_not_followed():
    with serve() as g, Endpoint() as target, Endpoint(lambda request: (302, {"Location": target.url}, b"")) as e:
        hook(g, e.url, max_retries=0)
        append(g)
        w = wait_dead(g)
        assert w["last_status"] == 302 and "redirects are not followed" in w["last_error"], w
        assert len(e.requests) == 1 and target.requests == []


def of_a_huge_answer_little_is_read_and_a_slow_one_is_given_up():
    def pieces(request):
        kind = request["event"]["stream"]
        written = 0
        while kind == "huge" and written < 1 << 30:
            yield b"x" * 65536
            written += 65536
        while kind == "slow":
            yield b"x"
            time.sleep(0.05)

    with serve() as g, Endpoint(lambda request: (200, {}, pieces(request))) as e:
        hook(g, e.url, timeout="500ms", max_retries=0)
        append(g, stream="huge")
        settled(g)
        assert shown(g)["dead_letters"] == 0
        append(g, stream="slow")
        assert wait_dead(g)["last_error"] == "no whole answer within 500 ms"
        assert len(e.requests) == 2 and "xxxx" not in g.log()


def who_refuses_a_connection_or_cannot_prove_who_it_is_fails():
    with serve() as g:
        with Endpoint() as e:
            hook(g, e.url.replace("http:", "https:"), name="tls", max_retries=0, pattern="tls.*")
            hook(g, e.url, name="closed", max_retries=0, pattern="closed.*")
        append(g, type="closed.x")
        w = wait_dead(g, "closed")
        assert w["last_status"] is None and "Connection refused" in w["last_error"], w
        append(g, type="tls.x")
        w = wait_dead(g, "tls")
        assert w["last_status"] is None and w["last_error"], w


# ------------------------------------------------------------- where it may go

def addresses_that_are_not_public_are_refused_however_they_are_written():
    hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "2130706433",
             "0177.0.0.1", "0x7f.1", "127.1", "10.0.0.1", "192.168.0.1", "172.16.0.1", "169.254.169.254", "[fe80::1]",
             "[fd00::1]", "224.0.0.1", "100.64.0.1", "[64:ff9b::127.0.0.1]", "[::]"]
    proxies = {"http_proxy": "http://127.0.0.1:9/", "HTTPS_PROXY": "http://127.0.0.1:9/", "ALL_PROXY": "http://[::1]:9/"}
    with gateway.Gateway(make_store(), environment=proxies) as g, Endpoint() as e:
        for host in hosts:
            hook(g, "http://%s:%d/" % (host, e.port), name="n", max_retries=0)
            said = g.post("/v1/webhooks/n/test").json
            assert said["ok"] is False and said["status"] is None, (host, said)
            assert said["error"].startswith("the address is not a public one"), (host, said)
        append(g)
        w = wait_dead(g, "n")
        assert w["last_error"].startswith("the address is not a public one"), w
        assert e.requests == []


def what_is_no_webhook_is_refused_and_nothing_is_stored():
    with serve() as g:
        for body, field in [({}, "url"), ({"url": "http://user:pass@x/"}, "url"), ({"url": "ftp://x/"}, "url"),
                            ({"url": "file:///etc/passwd"}, "url"), ({"url": "http://x\\@y/"}, "url"),
                            ({"url": "http://x/", "headers": {"Host": "y"}}, "headers"),
                            ({"url": "http://x/", "headers": {"A": "b\r\nC: d"}}, "headers"),
                            ({"url": "http://x/", "timeout": "1ms"}, "timeout"),
                            ({"url": "http://x/", "pattern": "a..b"}, "pattern")]:
            answer = g.put("/v1/webhooks/a", body)
            assert answer.status == 400 and answer.json["field"] == field, (body, answer)
            assert b"pass@" not in answer.body
        assert g.get("/v1/webhooks").json == {"webhooks": []}
        assert g.get("/v1/subscriptions").json == {"subscriptions": []}
        for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/enable"), ("POST", "/disable"), ("POST", "/test")]:
            assert g.ask(method, "/v1/webhooks/none" + path).status == 404, (method, path)


def another_filter_for_a_webhook_that_exists_is_a_conflict_and_changes_nothing():
    with serve() as g, Endpoint() as e:
        hook(g, e.url, pattern="order.*")
        before = shown(g)
        answer = g.put("/v1/webhooks/a", {"url": "http://x/", "pattern": "mail.*", "new_secret": True})
        assert answer.status == 409, answer
        assert shown(g) == before
        assert g.put("/v1/webhooks/b", {"url": "http://x/", "subscription": "webhook.a"}).status == 409
        assert g.delete("/v1/webhooks/a").status == 204
        assert g.get("/v1/webhooks").json == {"webhooks": []}
        assert g.get("/v1/subscriptions/webhook.a").status == 200


def a_test_is_sent_now_and_told():
    with serve() as g, Endpoint(lambda request: 418) as e:
        secret = hook(g, e.url)["secret"]
        said = g.post("/v1/webhooks/a/test").json
        assert said["ok"] is False and said["status"] == 418 and said["error"] == "HTTP 418", said
        assert said["duration_ms"] >= 0
        assert e.got("type") == ["howdah.test"]
        assert e.requests[0]["headers"]["webhook-signature"] == signature(secret, e.requests[0])
        e.answer = lambda request: 200
        assert g.post("/v1/webhooks/a/test").json["ok"] is True
        assert shown(g)["lag"] == 0 and g.get("/v1/events").json["events"] == []


def the_switch_turns_the_sender_off():
    with serve(None, "--no-webhooks") as g, Endpoint() as e:
        hook(g, e.url)
        numbers = append(g)
        assert g.post("/v1/webhooks/a/test").status == 503
        with serve(g.store) as other:
            settled(other)
        assert e.got() == numbers


def the_command_looks_after_webhooks():
    store = make_store()
    with Endpoint() as e:
        made = gateway.lines("webhook", "set", "a", "--url", e.url, "--pattern", "order.*", "--header", "X-A=b",
                             "--timeout", "2s", store=store)[0]
        assert made["secret"].startswith("whsec_") and made["timeout_ms"] == 2000, made
        again = gateway.lines("webhook", "set", "a", "--url", e.url, "--pattern", "order.*", store=store)[0]
        assert "secret" not in again and again["headers"] is None, again
        gateway.command("append", "s", "order.created", store=store)
        assert gateway.lines("webhook", "ls", store=store)[0]["name"] == "a"
        assert gateway.lines("webhook", "show", "a", store=store)[0]["lag"] == 1
        assert gateway.lines("webhook", "disable", "a", "--reason", "why", store=store)[0]["reason"] == "why"
        assert gateway.lines("webhook", "enable", "a", store=store)[0]["enabled"] is True
        with serve(store) as g:
            settled(g)
            assert e.got("type") == ["order.created"]
        assert gateway.lines("webhook", "rm", "a", store=store) == [{"name": "a", "removed": True}]
        gateway.command("webhook", "rm", "a", store=store, code=4)
        gateway.command("webhook", "set", "a", store=store, code=2)


# ------------------------------------------------------------ ends and outages

def a_killed_gateway_loses_no_event():
    store = make_store()
    hold = threading.Event()
    with Endpoint(lambda request: 200 if hold.wait(gateway.LONG_S) else 500) as e:
        g = serve(store)
        hook(g, e.url, timeout="100ms", max_retries=1000, **QUICK)
        numbers = [n for i in range(10) for n in append(g, 5, "s-%d" % i)]
        e.wait_for(5)
        g.kill()
        hold.set()
        with serve(store) as other:
            settled(other)
            assert set(e.got()) == set(numbers)
            assert shown(other)["dead_letters"] == 0


def two_gateways_share_a_webhook_and_no_event_is_in_both_hands():
    store = make_store()
    with Endpoint(lambda request: time.sleep(0.02) or 200) as e, serve(store) as g, serve(store) as other:
        hook(g, e.url)
        assert other.post("/v1/webhooks/a/enable").status == 200  # so it looks at once
        numbers = [n for i in range(40) for n in append(g if i % 2 else other, 5, "s-%d" % i)]
        settled(g)
        assert e.same_time == []
        assert sorted(e.got()) == sorted(numbers)
        sent = ["howdah_gateway_webhooks_sent_total %d" % i for i in range(1, len(numbers))]
        for one in (g, other):
            assert any(line in sent for line in one.get("/metrics").body.decode().splitlines()), "it did nothing"


def an_end_waits_for_what_is_under_way_and_gives_the_rest_back():
    store = make_store()
    hold, first = threading.Event(), threading.Event()
    with Endpoint(lambda request: 200 if (first if request["event"]["stream"] == "first" else hold)
                  .wait(gateway.LONG_S) else 500) as e:
        g = serve(store, "--drain", "1s")
        hook(g, e.url, timeout="1m")
        taken = append(g, stream="first")
        left = append(g, stream="second")
        e.wait_for(2)
        g.signal(signal.SIGTERM)
        first.set()
        assert g.process.wait(gateway.LONG_S) == 0, g.log()
        hold.set()
        with serve(store) as other:
            begun = time.monotonic()
            settled(other)
            assert time.monotonic() - begun < 30, "its lease of 70 s was not given back"
        assert e.got().count(taken[0]) == 1 and e.got().count(left[0]) == 2, e.got()


def keep_away(g):
    """Sessions of the store end, or nobody can write; what is returned undoes it."""
    if STORE == "sqlite":
        import sqlite3
        db = sqlite3.connect(g.store.split(":", 1)[1], isolation_level=None, timeout=gateway.LONG_S)
        db.execute("BEGIN IMMEDIATE")
        return lambda: (db.execute("ROLLBACK"), db.close())
    import bus
    database = urllib.parse.urlsplit(g.store).path[1:]
    bus.psql(bus.SERVER, "ALTER DATABASE %s ALLOW_CONNECTIONS false" % database)
    bus.psql(bus.SERVER, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '%s'" % database)
    return lambda: bus.psql(bus.SERVER, "ALTER DATABASE %s ALLOW_CONNECTIONS true" % database)


def the_store_goes_away_and_nothing_is_lost():
    seen, hold = threading.Event(), threading.Event()

    def answer(_):
        seen.set()
        return 200 if hold.wait(gateway.LONG_S) else 500

    with serve() as g, Endpoint(answer) as e:
        hook(g, e.url, timeout="30s")
        numbers = append(g)
        assert seen.wait(gateway.LONG_S)
        come_back = keep_away(g)
        hold.set()
        gateway.wait_until(lambda: "webhooks: waiting for the store" in g.log(), "the store to be missed")
        come_back()
        settled(g)
        numbers += append(g)
        settled(g)
        assert e.got() == numbers
        gateway.wait_until(lambda: "webhooks: the store is there again" in g.log(), "the store to be back")


if __name__ == "__main__":
    os.environ.pop("http_proxy", None)
    sys.exit(gateway.run([
        an_event_is_posted_and_signed_as_standard_webhooks_says,
        a_new_secret_signs_from_then_on_and_is_told_once,
        values_of_headers_are_not_shown,
        a_failed_event_is_retried_becomes_a_dead_letter_and_is_redriven,
        a_stream_waits_for_its_failed_event_and_others_go_on,
        gone_disables_and_enable_goes_on_where_it_was,
        a_disabled_webhook_sends_nothing_until_it_is_enabled,
        retry_after_is_waited_for,
        a_late_answer_is_a_failure_and_says_so,
        a_redirect_is_not_followed,
        of_a_huge_answer_little_is_read_and_a_slow_one_is_given_up,
        who_refuses_a_connection_or_cannot_prove_who_it_is_fails,
        addresses_that_are_not_public_are_refused_however_they_are_written,
        what_is_no_webhook_is_refused_and_nothing_is_stored,
        another_filter_for_a_webhook_that_exists_is_a_conflict_and_changes_nothing,
        a_test_is_sent_now_and_told,
        the_switch_turns_the_sender_off,
        the_command_looks_after_webhooks,
        a_killed_gateway_loses_no_event,
        two_gateways_share_a_webhook_and_no_event_is_in_both_hands,
        an_end_waits_for_what_is_under_way_and_gives_the_rest_back,
        the_store_goes_away_and_nothing_is_lost,
    ]))
