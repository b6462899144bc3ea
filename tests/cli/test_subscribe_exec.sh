#!/bin/sh
# test_subscribe_exec.sh - howdah subscribe --exec: the command, its input, its failures.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# What is short here is not what is tested.
FAST="--retry-delay 10ms --max-retry-delay 20ms --until-caught-up"

_fast() {
    # shellcheck disable=SC2086
    run "$@" $FAST
}

_big_event() {
    head -c 450000 /dev/zero | tr '\0' x | sed 's/.*/{"a":"&","b":"&"}/' >big
    "$HOWDAH" append s big @big >/dev/null
}

_error() {
    "$HOWDAH" dlq ls --sub "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["error"])'
}

the_command_gets_the_event_on_stdin_and_facts_in_its_environment() {
    id=$("$HOWDAH" append order-1 order.created '{"n":1}' | field id -)
    _fast 0 subscribe a --exec 'cat; env | grep ^HOWDAH_ | grep -v "STORE\|SCHEMA\|TEST\|PG_" | sort'
    empty err
    head -n 1 out >event
    run 0 read
    cmp out event
    _fast 0 subscribe b --exec 'env | grep ^HOWDAH_ | grep -v "STORE\|SCHEMA\|TEST\|PG_" | sort'
    equals "$(cat out)" "HOWDAH_ATTEMPT=1
HOWDAH_EVENT_ID=$id
HOWDAH_EVENT_TYPE=order.created
HOWDAH_SEQUENCE=1
HOWDAH_STREAM=order-1
HOWDAH_SUBSCRIBER=b"
}

commands_run_one_after_the_other_in_order() {
    events 20
    _fast 0 subscribe a --exec 'echo "$HOWDAH_SEQUENCE"'
    equals "$(tr '\n' ' ' <out)" "$(seq 20 | tr '\n' ' ')"
    _fast 0 subscribe a --exec 'echo "$HOWDAH_SEQUENCE"'
    empty out
}

a_command_that_fails_is_tried_again() {
    events 3
    _fast 0 subscribe a --exec 'echo "$HOWDAH_SEQUENCE $HOWDAH_ATTEMPT"; [ "$HOWDAH_SEQUENCE" != 2 ] || [ "$HOWDAH_ATTEMPT" = 3 ]'
    equals "$(tr '\n' ' ' <out)" "1 1 2 1 2 2 2 3 3 1 "
    has err "howdah: event 2, try 1: the command ended with exit code 1"
    has err "howdah: event 2, try 2: the command ended with exit code 1"
    run 0 dlq ls
    empty out
    equals "$(sub_field a high)" 3
}

after_the_last_try_it_is_a_dead_letter_with_stderr_as_the_error() {
    events 3
    _fast 0 subscribe a --max-retries 1 --exec 'echo "$HOWDAH_SEQUENCE $HOWDAH_ATTEMPT"; [ "$HOWDAH_SEQUENCE" != 2 ] || { echo "no stock" >&2; exit 7; }'
    equals "$(tr '\n' ' ' <out)" "1 1 2 1 2 2 3 1 "
    has err "is dead letter 1: no stock"
    equals "$(_error a)" "no stock"
    run 0 dlq ls
    equals "$(field attempts)" 2
    equals "$(field global_sequence)" 2
    equals "$(sub_field a dead_letters)" 1
    equals "$(sub_field a high)" 3
}

what_is_kept_of_stderr_is_the_end_of_it() {
    events 1
    _fast 0 subscribe a --max-retries 0 --exec 'seq 20000 >&2; echo >&2; exit 1'
    equals "$(_error a)" "19998
19999
20000"
    _fast 0 subscribe b --max-retries 0 --exec 'head -c 9000 /dev/zero | tr "\0" y >&2; exit 1'
    equals "$(_error b | tr -d '\n' | wc -c | tr -d ' ')" 480
    _fast 0 subscribe c --max-retries 0 --exec 'printf "\377\001bad \303\251" >&2; exit 1'
    equals "$(_error c)" "? bad ??"
    _fast 0 subscribe d --max-retries 0 --exec 'printf "caf\303\251" >&2; exit 1'
    equals "$(_error d)" "café"
}

without_stderr_the_end_of_the_command_is_the_error() {
    events 1
    _fast 0 subscribe a --max-retries 0 --exec 'exit 42'
    equals "$(_error a)" "the command ended with exit code 42"
    _fast 0 subscribe b --max-retries 0 --exec 'kill -9 $$'
    equals "$(_error b)" "the command was ended by signal 9 (Killed)"
    _fast 0 subscribe c --max-retries 0 --exec 'no-such-command-here'
    _error c | grep -q 'not found' || fail "$(_error c)"
}

what_the_command_says_goes_to_our_stderr_unless_quiet() {
    events 1
    _fast 0 subscribe a --exec 'echo words >&2'
    equals "$(cat err)" words
    _fast 0 subscribe b --quiet --max-retries 1 --exec 'echo words >&2; exit 1'
    empty err
    equals "$(_error b)" words
}

a_large_event_does_not_lock_up_whether_it_is_read_or_not() {
    _big_event
    _fast 0 subscribe a --exec 'wc -c'
    [ "$(cat out)" -gt 900000 ] || fail "only $(cat out) bytes"
    _fast 0 subscribe b --exec 'true'
    empty err
    _fast 0 subscribe c --exec 'exec <&-; sleep 0.2'
    _fast 0 subscribe d --exec 'head -c 10 >/dev/null; head -c 900000 /dev/zero | tr "\0" z >&2'
    equals "$(wc -c <err | tr -d ' ')" 900000
    _fast 0 subscribe e --exec 'head -c 900000 /dev/zero | tr "\0" z >&2; cat | wc -c'
    [ "$(cat out)" -gt 900000 ] || fail "only $(cat out) bytes"
    run 0 dlq ls
    empty out
}

