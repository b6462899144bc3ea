#!/usr/bin/env python3
"""Who may do what: every route of the gateway's own document, with every right, and with tokens of another scope.

  test_matrix.py sqlite|postgresql

The rows are made from /openapi.json: a route that nobody thought of here fails.  A token that may not is refused with
401 or 403 before anything else is looked at; one that may gets another answer, whatever that is.
"""
import sys

import gateway

STORE = gateway.make_store(sys.argv[1], "matrix")
RIGHTS = ("read", "publish", "subscribe", "work", "admin")
SCOPES = {"inside": ["--pattern", "order.>", "--stream", "order-*", "--queue", "mail*"],
          "outside": ["--pattern", "other.*", "--stream", "other", "--queue", "other"],
          "other case": ["--pattern", "ORDER.>", "--stream", "ORDER-*", "--queue", "MAIL*"]}
# Bodies with which a handler comes to what a scope is about.
EVENT = {"stream": "order-1", "type": "order.paid", "data": {}}
FILTER = {"pattern": "order.*", "stream": "order-1"}
BODIES = {
    ("POST", "/v1/events"): EVENT,
    ("POST", "/v1/events/{id}/corrections"): {"data": {}, "reason": "r"},
    ("PUT", "/v1/subscriptions/{name}"): FILTER,
    ("POST", "/v1/subscriptions/{name}/ack"): {"token": "l1-1"},
    ("POST", "/v1/subscriptions/{name}/nack"): {"token": "l1-1", "global_sequence": 1},
    ("POST", "/v1/subscriptions/{name}/extend"): {"token": "l1-1"},
    ("POST", "/v1/subscriptions/{name}/reset"): {"to": 0},
    ("POST", "/v1/queues/{queue}/jobs"): {"data": 1},
    ("POST", "/v1/dead-letters/redrive"): {"queue": "mails"},
    ("POST", "/v1/dead-letters/discard"): {"queue": "mails", "reason": "r"},
}
# What is asked for with arguments; without them a limited token asks for too much.
QUERIES = {("GET", "/v1/events"): "?pattern=order.*&stream=order-1",
           ("GET", "/v1/events/live"): "?pattern=order.*&stream=order-1",
           ("GET", "/v1/diff"): "?known_at=2020-01-01T00:00:00Z&pattern=order.*&stream=order-1",
           ("DELETE", "/v1/events/{id}"): "?reason=r"}
# Lists, which leave out what is out of scope.
LISTS = {("GET", "/v1/subscriptions"), ("GET", "/v1/queues"), ("GET", "/v1/bindings"), ("GET", "/v1/dead-letters")}
# What shows the whole bus is for tokens without limits.
WHOLE = {("GET", "/v1/status"), ("GET", "/v1/verify"), ("GET", "/v1/doctor"), ("GET", "/v1/events/{id}/trace"),
         ("GET", "/metrics"), ("POST", "/v1/jobs/ack")}
# A stream has events of all types, a binding those of all streams.
TOO_MUCH = ("{stream}", "/v1/bindings/{queue}/{pattern}")


class World:
    """A bus with one of everything, and a gateway before it."""

    def __init__(self):
        self.gateway = gateway.Gateway(STORE, "--access-log", "off")
        g = self.gateway
        self.event = g.post("/v1/events", EVENT).json["id"]
        assert g.put("/v1/subscriptions/billing", FILTER).status == 201
        self.job = None
        self.tokens = {}
        for right in RIGHTS:
            self.tokens[right] = add(right, right)
        for scope, limits in SCOPES.items():
            self.tokens[scope] = add(scope, ",".join(RIGHTS), *limits)
        # The last one that was added is known last; before the first one everybody may.
        gateway.wait_until(lambda: g.get("/v1/status").status == 401 and
                           g.get("/v1/subscriptions", token=self.tokens["other case"]).status == 200)
        self.admin = self.tokens["admin"]

    def job_id(self):
        return self.gateway.post("/v1/queues/mails/jobs", {"data": 1}, token=self.admin).json["id"]

    def path(self, template):
        ids = {"/v1/events/{id}": self.event, "/v1/dead-letters/{id}": "1"}
        for start, one in ids.items():
            if template.startswith(start):
                template = template.replace("{id}", one)
        if template.startswith("/v1/jobs/{id}"):
            self.job = self.job or self.job_id()
            template = template.replace("{id}", str(self.job))
        return (template.replace("{stream}", "order-1").replace("{name}", "billing").replace("{queue}", "mails")
                .replace("{pattern}", "order.*"))

    def ask(self, method, template, token):
        body = BODIES.get((method, template), {}) if method in ("POST", "PUT") else None
        path = self.path(template) + QUERIES.get((method, template), "")
        return self.gateway.ask(method, path, body, token=token)


