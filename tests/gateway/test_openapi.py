#!/usr/bin/env python3
"""The interface is what /openapi.json says it is: a linter takes it, and each of its operations is exercised from the
document itself, with values of the table below; what is answered matches its schema.

  test_openapi.py sqlite|postgresql
"""
import json
import os
import re
import subprocess
import sys
import urllib.parse

import gateway
import npm
import raw

STORE = sys.argv[1]
g = gateway.Gateway(gateway.make_store(STORE))
document = g.get("/openapi.json").json
METHODS = ("get", "put", "post", "delete", "patch")


# ------------------------------------------------------------------ a small checker

def resolve(schema):
    while "$ref" in schema:
        node = document
        for part in schema["$ref"][2:].split("/"):
            node = node[part]
        schema = node
    return schema


KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_kind(value, kind):
    if kind in ("integer", "number"):
        return not isinstance(value, bool) and isinstance(value, int if kind == "integer" else (int, float))
    return isinstance(value, KINDS[kind])


def check(value, schema, where="$", strict=True):
    """What of the value does not match; the words of JSON Schema that the document uses, and no other."""
    schema = resolve(schema)
    unknown = set(schema) - {"type", "properties", "required", "items", "oneOf", "anyOf", "enum", "description", "format", "minimum",
                             "maximum", "additionalProperties", "example", "pattern"}
    assert not unknown, "a word that this checker does not know: %s" % unknown
    for word, needed in (("oneOf", 1), ("anyOf", None)):
        if word in schema:
            found = [check(value, each, where) for each in schema[word]]
            fits = sum(not each for each in found)
            return [] if fits == needed or (needed is None and fits) else ["%s: %s" % (where, found)]
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        return ["%s is %r, and not %s" % (where, value, kinds)]
    wrong = []
    if "enum" in schema and value not in schema["enum"]:
        wrong.append("%s is %r, and none of %s" % (where, value, schema["enum"]))
    if isinstance(value, dict):
        wrong += ["%s lacks %s" % (where, name) for name in schema.get("required", ()) if name not in value]
        for name, each in value.items():
            if name in schema.get("properties", {}):
                wrong += check(each, schema["properties"][name], "%s.%s" % (where, name))
            elif strict and "properties" in schema and schema.get("additionalProperties", False) is False:
                wrong.append("%s has %s, of which the schema knows nothing" % (where, name))
    if isinstance(value, list) and "items" in schema:
        for n, each in enumerate(value):
            wrong += check(each, schema["items"], "%s[%d]" % (where, n))
    return wrong