a_process_that_the_command_leaves_behind_does_not_hold_us_up() {
    events 1
    start=$(date +%s)
    _fast 0 subscribe a --exec 'sleep 15 >/dev/null & echo $! >left'
    [ $(($(date +%s) - start)) -lt 10 ] || fail "it waited"
    kill "$(cat left)"
}

a_closed_one_halts_says_why_and_goes_on_after_resume() {
    events 3
    _fast 1 subscribe a --on-fail closed --max-retries 1 --exec 'echo "$HOWDAH_SEQUENCE"; [ "$HOWDAH_SEQUENCE" != 2 ] || { echo "no disk" >&2; exit 1; }'
    equals "$(tr '\n' ' ' <out)" "1 2 2 "
    has err "howdah: subscription a is halted: no disk"
    has err "howdah sub resume a"
    equals "$(sub_field a state)" halted
    equals "$(sub_field a reason)" "no disk"
    _fast 1 subscribe a --exec 'echo "$HOWDAH_SEQUENCE"'
    empty out
    run 0 sub resume a
    _fast 0 subscribe a --exec 'echo "$HOWDAH_SEQUENCE"'
    equals "$(tr '\n' ' ' <out)" "2 3 "
    run 0 dlq ls
    empty out
}

max_counts_dead_letters_too() {
    events 3
    run 0 subscribe a --max 2 --max-retries 0 --timeout 20s --exec 'echo "$HOWDAH_SEQUENCE"; false'
    equals "$(tr '\n' ' ' <out)" "1 2 "
    equals "$(sub_field a dead_letters)" 2
    equals "$(sub_field a high)" 2
}

ctrl_c_ends_it_after_the_command_that_runs() {
    events 3
    "$HOWDAH" subscribe a --exec 'touch begun; sleep 1; echo "$HOWDAH_SEQUENCE"' >out 2>err &
    pid=$!
    wait_until test -f begun
    kill -INT $pid
    ends $pid 130
    empty err
    equals "$(cat out)" 1
    equals "$(sub_field a high)" 1
    equals "$(sub_field a owner)" null
    _fast 0 subscribe a --exec 'echo "$HOWDAH_SEQUENCE"'
    equals "$(tr '\n' ' ' <out)" "2 3 "
}

sigterm_ends_it_after_the_command_that_runs_with_0() {
    events 2
    "$HOWDAH" subscribe a --exec 'touch begun; sleep 1; echo "$HOWDAH_SEQUENCE"' >out 2>err &
    pid=$!
    wait_until test -f begun
    kill $pid
    ends $pid 0
    equals "$(cat out)" 1
    equals "$(sub_field a high)" 1
}

a_command_that_is_told_to_end_with_us_has_not_failed() {
    events 1
    : >pids
    "$HOWDAH" subscribe a --max-retries 0 --exec 'echo $$ >pids; exec sleep 30' 2>err &
    pid=$!
    wait_lines pids 1
    kill $pid
    kill "$(cat pids)"
    wait $pid
    equals "$(sub_field a high)" 0
    equals "$(sub_field a dead_letters)" 0
    empty err
}

a_second_ctrl_c_ends_the_command_too() {
    events 1
    : >pids
    "$HOWDAH" subscribe a --lease 1s --exec 'echo $$ >pids; exec sleep 30' 2>err &
    pid=$!
    wait_lines pids 1
    kill -TERM $pid
    wait_until has_taken_term $pid
    kill -0 "$(cat pids)"
    kill -TERM $pid
    ends $pid 143
    wait_until sh -c "! kill -0 $(cat pids) 2>/dev/null"
}

a_dead_letter_is_tried_again_by_a_subscription_that_runs() {
    events 2
    : >live
    "$HOWDAH" subscribe a --max-retries 0 --timeout 60s --exec \
        'echo "$HOWDAH_SEQUENCE $HOWDAH_ATTEMPT"; [ -e mended ] || [ "$HOWDAH_SEQUENCE" != 1 ]' >live 2>live.err &
    pid=$!
    wait_lines live 2
    wait_until sh -c "'$HOWDAH' dlq ls | grep -q dead"
    run 0 dlq redrive 1
    equals "$(cat out)" '{"marked":1,"state":"redrive"}'
    wait_lines live 3
    wait_until sh -c "'$HOWDAH' dlq show 1 | grep -q '\"state\":\"dead\",'"
    : >mended
    run 0 dlq redrive --all
    wait_lines live 4
    wait_until sh -c "'$HOWDAH' dlq show 1 | grep -q '\"state\":\"redriven\"'"
    kill $pid
    wait $pid
    equals "$(tr '\n' ' ' <live)" "1 1 2 1 1 2 1 3 "
    run 0 dlq ls
    empty out
}

a_failure_is_one_also_where_the_ends_of_children_are_ignored() {
    as_supervised
    events 2
    _fast 0 subscribe a --max-retries 0 --exec '[ "$HOWDAH_SEQUENCE" = 1 ] || exit 7'
    has err "event 2 is dead letter 1: the command ended with exit code 7"
    equals "$(_error a)" "the command ended with exit code 7"
}

sigterm_ends_it_also_where_it_was_blocked() {
    as_supervised
    events 1
    "$HOWDAH" subscribe a --exec ': >begun' >out 2>err &
    pid=$!
    wait_until test -f begun
    kill -TERM $pid
    ends $pid 0
}

run_tests "$@"
