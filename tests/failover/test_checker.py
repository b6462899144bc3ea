#!/usr/bin/env python3
"""The checker itself: it finds what is planted, and nothing where nothing is."""
import copy
import os
import random
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "meta"))
import tap  # noqa: E402
from checker import Event, History, Job, matches  # noqa: E402

RUNS = 100


def good(seed):
    """A history as a correct library makes it, with a server that lost its last events."""
    dice = random.Random(seed)
    history = History()
    plain = history.subscription("plain", pattern="order.*")
    exact = history.subscription("exact", effects=True)
    late = history.subscription("late", not_before=["e1", "e2"])
    history.queues["mail"] = "order.>"
    kept = dice.randrange(5, 15)
    lost = dice.randrange(1, 10)
    versions, n = {}, 0

    def one(event_id, log):
        stream = "s%d" % dice.randrange(3)
        versions[stream] = versions.get(stream, 0) + 1
        log.append(Event(len(log) + 1, event_id, stream, versions[stream], dice.choice(["order.new", "cart.new"])))

    def deliver(event):
        for sub in (plain, late):
            if event in sub.outstanding([event]):
                if dice.random() < 0.2:
                    sub.saw(event.id, event.sequence, handled=False)
                for _ in range(dice.choice([1, 1, 2])):  # at least once
                    sub.saw(event.id, event.sequence)
        exact.saw(event.id, event.sequence)

    log = []
    for n in range(1, kept + 1):
        one("e%d" % n, log)
        history.append("e%d" % n, "ok")
    history.secure()
    before = dict(versions)
    for event in log:
        deliver(event)
    for n in range(kept + 1, kept + lost + 1):
        one("e%d" % n, log)
        history.append("e%d" % n, dice.choice(["ok", "unknown"]))
        deliver(log[-1])
    history.replaced()
    del log[kept:]
    versions.clear()
    versions.update(before)
    for n in range(kept + lost + 1, kept + lost + 30):
        one("e%d" % n, log)
        history.append("e%d" % n, "ok")
        deliver(log[-1])
    history.append("no", "refused")
    history.secure()
    history.log = log
    history.effects = [("exact", e.id) for e in log]
    history.jobs["mail"] = [Job(i, e.id, "completed") for i, e in enumerate(log, 1) if e.type == "order.new"]
    history.runs = {("mail", job.event_id) for job in history.jobs["mail"]}
    return history


def pick(history, dice, outstanding_by=0):
    """An event of the new server's that is outstanding."""
    return dice.choice([e for e in history.subscriptions[outstanding_by].outstanding(history.log) if e.id in history.safe][-10:])


def forget_delivery(history, dice):
    event = pick(history, dice)
    sub = history.subscriptions[0]
    sub.deliveries = [d for d in sub.deliveries if d.id != event.id]


def fail_delivery(history, dice):
    event = pick(history, dice)
    sub = history.subscriptions[0]
    sub.deliveries = [d._replace(handled=False) if d.id == event.id else d for d in sub.deliveries]


def halt_without_need(history, _):
    history.may_halt = False
    history.subscriptions[0].halted = "the log was replaced"


def halt_without_reason(history, dice):
    forget_delivery(history, dice)
    history.subscriptions[0].halted = ""


def swap(history, dice):
    sub = history.subscriptions[2]
    stream = pick(history, dice, 2).stream
    outstanding = [e for e in sub.outstanding(history.log) if e.stream == stream][-2:]
    sub.deliveries = [d for d in sub.deliveries if d.id not in (outstanding[0].id, outstanding[1].id)]
    for event in outstanding[::-1]:
        sub.saw(event.id, event.sequence)


def deliver_stranger(history, _):
    history.subscriptions[0].saw("nobody", 3)


def forget_effect(history, dice):
    history.effects.remove(("exact", pick(history, dice, 1).id))


def repeat_effect(history, dice):
    history.effects.append(("exact", pick(history, dice, 1).id))


def effect_of_lost(history, _):
    kept = {e.id for e in history.log}
    history.effects.append(("exact", next(i for i in history.appended if i not in kept)))


def swap_effects(history, dice):
    stream = pick(history, dice, 1).stream
    first, second = [e.id for e in history.log if e.stream == stream][-2:]
    history.effects = [(s, {first: second, second: first}.get(e, e)) for s, e in history.effects]


def halt_a_group(history, _):
    history.subscriptions[0].shared = True
    history.subscriptions[0].halted = "the log was replaced"


def give_up_an_event_of_a_group(history, dice):
    history.subscriptions[0].shared = True
    history.subscriptions[0].dead.add(pick(history, dice).id)


