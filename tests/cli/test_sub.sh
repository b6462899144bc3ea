#!/bin/sh
# test_sub.sh - howdah sub, and subscriptions in howdah status.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_sequences() {
    field global_sequence "${1:-out}" | tr '\n' ' '
}

# json EXPRESSION [FILE]: of the one object d in the file.
_json() {
    python3 -c 'import json, sys; d = json.loads(open(sys.argv[2]).read()); print(eval(sys.argv[1]))' \
        "$1" "${2:-out}"
}

show_has_the_fields_of_the_contract() {
    events 3 order.created
    run 0 subscribe mail --pattern 'order.*' --max 2 --timeout 20s
    run 0 sub show mail
    equals "$(lines out)" 1
    equals "$(_json '" ".join(d)')" "subscriber_id high contiguous holes head lag lag_age_s owner token state pattern updated_at dead_letters skips reason stream originals instance outstanding"
    equals "$(_json 'd["subscriber_id"], d["high"], d["contiguous"], d["holes"], d["head"], d["lag"]')" \
        "('mail', 2, 2, [], 3, 1)"
    equals "$(_json 'd["owner"], d["token"], d["state"], d["pattern"], d["dead_letters"], d["skips"], d["reason"]')" \
        "(None, 1, 'waiting', 'order.*', 0, 0, None)"
    _json 'd["lag_age_s"]' | grep -q '^[0-9][0-9]*[.][0-9]*$' || fail "lag_age_s"
    in_terminal 100 "'$HOWDAH' sub show mail"
    has out 'oldest left'
    run 0 subscribe mail --until-caught-up
    run 0 sub show mail
    equals "$(_json 'd["lag"], d["lag_age_s"]')" "(0, None)"
    _json 'd["updated_at"]' | grep -q '^20[0-9-]*T[0-9:.]*Z$' || fail "updated_at"
}

an_event_that_waits_for_its_next_try_is_a_hole() {
    events 1 bad
    run 0 append other t
    "$HOWDAH" subscribe a --retry-delay 60s --timeout 60s --exec '[ "$HOWDAH_EVENT_TYPE" != bad ]' 2>/dev/null &
    pid=$!
    wait_until sh -c "'$HOWDAH' sub show a | grep -q '\"high\":2'"
    run 0 sub show a
    equals "$(_json 'd["high"], d["contiguous"], d["holes"], d["lag"]')" "(2, 0, [[1, 1]], 1)"
    _json 'd["owner"]' | grep -q "/$pid/" || fail "the owner is not $pid"
    kill $pid
    wait $pid
    run 0 sub show a
    equals "$(_json 'd["high"], d["holes"], d["owner"]')" "(2, [[1, 1]], None)"
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "1 "
}

ls_lists_all_by_name_each_as_show_does() {
    run 0 sub ls
    empty out
    for name in b a c; do
        run 0 subscribe $name --max 0
    done
    run 0 sub ls
    equals "$(field subscriber_id | tr '\n' ' ')" "a b c "
    sed -n 1p out >first
    run 0 sub show a
    cmp out first
}

reset_moves_it() {
    events 3
    run 0 subscribe a --until-caught-up
    run 0 sub reset a --to start
    equals "$(field high)" 0
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "1 2 3 "
    run 0 sub reset a --to 2
    equals "$(field high)" 2
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "3 "
    events 2
    run 0 sub reset a --to end
    equals "$(field high)" 5
    run 0 subscribe a --until-caught-up
    empty out
    run 6 sub reset a --to 6
    run 6 sub reset a --to middle
    run 6 sub reset a --to 2026-01-01
    has err 'a TIME is RFC 3339 with an offset, like 2026-01-31T09:30:00Z'
    run 2 sub reset a
    has err "sub reset NAME --to start|end|N|TIME"
    run 4 sub reset nobody --to start
}

