#!/usr/bin/env python3
"""The functions that read, as somebody meets them who writes SQL."""
import sys

from bus import Bus, run

bus = Bus("read")
UUID = "0190a5c8-7b1e-7cc0-8000-%012d"

# Twelve events: number, stream, type, correlation, cause.  The number is in the id.
LOG = [
    (1, "a", "order.created", "x", None), (2, "b", "order.created", None, None),
    (3, "a", "order.paid", "x", 1), (4, "a", "order.item.added", "y", 1),
    (5, "b", "payment.received", "x", 3), (6, "a", "order.shipped", None, 3),
    (7, "b", "order.paid", "y", 5), (8, "c", "order.created", "x", 99),
    (9, "a", "order.created", None, 8), (10, "b", "note", "x", None),
    (11, "a", "note", "x", 12), (12, "a", "note", "x", 11),
]


def fill():
    for number, stream, kind, correlation, cause in LOG:
        yield ("SELECT FROM {}.append('%s', '%s', '{\"n\":%d}', id => '%s', correlation_id => %s,"
               " causation_id => %s);" %
               (stream, kind, number, UUID % number, "'%s'" % correlation if correlation else "NULL",
                "'%s'" % (UUID % cause) if cause else "NULL"))


bus.sql("\n".join(fill()))


def numbers(call):
    """Which events a call gives, by their number, in its order."""
    return [int(value) for value in bus.column("SELECT data ->> 'n' FROM {}.%s" % call)]


def of(**filters):
    """Which events there are, in the order of the log."""
    names = ("number", "stream", "type", "correlation", "cause")
    return [row[0] for row in LOG
            if all(row[names.index(name)] == value for name, value in filters.items())]


A = of(stream="a")  # versions 1 to 7 are 1 3 4 6 9 11 12


def a_stream_is_read_by_version():
    assert numbers("read_stream('a')") == A
    assert bus.column("SELECT version FROM {}.read_stream('a')") == [str(i) for i in range(1, 8)]
    assert numbers("read_stream('a', backward => true)") == A[::-1]


def first_and_last_of_a_stream_are_included():
    assert numbers("read_stream('a', 3)") == A[2:]
    assert numbers("read_stream('a', 3, 5)") == A[2:5]
    assert numbers("read_stream('a', last => 2)") == A[:2]
    assert numbers("read_stream('a', 5, 3)") == []
    assert numbers("read_stream('a', 8)") == []
    assert numbers("read_stream('a', 3, 5, backward => true)") == A[2:5][::-1]


def max_count_cuts_a_stream_from_the_end_it_starts_at():
    assert numbers("read_stream('a', max_count => 2)") == A[:2]
    assert numbers("read_stream('a', 2, max_count => 2)") == A[1:3]
    assert numbers("read_stream('a', max_count => 2, backward => true)") == A[::-1][:2]
    assert numbers("read_stream('a', max_count => 0)") == []
    bus.refuses("SELECT * FROM {}.read_stream('a', max_count => -1)", "2201W")


def null_means_the_default_everywhere():
    assert numbers("read_stream('a', NULL, NULL, NULL, NULL)") == A
    assert numbers("read_all(NULL, NULL, NULL, NULL, NULL)") == of()
    assert numbers("by_correlation('x', NULL)") == of(correlation="x")


def no_stream_and_no_correlation_are_nobody_s():
    for call in ("read_stream(NULL)", "last_event(NULL)", "by_correlation(NULL)", "read_ids(NULL)",
                 "read_stream('nobody')", "last_event('nobody')", "by_correlation('nobody')",
                 "read_stream('')", "read_ids('{}'::uuid[])", "read_ids(ARRAY[NULL]::uuid[])"):
        assert numbers(call) == [], call
    assert bus.sql("SELECT * FROM {}.causation_tree(NULL)") == []
    assert bus.sql("SELECT {}.stream_version(NULL), {}.stream_version('nobody')") == [("0", "0")]


