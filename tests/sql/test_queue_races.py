#!/usr/bin/env python3
"""The work queue in SQL, several sessions at once: each waits for the other where it has to, and only there."""
import atexit
import re
import subprocess
import sys

from bus import HOWDAH, Bus, psql, run
from session import Session, sessions, until, wait_for_wait

bus = Bus("queue_races")
main = Session(bus.url)  # for what is done often
atexit.register(main.close)
serial = 0


def fresh():
    """The name of a queue that no other test has."""
    global serial
    serial += 1
    return "q%d" % serial


def counts(queue):
    return main.sql("SELECT pending, processing, scheduled, completed, failed, purged FROM {}.queue_states('%s')"
                    % queue)[0]


def claim(queue, n=1, more=""):
    """Pairs of id and token."""
    return main.sql("SELECT id, token FROM {}.claim('%s', %d%s)" % (queue, n, more))


def claimed(session, queue, n=1):
    """Ids only."""
    return [row[0] for row in session.sql("SELECT id FROM {}.claim('%s', %d)" % (queue, n))]


def push(queue, arguments=""):
    return main.one("SELECT {}.push('%s'%s)" % (queue, arguments))


def all_is_well(queue):
    found = main.sql("SELECT what, n FROM {}.queue_findings() WHERE queue = '%s'" % queue)
    assert found == [], found


def ack(jobs, verdicts, notes="NULL", afters="NULL"):
    """jobs: pairs of id and token."""
    return "SELECT {}.ack_jobs('{%s}', '{%s}', %s, %s, %s)" % (
        ",".join(job[0] for job in jobs), ",".join(job[1] for job in jobs), verdicts, notes, afters)


# ---- leases that are split


def with_a_pause_in_a_ack():
    """A session with test.pass = n waits before its UPDATE of leases number n, from 0 on, for whoever has lock 1."""
    bus.sql("""
        CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE
            pass constant integer := nullif(current_setting('test.pass', true), '');
        BEGIN
            IF pass = 0 THEN
                PERFORM pg_advisory_xact_lock_shared(1);
            END IF;
            PERFORM set_config('test.pass', (pass - 1)::text, false);
            RETURN NULL;
        END $$;
        CREATE TRIGGER pause BEFORE UPDATE ON {}.leases FOR EACH STATEMENT EXECUTE FUNCTION pause()""")


def check_split(notes, passes):
    q = fresh()
    for key in "abcd":
        push(q, ", key => '%s'" % key)
    jobs = claim(q, 4)
    with sessions(bus.url, 4) as (a, gate, other, acking):
        gate.sql("SELECT pg_advisory_lock(1)")
        acking.sql("SET test.pass = '%d'" % passes)
        other.sql("BEGIN")
        assert other.one("SELECT {}.extend(%s, %s, '1 ms')" % jobs[1]) == "t"
        acking.start(ack(jobs[:3], "'{0,0,0}'", notes))
        wait_for_wait(a, acking, other)
        other.sql("COMMIT")
        wait_for_wait(a, acking, gate)
        # Its time is over; but it is in the hands of the settlement.
        assert a.one("SELECT count(*) FROM {}.leases WHERE token = %s AND until < clock_timestamp()"
                     % jobs[0][1]) == "1"
        assert a.one("SELECT {}.queue_tidy('%s')" % q) == "f"
        gate.sql("SELECT pg_advisory_unlock(1)")
        assert acking.end() == [("{1,1,1}",)]
    all_is_well(q)
    assert counts(q) == ("0", "1", "0", "3", "0", "0")
    assert bus.column("SELECT job_id FROM {}.queue_history('%s') ORDER BY 1" % q) == [job for job, _ in jobs[:3]]
    assert claim(q, 4) == []


def a_part_that_a_lease_gets_while_its_ack_waits_is_acked_too():
    with_a_pause_in_a_ack()
    try:
        check_split("NULL", 1)
        check_split("'{x,y,z}'", 0)
    finally:
        bus.sql("DROP FUNCTION pause CASCADE")


# ---- in which order keys are woken


