#!/usr/bin/env python3
"""Two times in SQL: corrections, what was known when, snapshots, purges; each function, several sessions at once."""
import atexit
import random
import sys

from bus import Bus, Refused, run
from session import Session, sessions, until, wait_for_wait

bus = Bus("times")
main = Session(bus.url)  # for what is done often
atexit.register(main.close)
serial = 0
NOBODY = "0190a5c8-7b1e-7cc0-8000-00000000dead"


def fresh(prefix="s"):
    """A name that no other test has."""
    global serial
    serial += 1
    return "%s%d" % (prefix, serial)


def append(stream, kind="a.b", more=""):
    """The id of a new event."""
    return main.one("SELECT event_id FROM {}.append('%s', '%s'%s)" % (stream, kind, more))


def correct(event_id, more="'{\"n\":1}', reason => 'r'"):
    """The id of a correction."""
    return main.one("SELECT correction_id FROM {}.correct('%s', %s)" % (event_id, more))


def clock():
    return main.one("SELECT clock_timestamp()::text")


def ids(query):
    return [row[0] for row in main.sql("SELECT id FROM " + query)]


# ---- corrections


def a_correction_takes_over_what_it_does_not_name():
    s = fresh()
    cause = append(fresh())
    first = append(s, "money.in", ", '{\"n\": 1}', '{\"h\":\"v\"}', correlation_id => 'c', causation_id => '%s',"
                   " actor => 'ann', schema_version => 3" % cause)
    append(s)
    row = main.sql("SELECT version, revision, already_stored, recorded_at > (SELECT e.recorded_at FROM {}.events AS e"
                   " WHERE e.id = '%s') FROM {}.correct('%s', '{\"n\":2}', reason => 'typo')" % (first, first))
    assert row == [("3", "2", "f", "t")], row
    rows = main.sql("SELECT version, revision, family = '%s', corrects = '%s', stream = '%s', type, data, headers,"
                    " correlation_id, causation_id = '%s', actor, reason, schema_version, retracts, purged, valid_time ="
                    " (SELECT e.recorded_at FROM {}.events AS e WHERE e.id = '%s')"
                    " FROM {}.versions('%s')" % (first, first, s, cause, first, first))
    assert rows == [
        ("1", "1", "t", None, "t", "money.in", '{"n": 1}', '{"h":"v"}', "c", "t", "ann", None, "3", "f", "f", "t"),
        ("3", "2", "t", "t", "t", "money.in", '{"n":2}', '{"h":"v"}', "c", "t", None, "typo", "3", "f", "f", "t")], rows
    # By the id of any event of the family, everything anew.
    third = correct(ids("{}.versions('%s')" % first)[1],
                    "valid_time => '2020-01-01Z', headers => '{}', actor => 'bob', schema_version => 4, reason => 'again'")
    assert main.sql("SELECT revision, data, headers, valid_time = '2020-01-01Z', actor, schema_version"
                    " FROM {}.versions('%s') WHERE id = '%s'" % (first, third)) == [("3", '{"n":2}', "{}", "t", "bob", "4")]
    bytes_ = correct(first, "bytes => '\\x00ff', content_type => 'a/b', reason => 'r'")
    assert main.sql("SELECT data, bytes, content_type FROM {}.read_ids(ARRAY['%s']::uuid[])" % bytes_) == [
        (None, "\\x00ff", "a/b")]
    assert main.sql("SELECT data, bytes, content_type FROM {}.read_ids(ARRAY['%s']::uuid[])"
                    % correct(first, "headers => '{}', reason => 'r'")) == [(None, "\\x00ff", "a/b")]


def a_correction_is_recorded_later_whatever_the_clock_does():
    first = append(fresh())
    main.sql("UPDATE {}.events SET recorded_at = '2999-01-01Z' WHERE id = '%s'" % first)
    correct(first)
    correct(first)
    assert main.sql("SELECT recorded_at::timestamptz AT TIME ZONE 'UTC' FROM {}.versions('%s')" % first) == [
        ("2999-01-01 00:00:00",), ("2999-01-01 00:00:00.000001",), ("2999-01-01 00:00:00.000002",)]
    main.sql("DELETE FROM {}.events WHERE recorded_at > '2998-01-01'")


def a_correction_is_repeated_with_the_same_headers():
    for stored, same, others in (("NULL", ("NULL", "'{}'"), ["'{\"a\":\"1\"}'"]),
                                 ("'{\"a\":\"1\"}'", ("NULL", "'{\"a\":\"1\"}'"), ("'{}'", "'{\"a\":\"2\"}'"))):
        call = "SELECT already_stored FROM {}.correct('%s', '1', reason => 'r', id => '%s', headers => %%s)" % (
            append(fresh()), main.one("SELECT {}.uuid_v7()"))
        assert main.one(call % stored) == "f"
        assert [main.one(call % headers) for headers in same] == ["t", "t"]
        bus.refuses_all(*[(call % headers, "UH009", "is stored with other content") for headers in others])


def retracted_is_not_a_fact_until_it_is_taken_up_again():
    s = fresh()
    first = append(s, more=", '{\"n\":1}', valid_time => '2020-01-01Z'")
    assert main.sql("SELECT revision, already_stored FROM {}.retract('%s', 'never')" % first) == [("2", "f")]
    assert main.sql("SELECT data::text, retracts, valid_time = '2020-01-01Z' FROM {}.read_stream('%s', 2)" % s) == [
        ("null", "t", "t")]
    assert ids("{}.as_of(stream => '%s')" % s) == []
    assert len(ids("{}.query_events('as_of', stream => '%s', retractions => true)" % s)) == 1
    bus.refuses_all(
        ("SELECT {}.retract('%s', 'r')" % first, "UH006", "^retract: the event is retracted already"),
        ("SELECT {}.correct('%s', valid_time => '2020-01-01Z', reason => 'r')" % first, "UH006", "^data: is required: the event is retracted"))
    last = correct(first)
    assert ids("{}.current_events('%s')" % s) == [last]


