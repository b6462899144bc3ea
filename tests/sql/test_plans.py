#!/usr/bin/env python3
"""Every page is an index scan in its order: no Seq Scan, no Sort; with statistics and without.

    test_plans.py STATEMENTS

STATEMENTS prints the library's prepared statements.  They are planned with the settings that the
library gives its sessions; those that also run in a caller's own session (howdah_pg.h), and the SQL
functions, in a session without any settings, with plans for the values and with generic ones.
"""
import os
import re
import subprocess
import sys

from bus import Bus, psql, Refused, ROOT, run, Skip

EVENTS = 200000
UNUSED = "0190a5c8-7b1e-7cc0-8000-000000000001"
bus = Bus("plans")

# Parameters of the reads: stream, first, last, limit, type, regular expression, correlation, cap.
EVERYWHERE = "'s7', 1, 9223372036854775807, 100, NULL, NULL, NULL, 8000"
READS = {
    "READ_STREAM": EVERYWHERE,
    "READ_STREAM_BACK": EVERYWHERE,
    "READ_SOME": "NULL, 5000, 9223372036854775807, 100, NULL, NULL, NULL, 8000",
    "READ_SOME_BACK": "NULL, 5000, 9223372036854775807, 100, NULL, NULL, NULL, 8000",
    "READ_ALL": "NULL, 5000, 9223372036854775807, 100, NULL, NULL, NULL, 8000",
    "READ_TYPE": "NULL, 5000, 9223372036854775807, 100, 'rare.type', NULL, NULL, 8000",
    "READ_TYPE_BACK": "NULL, 0, 9223372036854775807, 100, 'rare.type', NULL, NULL, 8000",
    "READ_CORRELATION": "NULL, 0, 9223372036854775807, 100, NULL, NULL, 'c7', 8000",
    "READ_CORRELATION_BACK": "NULL, 0, 9223372036854775807, 100, NULL, NULL, 'c7', 8000",
}
INDEX = {"STREAM": "events_stream_version_key", "ALL": "events_pkey", "SOME": "events_pkey", "TYPE": "events_type_idx",
         "CORRELATION": "events_correlation_idx"}
# What these find is little, and may be put in order by hand; the index is what counts.
LOOKUPS = {
    "STREAM_VERSION": "'s7'",
    "HEAD": "",
    "APPEND_ANY": "gen_random_uuid(), 's7', 'a', '{}', NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL",
    "APPEND_EXACT": "gen_random_uuid(), 's7', 'a', '{}', NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL,"
                    " 5",
    "APPEND_EXISTS": "gen_random_uuid(), 's7', 'a', '{}', NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL",
    "READ_IDS": "ARRAY[gen_random_uuid(), gen_random_uuid()], 8000",
    "APPEND_BATCH": "ARRAY[gen_random_uuid()], '{s7}', '{a}', ARRAY['{}'::json], ARRAY[NULL::json],"
                    " '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{1}', ARRAY[NULL::bytea], '{NULL}',"
                    " '{1}', '{1}', '{s7}', '{-1}'",
}


LOOKUP_INDEX = {"HEAD": "events_pkey", "READ_IDS": "events_id_key"}
# What subscriptions ask for: only in the library's own sessions.
RANGES = "ARRAY[5, 500], ARRAY[10, 9223372036854775807], 100, "
SUBSCRIPTIONS = {
    "READ_RANGES": (RANGES + "NULL, NULL, NULL, 4000", ["events_pkey"]),
    "READ_RANGES_TYPE": (RANGES + "'rare.type', NULL, '^rare[.]type$', 4000", ["events_type_idx"]),
    "READ_SPARSE": (RANGES + "'rare.', '^rare[.].+$', NULL, 'rare/', 4000", ["events_type_idx", "events_pkey"]),
    "READ_SPARSE_BACK": (RANGES + "'rare.', '^rare[.].+$', NULL, 'rare/', 4000", ["events_type_idx", "events_pkey"]),
    "STORED": ("1, 100000, 50000", ["events_pkey"]),
    "HERE": ("5", ["events_pkey"]),
}
# Of these the tables of subscriptions are looked at, too.
LETTERS = {
    "DEAD_LETTER_LIST": ("NULL, 100, 0, 10, true, false, 8000", "dead_letters_pkey"),
    "DEAD_LETTER_LIST_OPEN": ("'a', 100, 0, 10, 8000", "dead_letters_open_idx"),
    "DEAD_LETTER_LIST_REDRIVES": ("'a', 100, 0, 10, 8000", "dead_letters_redrive_idx"),
    "SKIP_LIST": ("NULL, true, 0, 10", "skips_pkey"),
    "SUB_POLL": ("'{a}', '{1}', '{x}'", "dead_letters_redrive_idx"),
    "SUB_CHECKPOINT": ("'{a}', '{1}', '{1}', '{0}', '{NULL}', '{1}', '{0}', '{}', '{x}', '{NULL}', '{0}', '{}', '{0}', 0",
                       "dead_letters_redrive_idx"),
    "SUB_LIST": ("'', NULL, 10", "subscriptions_pkey"),
}


