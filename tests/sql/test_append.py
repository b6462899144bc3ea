#!/usr/bin/env python3
"""append, append_batch and append_arrays, as somebody meets them who writes SQL."""
import json
import sys

from bus import Bus, literal, run

bus = Bus("append")
UUID = "0190a5c8-7b1e-7cc0-8000-%012d"


def stored(stream):
    """The last event of a stream, as a dictionary."""
    columns = ("global_sequence", "id", "stream", "version", "type", "data", "bytes", "content_type",
               "headers", "correlation_id", "causation_id", "actor", "valid_time", "recorded_at",
               "family", "revision", "corrects", "reason", "schema_version")
    return dict(zip(columns, bus.sql("SELECT %s FROM {}.last_event(%s)" %
                                     (", ".join(columns), literal(stream)))[0]))


def batch(events):
    return "SELECT * FROM {}.append_batch(%s)" % literal(
        events if isinstance(events, str) else json.dumps(events))


# ---- append


def append_needs_only_stream_and_type():
    rows = bus.sql("SELECT version, revision, already_stored FROM {}.append('plain', 'a.b')")
    assert rows == [("1", "1", "f")], rows
    event = stored("plain")
    assert event["data"] == "{}" and event["headers"] is None, event
    assert event["schema_version"] == "1" and event["revision"] == "1", event
    assert event["valid_time"] == event["recorded_at"] and event["family"] == event["id"], event
    for name in ("bytes", "content_type", "correlation_id", "causation_id", "actor", "corrects",
                 "reason"):
        assert event[name] is None, name


def append_takes_every_parameter_by_name():
    bus.sql("SELECT * FROM {}.append(type => 'a.b', stream => 'named', schema_version => 7,"
            " valid_time => '2026-01-31T09:30:00.123456Z', actor => 'me', causation_id => '%s',"
            " correlation_id => 'flow', id => '%s', headers => '{\"h\":\"v\"}',"
            " data => '{\"a\":1}', expected_version => 0)" % (UUID % 1, UUID % 2))
    event = stored("named")
    assert (event["id"], event["causation_id"]) == (UUID % 2, UUID % 1), event
    assert (event["data"], event["headers"]) == ('{"a":1}', '{"h":"v"}'), event
    assert (event["correlation_id"], event["actor"], event["schema_version"]) == ("flow", "me", "7")
    assert event["valid_time"] == "2026-01-31 09:30:00.123456+00", event


def append_gives_the_position_of_the_event():
    given = bus.sql("SELECT global_sequence, event_id, version, recorded_at"
                    " FROM {}.append('place', 'a')")[0]
    event = stored("place")
    assert given == tuple(event[n] for n in ("global_sequence", "id", "version", "recorded_at"))


def bytes_need_a_content_type_and_no_json():
    bus.sql("SELECT * FROM {}.append('bytes', 'a', NULL, bytes => '\\x00ff', content_type => 'a/b')")
    event = stored("bytes")
    assert (event["bytes"], event["content_type"], event["data"]) == ("\\x00ff", "a/b", None), event
    bus.refuses_all(*(
        ("SELECT * FROM {}.append('bytes', 'a', %s)" % arguments, "UH006", "^data: ")
        for arguments in ("bytes => '\\x00'", "NULL, bytes => '\\x00'", "content_type => 'a/b'",
                          "NULL, content_type => 'a/b'", "bytes => '\\x00', content_type => 'a/b'",
                          "NULL")))
    assert stored("bytes")["version"] == "1"


def json_comes_back_to_the_dead_letter():
    for text in ('{"b":1,"a":2,"b":3}', "  [1 , 2]\t", "18446744073709551616", "1e999999", "-0.0",
                 '{"n":9223372036854775807,"f":1.10}', '"\\u00e9\\/\\ud83d\\ude00"', "null",
                 '"\x7f\u0085\u2028"', "[1e5,1E+5]"):
        bus.sql("SELECT * FROM {}.append('dead_letter', 'a', %s, headers => %s)" %
                (literal(text), literal(' { "h" : "v" } ')))
        event = stored("dead_letter")
        assert event["data"] == text, (event["data"], text)
        assert event["headers"] == ' { "h" : "v" } ', event


