#!/bin/sh
# test_subscribe.sh - howdah subscribe: places, ends, instances.  Commands: test_subscribe_exec.sh.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

ESC=$(printf '\033')

# The sequences of a file of events, in one line.
_sequences() {
    field global_sequence "${1:-out}" | tr '\n' ' '
}

it_prints_every_event_once_and_goes_on_where_it_was() {
    events 3
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "1 2 3 "
    empty err
    run 0 subscribe a --until-caught-up
    empty out
    events 2
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "4 5 "
    run 0 read --since 3
    cp out read
    run 0 subscribe b --from 3 --until-caught-up
    cmp out read
}

max_leaves_after_so_many_events_and_the_next_run_goes_on() {
    events 5
    run 0 subscribe a --max 2 --timeout 20s
    equals "$(_sequences)" "1 2 "
    equals "$(sub_field a high)" 2
    run 0 subscribe a --max 2 --checkpoint batched --timeout 20s
    equals "$(_sequences)" "3 4 "
    equals "$(sub_field a high)" 4
    run 0 subscribe a --max 1 --timeout 20s
    equals "$(_sequences)" "5 "
}

max_0_only_makes_it() {
    events 2
    run 0 subscribe a --from end --max 0
    empty out
    equals "$(sub_field a high)" 2
    events 1
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "3 "
}

a_new_one_begins_at_the_start_the_end_or_behind_a_number() {
    events 4
    run 0 subscribe a --from start --max 1 --timeout 20s
    equals "$(_sequences)" "1 "
    run 0 subscribe b --from 2 --until-caught-up
    equals "$(_sequences)" "3 4 "
    run 0 subscribe c --from end --until-caught-up
    empty out
    run 0 subscribe a --from end --max 1 --timeout 20s
    equals "$(_sequences)" "2 "
}

a_pattern_chooses_and_is_remembered() {
    events 1 order.created
    events 1 invoice.created
    events 1 order.paid
    run 0 subscribe a --pattern 'order.*' --until-caught-up
    equals "$(_sequences)" "1 3 "
    equals "$(sub_field a pattern)" 'order.*'
    equals "$(sub_field a high)" 3
    events 1 invoice.created
    events 1 order.paid
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "5 "
    run 0 subscribe a --pattern '>' --until-caught-up
    empty out
    equals "$(sub_field a pattern)" '>'
}

every_mode_delivers_all() {
    events 250
    for options in "--instance single" "--instance lease" "--checkpoint batched --batch-size 7" \
        "--ordering strict" "--gap-policy timeout --gap-timeout 1s" "--batch 1" \
        "--batch 1000 --lease 30s --max-delay 10ms --on-fail closed"; do
        name=$(random_hex)
        # shellcheck disable=SC2086
        run 0 subscribe "$name" $options --until-caught-up
        equals "$(field global_sequence | sort -n | uniq | wc -l | tr -d ' ')" 250
        equals "$(lines out)" 250
        equals "$(sub_field "$name" high)" 250
        equals "$(sub_field "$name" owner)" null
    done
}

it_shows_each_event_as_it_appears_and_sigterm_ends_it_with_0() {
    : >live
    "$HOWDAH" subscribe a --timeout 60s >live 2>live.err &
    pid=$!
    wait_owned a
    run 0 append s t
    wait_lines live 1
    run 0 append s t
    wait_lines live 2
    kill $pid
    ends $pid 0
    equals "$(_sequences live)" "1 2 "
    empty live.err
    equals "$(sub_field a high)" 2
    equals "$(sub_field a owner)" null
}

ctrl_c_ends_it_with_130_its_place_stored_and_nobody_its_owner() {
    events 3
    : >out
    "$HOWDAH" subscribe a --checkpoint batched --max-delay 60s >out 2>err &
    pid=$!
    wait_lines out 3
    kill -INT $pid
    ends $pid 130
    empty err
    equals "$(_sequences)" "1 2 3 "
    equals "$(sub_field a high)" 3
    equals "$(sub_field a owner)" null
}

a_timeout_ends_it_without_an_error() {
    run 0 subscribe a --timeout 300ms
    empty out
    equals "$(sub_field a owner)" null
}

an_event_that_nobody_read_stays_outstanding() {
    events 3
    { wait_until test -f left; code=0; "$HOWDAH" subscribe a --timeout 20s 2>err || code=$?; echo "$code" >code; } |
        { exec <&-; : >left; }
    equals "$(cat code)" 0
    empty err
    equals "$(sub_field a high)" 0
    equals "$(sub_field a dead_letters)" 0
    run 0 subscribe a --max-retries 0 --until-caught-up
    equals "$(_sequences)" "1 2 3 "
}

a_reader_that_left_is_noticed_also_when_nothing_happens() {
    start=$(date +%s)
    # shellcheck disable=SC2216
    { code=0; "$HOWDAH" subscribe a --timeout 60s 2>err || code=$?; echo "$code" >code; } | sleep 0.5
    equals "$(cat code)" 0
    [ $(($(date +%s) - start)) -lt 20 ] || fail "it stayed until its timeout"
}

a_full_disk_is_an_error_and_the_event_stays_outstanding() {
    events 2
    code=0
    "$HOWDAH" subscribe a --until-caught-up >/dev/full 2>err || code=$?
    equals "$code" 1
    has err "cannot write"
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "1 2 "
}