def statements():
    text = subprocess.run([sys.argv[1], bus.schema], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in text.splitlines()]
    return {name: (types.split(), sql) for name, types, sql in rows}


STATEMENTS = statements() if len(sys.argv) > 1 else {}


def session_settings():
    """What the library sets for its sessions, as far as plans depend on it."""
    with open(os.path.join(ROOT, "src", "store", "pg", "conn.c"), encoding="utf-8") as f:
        pairs = re.findall(r"\('(\w+)', '(\w+)'\)", f.read())
    chosen = [p for p in pairs if p[0].startswith("enable_") or p[0] in ("plan_cache_mode", "jit")]
    assert ("plan_cache_mode", "force_generic_plan") in chosen, pairs
    return "".join("SET %s = %s; " % pair for pair in chosen)


GENERIC = "SET plan_cache_mode = force_generic_plan; "
CUSTOM = "SET plan_cache_mode = force_custom_plan; "


def library_plan(name, arguments, settings):
    types, sql = STATEMENTS[name]
    declared = "(%s)" % ", ".join(psql_type(oid) for oid in types) if types else ""
    rows = psql(bus.url, "%s PREPARE p%s AS %s; EXPLAIN (COSTS OFF) EXECUTE p%s" %
                (settings, declared, sql, "(%s)" % arguments if arguments else ""))
    return "\n".join(row[0] for row in rows)


TYPE_NAMES = {}


def psql_type(oid):
    if not TYPE_NAMES:
        TYPE_NAMES.update(bus.sql("SELECT oid::text, format_type(oid, NULL) FROM pg_type"))
    return TYPE_NAMES[oid]


def function_plans(call, settings=""):
    """The plans of the statements inside the functions of a call."""
    try:
        said = psql(bus.url, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
                             " SET auto_explain.log_nested_statements = on; SET client_min_messages = log;"
                             " %s %s" % (settings, bus.named(call)), notices=True)
    except Refused as refused:
        if "auto_explain" in str(refused):
            raise Skip("this server has no auto_explain")
        raise
    plans = [p for p in said.split("Query Text:")[1:] if re.search(r" on events\b", p)]
    assert plans, said
    return plans


def check_page(plan, index):
    for bad in ("Seq Scan", "Sort", "Bitmap"):
        assert not re.search(r"\b%s\b" % bad, plan), "%s in:\n%s" % (bad, plan)
    check_lookup(plan, index)


def check_lookup(plan, *indexes):
    """No walk through the table, nor through an index, that of another order for instance."""
    assert not re.search(r"Seq Scan on events\b", plan), plan
    assert any(index in plan for index in indexes), "%s is not used in:\n%s" % (indexes, plan)
    # max() has one only where the server does not know that there are no NULLs: its LIMIT is enough.
    lines = re.sub(r"Limit.*\n.*Index Only Scan.*\n(?! *(Index Cond|Filter))", "", plan + "\n")
    walks = re.findall(r"(?:Index|Bitmap Index|Index Only) Scan.*\n(?! *Index Cond)", lines)
    assert not walks, "%s has no condition in:\n%s" % (walks, plan)


def library_pages_are_index_scans():
    for name, arguments in READS.items():
        plan = library_plan(name, arguments, session_settings())
        check_page(plan, INDEX[name.replace("READ_", "").replace("_BACK", "")])
        assert ("Backward" in plan) == name.endswith("_BACK"), plan


def library_lookups_use_indexes():
    for name, arguments in LOOKUPS.items():
        plan = library_plan(name, arguments, session_settings())
        check_lookup(plan, LOOKUP_INDEX.get(name, INDEX["STREAM"]))
        if name in ("STREAM_VERSION", "APPEND_ANY", "APPEND_EXISTS", "APPEND_BATCH"):  # one row, not the whole stream
            assert re.search(r"Limit\s+->  Index Only Scan Backward", plan), plan


def lookups_in_a_caller_s_session_use_indexes():
    for name, arguments in LOOKUPS.items():
        for settings in (CUSTOM, GENERIC):
            check_lookup(library_plan(name, arguments, settings), LOOKUP_INDEX.get(name, INDEX["STREAM"]))


