#!/usr/bin/env python3
"""What nobody should send, and what clients do that never do their part: the gateway says what is wrong, stores
nothing of it, stays small, and goes on.

  test_hostile.py sqlite|postgresql        HOWDAH_SOAK=1: 5,000 streams instead of 2,000
"""
import json
import os
import sys
import time

import gateway
import raw
from raw import Closed, Crowd, Raw, check_problem, get, post

STORE = sys.argv[1]
CROWD = 5000 if os.environ.get("HOWDAH_SOAK") else 2000 if STORE == "sqlite" else 500
SANITIZED = bool(os.environ.get("HOWDAH_SANITIZED")) or "asan" in gateway.HOWDAH or "tsan" in gateway.HOWDAH
EVENT = b'{"stream":"s","type":"a.b","data":1}'
POST = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"

shared = gateway.Gateway(gateway.make_store(STORE), "--request-timeout", "3s", "--idle-timeout", "5s", "--body-max", "64KiB")


def stored(g=shared):
    return g.get("/v1/status").json["head"]


def chunked(*parts):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def ask(data, half_close=False, to="GET"):
    """The answer to bytes, and whether the connection goes on."""
    with Raw(shared, 10) as r:
        r.send(data)
        if half_close:
            r.half_close()
        answer = r.answer(to)
        try:
            r.send(get("/version"))
            return answer, r.answer().status == 200
        except (Closed, OSError, ValueError, IndexError):
            return answer, False


def refuse_all(requests):
    """Each is refused with one of its statuses, and none stores anything; [(bytes, statuses)]."""
    before = stored()
    for data, *statuses in requests:
        answer, _ = ask(data)
        assert answer.status in statuses, (data[:200], answer)
        if "json" in answer.headers.get("content-type", ""):
            check_problem(answer, *statuses)
    assert stored() == before
    assert shared.get("/healthz").status == 200


# ---------------------------------------------------------------------- one request

def pipelined_requests_are_answered_in_their_order():
    with Raw(shared) as r:
        r.send(get("/version") + post("/v1/events", EVENT) + get("/nowhere") + get("/healthz"))
        first, second, third, fourth = (r.answer() for _ in range(4))
        assert first.json["name"] == "howdah" and second.status == 201 and fourth.json["status"] == "ok"
        check_problem(third, 404)


def a_client_that_has_closed_its_half_is_answered():
    before = stored()
    answer, _ = ask(post("/v1/events", EVENT), half_close=True)
    assert answer.status == 201 and stored() == before + 1


def half_of_a_body_stores_nothing():
    before = stored()
    with Raw(shared) as r:
        r.send(post("/v1/events", EVENT)[:-1]).half_close()
        assert r.rest()[:12] in (b"", b"HTTP/1.1 408")
    with Raw(shared) as r:
        r.send(POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(EVENT) + EVENT + b"\r\n").half_close()
        assert r.rest()[:12] in (b"", b"HTTP/1.1 408")
    assert stored() == before


def what_is_too_long_is_refused():
    refuse_all([
        (GET + b"X: " + b"a" * 40000 + b"\r\n\r\n", 431),
        (GET + b"X: a\r\n" * 5000 + b"\r\n", 431),
        (get("/" + "a" * 9000), 414),
        (get("/" + "a" * 40000), 414),
        (get("/v1/events?" + "&".join("header=a=%d" % n for n in range(40))), 400),
    ])


def a_body_over_the_limit_is_refused_and_stores_nothing():
    large = EVENT + b" " * 70000
    refuse_all([
        (POST + b"Content-Length: %d\r\n\r\n" % len(large) + large, 413),
        (POST + b"Content-Length: 999999999999\r\nExpect: 100-continue\r\n\r\n", 413),
        (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(*[large[n:n + 5000] for n in range(0, len(large), 5000)]),
         413),
    ])
    answer, goes_on = ask(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(EVENT[:7], EVENT[7:], b" " * 65000))
    assert answer.status == 201 and goes_on


