#!/usr/bin/env python3
"""The work queue in SQL: push, claim, settle, keys, and plans that never depend on luck."""
import re
import sys

from bus import Bus, command, psql, run
from session import sessions

bus = Bus("queue")
serial = 0


def fresh():
    """The name of a queue that no other test has."""
    global serial
    serial += 1
    return "q%d" % serial


def counts(queue):
    return bus.sql("SELECT pending, processing, scheduled, completed, failed, purged FROM {}.queue_states('%s')"
                   % queue)[0]


def claim(queue, n=1, more=""):
    return bus.sql("SELECT id, token, attempts, data FROM {}.claim('%s', %d%s)" % (queue, n, more))


# ---- push


def a_push_returns_ascending_ids_and_makes_the_queue():
    q = fresh()
    first, second = (int(bus.one("SELECT {}.push('%s', '{\"n\":%d}')" % (q, n))) for n in (1, 2))
    assert second > first
    assert counts(q) == ("2", "0", "0", "0", "0", "0")


def a_push_that_is_rolled_back_never_was():
    q = fresh()
    bus.sql("BEGIN; SELECT {}.push('%s'); ROLLBACK" % q)
    assert bus.sql("SELECT 1 FROM {}.queue_states('%s')" % q) == []


def a_delay_and_a_time_schedule_a_job_and_a_time_past_does_not():
    q = fresh()
    bus.sql("SELECT {}.push('%s', delay => '1 hour'), {}.push('%s', run_at => now() + interval '1 day'),"
            " {}.push('%s', run_at => '2020-01-01Z')" % (q, q, q))
    assert counts(q) == ("1", "0", "2", "0", "0", "0")


def a_batch_keeps_its_order():
    q = fresh()
    ids = bus.column("SELECT {}.push_batch('%s', ARRAY['1','2','3']::json[])" % q)
    assert [(row[0], row[3]) for row in claim(q, 3)] == list(zip(ids, "123"))


def a_live_dedup_key_gives_the_first_id_and_an_ended_one_does_not():
    q = fresh()
    push = "SELECT {}.push('%s', dedup => 'd')" % q
    first = bus.one(push)
    assert bus.one(push) == first
    (row,) = claim(q)
    assert bus.one(push) == first
    assert bus.one("SELECT {}.complete(%s, %s)" % row[:2]) == "t"
    assert bus.one(push) != first
    assert counts(q) == ("1", "0", "0", "1", "0", "0")


def twins_in_one_batch_are_one_job():
    q = fresh()
    rows = bus.sql("SELECT * FROM {}.push_arrays('%s', ARRAY['1','2','3']::json[], NULL, NULL, NULL, NULL, NULL,"
                   " NULL, NULL, NULL, ARRAY['d', 'e', 'd'], NULL, NULL)" % q)
    assert [row[1] for row in rows] == ["f", "f", "t"] and rows[2][0] == rows[0][0], rows
    assert counts(q)[0] == "2"


def bad_input_names_field_rule_and_length_and_stores_nothing():
    q = fresh()
    bus.refuses_all(
        ("SELECT {}.push('')", "UH006", "queue: must be 1 to 255 bytes, got 0"),
        ("SELECT {}.push(repeat('x', 256))", "UH006", "queue: must be 1 to 255 bytes, got 256"),
        ("SELECT {}.push('%s', priority => 40000)" % q, "UH006", "priority: must be -32768 to 32767"),
        ("SELECT {}.push('%s', max_attempts => -1)" % q, "UH006",
         "max_attempts: must be 1 to 32767, or 0 for that of the queue"),
        ("SELECT {}.push('%s', delay => '-1 second')" % q, "UH006", "delay: must be 0 to 10 years"),
        ("SELECT {}.push('%s', run_at => 'infinity')" % q, "UH006", "run_at: must be within the years 1 to 9999"),
        ("SELECT {}.push('%s', key => '')" % q, "UH006", "key: must be 1 to 255 bytes, got 0"),
        ("SELECT {}.push('%s', dedup => repeat('d', 256))" % q, "UH006", "dedup: must be 1 to 255 bytes, got 256"),
        ("SELECT {}.push('%s', data => NULL)" % q, "UH006", "data: must be JSON, or bytes with a content type"),
        ("SELECT {}.push('%s', headers => '[]')" % q, "UH006",
         "headers: must be a JSON object of strings, got 2 bytes"),
        ("SELECT {}.push_batch('%s', ARRAY['1', '\"\\u0000\"']::json[])" % q, "UH006",
         "job 2: data: not valid JSON, 8 bytes: a NUL .* in a string"),
        ("SELECT * FROM {}.claim('%s', 0)" % q, "UH006", "n: must be 1 to 10000"),
        ("SELECT * FROM {}.claim('%s', 1, lease => '0')" % q, "UH006", "lease: must be longer than 0"),
        ("SELECT {}.queue_set('%s', max_attempts => 0)" % q, "UH006", "max_attempts: must be 1 to 32767"))
    assert bus.sql("SELECT 1 FROM {}.queue_states('%s')" % q) == []


def settings_have_the_limits_that_the_command_has():
    q = fresh()
    longest = 316224000000
    for name, unit, low, high, rule in (
            ("abandon_after", "ms", 100, longest, "100ms to 10 years"), ("max_attempts", "", 1, 32767, "1 to 32767"),
            ("backoff_initial", "ms", 0, longest, "0ms to 10 years"), ("backoff_max", "ms", 0, longest, "0ms to 10 years"),
            ("backoff_jitter", "", 0, 100, "0 to 100 percent"),
            ("concurrency", "", 0, 2147483647, "0 \\(no limit\\) to 2147483647"),
            ("history", "ms", 0, longest, "0ms \\(for ever\\) to 10 years")):
        member = name + ("_ms" if unit else "")
        for value in (low, high):
            bus.sql("SELECT {}.queue_set('%s', %s => %d)" % (q, member, value))
            command("queue", "set", q, "%s=%d%s" % (name, value, unit), url=bus.url)
            assert bus.one("SELECT %s FROM {}.queue_states('%s')" % (member, q)) == str(value)
        for value in (low - 1, high + 1):
            bus.refuses("SELECT {}.queue_set('%s', %s => %d)" % (q, member, value), "UH006", "%s: must be %s" % (name, rule))
            try:
                command("queue", "set", q, "%s=%d%s" % (name, value, unit), url=bus.url)
            except AssertionError as refused:
                assert re.search("%s: .* wanted %s" % (name, rule), str(refused)), refused
            else:
                raise AssertionError("%s=%d is taken" % (name, value))


