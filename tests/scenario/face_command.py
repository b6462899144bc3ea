"""The command: each step is a process."""
import os
import re
import shlex
import subprocess
import sys

import gateway
import scenario

# Exit code: what it can mean.  MISUSE is what the command itself does not understand.
CODES = {2: ["INVALID", "MISUSE"], 3: ["CONFLICT", "ID_REUSED"], 4: ["NOT_FOUND"], 6: ["INVALID", "LIMIT"],
         7: ["LOST"]}
HANDLER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "handler.py")
TOKENS = "the command runs handlers: it hands no token out"
UNSAYABLE = {do: TOKENS for do in ("fetch", "ack", "nack", "extend", "release", "claim", "complete", "fail", "retry",
                                   "extend_job", "release_job")}
OPTIONS = {"id": "id", "expect": "expect", "correlation_id": "correlation", "causation_id": "causation",
           "actor": "actor", "valid_time": "valid-time", "schema_version": "schema-version"}


def options(w, names=None):
    """--name=value of each argument; a flag that is true stands alone."""
    words = []
    for key, value in w.items():
        option = "--" + (names or {}).get(key, key).replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not False:
            words.append("%s=%s" % (option, value))
    return words


def header_words(headers):
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise scenario.Unsayable("the command's headers are texts")
    return ["--header=%s=%s" % pair for pair in headers.items()]