def a_request_that_two_could_read_differently_is_refused_and_its_connection_ends():
    before = stored()
    length = b"Content-Length: %d\r\n" % len(EVENT)
    other = b"Transfer-Encoding: chunked\r\n"
    hidden = post("/v1/events", EVENT)
    for headers in (length + other, other + length, length + length, length + b"Content-Length: 5\r\n", other + other,
                    b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: identity\r\n" + length,
                    b"Transfer-Encoding: xchunked\r\n", b"Transfer-Encoding: chunked, identity\r\n",
                    b"Transfer-Encoding: chunked \r\n", b"Transfer-Encoding : chunked\r\n" + length,
                    b"Transfer-Encoding: \x0bchunked\r\n", b"Transfer-Encoding\x01: chunked\r\n" + length,
                    b"Content-Length : 5\r\n" + length, b"X\x7f: a\r\n" + length,
                    b"Content-Length: -1\r\n", b"Content-Length: +36\r\n", b"Content-Length: 0x24\r\n",
                    b"Content-Length: 36, 36\r\n", b"Content-Length: 1e2\r\n", b"Content-Length:\r\n"):
        with Raw(shared, 10) as r:
            r.send(POST + headers + b"\r\n" + EVENT + hidden)
            assert r.answer().status == 400, headers
            r.rest()  # the end; nothing that follows is a request
    assert stored() == before