def what_is_wrong_with_a_correction_is_said_by_field():
    first = append(fresh())
    call = "SELECT {}.correct('%s', " % first
    bus.refuses_all(
        (call + "'1')", "UH006", "^reason: must be 1 to 1000 bytes, got 0"),
        (call + "'1', reason => '')", "UH006", "^reason: must be 1 to 1000 bytes, got 0"),
        (call + "'1', reason => repeat('x', 1001))", "UH006", "^reason: must be 1 to 1000 bytes, got 1001"),
        (call + "'1', reason => E'a\\nb')", "UH006", "^reason: has a control character"),
        (call + "reason => 'r')", "UH006", "^data: there is nothing to correct"),
        (call + "'1', reason => 'r', retract => true)", "UH006", "^data: a retraction has none"),
        (call + "reason => 'r', retract => true, valid_time => now())", "UH006", "^valid_time: a retraction has none"),
        (call + "bytes => '\\x00', reason => 'r')", "UH006", "^data: must be JSON, or bytes with a content type"),
        (call + "content_type => 'a/b', reason => 'r')", "UH006", "^data: a content type needs bytes and no JSON"),
        (call + "'1', bytes => '\\x00', content_type => 'a/b', reason => 'r')", "UH006", "^data: a content type"),
        (call + "'\"\\u0000\"', reason => 'r')", "UH006", "^data: not valid JSON"),
        (call + "to_json(repeat('x', 1048577)), reason => 'r')", "UH006", "^data: must be at most 1048576 bytes"),
        (call + "headers => '[]', reason => 'r')", "UH006", "^headers: must be a JSON object"),
        (call + "'1', actor => '', reason => 'r')", "UH006", "^actor: must be 1 to 255 bytes"),
        (call + "'1', schema_version => 0, reason => 'r')", "UH006", "^schema_version: must be 1"),
        (call + "valid_time => 'infinity', reason => 'r')", "UH006", "^valid_time: must be within the years"),
        (call + "'1', reason => 'r', expected_revision => -1)", "UH006", "^expected_revision"),
        ("SELECT {}.correct('%s', '1', reason => 'r')" % NOBODY, "UH004", "^no event has the id"),
        ("SELECT {}.correct(NULL, '1', reason => 'r')", "UH004", "^no event has the id"))
    refused = bus.refuses(call + "'1', reason => 'r', expected_revision => 2)", "UH003",
                          "^the event is at revision 1, expected 2")
    assert refused.detail == "1", refused.detail
    assert len(ids("{}.versions('%s')" % first)) == 1
    correct(first, "'1', reason => 'r', expected_revision => 1")
    correct(first, "'1', reason => 'r', expected_revision => 0")


def the_same_correction_again_is_answered_with_its_position():
    first = append(fresh())
    other = append(fresh())
    mine = main.one("SELECT {}.uuid_v7()")
    call = "SELECT global_sequence, version, revision, already_stored FROM {}.correct('%s', '{\"n\":2}', reason => 'r', id => '%s')"
    stored = main.sql(call % (first, mine))[0]
    correct(first)
    assert main.sql(call % (first, mine)) == [stored[:3] + ("t",)]
    bus.refuses_all(
        (call % (other, mine), "UH009", "is stored with other content"),
        ((call % (first, mine)).replace("'r'", "'x'"), "UH009", "is stored with other content"),
        ((call % (first, mine)).replace('"n":2', '"n":3'), "UH009", "is stored with other content"),
        (call % (first, first), "UH009", "is stored with other content"))
    assert len(ids("{}.versions('%s')" % first)) == 3
    # As the library sends it: all of the event, and what it corrects.
    again = ("SELECT revision, already_stored FROM {}.append_correction('%s', '%s', '{\"n\":2}', NULL, NULL, NULL, 1,"
             " NULL, NULL, 'r', false, false)")
    assert main.sql(again % (first, mine)) == [("2", "t")]
    assert main.sql(again % (first, main.one("SELECT {}.uuid_v7()"))) == []  # it is not the newest
    assert main.sql(again % (NOBODY, main.one("SELECT {}.uuid_v7()"))) == []


def of_two_corrections_at_once_one_is_stored():
    first = append(fresh())
    call = "SELECT revision FROM {}.correct('%s', '{\"n\":2}', reason => 'r')" % first
    with sessions(bus.url, 2) as (a, b):
        a.sql("BEGIN")
        assert a.one(call) == "2"
        b.start(call)
        wait_for_wait(main, b, by=a)
        a.sql("COMMIT")
        try:
            b.end()
            assert False, "not refused"
        except Refused as refused:
            assert (refused.state, refused.detail) == ("UH003", "2"), refused
        # Whoever rolls back leaves the place to the other one.
        a.sql("BEGIN")
        assert a.one(call) == "3"
        b.start(call)
        wait_for_wait(main, b, by=a)
        a.sql("ROLLBACK")
        assert b.end() == [("3",)]
        # Behind an ordinary append it comes next.
        stream = main.one("SELECT stream FROM {}.events WHERE id = '%s'" % first)
        a.sql("BEGIN; SELECT FROM {}.append('%s', 'a')" % stream)
        b.start(call)
        wait_for_wait(main, b, by=a)
        a.sql("COMMIT")
        assert b.end() == [("4",)]
        b.sql("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM {}.events LIMIT 1")
        a.sql(call)
        try:
            b.sql(call)
            assert False, "not refused"
        except Refused as refused:
            assert refused.state == "40001", refused
    assert [r[0] for r in main.sql("SELECT revision FROM {}.versions('%s')" % first)] == ["1", "2", "3", "4", "5"]


def a_correction_wakes_those_who_sleep():
    first = append(fresh())
    call = ("SELECT mark FROM {}.append_correction('%s', NULL, '1', NULL, NULL, NULL, 1, NULL, NULL, 'r', false, false)")
    with sessions(bus.url, 1) as (a,):
        a.sql("SELECT setval('{}.bell', 1); SET howdah.ring = 'off'")
        # Who rings by itself is told that somebody sleeps.
        assert a.one(call % first) == "1"
        assert a.one("SELECT last_value FROM {}.bell") == "1"
        a.sql("SET howdah.ring = 'on'; SELECT {}.correct('%s', '2', reason => 'r')" % first)
        assert a.one("SELECT last_value FROM {}.bell") == "0"


