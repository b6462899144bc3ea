#!/bin/sh
# test_batch.sh - howdah append --batch.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# _lines FIRST LAST: events with ids.
_lines() {
    awk -v first="$1" -v last="$2" 'BEGIN { for (i = first; i <= last; i++)
        printf "{\"stream\":\"s-%d\",\"type\":\"t.n\",\"data\":{\"n\":%d},\"id\":\"0198a1b2-0000-7000-8000-%012d\"}\n", i % 3, i, i }'
}

# batch CODE ARGUMENT... with ./in as its input.
_batch() {
    wanted=$1
    shift
    run "$wanted" append --batch "$@" <in
}

_count() {
    "$HOWDAH" read | wc -l | tr -d ' '
}

a_batch_prints_one_summary() {
    _lines 1 10 >in
    _batch 0
    equals "$(cat out)" '{"events":10,"already_stored":0,"first":1,"last":10}'
    has err "10 events, 0 already stored, "
    equals "$(_count)" 10
}

an_empty_batch_stores_nothing() {
    printf '\n  \n' >in
    _batch 0
    equals "$(cat out)" '{"events":0,"already_stored":0,"first":null,"last":null}'
}

quiet_says_nothing_but_the_result() {
    _lines 1 3 >in
    _batch 0 --quiet
    empty err
    equals "$(lines out)" 1
}

positions_are_printed_one_line_an_event() {
    _lines 1 5 >in
    _batch 0 --positions
    equals "$(lines out)" 5
    equals "$(field version | tr '\n' ' ')" "1 1 1 2 2 "
}

sending_it_again_stores_nothing_twice() {
    _lines 1 10 >in
    _batch 0
    _lines 1 15 >in
    _batch 0 --tx-size 4
    equals "$(cat out)" '{"events":15,"already_stored":10,"first":1,"last":'"$(field last)"'}'
    equals "$(_count)" 15
}

one_bad_line_stores_nothing_at_all() {
    { _lines 1 5; echo '{"stream":"s","type":"bad..type"}'; _lines 6 9; } >in
    _batch 6
    has err "line 6: type:"
    has err "nothing was stored"
    equals "$(_count)" 0
}

with_tx_size_the_transactions_before_stay_and_a_second_run_goes_on() {
    { _lines 1 5; echo '{"stream":"s","type":"bad..type"}'; } >in
    _batch 6 --tx-size 2
    has err "line 6: type:"
    has err "4 events are stored, up to line 4; run it again to continue"
    equals "$(_count)" 4
    _lines 1 9 >in
    _batch 0 --tx-size 2
    equals "$(field already_stored)" 4
    equals "$(_count)" 9
}

lines_without_an_id_cannot_simply_be_sent_again_and_it_says_so() {
    { echo '{"stream":"s","type":"t"}'; echo '{"stream":"s","type":"t"}'; echo '{'; } >in
    _batch 6 --tx-size 1
    has err "2 events are stored, up to line 2; not all of these lines have an id"
}

an_id_space_makes_lines_without_id_safe_to_send_again() {
    { echo '{"stream":"s","type":"t"}'; echo '{"stream":"s","type":"t"}'; } >in
    _batch 0 --id-space load-1
    _batch 0 --id-space load-1
    equals "$(field already_stored)" 2
    equals "$(_count)" 2
    _batch 0 --id-space load-2
    equals "$(_count)" 4
}

a_conflict_names_the_line_and_stores_nothing_of_its_transaction() {
    { _lines 1 2; echo '{"stream":"x","type":"t.n","expect":5}'; } >in
    _batch 3
    has err "line 3: "
    equals "$(_count)" 0
}

an_id_with_other_content_names_its_line() {
    _lines 1 3 >in
    _batch 0
    _lines 1 3 | sed 's/"n":2/"n":99/' >in
    _batch 3
    has err "line 2: "
}

expectations_of_lines_are_met_or_not() {
    { echo '{"stream":"x","type":"t.n","expect":"none"}'; echo '{"stream":"x","type":"t.n","expect":1}'; } >in
    _batch 0
    _batch 3
    equals "$(_count)" 2
}

