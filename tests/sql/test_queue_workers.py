#!/usr/bin/env python3
"""Workers that know nothing but the SQL functions, in all isolation levels: what the library does for its own is done for them."""
import os
import random
import re
import sys
import threading

from bus import ROOT, Bus, Refused, run
from session import sessions, until, wait_for_wait

bus = Bus("queue_workers")
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
serial = 0


def fresh():
    """The name of a queue that no other test has."""
    global serial
    serial += 1
    return "w%d" % serial


def counts(queue):
    return bus.sql("SELECT pending, processing, scheduled, completed, failed, purged FROM {}.queue_states('%s')" % queue)[0]


def all_is_well(queue):
    found = bus.sql("SELECT what, n FROM {}.queue_findings() WHERE queue = '%s'" % queue)
    assert found == [], found


def push(queue, arguments=""):
    return bus.one("SELECT {}.push('%s'%s)" % (queue, arguments))


def within(session, level, *texts):
    """Rows of the last text, all of them in one transaction; again when the server asks for it."""
    while True:
        try:
            session.sql("BEGIN ISOLATION LEVEL " + level)
            rows = [session.sql(text) for text in texts][-1]
            session.sql("COMMIT")
            return rows
        except Refused as refused:
            session.sql("ROLLBACK")
            if refused.state not in ("40001", "40P01"):
                raise


def begin_with_a_snapshot(session, level):
    session.sql("BEGIN ISOLATION LEVEL %s; SELECT FROM {}.jobs" % level)


# ---- tidying


def a_claim_brings_out_the_next_of_a_key_that_an_old_snapshot_left_stuck():
    for level in LEVELS:
        q = fresh()
        with sessions(bus.url, 2) as (worker, old):
            first = push(q, ", key => 'k'")
            job, token = within(worker, level, "SELECT id, token FROM {}.claim('%s')" % q)[0]
            begin_with_a_snapshot(old, "REPEATABLE READ")
            second = push(q, ", key => 'k'")
            assert within(worker, level, "SELECT id FROM {}.claim('%s')" % q) == []
            assert old.one("SELECT {}.complete(%s, %s)" % (job, token)) == "t"
            old.sql("COMMIT")
            # It waits behind nobody, which is not wrong, because a claim puts it right.
            assert bus.column("SELECT id FROM {}.jobs WHERE due_at = 'infinity'"
                              " AND queue_id = (SELECT queue_id FROM {}.queues WHERE name = '%s')" % q) == [second]
            all_is_well(q)
            assert within(worker, level, "SELECT id FROM {}.claim('%s')" % q) == [(second,)], level
            assert job == first
        all_is_well(q)


def a_stuck_key_is_found_among_many_that_wait_and_behind_a_hot_one():
    q = fresh()
    bus.sql("SELECT {}.push('%s', key => 'k' || n %% 300) FROM generate_series(1, 600) AS n;"
            " SELECT {}.push('%s', key => 'hot') FROM generate_series(1, 2000);"
            " SELECT {}.push('%s', key => 'stuck') FROM generate_series(1, 2);"
            " SELECT count(*) FROM {}.claim('%s', 1000)" % (q, q, q, q))
    # As somebody leaves it who has not seen the second one.
    bus.sql("DELETE FROM {}.key_holders AS h USING {}.job_data AS p WHERE p.id = h.job_id AND p.key = 'stuck'"
            " AND p.queue_id = (SELECT queue_id FROM {}.queues WHERE name = '%s')" % q)
    assert bus.column("SELECT key FROM {}.claim('%s', 10)" % q) == ["stuck"]
    assert bus.column("SELECT key FROM {}.claim('%s', 10)" % q) == []


def of_two_sessions_one_wakes_and_the_other_does_not_wait():
    q = fresh()
    with sessions(bus.url, 2) as (a, b):
        push(q, ", key => 'k'")
        a.sql("SELECT FROM {}.claim('%s')" % q)
        push(q, ", key => 'k'")
        a.sql("BEGIN; SELECT FROM {}.claim('%s')" % q)
        assert b.sql("SELECT FROM {}.claim('%s')" % q) == []
        a.sql("ROLLBACK")


def end(session, level, queue, n):
    """Claims and completes so many, one after the other."""
    for _ in range(n):
        job = within(session, level, "SELECT id, token FROM {}.claim('%s')" % queue)[0]
        assert within(session, level, "SELECT {}.complete(%s, %s)" % job) == [("t",)]


