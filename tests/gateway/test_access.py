#!/usr/bin/env python3
"""Who may: tokens, scopes and how people try to get out of them, other pages of a browser, TLS, what starts a service.

  test_access.py sqlite|postgresql
"""
import glob
import json
import os
import pty
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import gateway
from gateway import Gateway, wait_until

KIND = sys.argv[1]
STORE = gateway.make_store(KIND, "access")
SECRETS = []  # that were made: none of them may be seen again


def add(name, may, *limits, store=None):
    answer = gateway.lines("serve", "token", "add", name, "--may", may, *limits, store=store or STORE)[0]
    SECRETS.append(answer["token"])
    return answer["token"]


def revoke(name):
    return gateway.lines("serve", "token", "rm", name, store=STORE)[0]


def event(type_="order.paid", stream="order-1"):
    return {"stream": stream, "type": type_, "data": {}}


def raw(g, text):
    """Bytes as they are; the status of the answer, and all of it."""
    with socket.create_connection((g.host, g.port), timeout=gateway.LONG_S) as s:
        s.sendall(text.replace("\n", "\r\n").encode("latin-1"))
        got = b""
        while True:
            more = s.recv(65536)
            got += more
            if not more or b"\r\n\r\n" in got:
                break
    return int(got.split()[1]), got.decode("latin-1")


# ------------------------------------------------------------------------------ before the first token

def without_a_token_loopback_is_open_and_other_names_are_not():
    with Gateway(gateway.make_store("sqlite"), "--host", "bus.example") as g:
        assert g.get("/v1/status").status == 200
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.1:80", "[::1]:80", "bus.example:8080", "BUS.example"):
            assert g.get("/v1/status", headers={"Host": host}).status == 200, host
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "bus.example.evil", "", "[::2]",
                     "localhost@evil", "127.0.0.1x"):
            for path in ("/v1/status", "/healthz"):
                assert g.get(path, headers={"Host": host}).status == 403, host


def pages_of_others_are_refused_and_listed_ones_are_let_in():
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    with Gateway(gateway.make_store("sqlite"), "--cors", "https://shop.example") as g:
        own = "http://" + g.address
        for origin, status in ((own, 200), ("https://shop.example", 200), ("https://" + g.address, 403),
                               ("https://shop.example.evil", 403), ("http://shop.example", 403), ("null", 403),
                               ("https://shop.example:444", 403)):
            answer = g.get("/v1/status", headers={"Host": g.address, "Origin": origin})
            assert answer.status == status, (origin, answer)
            allowed = answer.headers["Access-Control-Allow-Origin"]
            assert allowed == (origin if origin == "https://shop.example" else None), (origin, allowed)
            assert answer.headers["Vary"] == "Origin"
        answer = g.ask("OPTIONS", "/v1/events", headers={"Origin": "https://shop.example", **preflight})
        assert answer.status == 204 and answer.headers["Access-Control-Allow-Methods"] == "POST, GET", answer
        assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
        assert g.ask("OPTIONS", "/v1/events", headers={"Origin": "https://evil.example", **preflight}).status == 403
        assert g.ask("OPTIONS", "/v1/nothing", headers={"Origin": "https://shop.example", **preflight}).status == 404
    with Gateway(gateway.make_store("sqlite")) as g:
        assert g.ask("OPTIONS", "/v1/events", headers={"Origin": "https://shop.example", **preflight}).status == 403
        answer = g.get("/v1/status")
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def other_addresses_need_tokens_and_tls_and_the_error_says_what_to_do():
    store = gateway.make_store("sqlite")
    for options, said in (([], "--tls-cert"), (["--behind-proxy"], "serve token add")):
        done = subprocess.run([gateway.HOWDAH, "serve", "--listen", "0.0.0.0:0", *options], capture_output=True, text=True,
                              timeout=gateway.LONG_S, env=dict(os.environ, HOWDAH_STORE=store))
        assert done.returncode == 6 and said in done.stderr, done
    token = add("proxy", "read", store=store)
    with Gateway(store, "--behind-proxy", listen="0.0.0.0:0") as g:
        g.host = "127.0.0.1"
        assert g.get("/v1/subscriptions", token=token).status == 200
        assert g.get("/v1/subscriptions").status == 401
        gateway.command("serve", "token", "rm", "proxy", store=store)  # the last one opens nothing
        wait_until(lambda: g.get("/v1/subscriptions", token=token).status == 401)
        assert g.get("/v1/subscriptions").status == 401