every_field_is_understood() {
    cat >in <<'END'
{"stream":"a","type":"t","data":[1.50, 18446744073709551616],"headers":{"k":"v"},"correlation_id":"c","actor":"ann","valid_time":"2020-01-02T03:04:05Z","schema_version":2,"causation_id":"0198a1b2-0000-7000-8000-000000000001"}
{"stream":"\u00e9","type":"t","data_base64":"AAEC","content_type":"image/png"}
{"stream":"b","type":"t","data":null}
END
    _batch 0
    run 0 read
    has out '"data":[1.50, 18446744073709551616],'
    has out '"headers":{"k":"v"},"correlation_id":"c","causation_id":"0198a1b2-0000-7000-8000-000000000001","valid_time":"2020-01-02T03:04:05.000000Z"'
    has out '"actor":"ann","schema_version":2'
    has out '"content_type":"image/png","data_base64":"AAEC"'
    has out '"stream":"é"'
    has out '"data":null,'
}

a_log_can_be_copied_and_copied_again() {
    _lines 1 20 >in
    _batch 0
    "$HOWDAH" append s-1 t.n '{"a" : 1.0}' --actor ann --header k=v --schema-version 4 >/dev/null
    printf 'bytes' | "$HOWDAH" append s-1 t.n - --bytes text/plain >/dev/null
    "$HOWDAH" read >original
    source=$HOWDAH_STORE
    schema=$HOWDAH_SCHEMA
    fresh_store
    "$HOWDAH" init --quiet >/dev/null
    for already in 0 22; do
        "$HOWDAH" read --store "$source" --schema "$schema" | "$HOWDAH" append --batch --quiet >out
        equals "$(field events) $(field already_stored)" "22 $already"
    done
    "$HOWDAH" read >copy
    sed 's/"recorded_at":"[^"]*",//' original >original.text
    sed 's/"recorded_at":"[^"]*",//' copy >copy.text
    cmp original.text copy.text
}

a_dry_run_judges_every_line_and_stores_nothing() {
    { _lines 1 2; echo; echo '{"stream":"a","type":"bad type"}'; echo 'nonsense'; echo '{"stream":"a","type":"t","dta":1}'; } >in
    _batch 6 --dry-run
    equals "$(lines out)" 5
    has out '{"line":1,"ok":true}'
    has out '{"line":4,"ok":false,"field":"type","error":"'
    has out '{"line":5,"ok":false,"field":null,"error":"'
    has out '{"line":6,"ok":false,"field":"dta","error":"dta: unknown field; the nearest is data"}'
    equals "$(_count)" 0
    _lines 1 2 >in
    _batch 0 --dry-run
}

a_dry_run_needs_no_store() {
    _lines 1 2 >in
    _batch 0 --dry-run --store sqlite:/nonexistent/directory/x.db
}

an_unknown_field_names_its_line_and_the_nearest() {
    echo '{"strem":"a","type":"t"}' >in
    _batch 6
    has err "line 1: strem: unknown field; the nearest is stream"
}

more_than_a_transaction_can_hold_says_what_to_do() {
    awk 'BEGIN { for (i = 0; i <= 100000; i++) print "{\"stream\":\"s\",\"type\":\"t\"}" }' >in
    _batch 6
    has err "line 100001:"
    has err "--tx-size"
    equals "$(_count)" 0
}

a_payload_of_the_full_depth_passes_and_a_deeper_one_does_not() {
    awk 'BEGIN { for (i = 0; i < 64; i++) { a = a "["; b = b "]" }
        print "{\"stream\":\"s\",\"type\":\"t\",\"data\":" a b "}" }' >in
    _batch 0
    sed 's/\[\]/[[]]/' in >deeper
    mv deeper in
    _batch 6
}

a_line_that_is_too_long_is_refused_with_its_number() {
    { _lines 1 1; head -c 3000000 /dev/zero | tr '\0' 'x'; echo; } >in
    _batch 6
    has err "line 2: longer than"
    equals "$(_count)" 0
}

options_of_one_event_have_no_meaning_here() {
    : >in
    _batch 2 --actor ann
    _batch 2 stream type
    _batch 2 --expect none --tx-size 5
    run 2 append a b --tx-size 5
}

a_run_that_is_killed_goes_on_where_it_stopped() {
    _lines 1 20000 >in
    "$HOWDAH" append --batch --tx-size 100 --positions <in >positions 2>/dev/null &
    pid=$!
    while [ "$(lines positions)" -lt 300 ] && kill -0 $pid 2>/dev/null; do
        sleep 0.02
    done
    kill -9 $pid 2>/dev/null || :
    wait $pid 2>/dev/null || :
    _batch 0 --tx-size 1000
    equals "$(field events)" 20000
    equals "$(_count)" 20000
}

run_tests "$@"
