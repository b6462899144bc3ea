#!/bin/sh
# test_follow.sh - howdah follow.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# One more event, and is anything shown?
_append_and_look() {
    run 0 append a a.b '{"n":1}'
    sleep 0.3
    [ -s live ]
}

it_starts_with_now_and_shows_each_event_as_it_appears() {
    run 0 append a a.b '{"n":0}'
    : >live
    "$HOWDAH" follow --timeout 120s >live 2>follow.err &
    pid=$!
    wait_until _append_and_look # nothing else tells that it has found its start
    first=$(field global_sequence live | head -n 1)
    [ "$first" -gt 1 ] || fail "it shows what was there before"
    run 0 append a a.b '{"n":2}'
    last=$(field global_sequence)
    wait_lines live $((last - first + 1))
    kill $pid
    ends $pid 143
    equals "$(field global_sequence live | tr '\n' ' ')" "$(seq "$first" "$last" | tr '\n' ' ')"
    empty follow.err
}

since_0_starts_with_the_first_event() {
    for n in 1 2 3; do
        run 0 append a a.b "{\"n\":$n}"
    done
    run 0 follow --since 0 --max 3 --timeout 20s
    equals "$(field global_sequence | tr '\n' ' ')" "1 2 3 "
    run 0 follow --since 1 --max 1 --timeout 20s
    equals "$(field global_sequence | tr '\n' ' ')" "2 "
}

a_pattern_chooses() {
    run 0 append a order.created
    run 0 append a invoice.created
    run 0 append a order.paid
    run 0 follow --since 0 --pattern 'order.*' --max 2 --timeout 20s
    equals "$(field type | tr '\n' ' ')" "order.created order.paid "
}

a_stream_chooses() {
    for n in 1 2 3; do
        run 0 append "s$n" a.b
        run 0 append s1 a.b
    done
    run 0 follow --since 0 --stream s1 --max 4 --timeout 20s
    equals "$(field global_sequence | tr '\n' ' ')" "1 2 4 6 "
    run 0 append --correct "$(field id | head -n 1)" --reason typing '{"n":1}'
    run 0 append s1 a.b
    run 0 follow --since 6 --stream s1 --originals --max 1 --timeout 20s
    equals "$(field global_sequence | tr '\n' ' ')" "8 "
}

another_run_goes_on_from_the_place_of_a_line() {
    for n in 1 2 3 4; do
        run 0 append a a.b "{\"n\":$n}"
    done
    run 0 follow --since 0 --max 2 --timeout 20s --places
    equals "$(field global_sequence | tr '\n' ' ')" "1 2 "
    run 0 follow --place "$(field place | tail -n 1)" --max 2 --timeout 20s
    equals "$(field global_sequence | tr '\n' ' ')" "3 4 "
    has_not out '"place"'
    run 6 follow --place nowhere
    has err "place: must be a text that howdah_tail_place() has made, got 7 bytes"
    run 6 follow --place 1.0.0.0 --since 0
    has err "place: cannot be given with since"
}

a_timeout_ends_it_without_an_error() {
    run 0 follow --timeout 300ms
    empty out
    run 0 follow --max 0
    empty out
}

bad_values_are_refused() {
    run 6 follow --timeout soon
    has err timeout
    run 6 follow --max -1
    run 6 follow --since x
    run 6 follow --pattern 'a..b'
    run 2 follow order-1
}

an_event_of_a_batch_is_not_missed() {
    : >live
    "$HOWDAH" follow --since 0 --max 500 --timeout 30s >live &
    pid=$!
    awk 'BEGIN { for (i = 0; i < 500; i++) print "{\"stream\":\"s\",\"type\":\"t\"}" }' |
        "$HOWDAH" append --batch --tx-size 7 --quiet >/dev/null
    wait $pid
    equals "$(field version live | sort -n | uniq | wc -l | tr -d ' ')" 500
}

run_tests "$@"