def sizes_of_chunks_that_are_none_are_refused():
    before = stored()
    for chunks in (b"zz\r\n", b"-5\r\nabcde\r\n", b"0x24\r\n" + EVENT + b"\r\n", b"\r\n", b"24 \r\n" + EVENT + b"\r\n",
                   b" 24\r\n" + EVENT + b"\r\n", b"23\r\n" + EVENT + b"\r\n0\r\n\r\n", b"fffffffffffffffff\r\n" + EVENT,
                   b"a" * 30000):
        answer, goes_on = ask(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert answer.status in (400, 413) and not goes_on, (chunks[:40], answer)
    assert stored() == before


def headers_that_are_none_are_refused():
    refuse_all([
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 403),
        (get("/healthz", host="evil.example"), 403),
        (get("/healthz", host="localhost.evil.example"), 403),
        (get("/healthz", host="127.0.0.1.evil.example"), 403),
        (get("/healthz", host="evil@localhost"), 403),
        (get("/healthz", host=""), 400, 403),
        (GET + b"X: a\x01b\r\n\r\n", 400),
        (GET + b"X: a\x7fb\r\n\r\n", 400),
        (GET + b"X\x01: a\r\n\r\n", 400),
        (GET + b"X : a\r\n\r\n", 400),
        (GET + b"X(: a\r\n\r\n", 400),
        (GET + b"X\xc3\xa9: a\r\n\r\n", 400),
        (GET + b"no colon\r\n\r\n", 400),
        (get("/healthz", "Origin: http://evil.example"), 403),
        (get("/healthz", "Origin: null"), 403),
        (b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        (b"GET /healthz\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (get("/healthz", method="TRACE"), 405),
        (get("/healthz", method="PATCH"), 405),
        (get("/healthz", method="G\x01T"), 405),
        (get("/healthz", method="get"), 405),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    ])


def a_folded_header_and_bytes_that_are_no_text_hurt_nobody():
    for data in (GET + b"X: a\r\n b\r\n\r\n", GET + b": a\r\n\r\n", GET + b"X: a\0b\r\n\r\n", GET + b"X: \xff\xfe\r\n\r\n", b"\r\n\r\n" + GET + b"\r\n",
                 GET.replace(b"\r\n", b"\n") + b"\n"):
        answer, _ = ask(data)
        assert answer.status in (200, 400), (data, answer)
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"\0" * 5000 + b"\r\n\r\n", os.urandom(3000) + b"\r\n\r\n",
                 b"GET /heal thz HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        with Raw(shared, 10) as r:
            r.send(data).half_close()
            assert b" 200 " not in r.rest().split(b"\r\n")[0], data
    assert shared.get("/healthz").status == 200


def tricks_in_paths_are_not_taken_for_other_paths():
    for path, status in (("/v1/streams/a%2Fb", 200), ("/v1/streams/a%2fb%3Fc%23d", 200), ("/v1/streams/%2e%2e", 200),
                         ("/v1/streams/%00", 400), ("/v1/streams/a%00b", 400), ("/v1/streams/%c0%af", 400),
                         ("/v1/streams/%e0%80%af", 400), ("/v1/streams/%f8%80%80%80%af", 400), ("/v1/streams/%ed%a0%80", 400),
                         ("/v1/streams/%zz", 400), ("/v1/streams/%", 400), ("/v1/streams/%4", 400), ("/v1/streams/%+1", 400),
                         ("/v1/streams/%0a", 400), ("/v1/streams/%7f", 400), ("/v1/streams/", 404), ("/v1/../healthz", 404),
                         ("/v1//streams/a", 404), ("//healthz", 404), ("/healthz/", 404), ("/HEALTHZ", 404), ("/%68ealthz", 404),
                         ("/healthz#f", 404), ("/healthz?x", 400), ("/healthz?", 200), ("/healthz?&&", 200),
                         ("/v1/streams/a?limit=%31", 200), ("/v1/streams/a?limit=1&limit=2", 400), ("/v1/streams/a?limit=0x1", 400),
                         ("/v1/streams/a?limit=%00", 400), ("/v1/streams/a?%c0%af=1", 400), ("/v1/streams/a?limit=-1", 400),
                         ("/v1/streams/a?limit=9223372036854775808", 400), ("/v1/streams/a?limit=99999999999999999999999", 400),
                         ("/v1/events?since=9223372036854775808", 400), ("/v1/jobs/9223372036854775808", 400),
                         ("/v1/events/..", 400), ("/v1/events/%2e", 400), ("*", 404)):
        answer, goes_on = ask(get(path))
        assert answer.status == status and goes_on, (path, answer)
        if status != 200:
            check_problem(answer, status)


def json_that_is_none_stores_nothing_and_a_big_number_is_no_small_one():
    deep = b"[" * 10000 + b"]" * 10000
    good = b'"stream":"s","type":"a.b"'
    refuse_all([(post("/v1/events", body), 400) for body in (
        b"", b" " * 1000, b"null", b"1", b'"x"', b"{", b"{}", b"[[]]", b"[1]", b"[" * 10000, deep, b"{%s,}" % good,
        b'{%s,"data":%s}' % (good, deep), b'{%s,"headers":{"a":%s}}' % (good, deep), b'{"stream":"s\xff","type":"a.b"}',
        b'{%s,"data":"\xc0\xaf"}' % good, b'{%s,"data":"\\u0000"}' % good, b'{%s,"data":"\\ud800"}' % good,
        b'{%s,"data":NaN}' % good, b'{%s,"data":01}' % good, b"\xef\xbb\xbf{%s}" % good, b'{%s}\0' % good, b'{%s} x' % good,
        b'{%s,"schema_version":9223372036854775808}' % good, b'{%s,"expect":9223372036854775808}' % good,
        b'{%s,"expect":-9223372036854775809}' % good, b'{%s,"schema_version":1.5}' % good, b'{%s,"nosuch":1}' % good,
        b'[{%s},{"stream":"s"}]' % good)])
    assert shared.put("/v1/subscriptions/g").status == 201
    refuse_all([(post("/v1/subscriptions/g/fetch", body), 400) for body in (
        b'{"max":9223372036854775808}', b'{"max":1e3}', b'{"max":-1}', b'{"wait":"999999999999h"}', b"[]",
        b'{"lease":-1}', b'{"max":%s}' % deep, b'{"nosuch":1}')])
    refuse_all([(post("/v1/queues/q/jobs", body), 400) for body in (
        b'{"data":%s}' % deep, b'{"priority":9223372036854775808}', b'{"delay":"9999999999h"}', b'{"run_at":"yesterday"}')])
    answer, _ = ask(post("/v1/events", b'{%s,"data":{"n":92233720368547758089223372036854775808}}' % good))
    assert answer.status == 201, answer
    assert b"92233720368547758089223372036854775808" in shared.get("/v1/events/" + answer.json["id"]).body


def what_a_browser_sends_from_any_page_is_not_taken():
    before = stored()
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"):
        check_problem(shared.post("/v1/queues/q/claim", b'{"max":1}', headers={"Content-Type": kind}), 415)
        check_problem(shared.post("/v1/subscriptions/g/pause", b"", headers={"Content-Type": kind}), 415, 404)
    assert stored() == before


def head_is_answered_without_a_body_also_for_streams():
    for path in ("/healthz", "/v1/events", "/v1/events/live", "/openapi.json", "/nowhere"):
        with Raw(shared) as r:
            r.send(get(path, method="HEAD"))
            status, headers = r.head()
            assert status == (404 if path == "/nowhere" else 200), path
            if headers.get("connection") == "close":
                r.rest()  # a chunk of no bytes, and the end
            else:
                assert r.send(get("/version")).answer().json["name"] == "howdah", path


# ------------------------------------------------------------------- what is slow

def drip(r, bytes_now):
    """Sends some more, and takes what is there; False: the gateway has ended it."""
    try:
        if bytes_now and not r.got:
            r.socket.sendall(bytes_now)
        r.socket.settimeout(0.01)
        r.more()
    except TimeoutError:
        pass
    except (Closed, OSError):
        return False
    return True


def what_comes_byte_by_byte_is_given_up():
    """First lines, headers and bodies: a byte now and then keeps no connection."""
    before = stored()
    slow = {"line": Raw(shared).send(b"G"), "headers": Raw(shared).send(GET), "silent": Raw(shared),
            "body": Raw(shared).send(post("/v1/events", EVENT)[:-1]), "next": Raw(shared).send(get("/healthz")),
            "chunks": Raw(shared).send(POST + b"Transfer-Encoding: chunked\r\n\r\n")}
    assert slow["next"].answer().status == 200
    ended, begun = {}, time.monotonic()
    while len(ended) < len(slow):
        assert time.monotonic() - begun < 30, "still open: %s" % (set(slow) - set(ended))
        for name, r in slow.items():
            if name not in ended and not drip(r, {"headers": b"a", "chunks": b"1\r\n \r\n", "line": b"E"}.get(name)):
                ended[name] = time.monotonic() - begun
        time.sleep(0.2)
    said = {name: r.answer() if r.got else None for name, r in slow.items()}
    for name in ("headers", "body", "chunks"):
        problem = check_problem(said[name], 408)
        assert problem["code"] == "TIMEOUT" and problem["retryable"], problem
    for name in ("line", "silent", "next"):
        assert said[name] is None, said
    assert all(2 < seconds < 20 for seconds in ended.values()), ended
    for r in slow.values():
        r.socket.close()
    assert stored() == before


def a_client_that_never_reads_an_answer_is_given_up():
    with gateway.Gateway(gateway.make_store(STORE), "--idle-timeout", "2s") as g:
        append_many(g, 800, 3000)
        stuck = [Raw(g).send(get("/v1/events?limit=800") * 8) for _ in range(20)]
        gateway.wait_until(lambda: raw.sockets_of(g.process) >= 20, "their connections")
        gateway.wait_until(lambda: raw.sockets_of(g.process) < 20, "the end of their connections")
        for r in stuck:
            r.socket.close()


# --------------------------------------------------------------------------- many

def append_many(g, n, size, stream="s"):
    """Events of so many bytes, a megabyte at a time."""
    each = max(1, min(n, 1000000 // size))
    with Raw(g) as r:
        while n > 0:
            events = [{"stream": stream, "type": "a.b", "data": "x" * size}] * min(n, each)
            answer = r.send(post("/v1/events", json.dumps(events))).answer()
            assert answer.status == 201, answer
            n -= len(events)


def thousands_of_idle_streams_cost_little_and_one_event_reaches_them_at_once():
    with gateway.Gateway(gateway.make_store(STORE), "--access-log", "off") as g:
        g.post("/v1/events", {"stream": "s", "type": "a.b"})
        crowd = Crowd(g, CROWD, get("/v1/events/live"))
        crowd.wait(b"retry:")
        gateway.wait_until(lambda: "\nhowdah_gateway_streams %d\n" % CROWD in g.get("/metrics").body.decode(), "all streams")
        mib = raw.resident_mib(g.process)
        assert SANITIZED or mib < 20 + 60 * CROWD / 5000, "%.0f MiB with %d streams" % (mib, CROWD)
        begun = time.monotonic()
        g.post("/v1/events", {"stream": "s", "type": "last.one"})
        crowd.wait(b"last.one")
        seconds = time.monotonic() - begun
        gateway.tap.comment("%d streams: %.1f MiB, one event reached all in %.2f s" % (CROWD, mib, seconds))
        assert SANITIZED or seconds < 2, seconds
        crowd.close()


def clients_that_never_read_cost_a_piece_each_and_lose_nothing():
    with gateway.Gateway(gateway.make_store(STORE), "--access-log", "off") as g:
        reader = Raw(g).send(get("/v1/events/live?since=0"))
        stuck = [Raw(g).send(get("/v1/events/live?since=0")) for _ in range(50)]
        assert reader.head()[0] == 200
        append_many(g, 3, 1000)
        before = raw.resident_mib(g.process)
        append_many(g, 12800, 4096)
        grown = raw.resident_mib(g.process) - before
        gateway.tap.comment("50 MiB past 50 clients that do not read: %.1f MiB more" % grown)
        assert SANITIZED or grown < 96, "%.0f MiB more" % grown
        for r in (reader, stuck[7]):
            if r is not reader:
                r.head()
            seen, text = 0, b""
            while seen < 12803:
                *lines, text = (text + r.chunk()).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: {"):
                        seen += 1
                        assert line.startswith(b'data: {"global_sequence":%d,' % seen), (seen, line[:100])
        for r in [reader, *stuck]:
            r.socket.close()


def who_never_acks_is_handed_a_window_and_then_the_same_again():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        assert g.put("/v1/subscriptions/g", {"start": 0, "max_retries": 100}).status == 201
        for n in range(20):
            g.post("/v1/events", {"stream": "s-%d" % n, "type": "a.b"})
        with Raw(g) as r:
            r.send(get("/v1/subscriptions/g/stream?max=1&window=3&lease=1s"))
            r.until(b"retry:")
            batches = [json.loads(r.until(b"}\n\n").split(b"data: ")[1]) for _ in range(3)]
            sequences = [batch["events"][0]["global_sequence"] for batch in batches]
            assert len(set(sequences)) == 3, sequences
            begun = time.monotonic()
            more = json.loads(r.until(b"}\n\n").split(b"data: ")[1])
            assert time.monotonic() - begun > 0.5, "a fourth before the leases of three had ended"
            assert more["events"][0]["global_sequence"] <= 20
            assert g.post("/v1/subscriptions/g/ack", {"token": more["token"]}).json == {"ok": True}
            check_problem(g.post("/v1/subscriptions/g/ack", {"token": "no-such-token"}), 400, 409)


def over_the_limits_the_client_is_told_when_to_come_again():
    with gateway.Gateway(gateway.make_store(STORE), "--connections", "20", "--streams", "3") as g:
        streams = [Raw(g).send(get("/v1/events/live")) for _ in range(3)]
        for r in streams:
            assert r.head()[0] == 200
        with Raw(g) as r:
            check_problem(r.send(get("/v1/events/live")).answer(), 503)
            assert r.send(get("/healthz")).answer().status == 200
        held = [gateway.wait_until(lambda: _held(g), "room") for _ in range(17)]
        for _ in range(30):
            with Raw(g) as r:
                check_problem(r.send(get("/healthz")).answer(), 503)
                assert r.is_closed()
        assert held[3].send(get("/v1/status")).answer().status == 200
        for r in held + streams:
            r.socket.close()
        gateway.wait_until(lambda: g.get("/healthz").status == 200, "room")
    with gateway.Gateway(gateway.make_store(STORE), "--per-address", "5") as g:
        held = [Raw(g).send(get("/healthz")) for _ in range(5)]
        assert [r.answer().status for r in held] == [200] * 5
        with Raw(g) as r:
            try:
                r.send(get("/healthz"))
                assert r.rest() == b""
            except OSError:
                pass
        held.pop().socket.close()
        gateway.wait_until(lambda: _answers(g), "room for one more")


def _held(g):
    """A connection that is one of those that may be; None: one that has ended still counts."""
    r = Raw(g)
    if r.send(get("/healthz")).answer().status == 200:
        return r
    r.socket.close()
    return None


def _answers(g):
    try:
        return g.get("/healthz").status == 200
    except OSError:
        return False


def without_file_descriptors_the_store_is_still_reached():
    """Fewer than the connections that were asked for: sessions have theirs whatever clients hold."""
    with gateway.Gateway(gateway.make_store(STORE), prefix=["prlimit", "--nofile=300:300"]) as g:
        held = []
        for _ in range(400):
            held.append(Raw(g).send(get("/healthz")))
        assert "connections are taken" in g.log()
        for _ in range(4):  # no session has been opened yet
            answer = held[0].answer()
            assert answer.status == 200, answer
            held[0].send(get("/v1/status"))
        assert held[0].answer().status == 200
        for r in held:
            r.hang_up()
        gateway.wait_until(lambda: _answers(g), "room")


def who_hangs_up_while_waiting_is_left_nothing():
    with gateway.Gateway(gateway.make_store(STORE)) as g:
        assert g.put("/v1/subscriptions/g", {"start": 0}).status == 201
        assert g.put("/v1/queues/q", {}).status in (200, 201)
        fetch = post("/v1/subscriptions/g/fetch", b'{"max":10,"wait":"60s","lease":"10m","member":"gone"}')
        claim = post("/v1/queues/q/claim", b'{"max":10,"wait":"60s","lease":"10m"}')
        gone = [Raw(g).send(claim if n % 2 else fetch) for n in range(1000)]
        gateway.wait_until(lambda: "\nhowdah_gateway_requests_parked %d\n" % len(gone) in g.get("/metrics").body.decode(), "all to wait")
        for n, r in enumerate(gone):
            r.hang_up() if n % 4 < 2 else r.socket.close()
        g.post("/v1/events", [{"stream": "s-%d" % n, "type": "a.b"} for n in range(10)])
        g.post("/v1/queues/q/jobs", [{"data": n} for n in range(10)])
        got = set()
        while len(got) < 10:
            batch = g.post("/v1/subscriptions/g/fetch", {"max": 10, "wait": "5s"}).json
            assert batch["events"], "%d events, and the rest is leased: %s" % (len(got), g.get("/v1/subscriptions/g").body)
            got.update(event["global_sequence"] for event in batch["events"])
        jobs = set()
        while len(jobs) < 10:
            claimed = g.post("/v1/queues/q/claim", {"max": 10, "wait": "5s"}).json["jobs"]
            assert claimed, "%d jobs, and the rest is leased" % len(jobs)
            jobs.update(job["id"] for job in claimed)
        gateway.wait_until(lambda: raw.sockets_of(g.process) < 100, "the end of their connections")


if __name__ == "__main__":
    code = gateway.run([
        pipelined_requests_are_answered_in_their_order,
        a_client_that_has_closed_its_half_is_answered,
        half_of_a_body_stores_nothing,
        what_is_too_long_is_refused,
        a_body_over_the_limit_is_refused_and_stores_nothing,
        a_request_that_two_could_read_differently_is_refused_and_its_connection_ends,
        sizes_of_chunks_that_are_none_are_refused,
        headers_that_are_none_are_refused,
        a_folded_header_and_bytes_that_are_no_text_hurt_nobody,
        tricks_in_paths_are_not_taken_for_other_paths,
        json_that_is_none_stores_nothing_and_a_big_number_is_no_small_one,
        what_a_browser_sends_from_any_page_is_not_taken,
        head_is_answered_without_a_body_also_for_streams,
        what_comes_byte_by_byte_is_given_up,
        a_client_that_never_reads_an_answer_is_given_up,
        thousands_of_idle_streams_cost_little_and_one_event_reaches_them_at_once,
        clients_that_never_read_cost_a_piece_each_and_lose_nothing,
        who_never_acks_is_handed_a_window_and_then_the_same_again,
        over_the_limits_the_client_is_told_when_to_come_again,
        without_file_descriptors_the_store_is_still_reached,
        who_hangs_up_while_waiting_is_left_nothing,
    ])
    shared.stop()
    sys.exit(code)
