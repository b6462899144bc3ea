"""Sessions that stay open, several at once: what one of them waits for is seen, never guessed."""
import contextlib
import os
import subprocess
import time

from bus import FIELD, NULL, Refused

END = "\x1d"
PATIENCE_S = 60


class Session:
    """A psql with pipes.  start() does not wait for the answer, end() does."""

    def __init__(self, url):
        self.process = subprocess.Popen(
            ["psql", "-X", "-q", "-A", "-t", "-F", FIELD, "-P", "null=" + NULL, "-v", "VERBOSITY=verbose", "-d", url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=dict(os.environ, PGCLIENTENCODING="UTF8", PGOPTIONS="-c statement_timeout=60s"))
        self.pid = self.one("SELECT pg_backend_pid()")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def start(self, text):
        self.process.stdin.write("%s;\n\\echo %s\n" % (text.replace("{}.", "howdah."), END))
        self.process.stdin.flush()

    def end(self):
        """Rows, as tuples of texts."""
        lines = []
        while True:
            line = self.process.stdout.readline()
            assert line, "psql has ended: %s" % lines
            if line == END + "\n":
                break
            lines.append(line[:-1])
        if any(line.startswith(("ERROR:", "FATAL:")) for line in lines):
            raise Refused("\n".join(lines))
        return [tuple(None if field == NULL else field for field in line.split(FIELD)) for line in lines]

    def sql(self, text):
        self.start(text)
        return self.end()

    def one(self, text):
        rows = self.sql(text)
        assert len(rows) == 1 and len(rows[0]) == 1, rows
        return rows[0][0]


@contextlib.contextmanager
def sessions(url, n):
    """So many of them; they are gone afterwards, whatever they were about."""
    opened = []
    try:
        for _ in range(n):
            opened.append(Session(url))
        yield opened
    finally:
        for session in opened:
            session.close()


def until(is_so, what):
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "not within %d s: %s" % (PATIENCE_S, what)
        time.sleep(0.002)


def wait_for_wait(observer, session, by):
    """Returns when the session waits for a lock that the other one holds, or is in the queue for before it."""
    until(lambda: observer.one("SELECT '%s' = ANY (pg_blocking_pids(%s))" % (by.pid, session.pid)) == "t",
          "%s waits for %s" % (session.pid, by.pid))