reset_moves_it_to_a_moment() {
    events 2
    run 0 read
    sleep 0.01
    moment=$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)
    sleep 0.01
    events 3
    run 0 subscribe a --until-caught-up
    run 0 sub reset a --to "$moment"
    equals "$(field high)" 2
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "3 4 5 "
    run 0 sub reset a --to 2001-01-01T00:00:00+01:00
    equals "$(field high)" 0
    run 0 sub reset a --to 9000-01-01T00:00:00Z
    equals "$(field high)" 5
    run 6 sub reset a --to 2001-01-01
    run 4 sub reset nobody --to 2001-01-01T00:00:00Z
}

one_that_runs_starts_anew_after_a_reset() {
    events 2
    : >live
    "$HOWDAH" subscribe a --timeout 60s >live 2>/dev/null &
    pid=$!
    wait_lines live 2
    run 0 sub reset a --to 1
    wait_lines live 3
    kill $pid
    wait $pid
    equals "$(_sequences live)" "1 2 2 "
}

pause_and_resume_are_stored_with_the_reason() {
    run 0 subscribe a --max 0
    run 0 sub pause a --reason "a release"
    equals "$(_json 'd["state"], d["reason"]')" "('paused', 'a release')"
    run 0 sub resume a
    equals "$(_json 'd["state"], d["reason"]')" "('waiting', None)"
    run 0 sub pause a
    equals "$(_json 'd["state"], d["reason"]')" "('paused', None)"
    run 4 sub pause nobody
    run 4 sub resume nobody
}

rm_refuses_while_it_is_owned_and_leaves_the_dead_letters() {
    events 1
    run 0 subscribe a --max-retries 0 --exec false --until-caught-up
    "$HOWDAH" subscribe a --timeout 60s >/dev/null 2>&1 &
    pid=$!
    wait_owned a
    run 3 sub rm a
    has err "stop the process that runs it first"
    kill $pid
    wait $pid
    run 0 sub rm a
    equals "$(cat out)" '{"subscriber_id":"a","removed":true}'
    run 4 sub show a
    run 4 sub rm a
    run 0 dlq ls
    equals "$(field subscriber_id)" a
    run 0 subscribe a --until-caught-up
    equals "$(_sequences)" "1 "
}

wait_returns_when_all_that_was_there_is_handled() {
    events 3 order.created
    run 0 subscribe a --max 1 --timeout 20s
    run 1 sub wait a --timeout 300ms
    has err "subscription a is at 1, and has not reached 3 yet"
    "$HOWDAH" subscribe a --timeout 60s >/dev/null 2>&1 &
    pid=$!
    run 0 sub wait a --timeout 20s
    equals "$(field high)" 3
    # What does not match is passed as well.
    run 0 sub reset a --to start
    kill $pid
    wait $pid
    "$HOWDAH" subscribe a --pattern invoice.paid --timeout 60s >/dev/null 2>&1 &
    pid=$!
    run 0 sub wait a --timeout 20s
    equals "$(field high)" 3
    kill $pid
    wait $pid
    run 4 sub wait nobody
    run 6 sub wait a --timeout soon
}

wait_does_not_wait_for_a_halted_one() {
    events 1
    run 1 subscribe a --on-fail closed --max-retries 0 --exec 'echo broken >&2; exit 1'
    run 1 sub wait a --timeout 20s
    has err "subscription a is halted at 0: broken"
    has err "howdah sub resume a"
}

ctrl_c_ends_a_wait_with_130() {
    events 1
    run 0 subscribe a --max 0
    code=0
    timeout --preserve-status -s INT 1 "$HOWDAH" sub wait a >out 2>err || code=$?
    equals "$code" 130
    empty err
}