def expected_version_is_checked_and_the_actual_one_is_in_the_detail():
    call = "SELECT version FROM {}.append('expect', 'a', expected_version => %s)"
    assert bus.refuses(call % -2, "UH003", "one that exists").detail == "0"
    assert bus.refuses(call % 1, "UH003", "expected 1").detail == "0"
    assert bus.one(call % 0) == "1"
    assert bus.refuses(call % 0, "UH003", "no stream").detail == "1"
    assert bus.one(call % -2) == "2"
    assert bus.one(call % 2) == "3"
    assert bus.one(call % -1) == "4"
    assert bus.one(call % "NULL") == "5"
    assert bus.refuses(call % 9223372036854775807, "UH003").detail == "5"
    for number in (-3, -9223372036854775808):
        bus.refuses(call % number, "UH006", "^expected_version: ")
    assert bus.one("SELECT {}.stream_version('expect')") == "5"


def the_same_id_is_answered_with_its_place_and_other_content_is_refused():
    call = ("SELECT version, already_stored FROM {}.append('again', 'a', '%s', id => '" + UUID % 3 +
            "', expected_version => 0)")
    assert bus.sql(call % '{"a":1}') == [("1", "f")]
    assert bus.sql(call % '{"a":1}') == [("1", "t")]
    bus.refuses(call % '{"a": 1}', "UH009", "other content")
    assert bus.one("SELECT {}.stream_version('again')") == "1"


def a_refusal_names_field_rule_and_length_and_stores_nothing():
    before = bus.one("SELECT count(*) FROM {}.all_events")
    expectations = []
    for arguments, message in (
            ("'', 'a'", "^stream: must be 1 to 255 bytes, got 0$"),
            ("NULL, 'a'", "^stream: must be 1 to 255 bytes, got 0$"),
            ("repeat('\u00e9', 128), 'a'", "^stream: must be 1 to 255 bytes, got 256$"),
            ("E'a\\nb', 'a'", "^stream: has a control character, in 3 bytes$"),
            ("'s', ''", "^type: must be 1 to 255 bytes, got 0$"),
            ("'s', 'a..b'", "^type: must be 1 to 32 segments .* in 4 bytes$"),
            ("'s', E'a\\n'", "^type: must be 1 to 32 segments"),
            ("'s', repeat('a.', 32) || 'a'", "^type: must be 1 to 32 segments .* in 65 bytes$"),
            ("'s', 'a', '\"\\u0000\"'", "^data: not valid JSON, 8 bytes: a NUL"),
            ("'s', 'a', '\"\\ud800\"'", "^data: not valid JSON, 8 bytes: an unpaired surrogate"),
            ("'s', 'a', '\"\\ud83d\\\\\\ude00\"'", "^data: .* an unpaired surrogate"),
            ("'s', 'a', (repeat('[', 65) || repeat(']', 65))::json", "^data: nested deeper than 64"),
            ("'s', 'a', to_json(repeat('x', 1048576))", "^data: must be at most 1048576 bytes"),
            ("'s', 'a', headers => '[]'", "^headers: must be a JSON object of strings"),
            ("'s', 'a', headers => '{\"a\":1}'", "^headers: every value must be a string"),
            ("'s', 'a', headers => '{\"\":\"v\"}'", "^headers: must be 1 to 255 bytes, got 0"),
            ("'s', 'a', correlation_id => ''", "^correlation_id: must be 1 to 255 bytes, got 0$"),
            ("'s', 'a', actor => repeat('x', 256)", "^actor: must be 1 to 255 bytes, got 256$"),
            ("'s', 'a', valid_time => 'infinity'", "^valid_time: "),
            ("'s', 'a', valid_time => '0001-12-31 23:59:59 BC'", "^valid_time: "),
            ("'s', 'a', valid_time => '10000-01-01Z'", "^valid_time: "),
            ("'s', 'a', schema_version => 0", "^schema_version: must be 1 to 2147483647$"),
            ("'s', 'a', NULL, bytes => '', content_type => 'x'", "^content_type: must be 3 to 255"),
    ):
        expectations.append(("SELECT * FROM {}.append(%s)" % arguments, "UH006", message))
    for arguments in ("'s', 'a', '{'", "'s', 'a', 'NaN'", "'s', 'a', id => 'x'"):
        expectations.append(("SELECT * FROM {}.append(%s)" % arguments, "22P02", None))
    bus.refuses_all(*expectations)
    assert bus.one("SELECT count(*) FROM {}.all_events") == before


