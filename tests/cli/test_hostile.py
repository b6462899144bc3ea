#!/usr/bin/env python3
"""What others wrote does not steer a terminal: hostile text in everything that they may write, and every command
that prints it, in a real terminal.

  test_hostile.py sqlite|postgresql

The rows of commands are held against the command's own list: one without a row fails.
"""
import fcntl
import json
import os
import pty
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "meta"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sql"))
import tap  # noqa: E402  (its place is known only now)

HOWDAH = os.environ["HOWDAH"]
STORE = sys.argv[1]
SEED = 20
QUEUE, NAME, STREAM = "q\u202eueue", "pro\u2067jection", "or\u200fder-1"

# Everything that must not arrive, each in a sequence that a terminal would obey.
CONTROLS = ["\x1b[31m", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x9d0;t\x9c", "\x90q\x9c", "\x7f", "\x08\x08", "\r",
            "\t", "\x0b\x0c", "\x85", "\x80", "\x9f", "\x0e", "\x00"]
TURNS = ["\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068",
         "\u2069", "\u200b", "\u2028", "\ufeff"]
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
OURS = re.compile(rb"\x1b\[(?:0|1|2|31|32|33|36)m|\r\x1b\[K")
dice = random.Random(SEED)


def hostile(controls=True, nul=False):
    """A text with some of it; without NUL, which no store takes."""
    parts = TURNS + [c for c in CONTROLS if controls and (nul or c != "\x00")]
    return "".join(word + part for word, part in zip("ab\u00e9d\u6f22fgh" * 9, dice.sample(parts, len(parts))))


# ------------------------------------------------------------------------------ running

def environment(**more):
    return dict(os.environ, TERM="xterm", **more)