# Numbers that were drawn and not committed exist on PostgreSQL only.
skips_are_listed_and_resolved() {
    run 0 subscribe a --max 0
    run 0 sub skips
    empty out
    if on_sqlite; then
        sql "INSERT INTO howdah_skips (subscriber_id, first_sequence, last_sequence, age_ms, reason, created_at)
             VALUES ('a', 3, 5, 5001, 'gap_timeout passed', 1000000)"
    else
        events 1
        psql -X -q -At "$HOWDAH_STORE" -c "BEGIN" -c "SELECT 1 FROM $HOWDAH_SCHEMA.append('x', 't', '{}')" -c ROLLBACK >/dev/null
        events 1
        sql "INSERT INTO $HOWDAH_SCHEMA.skips (subscriber_id, first_sequence, last_sequence, age_ms, reason, created_at)
             VALUES ('a', 3, 5, 5001, 'gap_timeout passed', '1970-01-01T00:00:01Z')"
    fi
    run 0 sub skips
    equals "$(cat out)" '{"id":1,"subscriber_id":"a","first":3,"last":5,"age_ms":5001,"reason":"gap_timeout passed","created_at":"1970-01-01T00:00:01.000000Z","resolution":null}'
    equals "$(sub_field a skips)" 1
    run 0 sub skips b
    empty out
    run 2 sub resolve 1
    run 0 sub resolve 1 --reason "nothing was there"
    equals "$(cat out)" '{"id":1,"resolved":true}'
    run 0 sub skips a
    empty out
    run 0 sub skips a --all
    equals "$(field resolution)" "nothing was there"
    run 4 sub resolve 9 --reason x
    run 6 sub resolve x --reason x
    equals "$(sub_field a skips)" 0
}

wrong_usage_is_refused_with_the_nearest_verb() {
    run 2 sub
    has err "there are: ls show reset pause resume rm unshare wait skips resolve"
    run 2 sub shwo a
    has err "did you mean sub show?"
    run 2 sub xxxxxxxxxxxx
    has err "there are: ls"
    run 2 sub show
    has err "usage: howdah sub show NAME"
    run 2 sub show a b
    run 2 sub ls --to 3
    has err "sub ls does not take --to"
    run 2 sub show a --reason x
    run 4 sub show nobody
    has err "nobody"
    run 6 sub show ""
    run 8 sub ls --store "sqlite:$WORK/nothing.db"
}

status_tells_of_subscriptions_and_keeps_its_keys() {
    run 0 status
    equals "$(_json 'd["subscriptions"], d["dead_letters"], d["skips"]')" "([], 0, 0)"
    events 2
    run 0 subscribe b --max-retries 0 --until-caught-up --exec false
    run 0 subscribe a --max 1 --timeout 20s
    run 0 status
    equals "$(lines out)" 1
    equals "$(_json '[(s["subscriber_id"], s["state"], s["lag"], s["owner"], s["dead_letters"]) for s in d["subscriptions"]]')" \
        "[('a', 'waiting', 1, None, 0), ('b', 'waiting', 0, None, 2)]"
    equals "$(_json 'd["dead_letters"], d["events"], d["head"], d["open_writers"]')" "(2, 2, 2, 0)"
    for key in store server bus schema_version last_recorded_at bytes; do
        _json "d['$key']" >/dev/null || fail "no $key"
    done
}

a_terminal_shows_tables() {
    events 2
    run 0 subscribe a-subscription-with-a-name-that-is-too-long-for-eighty-columns --until-caught-up
    run 0 subscribe mail --max 1 --pattern t --timeout 20s
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' sub ls"
    equals "$(head -n 1 out | tr -s ' ')" "subscription state at lag dead pattern owner"
    grep -q '^mail  *waiting  *1  *1  *0  *t  *-$' out || fail "no row"
    python3 -c 'import sys; sys.exit(max(len(l.rstrip("\n")) for l in open("out")) > 80)' || fail "too wide"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' sub show mail"
    grep -q '^handled up to   1$' out || fail "no position"
    grep -q '^owner           (nobody)$' out || fail "no owner"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' status"
    grep -q '^dead_letters  *0$' out || fail "no dead letters"
    grep -q '^mail  *waiting  *1  *1  *0  *t  *-$' out || fail "no row in status"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' sub pause mail"
    has out "mail is paused"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' sub skips"
    has out "nothing was skipped"
}

run_tests "$@"