def the_number_is_drawn_before_the_time_is_taken():
    # Raw INSERTs, and the one of append_correction(), which names the time.
    for columns, source in (
            ("", "VALUES ('x', 1, 'a', '{}')"), ("", "VALUES ('x', 1, 'a', '{}'), ('y', 1, 'a', '{}')"),
            ("", "SELECT 'x', 1, 'a', '{}'::json FROM {}.meta"),
            (", recorded_at", "VALUES ('x', 1, 'a', '{}', greatest(clock_timestamp(), now()))")):
        plan = "\n".join(row[0] for row in bus.sql(
            "EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO {}.events (stream, version, type, data%s) %s" % (columns, source)))
        assert 0 < plan.find("nextval") < plan.find("clock_timestamp"), plan


# ---- queries


TYPES = ["shop.order", "shop.paid", "mail.sent"]


def fill_at_random(seed):
    """Facts in four streams, some corrected, retracted, taken up again; the streams."""
    chance = random.Random(seed)
    prefix = fresh("r")
    families = []
    script = []
    for i in range(40):
        one = "%08x-0000-7000-8000-%012x" % (seed, i)
        families.append(one)
        script.append("SELECT FROM {}.append('%s-%d', '%s', '{\"n\":%d}', id => '%s', correlation_id => %s, headers => %s%s)" % (
            prefix, chance.randrange(4), chance.choice(TYPES), i, one, chance.choice(["'k%d'" % seed, "NULL"]),
            chance.choice(["'{\"a\":\"1\"}'", "'{\"a\":\"2\",\"b\":\"1\"}'", "NULL"]),
            chance.choice(["", ", valid_time => '%d-01-01Z'" % chance.randrange(2000, 2030)])))
        for _ in range(chance.randrange(3)):
            some = chance.choice(families)
            script.append(chance.choice([
                "SELECT FROM {}.correct('%s', '{\"m\":%d}', reason => 'r')" % (some, i),
                "SELECT FROM {}.correct('%s', '{\"m\":%d}', '%d-01-01Z', 'r', headers => '{\"a\":\"1\"}')" % (
                    some, i, chance.randrange(2000, 2030)),
                "DO $$ BEGIN PERFORM {}.retract('%s', 'r'); EXCEPTION WHEN SQLSTATE 'UH006' THEN NULL; END $$" % some]))
    bus.sql(";\n".join(script))
    return prefix, families, chance


# What as_of() promises, said in another way: the last revision that was known of each family.
TRUTH = ("SELECT id FROM (SELECT DISTINCT ON (family) * FROM {}.all_events WHERE stream LIKE '%(prefix)s-%%' AND recorded_at <="
         " %(known)s ORDER BY family, revision DESC) AS e WHERE NOT retracts AND valid_time <= %(valid)s AND %(filter)s"
         " ORDER BY %(order)s")
ORDERS = {"sequence": "global_sequence", "valid": "valid_time, global_sequence", "recorded": "recorded_at, global_sequence"}


def pages(call, order, backward, size):
    """Ids, read page by page with keys."""
    rows, at = [], "NULL, after_sequence => NULL"
    while True:
        page = main.sql("SELECT id, global_sequence, valid_time, recorded_at FROM %s, order_by => '%s', backward => %s,"
                        " max_count => %d, after_time => %s)" % (call, order, backward, size, at))
        rows += [row[0] for row in page]
        if len(page) < size:
            return rows
        last = page[-1]
        at = "%s, after_sequence => %s" % (
            {"sequence": "NULL", "valid": "'%s'" % last[2], "recorded": "'%s'" % last[3]}[order], last[1])


def as_of_is_the_last_revision_that_was_known():
    for seed in range(1, 4):
        prefix, families, chance = fill_at_random(seed)
        times = main.sql("SELECT recorded_at FROM {}.all_events WHERE stream LIKE '%s-%%'" % prefix)
        filters = [
            ("stream => '%s-1'" % prefix, "stream = '%s-1'" % prefix),
            ("stream => '%s-2', type => 'shop.order'" % prefix, "stream = '%s-2' AND type = 'shop.order'" % prefix),
            ("stream => '%s-3', pattern => 'shop.*'" % prefix, "stream = '%s-3' AND type LIKE 'shop.%%'" % prefix),
            ("stream => '%s-1', headers => '{\"a\":\"1\"}'" % prefix,
             "stream = '%s-1' AND headers->>'a' = '1'" % prefix),
            ("stream => '%s-1', headers => '{\"a\":\"2\",\"b\":\"1\"}'" % prefix,
             "stream = '%s-1' AND headers->>'a' = '2' AND headers->>'b' = '1'" % prefix),
            ("correlation_id => 'k%d'" % seed, "correlation_id = 'k%d'" % seed),
            ("family => '%s'" % families[7], "family = '%s'" % families[7]),
            ("correlation_id => 'k%d', valid_from => '2010-01-01Z', valid_before => '2020-01-01Z'" % seed,
             "correlation_id = 'k%d' AND valid_time >= '2010-01-01Z' AND valid_time < '2020-01-01Z'" % seed),
        ]
        for n, (arguments, condition) in enumerate(filters):
            known = "'%s'" % chance.choice(times)[0] if n % 2 else "NULL"
            valid = chance.choice(["NULL", "'2015-01-01Z'"])
            for order, backward in ((o, b) for o in ORDERS for b in (False, True)):
                call = "{}.query_events('as_of', %s, %s, %s" % (valid, known, arguments)
                truth = [row[0] for row in main.sql(TRUTH % {
                    "prefix": prefix, "known": "'infinity'" if known == "NULL" else known,
                    "valid": "'infinity'" if valid == "NULL" else valid, "filter": condition, "order": ORDERS[order]})]
                if backward:
                    truth.reverse()
                found = pages(call, order, backward, chance.choice([3, 100]))
                assert found == truth, (call, order, backward, found, truth)