def a_claim_removes_history_that_is_over_its_time():
    for level in LEVELS:
        q = fresh()
        bus.sql("SELECT {}.queue_set('%s', history_ms => 1); SELECT {}.push_batch('%s', array_fill('1'::json, '{5}'))" % (q, q))
        with sessions(bus.url, 1) as (worker,):
            end(worker, level, q, 5)
            bus.sql("SELECT pg_sleep(0.005)")
            assert within(worker, level, "SELECT id FROM {}.claim('%s')" % q) == []
        assert bus.one("SELECT count(*) FROM {}.queue_history('%s')" % q) == "0", level
        assert bus.one("SELECT count(*) FROM {}.job_data JOIN {}.queues USING (queue_id) WHERE name = '%s'" % q) == "0"
        assert counts(q) == ("0", "0", "0", "5", "0", "0")


def open_dead_letters_in_front_of_old_history_cost_a_claim_little():
    q = fresh()
    bus.sql("SELECT {}.push('%s') FROM generate_series(1, 1210)" % q)
    bus.sql("SELECT {}.fail(id, token, 'e') FROM {}.claim('%s', 1200);"
            " SELECT {}.complete(id, token) FROM {}.claim('%s', 10)" % (q, q))
    left = "SELECT count(*) FROM {}.history AS h JOIN {}.queues AS u USING (queue_id) WHERE u.name = '%s' AND NOT h.failed" % q
    spared = "SELECT r.spared > 0 FROM {}.removed_jobs AS r JOIN {}.queues AS u USING (queue_id) WHERE u.name = '%s'" % q
    bus.sql("SELECT {}.queue_set('%s', history_ms => 1)" % q)
    assert bus.one(left) == "10"
    # Each claim passes 500 of them by, and the next goes on there: the third one comes to the end.
    seen = []
    for _ in range(3):
        assert bus.column("SELECT id FROM {}.claim('%s')" % q) == []
        seen.append((bus.one(left), bus.one(spared)))
    assert seen == [("10", "t"), ("10", "t"), ("0", "f")], seen
    all_is_well(q)


def claims_that_never_come_back_short_remove_history_too():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', history_ms => 1); SELECT {}.push_batch('%s', array_fill('1'::json, '{1001}'));"
            " DO $$ BEGIN FOR n IN 1..1000 LOOP PERFORM {}.complete(id, token) FROM {}.claim('%s'); COMMIT; END LOOP; END $$" % (q, q, q))
    # One in thirty of them has tidied: none of a thousand would be a chance of 1 to 10^15.
    assert int(bus.one("SELECT count(*) FROM {}.queue_history('%s')" % q)) < 1000
    assert counts(q) == ("1", "0", "0", "1000", "0", "0")
    all_is_well(q)


def who_has_removed_history_and_stays_open_is_in_nobodys_way():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', history_ms => 1); SELECT {}.push_batch('%s', array_fill('1'::json, '{2}'))" % (q, q))
    with sessions(bus.url, 2) as (worker, other):
        end(worker, "READ COMMITTED", q, 2)
        bus.sql("SELECT pg_sleep(0.005)")
        worker.sql("BEGIN; SELECT FROM {}.claim('%s')" % q)
        assert worker.one("SELECT count(*) FROM {}.queue_history('%s')" % q) == "0"
        other.sql("SET statement_timeout = '10s'; SELECT {}.queue_set('%s', paused => true)" % q)
        assert other.one("SELECT {}.queue_tidy('%s')" % q) == "f"
        assert other.sql("SELECT FROM {}.claim('%s')" % q) == []
        worker.sql("COMMIT")
    assert counts(q) == ("0", "0", "0", "2", "0", "0")


def a_claim_with_nothing_to_tidy_reads_little():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', history_ms => 86400000); SELECT {}.push('%s', key => 'k');"
            " SELECT {}.complete(id, token) FROM {}.claim('%s');"
            " INSERT INTO {}.history (first_id, last_id, queue_id) SELECT -n, -n, queue_id"
            " FROM {}.queues, generate_series(1, 20000) AS n WHERE name = '%s'" % (q, q, q, q))
    read = bus.one("BEGIN; DO $$ BEGIN PERFORM {}.claim('%s'); END $$;"
                   " SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables"
                   " WHERE relname IN ('history', 'jobs', 'key_holders', 'job_data')" % q)
    assert int(read) <= 100, read
    bus.sql("DELETE FROM {}.history WHERE last_id < 0")


# ---- limits


