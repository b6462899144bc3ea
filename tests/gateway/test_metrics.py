#!/usr/bin/env python3
"""What a monitor reads of a gateway and of the command: well-formed, true, and as the documents say.

  test_metrics.py sqlite|postgresql
  test_metrics.py table               prints the table of docs/gateway.md
"""
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time

import gateway
import tap
from gateway import ROOT, Gateway, command, wait_until

STORE = sys.argv[1]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00-%s-00f067aa0ba902b7-01" % TRACE
OTHER = "00-%s-1111111111111111-00" % TRACE
AWAY = "postgres://nobody@127.0.0.1:1/nothing"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


numbers_of_stores = itertools.count(1)


def make_store(kind):
    return gateway.make_store(kind, "metrics%d" % next(numbers_of_stores))


# ---------------------------------------------------------------- reading


class Numbers:
    """The text of one scrape: families, and samples by name and labels."""

    def __init__(self, text):
        self.text, self.types, self.helps, self.samples = text, {}, {}, {}
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name, said = line[7:].split(" ", 1)
                self.helps[name] = said
            elif line.startswith("# TYPE "):
                name, kind = line[7:].split(" ", 1)
                assert name not in self.types, "two families " + name
                self.types[name] = kind
            elif not line.startswith("#"):
                self.take(line)

    def take(self, line):
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        assert found, line
        name, labels, number = found.groups()
        key = (name, labels or "")
        assert key not in self.samples, "two samples " + line
        self.samples[key] = float(number)

    def get(self, name, **labels):
        """The value; the labels in the order in which they are printed."""
        return self.samples.get((name, ",".join('%s="%s"' % pair for pair in labels.items())))

    def names(self):
        return {name for name, _ in self.samples}

    def labels(self):
        """By name: which labels its samples have."""
        found = {}
        for name, labels in self.samples:
            found[name] = re.findall(r'(\w+)="', labels)
        return found


def scrape(g, form=None):
    answer = g.get("/metrics", headers={"Accept": form} if form else None)
    assert answer.status == 200, answer
    return Numbers(answer.body.decode())


def scrape_until(g, name, value, **labels):
    """What the store says is kept for a second."""
    return wait_until(lambda: (lambda n: n if n.get(name, **labels) == value else None)(scrape(g)), name)


# ---------------------------------------------------------------- promtool

