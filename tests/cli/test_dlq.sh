#!/bin/sh
# test_dlq.sh - howdah dlq: dead letters.
# shellcheck disable=SC2317
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

_json() {
    python3 -c 'import json, sys; d = json.loads(open(sys.argv[2]).read()); print(eval(sys.argv[1]))' \
        "$1" "${2:-out}"
}

# _dead NAME: everything in the log becomes a dead letter of that subscription.
_dead() {
    "$HOWDAH" subscribe "$1" --quiet --max-retries 0 --until-caught-up --exec 'echo "no stock" >&2; exit 1'
}

a_letter_has_the_fields_of_the_contract_and_the_payload_to_the_letter() {
    "$HOWDAH" append order-1 order.created '{"b": 1.50,
 "a":12345678901234567890}' >position
    _dead mail
    run 0 dlq ls
    equals "$(lines out)" 1
    equals "$(_json '" ".join(d)')" "id source subscriber_id event_id global_sequence stream version type error attempts redrives state reason created_at last_attempt_at resolved_at resolved_by data"
    equals "$(_json 'd["id"], d["source"], d["subscriber_id"], d["global_sequence"], d["stream"], d["version"], d["type"]')" \
        "(1, 'sub', 'mail', 1, 'order-1', 1, 'order.created')"
    equals "$(_json 'd["error"], d["attempts"], d["redrives"], d["state"], d["reason"], d["resolved_at"], d["resolved_by"]')" \
        "('no stock', 1, 0, 'dead', None, None, None)"
    equals "$(field event_id)" "$(field id position)"
    has out '"data":{"b": 1.50,  "a":12345678901234567890}}'
    _json 'd["created_at"]' | grep -q '^20[0-9-]*T[0-9:.]*Z$' || fail "created_at"
    cp out listed
    run 0 dlq show 1
    cmp out listed
}

bytes_are_shown_as_base64() {
    printf 'abc' | "$HOWDAH" append s t - --bytes text/plain >/dev/null
    _dead a
    run 0 dlq show 1
    equals "$(_json 'd["content_type"], d["data_base64"]')" "('text/plain', 'YWJj')"
}

ls_chooses_by_subscription_state_and_number() {
    events 3
    _dead a
    _dead b
    run 0 dlq ls
    equals "$(lines out)" 6
    run 0 dlq ls --sub b
    equals "$(field subscriber_id | sort | uniq -c | tr -s ' ')" " 3 b"
    run 0 dlq ls --limit 2
    equals "$(field id | tr '\n' ' ')" "1 2 "
    run 0 dlq discard 1 2 --reason "a test"
    run 0 dlq ls
    equals "$(field id | tr '\n' ' ')" "3 4 5 6 "
    run 0 dlq ls --all-states
    equals "$(field id | tr '\n' ' ')" "1 2 3 4 5 6 "
    run 0 dlq ls --sub nobody
    empty out
}

discard_resolves_with_a_reason() {
    events 2
    _dead a
    run 0 dlq discard 2 --reason "a test order"
    equals "$(cat out)" '{"marked":1,"state":"discarded"}'
    run 0 dlq show 2
    equals "$(_json 'd["state"], d["reason"]')" "('discarded', 'a test order')"
    [ "$(field resolved_by)" != null ] || fail "nobody resolved it"
    _json 'd["resolved_at"]' | grep -q '^20' || fail "resolved_at"
    equals "$(sub_field a dead_letters)" 1
    run 4 dlq discard 2 --reason again
    has err "1 of the dead letters do not exist, or are resolved already"
    run 0 dlq show 2
    equals "$(field reason)" "a test order"
}

redrive_is_tried_by_the_next_run_and_success_resolves_it() {
    events 3
    _dead a
    run 0 dlq redrive 1 3 3
    equals "$(cat out)" '{"marked":2,"state":"redrive"}'
    run 0 dlq ls
    equals "$(field state | tr '\n' ' ')" "redrive dead redrive "
    # shellcheck disable=SC2016
    run 0 subscribe a --until-caught-up --exec 'echo "$HOWDAH_SEQUENCE $HOWDAH_ATTEMPT"; [ "$HOWDAH_SEQUENCE" = 1 ]'
    equals "$(tr '\n' ' ' <out)" "1 2 3 2 "
    run 0 dlq ls --all-states
    equals "$(field state | tr '\n' ' ')" "redriven dead dead "
    equals "$(field attempts | tr '\n' ' ')" "2 1 2 "
    equals "$(field redrives | tr '\n' ' ')" "1 0 1 "
    equals "$(sub_field a dead_letters)" 2
}

redrive_all_takes_more_than_a_hundred_at_once() {
    events 250
    _dead a
    _dead b
    run 0 dlq redrive --all --sub a
    equals "$(cat out)" '{"marked":250,"state":"redrive"}'
    run 0 subscribe a --until-caught-up
    equals "$(field global_sequence | sort -n | uniq | wc -l | tr -d ' ')" 250
    equals "$(lines out)" 250
    equals "$(sub_field a dead_letters)" 0
    equals "$(sub_field b dead_letters)" 250
    run 0 dlq redrive --all
    equals "$(cat out)" '{"marked":250,"state":"redrive"}'
    run 0 dlq redrive --all
    equals "$(field state)" redrive
}

wrong_usage_is_refused() {
    events 1
    _dead a
    run 2 dlq
    has err "there are: ls show redrive discard"
    run 2 dlq redriv 1
    has err "did you mean dlq redrive?"
    run 2 dlq show
    run 2 dlq redrive
    has err "dlq redrive ID... | --all [--sub NAME]"
    run 2 dlq redrive 1 --all
    run 2 dlq redrive 1 --sub a
    run 2 dlq redrive --sub a
    run 2 dlq discard 1
    has err "dlq discard needs --reason"
    run 2 dlq discard --reason x
    run 2 dlq ls --reason x
    run 2 dlq ls --queue mail
    has err "not in this version"
    run 6 dlq show x
    run 6 dlq show 0
    run 6 dlq redrive 1 two
    run 6 dlq ls --limit 0
    run 6 dlq discard 1 --reason ""
    run 4 dlq show 9
    has err "there is no dead letter 9"
    run 4 dlq redrive 9
    run 0 dlq show 1
    equals "$(field state)" dead
    run 4 dlq redrive 1 9
    run 0 dlq show 1
    equals "$(field state)" redrive
}

a_terminal_shows_a_table_and_one_letter_whole() {
    "$HOWDAH" append order-1 order.created '{"n":1}' >/dev/null
    _dead mail
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq ls"
    equals "$(head -n 1 out | tr -s ' ')" "id subscription seq type tries state error"
    grep -q '^ *1  mail  *1  order.created  *1  dead   no stock$' out || fail "no row"
    python3 -c 'import sys; sys.exit(max(len(l.rstrip("\n")) for l in open("out")) > 80)' || fail "too wide"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq show 1"
    grep -q '^error           no stock$' out || fail "no error"
    grep -q '^data            {"n":1}$' out || fail "no payload"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq redrive 1"
    has out "1 dead letter: redrive"
    in_terminal 80 "NO_COLOR=1 '$HOWDAH' dlq ls --sub other"
    has out "no dead letters"
}

run_tests "$@"