def the_owner_sets_the_largest_payload_of_the_functions():
    bus.sql("INSERT INTO {}.meta VALUES ('payload_bytes_max', '10')")
    try:
        bus.sql("SELECT * FROM {}.append('limit', 'a', '\"12345678\"')")
        bus.refuses("SELECT * FROM {}.append('limit', 'a', '\"123456789\"')", "UH006",
                    "^data: must be at most 10 bytes, got 11$")
    finally:
        bus.sql("DELETE FROM {}.meta WHERE key = 'payload_bytes_max'")


# ---- append_batch


def a_batch_takes_every_member():
    rows = bus.sql(batch([{
        "stream": "all", "type": "a.b", "data": {"x": 1}, "headers": {"h": "v"}, "id": UUID % 10,
        "correlation_id": "flow", "causation_id": UUID % 11, "actor": "me", "expect": "none",
        "valid_time": "2026-01-31T10:30:00.123456789+01:00", "schema_version": 3}]))
    assert len(rows) == 1 and rows[0][1] == UUID % 10, rows
    event = stored("all")
    assert (event["data"], event["headers"]) == ('{"x": 1}', '{"h": "v"}'), event
    assert (event["correlation_id"], event["causation_id"], event["actor"]) == \
        ("flow", UUID % 11, "me"), event
    assert (event["valid_time"], event["schema_version"]) == \
        ("2026-01-31 09:30:00.123456+00", "3"), event
    bus.sql(batch([{"stream": "all", "type": "a", "data_base64": "AP8=", "content_type": "a/b"}]))
    assert (stored("all")["bytes"], stored("all")["content_type"]) == ("\\x00ff", "a/b")


def an_absent_member_and_null_are_the_same():
    bus.sql(batch([{"stream": "nulls", "type": "a", "headers": None, "id": None, "actor": None,
                    "correlation_id": None, "causation_id": None, "valid_time": None,
                    "schema_version": None, "data_base64": None, "content_type": None,
                    "expect": None}]))
    event = stored("nulls")
    assert event["data"] == "{}" and event["headers"] is None and event["actor"] is None, event
    bus.sql(batch([{"stream": "nulls", "type": "a", "data": None}]))
    assert stored("nulls")["data"] == "null"


def a_batch_keeps_order_and_gives_consecutive_versions():
    rows = bus.sql(batch([{"stream": s, "type": "a"} for s in ("x", "y", "x", "x", "y")]))
    assert [row[2] for row in rows] == ["1", "1", "2", "3", "2"], rows
    sequences = [int(row[0]) for row in rows]
    assert sequences == sorted(sequences), rows


def a_batch_keeps_the_text_of_data():
    bus.sql(batch('[{"stream":"text","type":"a","data": {"b":1.10, "a":9223372036854775808,"b":2} }]'))
    assert stored("text")["data"] == '{"b":1.10, "a":9223372036854775808,"b":2}'