def the_whole_log_is_read_by_sequence():
    assert numbers("read_all()") == of()
    assert numbers("read_all(0)") == of()
    assert numbers("read_all(-5)") == of()
    assert numbers("read_all(backward => true)") == of()[::-1]
    sequences = [int(s) for s in bus.column("SELECT global_sequence FROM {}.read_all()")]
    assert sequences == sorted(sequences) and len(set(sequences)) == 12, sequences


def since_is_not_included_and_last_is():
    sequences = bus.column("SELECT global_sequence FROM {}.read_all()")
    assert numbers("read_all(%s)" % sequences[4]) == of()[5:]
    assert numbers("read_all(%s, last => %s)" % (sequences[4], sequences[7])) == of()[5:8]
    assert numbers("read_all(%s)" % sequences[-1]) == []
    assert numbers("read_all(9223372036854775807)") == []
    assert numbers("read_all(%s, backward => true, max_count => 2)" % sequences[4]) == [12, 11]


def pages_by_the_last_sequence_give_every_event_once():
    since, seen, pages = 0, [], 0
    while True:
        rows = bus.sql("SELECT global_sequence, data ->> 'n' FROM {}.read_all(%d, 5)" % since)
        if not rows:
            break
        since, pages = int(rows[-1][0]), pages + 1
        seen += [int(row[1]) for row in rows]
    assert (seen, pages) == (of(), 3), (seen, pages)


def pages_by_the_last_version_give_every_event_of_a_stream_once():
    first, seen = 1, []
    while True:
        rows = bus.sql("SELECT version, data ->> 'n' FROM {}.read_stream('a', %d, max_count => 3)" %
                       first)
        if not rows:
            break
        first = int(rows[-1][0]) + 1
        seen += [int(row[1]) for row in rows]
    assert seen == A, seen


def a_pattern_chooses_types():
    assert numbers("read_all(pattern => 'order.*')") == [1, 2, 3, 6, 7, 8, 9]
    assert numbers("read_all(pattern => 'order.>')") == [1, 2, 3, 4, 6, 7, 8, 9]
    assert numbers("read_all(pattern => '*.created', max_count => 2)") == [1, 2]
    assert numbers("read_all(pattern => 'note')") == [10, 11, 12]
    assert numbers("read_all(pattern => 'note', backward => true)") == [12, 11, 10]
    assert numbers("read_all(pattern => '>')") == of()
    assert numbers("read_all(pattern => 'nothing.here')") == []
    assert numbers("read_all(pattern => 'Order.*')") == []
    for wrong in ("", "a..b", "a.>.b", "a*", "*a.b", ">.a", "a b", "." * 3, "a" * 256):
        bus.refuses("SELECT * FROM {}.read_all(pattern => '%s')" % wrong, "UH006", "^pattern: ")


def filters_of_read_events_combine():
    assert numbers("read_events('a', 'note', NULL, NULL, NULL, NULL, NULL, false)") == [11, 12]
    assert numbers("read_events('a', NULL, 'order.*', 'x', NULL, NULL, NULL, false)") == [1, 3]
    assert numbers("read_events(NULL, 'note', NULL, 'x', NULL, NULL, 2, true)") == [12, 11]
    assert numbers("read_events(NULL, 'note', 'order.*', NULL, NULL, NULL, NULL, false)") == []
    assert numbers("read_events(NULL, 'order.paid', 'order.paid', NULL, 0, 0, NULL, NULL)") == [3, 7]
    assert numbers("read_events(NULL, 'order.created', NULL, NULL, NULL, NULL, 2, true)") == [9, 8]


def the_last_event_of_a_stream_is_one_row():
    assert numbers("last_event('a')") == [12]
    assert numbers("last_event('c')") == [8]


def a_correlation_is_read_by_sequence():
    assert numbers("by_correlation('x')") == of(correlation="x")
    assert numbers("by_correlation('x', 2)") == of(correlation="x")[:2]
    assert numbers("by_correlation('y')") == [4, 7]


