"""A database of its own with a bus in it, and SQL through psql.

HOWDAH is the command, HOWDAH_TEST_PG the server (tools/with-pg), as superuser.
"""
import atexit
import os
import re
import subprocess
import sys
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "meta"))
import tap  # noqa: E402  (its place is known only now)

HOWDAH = os.environ.get("HOWDAH", "howdah")
SERVER = os.environ.get("HOWDAH_TEST_PG")
FIELD, RECORD = "\x1f", "\x1e"
NULL = "\x1a"

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


def run_psql(url, sql, *options):
    return subprocess.run(["psql", "-X", "-q", "-A", "-t", "-F", FIELD, "-R", RECORD, "-P",
                           "null=" + NULL, "-v", "VERBOSITY=verbose", *options, "-d", url, "-f", "-"],
                          input=sql, capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, PGCLIENTENCODING="UTF8"))


def psql(url, sql, notices=False):
    """Rows as tuples of texts (None for NULL) of the last query; what the server says with notices."""
    done = run_psql(url, sql, "-v", "ON_ERROR_STOP=1")
    if done.returncode != 0:
        raise Refused(done.stderr)
    if notices:
        return done.stderr
    # psql ends each result with a newline.
    text = done.stdout[:-1] if done.stdout.endswith("\n") else done.stdout
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