def keys_are_woken_in_one_order_whoever_wakes_them():
    q = fresh()
    for _ in "12":
        for key in range(8):
            push(q, ", key => '%d'" % key)
    jobs = claim(q, 16)
    assert len(jobs) == 8 and claim(q, 16) == []  # the second of each key is set aside
    aside = bus.sql("SELECT j.id, j.key_hash FROM {}.jobs AS j WHERE j.due_at = 'infinity' AND j.queue_id ="
                    " (SELECT queue_id FROM {}.queues WHERE name = '%s') ORDER BY j.key_hash" % q)
    assert len(aside) == 8
    # Whoever has the first one keeps others from the rest: they wait before they lock anything.
    with sessions(bus.url, 3) as (a, other, acking):
        other.sql("BEGIN; SELECT FROM {}.jobs WHERE id = %s FOR UPDATE" % aside[0][0])
        acking.start(ack(jobs, "'{0,0,0,0,0,0,0,0}'", "NULL"))
        wait_for_wait(a, acking, other)
        free = [row[0] for row in a.sql("SELECT id FROM {}.jobs WHERE id IN (%s) FOR UPDATE SKIP LOCKED"
                                        % ",".join(job for job, _ in aside[1:]))]
        assert sorted(free) == sorted(job for job, _ in aside[1:])
        other.sql("COMMIT")
        assert acking.end() == [("{1,1,1,1,1,1,1,1}",)]
    all_is_well(q)
    assert sorted(job for job, _ in claim(q, 16)) == sorted(job for job, _ in aside)


# ---- old snapshots


def a_job_set_aside_behind_a_snapshot_is_woken_by_tidying():
    q = fresh()
    first = push(q, ", key => 'k'")
    (job, token), = claim(q)
    with sessions(bus.url, 2) as (a, old):
        old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM {}.jobs")
        second = push(q, ", key => 'k'")
        assert claimed(a, q) == []
        assert old.one("SELECT {}.complete(%s, %s)" % (job, token)) == "t"
        old.sql("COMMIT")
        assert a.one("SELECT {}.queue_tidy('%s')" % q) == "f"
        all_is_well(q)
        assert job == first and claimed(a, q, 5) == [second]
    assert counts(q) == ("0", "1", "0", "1", "0", "0")


def a_job_set_aside_behind_one_that_an_old_snapshot_cancels_is_woken_by_tidying():
    q = fresh()
    first = push(q, ", key => 'k', delay => '1 hour'")
    with sessions(bus.url, 2) as (a, old):
        old.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM {}.jobs")
        second = push(q, ", key => 'k'")
        assert claimed(a, q) == []
        assert a.one("SELECT due_at = 'infinity' FROM {}.jobs WHERE id = %s" % second) == "t"
        assert old.one("SELECT {}.job_cancel(%s)" % first) == "cancelled"
        old.sql("COMMIT")
        assert a.one("SELECT {}.queue_tidy('%s')" % q) == "f"
        all_is_well(q)
        assert claimed(a, q, 5) == [second]
    assert counts(q) == ("0", "1", "0", "0", "1", "0")


def tidying_wakes_nobody_who_waits_behind_another_one():
    q = fresh()
    jobs = [push(q, ", key => 'k'"), push(q, ", key => 'k'"), push(q, ", key => 'l', delay => '1 hour'"),
            push(q, ", key => 'l'")]
    assert [job for job, _ in claim(q, 5)] == jobs[:1]
    aside = "SELECT id FROM {}.jobs WHERE due_at = 'infinity' AND id = ANY ('{%s}') ORDER BY id" % ",".join(jobs)
    assert bus.column(aside) == [jobs[1], jobs[3]]
    bus.sql("SELECT {}.queue_tidy('%s')" % q)
    assert bus.column(aside) == [jobs[1], jobs[3]]
    all_is_well(q)


# ---- keys


def two_failures_of_a_held_key_that_are_tried_again_run_in_order():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', hold_key => true, max_attempts => 1)" % q)
    first, second = push(q, ", key => 'k'"), push(q, ", key => 'k'")
    for expected in (first, second):
        (job, token), = claim(q, 5)
        assert job == expected
        bus.sql("SELECT {}.fail(%s, %s, 'no')" % (job, token))
        if job == first:
            assert main.one("SELECT {}.job_dead_letters_set_state(NULL, '%s', 'discarded', 'r')" % q) == "1"
    assert main.one("SELECT {}.job_rerun(%s)" % first) == "ready"
    # It waits behind the second one, which holds the key.
    assert claim(q, 5) == []
    assert main.one("SELECT {}.job_rerun(%s)" % second) == "ready"
    all_is_well(q)
    for expected in (first, second):
        (job, token), = claim(q, 5)
        assert job == expected
        assert main.one("SELECT {}.complete(%s, %s)" % (job, token)) == "t"
    assert claim(q, 5) == []
    assert counts(q) == ("0", "0", "0", "2", "0", "0")