def an_unknown_member_is_refused_and_its_event_is_named():
    bus.refuses(batch([{"stream": "unknown", "type": "a"}, {"stream": "unknown", "typ": "a"}]),
                "UH006", "^event 2: unknown field with a name of 3 bytes$")
    bus.refuses(batch([{"stream": "unknown", "type": "a", "": 1}]), "UH006", "^unknown field with a name of 0 bytes")
    assert bus.one("SELECT {}.stream_version('unknown')") == "0"


def what_the_store_gives_is_passed_over_and_corrections_are_refused():
    bus.sql(batch([{"stream": "copy", "type": "a", "global_sequence": 7, "version": 9, "family": "x",
                    "recorded_at": "2020-01-01T00:00:00Z", "revision": 1, "corrects": None,
                    "reason": None}]))
    assert stored("copy")["version"] == "1"
    bus.refuses(batch([{"stream": "copy", "type": "a", "corrects": UUID % 1}]), "UH006",
                "^corrects: a correction cannot be part of a batch$")
    bus.refuses(batch([{"stream": "copy", "type": "a", "purged": True}]), "UH006",
                "^purged: the payload of this event was erased$")
    assert len(bus.sql(batch([{"stream": "copies", "type": "a", "retraction": False, "final": True, "purged": False}]))) == 1
    bus.refuses(batch([{"stream": "copy", "type": "a", "reason": "x"}]), "UH006", "^reason: ")


def expect_is_a_word_or_a_version():
    def one(expect):
        return batch([{"stream": "words", "type": "a", "expect": expect}])

    bus.refuses(one("exists"), "UH003")
    bus.sql(one("none"))
    bus.refuses(one("none"), "UH003")
    bus.sql(one("exists"))
    bus.sql(one(2))
    bus.sql(one("3"))
    bus.sql(one("any"))
    bus.refuses(one(0), "UH003")
    bus.refuses_all(*(
        (one(wrong), "UH006", "^expect: ")
        for wrong in ("ANY", "", " 5", "+5", -1, -2, 1.5, True, [], "9223372036854775808")))
    assert bus.one("SELECT {}.stream_version('words')") == "5"


def an_expectation_is_about_the_stream_just_before_its_event():
    rows = bus.sql(batch([{"stream": "before", "type": "a", "expect": 0},
                          {"stream": "before", "type": "a", "expect": 1},
                          {"stream": "before", "type": "a", "expect": "exists"}]))
    assert [row[2] for row in rows] == ["1", "2", "3"], rows
    bus.refuses(batch([{"stream": "before", "type": "a", "expect": 3},
                       {"stream": "before", "type": "a", "expect": 3}]), "UH006",
                "^event 2: expected_version: contradicts")
    bus.refuses(batch([{"stream": "before", "type": "a", "expect": "exists"},
                       {"stream": "before", "type": "a", "expect": 1}]), "UH006", "^event 2: expected_version: contradicts")
    refused = bus.refuses(batch([{"stream": "before", "type": "a"}, {"stream": "before", "type": "a", "expect": 7}]), "UH003",
                          "^event 2: stream is at version 3, expected 6")
    assert refused.detail == "3", refused.detail
    assert bus.one("SELECT {}.stream_version('before')") == "3"


def a_value_of_a_wrong_kind_is_refused_by_the_name_of_its_member():
    expectations = []
    for member, values in (
            ("stream", (5, True, [], {})), ("type", (5, ["a"])), ("actor", (1, {})),
            ("correlation_id", (1,)), ("id", (1, "x", "{%s}" % (UUID % 1), (UUID % 1)[:-1])),
            ("causation_id", ("", (UUID % 1).replace("-", ""))), ("headers", ([], "x", 1, True)),
            ("valid_time", (0, "now", "infinity", "2026-01-31", "2026-01-31 09:30:00Z",
                            "2026-02-30T00:00:00Z", "2026-01-31T24:00:00Z",
                            "0001-01-01T00:30:00+01:00")),
            ("schema_version", ("1", 0, -1, 1.5, 2147483648, True))):
        for value in values:
            event = {"stream": "kinds", "type": "a", member: value}
            expectations.append((batch([event]), "UH006", "^%s: " % member))
    bus.refuses_all(*expectations)
    assert bus.one("SELECT {}.stream_version('kinds')") == "0"