def a_limit_holds_whatever_a_snapshot_shows():
    for level in LEVELS:
        q = fresh()
        bus.sql("SELECT {}.queue_set('%s', concurrency => 2); SELECT {}.push_batch('%s', array_fill('1'::json, '{9}'))" % (q, q))
        with sessions(bus.url, 2) as (old, other):
            begin_with_a_snapshot(old, level)
            # Of others than those that it sees.
            urgent = [push(q, ", priority => -1") for _ in range(2)]
            assert other.sql("SELECT id FROM {}.claim('%s', 2)" % q) == [(job,) for job in urgent]
            try:
                came = old.sql("SELECT id FROM {}.claim('%s', 2)" % q)
            except Refused as refused:
                assert refused.state == "40001" and level != "READ COMMITTED", (level, refused)
                came = []
            assert came == [], (level, came)
            old.sql("ROLLBACK")
            assert within(old, level, "SELECT id FROM {}.claim('%s', 2)" % q) == []
        assert counts(q) == ("9", "2", "0", "0", "0", "0")


def claims_of_a_limited_queue_take_turns():
    for level in LEVELS:
        q = fresh()
        bus.sql("SELECT {}.queue_set('%s', concurrency => 3); SELECT {}.push_batch('%s', array_fill('1'::json, '{9}'))" % (q, q))
        with sessions(bus.url, 3) as (a, first, second):
            first.sql("BEGIN ISOLATION LEVEL %s" % level)
            assert len(first.sql("SELECT id FROM {}.claim('%s', 2)" % q)) == 2
            second.sql("BEGIN ISOLATION LEVEL %s" % level)
            second.start("SELECT id FROM {}.claim('%s', 2)" % q)
            wait_for_wait(a, second, first)
            first.sql("COMMIT")
            try:
                assert len(second.end()) == 1 and level == "READ COMMITTED", level
            except Refused as refused:
                assert refused.state == "40001" and level != "READ COMMITTED", (level, refused)
                second.sql("ROLLBACK")
                assert len(within(second, level, "SELECT id FROM {}.claim('%s', 2)" % q)) == 1
            second.sql("COMMIT")
        assert counts(q) == ("6", "3", "0", "0", "0", "0")


# ---- purged events


def made_of_events(queue, n):
    """Jobs that a binding makes of so many events of a stream of their own, claimed: pairs of id and token."""
    bus.sql("SELECT FROM generate_series(1, %d) AS n, {}.append('%s', 'a.b', to_json(n));"
            " SELECT {}.route_events('%s', 'none', ARRAY(SELECT global_sequence FROM {}.events WHERE stream = '%s' ORDER BY 1))"
            % (n, queue, queue, queue))
    return bus.sql("SELECT id, token FROM {}.claim('%s', %d)" % (queue, n))


def a_job_in_hand_whose_event_is_purged_completes_or_ends_marked():
    q = fresh()
    done, failed, retried, released, extended = made_of_events(q, 5)
    bus.sql("SELECT FROM {}.purge_events('%s', reason => 'forget me')" % q)
    assert bus.one("SELECT {}.complete(%s, %s, 'fine')" % done) == "t"
    assert bus.one("SELECT {}.fail(%s, %s, 'no 1')" % failed) == "t"
    assert bus.one("SELECT {}.ack_jobs('{%s,%s,%s}', '{%s,%s,%s}', '{2,3,4}', '{again,NULL,NULL}', '{0,0,1}')" % (
        retried[0], released[0], extended[0], retried[1], released[1], extended[1])) == "{2,2,1}"
    assert bus.sql("SELECT state, error, result FROM {}.job_states(%s)" % done[0]) == [("completed", None, "fine")]
    marked = [("failed", "cancelled: purged: forget me", None)]
    for job in (failed, retried, released):
        assert bus.sql("SELECT state, error, result FROM {}.job_states(%s)" % job[0]) == marked, job
        assert bus.one("SELECT {}.job_rerun(%s)" % job[0]) == "purged"
    # The last one's lease runs out.
    bus.sql("SELECT pg_sleep(0.005)")
    assert bus.sql("SELECT id FROM {}.claim('%s', 9)" % q) == []
    assert bus.sql("SELECT state, error, result FROM {}.job_states(%s)" % extended[0]) == marked
    assert bus.sql("SELECT id FROM {}.job_dead_letter_states('%s', true)" % q) == []
    assert counts(q) == ("0", "0", "0", "1", "4", "0")
    all_is_well(q)