def a_job_set_aside_behind_one_that_is_purged_can_be_claimed():
    q = fresh()
    plain, delayed = push(q), push(q, ", key => 'k', delay => '1 hour'")
    with sessions(bus.url, 3) as (a, other, purging):
        other.sql("BEGIN; SELECT FROM {}.jobs WHERE id = %s FOR UPDATE" % plain)
        purging.start("SELECT {}.queue_purge('%s')" % q)
        wait_for_wait(a, purging, other)
        late = push(q, ", key => 'k'")
        assert claimed(a, q, 5) == []
        assert a.one("SELECT due_at = 'infinity' FROM {}.jobs WHERE id = %s" % late) == "t"
        other.sql("COMMIT")
        assert purging.end() == [("2",)]
        all_is_well(q)
        assert bus.sql("SELECT FROM {}.job_data WHERE id IN (%s, %s)" % (plain, delayed)) == []
        assert claimed(a, q, 5) == [late]
    assert counts(q) == ("0", "1", "0", "0", "0", "2")


def an_open_transaction_on_a_key_keeps_nobody_from_other_jobs():
    for completes in (True, False):
        q = fresh()
        first = push(q, ", key => 'a'")
        if completes:
            (job, token), = claim(q)
        second, other, plain = push(q, ", key => 'a'"), push(q, ", key => 'b'"), push(q)
        with sessions(bus.url, 2) as (a, open_one):
            open_one.sql("BEGIN")
            if completes:
                assert open_one.one("SELECT {}.complete(%s, %s)" % (job, token)) == "t"
            else:
                assert claimed(open_one, q) == [first]
            assert [claimed(a, q) for _ in range(3)] == [[other], [plain], []]
            open_one.sql("COMMIT")
            assert claimed(a, q) == ([second] if completes else [])
        all_is_well(q)
        assert counts(q) == (("0", "3", "0", "1", "0", "0") if completes else ("0", "3", "1", "0", "0", "0"))


# ---- verdicts


def verdicts_that_are_none_change_nothing():
    q = fresh()
    push(q), push(q), push(q, ", key => 'k'")
    jobs = claim(q, 3)
    state = "SELECT l::text FROM {}.leases AS l WHERE token = %s" % jobs[0][1]
    before = bus.sql(state)
    assert len(before) == 1
    bus.refuses_all(*(
        (ack(some, verdicts, *more), "UH006", "^verdicts: must be 0 to 4, as many as ids and tokens$")
        for some, verdicts, more in (
            (jobs, "'{0,NULL,0}'", ()), (jobs, "'{NULL,NULL,NULL}'", ()), (jobs[:1], "'{NULL}'", ()),
            (jobs, "NULL", ()), (jobs, "'{}'", ()), (jobs[:1], "'{5}'", ()), (jobs, "'{0,-1,0}'", ()),
            (jobs, "'{0,0}'", ()), (jobs[:2], "'{0,0,0}'", ()), (jobs, "'{0,0,0}'", ("'{x}'",)),
            (jobs, "'{2,2,2}'", ("NULL", "'{1,1}'")))))
    bus.refuses("SELECT {}.ack_jobs('{%s}', '{%s}', '{0,0}', NULL, NULL)" % (jobs[0][0], jobs[0][1]), "UH006")
    bus.refuses("SELECT {}.ack_jobs('{%s}', NULL, '{0}', NULL, NULL)" % jobs[0][0], "UH006")
    assert bus.sql(state) == before
    all_is_well(q)
    assert counts(q) == ("0", "3", "0", "0", "0", "0")
    assert main.one("SELECT {}.ack_jobs('{}', '{}', '{}', NULL, NULL)") == "{}"
    assert main.one(ack(jobs, "'{0,1,3}'")) == "{1,1,1}"


# ---- order of locks