def a_long_stream_is_answered_as_a_short_one():
    s = fresh("long")
    bus.sql("INSERT INTO {}.events (stream, version, type, data) SELECT '%s', i, 'long.event', to_json(i)"
            " FROM generate_series(1, 1500) AS i" % s)
    for version in (5, 700, 1400):
        main.sql("SELECT {}.correct(id, '0', reason => 'r') FROM {}.events WHERE stream = '%s' AND version = %d" % (s, version))
    truth = [row[0] for row in main.sql(TRUTH.replace("%(prefix)s-%%", s) % {
        "known": "'infinity'", "valid": "'infinity'", "filter": "true", "order": "global_sequence"})]
    assert len(truth) == 1500
    for size in (400, 2000):
        assert pages("{}.query_events('as_of', stream => '%s'" % s, "sequence", False, size) == truth
        assert pages("{}.query_events('as_of', stream => '%s'" % s, "sequence", True, size) == truth[::-1]
    main.sql("DELETE FROM {}.events WHERE stream = '%s'" % s)


def every_view_and_every_range_over_the_whole_log():
    truth = {"log": "true", "originals": "revision = 1",
             "as_of": "NOT retracts AND NOT EXISTS (SELECT FROM {}.events AS n WHERE n.family = e.family"
                      " AND n.revision = e.revision + 1)"}
    middle = main.one("SELECT recorded_at FROM {}.events ORDER BY recorded_at OFFSET 100 LIMIT 1")
    ranges = [("", "true"), (", pattern => 'shop.>'", "type LIKE 'shop.%'"), (", type => 'mail.sent'", "type = 'mail.sent'"),
              (", recorded_from => '%s'" % middle, "recorded_at >= '%s'" % middle),
              (", recorded_before => '%s'" % middle, "recorded_at < '%s'" % middle),
              (", valid_from => '2005-01-01Z', valid_before => '2025-01-01Z'",
               "valid_time >= '2005-01-01Z' AND valid_time < '2025-01-01Z'"),
              (", valid_from => '%s'" % middle, "valid_time >= '%s'" % middle),
              (", headers => '{\"a\":\"1\"}'", "headers->>'a' = '1'")]
    for view, seen in truth.items():
        for arguments, condition in ranges:
            for order in ORDERS:
                expected = [row[0] for row in main.sql("SELECT id FROM {}.all_events AS e WHERE %s AND %s ORDER BY %s" % (
                    seen, condition, ORDERS[order]))]
                found = pages("{}.query_events('%s'%s" % (view, arguments), order, False, 37)
                assert found == expected, (view, arguments, order)
                assert pages("{}.query_events('%s'%s" % (view, arguments), order, True, 50) == expected[::-1]
            q = "ROW('%s'%s)::{}.query" % (view, ", NULL" * 16)
            if not arguments:
                assert main.one("SELECT {}.query_count(%s)" % q) == main.one(
                    "SELECT count(*) FROM {}.all_events AS e WHERE %s" % seen)
                assert main.sql("SELECT * FROM {}.query_streams(%s, 'r', 5) AS s" % q) == main.sql(
                    "SELECT DISTINCT stream::text COLLATE \"C\" FROM {}.all_events AS e WHERE %s AND stream > 'r' ORDER BY 1 LIMIT 5" % seen)
                assert main.sql("SELECT * FROM {}.type_stats('%s')" % view) == main.sql(
                    "SELECT type, count(*), count(*) FILTER (WHERE revision > 1), count(*) FILTER (WHERE retracts),"
                    " count(DISTINCT stream), min(valid_time), max(valid_time), min(recorded_at), max(recorded_at)"
                    " FROM {}.all_events AS e WHERE %s GROUP BY type ORDER BY type" % seen)
    for current in ("false", "true"):
        assert main.sql("SELECT {}.streams_of_type('shop.paid', current => %s)" % current) == main.sql(
            "SELECT DISTINCT stream::text COLLATE \"C\" FROM {}.all_events AS e WHERE type = 'shop.paid' AND (%s) ORDER BY 1"
            % truth["as_of" if current == "true" else "log"])


def a_page_of_a_stream_may_begin_at_any_number():
    s, other = fresh(), fresh()
    numbers = [int(main.one("SELECT global_sequence FROM {}.append('%s', 'a.b')" % stream))
               for stream in (other, s, other, s, other, s, other)]
    for view in "log", "as_of":
        for backward in False, True:
            for number in [0] + numbers + [9223372036854775807]:
                rows = main.sql("SELECT global_sequence FROM {}.query_events('%s', stream => '%s', backward => %s,"
                                " after_sequence => %d)" % (view, s, backward, number))
                expected = [n for n in numbers[1::2] if (n < number if backward else n > number)]
                assert [int(row[0]) for row in rows] == sorted(expected, reverse=backward), (view, backward, number, rows)


def what_cannot_be_asked_is_said_by_field():
    bus.refuses_all(
        ("SELECT {}.query_events('all')", "UH006", "^view: must be log, as_of or originals"),
        ("SELECT {}.query_events(order_by => 'x')", "UH006", "^order_by: must be sequence, valid or recorded"),
        ("SELECT {}.query_events(known_at => now())", "UH006", "^known_at: only with the view as_of"),
        ("SELECT {}.query_events(valid_at => now())", "UH006", "^valid_at: only with the view as_of"),
        ("SELECT {}.query_events(headers => '[]')", "UH006", "^headers: must be a JSON object"),
        ("SELECT {}.query_events(pattern => 'a b')", "UH006", "^pattern: "),
        ("SELECT {}.query_events(max_count => -1)", "UH006", "^max_count: "),
        ("SELECT {}.query_events(order_by => 'valid', after_sequence => 1)", "UH006", "^after_sequence: "),
        ("SELECT {}.query_events(family => '%s')" % NOBODY, "UH004", "^no event has the id"),
        ("SELECT {}.as_of(known_at => now() + interval '1 minute')", "UH006", "^known_at: is in the future"),
        ("SELECT {}.type_stats('as_of', known_at => now() + interval '1 minute')", "UH006", "^known_at: is in the future"),
        ("SELECT {}.type_stats('x')", "UH006", "^view: "),
        ("SELECT {}.knowledge(now() + interval '1 minute')", "UH006", "^known_at: is in the future"),
        ("SELECT {}.diff(now() + interval '1 minute')", "UH006", "^known_at: is in the future"),
        ("SELECT {}.diff(now(), now() + interval '1 minute')", "UH006", "^known_to: is in the future"),
        ("SELECT {}.diff(now() - interval '1 minute', max_count => -1)", "UH006", "^max_count: must not be negative"),
        ("SELECT {}.diff(now(), now() - interval '1 minute')", "UH006", "^known_to: is before known_at"),
        ("SELECT {}.diff(NULL)", "UH006", "^known_at: must be given"))
    assert main.sql("SELECT FROM {}.versions('%s')" % NOBODY) == []