@functools.lru_cache
def fetched():
    done = subprocess.run([os.path.join(ROOT, "tools", "fetch-promtool")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def promtool(*words, text=None):
    """What it says on stderr; what it only finds odd it says there, too."""
    done = subprocess.run([fetched(), *words], input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stderr


def check_prometheus(text):
    assert not text.endswith("# EOF\n")
    assert not promtool("check", "metrics", text=text)


def check_openmetrics(text):
    """By the parser that Prometheus has for it, which wants a time with each sample here."""
    assert text.endswith("\n# EOF\n")
    Numbers(text)  # no two families have one name: promtool does not mind
    where = gateway.folder()
    timed = os.path.join(where, "timed")
    with open(timed, "w", encoding="utf-8") as out:
        for line in text.splitlines():
            out.write(line + ("" if line.startswith("#") else " 1700000000") + "\n")
    promtool("tsdb", "create-blocks-from", "openmetrics", timed, os.path.join(where, "blocks"))


def busy_store():
    """Events, a shared subscription with a batch out, a queue with a job, and names that have to be escaped."""
    store = make_store(STORE)
    for number in range(5):
        command("append", "s%d" % number, "order.made", "{}", store=store)
    command("push", 'ma"il\\', "{}", store=store)
    command("push", "later", "{}", "--delay", "1h", store=store)
    return store


def both_forms_of_the_command_are_well_formed():
    store = busy_store()
    check_prometheus(command("metrics", store=store))
    check_openmetrics(command("metrics", "--format", "openmetrics", store=store))
    numbers = Numbers(command("metrics", store=store))
    assert numbers.get("howdah_queue_jobs", queue='ma\\"il\\\\', state="pending") == 1
    assert numbers.get("howdah_queue_jobs", queue="later", state="scheduled") == 1


def both_forms_of_the_gateway_are_well_formed():
    with Gateway(busy_store()) as g:
        g.put("/v1/subscriptions/g")
        g.post("/v1/subscriptions/g/fetch")
        g.get("/nothing")
        plain = g.get("/metrics")
        assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        check_prometheus(plain.body.decode())
        other = g.get("/metrics", headers={"Accept": OPENMETRICS + ",text/plain;version=0.0.4;q=0.5,*/*;q=0.1"})
        assert other.headers["Content-Type"] == OPENMETRICS + "; charset=utf-8"
        check_openmetrics(other.body.decode())


# ---------------------------------------------------------------- what they say

def the_numbers_of_the_store_are_those_of_the_store():
    store = busy_store()
    with Gateway(store) as g:
        g.put("/v1/subscriptions/g", {"key": "none"})
        fetched = len(g.post("/v1/subscriptions/g/fetch", {"max": 2}).json["events"])
        assert fetched in (1, 2)
        numbers = scrape(g)
        assert numbers.get("howdah_up") == 1
        assert numbers.get("howdah_log_head") == 5 and numbers.get("howdah_log_events") == 5
        assert numbers.get("howdah_log_size_bytes") > 1000
        assert abs(numbers.get("howdah_log_last_recorded_timestamp_seconds") - time.time()) < 600
        assert numbers.get("howdah_log_open_writers") == 0
        assert numbers.get("howdah_subscriptions") == 1
        assert numbers.get("howdah_subscription_lag_events", subscription="g") == 5
        assert numbers.get("howdah_subscription_lag_seconds", subscription="g") > 0
        assert numbers.get("howdah_subscription_members", subscription="g") == 1
        assert numbers.get("howdah_subscription_leased_events", subscription="g") == fetched
        states = [numbers.get("howdah_subscription_state", subscription="g", state=state)
                  for state in ("waiting", "behind", "live", "paused", "halted")]
        assert sorted(states) == [0, 0, 0, 0, 1], states
        assert numbers.get("howdah_queues") == 2
        assert numbers.get("howdah_queue_oldest_age_seconds", queue="later") == 0
        assert numbers.get("howdah_queue_oldest_age_seconds", queue='ma\\"il\\\\') > 0
        g.post("/v1/subscriptions/g/pause", {"reason": "test"})
        g.post("/v1/queues/later/pause", {})
        scrape_until(g, "howdah_queue_paused", 1, queue="later")
        scrape_until(g, "howdah_subscription_state", 1, subscription="g", state="paused")


def what_passes_through_the_gateway_is_counted():
    with Gateway(make_store(STORE)) as g:
        events = [{"stream": "s%d" % n, "type": "a.b"} for n in range(10)]
        assert g.post("/v1/events", events).status == 201
        assert g.post("/v1/events", {"stream": "x", "type": "a.b"}, headers={"If-Match": '"7"'}).status == 412
        g.put("/v1/subscriptions/g", {"key": "none"})
        batch = g.post("/v1/subscriptions/g/fetch", {"max": 10}).json
        assert g.post("/v1/subscriptions/g/nack", {"token": batch["token"], "global_sequence":
                                                   batch["events"][0]["global_sequence"]}).status == 200
        assert g.post("/v1/subscriptions/g/ack", {"token": batch["token"]}).status == 200
        assert g.post("/v1/subscriptions/g/ack", {"token": "no token of ours"}).status in (400, 409)
        assert g.post("/v1/queues/q/jobs", [{}, {}, {}, {}, {}]).status == 201
        jobs = g.post("/v1/queues/q/claim", {"max": 5}).json["jobs"]
        for job, verdict in zip(jobs, ("complete", "fail", "retry", "release", "extend")):
            assert g.post("/v1/jobs/%d/%s" % (job["id"], verdict), {"token": job["token"]}).status == 200
        assert g.get("/v1/nothing").status == 404
        # A request is counted when its answer has gone.
        numbers = scrape_until(g, "howdah_gateway_requests_total", 1, method="any", route="none", **{"class": "4xx"})
        for name, count in {"appends": 1, "events_appended": 10, "batches_fetched": 1,
                            "events_fetched": len(batch["events"]), "acks": 1, "nacks": 1, "jobs_pushed": 5,
                            "jobs_claimed": 5, "jobs_completed": 1, "jobs_failed": 1, "jobs_retried": 1,
                            "jobs_released": 1, "jobs_extended": 1, "outcomes_unknown": 0}.items():
            assert numbers.get("howdah_gateway_%s_total" % name) == count, name
        assert numbers.get("howdah_gateway_problems_total", code="CONFLICT") == 1
        assert numbers.get("howdah_gateway_problems_total", code="NOT_FOUND") == 1
        assert numbers.get("howdah_gateway_requests_total", method="POST", route="/v1/events",
                           **{"class": "2xx"}) == 1
        assert numbers.get("howdah_gateway_requests_total", method="POST", route="/v1/events",
                           **{"class": "4xx"}) == 1
        assert numbers.get("howdah_gateway_request_duration_seconds_count", group="append") == 2
        assert numbers.get("howdah_gateway_request_duration_seconds_bucket", group="append", le="+Inf") == 2
        assert numbers.get("howdah_gateway_request_duration_seconds_sum", group="append") > 0
        assert numbers.get("howdah_gateway_received_bytes_total") > 100
        assert numbers.get("howdah_gateway_sent_bytes_total") > 1000


def what_is_refused_is_counted_by_its_status():
    with Gateway(make_store(STORE), "--body-max", "1KiB") as g:
        assert g.post("/v1/events", b"x" * 2000, headers={"Content-Type": "application/json"}).status == 413
        numbers = scrape_until(g, "howdah_gateway_refused_total", 1, status="413")
        assert numbers.get("howdah_gateway_refused_total", status="503") == 0


def what_the_gateway_does_now_is_told():
    with Gateway(make_store(STORE), "--sessions", "3") as g:
        g.put("/v1/subscriptions/g")
        waiting = threading.Thread(target=g.post, args=("/v1/subscriptions/g/fetch", {"wait": "20s"}))
        waiting.start()
        numbers = scrape_until(g, "howdah_gateway_requests_parked", 1)
        assert numbers.get("howdah_gateway_requests_active") == 2
        assert numbers.get("howdah_gateway_connections") == 2
        assert numbers.get("howdah_gateway_workers") == 3
        assert 1 <= numbers.get("howdah_gateway_sessions") <= 3
        assert numbers.get("howdah_gateway_streams") == 0
        assert numbers.get("process_open_fds") > 5
        assert numbers.get("process_resident_memory_bytes") > 1000000
        assert abs(numbers.get("process_start_time_seconds") - time.time()) < 600
        g.post("/v1/events", {"stream": "s", "type": "a.b"})
        waiting.join()
        scrape_until(g, "howdah_gateway_requests_parked", 0)
        scrape_until(g, "howdah_gateway_request_duration_seconds_count", 1, group="wait")


def a_slow_reader_of_a_stream_is_one_stream():
    with Gateway(make_store(STORE)) as g:
        data = "x" * 100000
        for _ in range(10):
            g.post("/v1/events", [{"stream": "s", "type": "a.b", "data": data} for _ in range(10)])
        reader = g.connect()
        reader.request("GET", "/v1/events", headers={"Accept": "application/x-ndjson"})
        answer = reader.getresponse()
        if answer.getheader("Transfer-Encoding") != "chunked":
            raise gateway.Skip("the log is not streamed")
        assert scrape(g).get("howdah_gateway_streams") == 1
        read = len(answer.read())
        reader.close()
        scrape_until(g, "howdah_gateway_streams", 0)
        assert scrape(g).get("howdah_gateway_sent_bytes_total") > read


def a_store_that_is_away_is_a_number_and_the_gateway_tells_its_own():
    with Gateway(AWAY) as g:
        begun = time.monotonic()
        numbers = scrape(g)
        assert time.monotonic() - begun < 30
        assert numbers.get("howdah_up") == 0
        assert numbers.get("howdah_build_info", version=command("--version", store=AWAY).split()[1]) == 1
        assert numbers.get("howdah_log_head") is None
        assert numbers.get("howdah_gateway_workers") == 4
        assert numbers.get("howdah_gateway_sessions") == 0
        check_prometheus(numbers.text)
        check_openmetrics(scrape(g, OPENMETRICS).text)
        assert "metrics: the store cannot be asked" in g.log()


def however_many_ask_the_store_is_asked_once_in_a_second():
    with Gateway(make_store(STORE)) as g:
        def kept():
            """None: this machine took too long to say."""
            begun = time.monotonic()
            before = scrape(g).get("howdah_log_head")
            g.post("/v1/events", {"stream": "s", "type": "a.b"})
            told = [scrape(g).get("howdah_log_head") for _ in range(5)]
            return None if time.monotonic() - begun > 0.8 else set(told) == {before}
        wait_until(lambda: g.get("/v1/status").json["head"] >= 0)
        # A kept answer may end between the two: then both are new, and the next second tells.
        assert wait_until(kept, "an answer that is kept")
        head = g.get("/v1/status").json["head"]
        scrape_until(g, "howdah_log_head", head)


def many_scrapes_at_once_are_all_answered():
    with Gateway(make_store(STORE)) as g:
        got = []
        threads = [threading.Thread(target=lambda: got.append(scrape(g).get("howdah_up"))) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [1] * 50


def a_session_that_blocks_is_named():
    if STORE != "postgresql":
        raise gateway.Skip("SQLite has no holes")
    import bus
    made = bus.Bus("blocked")
    writer = subprocess.Popen(["psql", "-X", "-q", "-At", made.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env=dict(os.environ, PGAPPNAME='a "name"'))
    writer.stdin.write("BEGIN; SELECT pg_backend_pid() FROM howdah.append('s', 'a.b');\n")
    writer.stdin.flush()
    pid = int(writer.stdout.readline())
    with Gateway(made.url) as g:
        assert scrape(g).get("howdah_log_open_writers") == 1
        numbers = wait_until(lambda: (lambda n: n if "howdah_log_blocking_session_info" in n.names() else None)(scrape(g)))
        assert numbers.get("howdah_log_blocking_session_info", session='pid %d (a \\"name\\")' % pid) == 1
        assert numbers.get("howdah_log_oldest_writer_age_seconds") >= 5
        check_prometheus(numbers.text)
        writer.stdin.write("COMMIT;\n")
        writer.stdin.close()
        writer.wait()
        writer.stdout.close()
        wait_until(lambda: "howdah_log_blocking_session_info" not in scrape(g).names())


# ---------------------------------------------------------------- traces

def headers_of(g, answer):
    assert answer.status == 201, answer
    return g.get("/v1/events/" + answer.json["id"]).json["headers"]


def an_event_gets_the_trace_of_its_request():
    with Gateway(make_store(STORE)) as g:
        event = {"stream": "s", "type": "a.b"}
        assert headers_of(g, g.post("/v1/events", event, headers={"traceparent": PARENT, "tracestate": "a=1"})) == \
            {"traceparent": PARENT, "tracestate": "a=1"}
        assert headers_of(g, g.post("/v1/events", dict(event, headers={"h": "x"}), headers={"traceparent": PARENT})) == \
            {"h": "x", "traceparent": PARENT}
        own = {"traceparent": "mine"}
        assert headers_of(g, g.post("/v1/events", dict(event, headers=own),
                                    headers={"traceparent": PARENT, "tracestate": "a=1"})) == own
        for wrong in ("", "x", PARENT.upper(), PARENT + "0", "01" + PARENT[2:], "00-" + "0" * 32 + PARENT[35:]):
            assert headers_of(g, g.post("/v1/events", event, headers={"traceparent": wrong})) == {}, wrong
        cloud = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/x", "ce-type": "a.b", "traceparent": PARENT,
                 "Content-Type": "application/json"}
        assert headers_of(g, g.post("/v1/events", b"{}", headers=cloud))["traceparent"] == PARENT
        cloud.update({"ce-id": "2", "ce-traceparent": OTHER})
        assert headers_of(g, g.post("/v1/events", b"{}", headers=cloud))["traceparent"] == OTHER


def a_repeated_append_is_the_same_event_in_another_step_of_its_trace():
    with Gateway(make_store(STORE)) as g:
        def send(body, key, parent, **more):
            headers = {"Idempotency-Key": key, **({"traceparent": parent} if parent else {}), **more}
            return g.post("/v1/events", body, headers=headers)
        for body in ({"stream": "s", "type": "a.b", "headers": {"h": "x"}},
                     [{"stream": "l", "type": "a.b"}, {"stream": "l", "type": "a.c", "headers": {"traceparent": OTHER}}]):
            key = "key of " + str(len(body))
            first = send(body, key, PARENT, tracestate="a=1")
            again = send(body, key, OTHER)
            assert first.status == 201 and again.status == 201, (first, again)
            assert first.json == again.json
        stored = g.get("/v1/streams/s").json["events"]
        assert len(stored) == 1 and stored[0]["headers"]["traceparent"] == PARENT
        assert len(g.get("/v1/streams/l").json["events"]) == 2
        # One without a trace, repeated in one.
        first = send({"stream": "n", "type": "a.b"}, "none", None)
        again = send({"stream": "n", "type": "a.b"}, "none", PARENT)
        assert (first.status, again.status) == (201, 201) and first.json == again.json
        # Other content is refused as ever.
        assert send({"stream": "n", "type": "a.other"}, "none", PARENT).status == 409
        assert len(g.get("/v1/streams/n").json["events"]) == 1


def members_and_workers_are_handed_the_trace():
    with Gateway(make_store(STORE)) as g:
        g.put("/v1/subscriptions/g")
        g.post("/v1/events", {"stream": "s", "type": "a.b"}, headers={"traceparent": PARENT})
        batch = g.post("/v1/subscriptions/g/fetch").json
        assert batch["events"][0]["headers"] == {"traceparent": PARENT}
        g.post("/v1/queues/q/jobs", [{}, {"headers": {"h": "x"}}, {"headers": {"traceparent": "mine"}}],
               headers={"traceparent": PARENT, "tracestate": "a=1"})
        jobs = g.post("/v1/queues/q/claim", {"max": 3}).json["jobs"]
        ours = {"traceparent": PARENT, "tracestate": "a=1"}
        assert [job["headers"] for job in jobs] == [ours, {"h": "x", **ours}, {"traceparent": "mine"}]


def the_access_log_names_the_trace():
    with Gateway(make_store(STORE)) as g:
        g.get("/healthz", headers={"traceparent": PARENT})
        g.get("/version")
        said = wait_until(lambda: [json.loads(line) for line in g.log().splitlines() if "/version" in line]
                          and [json.loads(line) for line in g.log().splitlines() if line.startswith("{")])
    traced = {line["url"]: line.get("trace_id") for line in said}
    assert traced["/healthz"] == TRACE and traced["/version"] is None


# ---------------------------------------------------------------- documents

def all_numbers():
    """Each family that the programs print, with the labels that samples have here."""
    with Gateway(busy_store()) as g:
        g.put("/v1/subscriptions/g")
        g.post("/v1/subscriptions/g/fetch")
        g.get("/healthz")
        wait_until(lambda: "howdah_gateway_requests_total" in scrape(g).names())
        numbers = scrape(g)
        of_command = Numbers(command("metrics", store=g.store))
    for name, kind in of_command.types.items():
        assert numbers.types[name] == kind
    return numbers


def rows_of_table(numbers):
    for name, kind in numbers.types.items():
        kind = "info" if name.endswith("_info") else kind
        labels = numbers.labels().get(name + "_sum" if kind == "histogram" else name)
        yield name, kind, None if labels is None else ", ".join("`%s`" % label for label in labels), numbers.helps[name]


def the_table_of_the_document_is_what_the_programs_print():
    with open(os.path.join(ROOT, "docs", "gateway.md"), encoding="utf-8") as page:
        written = {cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
                   for cells in (line.strip().strip("|").split("|") for line in page
                                 if re.match(r"\| `(howdah|process)_", line))}
    printed = {name: rest for name, *rest in rows_of_table(all_numbers())}
    assert set(written) == set(printed), set(written) ^ set(printed)
    for name, (kind, labels, said) in printed.items():
        if labels is None:
            labels = written[name][1]  # there is nothing to see of it now
        assert written[name] == [kind, labels, said], (name, written[name], [kind, labels, said])


def the_board_and_the_alerts_ask_for_what_is_printed():
    printed = all_numbers()
    known = set(printed.types) | printed.names()
    labels = {label for found in printed.labels().values() for label in found}
    labels |= {"session", "le", "job", "instance"}
    with open(os.path.join(ROOT, "contrib", "grafana-howdah.json"), encoding="utf-8") as board:
        targets = [target["expr"] for panel in json.load(board)["panels"] for target in panel.get("targets", [])]
    with open(os.path.join(ROOT, "contrib", "alerts-howdah.yml"), encoding="utf-8") as rules:
        text = rules.read()
    assert len(targets) > 50 and text.count("alert:") == 14
    for expression in targets + [text]:
        asked = re.findall(r"\b(?:howdah|process)_\w+", expression)
        assert asked and not [name for name in asked if name not in known], expression
    for expression in targets:
        for inside in re.findall(r"(?:by|on|without|group_left) \(([^)]*)\)", expression):
            assert not [label for label in re.findall(r"\w+", inside) if label not in labels], expression
    return targets


def every_expression_of_the_board_is_valid():
    """As a rule, because that is what promtool reads."""
    where = os.path.join(gateway.folder(), "board.yml")
    targets = the_board_and_the_alerts_ask_for_what_is_printed()
    rules = [{"record": "board:number%d" % number, "expr": expression.replace("$__rate_interval", "5m")}
             for number, expression in enumerate(targets)]
    with open(where, "w", encoding="utf-8") as out:
        json.dump({"groups": [{"name": "board", "rules": rules}]}, out)
    promtool("check", "rules", where)


def every_alert_says_what_is_wrong_and_what_to_do_and_fires_when_it_must():
    rules = os.path.join(ROOT, "contrib", "alerts-howdah.yml")
    tests = os.path.join(ROOT, "tests", "gateway", "alerts_test.yml")
    promtool("check", "rules", rules)
    promtool("test", "rules", tests)
    with open(rules, encoding="utf-8") as text:
        alerts = re.findall(r"- alert: (\w+)(.*?)(?=- alert:|- name:|\Z)", text.read(), re.S)
    with open(tests, encoding="utf-8") as text:
        fired = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:", text.read()))
    for name, body in alerts:
        assert all(word in body for word in ("summary:", "description:", "severity:")), name
        assert name in fired, "no test lets %s fire" % name


CASES = [
    both_forms_of_the_command_are_well_formed,
    both_forms_of_the_gateway_are_well_formed,
    the_numbers_of_the_store_are_those_of_the_store,
    what_passes_through_the_gateway_is_counted,
    what_is_refused_is_counted_by_its_status,
    what_the_gateway_does_now_is_told,
    a_slow_reader_of_a_stream_is_one_stream,
    a_store_that_is_away_is_a_number_and_the_gateway_tells_its_own,
    however_many_ask_the_store_is_asked_once_in_a_second,
    many_scrapes_at_once_are_all_answered,
    a_session_that_blocks_is_named,
    an_event_gets_the_trace_of_its_request,
    a_repeated_append_is_the_same_event_in_another_step_of_its_trace,
    members_and_workers_are_handed_the_trace,
    the_access_log_names_the_trace,
    the_table_of_the_document_is_what_the_programs_print,
    the_board_and_the_alerts_ask_for_what_is_printed,
    every_expression_of_the_board_is_valid,
    every_alert_says_what_is_wrong_and_what_to_do_and_fires_when_it_must,
]

if __name__ == "__main__":
    if STORE == "table":
        STORE = "sqlite"
        for cells in rows_of_table(all_numbers()):
            print("| `%s` | %s | %s | %s |" % (cells[0], cells[1], cells[2] or "", cells[3]))
        sys.exit(0)
    sys.exit(tap.run(CASES))
