"""The SQL functions, in one session of psql: each step is a statement of its own."""
import base64
import os
import re
import subprocess

import scenario

RECORD, END = "\x1e", "\x1d"
PSQL = ["psql", "-X", "-q", "-A", "-t", "-R", RECORD, "-v", "VERBOSITY=verbose", "-f", "-", "-d"]

STATES = {"UH003": "CONFLICT", "UH004": "NOT_FOUND", "UH006": ["INVALID", "LIMIT"], "UH007": "LOST",
          "UH009": "ID_REUSED"}
# What has no function.
UNSAYABLE = {
    "bind": "bindings are made by the library and the command",
    "unbind": "bindings are made by the library and the command",
    "bindings": "bindings are made by the library and the command",
    "show_subscription": "the table subscriptions is read instead",
}
TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?\+00:00$")
SETTINGS = {"max_attempts": None, "backoff_jitter": None, "concurrency": None, "hold_key": None,
            "abandon_after": "ms", "backoff_initial": "ms", "backoff_max": "ms", "history": "ms"}
UNITS = {"ms": 1, "s": 1000, "m": 60000, "h": 3600000}


def literal(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return "'%d'" % value  # of whatever type the parameter is
    if isinstance(value, (dict, list)):
        value = scenario.compact(value)
    if not isinstance(value, str):
        raise scenario.Unsayable("SQL takes no value of another kind for a parameter")
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def milliseconds(duration):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", duration).groups()
    return int(number) * UNITS[unit]


def interval(duration):
    return "%s milliseconds" % milliseconds(duration)


def call(name, given, renamed=None, durations=()):
    """name(parameter => value ...)"""
    renamed = renamed or {}
    return "howdah.%s(%s)" % (name, ", ".join(
        "%s => %s" % (renamed.get(key, key), literal(interval(value) if key in durations else value))
        for key, value in given.items()))


def time_text(value):
    found = isinstance(value, str) and TIME.match(value)
    return "%s.%sZ" % (found.group(1), (found.group(2) or ".").lstrip(".").ljust(6, "0")) if found else value


def tidy(row):
    """A row as every other face says it: times in UTC, bytes in base64, headers an object."""
    row = {key: time_text(value) for key, value in row.items()}
    if row.get("bytes") is not None:
        row["data_base64"] = base64.b64encode(bytes.fromhex(row["bytes"][2:])).decode("ascii")
        for key in ("data", "data_text"):
            row.pop(key, None)
    elif row.get("content_type") is not None and "data" in row:
        row.pop("content_type")
    if "headers" in row and row["headers"] is None:
        row["headers"] = {}
    if row.pop("retracts", False):
        row["retraction"] = True
    return row


class Face:
    def __init__(self, store):
        self.process = subprocess.Popen(PSQL + [store], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="surrogateescape",
                                        env=dict(os.environ, PGCLIENTENCODING="UTF8", PGTZ="UTC"))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)

    def sql(self, statement):
        """What it prints, or a Refusal."""
        self.process.stdin.write("%s;\n\\echo %s\n" % (statement, END))
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line.endswith(END + "\n"):
                said.append(line[:-2])
                break
            said.append(line)
        else:
            raise AssertionError("psql has ended: %s" % "".join(said)[-1000:])
        text = "".join(said)
        found = re.match(r"psql:[^\n]*?ERROR:  (\w{5}): ([^\n]*)", text)
        if not found:
            return text.rstrip("\n")
        detail = re.search(r"^DETAIL:  (.*)", text, re.M)
        raise self.refusal(*found.groups(), detail.group(1) if detail else None)

    @staticmethod
    def refusal(state, message, detail):
        codes = STATES.get(state)
        if state.startswith("22"):  # the value was none of the parameter's type: no rule of ours was asked
            return scenario.Refusal(["INVALID", "LIMIT"], message)
        assert codes, (state, message, detail)
        members = {"field": None, "event_index": None}
        rule = message
        found = re.match(r"event (\d+): (.*)", rule)
        if found:
            members["event_index"] = int(found.group(1)) - 1
            rule = found.group(2)
        found = re.match(r"(\w+): ", rule)
        if found and state == "UH006":
            members["field"] = found.group(1)
        found = re.search(r"\d+$", detail or "")
        if found:
            members["actual_revision" if "revision" in message + detail else "actual_version"] = int(found.group(0))
        return scenario.Refusal(codes, message, **members)

    def rows(self, query):
        text = self.sql("SELECT row_to_json(x) FROM (%s) AS x" % query)
        return [tidy(scenario.parse(one)) for one in text.split(RECORD)] if text else []

    def row(self, query):
        return self.rows(query)[0]

    def done(self, function):
        self.sql("SELECT " + function)
        return {}

    def value(self, query):
        return self.row("SELECT %s AS value" % query)["value"]

    def run(self, do, arguments):
        if do in UNSAYABLE:
            raise scenario.Unsayable(UNSAYABLE[do])
        return getattr(self, "do_" + do)(dict(arguments))

    # ---- the log

    @staticmethod
    def payload(w):
        """data and bytes as the functions take them."""
        if "data_text" in w:
            w["data"] = w.pop("data_text")
        if "data_base64" in w:
            w["bytes"] = "\\x" + base64.b64decode(w.pop("data_base64")).hex()
            w["data"] = None
        return w

    def do_append(self, w):
        expect = w.pop("expect", None)
        if expect is not None:
            w["expected_version"] = {"any": -1, "none": 0, "exists": -2}.get(expect, expect)
        stream = w.setdefault("stream", None)
        w.setdefault("type", None)
        row = self.row("SELECT * FROM " + call("append", self.payload(w)))
        return dict(row, id=row["event_id"], stream=stream)

    def do_append_batch(self, w):
        body = "[" + ",".join(scenario.body_of(event) for event in w["events"]) + "]"
        rows = self.rows("SELECT * FROM howdah.append_batch(%s)" % literal(body))
        return {"events": [dict(row, stream=event["stream"]) for row, event in zip(rows, w["events"])]}

    def do_read(self, w):
        names = {"from": "first", "to": "last", "limit": "max_count"}
        if "stream" in w:
            if "since" in w:
                w["from"] = w.pop("since") + 1
            return {"events": self.rows("SELECT * FROM " + call("read_stream", w, names))}
        if "from" in w:
            w["since"] = w.pop("from") - 1
        for only, function in (("correlation", "by_correlation"), ("type", None)):
            if only in w and function is None:
                w["pattern"] = w.pop("type")  # a type is the pattern of itself
            elif only in w:
                w["correlation_id"] = w.pop("correlation")
                return {"events": self.rows("SELECT * FROM " + call(function, w, names))}
        return {"events": self.rows("SELECT * FROM " + call("read_all", w, names))}

    def do_get(self, w):
        found = self.rows("SELECT * FROM howdah.read_ids(ARRAY[%s]::uuid[])" % literal(w["id"]))
        if not found:
            raise scenario.Refusal("NOT_FOUND", "no row")
        return found[0]

    def do_trace(self, w):
        rows = self.rows("SELECT t.depth, e.* FROM howdah.causation_tree(%s) WITH ORDINALITY AS t(depth, event_id, i),"
                         " howdah.read_ids(ARRAY[t.event_id]) AS e ORDER BY t.i" % literal(w["id"]))
        if not rows:
            raise scenario.Refusal("NOT_FOUND", "no row")
        return {"events": rows}

    def do_correct(self, w):
        names = {"id": "event_id", "correction_id": "id", "expect_revision": "expected_revision"}
        stream = self.value("(SELECT e.stream FROM howdah.read_ids(ARRAY[%s]::uuid[]) AS e)" % literal(w["id"]))
        row = self.row("SELECT * FROM " + call("correct", self.payload(w), names))
        return dict(row, id=row["correction_id"], stream=stream)

    def do_as_of(self, w):
        known_at = w.get("known_at")
        final = bool(known_at) and self.row("SELECT * FROM howdah.knowledge(%s)" % literal(known_at))["final"]
        if w.pop("originals", False):
            w["view"] = "originals"
        elif w.pop("current", False) or known_at or "valid_at" in w:
            w["view"] = "as_of"
        if "header_name" in w:
            w["headers"] = {w.pop("header_name"): w.pop("header_value")}
        names = {"limit": "max_count", "order": "order_by", "versions": "family", "correlation": "correlation_id",
                 "causation": "causation_id"}
        return {"events": self.rows("SELECT * FROM " + call("query_events", w, names)), "final": final}

    def do_diff(self, w):
        rows = self.rows("SELECT * FROM " + call("diff", w, {"to": "known_to", "limit": "max_count"}))
        changes = []
        for row in rows:
            sides = {}
            for side in ("before", "after"):
                keys = [("id", "id"), ("sequence", "global_sequence"), ("revision", "revision"), ("data", "data")]
                one = {new: row[side + "_" + old] for old, new in keys}
                sides[side] = dict(one, stream=row["event_stream"]) if one["id"] else None
            changes.append(dict(sides, change=row["change"], family=row["family"]))
        return {"changes": changes}

    def do_purge(self, w):
        row = self.row("SELECT * FROM howdah.purge_events(ids => ARRAY[%s]::uuid[], families => true, reason => %s,"
                       " actor => %s)" % (literal(w["id"]), literal(w.get("reason")), literal(w.get("actor"))))
        return dict(row, left=row["remaining"])

    def do_head(self, _):
        return {"head": self.value("howdah.head()")}

    def do_snapshot_put(self, w):
        return {"removed": self.value(call("snapshot_store", self.payload(w)))}

    def do_snapshots(self, w):
        return {"snapshots": [dict(row, stream=row["of_stream"], version=row["of_version"]) for row in
                              self.rows("SELECT * FROM " + call("snapshot_list", w))]}

    def do_state(self, w):
        found = self.rows("SELECT * FROM " + call("snapshot_load", w))
        after = found[0]["of_version"] if found else 0
        events = self.rows("SELECT * FROM howdah.read_stream(%s, %s, %s)" % (
            literal(w["stream"]), after + 1, literal(w.get("version") or None)))
        return {"snapshot": dict(found[0], version=after) if found else None, "events": events}

    # ---- subscriptions

    def do_subscribe(self, w):
        if "start" in w:
            w["start"] = str(w["start"])
        return {"created": self.value(call("subscribe", w, {"name": "subscriber"}, ("retry_delay", "max_retry_delay")))}

    def do_fetch(self, w):
        rows = self.rows("SELECT * FROM " + call("fetch", w, {"name": "subscriber", "max": "max_count"}, ("lease",)))
        return {"token": rows[0]["token"] if rows else None, "attempt": rows[0]["attempt"] if rows else None,
                "events": rows}

    def held(self, query):
        if not self.value(query):
            raise scenario.Refusal("LOST", "false")
        return {}

    def do_ack(self, w):
        return self.held(call("ack", w, {"name": "subscriber"}))

    def do_nack(self, w):
        return self.held(call("nack", w, {"name": "subscriber"}, ("retry_after",)))

    def do_extend(self, w):
        return self.held(call("extend_lease", w, {"name": "subscriber"}, ("lease",)))

    def do_release(self, w):
        return self.held(call("release_batch", w, {"name": "subscriber"}))

    def do_pause(self, w):
        return self.done(call("subscription_pause", w, {"name": "subscriber"}))

    def do_resume(self, w):
        return self.done(call("subscription_resume", w, {"name": "subscriber"}))

    def do_reset(self, w):
        w["to"] = str(w["to"])
        return self.done(call("subscription_reset", w, {"name": "subscriber", "to": "start"}))

    def do_remove(self, w):
        return self.done(call("subscription_remove", w, {"name": "subscriber"}))

    def do_dead_letters(self, w):
        if "queue" not in w:
            raise scenario.Unsayable("dead letters of subscriptions are rows of the table dead_letters")
        return {"dead_letters": self.rows("SELECT * FROM " + call("job_dead_letter_states", w, {"all": "resolved"}))}

    def dead_letters_set(self, w, state):
        if "name" in w:
            raise scenario.Unsayable("dead letters of subscriptions are rows of the table dead_letters")
        ids = "ARRAY%s::bigint[]" % w["ids"] if "ids" in w else "NULL"
        count = self.value("howdah.job_dead_letters_set_state(%s, %s, '%s', %s)" % (
            ids, literal(w.get("queue")), state, literal(w.get("reason"))))
        if count is None:
            raise scenario.Refusal("NOT_FOUND", "NULL")
        return {"count": count}

    def do_redrive(self, w):
        return self.dead_letters_set(w, "redrive")

    def do_discard(self, w):
        return self.dead_letters_set(w, "discarded")

    # ---- queues

    def do_push(self, w):
        return {"id": self.value(call("push", self.payload(w), {}, ("delay",))), "queue": w["queue"]}

    def do_claim(self, w):
        return {"jobs": self.rows("SELECT * FROM " + call("claim", w, {"max": "n"}, ("lease",)))}

    def verdict(self, w, function, outcome, **more):
        self.held(call(function, w, **more))
        return {"outcome": outcome}

    def do_complete(self, w):
        return self.verdict(w, "complete", "completed")

    def do_fail(self, w):
        return self.verdict(w, "fail", "failed")

    def do_retry(self, w):
        self.held(call("retry", w, {}, ("after",)))
        state = self.do_job(w)["status"]
        return {"outcome": "failed" if state == "failed" else "retry"}

    def do_extend_job(self, w):
        return self.verdict(w, "extend", "extended", durations=("lease",))

    def do_release_job(self, w):
        return self.verdict(w, "release", "released")

    def do_job(self, w):
        rows = self.rows("SELECT j.*, j.job_id AS id, j.state AS status FROM howdah.job_states(%s) AS j"
                         % literal(w["id"]))
        if not rows:
            raise scenario.Refusal("NOT_FOUND", "no row")
        return rows[0]

    def job_changed(self, function, w, done):
        said = self.value(call(function, w))
        if said is None:
            raise scenario.Refusal("NOT_FOUND", "NULL")
        if said != done:
            raise scenario.Refusal("CONFLICT", said)
        return {}

    def do_cancel(self, w):
        return self.job_changed("job_cancel", w, "cancelled")

    def do_rerun(self, w):
        return self.job_changed("job_rerun", w, "ready")

    def do_queue_set(self, w):
        given = {"queue": w.pop("queue")}
        for key, value in w.items():
            if key not in SETTINGS:
                raise scenario.Unsayable("SQL has no parameter for a setting that does not exist")
            given[key + "_ms" if SETTINGS[key] else key] = milliseconds(value) if SETTINGS[key] else (
                value if key == "hold_key" else int(value))
        return self.done(call("queue_set", given))

    def set_paused(self, w, paused):
        if not self.rows("SELECT * FROM howdah.queue_states(%s)" % literal(w["queue"])):
            raise scenario.Unsayable("queue_set() makes a queue that does not exist")
        return self.done(call("queue_set", {"queue": w["queue"], "paused": paused}))

    def do_pause_queue(self, w):
        return self.set_paused(w, True)

    def do_resume_queue(self, w):
        return self.set_paused(w, False)

    def do_purge_queue(self, w):
        count = self.value(call("queue_purge", w))
        if count is None:
            raise scenario.Refusal("NOT_FOUND", "NULL")
        return {"count": count}

    def do_show_queue(self, w):
        rows = self.rows("SELECT s.*, s.name AS queue FROM howdah.queue_states(%s) AS s" % literal(w["queue"]))
        if not rows:
            raise scenario.Refusal("NOT_FOUND", "no row")
        row = rows[0]
        return dict(row, settings={key: row[key] for key in (
            "max_attempts", "backoff_jitter", "concurrency", "abandon_after_ms", "backoff_initial_ms",
            "backoff_max_ms", "history_ms", "hold_key")})

    def do_history(self, w):
        rows = self.rows("SELECT * FROM " + call("queue_history", w))
        return {"jobs": [dict(row, id=row["job_id"], status="failed" if row["failed"] else "completed")
                         for row in rows]}