class Face:
    def __init__(self, store):
        self.store = store

    def close(self):
        pass

    def command(self, *words, text=None):
        """The lines that it prints, or a Refusal."""
        if any("\0" in word for word in words):
            raise scenario.Unsayable("no argument of a command holds a NUL")
        done = subprocess.run([gateway.HOWDAH, *words], input=(text or "").encode("utf-8"), capture_output=True,
                              timeout=120, env=dict(os.environ, HOWDAH_STORE=self.store))
        if done.returncode != 0:
            raise self.refusal(done.returncode, done.stderr.decode("utf-8", "replace"))
        return scenario.lines(done.stdout.decode("utf-8"))

    @staticmethod
    def refusal(code, said):
        message = re.sub(r"^howdah: ", "", said.split("\n", 1)[0])
        members = {"field": None}
        rule = message
        found = re.match(r"line (\d+): (.*)", rule)
        if found:
            members["event_index"] = int(found.group(1)) - 1
            rule = found.group(2)
        found = re.match(r"([\w-]+): ", rule)
        if found:
            members["field"] = found.group(1).replace("-", "_")
        found = re.search(r"but is at (\d+)", message)
        if found:
            members["actual_version"] = int(found.group(1))
        found = re.search(r"revision (\d+) is the newest|is at revision (\d+)|newest revision is (\d+)", message)
        if found:
            members["actual_revision"] = int(next(number for number in found.groups() if number))
        assert code in CODES, (code, said)
        return scenario.Refusal(CODES[code], message, **members)

    def one(self, *words, text=None):
        found = self.command(*words, text=text)
        assert len(found) == 1, found
        return found[0]

    def run(self, do, arguments):
        if do in UNSAYABLE:
            raise scenario.Unsayable(UNSAYABLE[do])
        return getattr(self, "do_" + do)(dict(arguments))

    @staticmethod
    def payload(w):
        """Words, and what goes to stdin."""
        if "data_base64" in w:
            raise scenario.Unsayable("a text of this suite's runner is no stdin of bytes: see append_batch")
        words = header_words(w.pop("headers")) if "headers" in w else []
        text = w.pop("data_text", None)
        return words, text

    def handled(self, key, *words):
        """The lines that a handler was given."""
        seen = os.path.join(gateway.folder(), "seen")
        with open(seen, "w", encoding="utf-8"):
            pass
        self.command(*words, "--exec-lines", shlex.join([sys.executable, HANDLER, key, seen]))
        with open(seen, encoding="utf-8") as file:
            return scenario.lines(file.read())

    # ---- the log

    def do_append(self, w):
        if "data_base64" in w or "content_type" in w:
            return self.do_append_batch({"events": [w]})["events"][0]
        words, text = self.payload(w)
        stream, kind = w.pop("stream", ""), w.pop("type", "")
        return self.one("append", *words, *options(w, OPTIONS), "--", stream, kind, *(["-"] if text is not None else []),
                        text=text)

    def do_append_batch(self, w):
        text = "".join(scenario.body_of(event).replace("\n", " ") + "\n" for event in w["events"])
        return {"events": self.command("append", "--batch", "--positions", text=text)}

    def do_read(self, w):
        return {"events": self.command("read", *options(w))}

    def do_get(self, w):
        return self.one("read", *options({"id": w["id"]}))

    def do_trace(self, w):
        return {"events": self.command("trace", "--", w["id"])}

    def do_correct(self, w):
        words, text = self.payload(w)
        w["correct"] = w.pop("id")
        if "correction_id" in w:
            w["id"] = w.pop("correction_id")
        return self.one("append", *options(w, OPTIONS), *words, *(["-"] if text is not None else []), text=text)

    def do_as_of(self, w):
        if "header_name" in w:
            w["header"] = "%s=%s" % (w.pop("header_name"), w.pop("header_value"))
        events = self.command("read", *options(w))
        return {"events": events, "final": bool(events) and all(event.get("final", False) for event in events)}

    def do_diff(self, w):
        return {"changes": self.command("diff", *options(w))}

    def do_purge(self, w):
        return self.one("purge", w.pop("id"), "--families", "--yes", *options(w))

    def do_head(self, _):
        return self.one("status")

    def do_snapshot_put(self, w):
        text = w.pop("data_text")
        stream, version = w.pop("stream"), w.pop("version")
        return self.one("snapshot", "put", *options(w), "--", stream, str(version), "-", text=text)

    def do_snapshots(self, w):
        return {"snapshots": self.command("snapshot", "ls", w["stream"])}

    def do_state(self, w):
        found = self.command("snapshot", "state", w.pop("stream"), *options(w))
        return {"snapshot": found[0]["snapshot"], "events": found[1:]}

    # ---- subscriptions

    def do_subscribe(self, w):
        w["from"] = w.pop("start", "start")
        name = w.pop("name")
        if "lanes" in w:
            raise scenario.Unsayable("the command's groups have 16 lanes")
        self.command("subscribe", "--shared", "--max=0", *options(w), "--", name)
        return {"created": None}

    def do_pause(self, w):
        return self.one("sub", "pause", w.pop("name"), *options(w))

    def do_resume(self, w):
        return self.one("sub", "resume", w["name"])

    def do_reset(self, w):
        return self.one("sub", "reset", w.pop("name"), *options(w))

    def do_remove(self, w):
        self.command("sub", "rm", w["name"])
        return {}

    def do_show_subscription(self, w):
        return self.one("sub", "show", w["name"])

    def do_dead_letters(self, w):
        return {"dead_letters": self.command("dlq", "ls", *options(w, {"name": "sub", "all": "all-states"}))}

    def dead_letters_set(self, verb, w):
        ids = [str(one) for one in w.pop("ids", [])]
        words = ids if ids else ["--all"]
        return {"count": self.one("dlq", verb, *words, *options(w, {"name": "sub"}))["marked"]}

    def do_redrive(self, w):
        return self.dead_letters_set("redrive", w)

    def do_discard(self, w):
        return self.dead_letters_set("discard", w)

    def do_handle(self, w):
        return {"events": self.handled("global_sequence", "subscribe", w["name"], "--shared", "--until-caught-up")}

    # ---- queues

    def do_work(self, w):
        return {"jobs": self.handled("id", "work", w["queue"], "--until-empty")}

    def do_push(self, w):
        queue = w.pop("queue")
        if "data_base64" in w or "content_type" in w:
            return self.one("push", queue, "--batch", text=scenario.body_of(w) + "\n")
        words, text = self.payload(w)
        names = {"correlation_id": "correlation", "causation_id": "causation"}
        return self.one("push", *options(w, names), *words, "--", queue,
                        *(["-"] if text is not None else []), text=text)

    def do_job(self, w):
        return self.one("job", "show", str(w["id"]))

    def do_cancel(self, w):
        return self.one("job", "cancel", str(w.pop("id")), *options(w))

    def do_rerun(self, w):
        return self.one("job", "retry", str(w["id"]))

    def do_queue_set(self, w):
        return self.one("queue", "set", w.pop("queue"), *["%s=%s" % pair for pair in w.items()])

    def do_pause_queue(self, w):
        return self.one("queue", "pause", w["queue"])

    def do_resume_queue(self, w):
        return self.one("queue", "resume", w["queue"])

    def do_purge_queue(self, w):
        return {"count": self.one("queue", "purge", w["queue"], "--yes")["purged"]}

    def do_show_queue(self, w):
        return self.one("queue", "show", w["queue"])

    def do_history(self, w):
        return {"jobs": self.command("log", w["queue"], "--payload")}

    def do_bind(self, w):
        return self.one("bind", w.pop("queue"), w.pop("pattern"), *options(w))

    def do_unbind(self, w):
        return self.one("unbind", w["queue"], w["pattern"])

    def do_bindings(self, w):
        return {"bindings": self.command("bindings", w["queue"])}