what_kill_9_cut_off_is_delivered_again_and_nothing_is_lost() {
    events 500
    : >first
    "$HOWDAH" subscribe a --lease 1s --exec 'echo $HOWDAH_SEQUENCE' >first 2>/dev/null &
    pid=$!
    wait_lines first 20
    kill -9 $pid
    wait $pid || :
    # The command that ran is nobody's child now and may end a moment later.
    "$HOWDAH" subscribe a --exec 'echo $HOWDAH_SEQUENCE' --until-caught-up >second 2>/dev/null
    equals "$(cat first second | sort -n | uniq | tr '\n' ' ')" "$(seq 500 | tr '\n' ' ')"
    # At most the one in hand comes twice.
    [ "$(cat first second | wc -l)" -le 501 ] || fail "$(cat first second | wc -l) events"
}

a_second_process_stands_by_and_takes_over_when_the_first_ends() {
    : >first
    : >second
    "$HOWDAH" subscribe a --timeout 60s >first 2>/dev/null &
    one=$!
    wait_owned a
    owner=$(sub_field a owner)
    "$HOWDAH" subscribe a --timeout 60s >second 2>/dev/null &
    two=$!
    events 3
    wait_lines first 3
    equals "$(sub_field a owner)" "$owner"
    kill $one
    ends $one 0
    events 2
    wait_lines second 2
    kill $two
    ends $two 0
    equals "$(_sequences first)" "1 2 3 "
    equals "$(_sequences second)" "4 5 "
}

until_caught_up_leaves_when_another_process_has_done_it() {
    : >first
    "$HOWDAH" subscribe a --timeout 60s >first 2>/dev/null &
    one=$!
    wait_owned a
    events 2
    run 0 subscribe a --until-caught-up
    empty out
    equals "$(_sequences first)" "1 2 "
    kill $one
    wait $one
}

a_running_one_hears_of_a_pause_and_of_its_end() {
    : >live
    "$HOWDAH" subscribe a --timeout 60s >live 2>live.err &
    pid=$!
    wait_owned a
    run 0 append s t
    wait_lines live 1
    run 0 sub pause a --reason "a release"
    sleep 4 # the row says paused at once; that the owner has heard of it, nothing says
    run 0 append s t
    sleep 0.5
    equals "$(_sequences live)" "1 "
    equals "$(sub_field a state)" paused
    run 0 sub resume a
    wait_lines live 2
    kill $pid
    ends $pid 0
    equals "$(_sequences live)" "1 2 "
}

until_caught_up_does_not_wait_for_a_paused_one() {
    events 1
    run 0 subscribe a --max 0
    run 0 sub pause a --reason "a release"
    run 1 subscribe a --until-caught-up
    has err "subscription a is paused: a release"
    has err "howdah sub resume a"
    empty out
}

one_that_was_removed_meanwhile_is_not_found() {
    "$HOWDAH" subscribe a --instance single --timeout 60s >live 2>live.err &
    pid=$!
    wait_owned a
    run 0 sub rm a
    ends $pid 4
    has live.err "there is no subscription a"
}

bad_values_are_refused_and_make_nothing() {
    run 2 subscribe
    has err "usage: howdah subscribe NAME"
    run 2 subscribe a b
    run 2 subscribe a --patern x
    has err "did you mean --pattern?"
    run 2 subscrib a
    has err "did you mean subscribe?"
    run 2 subscribe a --max
    for bad in "--from middle" "--from -1" "--max x" "--timeout soon" "--pattern a..b" \
        "--instance many" "--checkpoint never" "--on-fail ajar" "--ordering random" \
        "--gap-policy hope" "--batch 0" "--batch-size 0" "--max-retries -1" "--max-delay 0s" \
        "--retry-delay 5" "--lease 1ms" "--exec="; do
        # shellcheck disable=SC2086
        run 6 subscribe a $bad
        empty out
    done
    run 6 subscribe ""
    run 4 sub show a
    run 8 subscribe a --store "sqlite:$WORK/nothing.db" --timeout 1s
}

in_a_terminal_it_shows_rows_and_a_line_that_tells_where_it_is() {
    events 3
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' subscribe orders --timeout 4s"
    has out "subscribed to "
    equals "$(grep -c '"n":' out)" 3
    has_not out '"global_sequence"'
    has raw "orders  live  at 3  lag 0  "
    has raw "${ESC}[K"
    has out "orders: 3 events, 0 of them dead letters"
    tr '\r' '\n' <raw | sed "s/$ESC\\[[0-9;]*[mK]//g" | grep 'lag\|"n":' |
        python3 -c 'import sys; sys.exit(max(len(l.rstrip("\n")) for l in sys.stdin) > 80)' ||
        fail "wider than 80"
    # The line goes to stderr; with --quiet, or into a pipe, there is none.
    in_terminal 80 "'$HOWDAH' subscribe other --quiet --timeout 700ms 2>&1"
    has_not raw "lag"
    run 0 subscribe third --timeout 700ms
    empty err
    in_terminal 80 "'$HOWDAH' subscribe fourth --max 3 --timeout 20s 2>/dev/null | cat"
    equals "$(grep -c '^{"global_sequence":' out)" 3
    has_not raw "$ESC"
}

in_a_terminal_a_standby_says_so_once() {
    "$HOWDAH" subscribe a --timeout 60s >/dev/null 2>&1 &
    pid=$!
    wait_owned a
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' subscribe a --timeout 4s"
    equals "$(grep -c 'is on standby; the owner is ' out)" 1
    kill $pid
    wait $pid
}

_is_stored() {
    [ "$(sub_field a high)" = "$1" ]
}

ctrl_c_typed_in_the_terminal_ends_it() {
    events 1
    { wait_until _is_stored 1; printf '\003'; sleep 1; } |
        timeout 60 script -qec "trap : INT; '$HOWDAH' subscribe a; echo code=\$?" /dev/null >out || :
    has out "code=130"
    equals "$(sub_field a high)" 1
    equals "$(sub_field a owner)" null
}

run_tests "$@"