def bytes_in_a_batch_need_both_members_and_exclude_data():
    base = {"stream": "pairs", "type": "a"}
    bus.refuses_all(
        (batch([dict(base, data_base64="AA==")]), "UH006", "^content_type: "),
        (batch([dict(base, content_type="a/b")]), "UH006", "^data_base64: "),
        (batch([dict(base, content_type="a/b", data_base64="AA==", data=1)]), "UH006", "^data: "),
        *((batch([dict(base, content_type="a/b", data_base64=wrong)]), "UH006",
           "^data_base64: not base64")
          for wrong in ("AA", "AB==", "A A=", "AA==\n", "====", "AA-_")))
    bus.sql(batch([dict(base, content_type="a/b", data_base64="")]))
    assert stored("pairs")["bytes"] == "\\x"


def a_batch_with_a_bad_event_in_the_middle_stores_nothing():
    good = {"stream": "atomic", "type": "a"}
    bus.refuses(batch([good, dict(good, type="a..b"), good]), "UH006", "^event 2: type: ")
    bus.refuses(batch([good, dict(good, expect=7), good]), "UH003")
    bus.refuses(batch([dict(good, id=UUID % 20), dict(good, id=UUID % 20)]), "UH006", "^event 2: id: ")
    assert bus.one("SELECT {}.stream_version('atomic')") == "0"


def a_batch_is_an_array_of_objects_and_may_be_empty():
    assert bus.sql(batch([])) == []
    bus.refuses_all(
        *((batch(json.dumps(wrong)), "UH006", "^events: must be a JSON array")
          for wrong in ({}, 1, None, "x")),
        ("SELECT * FROM {}.append_batch(NULL)", "UH006", "^events: must be a JSON array"),
        *((batch(wrong), "UH006", "^must be a JSON object") for wrong in ([1], [[]], [None])))
    bus.refuses(batch('[{"stream":"s","type":"a","data":"\\u0000"}]'), "UH006", "a NUL")


# ---- append_arrays, and where they are called from


def arrays_may_leave_columns_out():
    rows = bus.sql("SELECT version FROM {}.append_arrays(NULL, ARRAY['arrays', 'arrays'],"
                   " ARRAY['a', 'b'], ARRAY['1', '2']::json[], NULL, NULL, NULL, NULL, NULL, NULL,"
                   " NULL, NULL, NULL)")
    assert [row[0] for row in rows] == ["1", "2"], rows
    assert bus.sql("SELECT * FROM {}.append_arrays(NULL, '{}', '{}', '{}', NULL, NULL, NULL, NULL,"
                   " NULL, NULL, NULL, NULL, NULL)") == []


def appending_shares_the_caller_s_transaction():
    bus.sql("BEGIN; SELECT * FROM {}.append('tx', 'a'); ROLLBACK")
    bus.sql("BEGIN; SAVEPOINT s; SELECT * FROM {}.append('tx', 'a'); ROLLBACK TO s;"
            " SELECT * FROM {}.append('tx', 'kept'); COMMIT")
    bus.sql("BEGIN; SELECT * FROM {}.append('tx', 'prepared'); PREPARE TRANSACTION 'sql_append'")
    assert bus.column("SELECT type FROM {}.read_stream('tx')") == ["kept"]
    bus.sql("COMMIT PREPARED 'sql_append'")
    assert bus.column("SELECT type FROM {}.read_stream('tx')") == ["kept", "prepared"]


def a_search_path_of_the_caller_changes_nothing():
    bus.sql("CREATE SCHEMA trap; CREATE FUNCTION trap.octet_length(text) RETURNS integer"
            " LANGUAGE sql AS 'SELECT 1 / 0'; CREATE TABLE trap.events (x integer);"
            " SET search_path = trap, pg_catalog; SELECT * FROM {}.append('path', 'a')")
    assert bus.one("SELECT {}.stream_version('path')") == "1"