def quick_to_abandon(q):
    """Quicker than may be set: nobody waits for it in a test."""
    bus.sql("UPDATE {}.queues SET abandon_after_ms = 1 WHERE name = '%s'" % q)


# ---- claim and settle


def a_claim_goes_by_priority_due_time_and_id():
    q = fresh()
    ids = bus.sql("SELECT " + ", ".join("{}.push('%s', priority => %d, run_at => now() + interval '%d ms')" % (q, p, due)
                                        for p, due in ((5, 1500), (-5, 1900), (0, 1700), (-5, 1600), (0, 1600), (0, 1600))))[0]
    bus.sql("SELECT pg_sleep(2)")
    assert [row[0] for row in claim(q, 10)] == [ids[n] for n in (3, 1, 4, 5, 2, 0)]


def a_stale_token_changes_nothing_and_says_so():
    q = fresh()
    bus.sql("SELECT {}.push('%s')" % q)
    (job, token, _, _), = claim(q)
    other = int(token) + 1
    for call in ("complete(%s, %d)", "fail(%s, %d)", "retry(%s, %d)", "release(%s, %d)", "extend(%s, %d)"):
        assert bus.one("SELECT {}." + call % (job, other)) == "f", call
    assert counts(q) == ("0", "1", "0", "0", "0", "0")
    assert bus.one("SELECT {}.complete(%s, %s)" % (job, token)) == "t"
    assert bus.one("SELECT {}.complete(%s, %s)" % (job, token)) == "f"
    assert counts(q) == ("0", "0", "0", "1", "0", "0")


def complete_is_part_of_the_transaction_it_is_called_in():
    q = fresh()
    bus.sql("SELECT {}.push('%s'); CREATE TABLE IF NOT EXISTS effects (n integer)" % q)
    (job, token, _, _), = claim(q)
    bus.sql("BEGIN; INSERT INTO effects VALUES (1); SELECT {}.complete(%s, %s); ROLLBACK" % (job, token))
    assert counts(q) == ("0", "1", "0", "0", "0", "0")
    bus.sql("BEGIN; INSERT INTO effects VALUES (2); SELECT {}.complete(%s, %s); COMMIT" % (job, token))
    assert counts(q) == ("0", "0", "0", "1", "0", "0")
    assert bus.column("SELECT n FROM effects") == ["2"]


def a_batch_is_acked_job_by_job():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', backoff_initial_ms => 3600000);"
            " SELECT {}.push_batch('%s', ARRAY['0','1','2','3','4','5']::json[])" % (q, q))
    rows = claim(q, 6)
    ids, token = [row[0] for row in rows], rows[0][1]
    given = bus.one("SELECT {}.ack_jobs(ARRAY[%s, 0, %s], array_fill(%s::bigint, ARRAY[8]),"
                    " ARRAY[0,1,2,3,4,0,0,0], ARRAY['r','e','again',NULL,NULL,NULL,NULL,NULL],"
                    " ARRAY[0,0,-1,0,60000,0,0,0])" % (", ".join(ids), ids[0], token))
    assert given == "{1,1,1,1,1,1,0,0}", given
    states = [bus.sql("SELECT state, attempts, error, result FROM {}.job_states(%s)" % i)[0] for i in ids]
    assert states == [("completed", "1", None, "r"), ("failed", "1", "e", None), ("scheduled", "1", "again", None),
                      ("pending", "0", None, None), ("processing", "1", None, None), ("completed", "1", None, None)]
    assert counts(q) == ("1", "1", "1", "2", "1", "0")


def a_retry_without_a_time_backs_off_and_an_extension_without_one_is_as_claimed():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', backoff_initial_ms => 3600000, backoff_jitter => 0);"
            " SELECT {}.push_batch('%s', ARRAY['1','2']::json[])" % (q, q))
    (job, token, _, _), (other, same, _, _) = claim(q, 2, ", lease => '1 hour'")
    assert bus.one("SELECT {}.extend(%s, %s)" % (other, same)) == "t"
    assert bus.one("SELECT lease_until > now() + interval '59 minutes' FROM {}.job_states(%s)" % other) == "t"
    assert bus.one("SELECT {}.retry(%s, %s)" % (job, token)) == "t"
    assert bus.one("SELECT due_at > now() + interval '59 minutes' FROM {}.job_states(%s)" % job) == "t"
    assert counts(q) == ("0", "1", "1", "0", "0", "0")


def a_retry_without_an_attempt_left_is_a_failure_with_a_dead_letter():
    q = fresh()
    bus.sql("SELECT {}.push('%s', max_attempts => 2)" % q)
    for attempt in ("1", "2"):
        (job, token, tries, _), = claim(q)
        assert tries == attempt
        assert bus.one("SELECT {}.ack_jobs(ARRAY[%s], ARRAY[%s], ARRAY[2], ARRAY['no'], ARRAY[0])"
                       % (job, token)) == ("{1}" if attempt == "1" else "{2}")
    assert counts(q) == ("0", "0", "0", "0", "1", "0")
    assert bus.sql("SELECT attempts, error, state FROM {}.job_dead_letters WHERE job_id = %s" % job) == [
        ("2", "no", "dead")]


def an_abandoned_job_is_claimed_again_and_counted_and_refreshed():
    q = fresh()
    bus.sql("SELECT {}.push('%s')" % q)
    (job, token, _, _), = claim(q, 1, ", lease => '3 s'")
    started = "SELECT extract(epoch FROM started_at) FROM {}.leases WHERE %s = ANY (ids)" % job
    before = float(bus.one(started))
    assert claim(q) == []
    bus.sql("SELECT pg_sleep(3.1)")
    (again, other, attempts, _), = claim(q)
    assert (again, attempts) == (job, "2") and int(other) > int(token)
    assert float(bus.one(started)) > before
    assert bus.one("SELECT {}.complete(%s, %s)" % (job, token)) == "f"
    assert bus.one("SELECT {}.complete(%s, %s)" % (job, other)) == "t"


def a_job_whose_workers_always_die_fails_without_another_run():
    q = fresh()
    bus.sql("SELECT {}.queue_set('%s', max_attempts => 3); SELECT {}.push('%s')" % (q, q))
    quick_to_abandon(q)
    for attempt in ("1", "2", "3"):
        (job, _, tries, _), = claim(q)
        assert tries == attempt
        bus.sql("SELECT pg_sleep(0.005)")
    assert claim(q) == []
    assert counts(q) == ("0", "0", "0", "0", "1", "0")
    assert bus.sql("SELECT failed, attempts, error FROM {}.event_log WHERE job_id = %s" % job) == [
        ("t", "3", "abandoned: its worker did not answer for 1 ms (attempt 3 of 3)")]