def trying_a_job_again_and_marking_its_dead_letter_take_turns():
    for mark in ("redrive", "discarded"):
        q = fresh()
        bus.sql("SELECT {}.queue_set('%s', hold_key => true)" % q)
        job = push(q, ", max_attempts => 1, key => 'k'")
        bus.sql("SELECT {}.fail(id, token, 'no') FROM {}.claim('%s')" % q)
        with sessions(bus.url, 4) as (a, holder, retrying, marking):
            # Trying it again waits in the midst: somebody looks at the key that it gives back.
            holder.sql("BEGIN; SELECT FROM {}.key_holders WHERE job_id = %s FOR UPDATE" % job)
            retrying.start("SELECT {}.job_rerun(%s)" % job)
            wait_for_wait(a, retrying, holder)
            marking.start("SELECT {}.job_dead_letters_set_state(NULL, '%s', '%s', NULL)" % (q, mark))
            wait_for_wait(a, marking, retrying)
            holder.sql("COMMIT")
            assert retrying.end() == [("ready",)]
            assert marking.end() == [("1",)]
        all_is_well(q)
        assert bus.column("SELECT state FROM {}.job_dead_letters WHERE job_id = %s" % job) == [mark]
        assert [row[0] for row in claim(q, 2)] == [job]


def meet(q, jobs, first, second):
    """Settles these jobs in two sessions that come upon the first lease at once: what both say."""
    with sessions(bus.url, 4) as (a, holder, one, two):
        holder.sql("BEGIN; SELECT FROM {}.leases WHERE token = %s FOR UPDATE" % jobs[0][1])
        one.start(ack(first, "array_fill(0, '{%d}')" % len(first)))
        wait_for_wait(a, one, holder)
        two.start(ack(second, "array_fill(0, '{%d}')" % len(second)))
        wait_for_wait(a, two, one)
        # Both wait for the first one, and have none of the others.
        free = a.sql("SELECT token FROM {}.leases JOIN {}.queues USING (queue_id) WHERE name = '%s'"
                     " ORDER BY token FOR UPDATE OF leases SKIP LOCKED" % q)
        assert free == [(token,) for _, token in jobs[2::2]], free
        holder.sql("COMMIT")
        said = [one.end(), two.end()]
    all_is_well(q)
    return said


def acks_of_the_same_leases_lock_them_in_one_order():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', array_fill('1'::json, '{8}'))" % q)
    jobs = [job for _ in range(4) for job in claim(q, 2)]
    assert meet(q, jobs, jobs, jobs[::-1]) == [[("{1,1,1,1,1,1,1,1}",)], [("{0,0,0,0,0,0,0,0}",)]]
    assert counts(q) == ("0", "0", "0", "8", "0", "0")


def a_whole_lease_of_a_ack_is_not_locked_before_a_part_of_an_earlier_one():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', array_fill('1'::json, '{4}'))" % q)
    jobs = [job for _ in range(2) for job in claim(q, 2)]
    assert meet(q, jobs, jobs[:3], [jobs[0], jobs[2], jobs[3]]) == [[("{1,1,1}",)], [("{0,0,1}",)]]
    assert counts(q) == ("0", "0", "0", "4", "0", "0")


# ---- suspects and dead_letters


def a_suspect_stays_one_until_it_is_over():
    q = fresh()
    job = push(q)
    assert claim(q, 1, ", lease => '1 ms'")[0][0] == job
    bus.sql("SELECT pg_sleep(0.005)")
    row = "SELECT suspect, attempts FROM {}.jobs WHERE id = %s" % job
    for call, attempts in (("release(%s, %s)", "1"), ("retry(%s, %s, '0')", "2"), ("release(%s, %s)", "2")):
        (again, token), = claim(q, 5)
        assert again == job
        assert main.one("SELECT {}." + call % (job, token)) == "t"
        assert bus.sql(row) == [("t", attempts)], call
    # Alone, and also one whose lease was made longer.
    other = push(q)
    (again, token), = claim(q, 5)
    assert again == job and main.one("SELECT {}.extend(%s, %s)" % (again, token)) == "t"
    assert main.one("SELECT {}.release(%s, %s)" % (again, token)) == "t"
    assert bus.sql(row) == [("t", "2")]
    (again, token), = claim(q, 5)
    assert again == job and main.one("SELECT {}.complete(%s, %s)" % (again, token)) == "t"
    assert [row[0] for row in claim(q, 5)] == [other]