def add(name, may, *limits):
    return gateway.lines("serve", "token", "add", name, "--may", may, *limits, store=STORE)[0]["token"]


world = World()
document = world.gateway.get("/openapi.json").json
ROUTES = [(method.upper(), path, operation["x-right"]) for path, operations in document["paths"].items()
          for method, operation in operations.items()]
# What changes most comes last: a subscription that is removed cannot be paused.
ROUTES.sort(key=lambda route: (route[0] == "DELETE", route[1], route[0]))


def every_route_names_a_right():
    assert {right for _, _, right in ROUTES} == {"anybody", *RIGHTS}, ROUTES
    assert len(ROUTES) >= 40


def without_a_token_only_health_and_the_document_are_answered():
    for method, path, right in ROUTES:
        answer = world.ask(method, path, False)
        if right == "anybody":
            assert answer.status == 200, (method, path, answer)
        else:
            assert answer.status == 401 and answer.headers["WWW-Authenticate"] == 'Bearer realm="howdah"', (method, path, answer)


def each_right_opens_its_own_routes_and_admin_all():
    wrong = []
    for method, path, right in ROUTES:
        for given in RIGHTS:
            answer = world.ask(method, path, world.tokens[given])
            may = right in ("anybody", given) or given == "admin"
            if (answer.status in (401, 403)) == may or answer.status >= 500:
                wrong.append((method, path, right, given, answer))
            elif not may and "may not " + right not in answer.json["detail"]:
                wrong.append((method, path, right, given, answer))
    assert not wrong, "\n".join(map(str, wrong))


def a_token_of_another_scope_sees_nothing():
    renew()
    wrong = []
    for method, path, right in ROUTES:
        for scope in ("outside", "other case"):
            answer = world.ask(method, path, world.tokens[scope])
            if right == "anybody":
                expected = (200,)
            elif (method, path) in LISTS:
                expected = (200,)
                if any(value for value in answer.json.values() if isinstance(value, list)):
                    wrong.append((method, path, scope, answer))
            elif (method, path) in WHOLE or path.startswith("/v1/webhooks") or "/subscriptions/" in path or "{queue}" in path or "{stream}" in path \
                    or path in ("/v1/events", "/v1/events/live", "/v1/diff", "/v1/dead-letters/redrive", "/v1/dead-letters/discard"):
                expected = (403,)
            else:
                expected = (404,)  # by an id: as if it did not exist
            if answer.status not in expected:
                wrong.append((method, path, scope, answer))
    assert not wrong, "\n".join(map(str, wrong))


def a_token_of_the_right_scope_gets_in():
    renew()
    wrong = []
    for method, path, right in ROUTES:
        answer = world.ask(method, path, world.tokens["inside"])
        refused = (method, path) in WHOLE or path.startswith("/v1/webhooks") or any(part in path for part in TOO_MUCH)
        if (answer.status == 403) != refused or answer.status in (401,) or answer.status >= 500:
            wrong.append((method, path, answer))
        if (method, path) in LISTS and path in ("/v1/subscriptions", "/v1/queues") and answer.body.count(b'"mails"') \
                + answer.body.count(b'"billing"') == 0:
            wrong.append((method, path, answer))
    assert not wrong, "\n".join(map(str, wrong))


def renew():
    """What the rows before have removed or purged."""
    g = world.gateway
    world.event = g.post("/v1/events", EVENT, token=world.admin).json["id"]
    assert g.put("/v1/subscriptions/billing", FILTER, token=world.admin).status in (200, 201)
    world.job = world.job_id()


CASES = [every_route_names_a_right, without_a_token_only_health_and_the_document_are_answered,
         each_right_opens_its_own_routes_and_admin_all, a_token_of_another_scope_sees_nothing,
         a_token_of_the_right_scope_gets_in]
if __name__ == "__main__":
    code = gateway.run(CASES)
    world.gateway.stop()
    sys.exit(code)