def a_job_that_comes_back_while_its_event_is_purged_is_cancelled_by_one_of_them():
    for first in ("retry", "purge"):
        q = fresh()
        job, = made_of_events(q, 1)
        calls = {"retry": "SELECT {}.retry(%s, %s, '0')" % job, "purge": "SELECT jobs FROM {}.purge_events('%s', reason => 'r')" % q}
        with sessions(bus.url, 3) as (a, one, two):
            one.sql("BEGIN; " + calls.pop(first))
            two.start(calls.popitem()[1])
            wait_for_wait(a, two, one)
            one.sql("COMMIT")
            two.end()
        assert bus.sql("SELECT state, error FROM {}.job_states(%s)" % job[0]) == [("failed", "cancelled: purged: r")], first
        assert bus.sql("SELECT id FROM {}.claim('%s')" % q) == []
        all_is_well(q)


def a_lease_that_ran_out_waits_for_nobody_who_purges():
    q = fresh()
    job, = made_of_events(q, 1)
    bus.sql("SELECT {}.extend(%s, %s, '1 ms')" % job)
    with sessions(bus.url, 1) as (purging,):
        purging.sql("BEGIN; SELECT FROM {}.purge_events('%s', reason => 'r')" % q)
        assert bus.sql("SET statement_timeout = '10s'; SELECT id FROM {}.claim('%s')" % q) == []
        assert counts(q) == ("0", "1", "0", "0", "0", "0")
        purging.sql("COMMIT")
    assert bus.sql("SELECT id FROM {}.claim('%s')" % q) == []
    assert counts(q) == ("0", "0", "0", "0", "1", "0")


# ---- waiting


def example():
    """The steps of the worker in docs/queue.md: what comes once, a round, and before it sleeps."""
    with open(os.path.join(ROOT, "docs", "queue.md"), encoding="utf-8") as f:
        text = re.search(r"## A worker in SQL\n.*?```sql\n(.*?)```", f.read(), re.S).group(1)
    steps = re.split(r"^-- .*\n", text, flags=re.M)[1:]
    assert len(steps) == 4, steps
    return [step.strip().rstrip(";") for step in steps]


def the_worker_of_the_manual_sleeps_until_a_push_rings():
    once, take, done, arm = example()
    with sessions(bus.url, 2) as (worker, pusher):
        pusher.sql("SET howdah.ring = on")
        worker.sql("CREATE TEMP TABLE sent_mails (who text)")
        heard = lambda: [row for row in worker.sql("SELECT 1") if "Asynchronous notification" in row[0]]
        pusher.sql("SELECT {}.queue_set('mail')")
        worker.sql(once)
        assert worker.sql(take) == []
        for who, rings in (("ann", True), ("bob", False), ("eve", True)):
            if who == "eve":
                worker.sql(arm)
                assert worker.sql(take) == []
            pusher.sql("SELECT {}.push('mail', '{\"to\":\"%s\"}')" % who)
            if rings:
                until(heard, "the push has rung")
            else:
                assert heard() == []  # nobody sleeps: nobody is called
            worker.sql(take + " \\gset\n")
            worker.sql(done)
        assert worker.sql("SELECT who FROM sent_mails") == [("ann",), ("bob",), ("eve",)]
    assert counts("mail") == ("0", "0", "0", "3", "0", "0")
    assert bus.one("SELECT {}.queue_arm('nobody')") is None


# ---- all at once


class Work(threading.Thread):
    """Claims and settles in one isolation level until all is done, and notes what it had."""

    def __init__(self, session, level, queue, notes, seed):
        super().__init__()
        self.session, self.level, self.queue, self.notes = session, level, queue, notes
        self.dice = random.Random(seed)
        self.trouble = None
        self.over = threading.Event()

    def run(self):
        try:
            while not self.over.is_set():
                self.run_exchange()
        except Exception as trouble:  # it is told by the test
            self.trouble = trouble

    def ack(self, job, token, tries):
        call = self.dice.choices(("complete", "retry", "fail", "release"), (12, 2, 1, 1))[0]
        if call == "fail" or call == "retry" and tries > 3:
            call = "complete"
        more = {"complete": "", "retry": ", '0'", "release": ""}[call]
        said = within(self.session, self.level, "SELECT {}.%s(%s, %s%s)" % (call, job, token, more))
        self.notes.append((call if said == [("t",)] else "lost", int(job), int(token)))

    def run_exchange(self):
        lease = "1 ms" if self.dice.random() < 0.03 else "1 minute"
        if self.dice.random() < 0.2:
            # A snapshot that others leave behind.
            take = ("SELECT FROM {}.jobs", "SELECT pg_sleep(%f)" % (self.dice.random() / 100))
        else:
            take = ()
        for job, token, tries in within(self.session, self.level, *take, "SELECT id, token, attempts FROM {}.claim('%s', %d,"
                                        " lease => '%s')" % (self.queue, self.dice.randint(1, 3), lease)):
            self.ack(job, token, int(tries))