def odd_settings_of_a_session_change_no_verdict():
    verdicts = """
        SELECT coalesce({}.event_problem(s, t, d::json, h::json, c, 'me', v::timestamptz, 1, NULL, NULL, 100),
                        'good')
        FROM (VALUES
            ('a', 'a.b', E'["\\\\\\\\u0000"]', E'{"\\\\u0041":"b"}', 'c', '2026-01-31 09:30:00+00'),
            ('a', 'a.b', E'"\\\\u0000"', '{}', 'c', NULL), ('a', 'a.b', E'"\\\\ud800"', '{}', 'c', NULL),
            (E'a\\u0085', 'a.b', '{}', '{}', 'c', NULL), ('a', 'aXb', '{}', '{}', 'c', NULL),
            ('a', 'a..b', '{}', '{}', 'c', NULL), ('a', 'a', '{}', E'{"\\\\n":"b"}', 'c', NULL),
            ('a', 'a', '{}', '{}', '', NULL), ('a', 'a', '{}', '{}', 'c', '10000-01-01 00:00:00+00'))
            AS v(s, t, d, h, c, v);"""
    plain = bus.column(verdicts)
    assert plain.count("good") == 2 and len(plain) == 9, plain
    odd = ("SET standard_conforming_strings = off; SET backslash_quote = off; SET DateStyle = 'SQL, DMY';"
           " SET TimeZone = 'Asia/Kolkata'; SET IntervalStyle = 'sql_standard'; SET bytea_output = 'escape';"
           " SET transform_null_equals = on; SET array_nulls = off; SET escape_string_warning = off;"
           " SET plan_cache_mode = force_generic_plan; SET search_path = '';")
    assert bus.column(odd + verdicts) == plain
    bus.sql(odd + batch([{"stream": "odd", "type": "a.b", "valid_time": "2026-03-01T02:03:04.5+05:30",
                          "data_base64": "AP8=", "content_type": "a/b"}]))
    event = stored("odd")
    assert event["valid_time"] == "2026-02-28 20:33:04.5+00" and event["bytes"] == "\\x00ff", event
    assert bus.one(odd + "SELECT count(*) FROM {}.read_all(pattern => 'a.*')") == \
        bus.one("SELECT count(*) FROM {}.read_all(pattern => 'a.*')") != "0"


if __name__ == "__main__":
    sys.exit(run([
        append_needs_only_stream_and_type, append_takes_every_parameter_by_name,
        append_gives_the_position_of_the_event, bytes_need_a_content_type_and_no_json,
        json_comes_back_to_the_dead_letter,
        expected_version_is_checked_and_the_actual_one_is_in_the_detail,
        the_same_id_is_answered_with_its_place_and_other_content_is_refused,
        a_refusal_names_field_rule_and_length_and_stores_nothing,
        the_owner_sets_the_largest_payload_of_the_functions, a_batch_takes_every_member,
        an_absent_member_and_null_are_the_same, a_batch_keeps_order_and_gives_consecutive_versions,
        a_batch_keeps_the_text_of_data, an_unknown_member_is_refused_and_its_event_is_named,
        what_the_store_gives_is_passed_over_and_corrections_are_refused,
        expect_is_a_word_or_a_version, an_expectation_is_about_the_stream_just_before_its_event,
        a_value_of_a_wrong_kind_is_refused_by_the_name_of_its_member,
        bytes_in_a_batch_need_both_members_and_exclude_data,
        a_batch_with_a_bad_event_in_the_middle_stores_nothing,
        a_batch_is_an_array_of_objects_and_may_be_empty, arrays_may_leave_columns_out,
        appending_shares_the_caller_s_transaction, a_search_path_of_the_caller_changes_nothing,
        odd_settings_of_a_session_change_no_verdict]))