def a_dead_letter_of_a_new_failure_has_no_reason_of_an_old_discard():
    q = fresh()
    job = push(q, ", max_attempts => 1")
    dead_letter = "SELECT state, error, reason, attempts, resolved_by, resolved_at FROM {}.job_dead_letters WHERE job_id = %s" % job
    fail = "SELECT {}.fail(id, token, '%s') FROM {}.claim('%s')"
    bus.sql(fail % ("x", q))
    assert main.one("SELECT {}.job_dead_letters_set_state(NULL, '%s', 'discarded', 'old reason')" % q) == "1"
    assert bus.sql(dead_letter)[0][:4] == ("discarded", "x", "old reason", "1")
    assert main.one("SELECT {}.job_rerun(%s)" % job) == "ready"
    bus.sql(fail % ("y", q))
    assert bus.sql(dead_letter) == [("dead", "y", None, "2", None, None)]


# ---- history


def finish(queue, n, call="complete"):
    """Pushes so many jobs and ends them together: their ids."""
    bus.sql("SELECT {}.push_batch('%s', array_fill('1'::json, '{%d}'))" % (queue, n))
    jobs = claim(queue, n)
    if call == "complete":
        assert main.one(ack(jobs, "array_fill(0, '{%d}')" % n)) == "{%s}" % ",".join("1" * n)
    else:
        assert main.one(ack(jobs, "array_fill(1, '{%d}')" % n)) == "{%s}" % ",".join("1" * n)
    return [job for job, _ in jobs]


def tidying_removes_old_rows_up_to_its_limit_and_counts_their_jobs():
    q = fresh()
    finish(q, 3)
    open_one, = finish(q, 1, "fail")
    finish(q, 4)
    finish(q, 1, "fail")
    assert main.one("SELECT {}.job_dead_letters_set_state(ARRAY[(SELECT max(id) FROM {}.job_dead_letters)], '%s', 'discarded', NULL)"
                   % q) == "1"
    # Of ids that do not follow each other.
    a, other, b = push(q), push(fresh()), push(q)
    jobs = claim(q, 2)
    assert [job for job, _ in jobs] == [a, b]
    assert main.one(ack(jobs, "'{0,0}'")) == "{1,1}"
    last, = finish(q, 1, "fail")
    finish(q, 5)
    every = ("0", "0", "0", "14", "3", "0")
    rows = "SELECT array_agg(jobs ORDER BY position) FROM {}.history JOIN {}.queues USING (queue_id) WHERE name = '%s'" % q
    data = "SELECT count(*) FROM {}.job_data JOIN {}.queues USING (queue_id) WHERE name = '%s'" % q
    removed = "SELECT completed, failed FROM {}.removed_jobs JOIN {}.queues USING (queue_id) WHERE name = '%s'" % q
    assert main.one("SELECT {}.queue_tidy('%s', 3)" % q) == "f"
    assert main.one(rows) == "{3,1,4,1,2,1,5}" and counts(q) == every
    bus.sql("SELECT {}.queue_set('%s', history_ms => 3600000)" % q)
    assert main.one("SELECT {}.queue_tidy('%s', 3)" % q) == "f"
    assert main.one(rows) == "{3,1,4,1,2,1,5}" and counts(q) == every
    bus.sql("SELECT {}.queue_set('%s', history_ms => 1); SELECT pg_sleep(0.005)" % q)
    assert main.one("SELECT {}.queue_tidy('%s', 3)" % q) == "t"
    assert main.one(rows) == "{1,2,1,5}" and bus.sql(removed) == [("7", "1")] and main.one(data) == "9"
    assert counts(q) == every
    assert main.one("SELECT {}.queue_tidy('%s', 3)" % q) == "f"
    assert main.one(rows) == "{1,1}" and bus.sql(removed) == [("14", "1")] and main.one(data) == "2"
    assert counts(q) == every
    assert bus.column("SELECT job_id FROM {}.queue_history('%s')" % q) == [open_one, last]
    assert main.one("SELECT state FROM {}.job_states(%s)" % other) == "pending"
    all_is_well(q)


def tidying_does_not_read_what_is_young():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', history_ms => 86400000);"
            " INSERT INTO {}.history (first_id, last_id, queue_id) SELECT -n, -n, queue_id"
            " FROM {}.queues, generate_series(1, 100000) AS n WHERE name = '%s'" % (q, q))
    for analyzed in (False, True):
        if analyzed:
            bus.sql("ANALYZE {}.history")
        (scans, read), = bus.sql("BEGIN; DO $$ BEGIN PERFORM {}.queue_tidy('%s'); END $$;"
                                 " SELECT seq_scan, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)"
                                 " FROM pg_stat_xact_user_tables WHERE relname = 'history'" % q)
        assert scans == "0" and int(read) <= 100, (scans, read)
    bus.sql("DELETE FROM {}.history WHERE last_id < 0")