def a_diff_is_what_has_become_of_each_family():
    s = fresh()
    stays, corrected, gone, back = (append(s, more=", '\"%s\"'" % name) for name in ("stays", "corrected", "gone", "back"))
    main.sql("SELECT {}.retract('%s', 'r')" % back)
    k1 = clock()
    correct(corrected, "'2', reason => 'second'")
    correct(corrected, "'3', reason => 'third'")
    main.sql("SELECT {}.retract('%s', 'never')" % gone)
    correct(back, "'\"again\"', reason => 'it did'")
    new = append(s, more=", '\"new\"'")
    brief = append(s)
    main.sql("SELECT {}.retract('%s', 'r')" % brief)
    k2 = clock()
    correct(stays, "'\"later\"', reason => 'r'")
    columns = "change, family, before_revision, before_data, after_revision, after_data, reason"
    expected = [("corrected", corrected, "1", '"corrected"', "3", "3", "third"),
                ("retracted", gone, "1", '"gone"', "2", "null", "never"),
                ("restored", back, "2", "null", "3", '"again"', "it did"),
                ("added", new, None, None, "1", '"new"', None)]
    assert main.sql("SELECT %s FROM {}.diff('%s', '%s', '%s')" % (columns, k1, k2, s)) == expected
    assert main.sql("SELECT %s FROM {}.diff('%s', '%s')" % (columns, k1, k2)) == expected
    assert main.sql("SELECT %s FROM {}.diff('%s', '%s', pattern => 'a.*', max_count => 2)" % (columns, k1, k2)) == expected[:2]
    assert main.sql("SELECT change, before_id, after_sequence = (SELECT max(global_sequence) FROM {}.events)"
                    " FROM {}.diff('%s', type => 'a.b')" % k2) == [("corrected", stays, "t")]
    assert main.sql("SELECT FROM {}.diff('%s', '%s')" % (k1, k1)) == []


# ---- what an answer is worth


def knowledge(known_at, session=main):
    return session.sql("SELECT final, waits_for FROM {}.knowledge('%s')" % known_at)[0]