def a_token_can_be_asked_for_when_there_is_none():
    with Gateway(gateway.make_store("sqlite"), "--require-token") as g:
        assert g.get("/v1/status").status == 401 and g.get("/healthz").status == 200
        assert g.get("/healthz", headers={"Host": "pod.example"}).status == 200


# ------------------------------------------------------------------------------ tokens

def a_token_is_shown_once_and_listed_without_its_secret():
    token = add("shown", "publish,read", "--pattern", "order.*", "--stream", "order-*", "--queue", "mails")
    assert re.fullmatch(r"hwd_[A-Za-z0-9_-]{43}", token)
    listed = [row for row in gateway.lines("serve", "token", "ls", store=STORE) if row["name"] == "shown"]
    created = listed[0].pop("created_at")
    assert created.endswith("Z") and listed == [{
        "name": "shown", "may": ["read", "publish"], "patterns": ["order.*"], "streams": ["order-*"], "queues": ["mails"],
        "state": "good", "used_at": None, "revoked_at": None}], listed
    assert revoke("shown") == {"name": "shown", "revoked": True}
    gateway.command("serve", "token", "rm", "nobody", store=STORE, code=4)
    gateway.command("serve", "token", "add", "x", "--may", "everything", store=STORE, code=6)
    gateway.command("serve", "token", "add", "x", store=STORE, code=2)
    gateway.command("serve", "--may", "read", store=STORE, code=2)
    gateway.command("serve", "token", "ls", "--may", "read", store=STORE, code=2)


def in_terminal(*words):
    """What a person sees."""
    master, slave = pty.openpty()
    process = subprocess.Popen([gateway.HOWDAH, *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                               env=dict(os.environ, HOWDAH_STORE=STORE, TERM="dumb", NO_COLOR="1"))
    os.close(slave)
    seen = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # the last one has closed it
            more = b""
        if not more:
            break
        seen += more
    os.close(master)
    assert process.wait(timeout=gateway.LONG_S) == 0, seen
    return re.sub(r"\x1b\[\d*m|\r", "", seen.decode())


def in_a_terminal_there_is_a_table_and_a_sentence_about_the_secret():
    shown = in_terminal("serve", "token", "add", "person", "--may", "read,work", "--queue", "mails")
    SECRETS.append(re.search(r"^hwd_[A-Za-z0-9_-]{43}$", shown, re.M).group())
    assert "the only time that the token of person is shown" in shown, shown
    table = [line.split() for line in in_terminal("serve", "token", "ls").splitlines()]
    assert table[0] == ["name", "may", "pattern", "stream", "queue", "state", "used"], table
    assert ["person", "read,work", "-", "-", "mails", "good", "-"] in table, table
    assert "is revoked" in in_terminal("serve", "token", "rm", "person")


def a_revoked_token_is_refused_within_two_seconds_also_in_the_middle_of_a_wait():
    token = add("brief", "subscribe,read")
    with Gateway(STORE, token=token) as g:
        assert g.put("/v1/subscriptions/waits", {"start": "end"}).status in (200, 201)
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(g.post("/v1/subscriptions/waits/fetch", {"wait": "30s"})))
        waiting.start()
        revoke("brief")
        revoked = time.monotonic()
        wait_until(lambda: g.get("/v1/subscriptions").status == 401)
        took = time.monotonic() - revoked
        waiting.join()
        ended = time.monotonic() - revoked
        assert answers[0].status == 401, answers
        assert took < 4 and ended < 10, (took, ended)  # two seconds, on a machine that is free


def a_hangup_has_tokens_read_again_at_once():
    add("holder", "read")
    with Gateway(STORE) as g:
        token = add("fresh", "read")
        g.signal(signal.SIGHUP)
        wait_until(lambda: g.get("/v1/subscriptions", token=token).status == 200, seconds=10)


def what_is_no_token_is_refused():
    token = add("good", "read")
    with Gateway(STORE) as g:
        assert g.get("/v1/subscriptions", token=token).status == 200
        for wrong in ("Bearer", "Bearer ", "Basic " + token, token, "Bearer " + token + "x", "Bearer " + token[:-1],
                      "Bearer " + token.upper(), "Bearer %s %s" % (token, token)):
            assert g.get("/v1/subscriptions", headers={"Authorization": wrong}, token=False).status == 401, wrong
        assert g.get("/v1/subscriptions", headers={"Authorization": "bearer  " + token}).status == 200
        twice = "GET /v1/subscriptions HTTP/1.1\nHost: localhost\nAuthorization: Bearer %s\nAuthorization: Bearer x\n\n"
        assert raw(g, twice % token)[0] == 400