def acking_reads_each_job_a_few_times_however_many_there_are():
    q, n = fresh(), 3000
    bus.sql("SELECT count(*) FROM {}.push_arrays('%s', array_fill('1'::json, '{%d}'), NULL, NULL, NULL, NULL, NULL, NULL,"
            " NULL, (SELECT array_agg('k' || i) FROM generate_series(1, %d) AS i), NULL, NULL, NULL)" % (q, n, n))
    bus.sql("CREATE TABLE held AS SELECT id, token FROM {}.claim('%s', %d)" % (q, n))
    text = psql(bus.url, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;"
                " SET auto_explain.log_timing = off; SET auto_explain.log_nested_statements = on;"
                " SET client_min_messages = log;"
                " SELECT FROM (SELECT howdah.ack_jobs(array_agg(id), array_agg(token), array_agg(0), array_agg('r'::text),"
                " NULL) FROM held) AS s", notices=True)
    worst, loops = 0, 1
    for line in text.split("\n"):
        found = re.search(r"actual rows=([\d.]+) loops=(\d+)", line)
        removed = re.search(r"Rows Removed by [\w ]+: (\d+)", line)
        if found:
            loops = int(found[2])
            worst = max(worst, float(found[1]) * loops)
        elif removed:
            worst = max(worst, int(removed[1]) * loops)
    assert n <= worst <= 5 * n, (worst, text[:20000])
    assert counts(q) == ("0", "0", "0", "3000", "0", "0")
    bus.sql("DROP TABLE held")
    all_is_well(q)


def the_history_is_paged_over_packed_rows_without_a_gap():
    q = fresh()
    # 2,500 jobs in three rows, the second of them with a gap in its ids; then five in rows of their own.
    bus.sql("SELECT {}.push_batch('%s', array_fill('1'::json, '{1200}')); SELECT {}.push('%s');"
            " SELECT {}.push_batch('%s', array_fill('1'::json, '{1300}'))" % (q, fresh(), q))
    jobs = claim(q, 2500)
    assert main.one(ack(jobs, "array_fill(0, '{2500}')")) == "{%s}" % ",".join("1" * 2500)
    ids = [job for job, _ in jobs]
    for n in range(5):
        job = push(q)
        bus.sql("SELECT {}.%s(id, token, 'r') FROM {}.claim('%s')" % ("fail" if n in (1, 3) else "complete", q))
        ids.append(job)
    rows = bus.sql("SELECT position, job_id, failed FROM {}.queue_history('%s')" % q)
    places = [int(row[0]) for row in rows]
    assert [row[1] for row in rows] == ids and places == sorted(set(places)) and len(places) == 2505
    assert [place - places[0] for place in (places[999], places[1000], places[2499])] == [999, 1000, 2499]
    bus.sql("""
        CREATE FUNCTION walk(q text, failed boolean, at bigint, n bigint, back boolean, pages integer)
        RETURNS bigint[] LANGUAGE plpgsql AS $$
        DECLARE
            page  bigint[];
            every bigint[] := '{}';
        BEGIN
            FOR i IN 1..pages LOOP
                page := ARRAY(SELECT h.position FROM {}.queue_history(q, failed, at, n, back) AS h);
                IF cardinality(page) > n THEN
                    RAISE EXCEPTION 'a page of %', cardinality(page);
                END IF;
                EXIT WHEN cardinality(page) = 0;
                every := every || page;
                at := page[cardinality(page)];
            END LOOP;
            RETURN every;
        END $$""")
    failures = [int(row[0]) for row in rows if row[2] == "t"]
    assert failures == [places[2501], places[2503]]
    rest = [place for place in places if place not in failures]
    for failed, expected, limits in (("NULL", places, (7, 999, 1000, 1001)), ("true", failures, (1, 2, 3, 7)),
                                     ("false", rest, (1000,))):
        for limit in limits:
            for back in (False, True):
                walked = main.one("SELECT walk('%s', %s, 0, %d, %s, 10000)" % (q, failed, limit, back))
                assert walked == "{%s}" % ",".join(map(str, expected[::-1] if back else expected)), (failed, limit, back)
    # One by one, from the ends and over the borders of rows.
    for back, way in (("false", places), ("true", places[::-1])):
        for start in (-1, 495, 995, 1495, 1995, 2490):
            walked = main.one("SELECT walk('%s', NULL, %d, 1, %s, 15)" % (q, way[start] if start >= 0 else 0, back))
            assert walked == "{%s}" % ",".join(map(str, way[start + 1:start + 16])), (back, start)
    page = "SELECT position FROM {}.queue_history('%s', NULL, %d, 7, %s)"
    for k in (1, 500, 998, 999, 1000, 1001, 1500, 2498, 2499, 2500, 2504):
        assert main.sql(page % (q, places[k], "false")) == [(str(p),) for p in places[k + 1:k + 8]], k
        assert main.sql(page % (q, places[k], "true")) == [(str(p),) for p in places[:k][::-1][:7]], k
    for back in ("false", "true"):
        least = -2**63
        assert main.sql(page % (q, least, back)) == main.sql(page % (q, 0, back)) != []