def ids_are_read_by_sequence_and_once_whatever_their_order():
    ids = ", ".join("'%s'" % (UUID % number) for number in (7, 2, 77, 7))
    assert numbers("read_ids(ARRAY[%s]::uuid[])" % ids) == [2, 7]


def ranges_are_read_in_one_order_up_to_a_limit():
    s = bus.column("SELECT global_sequence FROM {}.read_all()")
    ranges = "ARRAY[%s, %s, 1000000], ARRAY[%s, %s, 2000000]" % (s[1], s[8], s[3], s[9])
    assert numbers("read_ranges(%s, 100)" % ranges) == [2, 3, 4, 9, 10]
    assert numbers("read_ranges(%s, 4)" % ranges) == [2, 3, 4, 9]


def tree(number):
    return [(int(depth), int(event[-12:])) for depth, event in
            bus.sql("SELECT depth, event_id FROM {}.causation_tree('%s')" % (UUID % number))]


def a_causation_tree_has_causes_itself_and_effects():
    assert tree(1) == [(0, 1), (1, 3), (2, 5), (3, 7), (2, 6), (1, 4)]
    assert tree(5) == [(-2, 1), (-1, 3), (0, 5), (1, 7)]
    assert tree(4) == [(-1, 1), (0, 4)]
    assert tree(2) == [(0, 2)]


def a_cause_that_is_not_stored_ends_the_tree():
    assert tree(8) == [(0, 8), (1, 9)]
    assert tree(99) == []


def a_circle_of_causes_shows_each_once():
    assert tree(11) == [(-1, 12), (0, 11)]
    assert tree(12) == [(-1, 11), (0, 12)]
    # 20 is its own cause; 21 and 22 hang on the circle of 23 and 24, which has an effect, 25.
    bus.sql("INSERT INTO {}.events (stream, version, type, data, id, causation_id)"
            " SELECT 'circles', row_number() OVER (), 'a', '{}', ('%s' || lpad(i::text, 12, '0'))::uuid,"
            " ('%s' || lpad(c::text, 12, '0'))::uuid FROM (VALUES (20, 20), (21, 22), (22, 23), (23, 24),"
            " (24, 23), (25, 24)) AS v(i, c)" % (UUID[:24], UUID[:24]))
    assert tree(20) == [(0, 20)]
    assert tree(21) == [(-3, 24), (-2, 23), (-1, 22), (0, 21)]
    assert tree(23) == [(-1, 24), (0, 23), (1, 22), (2, 21), (2, 25)], tree(23)


def a_chain_of_twelve_thousand_is_cut_at_ten_thousand_and_takes_a_moment():
    long = Bus("read_chain")
    long.sql("INSERT INTO {}.events (stream, version, type, data, id, causation_id)"
             " SELECT 'chain', i, 'a', '{}', ('%s' || lpad(i::text, 12, '0'))::uuid,"
             " CASE WHEN i > 1 THEN ('%s' || lpad((i - 1)::text, 12, '0'))::uuid END"
             " FROM generate_series(1, 12000) AS i" % (UUID[:24], UUID[:24]))
    for number, wanted in ((1, ("10000", "0", "9999")), (12000, ("10000", "-9999", "0")),
                           (5000, ("10000", "-4999", "5000"))):
        rows = long.sql("SET statement_timeout = '30s'; SELECT count(DISTINCT event_id), min(depth),"
                        " max(depth) FROM {}.causation_tree('%s')" % (UUID % number))
        assert rows == [wanted], rows


def versions_and_head_are_numbers():
    head = bus.one("SELECT max(global_sequence) FROM {}.read_all()")
    assert bus.sql("SELECT {}.head(), {}.stream_version('a')") == [(head, "7")]


def a_read_has_the_columns_of_all_events():
    wanted = bus.column("SELECT attname FROM pg_attribute WHERE attrelid = 'howdah.all_events'::regclass"
                        " AND attnum > 0 ORDER BY attnum")
    assert wanted[:6] == ["global_sequence", "id", "stream", "version", "type", "data"], wanted
    for call in ("read_stream('a')", "read_all()", "last_event('a')", "by_correlation('x')",
                 "read_ids('{}'::uuid[])", "read_ranges('{1}', '{2}', 1)"):
        given = bus.column("SELECT json_object_keys(to_json(r)) FROM (SELECT * FROM {}.%s"
                           " UNION ALL SELECT * FROM {}.all_events LIMIT 1) AS r" % call)
        assert given == wanted, (call, given)


