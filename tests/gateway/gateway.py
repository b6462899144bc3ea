"""A gateway of a test's own, and a small client.

  with Gateway(make_store("sqlite")) as gateway:
      answer = gateway.get("/v1/status")
      assert answer.status == 200 and answer.json["backend"] == "sqlite"

HOWDAH is the command, HOWDAH_TEST_PG the server (tools/with-pg).  What is started is ended, whatever happens.
"""
import atexit
import http.client
import json
import os
import select
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("meta", "sql"):
    sys.path.insert(0, os.path.join(ROOT, "tests", folder))
import tap  # noqa: E402  (its place is known only now)

HOWDAH = os.environ["HOWDAH"]
LONG_S = 60  # whatever is waited for

run = tap.run
Skip = tap.Skip


def folder():
    """A new folder that goes when the test ends."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = tempfile.mkdtemp(prefix="howdah-gateway-", dir=base)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def command(*words, store, text=None, code=0, environment=None):
    """Runs howdah; what it prints."""
    done = subprocess.run([HOWDAH, *words], input=text, capture_output=True, text=True, timeout=LONG_S * 2,
                          env=dict(os.environ, HOWDAH_STORE=store, **(environment or {})))
    assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def lines(*words, store, **more):
    """The same, as the JSON that each line is."""
    return [json.loads(line) for line in command(*words, store=store, **more).splitlines()]


def make_store(kind, name="gateway"):
    """A new store with the schema in it: its URL."""
    if kind == "sqlite":
        url = "sqlite:" + os.path.join(folder(), "bus.db")
        command("init", "--quiet", store=url)
        return url
    import bus
    made = bus.Bus(name)
    atexit.register(lambda: made)  # it lives as long as the test
    return made.url


def wait_until(happened, what="", seconds=LONG_S):
    """Its first true value; looks often, because nobody tells."""
    end = time.monotonic() + seconds
    while True:
        value = happened()
        if value:
            return value
        assert time.monotonic() < end, "waited in vain for %s" % (what or happened)
        time.sleep(0.01)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return "Answer(%d, %r)" % (self.status, self.body[:500])


class Gateway:
    """howdah serve on a free port; options are its own, token is sent with each request."""

    def __init__(self, store, *options, token=None, environment=None, listen="127.0.0.1:0", wait=True, pass_fds=(),
                 tls=None):
        self.store, self.token, self.tls = store, token, tls
        self.log_file = os.path.join(folder(), "stderr")
        words = [HOWDAH, "serve", "--json", *(["--listen", listen] if listen else []), *options]
        with open(self.log_file, "w", encoding="utf-8") as said:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said,
                                            text=True, pass_fds=pass_fds,
                                            env=dict(os.environ, HOWDAH_STORE=store, **(environment or {})))
        atexit.register(self.kill)
        self.address = self.url = None
        if wait:
            self.wait_for_start()

    def wait_for_start(self):
        ready, _, _ = select.select([self.process.stdout], [], [], LONG_S)
        line = self.process.stdout.readline() if ready else ""
        assert line, "the gateway did not start: %s" % self.log()
        told = json.loads(line)
        self.address, self.url = told["listening"], told["url"]
        host, _, port = self.address.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)

    # ---- its end

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, code=0):
        """In order: SIGTERM, and the exit code is looked at."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        ended = self.process.wait(timeout=LONG_S)
        self.process.stdout.close()
        assert code is None or ended == code, "exit code %d: %s" % (ended, self.log())

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout and not self.process.stdout.closed:
            self.process.stdout.close()

    def log(self):
        """All that it has said on stderr."""
        with open(self.log_file, encoding="utf-8", errors="replace") as said:
            return said.read()

    # ---- requests

    def connect(self, timeout=LONG_S):
        if self.tls:
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, token=None, connection=None):
        """body: bytes as they are, or what becomes JSON.  token: False for none."""
        own = connection or self.connect()
        sent = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        token = self.token if token is None else token
        if token:
            sent.setdefault("Authorization", "Bearer " + token)
        try:
            own.request(method, path, body=body, headers=sent)
            got = own.getresponse()
            return Answer(got.status, got.headers, got.read())
        finally:
            if not connection:
                own.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.ask("POST", path, {} if body is None else body, **more)

    def put(self, path, body=None, **more):
        return self.ask("PUT", path, {} if body is None else body, **more)

    def delete(self, path, **more):
        return self.ask("DELETE", path, **more)


def trusting(certificate):
    """A TLS context that knows this one certificate."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    return context