def answer_schema(operation, answer):
    """Of the status and content type that came; an AssertionError when the document knows neither."""
    responses = operation["responses"]
    said = resolve(responses.get(str(answer.status)) or responses.get("%dXX" % (answer.status // 100)) or {})
    assert said, "%d is not documented" % answer.status
    kind = (answer.headers.get("Content-Type") or "").split(";")[0]
    assert not kind or kind in said.get("content", {}), "%s is not documented for %d" % (kind, answer.status)
    return kind, said["content"][kind]["schema"] if kind else None


def check_answer(operation, answer):
    kind, schema = answer_schema(operation, answer)
    if kind.endswith("json"):
        wrong = check(answer.json, schema)
        assert not wrong, wrong
    elif kind == "application/x-ndjson":
        for line in answer.body.splitlines():
            json.loads(line)
    if answer.status >= 400:
        raw.check_problem(gateway.Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.body), answer.status)


# ------------------------------------------------------------------------- examples

def prepare():
    """What the examples name is there."""
    stored = g.post("/v1/events", {"stream": "order-1", "type": "order.created", "data": {"n": 1}}).json
    for n in range(4):
        assert g.post("/v1/events", {"stream": "order-1", "type": "order.paid", "causation_id": stored["id"]}).status == 201
    for name in ("orders", "other", "gone"):
        assert g.put("/v1/subscriptions/" + name, {"start": 0}).status == 201
    for name in ("mail", "busy"):
        assert g.put("/v1/queues/" + name).status in (200, 201)
    for name in ("orders", "gone"):
        assert g.put("/v1/webhooks/" + name, {"url": "http://127.0.0.1:9/"}).status in (200, 201)
    jobs = g.post("/v1/queues/mail/jobs", [{"data": n} for n in range(12)]).json
    return stored["id"], jobs


EVENT_ID, JOBS = prepare()
CLAIMED = {job["id"]: job for job in g.post("/v1/queues/mail/claim", {"max": 8, "lease": "10m"}).json["jobs"]}
left = list(CLAIMED.values())


def batch(**more):
    """Of a subscription of its own, which nobody else holds a part of: its name, and what to say of the batch."""
    name = "of-%d" % next(gateway.numbers)
    assert g.put("/v1/subscriptions/" + name, {"start": "end"}).status == 201
    g.post("/v1/events", {"stream": name, "type": "order.created"})
    got = g.post("/v1/subscriptions/%s/fetch" % name, {"max": 1, "wait": "5s"}).json
    return {"name": name}, {**{key: value(got) if callable(value) else value for key, value in more.items()}, "token": got["token"]}


def verdict(**more):
    job = left.pop()
    return {"id": job["id"]}, dict(more, token=job["token"])


def dead_letter():
    """Of a job that has failed for good: its number."""
    job = g.post("/v1/queues/busy/jobs", {"max_attempts": 1}).json
    claimed = g.post("/v1/queues/busy/claim", {"max": 1, "lease": "1m"}).json["jobs"][0]
    assert claimed["id"] == job["id"]
    assert g.post("/v1/jobs/%d/fail" % job["id"], {"token": claimed["token"], "error": "no"}).status == 200
    letters = g.get("/v1/dead-letters?backward=true&limit=1").json["dead_letters"]
    return letters[0]["id"]


PATHS = {"id": EVENT_ID, "stream": "order-1", "name": "orders", "queue": "mail", "pattern": "order.*", "version": 1}
QUERIES = {
    "after": 0, "actor": "ann", "all": "true", "backward": "true", "causation": EVENT_ID, "correlation": EVENT_ID, "current": "true",
    "expect": "any", "from": 1, "header": "a=b", "keep": 3, "known_at": "2026-01-31T09:30:00Z", "lease": "30s", "limit": 2, "max": 1,
    "member": "ann", "order": "sequence", "originals": "true", "pattern": "order.*", "queue": "mail", "reason": "asked to",
    "recorded_before": "2036-01-31T09:30:00Z", "recorded_from": "2026-01-31T09:30:00Z", "schema_version": 1, "since": 0,
    "start": "start", "status": "completed", "stream": "order-1", "subscription": "orders", "to": 100, "type": "order.paid", "upto": 0,
    "valid_at": "2036-01-31T09:30:00Z", "valid_before": "2036-01-31T09:30:00Z", "valid_from": "2026-01-31T09:30:00Z", "version": 1,
    "versions": EVENT_ID, "window": 2}
# (path values, body) of an operation; a body is asked for where the document has one.  What is left out has no body, or {}.
BODIES = {
    "post /v1/events": lambda: ({}, {"stream": "order-9", "type": "order.created", "data": {"n": 1}, "headers": {"a": "b"}}),
    "post /v1/events/{id}/corrections": lambda: ({}, {"reason": "wrong", "data": {"n": 2}}),
    "delete /v1/events/{id}": lambda: ({"id": g.post("/v1/events", {"stream": "x", "type": "a.b"}).json["id"]}, None),
    "put /v1/streams/{stream}/snapshots/{version}": lambda: ({}, {"n": 1}),
    "put /v1/subscriptions/{name}": lambda: ({"name": "new"}, {"pattern": "order.*", "start": 0, "max_retries": 3}),
    "post /v1/subscriptions/{name}/fetch": lambda: ({"name": "other"}, {"max": 1, "wait": "1s", "lease": "30s", "member": "ann"}),
    "post /v1/subscriptions/{name}/ack": batch,
    "post /v1/subscriptions/{name}/nack": lambda: batch(
        error="no", global_sequence=lambda got: got["events"][0]["global_sequence"]),
    "post /v1/subscriptions/{name}/extend": lambda: batch(lease="30s"),
    "post /v1/subscriptions/{name}/release": batch,
    "delete /v1/subscriptions/{name}": lambda: ({"name": "gone"}, None),
    "post /v1/subscriptions/{name}/pause": lambda: ({"name": "other"}, {"reason": "lunch"}),
    "post /v1/subscriptions/{name}/resume": lambda: ({"name": "other"}, {}),
    "post /v1/subscriptions/{name}/reset": lambda: ({"name": "new"}, {"to": 0}),
    "put /v1/queues/{queue}": lambda: ({"queue": "other"}, {"max_attempts": 3}),
    "delete /v1/queues/{queue}/jobs": lambda: ({"queue": "other"}, None),
    "post /v1/queues/{queue}/jobs": lambda: ({}, {"data": {"to": "ann"}, "key": "ann", "delay": "1s", "priority": 1}),
    "post /v1/queues/{queue}/claim": lambda: ({}, {"max": 1, "wait": "1s", "lease": "30s", "worker": "ann"}),
    "get /v1/jobs/{id}": lambda: ({"id": JOBS[0]["id"]}, None),
    "post /v1/jobs/{id}/complete": lambda: verdict(result="sent"),
    "post /v1/jobs/{id}/fail": lambda: verdict(error="no"),
    "post /v1/jobs/{id}/retry": lambda: verdict(error="later", after="1s"),
    "post /v1/jobs/{id}/extend": lambda: verdict(lease="1m"),
    "post /v1/jobs/{id}/release": lambda: verdict(),
    "post /v1/jobs/{id}/cancel": lambda: ({"id": g.post("/v1/queues/mail/jobs", {}).json["id"]}, {"reason": "no need"}),
    "post /v1/jobs/{id}/rerun": lambda: ({"id": g.post("/v1/queues/mail/jobs", {"delay": "1h"}).json["id"]}, {}),
    "post /v1/jobs/ack": lambda: (lambda job: ({}, {"acks": [{"id": job["id"], "token": job["token"], "verdict": "complete"}]}))(left.pop()),
    "put /v1/webhooks/{name}": lambda: ({"name": "new"}, {"url": "https://shop.example/hook", "pattern": "order.*"}),
    "delete /v1/webhooks/{name}": lambda: ({"name": "gone"}, None),
    "get /v1/dead-letters/{id}": lambda: ({"id": dead_letter()}, None),
    "post /v1/dead-letters/redrive": lambda: ({}, {"ids": [dead_letter()]}),
    "post /v1/dead-letters/discard": lambda: ({}, {"ids": [dead_letter()], "reason": "no need"}),
}
# Of two arguments that exclude each other each has its turn, because each argument is asked for alone as well.
STREAMS = {"get /v1/events/live", "get /v1/subscriptions/{name}/stream"}


def operations():
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in METHODS:
                yield method + " " + path, method, path, operation


def ask(name, method, path, operation, query=()):
    values, body = BODIES.get(name, lambda: ({}, {} if "requestBody" in operation else None))()
    values = dict(PATHS, **values)
    url = re.sub(r"\{(\w+)\}", lambda found: urllib.parse.quote(str(values[found[1]]), safe=""), path)
    if query:
        url += "?" + urllib.parse.urlencode(query)
    if name in STREAMS:
        return first_of_a_stream(url)
    return g.ask(method.upper(), url, body)


def first_of_a_stream(url):
    with raw.Raw(g) as r:
        r.send(raw.get(url))
        status, headers = r.head()
        if status != 200:
            return gateway.Answer(status, {"Content-Type": headers["content-type"], **headers}, r.exactly(int(headers["content-length"])))
        assert b"retry: " in r.chunk()
        return gateway.Answer(status, {"Content-Type": headers["content-type"], **headers}, b"")


# ------------------------------------------------------------------------------ cases

def a_linter_takes_the_document():
    folder = gateway.folder()
    with open(os.path.join(folder, "openapi.json"), "w", encoding="utf-8") as out:
        json.dump(document, out)
    with open(os.path.join(folder, "redocly.yaml"), "w", encoding="utf-8") as out:
        out.write("extends: [recommended-strict]\nrules:\n  security-defined: off\n  operation-4xx-response: error\n"
                  "  no-server-example.com: off\n  no-ambiguous-paths: off\n")
    done = subprocess.run(["node", os.path.join(npm.install("@redocly/cli@2"), "@redocly/cli/bin/cli.js"), "lint", "openapi.json",
                           "--format", "json"], cwd=folder, capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, REDOCLY_SUPPRESS_UPDATE_NOTICE="true", REDOCLY_TELEMETRY="off"))
    problems = json.loads(done.stdout)["problems"] if done.stdout.strip().startswith("{") else [done.stdout, done.stderr]
    assert done.returncode == 0 and not problems, [
        (p["ruleId"], p["message"], p["location"][0].get("pointer")) if isinstance(p, dict) else p for p in problems[:20]]


def every_operation_can_be_done_as_the_document_says():
    wrong = []
    for name, method, path, operation in operations():
        try:
            answer = ask(name, method, path, operation, [
                (p["name"], QUERIES[p["name"]]) for p in operation.get("parameters", ()) if p["in"] == "query" and p["required"]])
            assert answer.status < 300, answer
            check_answer(operation, answer)
        except (AssertionError, KeyError, ValueError) as error:
            wrong.append("%s: %r" % (name, error))
    assert not wrong, "\n".join(wrong)


def every_argument_is_taken_as_the_document_says():
    wrong = []
    for name, method, path, operation in operations():
        for parameter in operation.get("parameters", ()):
            if parameter["in"] != "query" or method != "get":
                continue
            try:
                value = QUERIES.get(parameter["name"])
                assert value is not None or parameter["name"] == "place", "no example of %s" % parameter["name"]
                if value is None:
                    continue
                answer = ask(name, method, path, operation, [(parameter["name"], value)])
                check_answer(operation, answer)
                assert answer.status < 300 or answer.status in (400, 404), answer
                if answer.status == 400:
                    assert "unknown argument" not in answer.json["detail"], answer
                answer = ask(name, method, path, operation, [(parameter["name"], "\x01")])
                check_answer(operation, answer)
            except (AssertionError, KeyError, ValueError) as error:
                wrong.append("%s?%s: %r" % (name, parameter["name"], error))
    assert not wrong, "\n".join(wrong)


def what_a_body_lacks_is_named_and_what_it_has_too_much():
    wrong = []
    for name, method, path, operation in operations():
        content = operation.get("requestBody", {}).get("content", {})
        schema = resolve(content.get("application/json", {}).get("schema", {}))
        if "properties" not in schema or name not in BODIES:
            continue
        values, body = dict(PATHS), {"no_such_field": 1}
        url = re.sub(r"\{(\w+)\}", lambda found: urllib.parse.quote(str(values[found[1]]), safe=""), path)
        try:
            answer = g.ask(method.upper(), url, body)
            check_answer(operation, answer)
            assert 400 <= answer.status < 500, answer
            for needed in schema.get("required", ()):
                answer = g.ask(method.upper(), url, {})
                check_answer(operation, answer)
                assert 400 <= answer.status < 500, (needed, answer)
        except (AssertionError, KeyError, ValueError) as error:
            wrong.append("%s: %r" % (name, error))
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    code = gateway.run([a_linter_takes_the_document, every_operation_can_be_done_as_the_document_says,
                        every_argument_is_taken_as_the_document_says, what_a_body_lacks_is_named_and_what_it_has_too_much])
    g.stop()
    sys.exit(code)