def suspects_are_claimed_alone():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', ARRAY['1','2']::json[])" % q)
    assert len(claim(q, 10, ", lease => '1 ms'")) == 2
    bus.sql("SELECT pg_sleep(0.005); SELECT {}.push('%s', '3')" % q)
    assert [[row[3] for row in claim(q, 10)] for _ in range(3)] == [["1"], ["2"], ["3"]]


def a_lease_that_was_acked_in_part_is_given_back_beside_keys():
    q = fresh()
    bus.sql("SELECT {}.push('%s', key => 'k', delay => '1 hour'); SELECT {}.push_batch('%s', ARRAY['1','2','3']::json[])"
            % (q, q))
    jobs = claim(q, 3, ", lease => '1 ms'")
    assert bus.one("SELECT {}.complete(ARRAY[%s], ARRAY[%s])" % jobs[0][:2]) == "{t}"
    again = [claim(q, 3), claim(q, 3)]
    assert [[row[0] for row in rows] for rows in again] == [[jobs[1][0]], [jobs[2][0]]]
    assert counts(q) == ("0", "2", "1", "1", "0", "0")


def poll_gives_one_job_or_no_row_and_finalize_ends_it():
    q = fresh()
    assert bus.sql("SELECT * FROM {}.poll('%s')" % q) == []
    bus.sql("SELECT {}.publish('%s', '{\"a\":1}'), {}.publish('%s', '{\"a\":2}')" % (q, q))
    for success, status in (("true", "f"), ("false", "t")):
        # One session, as a program has it.
        assert psql(bus.url, "SELECT id AS job FROM howdah.poll('%s') \\gset\n"
                    "SELECT howdah.finalize(:job, %s), howdah.finalize(:job, true)" % (q, success)) == [("t", "f")]
    assert bus.column("SELECT failed FROM {}.queue_history('%s')" % q) == ["f", "t"]


def poll_gives_bytes_as_they_were_pushed():
    q = fresh()
    bus.sql("SELECT {}.push('%s', NULL, bytes => '\\x00ff0a27', content_type => 'a/b', headers => '{\"h\":\"1\"}')" % q)
    (told,) = bus.sql("SELECT attempts, data, headers, bytes, content_type FROM {}.poll('%s')" % q)
    assert told == ("1", None, '{"h":"1"}', "\\x00ff0a27", "a/b"), told
    bus.sql("SELECT {}.push('%s', '\"text\"')" % q)
    assert bus.sql("SELECT data, bytes, content_type FROM {}.poll('%s')" % q) == [('"text"', None, None)]


def finalize_without_an_outcome_is_refused_and_changes_nothing():
    q = fresh()
    bus.sql("SELECT {}.push('%s'); SELECT {}.poll('%s')" % (q, q))
    bus.refuses("SELECT {}.finalize((SELECT l.ids[1] FROM {}.leases AS l JOIN {}.queues USING (queue_id) WHERE name = '%s'), NULL)"
                % q, "UH006", "success: must be true or false")
    assert counts(q) == ("0", "1", "0", "0", "0", "0")


def poll_and_finalize_leave_nothing_of_a_job_in_the_session():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', array_fill('1'::json, '{20}'))" % q)
    left = psql(bus.url, "CREATE TEMP TABLE mine (id bigint); DO $$ BEGIN FOR n IN 1..20 LOOP"
                " INSERT INTO mine SELECT p.id FROM howdah.poll('%s') AS p; END LOOP; END $$;\n"
                "SELECT count(*) FILTER (WHERE howdah.finalize(id, id %% 2 = 0)),"
                " count(*) FILTER (WHERE current_setting('howdah.job_' || id, true) IS NOT NULL) FROM mine" % q)
    assert left == [("20", "0")], left
    assert counts(q) == ("0", "0", "0", "10", "10", "0")


def finalize_is_for_the_session_that_polled_last():
    q = fresh()
    bus.sql("SELECT {}.push('%s')" % q)
    quick_to_abandon(q)
    with sessions(bus.url, 2) as (first, second):
        job = first.one("SELECT id FROM {}.poll('%s')" % q)
        assert second.one("SELECT {}.finalize(%s, true)" % job) == "f"
        first.sql("SELECT pg_sleep(0.005)")
        assert second.one("SELECT id FROM {}.poll('%s')" % q) == job
        assert first.one("SELECT {}.finalize(%s, true)" % job) == "f"
        assert counts(q) == ("0", "1", "0", "0", "0", "0")
        assert second.one("SELECT {}.finalize(%s, true)" % job) == "t"
    assert counts(q) == ("0", "0", "0", "1", "0", "0")


def a_suspect_comes_behind_all_that_is_more_urgent():
    for key in ("", ", key => 'k%d'"):
        q = fresh()
        for n, priority in enumerate((5, 5, 0, 5, -1)):
            bus.sql("SELECT {}.push('%s', '%d', priority => %d%s)" % (q, n, priority, key % n if key else ""))
            if n == 0:
                assert len(claim(q, 1, ", lease => '1 ms'")) == 1
                bus.sql("SELECT pg_sleep(0.005)")
        # The suspect alone, but before the others of its priority.
        assert [[row[3] for row in claim(q, n)] for n in (1, 5, 5, 5)] == [["4"], ["2"], ["0"], ["1", "3"]], key


def a_turn_of_one_claims_what_is_more_urgent_than_a_suspect():
    q = fresh()
    job, token = taken(q, "12")
    bus.sql("UPDATE {}.jobs SET suspect = true, priority = 1 WHERE id = %d; SELECT {}.push('%s', '3')" % (int(job) + 1, q))
    answer = turn(job, token, q)
    assert answer[:1] + answer[3:4] == ("t", "3"), answer
    assert turn(answer[1], answer[4], q, 3) == ("f", None, None, None, None)