def an_answer_is_final_when_nobody_can_add_to_it():
    s = fresh()
    assert main.sql("SELECT known_at, asked_at <= clock_timestamp(), final, waits_for FROM {}.knowledge()") == [
        (None, "t", "f", None)]
    with sessions(bus.url, 2) as (writer, late):
        for begin, end in (("", "COMMIT"), ("SAVEPOINT a; ", "ROLLBACK TO SAVEPOINT a; COMMIT"), ("", "ROLLBACK")):
            writer.sql("BEGIN; %sSELECT FROM {}.append('%s', 'slow.event')" % (begin, s))
            k = clock()
            final, waits_for = knowledge(k)
            assert final == "f" and waits_for.startswith("pid %s of postgres (psql), open for " % writer.pid), waits_for
            # Its snapshot is of no use; what was known before the writer began is.
            assert knowledge("2020-01-01Z") == ("t", None)
            before = ids("{}.as_of(known_at => '%s', stream => '%s')" % (k, s))
            writer.sql(end)
            assert knowledge(k) == ("t", None)
            after = ids("{}.as_of(known_at => '%s', stream => '%s')" % (k, s))
            assert len(after) == len(before) + (end == "COMMIT"), (begin, end)
        # Who has begun later does not matter.
        k = clock()
        late.sql("BEGIN; SELECT FROM {}.append('%s', 'late.event')" % s)
        assert knowledge(k) == ("t", None)
        # Nor who has only read, or written elsewhere.
        writer.sql("BEGIN; SELECT FROM {}.events LIMIT 1; CREATE TEMP TABLE t (x int)")
        assert knowledge(k) == ("t", None)
        assert knowledge(clock())[0] == "f"
        writer.sql("ROLLBACK")
        late.sql("COMMIT")
        # A prepared transaction holds on, whoever has gone.
        writer.sql("BEGIN; SELECT FROM {}.append('%s', 'prepared.event'); PREPARE TRANSACTION 'times'" % s)
        k = clock()
        final, waits_for = knowledge(k)
        assert final == "f" and waits_for.startswith("prepared times of postgres, open for "), waits_for
        main.sql("COMMIT PREPARED 'times'")
        assert knowledge(k) == ("t", None)
        assert ids("{}.as_of(known_at => '%s', type => 'prepared.event')" % k) != []
        # Of oneself, too; and with a snapshot that stays the same nothing is final.
        main.sql("BEGIN; SELECT FROM {}.append('%s', 'own.event')" % s)
        k = clock()
        assert knowledge(k)[1].startswith("pid %s " % main.pid)
        main.sql("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert knowledge(k) == ("f", None)
        main.sql("COMMIT")
        assert knowledge(k) == ("t", None)
    assert main.sql("SELECT final FROM {}.knowledge_of('2999-01-01')") == [("f",)]


WRITER = """DO $$
DECLARE
    picked uuid;
BEGIN
    FOR i IN 1..80 LOOP
        SELECT e.id INTO picked FROM {}.events AS e WHERE e.type = 'race.event' ORDER BY random() LIMIT 1;
        BEGIN
            IF picked IS NULL OR i % 2 = 0 THEN
                PERFORM {}.append('race-' || i % 3, 'race.event');
            ELSE
                PERFORM {}.correct(picked, to_json(i), reason => 'r', retract => false);
            END IF;
        EXCEPTION WHEN SQLSTATE 'UH003' THEN NULL; -- somebody else was quicker
        END;
        PERFORM pg_sleep(random() * 0.02);
        IF i % 5 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
    END LOOP;
END $$"""


def a_final_answer_stays_the_same_while_others_write():
    question = "SELECT md5(string_agg(a.id::text, ',')) FROM {}.as_of(known_at => '%s', type => 'race.event') AS a"
    answers = {}
    waited = 0
    with sessions(bus.url, 4) as writers:
        for writer in writers:
            writer.start(WRITER)
        until(lambda: main.one("SELECT count(*) > 10 FROM {}.events WHERE type = 'race.event'") == "t", "they write")
        for _ in range(40):
            k = clock()
            while knowledge(k)[0] == "f":
                waited += 1
            answers[k] = main.one(question % k)
        for writer in writers:
            writer.end()
    assert waited > 0 and len(set(answers.values())) > 1, (waited, answers)
    for k, answer in answers.items():
        assert main.one(question % k) == answer, k


# ---- snapshots


def snapshots_are_found_at_or_below_a_version():
    s = fresh()
    for _ in range(5):
        append(s)
    for version in (1, 3, 5):
        assert main.one("SELECT {}.snapshot_store('%s', %d, '{\"v\":%d}', %d)" % (s, version, version, version + 1)) == "0"
    load = "SELECT of_stream, of_version, data, bytes, content_type, schema_version FROM {}.snapshot_load('%s', %d)"
    for version, found in ((0, "5"), (1, "1"), (2, "1"), (4, "3"), (5, "5"), (99, "5")):
        assert main.sql(load % (s, version)) == [(s, found, '{"v":%s}' % found, None, None, str(int(found) + 1))]
    assert main.sql(load % (fresh(), 0)) == []
    main.sql("SELECT {}.snapshot_store('%s', 3, NULL, bytes => '\\x00ff00', content_type => 'a/b')" % s)
    assert main.sql(load % (s, 3)) == [(s, "3", None, "\\x00ff00", "a/b", "1")]
    assert main.sql("SELECT of_version, data_bytes, content_type FROM {}.snapshot_list('%s')" % s) == [
        ("1", "7", None), ("3", "3", "a/b"), ("5", "7", None)]
    assert main.sql("SELECT of_version FROM {}.snapshot_list(NULL, '%s', 1, 1)" % s) == [("3",)]
    assert main.one("SELECT {}.snapshot_store('%s', 4, '{}', keep => 2)" % s) == "2"
    assert main.sql("SELECT of_version FROM {}.snapshot_list('%s')" % s) == [("4",), ("5",)]
    assert main.one("SELECT {}.snapshot_remove('%s', 4)" % s) == "1"
    assert main.one("SELECT {}.snapshot_remove('%s')" % s) == "1"
    bus.refuses_all(
        ("SELECT {}.snapshot_store('%s', 6, '{}')" % s, "UH004", '^stream "%s" has no version 6$' % s),
        ("SELECT {}.snapshot_store('%s', 0, '{}')" % s, "UH006", "^version: "),
        ("SELECT {}.snapshot_store('%s', 1, NULL)" % s, "UH006", "^data: must be JSON"),
        ("SELECT {}.snapshot_store('%s', 1, '{}', keep => -1)" % s, "UH006", "^keep: "),
        ("SELECT {}.snapshot_store('%s', 1, '{}', 0)" % s, "UH006", "^schema_version: "),
        ("SELECT {}.snapshot_store('', 1, '{}')", "UH006", "^stream: "))


# ---- purges


def purge(arguments):
    return main.sql("SELECT id, events, dead_letters, snapshots, jobs, remaining FROM {}.purge_events(%s)" % arguments)[0]


def a_purge_of_ids_leaves_the_other_revisions():
    s = fresh()
    first = append(s, more=", '\"secret\"', '{\"h\":\"secret\"}'")
    second = correct(first, "bytes => '\\x00', content_type => 'a/b', reason => 'r'")
    third = correct(first, "'\"secret\"', reason => 'r'")
    row = purge("ids => '{%s,%s}', reason => 'law', actor => 'ann'" % (first, second))
    assert row[1:] == ("2", "0", "0", "0", "1"), row
    assert main.sql("SELECT data, bytes, content_type, headers, purged, revision FROM {}.versions('%s')" % third) == [
        ("null", None, None, None, "t", "1"), (None, "\\x", "a/b", None, "t", "2"), ('"secret"', None, None, '{"h":"secret"}', "f", "3")]
    assert main.sql("SELECT events, remaining, actor, reason, stream FROM {}.purge_records(%d)" % (int(row[0]) - 1)) == [
        ("2", "1", "ann", "law", None)]
    # Again: nothing to do, nothing recorded, and what is left is left.
    assert purge("ids => '{%s}', reason => 'law'" % first) == ("0", "0", "0", "0", "0", "1")
    # A retraction keeps the headers; without any it has nothing to lose.
    fourth = main.one("SELECT correction_id FROM {}.retract('%s', 'r')" % first)
    assert purge("ids => '{%s}', reason => 'law'" % second)[5] == "2"
    after = purge("ids => '{%s}', reason => 'law'" % third)
    assert after == (str(int(row[0]) + 1), "1", "0", "0", "0", "1"), after
    assert purge("ids => '{%s}', families => true, reason => 'law'" % first)[1:] == ("1", "0", "0", "0", "0")
    assert purge("ids => '{%s}', reason => 'law'" % fourth) == purge("'%s', reason => 'law'" % s) == ("0",) * 6
    correct(first, "'5', reason => 'r'")
    assert purge("ids => '{%s}', families => true, reason => 'law'" % first)[1:] == ("1", "0", "0", "0", "0")
    bare = append(s)
    correct(bare, "reason => 'r', retract => true")
    assert purge("ids => '{%s}', reason => 'law'" % bare)[1:] == ("1", "0", "0", "0", "0")
    assert "secret" not in str(main.sql("SELECT e::text FROM {}.events AS e WHERE stream = '%s'" % s))
    bus.refuses_all(
        ("SELECT {}.purge_events(ids => '{%s,%s}', reason => 'r')" % (first, NOBODY), "UH004", "^no event has the id"),
        ("SELECT {}.purge_events('nobody', reason => 'r')", "UH004", '^stream "nobody" has no event$'),
        ("SELECT {}.purge_events('%s')" % s, "UH006", "^reason: must be 1 to 1000 bytes, got 0"),
        ("SELECT {}.purge_events('%s', '{%s}', reason => 'r')" % (s, first), "UH006", "^stream: cannot be given together with ids"),
        ("SELECT {}.purge_events(reason => 'r')", "UH006", "^stream: a stream or ids are required"),
        ("SELECT {}.purge_events(ids => '{}', reason => 'r')", "UH006", "^ids: "),
        ("SELECT {}.purge_events(ids => '{NULL}', reason => 'r')", "UH006", "^ids: "),
        ("SELECT {}.purge_events('%s', reason => 'r', actor => '')" % s, "UH006", "^actor: "),
        ("SELECT {}.correct('%s', valid_time => '2020-01-01', reason => 'r')" % first, "UH006", "^data: is required: the event is purged"))
    correct(first, "'1', reason => 'r'")


LETTER = ("INSERT INTO {}.dead_letters (subscriber_id, event_id, global_sequence, error_message, version, recorded_at,"
          " revision, schema_version, stream, type, data, headers, state, resolved_at, resolved_by) SELECT '%s', id,"
          " global_sequence, 'secret', version, recorded_at, 1, 1, stream, type, data, '{\"h\":\"secret\"}', %s FROM {}.events WHERE id = '%s'")


def a_purge_of_a_stream_takes_all_that_was_derived_from_it():
    s, q, other = fresh(), fresh("q"), fresh()
    keep = append(other, more=", '\"secret\"'")
    events = [append(s, more=", '\"secret\"', '{\"h\":\"secret\"}'") for _ in range(5)]
    numbers = [main.one("SELECT global_sequence FROM {}.events WHERE id = '%s'" % e) for e in events]
    main.sql(LETTER % ("open", "'dead', NULL, NULL", events[0]))
    main.sql(LETTER % ("redrive", "'redrive', NULL, NULL", events[0]))
    main.sql(LETTER % ("done", "'redriven', '2020-01-01', 'bob'", events[1]))
    main.sql(LETTER % ("other", "'dead', NULL, NULL", keep))
    main.sql("SELECT {}.snapshot_store('%s', 1, '\"secret\"'), {}.snapshot_store('%s', 5, '\"secret\"')" % (s, s))
    # One job is completed with a result, one has failed, one is a worker's, one waits, one waits for its key.
    assert main.one("SELECT {}.route_events('%s', 'none', '{%s}')" % (q, ",".join(numbers))) == "5"
    jobs = [main.sql("SELECT id, token FROM {}.claim('%s')" % q)[0] for _ in range(3)]
    main.sql("SELECT {}.complete(%s, %s, 'secret')" % jobs[0])
    main.sql("SELECT {}.fail(%s, %s, 'secret')" % jobs[1])
    mine = main.one("SELECT {}.push('%s', '\"secret\"')" % q)
    row = purge("'%s', reason => 'law'" % s)
    assert row[1:] == ("5", "4", "2", "4", "0"), row
    assert main.sql("SELECT subscriber_id, state, error_message, reason, resolved_by, data::text, headers, purge = %s"
                    " FROM {}.dead_letters WHERE stream = '%s' ORDER BY id" % (row[0], s)) == [
        ("open", "discarded", None, "law", "postgres", "null", None, "t"),
        ("redrive", "discarded", None, "law", "postgres", "null", None, "t"),
        ("done", "redriven", None, None, "bob", "null", None, "t")]
    assert main.sql("SELECT state, error_message FROM {}.dead_letters WHERE stream = '%s'" % other) == [("dead", "secret")]
    assert main.sql("SELECT FROM {}.snapshot_list('%s')" % s) == []
    assert main.sql("SELECT failed, error, result FROM {}.queue_history('%s') ORDER BY position" % q) == [
        ("f", None, None), ("t", None, None), ("t", "cancelled: purged: law", None), ("t", "cancelled: purged: law", None)]
    assert main.sql("SELECT state, error, reason, resolved_by FROM {}.job_dead_letter_states('%s', true)" % q) == [
        ("discarded", None, "law", "postgres")]
    assert main.sql("SELECT state, data::text FROM {}.job_states(%s)" % jobs[2][0]) == [("processing", "null")]
    assert main.sql("SELECT state FROM {}.job_states(%s)" % mine) == [("pending",)]
    for table in ("events", "dead_letters", "snapshots", "job_data", "history", "job_dead_letters", "jobs"):
        kept = main.sql("SELECT t::text FROM {}.%s AS t WHERE t::text LIKE '%%secret%%' AND t::text NOT LIKE '%%%s%%'"
                        % (table, other))
        assert len(kept) == (table == "job_data"), (table, kept)
    assert main.sql("SELECT what, n FROM {}.queue_findings() WHERE queue = '%s'" % q) == []
    assert main.one("SELECT stream FROM {}.purge_records() WHERE id = %s" % row[0]) == s


def a_purge_makes_the_next_job_of_a_key_due():
    for held in True, False:
        s, q = fresh(), fresh("q")
        events = [append(s) for _ in range(3)]
        assert main.one("SELECT {}.route_events('%s', 'stream', ARRAY(SELECT global_sequence FROM {}.events"
                        " WHERE stream = '%s' ORDER BY 1))" % (q, s)) == "3"
        first = main.sql("SELECT id, token FROM {}.claim('%s')" % q)[0]
        assert main.sql("SELECT FROM {}.claim('%s')" % q) == [] # the others are set aside
        if not held:
            main.sql("SELECT {}.complete(%s, %s)" % first)
        assert purge("ids => '{%s}', reason => 'law'" % events[1])[1:] == ("1", "0", "0", "1", "0")
        if held:
            assert main.sql("SELECT FROM {}.claim('%s')" % q) == []
            main.sql("SELECT {}.complete(%s, %s)" % first)
        last = main.sql("SELECT id, token FROM {}.claim('%s')" % q)
        assert [int(row[0]) for row in last] == [int(first[0]) + 2], (first, last)
        main.sql("SELECT {}.complete(%s, %s)" % last[0])
        assert main.sql("SELECT what, n FROM {}.queue_findings() WHERE queue = '%s'" % q) == []


def a_purge_waits_for_whoever_takes_the_payload_over():
    s = fresh()
    first = append(s, more=", '\"secret\"'")
    number = main.one("SELECT global_sequence FROM {}.events WHERE id = '%s'" % first)
    with sessions(bus.url, 2) as (a, b):
        # A correction that is under way is found, too.
        a.sql("BEGIN; SELECT {}.correct('%s', valid_time => '2020-01-01', reason => 'r')" % first)
        b.start("SELECT events, remaining FROM {}.purge_events('%s', reason => 'r')" % s)
        wait_for_wait(main, b, by=a)
        a.sql("COMMIT")
        assert b.end() == [("2", "0")]
        assert "secret" not in str(main.sql("SELECT e::text FROM {}.events AS e WHERE stream = '%s'" % s))
        # A correction that comes later waits, and finds nothing to take over.
        second = append(s, more=", '\"secret\"'")
        a.sql("BEGIN; SELECT {}.purge_events(ids => '{%s}', reason => 'r')" % second)
        b.start("SELECT {}.correct('%s', valid_time => '2020-01-01', reason => 'r')" % second)
        wait_for_wait(main, b, by=a)
        a.sql("COMMIT")
        try:
            b.end()
            assert False, "not refused"
        except Refused as refused:
            assert refused.state == "UH006", refused
        # So does whoever stores a copy.
        third = append(s, more=", '\"secret\"'")
        number = main.one("SELECT global_sequence FROM {}.events WHERE id = '%s'" % third)
        a.sql("BEGIN")
        assert a.one("SELECT {}.purge_of(%s)" % number) is None
        b.start("SELECT events FROM {}.purge_events('%s', reason => 'r')" % s)
        wait_for_wait(main, b, by=a)
        a.sql((LETTER % ("copy", "'dead', NULL, NULL", third)) + "; COMMIT")
        assert b.end() == [("1",)]
        assert main.sql("SELECT data::text, state FROM {}.dead_letters WHERE event_id = '%s'" % third) == [("null", "discarded")]
        assert main.one("SELECT {}.purge_of(%s) > 0" % number) == "t"
        # For that it looks again, which is in vain in a transaction with one snapshot.
        for level in "REPEATABLE READ", "SERIALIZABLE":
            bus.refuses("BEGIN ISOLATION LEVEL %s; SELECT {}.purge_events('%s', reason => 'r'); ROLLBACK" % (level, s),
                        "UH006", "^transaction: a purge needs READ COMMITTED")
        # A purge that is rolled back has erased nothing.
        fourth = append(s, more=", '\"kept\"'")
        a.sql("BEGIN; SELECT {}.purge_events('%s', reason => 'r'); ROLLBACK" % s)
        assert main.sql("SELECT data::text, purged FROM {}.read_ids('{%s}')" % fourth) == [('"kept"', "f")]


def a_purge_and_a_claim_take_a_job_one_after_the_other():
    s, q = fresh(), fresh("q")
    numbers = [main.one("SELECT global_sequence FROM {}.append('%s', 'a', '\"secret\"')" % s) for _ in range(3)]
    assert main.one("SELECT {}.route_events('%s', 'stream', '{%s}')" % (q, ",".join(numbers))) == "3"
    with sessions(bus.url, 2) as (a, b):
        # The worker was first: the job is its own, with the payload that it has read.
        assert a.sql("BEGIN; SELECT data::text FROM {}.claim('%s')" % q) == [('"secret"',)]
        b.start("SELECT events, jobs FROM {}.purge_events('%s', reason => 'r')" % s)
        wait_for_wait(main, b, by=a)
        a.sql("COMMIT")
        assert b.end() == [("3", "2")]
        assert main.sql("SELECT pending, processing, scheduled, failed FROM {}.queue_states('%s')" % q) == [
            ("0", "1", "0", "2")]
        # The purge was first: there is nothing to claim, and nothing to wait for.
        number = main.one("SELECT global_sequence FROM {}.append('%s', 'a', '\"secret\"')" % fresh())
        p = fresh("q")
        main.sql("SELECT {}.route_events('%s', 'none', '{%s}')" % (p, number))
        a.sql("BEGIN; SELECT {}.purge_events(ids => ARRAY[id], reason => 'r') FROM {}.events"
              " WHERE global_sequence = %s" % number)
        assert b.sql("SELECT FROM {}.claim('%s')" % p) == []
        a.sql("ROLLBACK")
        assert b.sql("SELECT data::text FROM {}.claim('%s')" % p) == [('"secret"',)]
    for queue in (q, p):
        assert main.sql("SELECT what, n FROM {}.queue_findings() WHERE queue = '%s'" % queue) == []


if __name__ == "__main__":
    sys.exit(run([
        a_correction_takes_over_what_it_does_not_name, a_correction_is_recorded_later_whatever_the_clock_does,
        a_correction_is_repeated_with_the_same_headers,
        retracted_is_not_a_fact_until_it_is_taken_up_again, what_is_wrong_with_a_correction_is_said_by_field,
        the_same_correction_again_is_answered_with_its_position, of_two_corrections_at_once_one_is_stored,
        a_correction_wakes_those_who_sleep, the_number_is_drawn_before_the_time_is_taken, as_of_is_the_last_revision_that_was_known,
        a_long_stream_is_answered_as_a_short_one, every_view_and_every_range_over_the_whole_log, a_page_of_a_stream_may_begin_at_any_number,
        what_cannot_be_asked_is_said_by_field,
        a_diff_is_what_has_become_of_each_family, an_answer_is_final_when_nobody_can_add_to_it,
        a_final_answer_stays_the_same_while_others_write,
        snapshots_are_found_at_or_below_a_version, a_purge_of_ids_leaves_the_other_revisions,
        a_purge_of_a_stream_takes_all_that_was_derived_from_it, a_purge_makes_the_next_job_of_a_key_due,
        a_purge_waits_for_whoever_takes_the_payload_over,
        a_purge_and_a_claim_take_a_job_one_after_the_other]))