def too_many_wrong_tokens_are_slowed_down_and_nobody_else():
    token = add("calm", "read")
    with Gateway(STORE, "--behind-proxy") as g:
        def ask(client, secret):
            return g.get("/v1/subscriptions", token=secret, headers={"X-Forwarded-For": client})
        answers = [ask("9.9.9.9, 10.0.0.1", "hwd_wrong").status for _ in range(22)]
        assert answers == [401] * 20 + [429] * 2, answers
        slow = ask("1.2.3.4, 10.0.0.1", "hwd_wrong")
        assert slow.status == 429 and 1 <= int(slow.headers["Retry-After"]) <= 60, slow
        assert ask("10.0.0.1", token).status == 200
        assert ask("10.0.0.1, 10.0.0.2", "hwd_wrong").status == 401
        assert ask("2001:db8::1", "hwd_wrong").status == 401
        assert [ask("2001:db8::%x" % i, "hwd_wrong").status for i in range(20)][-1] == 429  # one network
        twice = "GET /v1/subscriptions HTTP/1.1\nHost: localhost\nX-Forwarded-For: 6.6.6.6\nX-Forwarded-For: 7.7.7.7\n\n"
        assert raw(g, twice)[0] == 401
        assert ask("not an address\tat all", "hwd_wrong").status == 401
    log = [json.loads(line) for line in g.log().splitlines() if line.startswith("{")]
    clients = {line["client"] for line in log}
    assert {"10.0.0.1", "10.0.0.2", "2001:db8::1", "127.0.0.1", "7.7.7.7"} <= clients and "6.6.6.6" not in clients, clients


# ------------------------------------------------------------------------------ scopes

def nobody_gets_out_of_a_scope():
    token = add("scoped", "admin", "--pattern", "order.*", "--stream", "order-*", "--queue", "mails")
    with Gateway(STORE, token=token) as g:
        for type_, stream, status in (
                ("order.paid", "order-1", 201), ("order.paid", "order-", 201), ("order.paid", "order", 403),
                ("Order.paid", "order-1", 403), ("order.paid.late", "order-1", 403), ("order", "order-1", 403),
                ("xorder.paid", "order-1", 403), ("order.paid", "Order-1", 403), ("order.paid", " order-1", 403)):
            assert g.post("/v1/events", event(type_, stream)).status == status, (type_, stream)
        many = g.post("/v1/events", [event(), event("other.paid")])
        assert many.status == 403 and many.json["event_index"] == 1, many
        for query, status in (
                ("?pattern=order.*&stream=order-1", 200), ("?type=order.paid&stream=order-1", 200),
                ("?pattern=order.%70aid&stream=order%2D1", 200), ("?pattern=order.%2A&stream=order-1", 200),
                ("?pattern=order.>&stream=order-1", 403), ("?pattern=*.paid&stream=order-1", 403),
                ("?pattern=>&stream=order-1", 403), ("?pattern=*&stream=order-1", 403), ("?pattern=&stream=order-1", 403),
                ("?pattern=order.*.*&stream=order-1", 403), ("?pattern=order.&stream=order-1", 400),
                ("?pattern=order.*", 403), ("?stream=order-1", 403), ("", 403), ("?pattern=order.*&stream=", 403),
                ("?pattern=order.*&stream=order-*", 200), ("?pattern=order.*&stream=*", 403),
                ("?pattern=order.*&pattern=>&stream=order-1", 400), ("?type=other.x&pattern=order.*&stream=order-1", 200),
                ("?pattern=order.*&stream=order-1%00", 400), ("?Pattern=order.*&stream=order-1", 400),
                ("?pattern=order.*%0D%0AX-Evil:1&stream=order-1", 400)):
            answer = g.get("/v1/events" + query)
            assert answer.status == status and "X-Evil" not in answer.headers, (query, answer)
        for path, status in (("mails", 200), ("MAILS", 403), ("mails%2F", 403), ("%6dails", 200), ("mails2", 403),
                             (".%2Fmails", 403), ("mails/../other", 404), ("..%2Fmails", 403), ("mails%00", 400)):
            answer = g.post("/v1/queues/" + path + "/claim", {})
            assert answer.status in ((status, 404) if status == 200 else (status,)), (path, answer)
        put = {"order.*": 201, "order.>": 403, ">": 403, "*.*": 403, "order.paid": 201}
        for i, (pattern, status) in enumerate(put.items()):
            assert g.put("/v1/subscriptions/s%d" % i, {"pattern": pattern, "stream": "order-1"}).status == status, pattern
            assert g.put("/v1/subscriptions/t%d" % i, {"pattern": pattern}).status == 403, pattern
        assert g.get("/openapi.json", token=token).status == 200