def pipe(*words, text=None, code=0):
    done = subprocess.run([HOWDAH, *words], input=text, capture_output=True, timeout=60, text=True, errors="replace",
                          env=environment(LC_ALL="C.UTF-8"))
    assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def in_terminal(words, locale, text=None):
    """The bytes that a terminal gets of stdout and stderr; the line discipline adds nothing."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    process = subprocess.Popen([HOWDAH, *words], stdin=subprocess.PIPE if text else subprocess.DEVNULL, stdout=slave,
                               stderr=slave, env=environment(LC_ALL=locale))
    os.close(slave)
    if text:
        process.stdin.write(text.encode())
        process.stdin.close()
    got = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:  # the last one has closed it
            more = b""
        if not more:
            break
        got += more
    os.close(master)
    process.wait(timeout=60)
    return got


def judge(words, locale, got):
    bare = OURS.sub(b"", got)
    try:
        text = bare.decode("utf-8" if locale.endswith("UTF-8") else "ascii")
    except UnicodeDecodeError as error:
        raise AssertionError("%s: %s in %r" % (words, error, bare[max(0, error.start - 40):error.end + 20]))
    found = FORBIDDEN.search(text)
    assert not found, "%s: %r got through: %r" % (words, found.group(), text[max(0, found.start() - 60):found.end() + 20])
    return text


# ------------------------------------------------------------------------------ the stores

class Sqlite:
    # Every argument of a path is bytes that somebody chose.
    def __init__(self, folder):
        self.file = os.path.join(folder, "a\u202eb.db")
        os.environ["HOWDAH_STORE"] = "sqlite:" + self.file

    def sql(self, text, *values):
        with sqlite3.connect(self.file) as db:
            rows = db.execute(text, values).fetchall()
        db.close()
        return rows

    def free_texts(self):
        """(table, column) of what may be any text."""
        return [(t, c) for (t,) in self.sql("SELECT name FROM sqlite_master WHERE type = 'table'")
                for (_, c, *_) in self.sql("PRAGMA table_info(%s)" % t) if c in FREE]

    def overwrite(self, table, column, text):
        self.sql("UPDATE %s SET %s = ?" % (table, column), text)

    def hold(self):
        pass

    def release(self):
        pass


class Postgresql:
    def __init__(self, _):
        import bus
        from session import Session
        self.bus = bus.Bus("hostile", init=False)
        os.environ["HOWDAH_STORE"] = self.bus.url
        self.open_session = lambda: Session(self.bus.url)
        self.literal = bus.literal

    def free_texts(self):
        names = ", ".join("'%s'" % c for c in sorted(FREE))
        return self.bus.sql("SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
                            "WHERE c.relnamespace = 'howdah'::regnamespace AND c.relkind = 'r' AND a.attname IN (%s) "
                            "AND a.atttypid = 'text'::regtype" % names)

    def overwrite(self, table, column, text):
        self.bus.sql("UPDATE {}.%s SET %s = %s" % (table, column, self.literal(text)))

    def hold(self):
        """Open transactions that keep holes open: their names are what somebody chose."""
        self.holder = self.open_session()
        gid = "gid" + hostile()[:60]
        self.holder.sql("BEGIN; SELECT {}.append('held', 't', '{}'); PREPARE TRANSACTION %s" % self.literal(gid))
        self.holder.sql("SET application_name = 'app\u202e'; BEGIN; SELECT {}.append('held2', 't', '{}')")
        pipe("append", "after", "t", "{}")
        self.gid = gid

    def release(self):
        self.holder.sql("ROLLBACK")
        self.holder.sql("ROLLBACK PREPARED %s" % self.literal(self.gid))
        self.holder.close()


# Columns of free text, in whatever table: no rule of a name applies to what is written there.
FREE = {"error", "error_message", "reason", "event_reason", "actor", "owner", "worker", "resolved_by", "resolution",
        "result", "correlation_id"}


def fill(store, folder):
    """One of everything, each with hostile text where the rules of the faces allow it; then the rest by SQL."""
    pipe("init", "--quiet")
    text = json.dumps({"a": hostile(nul=False), "k" + hostile(): 1}, ensure_ascii=False)
    # In JSON the controls below the space are escapes already, DEL and C1 are not; a tab may stand between tokens.
    store.id = json.loads(pipe("append", STREAM, "order.created", text.replace(": ", ":\t"), "--header",
                               "h" + TURNS[3] + "=" + hostile(), "--actor", "eve" + TURNS[7],
                               "--correlation", "c" + TURNS[5]))["id"]
    pipe("append", STREAM, "order.paid", json.dumps(hostile(), ensure_ascii=False), "--causation", store.id)
    pipe("append", "--correct", store.id, "--reason", "why" + TURNS[8], text)
    pipe("append", "bytes", "b.c", hostile(), "--bytes", "text/plain")
    pipe("append", "gone", "b.d", text)
    pipe("purge", "--stream", "gone", "--reason", "r" + TURNS[9], "--actor", "a" + TURNS[2], "--yes")
    pipe("snapshot", "put", STREAM, "1", text)
    pipe("subscribe", NAME, "--pattern", "order.*", "--max-retries", "0", "--until-caught-up", "--exec",
         "printf '\\033[31mno\\302\\233\\233\\342\\200\\256\\n' >&2; exit 1")
    pipe("push", QUEUE, text, "--key", "k" + TURNS[1], "--dedup", "d" + TURNS[2], "--header", "h=" + hostile())
    store.job = json.loads(pipe("push", QUEUE, text, "--max-attempts", "1"))["id"]
    pipe("bind", QUEUE, "order.*")
    pipe("work", QUEUE, "--max", "2", "--max-attempts", "1", "--exec", "printf 'x\\302\\233\\033[2J' >&2; exit 1")
    pipe("push", QUEUE, text, "--delay", "1h")
    for table, column in store.free_texts():
        store.overwrite(table, column, hostile())


# ------------------------------------------------------------------------------ the commands

def rows(store, folder):
    """Of each command, and of each word that one knows: the arguments, or (arguments, stdin)."""
    bad = hostile()
    batch = "\n".join(json.dumps({"stream": "s", "type": bad, "data": bad}, ensure_ascii=False) for _ in range(2)) + "\n"
    table = "t" + "\u202e"
    return {
        "init": [[]],
        "migrate status": [[]], "migrate up": [[]], "migrate print": [[]],
        "import": [["--table", table + bad.replace("\x00", "")], ["--table", "nothing", "--map", "x" + bad]],
        "append": [[STREAM, "t", "{}"], [bad, bad, bad], [STREAM, bad], ["--expct" + bad], [STREAM, "t", "{}", "--expect", bad],
                   (["--batch"], batch), (["--batch", "--dry-run"], batch), [STREAM, "t", "@" + bad],
                   ["--correct", store.id, "--reason", "again", '{"c":"\u009b"}']],
        "read": [[], ["--stream", STREAM, "--last"], ["--id", store.id], ["--versions", store.id], ["--streams"], ["--stats"],
                 ["--current"], ["--known-at", bad], ["--pattern", bad], ["--type", bad], ["--stream", bad],
                 ["--header", "h" + TURNS[3] + "=x"], ["--count"]],
        "diff": [["--known-at", "2020-01-01T00:00:00Z"]],
        "follow": [["--since", "0", "--max", "5", "--timeout", "5s"]],
        "trace": [[store.id], [bad]],
        "snapshot ls": [[]], "snapshot put": [[STREAM, "1", '"\u009b\u202e"'], [STREAM, "1", bad]],
        "snapshot get": [[STREAM], [bad]], "snapshot rm": [["nothing", "--yes"], [bad, "--yes"]],
        "snapshot state": [[STREAM]],
        "purge": [["--stream", bad, "--reason", bad, "--yes"], ["--stream", "gone", "--reason", "r", "--yes"]],
        "purge ls": [[]],
        "subscribe": [["other" + TURNS[6], "--until-caught-up"], [NAME, "--max", "1", "--timeout", "5s"], [bad],
                      ["again", "--max-retries", "0", "--until-caught-up", "--exec", "exit 1"]],
        "sub ls": [[]], "sub show": [[NAME], [bad]], "sub reset": [[NAME, "--to", "start"], [NAME, "--to", bad]],
        "sub pause": [[NAME, "--reason", "r\u202e"], [NAME, "--reason", bad]], "sub resume": [[NAME]],
        "sub rm": [["nothing\u202e"], [bad]], "sub unshare": [[NAME], [bad]], "sub wait": [[NAME, "--timeout", "1ms"]],
        "sub skips": [[], [NAME]], "sub resolve": [["99", "--reason", bad], [bad]],
        "dlq ls": [[], ["--queue", QUEUE], ["--all-states"], ["--sub", bad]],
        "dlq show": [["1"], ["2"], ["3"], ["4"]], "dlq redrive": [["99"], [bad]], "dlq discard": [["98", "--reason", bad]],
        "push": [[QUEUE, "{}"], [bad, "{}"], [QUEUE, bad], (["--batch", QUEUE], bad + "\n")],
        "work": [[QUEUE, "--max", "1", "--until-empty", "--exec", "exit 1"], [bad, "--exec", "true"]],
        "queue ls": [[]], "queue show": [[QUEUE], [bad]], "queue set": [[QUEUE, "max_attempts=" + bad], [QUEUE, bad]],
        "queue pause": [[QUEUE]], "queue resume": [[QUEUE]], "queue purge": [["nothing\u202e", "--yes"]],
        "job show": [[str(store.job)], ["1"], ["2"], ["3"], ["4"], [bad]], "job retry": [[str(store.job)], [bad]],
        "job cancel": [["3", "--reason", bad]],
        "log": [[QUEUE], [QUEUE, "--payload"], [bad], [QUEUE, "--status", bad]],
        "bind": [[QUEUE, "order.>"], [QUEUE, bad], [bad, "x"]], "unbind": [[QUEUE, "no.such"], [bad, bad]], "bindings": [[]],
        "serve token": [["add", "eve\u202e", "--may", "read", "--pattern", "order.*", "--stream", "or\u200fder*", "--queue", QUEUE],
                        ["ls"], ["add", bad, "--may", bad], ["add", "x", "--may", "read", "--stream", bad], ["rm", bad],
                        ["rm", "none\u202e"], ["rm", "eve\u202e"], [bad]],
        "webhook set": [["hook\u202e", "--url", "https://x.example/", "--header", "A=b"], [bad, "--url", bad],
                        ["hook2", "--url", "https://x.example/" + bad], ["hook3", "--url", "https://x.example/", "--pattern", bad]],
        "webhook ls": [[]], "webhook show": [["hook\u202e"], ["none\u202e"], [bad]],
        "webhook disable": [["hook\u202e", "--reason", "r\u202e"], [bad, "--reason", bad]], "webhook enable": [["hook\u202e"], [bad]],
        "webhook rm": [[bad], ["none\u202e"]],
        "status": [[]], "doctor": [[], ["--schema", "none" + TURNS[4]], ["--store", "sqlite:/none" + bad],
                                   ["--store", "postgres://u@[" + bad + "]/x"]],
        "verify": [[]],
        "metrics": [[], ["--format", "openmetrics"], ["--format", bad], ["--output", "/none/" + bad]],
        "bench append": [["--seconds", bad]], "bench append-batch": [["--store", bad]], "bench read": [["--events", bad]],
        "bench deliver": [[bad]], "bench latency": [["--rate", bad]], "bench fanout": [["--none" + bad]],
        "bench queue": [["--jobs", bad]], "bench asof": [["--of", bad]],
        "bench http": [["--of", bad]], "bench contend": [["--writers", bad]], "bench group": [["--through", bad]],
        "settings": [[], ["--set", bad + "=1"], ["--set", "read_batch=" + bad], ["--set", "schema=s\u202e"]],
        "completion bash": [[]], "completion zsh": [[]], "completion fish": [[]],
        "help": [[], ["read"], [bad]],
    }


def known():
    """Every command with each of its words, as the command tells a shell."""
    listed = []
    for name, words in re.findall(r"^    (\w+)\) options='[^']*'; words='([^']*)' ;;$", pipe("completion", "bash"), re.M):
        if name == "help" or not words:
            listed.append(name)
        else:
            listed += ["%s %s" % (name, word) for word in words.split()] + (["purge"] if name == "purge" else [])
    return listed


def without_nul(words):
    return [word.replace("\x00", "") for word in words]


def try_all(store, folder, json_wanted):
    for name, variants in rows(store, folder).items():
        for number, variant in enumerate(variants):
            arguments, text = variant if isinstance(variant, tuple) else (variant, None)
            words = name.split() + without_nul(arguments) + (["--json"] if json_wanted else [])
            locale = "C" if number == 0 and json_wanted else "C.UTF-8"
            shown = judge(words, locale, in_terminal(words, locale, text))
            assert shown or name in SILENT, "%s shows nothing" % words
            if json_wanted and words[0] == "read" and shown.startswith("{"):
                equal_to_a_pipe(words, shown)


# What has nothing to say may be silent.
SILENT = {"sub skips", "read", "subscribe", "work", "sub wait", "snapshot rm", "log", "bindings", "dlq ls", "trace"}


def equal_to_a_pipe(words, shown):
    wanted = [json.loads(line) for line in pipe(*words).split("\n") if line]
    got = [json.loads(line) for line in shown.split("\n") if line.startswith("{")]
    assert got == wanted, (words, got, wanted)


# ------------------------------------------------------------------------------ the tests

folder = tempfile.mkdtemp(prefix="howdah-hostile.")
store = (Sqlite if STORE == "sqlite" else Postgresql)(folder)
os.chdir(folder)


def every_command_has_a_row():
    fill(store, folder)
    assert sorted(known()) == sorted(rows(store, folder)), set(known()) ^ set(rows(store, folder))


def no_command_lets_hostile_text_steer_a_terminal():
    store.hold()
    try:
        try_all(store, folder, False)
    finally:
        store.release()


def json_in_a_terminal_is_as_harmless_and_equal_to_that_of_a_pipe():
    try_all(store, folder, True)


def names_of_holders_are_shown_harmless():
    store.hold()
    try:
        shown = judge(["status"], "C.UTF-8", in_terminal(["status"], "C.UTF-8"))
        assert "gid" in shown, shown
        judge(["status", "--json"], "C.UTF-8", in_terminal(["status", "--json"], "C.UTF-8"))
    finally:
        store.release()


def a_pipe_gets_every_byte_as_it_is():
    line = pipe("read", "--stream", STREAM, "--limit", "1")
    assert "\x9b31m" in line and "\u202e" in line, line
    assert "\x9b" in json.loads(line)["data"]["a"]


try:
    CASES = [every_command_has_a_row, no_command_lets_hostile_text_steer_a_terminal,
             json_in_a_terminal_is_as_harmless_and_equal_to_that_of_a_pipe, a_pipe_gets_every_byte_as_it_is]
    if STORE != "sqlite":  # where nobody holds a number
        CASES.append(names_of_holders_are_shown_harmless)
    code = tap.run(CASES)
finally:
    os.chdir("/")
    shutil.rmtree(folder)
sys.exit(code)
