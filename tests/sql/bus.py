"""A database of its own with a bus in it, and SQL through psql.

HOWDAH is the command, HOWDAH_TEST_PG the server (tools/with-pg), as superuser.
"""
import atexit
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "meta"))
import tap  # noqa: E402  (its place is known only now)

HOWDAH = os.environ.get("HOWDAH", "howdah")
SERVER = os.environ.get("HOWDAH_TEST_PG")
FIELD, RECORD = "\x1f", "\x1e"
NULL = "\x1a"
END = "\x1d"

run = tap.run
Skip = tap.Skip


class Refused(Exception):
    """An error of the server."""

    def __init__(self, text):
        super().__init__(text)
        found = re.search(r"(?:ERROR|FATAL):  (\w{5}): (.*)", text)
        self.state, self.message = found.groups() if found else ("", text)
        found = re.search(r"^DETAIL:  (.*)", text, re.M)
        self.detail = found.group(1) if found else None


def url_of(database, **more):
    """The server's URL with another database, and perhaps another user."""
    parts = urllib.parse.urlsplit(SERVER)
    query = dict(urllib.parse.parse_qsl(parts.query))
    query.update(more)
    return "postgres://%s/%s?%s" % (parts.netloc, database, urllib.parse.urlencode(query, safe="/"))


def command(*words, url, text=None, **environment):
    """Runs howdah; its output, or an AssertionError."""
    done = subprocess.run([HOWDAH, "--store", url, *words], capture_output=True, text=True,
                          input=text, timeout=120, env=dict(os.environ, **environment))
    assert done.returncode == 0, "howdah %s: %s" % (" ".join(words), done.stderr)
    return done.stdout


PSQL = ["psql", "-X", "-q", "-A", "-t", "-F", FIELD, "-R", RECORD, "-P", "null=" + NULL, "-v", "VERBOSITY=verbose"]


def run_psql(url, sql, *options):
    return subprocess.run([*PSQL, *options, "-d", url, "-f", "-"], input=sql, capture_output=True, text=True,
                          timeout=300, env=dict(os.environ, PGCLIENTENCODING="UTF8"))


class Reused:
    """A psql that stays: starting one, and a session for it, takes far longer than most statements.

    Each script finds the session as if it were a new one; one that leaves a transaction open, or fails, was its last.
    """
    all = {}

    def __init__(self, url):
        self.url = url
        self.said = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([*PSQL, "-v", "ON_ERROR_STOP=1", "-d", url], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.said,
                                        env=dict(os.environ, PGCLIENTENCODING="UTF8"))

    def run(self, sql):
        """What it prints; None when it has ended before its end."""
        try:
            self.process.stdin.write("DISCARD ALL;\n%s\n;\n\\echo %s\n" % (sql, END))
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        lines = []
        for line in self.process.stdout:
            if line == END + "\n":
                return "".join(lines)
            lines.append(line)
        return None

    def end(self):
        """What the server has said of the last script."""
        Reused.all.pop(self.url, None)
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.said.seek(0)
        with self.said as said:
            return said.read()


def end_reused():
    for reused in list(Reused.all.values()):
        reused.end()


atexit.register(end_reused)


def run_reused(url, sql):
    """As run_psql() with ON_ERROR_STOP, where nobody listens to notices."""
    kept = url in Reused.all
    reused = Reused.all.setdefault(url, None) or Reused(url)
    Reused.all[url] = reused
    text = reused.run(sql)
    if text is None:
        said = reused.end()
        if kept and not re.search(r"^psql:|ERROR:", said, re.M):
            return run_reused(url, sql)  # its server was restarted, or its database made anew
        raise Refused(said)
    if re.search(r"\bBEGIN\b|START TRANSACTION", sql, re.I):
        reused.end()
    return text


def psql(url, sql, notices=False):
    """Rows as tuples of texts (None for NULL) of the last query; what the server says with notices."""
    if notices or "pg_stat_xact_" in sql:  # those of a session count what it did before, too
        done = run_psql(url, sql, "-v", "ON_ERROR_STOP=1")
        if done.returncode != 0:
            raise Refused(done.stderr)
        if notices:
            return done.stderr
        text = done.stdout
    else:
        text = run_reused(url, sql)
    # psql ends each result with a newline.
    text = text[:-1] if text.endswith("\n") else text
    return [tuple(None if field == NULL else field for field in record.split(FIELD))
            for record in text.split(RECORD)] if text else []


def literal(text):
    if text is None:
        return "NULL"
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class Bus:
    """A throwaway database; schemas and logins are its own, too."""

    def __init__(self, name, init=True, schema="howdah"):
        if not SERVER:
            sys.exit("HOWDAH_TEST_PG is not set: run inside tools/with-pg")
        self.database = "sql_%s_%d" % (name, os.getpid())
        self.url = url_of(self.database)
        self.schema = schema
        psql(SERVER, "CREATE DATABASE %s" % self.database)
        atexit.register(self.drop)
        if init:
            command("init", "--quiet", url=self.url, HOWDAH_SCHEMA=schema)

    def drop(self):
        psql(SERVER, "DROP DATABASE IF EXISTS %s WITH (FORCE)" % self.database)

    def named(self, text):
        """{}. stands for the schema."""
        return text.replace("{}.", self.schema + ".")

    def sql(self, text):
        """Rows of the last query."""
        return psql(self.url, self.named(text))

    def one(self, text):
        """The only value."""
        rows = self.sql(text)
        assert len(rows) == 1 and len(rows[0]) == 1, rows
        return rows[0][0]

    def column(self, text):
        return [row[0] for row in self.sql(text)]

    def refuses_all(self, *expectations):
        """Each is (statement, SQLSTATE, message): it fails so; the message is a regular expression.

        The statements run in one session, each in a transaction of its own.  Returns the errors.
        """
        script = "".join("\\warn %s%d\n%s;\n" % (RECORD, i, self.named(statement))
                         for i, (statement, _, _) in enumerate(expectations))
        said = run_psql(self.url, script).stderr.split(RECORD)[1:]
        assert len(said) == len(expectations), said
        errors = []
        for (statement, state, message), text in zip(expectations, said):
            error = Refused(text)
            assert error.state, "not refused: %s" % statement
            assert error.state == state, "%s instead of %s: %s" % (error.state, state, error)
            assert not message or re.search(message, error.message), \
                "%s does not say %s: %s" % (statement, message, error.message)
            errors.append(error)
        return errors

    def refuses(self, text, state, message=None):
        return self.refuses_all((text, state, message))[0]
