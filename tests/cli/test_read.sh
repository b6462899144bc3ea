#!/bin/sh
# test_read.sh - howdah read, status, doctor and settings in a pipe.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_fill() {
    for n in 1 2 3; do
        "$HOWDAH" append order-1 order.created "{\"n\":$n}" --correlation "c-$n" >/dev/null
        "$HOWDAH" append order-2 order.item.added "{\"n\":$n}" >/dev/null
    done
}

_sequences() {
    field global_sequence | tr '\n' ' '
}

an_empty_log_prints_nothing() {
    run 0 read
    empty out
    empty err
    run 0 read --stream nobody
    empty out
}

fields_have_the_order_of_the_contract() {
    run 0 append order-1 order.created '{"total":12}'
    run 0 read
    equals "$(sed 's/"data":{[^}]*}/"data":0/; s/"headers":{}/"headers":0/; s/:"[^"]*"/:0/g; s/:null/:0/g
        s/:[0-9]*//g; s/[{}]//g' out)" \
        '"global_sequence","id","stream","version","type","data","headers","correlation_id","causation_id","valid_time","recorded_at","family","revision","corrects","reason","actor","schema_version"'
}

events_come_in_order_of_sequence() {
    _fill
    run 0 read
    equals "$(_sequences)" "1 2 3 4 5 6 "
    run 0 read --backward
    equals "$(_sequences)" "6 5 4 3 2 1 "
}

a_stream_comes_in_order_of_version() {
    _fill
    run 0 read --stream order-2
    equals "$(field version | tr '\n' ' ')" "1 2 3 "
    run 0 read --stream order-2 --from 2
    equals "$(field version | tr '\n' ' ')" "2 3 "
    run 0 read --stream order-2 --to 2 --backward
    equals "$(field version | tr '\n' ' ')" "2 1 "
}

ranges_and_limits_are_positions_like_any_other() {
    _fill
    run 0 read --from 2 --to 4
    equals "$(_sequences)" "2 3 4 "
    run 0 read --since 4
    equals "$(_sequences)" "5 6 "
    run 0 read --since 0 --limit 2
    equals "$(_sequences)" "1 2 "
    run 0 read --limit 0
    empty out
    run 0 read --to 0
    empty out
    run 0 read --from 5 --to 4
    empty out
    run 0 read --since 9223372036854775807
    empty out
}

types_patterns_and_correlations_choose() {
    _fill
    run 0 read --type order.created
    equals "$(_sequences)" "1 3 5 "
    run 0 read --pattern 'order.*'
    equals "$(_sequences)" "1 3 5 "
    run 0 read --pattern 'order.>'
    equals "$(_sequences)" "1 2 3 4 5 6 "
    run 0 read --pattern '*.*.added' --limit 1
    equals "$(_sequences)" "2 "
    run 0 read --correlation c-2
    equals "$(_sequences)" "3 "
}

one_event_is_found_by_its_id_and_as_the_last_of_a_stream() {
    _fill
    run 0 read --stream order-1 --last
    equals "$(_sequences)" "5 "
    id=$(field id)
    run 0 read --id "$id"
    equals "$(_sequences)" "5 "
}

what_is_not_there_exits_4() {
    run 4 read --stream nobody --last
    run 4 read --id 0198a1b2-0000-7000-8000-0000000000aa
}

choices_that_contradict_are_wrong_usage() {
    run 2 read --last
    run 2 read --id 0198a1b2-0000-7000-8000-0000000000aa --stream a
    run 2 read --from 1 --since 1
    run 2 read order-1
}

status_is_one_json_object() {
    _fill
    run 0 status
    equals "$(lines out)" 1
    equals "$(field head)" 6
    python3 -c 'import json; json.load(open("out"))'
}

doctor_prints_findings_as_json_lines() {
    run 0 doctor
    has out '"severity":"good"'
    has_not out '"severity":"bad"'
    python3 -c 'import json; [json.loads(l) for l in open("out")]'
}

doctor_exits_1_when_something_is_broken() {
    fresh_store
    run 1 doctor
    has out '"severity":"bad"'
}

doctor_finds_a_sequence_that_sessions_draw_from_in_advance() {
    if on_sqlite; then
        return # it has no sequences
    fi
    run 0 doctor
    has out '"check":"sequences","message":"numbers are drawn one at a time"'
    sql "ALTER SEQUENCE $HOWDAH_SCHEMA.events_global_sequence_seq CACHE 20"
    run 1 doctor
    has out "in advance from $HOWDAH_SCHEMA.events_global_sequence_seq"
    has out "CACHE 1"
}

settings_are_listed_with_their_variables() {
    HOWDAH_READ_BATCH=77 run 0 settings --set poll_interval=5ms
    has out '"key":"read_batch","value":"77"'
    has out '"key":"poll_interval","value":"5ms"'
    has out '"environment":"HOWDAH_READ_BATCH"'
}

run_tests "$@"
