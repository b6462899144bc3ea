#!/bin/sh
# test_append.sh - howdah append, one event at a time.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

ID=0198a1b2-0000-7000-8000-0000000000aa

append_prints_the_position_as_one_json_object() {
    run 0 append order-1 order.created '{"total":12}' --id $ID
    equals "$(cat out)" '{"global_sequence":1,"id":"'$ID'","stream":"order-1","version":1,"revision":1}'
    run 0 append order-1 order.paid
    equals "$(field global_sequence) $(field version)" "2 2"
    empty err
}

an_event_without_payload_has_an_empty_object() {
    run 0 append order-1 order.created
    run 0 read
    has out '"data":{}'
}

the_payload_comes_back_to_the_dead_letter() {
    payload='{"b":1, "a":12345678901234567890123, "x":1.10e+2,"a":"\u00e9"}'
    run 0 append order-1 order.created "$payload"
    run 0 read
    has out "\"data\":$payload,"
}

the_payload_may_come_from_stdin_and_from_a_file() {
    echo '{"from":"stdin"}' | "$HOWDAH" append a a.b - >/dev/null
    echo '{"from":"file"}' >payload.json
    run 0 append a a.b @payload.json
    run 0 read
    has out '"data":{"from":"stdin"},'
    has out '"data":{"from":"file"},'
}

a_negative_number_is_a_payload_not_an_option() {
    run 0 append a a.b -5
    run 0 read
    has out '"data":-5,'
}

a_pretty_printed_payload_is_read_as_one_line() {
    printf '{\n  "a": 1\n}\n' | "$HOWDAH" append a a.b - >/dev/null
    run 0 read
    equals "$(lines out)" 1
}

bytes_are_kept_with_their_content_type() {
    printf 'a\000b\n' | "$HOWDAH" append a a.b - --bytes application/octet-stream >/dev/null
    run 0 read
    has out '"content_type":"application/octet-stream"'
    has out '"data_base64":"YQBiCg=="'
}

every_field_can_be_given() {
    run 0 append a a.b '{}' --id $ID
    run 0 append a a.c '{}' --header k=v --header 'x=a=b' --correlation c-1 --causation $ID \
        --actor ann --valid-time 2020-01-02T03:04:05+01:00 --schema-version 3
    run 0 read --type a.c
    has out '"headers":{"k":"v","x":"a=b"}'
    equals "$(field correlation_id)" c-1
    equals "$(field causation_id)" $ID
    equals "$(field actor)" ann
    equals "$(field valid_time)" 2020-01-02T02:04:05.000000Z
    equals "$(field schema_version)" 3
}

an_expectation_that_is_met_is_silent() {
    run 0 append a a.b --expect none
    run 0 append a a.b --expect 1
    run 0 append a a.b --expect exists
    run 0 append a a.b --expect any
    run 0 append b a.b --expect 0
    equals "$(field version)" 1
}

an_expectation_that_is_not_met_exits_3_and_stores_nothing() {
    run 0 append a a.b
    run 3 append a a.b --expect none
    has err 1
    run 3 append a a.b --expect 7
    run 3 append b a.b --expect exists
    run 0 read
    equals "$(lines out)" 1
}

the_same_id_again_is_answered_with_its_position() {
    run 0 append a a.b '{"n":1}' --id $ID
    cp out first
    run 0 append a a.b '{"n":2}'
    run 0 append a a.b '{"n":1}' --id $ID
    equals "$(cat out)" "$(cat first)"
    has err "stored before"
    run 0 read
    equals "$(lines out)" 2
}

the_same_id_with_other_content_exits_3() {
    run 0 append a a.b '{"n":1}' --id $ID
    run 3 append a a.b '{"n":2}' --id $ID
    run 0 read
    equals "$(lines out)" 1
}

options_may_stand_anywhere_and_with_an_equals_sign() {
    store=$HOWDAH_STORE
    unset HOWDAH_STORE
    "$HOWDAH" --store="$store" append --expect=none a --actor ann a.b '{}' >out
    "$HOWDAH" append a a.b --store "$store" -- '{"n":2}' >out
    equals "$(field version)" 2
}

run_tests "$@"