def subscriptions_use_indexes():
    for name, (arguments, indexes) in SUBSCRIPTIONS.items():
        plan = library_plan(name, arguments, session_settings())
        for index in indexes:
            check_lookup(plan, index)
        # What is sorted is one range at a time, or numbers only.
        assert "Incremental Sort" in plan or "Sort Key: e.global_sequence" in plan or "Sort" not in plan, plan
    for name, (arguments, index) in LETTERS.items():
        plan = library_plan(name, arguments, session_settings())
        assert index in plan and not re.search(r"Seq Scan on (dead_letters|skips|events)\b", plan), plan


def members_of_groups_read_by_place():
    for name, arguments in (("GROUP_READ", "'{}', 8000"), ("GROUP_READ_LOT", "'g', 1, 10, 8000"), ("GROUP_FETCH_SMALL", "'g', 10, 'm', 30000, NULL, 0, 8000")):
        plan = library_plan(name, arguments, session_settings())
        assert "Tid Scan on events" in plan and "Seq Scan on events" not in plan, plan


def groups_look_for_what_came_late_by_number():
    group = ("BEGIN; SELECT {}.subscribe('late', start => 'end'); SELECT count(*) FROM {}.fetch('late');"
             " INSERT INTO {}.group_holes (group_id, first, last) SELECT group_id, 5000 + 10 * i, 5004 + 10 * i"
             " FROM {}.groups, generate_series(1, 20) AS i; %s; ROLLBACK")
    for call in ("SELECT count(*) FROM {}.fetch('late')",
                 "SELECT {}.group_reserve('late', 'm', 1, 2, 10000); SELECT {}.group_take_range('late', 2, 3, NULL, 1000, 10000)"):
        for settings in (CUSTOM, GENERIC):
            for plan in function_plans(group % call, settings):
                check_lookup(plan, INDEX["ALL"], "Tid Scan")


FUNCTIONS = {
    "{}.read_stream('s7', 10, max_count => 50)": "STREAM",
    "{}.read_stream('s7', max_count => 50, backward => true)": "STREAM",
    "{}.last_event('s7')": "STREAM",
    "{}.read_all(5000, 100)": "ALL",
    "{}.read_all(0, 100, backward => true)": "ALL",
    "{}.read_all(5000, 100, pattern => 'rare.type')": "TYPE",
    "{}.read_all(0, 100, pattern => 'rare.type', backward => true)": "TYPE",
    "{}.by_correlation('c7', 100)": "CORRELATION",
    "{}.read_stream('nobody', max_count => 50)": "STREAM",
    "{}.by_correlation('nobody', 100)": "CORRELATION",
}


def function_pages_are_index_scans():
    for call, kind in FUNCTIONS.items():
        for settings in (CUSTOM, GENERIC):
            for plan in function_plans("SELECT count(*) FROM " + call, settings):
                check_page(plan, INDEX[kind])


def function_lookups_use_indexes():
    number = bus.one("SELECT id FROM {}.events LIMIT 1")
    for call, indexes in (
            ("SELECT {}.stream_version('s7')", [INDEX["STREAM"]]), ("SELECT {}.head()", [INDEX["ALL"]]),
            ("SELECT count(*) FROM {}.causation_tree('%s')" % number,
             ["events_id_key", "events_causation_idx"]),
            ("SELECT count(*) FROM {}.read_ids(ARRAY['%s']::uuid[])" % number, ["events_id_key"]),
            ("SELECT count(*) FROM {}.read_ranges('{5,500}', '{10,600}', 100)", [INDEX["ALL"]]),
            ("SELECT FROM {}.append('s7', 'a', id => '%s')" % UNUSED, ["events_id_key", INDEX["STREAM"]])):
        for settings in (CUSTOM, GENERIC):
            for plan in function_plans("BEGIN; %s; ROLLBACK" % call, settings):
                if not re.search("^ *INSERT", plan):
                    check_lookup(plan, *indexes)