def what_has_an_id_and_is_out_of_scope_is_not_there():
    token = add("narrow", "admin", "--pattern", "order.*", "--queue", "mails")
    whole = add("whole", "admin")
    with Gateway(STORE, token=token) as g:
        inside = g.post("/v1/events", event(), token=whole).json["id"]
        outside = g.post("/v1/events", event("secret.plan"), token=whole).json["id"]
        missing = g.get("/v1/events/01900000-0000-7000-8000-000000000000")
        hidden = g.get("/v1/events/" + outside)
        assert g.get("/v1/events/" + inside).status == 200
        assert hidden.status == missing.status == 404 and hidden.json["code"] == missing.json["code"]
        assert g.get("/v1/events/" + outside.upper()).status == 404
        assert g.post("/v1/events/%s/corrections" % outside, {"data": 1, "reason": "r"}).status == 404
        assert g.delete("/v1/events/%s?reason=r" % outside).status == 404
        job = g.post("/v1/queues/other/jobs", {"data": 1}, token=whole).json["id"]
        assert g.get("/v1/jobs/%d" % job).status == 404 and g.get("/v1/jobs/%d" % job, token=whole).status == 200
        assert g.put("/v1/subscriptions/secret", {"pattern": "secret.>"}, token=whole).status in (200, 201)
        assert g.post("/v1/subscriptions/secret/fetch", {}).status == 403
        assert "secret" not in json.dumps(g.get("/v1/subscriptions").json)
        assert g.get("/v1/queues", headers={"Host": "any.example"}).status == 200  # no page can send a token
        assert [q["queue"] for q in g.get("/v1/queues").json["queues"]] in ([], ["mails"])


# ------------------------------------------------------------------------------ TLS

def make_certificate(folder, name):
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
                    cert], check=True, capture_output=True, timeout=gateway.LONG_S)
    os.chmod(key, 0o600)
    return cert, key


def subject(g):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((g.host, g.port), timeout=gateway.LONG_S) as plain, context.wrap_socket(plain) as s:
        return s.getpeercert(binary_form=True)


def tls_is_spoken_and_its_certificate_is_read_again():
    folder = gateway.folder()
    first, second = make_certificate(folder, "first"), make_certificate(folder, "second")
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")

    def use(pair):
        for source, target in zip(pair, (cert, key)):
            with open(source, "rb") as f, open(target + ".new", "wb") as out:
                out.write(f.read())
            os.chmod(target + ".new", 0o600)
            os.rename(target + ".new", target)

    use(first)
    store = gateway.make_store("sqlite")
    token = add("tls", "read", store=store)
    with Gateway(store, "--tls-cert", cert, "--tls-key", key, listen="0.0.0.0:0", tls=gateway.trusting(first[0]),
                 token=token) as g:
        g.host = "127.0.0.1"
        assert g.url.startswith("https://") and g.get("/v1/subscriptions").status == 200
        open_one = g.connect()
        assert g.get("/v1/subscriptions", connection=open_one).status == 200
        before = subject(g)
        use(second)
        g.signal(signal.SIGHUP)
        wait_until(lambda: subject(g) != before)
        assert g.get("/v1/subscriptions", connection=open_one).status == 200  # it goes on
        open_one.close()
        g.tls = gateway.trusting(second[0])
        assert g.get("/v1/subscriptions").status == 200
        with open(cert, "w") as out:
            out.write("no certificate")
        g.signal(signal.SIGHUP)
        wait_until(lambda: "certificate of before stays" in g.log())
        assert g.get("/v1/subscriptions").status == 200
        for version, ok in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
            done = subprocess.run(["openssl", "s_client", version, "-cipher", "ALL:@SECLEVEL=0", "-connect", "127.0.0.1:%d" % g.port], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=gateway.LONG_S)
            assert (done.returncode == 0) == ok, (version, done)
        answer = b""
        with socket.create_connection((g.host, g.port), timeout=gateway.LONG_S) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                answer = plain.recv(100)
            except ConnectionError:
                pass
        assert b"HTTP" not in answer