def a_turn_of_one_that_looks_leaves_a_more_urgent_job_to_claim_jobs():
    q = fresh()
    job, token = taken(q, "12")
    bus.sql("SELECT {}.push('%s', '3', priority => -1), {}.push('%s', '4', priority => -2, delay => '1 hour')" % (q, q))
    look = "SELECT (t).searched, ((t).job).data FROM {}.exchange_one(%s, %s, true, true, '%s', 'w', 0, 1, '-infinity', 0) AS t"
    assert bus.sql(look % (job, token, q)) == [("f", None)]
    (job, token, _, data), = claim(q)
    assert data == "3"
    # What is not due is not urgent.
    assert bus.sql(look % (job, token, q)) == [("t", "2")]


def a_claim_with_floors_looks_at_other_priorities_when_it_finds_nothing():
    q = fresh()
    bus.sql("SELECT {}.push('%s', '1', priority => 3), {}.push('%s', '2', priority => -3)" % (q, q))
    search = "SELECT data FROM {}.claim_jobs('%s', 1, 'w', 0, false, %s, '{1}', '{-infinity}', '{0}')"
    assert bus.column(search % (q, "false")) == ["2"]
    bus.sql("SELECT {}.push('%s', '0')" % q)
    assert bus.column(search % (q, "false")) == ["0"]
    bus.sql("SELECT {}.push('%s', '0'), {}.push('%s', '4', priority => -32768)" % (q, q))
    assert bus.column(search % (q, "true")) == ["4"]


def of_very_many_priorities_the_most_urgent_come_first():
    q = fresh()
    bus.sql("SELECT {}.push('%s', to_json(-n), priority => -n) FROM generate_series(1, 1500) AS n" % q)
    assert [row[3] for row in claim(q, 3)] == ["-1500", "-1499", "-1498"]
    rest = [int(row[3]) for _ in range(3) for row in claim(q, 1200)]
    assert rest == list(range(-1497, 0)), rest


def claims_in_ms(queue, n):
    """How long one of so many takes, that find a job each."""
    bus.sql("SELECT {}.push_batch('%s', array_fill('1'::json, '{%d}'))" % (queue, n))
    return float(bus.one("CREATE TEMP TABLE took AS SELECT clock_timestamp() AS begun;"
                         " DO $$ BEGIN FOR n IN 1..%d LOOP PERFORM {}.complete(id, token) FROM {}.claim('%s'); END LOOP; END $$;"
                         " SELECT extract(epoch FROM clock_timestamp() - begun) * 1000 / %d FROM took" % (n, queue, n)))


def priorities_that_nobody_uses_any_more_cost_nothing():
    q, other = fresh(), fresh()
    bus.sql("SELECT count(*) FROM {}.push_arrays('%s', array_fill('1'::json, '{20000}'), NULL, NULL, NULL, NULL, NULL,"
            " (SELECT array_agg(n) FROM generate_series(-10000, 9999) AS n), NULL, NULL, NULL, NULL, NULL);"
            " SELECT {}.queue_purge('%s'); VACUUM {}.jobs" % (q, q))
    claims_in_ms(other, 20)
    plain, after = claims_in_ms(other, 100), claims_in_ms(q, 100)
    assert after < 3 * plain + 2, (plain, after)


def a_paused_queue_gives_nothing_and_a_limited_one_only_so_much():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', ARRAY['1','2','3']::json[]); SELECT {}.queue_set('%s', paused => true)" % (q, q))
    assert claim(q, 3) == []
    bus.sql("SELECT {}.queue_set('%s', paused => false, concurrency => 2)" % q)
    first = claim(q, 3)
    assert [row[3] for row in first] == ["1", "2"] and claim(q, 3) == []
    bus.sql("SELECT {}.complete(%s, %s)" % first[0][:2])
    assert [row[3] for row in claim(q, 3)] == ["3"]


# ---- keys


def jobs_of_a_key_run_one_at_a_time_in_order_also_across_retries():
    q = fresh()
    for n in range(3):
        bus.sql("SELECT {}.push('%s', '%d', key => 'k'), {}.push('%s', '1%d', key => 'other')" % (q, n, q, n))
    ran = []
    for _ in range(8):
        for job, token, attempts, data in claim(q, 10):
            ran.append(data)
            if data == "0" and attempts == "1":
                bus.sql("SELECT {}.retry(%s, %s, '0')" % (job, token))
            else:
                bus.sql("SELECT {}.complete(%s, %s)" % (job, token))
    assert [n for n in ran if len(n) == 1] == ["0", "0", "1", "2"], ran
    assert [n for n in ran if len(n) == 2] == ["10", "11", "12"], ran


def a_failed_job_lets_its_key_go_or_holds_it_as_the_queue_says():
    for hold in (False, True):
        q = fresh()
        bus.sql("SELECT {}.queue_set('%s', hold_key => %s); SELECT {}.push('%s', '1', key => 'k');"
                " SELECT {}.push('%s', '2', key => 'k')" % (q, hold, q, q))
        (job, token, _, _), = claim(q, 5)
        bus.sql("SELECT {}.fail(%s, %s, 'no')" % (job, token))
        assert [row[3] for row in claim(q, 5)] == ([] if hold else ["2"])
        if hold:
            assert bus.one("SELECT {}.job_rerun(%s)" % job) == "ready"
            (again, token, attempts, data), = claim(q, 5)
            assert (again, attempts, data) == (job, "1", "1")
            assert bus.column("SELECT state FROM {}.job_dead_letters WHERE job_id = %s" % job) == ["redrive"]
            bus.sql("SELECT {}.complete(%s, %s)" % (again, token))
            assert [row[3] for row in claim(q, 5)] == ["2"]
            assert bus.column("SELECT state FROM {}.job_dead_letters WHERE job_id = %s" % job) == ["redriven"]


def a_cancelled_job_lets_the_next_of_its_key_go():
    q = fresh()
    one, two = (bus.one("SELECT {}.push('%s', '%d', key => 'k', delay => '%d seconds')" % (q, n, 60 * (2 - n)))
                for n in (1, 2))
    assert claim(q, 5) == []
    assert bus.one("SELECT {}.job_cancel(%s, 'not wanted')" % one) == "cancelled"
    assert [row[0] for row in claim(q, 5)] == [two]
    assert bus.sql("SELECT failed, error FROM {}.event_log WHERE job_id = %s" % one) == [
        ("t", "cancelled: not wanted")]
    assert bus.one("SELECT {}.job_cancel(%s)" % two) == "processing"
    assert bus.one("SELECT {}.job_cancel(0)") is None