def check_race(limit):
    q, n = fresh(), 300
    seed = int(os.environ.get("HOWDAH_SEED", random.randrange(2**32)))
    print("# HOWDAH_SEED=%d" % seed)
    bus.sql("SELECT {}.queue_set('%s', concurrency => %d, max_attempts => 1000, backoff_initial_ms => 1)" % (q, limit))
    # Every lease as it is made: who is in the way of whom, and how many there are, is seen by the server itself.
    notes = []
    with sessions(bus.url, 8) as (pusher, observer, *workers):
        threads = [Work(session, LEVELS[i % 3], q, notes, seed + i) for i, session in enumerate(workers)]
        for thread in threads:
            thread.start()
        try:
            for i in range(n // 10):
                pusher.sql("SELECT {}.push('%s', key => 'k' || (%d + n) %% 7, priority => n %% 3) FROM generate_series(1, 10) AS n" % (q, i))
                for leased, keys in observer.sql(
                        "SELECT coalesce(sum(cardinality(l.ids)), 0), (SELECT count(*) FROM (SELECT FROM {}.leases AS x, unnest(x.keys) AS k"
                        " WHERE x.queue_id = q.queue_id GROUP BY k HAVING count(*) > 1) AS y) FROM {}.queues AS q"
                        " LEFT JOIN {}.leases AS l USING (queue_id) WHERE q.name = '%s' GROUP BY q.queue_id" % q):
                    assert int(leased) <= (limit or 10**9) and keys == "0", (leased, keys)
            until(lambda: any(t.trouble for t in threads) or counts(q)[3] == str(n), "all jobs are completed")
        finally:
            for thread in threads:
                thread.over.set()
            for thread in threads:
                thread.join()
    trouble = [thread.trouble for thread in threads if thread.trouble]
    assert not trouble, trouble
    assert counts(q) == ("0", "0", "0", str(n), "0", "0")
    all_is_well(q)
    done = [job for call, job, _ in notes if call == "complete"]
    assert len(done) == n and len(set(done)) == n, len(done)
    # Jobs of a key end in the order of their ids.
    assert bus.one("SELECT count(*) FROM (SELECT e.job_id, lag(e.job_id) OVER (PARTITION BY p.key ORDER BY e.position) AS before"
                   " FROM {}.event_log AS e JOIN {}.job_data AS p ON p.id = e.job_id JOIN {}.queues AS q ON q.queue_id = e.queue_id"
                   " WHERE q.name = '%s') AS x WHERE before > job_id" % q) == "0"
    tokens = [token for _, _, token in notes]
    assert len({(job, token) for call, job, token in notes if call != "lost"}) == len(notes) - sum(c == "lost" for c, _, _ in notes), tokens


def workers_of_all_isolation_levels_share_a_queue_with_keys():
    check_race(0)


def workers_of_all_isolation_levels_keep_a_limit():
    check_race(3)


if __name__ == "__main__":
    sys.exit(run([
        a_claim_brings_out_the_next_of_a_key_that_an_old_snapshot_left_stuck,
        a_stuck_key_is_found_among_many_that_wait_and_behind_a_hot_one,
        of_two_sessions_one_wakes_and_the_other_does_not_wait, a_claim_removes_history_that_is_over_its_time,
        open_dead_letters_in_front_of_old_history_cost_a_claim_little,
        claims_that_never_come_back_short_remove_history_too, who_has_removed_history_and_stays_open_is_in_nobodys_way,
        a_claim_with_nothing_to_tidy_reads_little, a_limit_holds_whatever_a_snapshot_shows,
        claims_of_a_limited_queue_take_turns, a_job_in_hand_whose_event_is_purged_completes_or_ends_marked,
        a_job_that_comes_back_while_its_event_is_purged_is_cancelled_by_one_of_them,
        a_lease_that_ran_out_waits_for_nobody_who_purges, the_worker_of_the_manual_sleeps_until_a_push_rings,
        workers_of_all_isolation_levels_share_a_queue_with_keys, workers_of_all_isolation_levels_keep_a_limit]))