def a_key_that_everybody_may_read_is_refused():
    folder = gateway.folder()
    cert, key = make_certificate(folder, "open")
    _, other = make_certificate(folder, "other")

    def refused(key, said):
        done = subprocess.run([gateway.HOWDAH, "serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key],
                              capture_output=True, text=True, timeout=gateway.LONG_S,
                              env=dict(os.environ, HOWDAH_STORE=STORE))
        assert done.returncode == 6 and said in done.stderr, done

    os.chmod(key, 0o644)
    refused(key, "chmod o-rwx")
    refused(other, "is of no use")
    refused(os.path.join(folder, "missing"), "cannot read")


# ------------------------------------------------------------------------------ the service manager

def a_socket_that_was_passed_is_taken_and_the_manager_is_told():
    path = os.path.join(gateway.folder(), "notify")
    for name in (path, "@" + path):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, socket.create_server(("127.0.0.1", 0)) as passed:
            manager.bind(name.replace("@", "\0"))
            manager.settimeout(gateway.LONG_S)
            # The shell becomes the gateway: only so is LISTEN_PID its own.
            process = subprocess.Popen(
                ["sh", "-c", 'exec 3<&%d; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve --json' % passed.fileno(), gateway.HOWDAH],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, pass_fds=[passed.fileno()],
                env=dict(os.environ, HOWDAH_STORE=gateway.make_store("sqlite"), NOTIFY_SOCKET=name))
            try:
                assert manager.recv(1000) == b"READY=1"
                told = json.loads(process.stdout.readline())
                assert told["listening"] == "127.0.0.1:%d" % passed.getsockname()[1], told
                with socket.create_connection(passed.getsockname(), timeout=gateway.LONG_S) as s:
                    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert s.recv(100).startswith(b"HTTP/1.1 200")
                process.send_signal(signal.SIGHUP)
                assert re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", manager.recv(1000))
                assert manager.recv(1000) == b"READY=1"
                process.send_signal(signal.SIGTERM)
                assert manager.recv(1000) == b"STOPPING=1"
                assert process.wait(timeout=gateway.LONG_S) == 0
            finally:
                process.kill()
                process.wait()
                process.stdout.close()


def a_socket_of_somebody_else_is_left_alone():
    with Gateway(gateway.make_store("sqlite"), environment={"LISTEN_PID": "1", "LISTEN_FDS": "1"}) as g:
        assert g.get("/healthz").status == 200


# ------------------------------------------------------------------------------ secrets

def no_secret_is_in_a_log_a_command_line_or_an_error():
    token = add("canary", "read")
    wrong = "hwd_" + "canary" * 7 + "x"
    SECRETS.append(wrong)
    said = []
    with Gateway(STORE, "--access-log", "json") as g:
        for secret in (token, wrong):
            for path in ("/v1/subscriptions", "/v1/status", "/v1/nothing", "/v1/events/x", "/v1/events?limit=x"):
                answer = g.get(path, token=secret)
                said.append(answer.body.decode() + str(answer.headers))
            said.append(raw(g, "GET /v1/%%zz HTTP/1.1\nHost: localhost\nAuthorization: Bearer %s\n\n" % secret)[1])
        with open("/proc/%d/cmdline" % g.process.pid) as f:
            said.append(f.read())
        with open("/proc/%d/environ" % g.process.pid) as f:
            said.append(f.read())
    said.append(g.log())
    said.append(gateway.command("serve", "token", "ls", store=STORE))
    if KIND == "sqlite":
        for path in glob.glob(STORE[len("sqlite:"):] + "*"):
            with open(path, "rb") as f:
                said.append(f.read().decode("latin-1"))
    elif os.environ.get("HOWDAH_TEST_PG_LOG"):
        with open(os.environ["HOWDAH_TEST_PG_LOG"], errors="replace") as f:
            said.append(f.read())
    for text in said:
        for secret in SECRETS:
            assert secret not in text and secret[4:24] not in text, text[:1000]


CASES = [
    without_a_token_loopback_is_open_and_other_names_are_not,
    pages_of_others_are_refused_and_listed_ones_are_let_in,
    other_addresses_need_tokens_and_tls_and_the_error_says_what_to_do,
    a_token_can_be_asked_for_when_there_is_none,
    a_token_is_shown_once_and_listed_without_its_secret,
    in_a_terminal_there_is_a_table_and_a_sentence_about_the_secret,
    a_revoked_token_is_refused_within_two_seconds_also_in_the_middle_of_a_wait,
    a_hangup_has_tokens_read_again_at_once,
    what_is_no_token_is_refused,
    too_many_wrong_tokens_are_slowed_down_and_nobody_else,
    nobody_gets_out_of_a_scope,
    what_has_an_id_and_is_out_of_scope_is_not_there,
    tls_is_spoken_and_its_certificate_is_read_again,
    a_key_that_everybody_may_read_is_refused,
    a_socket_that_was_passed_is_taken_and_the_manager_is_told,
    a_socket_of_somebody_else_is_left_alone,
    no_secret_is_in_a_log_a_command_line_or_an_error,
]
if __name__ == "__main__":
    sys.exit(gateway.run(CASES))