def tear_versions(history, dice):
    stream = pick(history, dice, 1).stream
    history.log = [e._replace(version=e.version + 1) if e.stream == stream and e.version > 1 else e
                   for e in history.log]
    if not any(e.stream == stream and e.version > 1 for e in history.log):
        history.log = [e._replace(version=2) if e.stream == stream else e for e in history.log]


def lose_acknowledged(history, _):
    history.log = history.log[:-1]
    history.effects = history.effects[:-1]
    kept = {e.id for e in history.log}
    history.jobs["mail"] = [job for job in history.jobs["mail"] if job.event_id in kept]


def store_refused(history, _):
    history.appended[history.log[-1].id] = "refused"


def forget_job(history, _):
    history.jobs["mail"].pop()


def repeat_job(history, _):
    history.jobs["mail"].append(history.jobs["mail"][-1]._replace(id=999))


def job_of_lost(history, _):
    kept = {e.id for e in history.log}
    history.jobs["mail"].append(Job(999, next(i for i in history.appended if i not in kept), "completed"))


def leave_job(history, _):
    history.jobs["mail"][-1] = history.jobs["mail"][-1]._replace(status="pending")


def complete_what_never_ran(history, _):
    history.runs.discard(("mail", history.jobs["mail"][-1].event_id))


def show_another_payload(history, _):
    job = history.jobs["mail"][-1]
    history.mixed.add(("mail", job.event_id, history.log[0].id))


def acknowledge_after_the_change(history, _):
    """Sent to the new server, and not in its log."""
    history.append("late", "ok", sent=history.moment)
    history.secure()


PLANTED = {
    show_another_payload: "mixed", acknowledge_after_the_change: "lost",
    forget_delivery: "missing", fail_delivery: "missing", halt_without_need: "missing",
    halt_without_reason: "missing", swap: "order", deliver_stranger: "stranger", forget_effect: "missing",
    repeat_effect: "twice", effect_of_lost: "phantom", tear_versions: "hole", lose_acknowledged: "lost",
    store_refused: "refused", forget_job: "missing", repeat_job: "twice", job_of_lost: "phantom",
    swap_effects: "order", halt_a_group: "missing", give_up_an_event_of_a_group: "dead", leave_job: "idle", complete_what_never_ran: "idle",
}


def nothing_is_found_where_nothing_is():
    for seed in range(10 * RUNS):
        found = good(seed).findings()
        assert not found, "seed %d: %s" % (seed, found)


def planted(mutate, kind):
    def case():
        for seed in range(RUNS):
            history = copy.deepcopy(good(seed))
            mutate(history, random.Random(seed))
            found = history.findings()
            kinds = {text.split(":")[0] for text in found}
            assert kind in kinds, "seed %d: %s" % (seed, found)
            assert mutate is tear_versions or kinds == {kind}, "seed %d: %s" % (seed, found)
    return "%s is found as %s" % (mutate.__name__.replace("_", " "), kind), case


def patterns_match_as_the_library_says():
    for pattern, text, so in (
            (None, "a", True), ("a", "a", True), ("a", "b", False), ("*", "a", True), ("*", "a.b", False),
            ("a.*", "a.b", True), ("a.*", "a", False), ("a.>", "a", False), ("a.>", "a.b.c", True),
            (">", "a.b", True), ("*.b", "a.b", True), ("*.b", "a.c", False)):
        assert matches(pattern, text) == so, (pattern, text)


def a_reason_to_halt_excuses_what_is_missing():
    history = good(1)
    forget_delivery(history, random.Random(1))
    history.subscriptions[0].halted = "the log was replaced"
    assert not history.findings(), history.findings()


def who_was_answered_while_the_server_changed_may_have_lost_the_event():
    history = good(2)
    history.append("before", "ok", sent=history.moment - 1)
    history.moment += 1
    history.append("meanwhile", "ok", sent=history.moment)
    history.secure()
    assert not history.findings(), history.findings()


def a_binding_with_a_reason_to_halt_is_excused():
    history = good(3)
    forget_job(history, None)
    assert history.findings()
    history.halted["mail"] = "the log was replaced"
    assert not history.findings(), history.findings()
    history.may_halt = False
    assert history.findings()


if __name__ == "__main__":
    sys.exit(tap.run([nothing_is_found_where_nothing_is, patterns_match_as_the_library_says,
                      a_reason_to_halt_excuses_what_is_missing, a_binding_with_a_reason_to_halt_is_excused,
                      who_was_answered_while_the_server_changed_may_have_lost_the_event] + [planted(m, k) for m, k in PLANTED.items()]))