def a_hot_key_in_front_of_all_others_holds_nobody_up():
    q, n = fresh(), 50000
    bus.sql("SELECT count(*) FROM {}.push_arrays('%s', array_fill('1'::json, '{%d}'), NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
            " array_fill('hot'::text, '{%d}'), NULL, NULL, NULL); SELECT {}.push('%s', '2', key => 'cold'), {}.push('%s', '3')"
            % (q, n, n, q, q))
    assert [row[3] for row in claim(q)] == ["1"]
    assert [row[3] for row in claim(q)] == ["2"]
    assert [row[3] for row in claim(q)] == ["3"]
    assert claim(q) == []
    assert counts(q) == ("0", "3", str(n - 1), "0", "0", "0")
    assert bus.sql("SELECT what FROM {}.queue_findings() WHERE queue = '%s'" % q) == []
    bus.sql("SELECT {}.queue_purge('%s')" % q)


def a_hot_key_is_set_aside_once():
    q = fresh()
    bus.sql("SELECT {}.push('%s', to_json(n), key => 'hot') FROM generate_series(1, 500) AS n;"
            " SELECT {}.push('%s', '0', key => 'cold')" % (q, q))
    assert [row[3] for row in claim(q, 10)] == ["1", "0"]
    assert bus.one("SELECT count(*) FROM {}.jobs AS j JOIN {}.queues AS q USING (queue_id)"
                   " WHERE q.name = '%s' AND j.due_at = 'infinity'" % q) == "499"


# ---- history and operators


def every_job_is_counted_once_whatever_becomes_of_it():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', (SELECT array_agg(to_json(n)) FROM generate_series(1, 20) AS n));"
            " SELECT {}.push('%s', delay => '1 hour')" % (q, q))
    rows = claim(q, 12)
    for job, token, _, _ in rows[:4]:
        bus.sql("SELECT {}.complete(%s, %s)" % (job, token))
    for job, token, _, _ in rows[4:7]:
        bus.sql("SELECT {}.fail(%s, %s)" % (job, token))
    bus.sql("SELECT {}.job_rerun(%s)" % rows[4][0])
    assert counts(q) == ("9", "5", "1", "4", "2", "0")
    assert bus.one("SELECT {}.queue_purge('%s')" % q) == "10"
    assert counts(q) == ("0", "5", "0", "4", "2", "10")
    bus.sql("SELECT {}.queue_set('%s', history_ms => 1); SELECT pg_sleep(0.01); SELECT {}.queue_tidy('%s')" % (q, q))
    assert counts(q) == ("0", "5", "0", "4", "2", "10")
    # Those with an open dead letter are kept.
    assert bus.one("SELECT count(*) FROM {}.queue_history('%s')" % q) == "2"


def the_history_is_read_by_position_both_ways():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', ARRAY['1','2','3','4']::json[])" % q)
    rows = claim(q, 4)
    for job, token, _, data in reversed(rows):
        bus.sql("SELECT {}.%s(%s, %s)" % ("fail" if data == "3" else "complete", job, token))
    history = "SELECT data FROM {}.queue_history('%s'%s)"
    assert bus.column(history % (q, "")) == ["4", "3", "2", "1"]
    assert bus.column(history % (q, ", backward => true, limit_n => 2")) == ["1", "2"]
    assert bus.column(history % (q, ", only_failed => true")) == ["3"]
    second = bus.one("SELECT position FROM {}.queue_history('%s', limit_n => 1)" % q)
    assert bus.column(history % (q, ", after => %s, limit_n => 2" % second)) == ["3", "2"]


# ---- dead letters


def failed(q, arguments=""):
    """A job of this queue that has failed: its id, and that of its dead_letter."""
    job = bus.one("SELECT {}.push('%s'%s)" % (q, arguments))
    (claimed, token, _, _), = claim(q)
    assert claimed == job
    bus.sql("SELECT {}.fail(%s, %s, 'no')" % (job, token))
    return job, bus.one("SELECT id FROM {}.job_dead_letters WHERE job_id = %s" % job)


def dead_letters(q, arguments=""):
    return bus.sql("SELECT id, state, attempts, redrives FROM {}.job_dead_letter_states('%s'%s)" % (q, arguments))


def a_dead_letter_of_a_job_tells_what_was_pushed():
    q = fresh()
    job, dead_letter = failed(q, ", '{\"n\": 1.50}', key => 'k', correlation_id => 'c-1'")
    assert bus.sql("SELECT id, queue, job_id, state, error, attempts, redrives, reason, resolved_at, kept, key,"
                   " correlation_id, data, event_sequence FROM {}.job_dead_letter_states('%s')" % q) == [
        (dead_letter, q, job, "dead", "no", "1", "0", None, None, "t", "k", "c-1", '{"n": 1.50}', None)]


def dead_letters_of_jobs_are_listed_by_queue_state_and_page():
    q, other = fresh(), fresh()
    (_, one), (_, two), (_, three) = failed(q), failed(other), failed(q)
    assert [row[0] for row in dead_letters(q)] == [one, three]
    assert [row[0] for row in dead_letters(other)] == [two]
    assert dead_letters("nobody") == []
    assert [row[0] for row in dead_letters(q, ", after => %s" % one)] == [three]
    assert [row[0] for row in dead_letters(q, ", limit_n => 1")] == [one]
    assert [row[0] for row in dead_letters(q, ", up_to => %s" % two)] == [one]
    assert bus.one("SELECT {}.job_dead_letters_set_state(ARRAY[%s], NULL, 'discarded', 'why')" % one) == "1"
    assert [row[0] for row in dead_letters(q)] == [three]
    assert [row[:2] for row in dead_letters(q, ", resolved => true")] == [(one, "discarded"), (three, "dead")]
    assert bus.column("SELECT id FROM {}.job_dead_letter_states(after => %s)" % one) == [two, three]


def a_dead_letter_that_is_redriven_follows_its_job():
    q = fresh()
    job, dead_letter = failed(q)
    assert bus.one("SELECT {}.job_dead_letters_set_state(NULL, '%s', 'redrive', NULL)" % q) == "1"
    assert dead_letters(q) == [(dead_letter, "redrive", "1", "0")]
    (again, token, _, _), = claim(q)
    assert bus.one("SELECT {}.fail(%s, %s, 'again')" % (again, token)) == "t"
    assert dead_letters(q) == [(dead_letter, "dead", "2", "1")]
    assert bus.one("SELECT {}.job_rerun(%s)" % job) == "ready"
    (again, token, _, _), = claim(q)
    assert bus.one("SELECT {}.complete('{%s}'::bigint[], '{%s}')" % (again, token)) == "{t}"
    assert dead_letters(q) == []
    assert dead_letters(q, ", resolved => true") == [(dead_letter, "redriven", "3", "2")]
    assert bus.one("SELECT {}.job_dead_letters_set_state(NULL, '%s', 'redrive', NULL)" % q) == "0"


