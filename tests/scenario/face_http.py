"""The gateway: each step is a request."""
import urllib.parse

import gateway
import scenario

quote = lambda text: urllib.parse.quote(str(text), safe="")  # noqa: E731

# What no request says.
UNSAYABLE = {}
# What HTTP calls a refusal: a conflict with a version or revision that was named is a failed precondition.
STATUS = {"CONFLICT": (409, 412), "ID_REUSED": (409,), "NOT_FOUND": (404,), "INVALID": (400,), "LIMIT": (413,),
          "LOST": (409,)}


class Face:
    def __init__(self, store):
        self.gateway = gateway.Gateway(store)
        self.connection = self.gateway.connect()

    def close(self):
        self.connection.close()
        self.gateway.stop()

    def ask(self, method, path, body=None, kind="application/json", **arguments):
        """The answer; a body is a text.  Arguments go into the query."""
        query = [(key, str(value).lower() if isinstance(value, bool) else value)
                 for key, value in arguments.items() if value is not None]
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {"Content-Type": kind} if body is not None else {}
        got = self.gateway.ask(method, path, body.encode("utf-8") if body is not None else None, headers,
                               connection=self.connection)
        text = got.body.decode("utf-8")
        answer = scenario.parse(text) if text.strip() else {}
        if got.status < 300:
            return answer
        assert got.headers["Content-Type"].startswith("application/problem+json"), got
        assert answer["status"] == got.status and got.status in STATUS[answer["code"]], got
        named = "actual_version" in answer or "actual_revision" in answer
        assert answer["code"] != "CONFLICT" or got.status == (412 if named else 409), got
        assert answer["type"] == "urn:howdah:problem:" + answer["code"].lower().replace("_", "-"), got
        raise scenario.Refusal(answer["code"], answer["detail"],
                               **{member: answer.get(member) for member in
                                  ("field", "actual_version", "actual_revision", "event_index")})

    def run(self, do, arguments):
        if do in UNSAYABLE:
            raise scenario.Unsayable(UNSAYABLE[do])
        return getattr(self, "do_" + do)(dict(arguments))

    # ---- the log

    def do_append(self, w):
        return self.ask("POST", "/v1/events", scenario.body_of(w))

    def do_append_batch(self, w):
        body = "[" + ",".join(scenario.body_of(event) for event in w["events"]) + "]"
        return {"events": self.ask("POST", "/v1/events", body)}

    def do_read(self, w):
        stream = w.pop("stream", None)
        if stream is not None:
            return self.ask("GET", "/v1/streams/" + quote(stream), **w)
        return self.ask("GET", "/v1/events", **w)

    def do_get(self, w):
        return self.ask("GET", "/v1/events/" + quote(w["id"]))

    def do_trace(self, w):
        return self.ask("GET", "/v1/events/%s/trace" % quote(w["id"]))

    def do_correct(self, w):
        event = w.pop("id")
        if "correction_id" in w:
            w["id"] = w.pop("correction_id")
        if "retract" in w:
            w["retraction"] = w.pop("retract")
        return self.ask("POST", "/v1/events/%s/corrections" % quote(event), scenario.body_of(w))

    def do_as_of(self, w):
        if "header_name" in w:
            w["header"] = "%s=%s" % (w.pop("header_name"), w.pop("header_value"))
        return self.ask("GET", "/v1/events", **w)

    def do_diff(self, w):
        return self.ask("GET", "/v1/diff", **w)

    def do_purge(self, w):
        return self.ask("DELETE", "/v1/events/" + quote(w.pop("id")), **w)

    def do_head(self, _):
        return self.ask("GET", "/v1/status")

    def do_snapshot_put(self, w):
        path = "/v1/streams/%s/snapshots/%s" % (quote(w.pop("stream")), quote(w.pop("version")))
        return self.ask("PUT", path, w.pop("data_text"), **w)

    def do_snapshots(self, w):
        return self.ask("GET", "/v1/streams/%s/snapshots" % quote(w["stream"]))

    def do_state(self, w):
        return self.ask("GET", "/v1/streams/%s/state" % quote(w.pop("stream")), **w)

    # ---- subscriptions

    def _subscription(self, w, verb):
        return self.ask("POST", "/v1/subscriptions/%s/%s" % (quote(w.pop("name")), verb), scenario.compact(w))

    def do_subscribe(self, w):
        return self.ask("PUT", "/v1/subscriptions/" + quote(w.pop("name")), scenario.compact(w))

    def do_fetch(self, w):
        return self._subscription(w, "fetch")

    def do_ack(self, w):
        return self._subscription(w, "ack")

    def do_nack(self, w):
        return self._subscription(w, "nack")

    def do_extend(self, w):
        return self._subscription(w, "extend")

    def do_release(self, w):
        return self._subscription(w, "release")

    def do_pause(self, w):
        return self._subscription(w, "pause")

    def do_resume(self, w):
        return self._subscription(w, "resume")

    def do_reset(self, w):
        return self._subscription(w, "reset")

    def do_remove(self, w):
        return self.ask("DELETE", "/v1/subscriptions/" + quote(w["name"]))

    def do_show_subscription(self, w):
        return self.ask("GET", "/v1/subscriptions/" + quote(w["name"]))

    def do_dead_letters(self, w):
        if "name" in w:
            w["subscription"] = w.pop("name")
        return self.ask("GET", "/v1/dead-letters", **w)

    def _dead_letters(self, w, verb):
        if "name" in w:
            w["subscription"] = w.pop("name")
        return self.ask("POST", "/v1/dead-letters/" + verb, scenario.compact(w))

    def do_redrive(self, w):
        return self._dead_letters(w, "redrive")

    def do_discard(self, w):
        return self._dead_letters(w, "discard")

    # ---- queues

    def _queue(self, w, verb, method="POST"):
        return self.ask(method, "/v1/queues/%s%s" % (quote(w.pop("queue")), verb), scenario.body_of(w))

    def do_push(self, w):
        return self._queue(w, "/jobs")

    def do_claim(self, w):
        return self._queue(w, "/claim")

    def do_queue_set(self, w):
        return self._queue(w, "", "PUT")

    def do_pause_queue(self, w):
        return self._queue(w, "/pause")

    def do_resume_queue(self, w):
        return self._queue(w, "/resume")

    def do_purge_queue(self, w):
        return self.ask("DELETE", "/v1/queues/%s/jobs" % quote(w["queue"]))

    def do_show_queue(self, w):
        return self.ask("GET", "/v1/queues/" + quote(w["queue"]))

    def do_history(self, w):
        return self.ask("GET", "/v1/queues/%s/log" % quote(w["queue"]))

    def _job(self, w, verb):
        return self.ask("POST", "/v1/jobs/%s/%s" % (quote(w.pop("id")), verb), scenario.compact(w))

    def do_complete(self, w):
        return self._job(w, "complete")

    def do_fail(self, w):
        return self._job(w, "fail")

    def do_retry(self, w):
        return self._job(w, "retry")

    def do_extend_job(self, w):
        return self._job(w, "extend")

    def do_release_job(self, w):
        return self._job(w, "release")

    def do_cancel(self, w):
        return self._job(w, "cancel")

    def do_rerun(self, w):
        return self._job(w, "rerun")

    def do_job(self, w):
        return self.ask("GET", "/v1/jobs/" + quote(w["id"]))

    def _binding(self, w, method, body=None):
        path = "/v1/bindings/%s/%s" % (quote(w.pop("queue")), quote(w.pop("pattern")))
        return self.ask(method, path, body and scenario.compact(w))

    def do_bind(self, w):
        return self._binding(w, "PUT", True)

    def do_unbind(self, w):
        return self._binding(w, "DELETE")

    def do_bindings(self, w):
        found = self.ask("GET", "/v1/bindings")["bindings"]
        return {"bindings": [b for b in found if b["queue"] == w["queue"]]}