# What may be sorted are keys, or what an index has led to.
QUERIES = {
    "{}.as_of(stream => 's7', max_count => 50)": [INDEX["STREAM"]],
    "{}.as_of(stream => 's7', max_count => 50, backward => true, known_at => now())": [INDEX["STREAM"]],
    "{}.as_of(type => 'rare.type', max_count => 50)": [INDEX["TYPE"], "events_family_revision_key"],
    "{}.as_of(type => 'rare.type', max_count => 50, backward => true)": [INDEX["TYPE"], "events_family_revision_key"],
    "{}.as_of(max_count => 50, after_sequence => 5000)": [INDEX["ALL"], "events_family_revision_key"],
    "{}.as_of(correlation_id => 'c7', max_count => 50)": [INDEX["CORRELATION"], "events_family_revision_key"],
    "{}.query_events(causation_id => '%s', max_count => 50)" % UNUSED: ["events_causation_idx"],
    "{}.query_events(stream => 's7', max_count => 50)": [INDEX["STREAM"]],
    "{}.query_events(type => 'rare.type', max_count => 50, backward => true)": [INDEX["TYPE"]],
    "{}.versions('%s')" % UNUSED: ["events_id_key", "events_family_revision_key"],
    "{}.as_of(stream => 's7', order_by => 'valid', max_count => 50)": [INDEX["STREAM"], "events_family_revision_key"],
    "{}.as_of(type => 'rare.type', order_by => 'recorded', max_count => 50)": [INDEX["TYPE"], "events_family_revision_key"],
    "{}.query_events(recorded_from => '2020-01-01', recorded_before => '2020-01-02')": ["events_times_idx"],
    "{}.query_events(valid_from => '2020-01-01', valid_before => '2020-01-02')": ["events_times_idx"],
    "{}.diff(now() - interval '1 microsecond')": ["events_times_idx"],
    "{}.streams_of_type('rare.type')": [INDEX["TYPE"]],
    "{}.type_stats(type => 'rare.type')": [INDEX["TYPE"]],
}


def queries_of_both_times_use_indexes():
    for call, indexes in QUERIES.items():
        for settings in (CUSTOM, GENERIC):
            plans = "\n".join(function_plans("SELECT count(*) FROM " + call, settings))
            for index in indexes:
                check_lookup(plans, index)
            assert not re.search("Sort Key: (e[.])?(version|type)", plans), plans


def the_number_is_drawn_before_the_time_is_taken():
    for name in ("APPEND_NONE", "APPEND_ANY", "APPEND_NEXT", "APPEND_EXACT", "APPEND_EXISTS", "APPEND_BATCH"):
        types, sql = STATEMENTS[name]
        rows = psql(bus.url, "%s PREPARE p (%s) AS %s; EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p (%s)" % (
            session_settings(), ", ".join(psql_type(oid) for oid in types), sql, ", ".join(["NULL"] * len(types))))
        plan = "\n".join(row[0] for row in rows)
        assert 0 < plan.find("nextval") < plan.find("clock_timestamp"), plan


def fill():
    bus.sql("ALTER TABLE {}.events SET (autovacuum_enabled = off);"
            " INSERT INTO {}.events (stream, version, type, data, correlation_id, causation_id)"
            " SELECT 's' || mod(i, 2000), 1 + i / 2000,"
            "  CASE WHEN mod(i, 20000) = 0 THEN 'rare.type'"
            "   WHEN mod(i, 10) = 0 THEN 'other.t' || mod(i, 50) ELSE 'common.type' END,"
            "  '{\"a\":1}', CASE WHEN mod(i, 3) = 0 THEN 'c' || mod(i, 10000) END,"
            "  CASE WHEN mod(i, 4) = 0 THEN gen_random_uuid() END"
            " FROM generate_series(0, %d) AS i ORDER BY i" % (EVENTS - 1))
    assert bus.one("SELECT count(*) FROM {}.events") == str(EVENTS)
    assert bus.one("SELECT reltuples::integer FROM pg_class WHERE oid = '{}.events'::regclass") in ("0", "-1")


def analyze():
    bus.sql("VACUUM ANALYZE {}.events")
    assert int(bus.one("SELECT reltuples::integer FROM pg_class WHERE oid = '{}.events'::regclass")) > 100000


CHECKS = [library_pages_are_index_scans, library_lookups_use_indexes, subscriptions_use_indexes,
          members_of_groups_read_by_place, groups_look_for_what_came_late_by_number, function_pages_are_index_scans,
          function_lookups_use_indexes, lookups_in_a_caller_s_session_use_indexes,
          queries_of_both_times_use_indexes]


def with_state(state, checks=None):
    """The checks, as pairs of a title and a function."""
    return [("%s on %s" % (check.__name__.replace("_", " "), state), check) for check in checks or CHECKS]


if __name__ == "__main__":
    if not STATEMENTS:
        sys.exit("usage: test_plans.py STATEMENTS")
    sys.exit(run(
        # An empty table has nothing to read; what is planned then may stay in use for long.
        with_state("an empty table", CHECKS[:4] + [queries_of_both_times_use_indexes]) +
        [the_number_is_drawn_before_the_time_is_taken] +
        [("%d events are there without statistics" % EVENTS, fill)] +
        with_state("a table without statistics") +
        [("statistics are taken", analyze)] +
        with_state("a table with statistics")))