def marking_refuses_another_state_and_knows_its_queues():
    q = fresh()
    bus.refuses("SELECT {}.job_dead_letters_set_state(NULL, '%s', 'redriven', NULL)" % q, "UH006",
                "new_state: must be redrive or discarded")
    assert bus.one("SELECT {}.job_dead_letters_set_state(NULL, 'nobody', 'redrive', NULL) IS NULL") == "t"


# ---- one is done, the next please


def turn(job, token, queue, level=1, floor="'-infinity', 0", lease_ms=0):
    """What exchange_one() answers: (searched, id, attempts, data, token), or None for nothing done."""
    (row,) = bus.sql("SELECT t IS NULL AND (t).searched IS NULL, (t).searched, ((t).job).id, (t).attempts, ((t).job).data, (t).token"
                     " FROM {}.exchange_one(%s, %s, true, false, '%s', 'w2', %d, %d, %s) AS t"
                     % (job, token, queue, lease_ms, level, floor))
    return None if row[0] == "t" else row[1:]


def taken(queue, jobs="1"):
    """A queue with jobs of which the first is claimed: its id and token."""
    bus.sql("SELECT {}.push_batch('%s', ARRAY[%s]::json[])" % (queue, ", ".join("'%s'" % j for j in jobs)))
    return claim(queue)[0][:2]


def rest_of(queue):
    return counts(queue)[:2] + counts(queue)[3:4]


def a_turn_of_one_ends_its_job_and_claims_the_next_as_two_calls_would():
    answers = []
    for one in (True, False):
        q = fresh()
        bus.sql("SELECT {}.queue_set('%s', max_attempts => 7, abandon_after_ms => 12345)" % q)
        job, token = taken(q, "12")
        bus.sql("UPDATE {}.jobs SET attempts = 2 WHERE id = %d" % (int(job) + 1))
        if one:
            assert turn(job, token, q)[:4] == ("t", str(int(job) + 1), "3", "2")
        else:
            bus.sql("SELECT {}.ack_jobs(ARRAY[%s], ARRAY[%s], ARRAY[0], NULL, NULL);"
                    " SELECT FROM {}.claim_jobs('%s', 1, 'w2', 0, false, false, '{1}', '{-infinity}', '{0}')" % (job, token, q))
        answers.append([
            rest_of(q),
            bus.sql("SELECT %s - h.first_id, %s - h.last_id, h.jobs, h.failed, h.attempts, h.ids, h.error, h.result, h.worker LIKE 'pid %%',"
                    " h.finished_at >= h.started_at FROM {}.history AS h JOIN {}.queues AS x USING (queue_id) WHERE x.name = '%s'" % (job, job, q)),
            bus.sql("SELECT l.until - l.started_at, l.lease_ms, l.part, l.plain, l.suspect, l.worker, l.ids[1] - %s, cardinality(l.ids),"
                    " l.attempts, l.keys FROM {}.leases AS l JOIN {}.queues AS x USING (queue_id) WHERE x.name = '%s'" % (job, q))])
    assert answers[0] == answers[1], answers
    assert answers[0] == [("0", "1", "1"), [("0", "0", "1", "f", None, None, None, None, "t", "t")],
                          [("00:00:12.345", "12345", "0", "t", "f", "w2", "1", "1", "{3}", None)]], answers


def a_turn_of_one_tells_attempts_lease_and_payload():
    q = fresh()
    job, token = taken(q)
    bus.sql("SELECT {}.push('%s', NULL, bytes => '\\x00ff', content_type => 'a/b', headers => '{\"h\":\"1\"}', dedup => 'd',"
            " correlation_id => 'c', max_attempts => 3)" % q)
    told = bus.sql("SELECT (t).attempts, (t).max_attempts, (t).level, ((t).job).bytes, ((t).job).content_type, ((t).job).headers,"
                   " ((t).job).dedup, ((t).job).correlation_id, (t).lease_until - (t).started_at, (t).xid = pg_current_xact_id(),"
                   " (t).horizon <= (t).xid, (t).begun_at = now(), (t).token / 65536 > %s / 65536"
                   " FROM {}.exchange_one(%s, %s, false, false, '%s', 'w', 5000, 1, '-infinity', 0) AS t" % (token, job, token, q))
    assert told == [("1", "3", "1", "\\x00ff", "a/b", '{"h":"1"}', "d", "c", "00:00:05", "t", "t", "t", "t")], told
    # Its dedup key has to be given back: not for a turn of one.
    (job, token), = bus.sql("SELECT l.ids[1], l.token FROM {}.leases AS l JOIN {}.queues AS x USING (queue_id) WHERE x.name = '%s'" % q)
    assert turn(job, token, q) is None
    assert bus.one("SELECT {}.complete(%s, %s)" % (job, token)) == "t"


def a_turn_of_one_counts_the_attempts_of_what_it_ends():
    q = fresh()
    job, token = taken(q)
    bus.sql("SELECT {}.release(%s, %s); UPDATE {}.jobs SET attempts = 4 WHERE id = %s" % (job, token, job))
    (_, token, attempts, _), = claim(q)
    assert attempts == "5" and turn(job, token, q) == ("t", None, None, None, None)
    assert bus.sql("SELECT state, attempts FROM {}.job_states(%s)" % job) == [("completed", "5")]


def a_turn_of_one_with_a_stale_token_does_nothing():
    q = fresh()
    job, token = taken(q, "12")
    for wrong in ((job, int(token) + 1), (int(job) + 1, token), (0, 0)):
        assert turn(*wrong, q) is None, wrong
    assert rest_of(q) == ("1", "1", "0")
    assert turn(job, token, q)[0] == "t"
    assert turn(job, token, q) is None
    assert rest_of(q) == ("0", "1", "1")


def a_turn_of_one_leaves_leases_of_several_alone():
    q = fresh()
    bus.sql("SELECT {}.push_batch('%s', ARRAY['1','2','3']::json[])" % q)
    rows = claim(q, 2)
    assert turn(rows[0][0], rows[0][1], q) is None
    assert rest_of(q) == ("1", "2", "0")


