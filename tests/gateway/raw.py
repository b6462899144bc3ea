"""Bytes to a gateway and back, without the manners of a client; and what a problem looks like."""
import json
import os
import select
import selectors
import socket
import time

import gateway

PROBLEM_NEEDED = {"type": str, "title": str, "status": int, "detail": str, "code": str, "retryable": bool,
                  "outcome_unknown": bool, "request_id": str}
PROBLEM_MORE = {"field": str, "advice": str, "actual_version": int, "actual_revision": int, "event_index": int}


def check_problem(answer, *statuses):
    """Its document, with all members that are documented, and none that is not."""
    assert answer.status in statuses, (statuses, answer)
    assert answer.headers.get("content-type") == "application/problem+json", (answer.headers, answer)
    said = json.loads(answer.body)
    for name, kind in PROBLEM_NEEDED.items():
        assert type(said[name]) is kind, (name, said)
    for name, value in said.items():
        assert type(value) is {**PROBLEM_NEEDED, **PROBLEM_MORE}[name], (name, said)
    assert said["status"] == answer.status and said["type"] == "urn:howdah:problem:" + said["code"].lower().replace(
        "_", "-"), said
    if answer.status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1, answer.headers
    return said


class Closed(Exception):
    """The gateway has ended the connection; what it had sent before is in its text."""


class Raw:
    def __init__(self, g, seconds=gateway.LONG_S):
        self.socket = socket.create_connection((g.host, g.port), timeout=seconds)
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)
        return self

    def half_close(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the gateway was first

    def hang_up(self):
        """Without waiting for anything: what is under way is dropped."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def more(self):
        try:
            part = self.socket.recv(65536)
        except ConnectionError:
            part = b""
        if not part:
            raise Closed(repr(self.got))
        self.got += part

    def until(self, mark):
        """All up to the mark, and with it."""
        while mark not in self.got:
            self.more()
        at = self.got.index(mark) + len(mark)
        said, self.got = self.got[:at], self.got[at:]
        return said

    def exactly(self, n):
        while len(self.got) < n:
            self.more()
        said, self.got = self.got[:n], self.got[n:]
        return said

    def head(self):
        first, *rest = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
        headers = {}
        for line in rest:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(first.split(" ")[1]), headers

    def answer(self, to="GET"):
        """The next one, whole; what is only on the way is passed over."""
        status, headers = self.head()
        while status == 100:
            status, headers = self.head()
        if to == "HEAD" or status in (204, 304):
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = b"".join(self.chunks())
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            body = self.rest()
        return gateway.Answer(status, headers, body)

    def chunk(self):
        n = int(self.until(b"\r\n").split(b";")[0], 16)
        data = self.exactly(n)
        self.until(b"\r\n")
        return data

    def chunks(self):
        while True:
            data = self.chunk()
            if not data:
                return
            yield data

    def rest(self):
        """Until it is closed."""
        try:
            while True:
                self.more()
        except Closed:
            said, self.got = self.got, b""
            return said

    def is_closed(self, seconds=gateway.LONG_S):
        """Whether the gateway ends the connection, and says nothing more before it does."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        try:
            return self.socket.recv(65536) == b""
        except ConnectionError:
            return True


def post(path, body, *headers, host="localhost"):
    """The bytes of a request with JSON."""
    lines = ["POST %s HTTP/1.1" % path, "Host: " + host, "Content-Type: application/json",
             "Content-Length: %d" % len(body), *headers, "", ""]
    return "\r\n".join(lines).encode() + (body if isinstance(body, bytes) else body.encode())


def get(path, *headers, host="localhost", method="GET"):
    return "\r\n".join(["%s %s HTTP/1.1" % (method, path), "Host: " + host, *headers, "", ""]).encode()


def resident_mib(process):
    with open("/proc/%d/status" % process.pid, encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def sockets_of(process):
    """How many it has open."""
    folder, n = "/proc/%d/fd" % process.pid, 0
    for name in os.listdir(folder):
        try:
            n += os.readlink(os.path.join(folder, name)).startswith("socket:")
        except OSError:
            pass
    return n


class Crowd:
    """Many connections at once, each with the same request: one thread looks after all of them."""

    def __init__(self, g, n, request):
        self.got = {}
        self.selector = selectors.DefaultSelector()
        for _ in range(n):
            one = socket.create_connection((g.host, g.port), timeout=gateway.LONG_S)
            one.sendall(request)
            one.setblocking(False)
            self.got[one] = b""
            self.selector.register(one, selectors.EVENT_READ)

    def wait(self, mark, seconds=gateway.LONG_S):
        """Until all have been sent the mark; the seconds that took."""
        begun = time.monotonic()
        left = {one for one, got in self.got.items() if mark not in got}
        while left:
            assert time.monotonic() - begun < seconds, "%d of %d wait for %r" % (len(left), len(self.got), mark)
            for key, _ in self.selector.select(1):
                part = key.fileobj.recv(65536)
                assert part, "one of them was ended: %r" % self.got[key.fileobj]
                self.got[key.fileobj] += part
                if mark in self.got[key.fileobj]:
                    left.discard(key.fileobj)
        return time.monotonic() - begun

    def close(self):
        self.selector.close()
        for one in self.got:
            one.close()