def an_empty_log_has_head_0():
    empty = Bus("read_empty", schema="empty_bus")
    assert empty.sql("SELECT {}.head(), (SELECT count(*) FROM {}.read_all())") == [("0", "0")]


# ---- ids


def uuid_v7_is_version_7_of_the_right_variant():
    wrong = bus.column("SELECT id FROM (SELECT {}.uuid_v7()::text AS id FROM generate_series(1, 2000))"
                       " AS g WHERE id !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'")
    assert wrong == [], wrong


def ten_thousand_ids_of_one_statement_differ():
    assert bus.one("SELECT count(DISTINCT id) FROM"
                   " (SELECT {}.uuid_v7() AS id FROM generate_series(1, 10000)) AS g") == "10000"


def ids_are_ordered_by_their_millisecond():
    # The clock of a machine may step back a little while a time server disciplines it: the ids are
    # drawn 20 ms apart, and the time in them may lie 10 ms beside what the clock said around them.
    rows = bus.sql(r"""
        CREATE TEMP TABLE drawn (n serial, id uuid, before timestamptz, after timestamptz);
        DO $$ BEGIN FOR i IN 1..50 LOOP
            INSERT INTO drawn (before, id, after) VALUES (clock_timestamp(), {}.uuid_v7(), NULL);
            UPDATE drawn SET after = clock_timestamp() WHERE n = i;
            PERFORM pg_sleep(0.02);
        END LOOP; END $$;
        WITH t AS (SELECT n, id, before, after, ('x' || replace(left(id::text, 13), '-', ''))::bit(48)::bigint
                          AS ms FROM drawn)
        SELECT count(*) FILTER (WHERE id <= lag_id), count(*) FILTER (WHERE
                   ms < extract(epoch FROM before) * 1000 - 10 OR ms > extract(epoch FROM after) * 1000 + 10),
               count(DISTINCT ms)
        FROM (SELECT t.*, lag(id) OVER (ORDER BY n) AS lag_id FROM t) AS l""")
    assert rows == [("0", "0", "50")], rows


def a_raw_insert_gets_such_an_id():
    assert bus.one("INSERT INTO {}.events (stream, version, type, data) VALUES ('raw', 1, 'a', '{}')"
                   " RETURNING substr(id::text, 15, 1)") == "7"


if __name__ == "__main__":
    sys.exit(run([
        a_stream_is_read_by_version, first_and_last_of_a_stream_are_included,
        max_count_cuts_a_stream_from_the_end_it_starts_at, null_means_the_default_everywhere,
        no_stream_and_no_correlation_are_nobody_s, the_whole_log_is_read_by_sequence,
        since_is_not_included_and_last_is, pages_by_the_last_sequence_give_every_event_once,
        pages_by_the_last_version_give_every_event_of_a_stream_once, a_pattern_chooses_types,
        filters_of_read_events_combine, the_last_event_of_a_stream_is_one_row,
        a_correlation_is_read_by_sequence, ids_are_read_by_sequence_and_once_whatever_their_order,
        ranges_are_read_in_one_order_up_to_a_limit, a_causation_tree_has_causes_itself_and_effects,
        a_cause_that_is_not_stored_ends_the_tree, a_circle_of_causes_shows_each_once,
        a_chain_of_twelve_thousand_is_cut_at_ten_thousand_and_takes_a_moment,
        versions_and_head_are_numbers, a_read_has_the_columns_of_all_events,
        an_empty_log_has_head_0, uuid_v7_is_version_7_of_the_right_variant,
        ten_thousand_ids_of_one_statement_differ, ids_are_ordered_by_their_millisecond,
        a_raw_insert_gets_such_an_id]))