def a_turn_of_one_ends_its_job_but_leaves_queues_that_are_not_plain_to_claim_jobs():
    for case in ("queue_set('%s', paused => true)", "queue_set('%s', concurrency => 1)", "push('%s', '5', key => 'k')"):
        q = fresh()
        job, token = taken(q, "12")
        bus.sql("SELECT {}." + case % q)
        before = rest_of(q)
        assert turn(job, token, q) == ("f", None, None, None, None), case
        assert rest_of(q) == (before[0], "0", "1"), case


def a_turn_of_one_leaves_a_suspect_that_is_due_to_claim_jobs():
    q = fresh()
    job, token = taken(q, "123")
    bus.sql("UPDATE {}.jobs SET suspect = true, due_at = now() + interval '1 hour' WHERE id = %d" % (int(job) + 2))
    answer = turn(job, token, q)
    assert answer[:4] == ("t", str(int(job) + 1), "1", "2")
    bus.sql("UPDATE {}.jobs SET due_at = now() WHERE id = %d" % (int(job) + 2))
    assert turn(int(job) + 1, answer[4], q) == ("f", None, None, None, None)
    assert bus.sql("SELECT id, suspect FROM {}.claim_jobs('%s', 1, 'w', 0, false, false, '{1}', '{-infinity}', '{0}')" % q) == [
        (str(int(job) + 2), "t")]


def a_turn_of_one_claims_on_its_level_behind_its_floor_what_is_due():
    q = fresh()
    job, token = taken(q, "123")
    bus.sql("SELECT {}.push('%s', '4', priority => -1), {}.push('%s', '5', delay => '1 hour')" % (q, q))
    floor = "(SELECT due_at FROM {}.jobs WHERE id = %d), %d" % (int(job) + 1, int(job) + 1)
    answer = turn(job, token, q, 1, floor)
    assert answer[:4] == ("t", str(int(job) + 2), "1", "3")
    assert turn(int(job) + 2, answer[4], q, 3) == ("t", None, None, None, None)
    (job, token, _, data), = claim(q)
    assert data == "4"
    answer = turn(job, token, q, 1)
    assert answer[3] == "2"
    assert turn(answer[1], answer[4], q, 1) == ("t", None, None, None, None)
    assert counts(q) == ("0", "0", "1", "4", "0", "0")


def a_turn_of_one_may_claim_from_another_queue_than_that_of_its_job():
    q, other = fresh(), fresh()
    job, token = taken(q, "12")
    bus.sql("SELECT {}.push('%s', '3')" % other)
    answer = turn(job, token, other)
    assert answer[3] == "3"
    assert rest_of(q) == ("1", "0", "1") and rest_of(other) == ("0", "1", "0")
    assert turn(answer[1], answer[4], "nobody") == ("f", None, None, None, None)
    assert rest_of(other) == ("0", "0", "1")


def a_turn_of_one_waits_for_the_disk_unless_it_is_in_a_hurry():
    for hurry, then in (("true", "off"), ("false", "on")):
        job, token = taken(fresh())
        assert bus.one("BEGIN; CREATE TEMP TABLE answer AS SELECT {}.exchange_one(%s, %s, %s, false, 'nobody', 'w', 0, 1, '-infinity', 0);"
                       " SELECT current_setting('synchronous_commit'); ROLLBACK" % (job, token, hurry)) == then


def a_turn_of_one_takes_what_a_binding_made_of_an_event():
    q = fresh()
    job, token = taken(q)
    bus.sql("SELECT {}.append('s-1', 'a.b', '{\"n\":1}');"
            " SELECT {}.route_events('%s', 'none', ARRAY[(SELECT max(global_sequence) FROM {}.events)])" % q)
    told = bus.sql("SELECT (t).event_type, (t).event_stream, ((t).job).data FROM {}.exchange_one(%s, %s, true, false, '%s', 'w', 0, 1,"
                   " '-infinity', 0) AS t" % (job, token, q))
    assert told == [("a.b", "s-1", '{"n":1}')], told


# ---- plans


def dead_letters_are_found_by_an_index_however_many_there_are():
    q = fresh()
    failed(q)
    bus.sql("INSERT INTO {}.job_dead_letters (job_id, queue_id, attempts, state, resolved_at)"
            " SELECT -n, queue_id, 1, 'discarded', now() FROM {}.queues, generate_series(1, 20000) AS n"
            " WHERE name = '%s'" % q)
    for arguments, index in (("'%s'" % q, "job_dead_letters_open_idx"), ("NULL, true, 100, 200, 10", "job_dead_letters_pkey")):
        for analyzed in (False, True):
            text = psql(bus.url, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                        " SET auto_explain.log_nested_statements = on; SET client_min_messages = log;"
                        " SELECT FROM howdah.job_dead_letter_states(%s)" % arguments, notices=True)
            assert "Index Scan using %s on job_dead_letters" % index in text, text
            assert not re.search(r"Seq Scan on (job_dead_letters|job_data|events)|Sort|Hash|Bitmap", text), text
            if not analyzed:
                bus.sql("ANALYZE {}.job_dead_letters; ANALYZE {}.queues; ANALYZE {}.job_data")
    bus.sql("DELETE FROM {}.job_dead_letters WHERE job_id < 0")


def plans_of_a_claim(queue):
    """What the server planned inside of a claim, as text."""
    return psql(bus.url, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                " SET auto_explain.log_nested_statements = on; SET client_min_messages = log;"
                " BEGIN; SELECT FROM howdah.claim_jobs('%s', 10, 'w', 0, true, true, '{1}', '{-infinity}', '{0}');"
                " ROLLBACK" % queue, notices=True)


def check_plans(queue):
    text = plans_of_a_claim(queue)
    assert "Seq Scan on jobs" not in text and "Seq Scan on job_data" not in text, text
    assert "Bitmap" not in text, text
    picking = [part for part in text.split("Query Text:") if "FOR UPDATE SKIP LOCKED" in part and "floor_dues" in part]
    assert picking, text
    for part in picking:
        assert "Index Scan using jobs_claim_idx on jobs" in part, part
        # The floor is where the scan starts, not what it throws away.
        assert re.search(r"Index Cond: .*ROW\(j?\.?due_at, j?\.?id\) > ROW", part), part
        # Only what was taken is put in order.
        assert not re.search(r"->  Sort(?!(.*\n){2,3} *->  CTE Scan on gone)", part), part