# ---- a worker


def a_delayed_job_starts_when_it_is_due_however_seldom_the_worker_looks():
    q = fresh()
    push(q)
    worker = subprocess.Popen([HOWDAH, "--store", bus.url, "work", q, "--exec", "true", "--set", "poll_interval=5s",
                               "--max", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until(lambda: worker.poll() is not None or counts(q)[3] == "1", "the first job is completed")
        job = bus.one("SET howdah.ring = 'on'; SELECT {}.push('%s', delay => '700 ms')" % q)
        said, _ = worker.communicate(timeout=60)
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 0 and counts(q)[3] == "2", said
    after = float(main.one("SELECT extract(epoch FROM h.started_at - p.created_at) FROM {}.event_log AS h"
                          " JOIN {}.job_data AS p ON p.id = h.job_id WHERE h.job_id = %s" % job))
    # It is due 700 ms after the push began; its row is a little younger.  The worker looks every 5 s.
    assert 0.5 <= after <= 4, after


def of_two_turns_of_one_with_the_same_token_only_one_is_made():
    for end, answer, there in (("ROLLBACK", "t", ("1", "1", "0", "1", "0", "0")), ("COMMIT", None, ("1", "1", "0", "1", "0", "0"))):
        q = fresh()
        for _ in range(3):
            push(q)
        (job, token), = claim(q, 1)
        turn = "SELECT (t).searched FROM {}.exchange_one(%s, %s, true, false, '%s', 'w', 0, 1, '-infinity', 0) AS t" % (job, token, q)
        with sessions(bus.url, 3) as (a, first, second):
            first.sql("BEGIN")
            assert first.one(turn) == "t"
            second.start(turn)
            wait_for_wait(a, second, first)
            first.sql(end)
            assert second.end() == [(answer,)], end
        assert counts(q) == there, counts(q)
        all_is_well(q)


if __name__ == "__main__":
    sys.exit(run([
        of_two_turns_of_one_with_the_same_token_only_one_is_made,
        a_part_that_a_lease_gets_while_its_ack_waits_is_acked_too,
        keys_are_woken_in_one_order_whoever_wakes_them,
        a_job_set_aside_behind_a_snapshot_is_woken_by_tidying,
        a_job_set_aside_behind_one_that_an_old_snapshot_cancels_is_woken_by_tidying,
        tidying_wakes_nobody_who_waits_behind_another_one,
        two_failures_of_a_held_key_that_are_tried_again_run_in_order,
        a_job_set_aside_behind_one_that_is_purged_can_be_claimed,
        an_open_transaction_on_a_key_keeps_nobody_from_other_jobs, verdicts_that_are_none_change_nothing,
        trying_a_job_again_and_marking_its_dead_letter_take_turns,
        acks_of_the_same_leases_lock_them_in_one_order,
        a_whole_lease_of_a_ack_is_not_locked_before_a_part_of_an_earlier_one, a_suspect_stays_one_until_it_is_over,
        a_dead_letter_of_a_new_failure_has_no_reason_of_an_old_discard,
        tidying_removes_old_rows_up_to_its_limit_and_counts_their_jobs, tidying_does_not_read_what_is_young,
        acking_reads_each_job_a_few_times_however_many_there_are,
        the_history_is_paged_over_packed_rows_without_a_gap,
        a_delayed_job_starts_when_it_is_due_however_seldom_the_worker_looks]))