def check_plans_of_an_exchange(queue):
    text = psql(bus.url, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                " SET auto_explain.log_nested_statements = on; SET client_min_messages = log;"
                " BEGIN; SELECT howdah.push('%s'); SELECT howdah.exchange_one(id, token, true, false, '%s', 'w', 0, 1, '-infinity', 0)"
                " FROM howdah.claim('%s'); ROLLBACK" % (queue, queue, queue), notices=True)
    parts = [part for part in text.split("Query Text:") if "of_token" in part or "exchange_one" in part or "one.id" in part
             or "floor_due, floor_id" in part]
    picking = [part for part in parts if "SKIP LOCKED" in part]
    assert len(parts) >= 5 and len(picking) == 1, text
    assert not re.search("Seq Scan|Bitmap|Sort|Hash", "".join(parts)), text
    assert "Index Scan using jobs_claim_idx on jobs" in picking[0] and "Tid Scan on jobs" in picking[0], text
    assert re.search(r"Index Cond: .*ROW\(due_at, id\) > ROW", picking[0]), text


def a_turn_of_one_has_the_same_plans_on_an_empty_and_on_a_full_queue():
    q = fresh()
    for more in (1, 20000):
        bus.sql("SELECT count(*) FROM {}.push_batch('%s', array_fill('1'::json, ARRAY[%d]))" % (q, more))
        check_plans_of_an_exchange(q)
        bus.sql("ANALYZE {}.jobs; ANALYZE {}.job_data; ANALYZE {}.leases; ANALYZE {}.queues")
        check_plans_of_an_exchange(q)


def a_claim_is_the_same_index_scan_on_an_empty_and_on_a_full_queue():
    q = fresh()
    bus.sql("SELECT {}.push('%s'); SELECT FROM {}.claim('%s')" % (q, q))
    check_plans(q)
    bus.sql("ANALYZE {}.jobs; ANALYZE {}.job_data; ANALYZE {}.leases")
    check_plans(q)
    bus.sql("INSERT INTO {}.job_data (id, queue_id, priority, max_attempts, data)"
            " SELECT nextval('{}.jobs_id_seq'), (SELECT queue_id FROM {}.queues WHERE name = '%s'), 0, 0, '1'"
            " FROM generate_series(1, 100000);"
            " INSERT INTO {}.jobs (due_at, id, queue_id, priority) SELECT clock_timestamp(), p.id, p.queue_id, 0"
            " FROM {}.job_data AS p JOIN {}.queues AS x USING (queue_id) WHERE x.name = '%s' AND p.data::text = '1'"
            % (q, q))
    check_plans(q)
    bus.sql("ANALYZE {}.jobs; ANALYZE {}.job_data")
    check_plans(q)
    bus.sql("SELECT {}.push('%s', key => 'k')" % q)
    check_plans(q)


if __name__ == "__main__":
    sys.exit(run([
        a_push_returns_ascending_ids_and_makes_the_queue, a_push_that_is_rolled_back_never_was,
        a_delay_and_a_time_schedule_a_job_and_a_time_past_does_not, a_batch_keeps_its_order,
        a_live_dedup_key_gives_the_first_id_and_an_ended_one_does_not, twins_in_one_batch_are_one_job,
        bad_input_names_field_rule_and_length_and_stores_nothing, settings_have_the_limits_that_the_command_has,
        a_claim_goes_by_priority_due_time_and_id,
        a_stale_token_changes_nothing_and_says_so, complete_is_part_of_the_transaction_it_is_called_in,
        a_batch_is_acked_job_by_job,
        a_retry_without_a_time_backs_off_and_an_extension_without_one_is_as_claimed,
        a_retry_without_an_attempt_left_is_a_failure_with_a_dead_letter,
        an_abandoned_job_is_claimed_again_and_counted_and_refreshed,
        a_job_whose_workers_always_die_fails_without_another_run, suspects_are_claimed_alone,
        a_lease_that_was_acked_in_part_is_given_back_beside_keys,
        poll_gives_one_job_or_no_row_and_finalize_ends_it, poll_gives_bytes_as_they_were_pushed,
        finalize_without_an_outcome_is_refused_and_changes_nothing,
        poll_and_finalize_leave_nothing_of_a_job_in_the_session, finalize_is_for_the_session_that_polled_last,
        a_suspect_comes_behind_all_that_is_more_urgent, a_turn_of_one_claims_what_is_more_urgent_than_a_suspect,
        a_turn_of_one_that_looks_leaves_a_more_urgent_job_to_claim_jobs,
        a_claim_with_floors_looks_at_other_priorities_when_it_finds_nothing,
        of_very_many_priorities_the_most_urgent_come_first, priorities_that_nobody_uses_any_more_cost_nothing,
        a_hot_key_in_front_of_all_others_holds_nobody_up,
        a_paused_queue_gives_nothing_and_a_limited_one_only_so_much,
        jobs_of_a_key_run_one_at_a_time_in_order_also_across_retries,
        a_failed_job_lets_its_key_go_or_holds_it_as_the_queue_says, a_cancelled_job_lets_the_next_of_its_key_go,
        a_hot_key_is_set_aside_once, every_job_is_counted_once_whatever_becomes_of_it,
        the_history_is_read_by_position_both_ways, a_dead_letter_of_a_job_tells_what_was_pushed,
        dead_letters_of_jobs_are_listed_by_queue_state_and_page, a_dead_letter_that_is_redriven_follows_its_job,
        marking_refuses_another_state_and_knows_its_queues, dead_letters_are_found_by_an_index_however_many_there_are,
        a_turn_of_one_ends_its_job_and_claims_the_next_as_two_calls_would,
        a_turn_of_one_tells_attempts_lease_and_payload,
        a_turn_of_one_counts_the_attempts_of_what_it_ends,
        a_turn_of_one_with_a_stale_token_does_nothing,
        a_turn_of_one_leaves_leases_of_several_alone,
        a_turn_of_one_ends_its_job_but_leaves_queues_that_are_not_plain_to_claim_jobs,
        a_turn_of_one_leaves_a_suspect_that_is_due_to_claim_jobs,
        a_turn_of_one_claims_on_its_level_behind_its_floor_what_is_due,
        a_turn_of_one_may_claim_from_another_queue_than_that_of_its_job,
        a_turn_of_one_waits_for_the_disk_unless_it_is_in_a_hurry,
        a_turn_of_one_takes_what_a_binding_made_of_an_event,
        a_turn_of_one_has_the_same_plans_on_an_empty_and_on_a_full_queue,
        a_claim_is_the_same_index_scan_on_an_empty_and_on_a_full_queue]))
